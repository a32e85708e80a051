"""Recordings: evidence in a directory or a .tar.gz of one, format cudadoctor-recording/1.

`recording.json` lists the items; their texts lie under `evidence/`. An item that is not listed was not recorded: unknown, never
absent. Recordings come from strangers: only plain files inside the archive are read, with limits on their number and size.
"""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path
from typing import Literal

import msgspec

from cudadoctor import __version__
from cudadoctor.model.evidence import Evidence, Item, Kind, Status

FORMAT: Literal["cudadoctor-recording/1"] = "cudadoctor-recording/1"
MAX_FILES = 500
MAX_BYTES = 64 << 20  # of one recording, unpacked
MEMBER = "recording.json"


class RecordingError(Exception):
    """The recording cannot be read; the message says what is wrong with it."""


class RecordedItem(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str
    kind: Kind
    what: tuple[str, ...] | str
    status: Status
    why: str | None = None
    exit: int | None = None
    signal: int | None = None
    stdout: str | None = None  # path inside the recording
    stderr: str | None = None
    dropped_bytes: int = 0
    seconds: float = 0.0
    excerpt: bool = False


class RecordedOrigin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    platform: str
    redacted: bool
    python: str | None = None
    python_why: str | None = None
    quick: bool = False
    distro: str | None = None
    bundle: str | None = None  # what the evidence was cut from, where no host of ours collected it
    node: str | None = None
    remarks: tuple[str, ...] = ()


class Recording(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: Literal["cudadoctor-recording/1"]
    tool: str
    origin: RecordedOrigin
    evidence: tuple[RecordedItem, ...]
    note: str | None = None  # where a fixture comes from


def files_of(evidence: Evidence) -> dict[str, bytes]:
    """The recording's files by their path inside it."""
    files: dict[str, bytes] = {}

    def keep(item: Item, stream: str, text: str | None) -> str | None:
        if text is None:
            return None
        path = f"evidence/{item.id}.{stream}.txt"
        files[path] = text.encode("utf-8", "replace")
        return path

    items = tuple(
        RecordedItem(
            id=item.id,
            kind=item.kind,
            what=item.what,
            status=item.status,
            why=item.why,
            exit=item.exit,
            signal=item.signal,
            stdout=keep(item, "out", item.stdout),
            stderr=keep(item, "err", item.stderr or None),
            dropped_bytes=item.dropped_bytes,
            seconds=round(item.seconds, 4),
            excerpt=item.excerpt,
        )
        for item in evidence.items
    )
    origin = RecordedOrigin(
        platform=evidence.platform,
        redacted=evidence.redacted,
        python=evidence.python,
        python_why=evidence.python_why,
        quick=evidence.quick,
        distro=evidence.distro,
        bundle=evidence.bundle,
        node=evidence.node,
        remarks=evidence.remarks,
    )
    head = Recording(format=FORMAT, tool=f"cudadoctor {__version__}", origin=origin, evidence=items)
    files[MEMBER] = msgspec.json.format(msgspec.json.encode(head), indent=1) + b"\n"
    return files


def write(evidence: Evidence, target: str) -> None:
    """Write a recording: an archive where the name ends in .tar.gz or .tgz, else a directory that must not hold one yet."""
    files = files_of(evidence)
    path = Path(target)
    if path.name.endswith((".tar.gz", ".tgz")):
        partial = path.with_name(path.name + ".partial")
        with tarfile.open(partial, "w:gz") as archive:
            for name, content in sorted(files.items()):
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        os.replace(partial, path)
        return
    if (path / MEMBER).exists():
        raise RecordingError(f"{target} already holds a recording")
    (path / "evidence").mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (path / name).write_bytes(content)


def _archive_files(path: Path) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    total = 0
    try:
        with tarfile.open(path, "r:*") as archive:
            for number, member in enumerate(archive):
                total += max(0, member.size)
                if number >= MAX_FILES or total > MAX_BYTES:
                    raise RecordingError(f"{path}: more than {MAX_FILES} files or {MAX_BYTES >> 20} MiB; not read")
                if not member.isfile():
                    if member.isdir():
                        continue
                    raise RecordingError(f"{path}: {member.name!r} is a link or device; not read")
                stream = archive.extractfile(member)
                name = member.name[2:] if member.name.startswith("./") else member.name
                # A directory may have been packed with its own name in front.
                files[name if name == MEMBER or name.startswith("evidence/") else name.partition("/")[2]] = stream.read() if stream else b""
    except (tarfile.TarError, OSError, EOFError) as error:
        raise RecordingError(f"{path}: not a whole .tar.gz ({error})") from error
    return files


def _directory_file(path: Path, name: str) -> bytes:
    root = path.resolve()
    target = (root / name).resolve()
    if root not in target.parents or not target.is_file():
        raise RecordingError(f"{path}: {name!r} is missing or lies outside the recording")
    if target.stat().st_size > MAX_BYTES:
        raise RecordingError(f"{path}: {name!r} is larger than {MAX_BYTES >> 20} MiB")
    return target.read_bytes()


def read(source: str) -> Evidence:
    """The evidence of a recording; RecordingError with what is wrong with it."""
    path = Path(source)
    if not path.exists():
        raise RecordingError(f"{source}: no such file or directory")
    archive = None if path.is_dir() else _archive_files(path)

    def content(name: str) -> bytes:
        if archive is None:
            return _directory_file(path, name)
        if name not in archive:
            raise RecordingError(f"{source}: {name!r} is missing from the archive")
        return archive[name]

    try:
        head = msgspec.json.decode(content(MEMBER), type=Recording)
    except msgspec.MsgspecError as error:
        raise RecordingError(f"{source}: recording.json is not of format {FORMAT}: {error}") from error

    def text(name: str | None) -> str | None:
        return None if name is None else content(name).decode("utf-8", "replace")

    items = tuple(
        Item(
            id=item.id,
            kind=item.kind,
            what=item.what,
            status=item.status,
            why=item.why,
            exit=item.exit,
            signal=item.signal,
            stdout=text(item.stdout),
            stderr=text(item.stderr),
            dropped_bytes=item.dropped_bytes,
            seconds=item.seconds,
            origin="text" if item.kind == "text" else "recording",
            excerpt=item.excerpt,
        )
        for item in head.evidence
    )
    origin = head.origin
    return Evidence(
        items=items,
        origin="recording",
        platform=origin.platform,
        python=origin.python,
        python_why=origin.python_why,
        quick=origin.quick,
        redacted=origin.redacted,
        distro=origin.distro,
        bundle=origin.bundle,
        node=origin.node,
        remarks=origin.remarks,
    )
