"""Opens what a bundle comes in, in memory: a file, a tar or a zip, however packed, or a folder. Nothing is written to disk.

Bundles come from strangers. A member's name is only ever compared; devices are passed over, and a link leads to what the bundle itself
holds; what unpacks to far more than it was is refused (packed.py); what is cut off gives what could be read, with a remark.
"""

from __future__ import annotations

import io
import os
import posixpath
import re
import tarfile
import zipfile
from collections import deque
from collections.abc import Callable, Iterable

import msgspec

from cudadoctor.sources import archives, inputs
from cudadoctor.sources.bundles import packed
from cudadoctor.sources.bundles.packed import (
    CHUNK,
    MIB,
    Allowance,
    BundleError,
    Counted,
    Packed,
    Reads,
    TooMuchError,
    head,
    opener_of,
)

MAX_INPUT = 1024 * MIB  # bytes of the bundle itself
HOLE = re.compile(rb"\0{4}|\xff{4}")  # what stands in a file whose content was lost
LOST = "A part of it is lost: a run of empty bytes (00 or ff) stands there."
_MOST_SAID = 40  # remarks of one archive
MAX_MEMBER = 64 * MIB  # bytes kept of one member
MAX_MEMBER_READ = 256 * MIB  # bytes of one member that are unpacked at all
MAX_KEPT = 128 * MIB  # bytes kept of all
_MOST_LINKS = 8  # from a link to what it leads to
_MOST_FOLLOWED = 16  # of one archive; sos makes one for each long output
_LONGEST_LINK = 4096  # characters
_DAMAGED = (*archives.DAMAGED, zipfile.BadZipFile, NotImplementedError)


class Unpacked(msgspec.Struct):
    """The members that were wanted, by name, and what should be said of the rest."""

    members: dict[str, bytes]
    remarks: list[str]
    names: list[str] = []  # of every plain file, wanted or not
    earlier: list[tuple[str, bytes]] = []  # members that later ones of the same name would replace on a disk
    links: dict[str, str] = {}  # of every link and device, and the member that it leads to
    kept: int = 0  # bytes of all members


def read_file(path: str, is_report: Callable[[bytes], bool]) -> inputs.Content:
    """The bytes of a file: all of what is packed, of a report by how it begins both ends, of a text the end. Of a pipe, the beginning."""

    def most(head_of_it: bytes) -> int:
        return MAX_INPUT if head(head_of_it) is not None else MAX_MEMBER if is_report(head_of_it) else inputs.TEXT

    try:
        if os.path.getsize(path) > MAX_INPUT:
            raise BundleError(f"{path}: larger than {MAX_INPUT // MIB} MiB; not read")
        return inputs.of_path(path, most, is_report) if os.path.isfile(path) else inputs.of_path(path)
    except (OSError, inputs.InputError) as error:
        raise BundleError(str(error) if isinstance(error, inputs.InputError) else f"{path}: {error.strerror}") from error


def expanded(content: bytes, allowance: Allowance) -> tuple[bytes, list[str]]:
    """The bytes without one compression around them (not a tar's members), and a remark where they are cut off or have a hole."""
    opener = opener_of(content)
    plain, remarks = (content, []) if opener is None else _read(Counted(opener(Packed(content, allowance)), allowance), MAX_MEMBER)
    return plain, [*remarks, *([LOST] if HOLE.search(plain) else [])]


def in_short(remarks: Iterable[str]) -> tuple[str, ...]:
    """Each once, and not all of very many: every machine of an archive repeats them."""
    said = tuple(dict.fromkeys(remarks))
    return said if len(said) <= _MOST_SAID else (*said[:_MOST_SAID], f"and {len(said) - _MOST_SAID} more of the kind")


def is_archive(content: bytes, allowance: Allowance) -> bool:
    """Whether it holds members: a zip, or a tar within whatever compression."""
    kind = head(content)
    if kind in ("zip", "tar"):
        return True
    opener = opener_of(content)
    if opener is None:
        return False
    try:
        return head(opener(Packed(content, allowance)).read(512)) == "tar"
    except _DAMAGED:
        return False


