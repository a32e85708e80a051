"""Recordings: evidence in a directory or a .tar.gz of one, format cudadoctor-recording/1.

`recording.json` lists the items; their texts lie under `evidence/`. An item that is not listed was not recorded: unknown, never
absent. Recordings come from strangers: only plain files inside the archive are read, with limits on their number and size, on what the
archive's own headers hold, and on the texts of all items together (several may name one file).
"""

from __future__ import annotations

import io
import os
import re
import secrets
import stat
import tarfile
import zlib
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Literal

import msgspec

from cudadoctor import __version__
from cudadoctor.model.evidence import Evidence, Item, Kind, Status
from cudadoctor.sources import archives, torn, trust, writing
from cudadoctor.sources.decoding import LONG, NARROWED, narrow

FORMAT: Literal["cudadoctor-recording/1"] = "cudadoctor-recording/1"
MAX_FILES = 500
MAX_BYTES = 64 << 20  # of one recording, unpacked
MAX_TEXTS = 4  # that somebody pasted; a recording has one, and each is read by all that knows messages
MAX_NUMBER = 1 << 53  # of an exit, a signal, bytes
MAX_HEAD = 4 << 20  # of recording.json
MAX_NAME = 200  # characters of the tool whose bundle it was cut from
MAX_WORD = 5000  # of a path, the longest that it says of the machine
_IN_FULL = 16 << 20  # bytes of a recording whose letters of other scripts are read
MEMBER = "recording.json"
_LOG = "kernel-log"  # what happened last counts most
_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,100}")
_NOT_IN_NAME = re.compile(r"[^\w.-]")


class RecordingError(Exception):
    """The recording cannot be read; the message says what is wrong with it."""


