"""Opens what a bundle comes in, in memory and within limits: gzip, bzip2, xz, tar and zip. Nothing is written to disk.

Bundles come from strangers. A member's name is only ever compared; links, devices and folders are passed over; what unpacks to far more
than it was is refused; what is cut off gives what could be read, with a remark.
"""

from __future__ import annotations

import bz2
import io
import lzma
import os
import posixpath
import re
import tarfile
import time
import zipfile
import zlib
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import IO, Any, Protocol

import msgspec

from cudadoctor.sources import archives, inputs

MIB = 1 << 20
MAX_INPUT = 1024 * MIB  # bytes of the bundle itself
MAX_MEMBERS = 100_000  # a report of sos has some ten thousand files
HOLE = re.compile(rb"\0{4}|\xff{4}")  # what stands in a file whose content was lost
LOST = "A part of it is lost: a run of empty bytes (00 or ff) stands there."
_MOST_SAID = 40  # remarks of one archive
MAX_MEMBER = 64 * MIB  # bytes kept of one member
MAX_MEMBER_READ = 256 * MIB  # bytes of one member that are unpacked at all
MAX_KEPT = 128 * MIB  # bytes kept of all
MAX_STREAM = 4096 * MIB  # bytes that are unpacked at all
MAX_RATIO = 100  # times its size that a stream may unpack to, beyond RATIO_FROM; logs reach some hundred at the very most
RATIO_FROM = 128 * MIB
MAX_DIRECTORY = 8 * MIB  # bytes of a zip's list of members
MAX_CPU = 20  # seconds of CPU time to unpack one, with all that is packed within it
MAX_WINDOW = 192 * MIB  # bytes of memory for xz, which a stream may ask up to 4 GiB of; the highest of its levels takes 65 MiB
_MOST_LINKS = 8  # from a link to what it leads to
_MOST_FOLLOWED = 16  # of one archive; sos makes one for each long output
_LONGEST_LINK = 4096  # characters
_CHUNK = 1 << 20
_PACKED = 1 << 16
_TAR_AT = 257  # where a tar's header says "ustar"
_DAMAGED = (*archives.DAMAGED, zipfile.BadZipFile, NotImplementedError)


class BundleError(Exception):
    """The bundle cannot be read; the message says why."""


class TooMuchError(BundleError):
    """It unpacks to more than the bundle may, or takes longer: nothing else of it is unpacked."""


class Unpacked(msgspec.Struct):
    """The members that were wanted, by name, and what should be said of the rest."""

    members: dict[str, bytes]
    remarks: list[str]
    names: list[str] = []  # of every plain file, wanted or not
    earlier: list[tuple[str, bytes]] = []  # members that later ones of the same name would replace on a disk
    links: dict[str, str] = {}  # of every link and device, which are passed over, and the member that it leads to
    kept: int = 0  # bytes of all members


class Allowance:
    """What one bundle may cost: CPU time, and bytes that are unpacked, of all that is packed in it however often, refused or kept."""

    def __init__(self, size: int) -> None:
        self.size, self.given, self.most = size, 0, MAX_STREAM
        self.until = time.process_time() + MAX_CPU

    def no_more_than(self, more: int) -> None:
        """From here on so many bytes."""
        self.most = min(self.most, self.given + more)

    def count(self, given: int) -> None:
        self.given += given
        if self.given > self.most:
            raise TooMuchError(f"it unpacks to more than {max(1, self.most // MIB)} MiB; not read")
        if self.given > max(RATIO_FROM, self.size * MAX_RATIO):
            raise TooMuchError(f"it unpacks to more than {MAX_RATIO} times its size; not read")
        if time.process_time() > self.until:
            raise TooMuchError(f"it takes more than {MAX_CPU} s to unpack; not read")


