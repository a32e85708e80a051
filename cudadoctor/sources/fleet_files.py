"""What `cudadoctor fleet` is given: reports as JSON (one, or one a line), recordings, bug reports, and folders and archives of them.

Nothing that cannot be read ends the run: it becomes a sentence. What a piece means is decided elsewhere (fleet/nodes.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import IO, NamedTuple

import msgspec

from cudadoctor.model.report import SCHEMA
from cudadoctor.sources import inputs, recording
from cudadoctor.sources.bundles import must_gather, packed, unpacking

LARGEST = 256 << 20  # bytes of one file, some 3,000 reports; there may be any number of files
_REPORTS = (".json", ".jsonl", ".ndjson")
_PACKED = tuple(f"{report}.{packer}" for report in _REPORTS for packer in ("gz", "xz", "bz2", "zst"))  # not read, which is said
_MOST_NAMED = 3  # files that were not read
_NO_FILE = "a link, a pipe or a device, which is not followed: name it itself"
_ARCHIVES = (
    ".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2", ".tbz2", ".tbz", ".tar.zst", ".tzst", ".zip",
)  # fmt: skip


class Piece(NamedTuple):
    """One thing that was found: reports as `body`, a recording or bug report as its path, or `why` there is nothing; a `note`."""

    source: str
    body: bytes | None = None
    recording: str | None = None
    why: str | None = None
    note: str | None = None


def pieces(paths: Iterable[str], stdin: IO[bytes]) -> Iterator[Piece]:
    """Everything below these paths, in order; `-` is standard input."""
    for path in paths:
        if path == "-":
            content = inputs.of_stream(stdin, "standard input", lambda _: LARGEST)
            yield Piece("standard input", body=content.body)
            yield from _left_out("standard input", content)
        elif os.path.isdir(path):
            yield from _of_folder(path)
        else:
            yield from _of_file(path)


def _left_out(source: str, content: inputs.Content) -> Iterator[Piece]:
    if content.left_out is not None:
        yield Piece(source, why=f"only its first {LARGEST >> 20} MiB were read; give the reports as several files")


def _of_folder(path: str) -> Iterator[Piece]:
    """A recording, or whatever in it looks like reports and recordings by its name. Links are not followed."""
    try:
        waiting, within = [path], os.path.join(os.path.realpath(path), "")
    except OSError as error:  # the working directory was deleted
        yield Piece(path, why=f"{error.strerror}")
        return
    recordings: set[str] = set()  # and what lies in them
    others: list[str] = []
    while waiting:
        folder = waiting.pop()
        if os.path.isfile(os.path.join(folder, recording.MEMBER)):
            yield Piece(folder, recording=folder)
            recordings.add(folder)
        of_recording = folder in recordings
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            yield Piece(folder, why=f"{error.strerror}")
            continue
        below = [entry.path for entry in reversed(entries) if entry.is_dir(follow_symlinks=False)]
        for entry in entries:
            if entry.is_dir(follow_symlinks=False) or entry.name == recording.MEMBER:
                continue
            if not entry.is_file(follow_symlinks=False):
                if (_may_be_one(entry.name) or os.path.isdir(entry.path)) and not _is_read_itself(entry.path, within):
                    yield Piece(entry.path, why=_NO_FILE)
            elif _may_be_one(entry.name):
                yield from (piece for piece in _of_file(entry.path) if not of_recording or _is_no_note(piece))
            elif not of_recording:
                others.append(os.path.relpath(entry.path, path))
        recordings.update(below if of_recording else ())
        waiting += below
    if others:
        named = ", ".join(others[:_MOST_NAMED]) + (f" and {len(others) - _MOST_NAMED} more" if len(others) > _MOST_NAMED else "")
        yield Piece(path, note=f"Not read in {path}: {named}. The names of reports end in {', '.join(_REPORTS)}")


def _may_be_one(name: str) -> bool:
    return _ends(name, *_REPORTS, *_ARCHIVES, *_PACKED) or must_gather.is_bug_report(name)


def _is_read_itself(link: str, within: str) -> bool:
    """Whether what a link leads to is read by its own name, as `latest` is."""
    target = os.path.realpath(link)
    return os.path.join(target, "").startswith(within) and (
        os.path.isdir(target) or (os.path.isfile(target) and _may_be_one(os.path.basename(target)))
    )


def _of_file(path: str) -> Iterator[Piece]:
    if must_gather.is_bug_report(path):
        yield Piece(path, recording=path)
        return
    try:
        content = inputs.of_path(path, lambda _: LARGEST)
        body = content.body
        allowance = packed.Allowance(len(body))
        if not unpacking.is_archive(body, allowance):
            yield Piece(path, body=body)
            yield from _left_out(path, content)
            return
        held = unpacking.unpacked(body, _is_report, allowance)
    except (inputs.InputError, packed.BundleError) as error:
        yield Piece(path, why=str(error).removeprefix(f"{path}: "))
        return
    recordings = [name for name in held.names if name.rpartition("/")[2] == recording.MEMBER]
    if recordings:
        yield Piece(path, recording=path)
    for name, member in (*held.earlier, *held.members.items()):
        piece = Piece(f"{path}:{name}", body=member)
        yield from [piece] if not recordings or _is_no_note(piece) else []
    there = frozenset(held.names)
    for name, target in held.links.items():
        if _is_report(name) and not (target in there and _is_report(target)):
            yield Piece(f"{path}:{name}", why=_NO_FILE)
    for name in held.names:
        if _ends(name, *_PACKED, *_ARCHIVES) or must_gather.is_bug_report(name):
            yield Piece(f"{path}:{name}", why="packed within an archive: unpack it")
    for remark in held.remarks:
        yield Piece(path, why=remark)
    if (
        not any(_is_report(name) or _ends(name, *_PACKED, *_ARCHIVES) for name in (*held.names, *held.links))
        and not held.remarks + recordings
    ):
        yield Piece(path, why="an archive without reports")


def _is_no_note(piece: Piece) -> bool:
    """Whether what lies beside a recording, or below it, may be more than its owner's notes on it: all but JSON that is no report."""
    try:
        found = msgspec.json.decode(piece.body or b"", type=_Headed)
    except msgspec.DecodeError:
        return True
    return (found.schema or "").startswith(f"{SCHEMA.partition('/')[0]}/")


class _Headed(msgspec.Struct):
    """Of an object in JSON only what says what it is: all of one may take many times its size in memory."""

    schema: str | None = None


def _ends(name: str, *endings: str) -> bool:
    return name.lower().endswith(endings)


def _is_report(name: str) -> bool:
    return _ends(name, *_REPORTS) and name.rpartition("/")[2] != recording.MEMBER