# A later release may add fields; what this one does not know of them it does not need.
class RecordedItem(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    kind: Kind
    what: tuple[str, ...] | str
    status: Status
    why: str | None = None
    exit: int | None = None
    signal: int | None = None
    stdout: str | None = None  # path inside the recording
    stderr: str | None = None
    size: int | None = None  # bytes of both files: what is shorter now was cut. None in older recordings
    crc32: int | None = None  # of both, one behind the other
    dropped_bytes: int = 0
    seconds: float = 0.0
    excerpt: bool = False


class RecordedOrigin(msgspec.Struct, frozen=True, kw_only=True):
    platform: str
    redacted: bool
    python: str | None = None
    python_why: str | None = None
    quick: bool = False
    distro: str | None = None
    bundle: str | None = None  # what the evidence was cut from, where no host of ours collected it
    host: str | None = None
    boot_id: str | None = None
    time: str | None = None
    node: str | None = None
    remarks: tuple[str, ...] = ()


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    format: Literal["cudadoctor-recording/1"]
    tool: str
    origin: RecordedOrigin
    evidence: tuple[RecordedItem, ...]
    note: str | None = None  # where a fixture comes from
    crc32: int | None = None  # of this file with null in this place, which is its last; None in older recordings


def files_of(evidence: Evidence) -> dict[str, bytes]:
    """The recording's files by their path inside it."""
    files: dict[str, bytes] = {}

    def keep(item: Item, stream: str, text: str | None) -> str | None:
        if text is None:
            return None
        path = f"evidence/{_NOT_IN_NAME.sub('_', item.id)}.{stream}.txt"
        files[path] = text.encode("utf-8", "replace")
        return path

    def recorded(item: Item) -> RecordedItem:
        paths = {"stdout": keep(item, "out", item.stdout), "stderr": keep(item, "err", item.stderr or None)}
        kept = b"".join(files[path] for path in paths.values() if path is not None)
        more = {**paths, "size": len(kept), "crc32": zlib.crc32(kept), "seconds": round(item.seconds, 4)}
        return RecordedItem(**{**_fields(item, RecordedItem), **more})

    items = tuple(map(recorded, evidence.items))
    origin = RecordedOrigin(**_fields(evidence, RecordedOrigin))
    head = Recording(format=FORMAT, tool=f"cudadoctor {__version__}", origin=origin, evidence=items)
    files[MEMBER] = torn.summed(msgspec.json.format(msgspec.json.encode(head), indent=1) + b"\n")
    return files


def _fields(of: msgspec.Struct, kind: type[msgspec.Struct]) -> dict[str, Any]:
    """What is recorded under the same name."""
    return {name: getattr(of, name) for name in kind.__struct_fields__ if hasattr(of, name)}


def is_archive(target: str) -> bool:
    return target.endswith((".tar.gz", ".tgz"))


def refused(target: str, *, force: bool = False) -> str | None:
    """Why no recording may be written there: nothing is replaced without `force`, and no link is followed with it."""
    if hasattr(os, "geteuid") and os.path.isdir(target) and os.stat(target).st_uid != os.geteuid():
        return f"{target} belongs to another user, who could lead what is written elsewhere"
    try:
        folder = os.path.dirname(os.path.abspath(target))
    except OSError:
        return "the working directory was deleted: name a whole path"
    if is_archive(target) and not os.path.isdir(folder):
        return f"{folder} is no folder"
    if os.path.islink(target):
        return f"{target} is a link, which is not followed: name the place itself"
    strange = trust.strange_link(target)
    if strange is not None:
        return f"{strange} is a link that another user made: name the place itself"
    above = target if os.path.isdir(target) else folder
    while not os.path.isdir(above) and above != os.path.dirname(above):
        above = os.path.dirname(above)
    if not os.access(above, os.W_OK | os.X_OK):
        return f"nothing can be written to {above}"
    if not os.path.lexists(target):
        return None
    if os.path.isdir(target) == is_archive(target) or not (os.path.isdir(target) or os.path.isfile(target)):
        return f"{target} is no {'file' if is_archive(target) else 'folder'}"
    holds = _is_recording(target)
    if (force and (holds or is_archive(target))) or (os.path.isdir(target) and not os.listdir(target)):
        return None
    said = "already holds a recording" if holds else "is not empty" if os.path.isdir(target) else "is there already"
    return f"{target} {said}: name another place{', or replace it with --force' if holds or is_archive(target) else ''}"


def _is_recording(folder: str) -> bool:
    """Whether it is one of ours, and nothing else lies among its evidence: that may be replaced as a whole."""
    member = os.path.join(folder, MEMBER)
    if not os.path.isfile(member):  # a pipe would hold whoever opens it
        return False
    try:
        with open(member, "rb") as stream:
            head = _head(folder, stream.read(MAX_HEAD + 1))
        listed = {path for item in head.evidence for path in (item.stdout, item.stderr)}
        return all(f"evidence/{name}" in listed for name in os.listdir(os.path.join(folder, "evidence")))
    except FileNotFoundError as error:
        return bool(error.filename != member)  # one of nothing has no folder for it
    except (OSError, RecordingError):
        return False


def write(evidence: Evidence, target: str, *, force: bool = False) -> None:
    """Write a recording: an archive where the name ends in .tar.gz or .tgz, else a directory. For the owner's eyes alone (mode 0600).

    Every file is created anew and none is written through a link. RecordingError where something is there that is not to be replaced.
    """
    files = files_of(evidence)
    why = refused(target, force=force)
    if why is not None:
        raise RecordingError(why)
    above, name = os.path.split(target.rstrip(os.sep))
    made: list[str] = []
    try:
        if is_archive(target):
            with writing.held(above or os.curdir) as place:
                _write_archive(files, os.path.join(place, name), force=force)
        else:
            with writing.held(target, made) as place:
                _refuse_what_others_name(target, place, is_new=bool(made))
                _write_folder(files, place, force=force)
    except BaseException as error:
        if made:
            with suppress(OSError), writing.held(above or os.curdir) as place:
                os.rmdir(os.path.join(place, name))
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror, target) from error
        raise


def _refuse_what_others_name(target: str, folder: str, *, is_new: bool) -> None:
    """RecordingError where somebody else may give other names to what is written there: its owner, everybody, for root also a group."""
    if not hasattr(os, "geteuid"):
        return
    info = os.stat(folder)
    if info.st_uid != os.geteuid() and (not is_new or os.geteuid() == 0):
        raise RecordingError(f"{target} belongs to another user, who could lead what is written elsewhere; name a .tar.gz")
    others = stat.S_IWOTH | (stat.S_IWGRP if info.st_uid == 0 and info.st_gid != 0 else 0)
    if info.st_mode & others and not info.st_mode & stat.S_ISVTX and not is_new:  # some show every folder so (drvfs, vfat, CIFS)
        raise RecordingError(
            f"{target} may be written by other users, who could lead what is written elsewhere; name a new folder, or a .tar.gz"
        )


