"""What `cudadoctor fix --apply` did, so that it can be undone: steps and values, never commands.

One JSON object a line, in the user's state folder (XDG_STATE_HOME). A line is on the disk before its step begins. Written and read only
where the file and its folder belong to this user, nobody else may write them, and as root nobody else may change the way to them.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import msgspec

from cudadoctor.sources import trust, writing

NAME = "applied.jsonl"
State = Literal["begun", "done", "failed", "undone", "kept"]  # kept: undo was asked for, and there was none
_MOST = 1 << 22  # bytes read, from the end: what counts is the last run


class JournalError(Exception):
    """It cannot be written or may not be trusted; the message says why."""


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One step at one moment. `run`: all steps of one --apply share it."""

    run: str
    time: float
    cause: str
    number: int  # of the step in its run
    step: str
    values: dict[str, tuple[str, ...]]
    python: str = ""  # the interpreter whose packages the step changed
    tool: str = ""  # pip or uv
    packages: tuple[str, ...] | None = None  # that it had before: name==version, name @ address; None: not known
    packages_after: tuple[str, ...] | None = None  # and when the step had ended; None: not known, for it did not come to that
    files: dict[str, str] | None = None  # what its undo replaces or removes, as it was before: by a checksum
    files_after: dict[str, str] | None = None  # and when the step had ended; None: not known
    state: State
    version: str


def folder() -> str:
    """Where the journal lies. JournalError where this user has no home."""
    state = os.environ.get("XDG_STATE_HOME", "")
    base = state if os.path.isabs(state) else os.path.join(os.path.expanduser("~"), ".local", "state")
    if not os.path.isabs(base):
        raise JournalError("this user has no home folder to keep a journal in")
    return os.path.join(base, "cudadoctor")


def write(entry: Entry) -> None:
    """Appends, down to the disk. JournalError where that is not possible: then the step must not begin."""
    with _opened(os.O_RDWR | os.O_APPEND | os.O_CREAT) as descriptor:
        # A disk that was full may have left a part of a line, which ends here.
        line = b"\n" * _torn(descriptor) + msgspec.json.encode(entry) + b"\n"
        if os.write(descriptor, line) != len(line):
            raise JournalError(f"{NAME}: the disk took only a part of a line")
        os.fsync(descriptor)


def read() -> tuple[Entry, ...]:
    """The entries, oldest first; () where there is no journal. JournalError where it may not be trusted or read."""
    try:
        with _opened(os.O_RDONLY) as descriptor, open(descriptor, "rb", closefd=False) as stream:
            stream.seek(max(0, os.fstat(descriptor).st_size - _MOST))
            lines = stream.read(_MOST).splitlines()
    except FileNotFoundError:
        return ()
    found = []
    for line in lines:
        try:
            if b"\\u0000" not in line:  # no path and no word of a command holds it
                found.append(msgspec.json.decode(line, type=Entry))
        except msgspec.ValidationError as error:  # an older run may be undone only where all that came later is known
            raise JournalError(f"{NAME}: a line is no entry of this release ({error}); what it did is not known") from error
        except msgspec.DecodeError:
            continue  # a part of a line: the last one of a full disk, or the first one that is read
    return tuple(found)


def last_run(entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """The steps of the last --apply that were begun and not undone, in the order in which to undo them."""
    states = {(entry.run, entry.number): entry for entry in entries}
    left = [entry for entry in states.values() if entry.state not in ("undone", "kept")]
    last = left[-1].run if left else None
    return tuple(entry for entry in reversed(left) if entry.run == last)


@contextmanager
def alone() -> Iterator[int]:
    """Within this block no other process carries steps out or undoes them: while anybody holds the descriptor that it gives. JournalError
    where one does."""
    import fcntl

    with _opened(os.O_RDWR | os.O_APPEND | os.O_CREAT) as descriptor:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise JournalError("another cudadoctor carries steps out, or undoes them, at this moment") from None
        held = os.dup(descriptor)
    try:
        yield held
    finally:
        os.close(held)


def _torn(descriptor: int) -> bool:
    size = os.fstat(descriptor).st_size
    return size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"


def now() -> float:
    return round(time.time(), 3)


@contextmanager
def _opened(flags: int) -> Iterator[int]:
    """The journal, where neither a link on the way to it nor another user's rights may lead elsewhere. FileNotFoundError: there is none."""
    path = os.path.join(folder(), NAME)
    try:
        _trusted(path, trust.led_elsewhere(path))
        if flags & os.O_CREAT:
            os.makedirs(folder(), mode=0o700, exist_ok=True)
        _trusted(folder(), _others(os.lstat(folder())))
        with writing.held(folder()) as place:
            descriptor = os.open(os.path.join(place, NAME), flags | writing.SAFELY, 0o600)
        try:
            _trusted(path, _others(os.fstat(descriptor)))
            yield descriptor
        finally:
            os.close(descriptor)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not flags & os.O_CREAT:
            raise
        raise JournalError(f"{path}: {error.strerror or error}") from error


def _trusted(path: str, why: str | None) -> None:
    if why is not None:
        raise JournalError(f"{path} {why}: it is not used")


def _others(info: os.stat_result) -> str | None:
    own = not stat.S_ISLNK(info.st_mode) and info.st_uid == os.geteuid() and not info.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return None if own else "is a link, or may be written by another user"