def unpacked(
    content: bytes, wanted: Callable[[str], bool], allowance: Allowance, enough: Callable[[str], bool] = lambda _: False
) -> Unpacked:
    """The wanted members of an archive, up to one whose name is `enough` to know it. BundleError where not one member can be read."""
    if head(content) == "zip":
        return _of_zip(content, wanted, allowance)
    opener = opener_of(content)
    stream: Reads = opener(Packed(content, allowance)) if opener is not None else io.BytesIO(content)
    return _of_tar(Counted(stream, allowance), wanted, enough)


def folder(path: str, wanted: Callable[[str], bool]) -> Unpacked:
    """The same of a bundle that somebody has unpacked. Links lead to what lies in it and was read, and nowhere else."""
    found, waiting, entered = Unpacked({}, []), [path], 0
    while waiting:
        entered += 1
        here = waiting.pop()
        try:
            entries = sorted(os.scandir(here), key=lambda entry: entry.name)
        except OSError as error:
            found.remarks.append(f"{os.path.relpath(here, path)}: {error.strerror}; not read.")
            continue
        if max(entered, len(found.names) + len(entries)) > packed.MAX_MEMBERS:
            raise BundleError(f"more than {packed.MAX_MEMBERS} files; not read")
        for entry in entries:
            inner = os.path.relpath(entry.path, path).replace(os.sep, "/")
            if entry.is_symlink():
                found.links[inner] = _beside(inner, os.readlink(entry.path))
            if not entry.is_file(follow_symlinks=False):
                continue
            found.names.append(inner)
            if wanted(inner):
                try:
                    with open(entry.path, "rb") as stream:
                        _keep(found, inner, stream)
                except OSError as error:
                    found.remarks.append(f"{inner}: {error.strerror}; not read.")
        waiting += [entry.path for entry in reversed(entries) if entry.is_dir(follow_symlinks=False)]
    return found


def follow_links(found: Unpacked, wanted: Callable[[str], bool]) -> tuple[str, ...]:
    """Give each wanted link the content of the member that it leads to, over several links too; those that lead to none that was read. A
    link counts as large as what it leads to, for it is read as often."""
    unread, followed = [], 0
    for name in filter(wanted, found.links):
        target = found.links[name]
        for _ in range(_MOST_LINKS):
            target = found.links.get(target, target)
        size = len(found.members.get(target, b""))
        if target in found.members and found.kept + size <= MAX_KEPT and followed < _MOST_FOLLOWED:
            found.kept, followed = found.kept + size, followed + 1
            found.members[name] = found.members[target]
            found.names.append(name)
        else:
            unread.append(name)
    return tuple(unread)


# ---------------------------------------------------------------- one kind each
def _of_tar(source: Counted, wanted: Callable[[str], bool], enough: Callable[[str], bool]) -> Unpacked:
    found = Unpacked({}, [])
    try:
        with tarfile.open(fileobj=source, mode="r|", errorlevel=0, tarinfo=archives.kind_of_members()) as archive:
            for number, member in enumerate(archives.members(archive)):
                if number >= packed.MAX_MEMBERS:
                    raise BundleError(f"more than {packed.MAX_MEMBERS} members; not read")
                name = plain_name(member.name)
                if not member.isfile():
                    if not member.isdir():
                        found.links[name] = _led_to(name, member)
                    continue
                found.names.append(name)
                if enough(name):
                    break
                stream = archive.extractfile(member) if wanted(name) else None
                if stream is not None:
                    _keep(found, name, stream)
    except _DAMAGED as error:
        if not found.names:
            raise BundleError(f"no whole archive ({archives.what_is_wrong(error)})") from error
        found.remarks.append(f"The archive is cut off or damaged ({archives.what_is_wrong(error)}); what stands before was read.")
    return found


def _led_to(name: str, member: tarfile.TarInfo) -> str:
    """A hard link names a member, a symbolic one a place beside its own."""
    return plain_name(member.linkname) if member.islnk() else _beside(name, member.linkname)