def _write_folder(files: dict[str, bytes], target: str, *, force: bool) -> None:
    """In a folder of its own first; what is there is put aside until the new one is in its place. A recording that is broken off takes
    nothing away, and leaves nothing.
    """
    partial, aside = (os.path.join(target, f"{secrets.token_hex(8)}.{kind}") for kind in ("partial", "before"))
    names = ("evidence", MEMBER)  # what says that it is whole comes last, and goes first
    moves = [(target, aside, name) for name in names[::-1] if force] + [(partial, target, name) for name in names]
    begun: list[tuple[str, str, str]] = []
    try:
        for folder in (partial, os.path.join(partial, "evidence"), *([aside] if force else [])):
            os.mkdir(folder, 0o700)
        for name, content in files.items():
            with writing.new(os.path.join(partial, *name.split("/"))) as stream:
                stream.write(content)
        for source, goal, name in moves:
            begun.append((source, goal, name))  # before it is done: a signal may come right behind it
            if goal != aside or os.path.lexists(os.path.join(source, name)):
                os.rename(os.path.join(source, name), os.path.join(goal, name))
    except BaseException:
        for source, goal, name in reversed(begun):
            with suppress(FileNotFoundError):
                os.rename(os.path.join(goal, name), os.path.join(source, name))
        raise
    finally:
        writing.remove(partial)
        writing.remove(aside)


def _write_archive(files: dict[str, bytes], target: str, *, force: bool) -> None:
    """Under another name first where an archive is to be replaced: one that is broken off takes nothing away."""
    partial = f"{target}.{secrets.token_hex(8)}.partial" if force else target
    try:
        with writing.new(partial) as stream, tarfile.open(fileobj=stream, mode="w:gz") as archive:
            for name, content in sorted(files.items(), key=lambda file: (file[0] != MEMBER, file[0])):  # a reader knows it by the first
                member = tarfile.TarInfo(name)
                member.size, member.mode = len(content), 0o600
                archive.addfile(member, io.BytesIO(content))
        if force:
            os.replace(partial, target)
    except FileExistsError:
        raise
    except BaseException:  # a full disk, or Ctrl-C
        writing.remove(partial)
        raise


def _opened(path: Path, body: bytes | None) -> IO[bytes]:
    return path.open("rb") if body is None else io.BytesIO(body)


def _archive_files(path: Path, body: bytes | None) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    total = 0
    try:
        with _opened(path, body) as packed, tarfile.open(
            fileobj=archives.InTime(packed), mode="r:*", tarinfo=archives.kind_of_members()
        ) as archive:
            for number, member in enumerate(archives.members(archive)):
                total += member.size
                if number >= MAX_FILES or total > MAX_BYTES:
                    raise RecordingError(f"{path}: more than {MAX_FILES} files or {MAX_BYTES >> 20} MiB; not read")
                if member.isdir():
                    continue
                name = _name_inside(path, member)
                if name in files:
                    raise RecordingError(f"{path}: {name!r} is in it twice; not read")
                stream = archive.extractfile(member)
                files[name] = stream.read() if stream else b""
    except archives.DAMAGED as error:
        raise RecordingError(f"{path}: not a whole .tar.gz ({archives.what_is_wrong(error)})") from error
    return files


def _name_inside(path: Path, member: tarfile.TarInfo) -> str:
    """The name of a plain file within the recording. A directory may have been packed with its own name in front."""
    if not member.isreg():
        raise RecordingError(f"{path}: {member.name!r} is a link or device; not read")
    if member.name.startswith("/") or ".." in member.name.split("/"):
        raise RecordingError(f"{path}: {member.name!r} lies outside the recording; not read")
    name = member.name[2:] if member.name.startswith("./") else member.name
    return name if name == MEMBER or name.startswith("evidence/") else name.partition("/")[2]


def _directory_file(path: Path, name: str) -> bytes:
    root = Path(os.path.realpath(path))  # Path.resolve fails for a link that leads to itself
    target = Path(os.path.realpath(root / name.replace("\0", "\ufffd")))
    if root not in target.parents or not os.path.isfile(target):  # false as well where the name is too long to be one
        raise RecordingError(f"{path}: {name!r} is missing or lies outside the recording")
    if target.stat().st_size > MAX_BYTES:
        raise RecordingError(f"{path}: {name!r} is larger than {MAX_BYTES >> 20} MiB")
    return target.read_bytes()


