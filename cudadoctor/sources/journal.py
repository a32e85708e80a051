"""What `cudadoctor fix --apply` did, so that it can be undone: steps and values, never commands.

One JSON object a line, in the user's state folder (XDG_STATE_HOME). A line is on the disk before its step begins. Read again only where
the file and its folder belong to this user and nobody else may write them.
"""

from __future__ import annotations

import os
import stat
import time
from typing import Literal

import msgspec

NAME = "applied.jsonl"
State = Literal["begun", "done", "failed", "undone", "kept"]  # kept: undo was asked for, and there was none
_MOST = 1 << 22  # bytes read


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
    packages: tuple[str, ...] | None = None  # that it had before: name==version; None: not known
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
    path = os.path.join(folder(), NAME)
    try:
        os.makedirs(folder(), mode=0o700, exist_ok=True)
        _trusted(folder())
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            _trusted(path, os.fstat(descriptor))
            # A disk that was full may have left a part of a line, which ends here.
            line = b"\n" * _torn(descriptor) + msgspec.json.encode(entry) + b"\n"
            if os.write(descriptor, line) != len(line):
                raise JournalError(f"{path}: the disk took only a part of a line")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise JournalError(f"{path}: {error.strerror}") from error


def read() -> tuple[Entry, ...]:
    """Every entry, oldest first; () where there is no journal. JournalError where it may not be trusted or read."""
    path = os.path.join(folder(), NAME)
    try:
        _trusted(folder())
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise JournalError(f"{path}: {error.strerror}") from error
    with open(descriptor, "rb") as stream:
        _trusted(path, os.fstat(descriptor))
        lines = stream.read(_MOST).splitlines()
    found = []
    for line in lines:
        try:
            found.append(msgspec.json.decode(line, type=Entry))
        except msgspec.DecodeError:
            continue  # the last line of a full disk, or another version's
    return tuple(found)


def last_run(entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """The steps of the last --apply that were begun and not undone, in the order in which to undo them."""
    states: dict[tuple[str, int], Entry] = {}
    for entry in entries:
        states[entry.run, entry.number] = entry
    left = [entry for entry in states.values() if entry.state not in ("undone", "kept")]
    last = left[-1].run if left else None
    return tuple(entry for entry in reversed(left) if entry.run == last)


def _torn(descriptor: int) -> bool:
    size = os.fstat(descriptor).st_size
    return size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"


def now() -> float:
    return round(time.time(), 3)


def _trusted(path: str, info: os.stat_result | None = None) -> None:
    info = os.lstat(path) if info is None else info
    if stat.S_ISLNK(info.st_mode) or info.st_uid != os.geteuid() or info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise JournalError(f"{path} is a link, or another user may write it: it is not used")