def _beside(name: str, target: str) -> str:
    """The name of what a symbolic link leads to."""
    folder = name.partition("/")[0] if target.startswith("/") else posixpath.dirname(name)  # below the archive's own folder
    return posixpath.normpath(posixpath.join(folder, plain_name(target).lstrip("/")))


def _of_zip(content: bytes, wanted: Callable[[str], bool], allowance: Allowance) -> Unpacked:
    found = Unpacked({}, [])
    try:
        archive = zipfile.ZipFile(Packed(content, allowance))
    except _DAMAGED as error:
        raise BundleError(f"no whole zip archive ({archives.what_is_wrong(error)})") from error
    members = [member for member in archive.infolist() if member.filename and not member.filename.endswith("/")]
    if len(members) > packed.MAX_MEMBERS:
        raise BundleError(f"more than {packed.MAX_MEMBERS} members; not read")
    if members and all(member.flag_bits & 1 for member in members):
        raise BundleError("the zip archive is encrypted: unpack it with its password and name the file within")
    for member in members:
        name = plain_name(member.filename)
        if (member.external_attr >> 16) & 0o170000 not in (0, 0o100000):
            found.links[name] = _beside(name, _target(archive, member, allowance))
            continue
        found.names.append(name)
        if not wanted(name):
            continue
        if member.flag_bits & 1:
            found.remarks.append(f"{name} is encrypted; not read.")
            continue
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # the others give all of a block at once
            found.remarks.append(f"{name} is packed in a way that is not read here (bzip2, LZMA); not read.")
            continue
        try:
            with archive.open(member) as stream:
                _keep(found, name, Counted(stream, allowance))
        except TooMuchError:
            raise
        except (*_DAMAGED, BundleError, RuntimeError) as error:
            found.remarks.append(f"{name} is damaged ({archives.what_is_wrong(error)}); not read.")
    return found


def _target(archive: zipfile.ZipFile, member: zipfile.ZipInfo, allowance: Allowance) -> str:
    """Where a link of a zip leads, which is its content."""
    try:
        with archive.open(member) as stream:
            return os.fsdecode(Counted(stream, allowance).read(_LONGEST_LINK))
    except (*_DAMAGED, RuntimeError):
        return ""


def _keep(found: Unpacked, name: str, stream: Reads) -> None:
    left = MAX_KEPT - found.kept
    content, remarks = _read(stream, min(MAX_MEMBER, left) if left >= CHUNK else 0)
    found.kept += len(content)
    if name in found.members:
        found.earlier.append((name, found.members[name]))
    found.members[name] = content
    found.remarks += [f"{name}: {remark}" for remark in remarks]


def _read(stream: Reads, limit: int) -> tuple[bytes, list[str]]:
    """At most `limit` bytes, and what should be said of the rest: of more, the beginning and the end, for a report has its head in the
    one and what failed last in the other.
    """
    first: list[bytes] = []
    last: deque[bytes] = deque()
    size = kept = 0
    damage = ""
    try:
        while size < MAX_MEMBER_READ and limit > 0 and (chunk := stream.read(CHUNK)):
            size += len(chunk)
            kept += len(chunk)
            (first if size <= limit // 2 else last).append(chunk)
            while kept > limit and last:
                kept -= len(last.popleft())
    except _DAMAGED as error:
        damage = archives.what_is_wrong(error)
        if not first and not last:
            raise BundleError(f"damaged or cut off before its first byte ({damage})") from error
    remarks = [f"It is cut off or damaged ({damage}); what stands before was read."] if damage else []
    if limit <= 0:
        remarks.append("It was not read: what came before is more than is kept.")
    if kept < size:
        beyond = "more than " if size >= MAX_MEMBER_READ else ""
        remarks.append(f"Of {beyond}{size // MIB} MiB the beginning and the end were read, {max(1, kept // MIB)} MiB in all.")
    return b"".join((*first, *last)), remarks


def plain_name(name: str) -> str:
    """A member's name with / between its parts and no ./ before it. It is compared with known names, never opened."""
    return name.replace("\\", "/").removeprefix("./")