def _head(source: str, body: bytes) -> Recording:
    """What recording.json lists. RecordingError where it is of another format, or has a piece of evidence as no probe makes it."""
    if len(body) > MAX_HEAD:
        raise RecordingError(f"{source}: {MEMBER} is larger than {MAX_HEAD >> 20} MiB; not read")
    try:
        head = msgspec.json.decode(body, type=Recording)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise RecordingError(f"{source}: recording.json is not of format {FORMAT}: {error}") from error
    if len(head.origin.bundle or "") > MAX_NAME:
        raise RecordingError(f"{source}: recording.json names a tool in more than {MAX_NAME} characters")
    said = _fields(head.origin, RecordedOrigin)
    long = next((name for name, value in said.items() if isinstance(value, str) and len(value) > MAX_WORD), None)
    if long is not None:
        raise RecordingError(f"{source}: recording.json has a {long} of more than {MAX_WORD} characters")
    names = [item.id for item in head.evidence]
    odd = next((item.id for item in head.evidence if not (_ID.fullmatch(item.id) and item.what and _in_range(item))), None)
    if odd is not None:
        raise RecordingError(f"{source}: recording.json lists {odd[:100]!r}, which names no piece of evidence")
    if len(names) > MAX_FILES or len(set(names)) < len(names):
        raise RecordingError(f"{source}: recording.json lists more than {MAX_FILES} pieces of evidence, or one of them twice")
    if sum(item.kind == "text" for item in head.evidence) > MAX_TEXTS:
        raise RecordingError(f"{source}: recording.json lists more than {MAX_TEXTS} texts")
    return head


def _in_range(item: RecordedItem) -> bool:
    """Whether its numbers are some that an exit, a signal or a count of bytes may be."""
    return all(abs(number) < MAX_NUMBER for number in (item.exit or 0, item.signal or 0, item.dropped_bytes, item.size or 0))


def _item(recorded: RecordedItem, *streams: bytes | None, most: int) -> Item:
    """With its output. What somebody pasted is read as a whole; of a longer output of a probe the beginning, of a log the end.

    `most`: bytes of one that may have letters of other scripts.
    """
    part = slice(None) if recorded.kind == "text" else slice(-LONG, None) if recorded.id == _LOG else slice(LONG)
    kept = [stream if stream is None else stream[part] for stream in streams]
    dropped = sum(len(stream or b"") for stream in streams) - sum(len(stream or b"") for stream in kept)
    stdout, stderr = (None if stream is None else narrow(stream, most).decode("utf-8", "replace") for stream in kept)
    read = {"stdout": stdout, "stderr": stderr, "dropped_bytes": recorded.dropped_bytes + dropped}
    return Item(**{**_fields(recorded, Item), **read, "origin": "text" if recorded.kind == "text" else "recording"})


_MOST_REMARKS, _LONGEST_REMARK = 200, 1000  # the doctor makes a few, of a line each


def read(source: str, body: bytes | None = None) -> Evidence:
    """The evidence of a recording, or of an archive's content that came without a file; RecordingError with what is wrong with it."""
    path = Path(source)
    if body is None and not path.exists():
        raise RecordingError(f"{source}: no such file or directory")
    archive = None if body is None and path.is_dir() else _archive_files(path, body)

    def content(name: str) -> bytes:
        if archive is None:
            return _directory_file(path, name)
        if name not in archive:
            raise RecordingError(f"{source}: {name!r} is missing from the archive")
        return archive[name]

    listed = content(MEMBER)
    head = _head(source, listed)
    total = 0

    def stream(name: str | None) -> bytes | None:
        nonlocal total
        if name is None:
            return None
        body = content(name)
        total += len(body)
        if total > MAX_BYTES:
            raise RecordingError(f"{source}: its texts have more than {MAX_BYTES >> 20} MiB; not read")
        return body

    items, origin = [], _fields(head.origin, RecordedOrigin)
    origin["remarks"] = tuple(remark[:_LONGEST_REMARK] for remark in origin["remarks"][:_MOST_REMARKS])
    if head.crc32 is not None and torn.summed(listed) != listed:
        origin.update(cut_short=True, remarks=(*origin["remarks"], f"{MEMBER} was damaged, or changed, since it was recorded"))
    for recorded in head.evidence:
        streams = stream(recorded.stdout), stream(recorded.stderr)
        item = _item(recorded, *streams, most=NARROWED if total < _IN_FULL else 0)
        lost = torn.bytes_lost(recorded.size, *streams, worker=recorded.kind == "worker")
        if item.dropped_bytes > recorded.dropped_bytes and item.id != _LOG:
            said = f"of {item.id} only the first {LONG >> 20} MiB were read, which is more than any machine says"
            origin.update(cut_short=True, remarks=(*origin["remarks"], said))
        if lost or torn.is_other(recorded.crc32, *streams):
            item = msgspec.structs.replace(item, dropped_bytes=item.dropped_bytes + max(lost, 1))
            said = "is not whole: the recording lost a part of it" if lost else "was damaged, or changed, since it was recorded"
            origin.update(cut_short=True, remarks=(*origin["remarks"], f"{item.id} {said}"))
        items.append(item)
    return Evidence(items=tuple(items), origin="recording", **origin)