class _Reads(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


class _Packed(io.BytesIO):
    """An archive as its library reads it: not a list of members larger than any, and no longer than it may take.

    A library crosses members without content, and lists all members, before it gives anything that could be counted.
    """

    def __init__(self, content: bytes, allowance: Allowance) -> None:
        super().__init__(content)
        self.allowance = allowance

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > MAX_DIRECTORY:
            raise TooMuchError(f"the list of its members is larger than {MAX_DIRECTORY // MIB} MiB; not read")
        self.allowance.count(0)
        return super().read(size)


class _Counted(io.RawIOBase):
    """A stream that stops where its archive gave more than it may."""

    def __init__(self, stream: _Reads, allowance: Allowance) -> None:
        self.stream, self.allowance = stream, allowance

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        # read1 gives what is there: where a stream is cut off, `read` would lose what it had gathered.
        chunk = getattr(self.stream, "read1", self.stream.read)(size if size >= 0 else _CHUNK)
        self.allowance.count(len(chunk))
        return chunk


class _Members:
    """A file of gzip or xz, member after member. The libraries' own classes make room for whatever a stream asks, or take a while for each
    member, however empty, and do not count."""

    def __init__(self, source: IO[bytes], decoder: Callable[[], Any]) -> None:
        self.source, self.make, self.held, self.members = source, decoder, b"", 0
        self.decoder = self._next()

    def _next(self) -> Any:
        self.members += 1
        if self.members > MAX_MEMBERS:
            raise TooMuchError(f"more than {MAX_MEMBERS} members of gzip or xz in a row; not read")
        return self.make()

    def read(self, size: int = -1, /) -> bytes:
        """What the next bytes unpack to: at least one byte, but at the end."""
        while True:
            wants = self.decoder.eof or getattr(self.decoder, "needs_input", True)  # xz keeps what it was given beyond what it may give
            held = self.held or (self.source.read(io.DEFAULT_BUFFER_SIZE) if wants else b"")  # a few: each member gives back the rest
            if self.decoder.eof:  # zeros may follow a member
                while held and not held.strip(b"\0"):
                    held = self.source.read(_PACKED)
                if not held:
                    return b""
                held, self.decoder = held.lstrip(b"\0"), self._next()
            given = self._unpacked(held, size if size > 0 else _CHUNK)  # where nothing is held, what it has not given yet
            self.held = self.decoder.unused_data if self.decoder.eof else getattr(self.decoder, "unconsumed_tail", b"")
            if given:
                return given
            if wants and not held:
                raise EOFError("it ends before its end mark")

    def _unpacked(self, held: bytes, size: int) -> bytes:
        try:
            return bytes(self.decoder.decompress(held, size))
        except lzma.LZMAError as error:
            if "limit" not in str(error):
                raise
            raise BundleError(f"it takes more than {MAX_WINDOW // MIB} MiB of memory to unpack; not read") from error


_gzip = partial(_Members, decoder=partial(zlib.decompressobj, 16 + zlib.MAX_WBITS))
_xz = partial(_Members, decoder=partial(lzma.LZMADecompressor, lzma.FORMAT_XZ, memlimit=MAX_WINDOW))
_COMPRESSED: tuple[tuple[bytes, str, Callable[[IO[bytes]], _Reads]], ...] = (
    (b"\x1f\x8b", "gzip", _gzip),
    (b"\xfd7zXZ\x00", "xz", _xz),
    (b"BZh", "bzip2", bz2.BZ2File),
)
_UNREADABLE = ((b"\x28\xb5\x2f\xfd", "zstd"), (b"7z\xbc\xaf\x27\x1c", "7-Zip"), (b"Rar!", "RAR"))


def head(content: bytes) -> str | None:
    """How these bytes are packed: gzip, xz, bzip2, tar, zip, or None for none of them."""
    for magic, name, _ in _COMPRESSED:
        if content.startswith(magic):
            return name
    if content[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        return "zip"
    return "tar" if content[_TAR_AT : _TAR_AT + 5] == b"ustar" else None


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
    opener = _opener(content)
    plain, remarks = (content, []) if opener is None else _read(_Counted(opener(_Packed(content, allowance)), allowance), MAX_MEMBER)
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
    opener = _opener(content)
    if opener is None:
        return False
    try:
        return head(opener(_Packed(content, allowance)).read(512)) == "tar"
    except _DAMAGED:
        return False


def unpacked(
    content: bytes, wanted: Callable[[str], bool], allowance: Allowance, enough: Callable[[str], bool] = lambda _: False
) -> Unpacked:
    """The wanted members of an archive, up to one whose name is `enough` to know it. BundleError where not one member can be read."""
    if head(content) == "zip":
        return _of_zip(content, wanted, allowance)
    opener = _opener(content)
    stream: _Reads = opener(_Packed(content, allowance)) if opener is not None else io.BytesIO(content)
    return _of_tar(_Counted(stream, allowance), wanted, enough)


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
        if max(entered, len(found.names) + len(entries)) > MAX_MEMBERS:
            raise BundleError(f"more than {MAX_MEMBERS} files; not read")
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
def _of_tar(source: _Counted, wanted: Callable[[str], bool], enough: Callable[[str], bool]) -> Unpacked:
    found = Unpacked({}, [])
    try:
        with tarfile.open(fileobj=source, mode="r|", errorlevel=0, tarinfo=archives.kind_of_members()) as archive:
            for number, member in enumerate(archives.members(archive)):
                if number >= MAX_MEMBERS:
                    raise BundleError(f"more than {MAX_MEMBERS} members; not read")
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
        archive = zipfile.ZipFile(_Packed(content, allowance))
    except _DAMAGED as error:
        raise BundleError(f"no whole zip archive ({archives.what_is_wrong(error)})") from error
    members = [member for member in archive.infolist() if member.filename and not member.filename.endswith("/")]
    if len(members) > MAX_MEMBERS:
        raise BundleError(f"more than {MAX_MEMBERS} members; not read")
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
                _keep(found, name, _Counted(stream, allowance))
        except TooMuchError:
            raise
        except (*_DAMAGED, BundleError, RuntimeError) as error:
            found.remarks.append(f"{name} is damaged ({archives.what_is_wrong(error)}); not read.")
    return found


def _target(archive: zipfile.ZipFile, member: zipfile.ZipInfo, allowance: Allowance) -> str:
    """Where a link of a zip leads, which is its content."""
    try:
        with archive.open(member) as stream:
            return os.fsdecode(_Counted(stream, allowance).read(_LONGEST_LINK))
    except (*_DAMAGED, RuntimeError):
        return ""


def _keep(found: Unpacked, name: str, stream: _Reads) -> None:
    left = MAX_KEPT - found.kept
    content, remarks = _read(stream, min(MAX_MEMBER, left) if left >= _CHUNK else 0)
    found.kept += len(content)
    if name in found.members:
        found.earlier.append((name, found.members[name]))
    found.members[name] = content
    found.remarks += [f"{name}: {remark}" for remark in remarks]


def _read(stream: _Reads, limit: int) -> tuple[bytes, list[str]]:
    """At most `limit` bytes, and what should be said of the rest: of more, the beginning and the end, for a report has its head in the
    one and what failed last in the other.
    """
    first: list[bytes] = []
    last: deque[bytes] = deque()
    size = kept = 0
    damage = ""
    try:
        while size < MAX_MEMBER_READ and limit > 0 and (chunk := stream.read(_CHUNK)):
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


def _opener(content: bytes) -> Callable[[IO[bytes]], _Reads] | None:
    for magic, name in _UNREADABLE:
        if content.startswith(magic):
            raise BundleError(f"packed with {name}, which is not read here: unpack it and name the file within")
    return next((opener for magic, _, opener in _COMPRESSED if content.startswith(magic)), None)


def plain_name(name: str) -> str:
    """A member's name with / between its parts and no ./ before it. It is compared with known names, never opened."""
    return name.replace("\\", "/").removeprefix("./")
