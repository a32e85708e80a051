"""Reading archives of strangers: limits on what the headers hold and on the time to unpack, and what ends the reading, in words."""

from __future__ import annotations

import lzma
import re
import tarfile
import time
import zlib
from collections.abc import Iterator
from typing import IO, Any

MAX_SECONDS = 5  # of CPU time for unpacking one
MAX_HEADER = 64 << 10  # bytes of a header that holds a member's long name, say
MAX_HEADERS = 4 << 20  # and of all such headers of an archive
_CHUNK = 1 << 16
MAX_SIZE = 4 << 30  # bytes that a member may claim: tarfile passes over them block by block, also where the archive has long ended
_LONG_NUMBER = re.compile(rb"\d{60}")
# What reading a damaged or hostile archive ends with. A chain of headers that each announce the next is too deep.
DAMAGED = (EOFError, OSError, zlib.error, lzma.LZMAError, tarfile.TarError, ValueError, OverflowError, RecursionError, MemoryError)


def what_is_wrong(error: BaseException) -> str:
    """What ended the reading of an archive, in words. tarfile reads each header that announces another one level deeper."""
    return "too many headers in a row" if isinstance(error, RecursionError) else str(error) or type(error).__name__


class Member(tarfile.TarInfo):
    """A member of a stranger's archive. tarfile reads headers whole before anybody sees their size, and maps of holes in files too.

    Each archive has a class of its own (`kind_of_members`), which counts the bytes of its headers.
    """

    left = 0
    seen = False  # a header of this archive

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Member:
        try:
            member = super().frombuf(buf, encoding, errors)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]
            raise
        except tarfile.HeaderError as error:
            if cls.seen:  # tarfile takes what is no header for the end
                raise tarfile.ReadError(f"no header where one should be: {error}") from error
            raise
        cls.seen = True
        headers = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE)
        if member.size < 0 or (member.type in headers and member.size > MAX_HEADER):
            raise tarfile.ReadError(f"a header that claims {member.size} bytes")
        if member.type in headers:
            cls.left -= member.size  # tarfile reads them in time that grows with their sum, and keeps what is meant for the whole archive
            if cls.left < 0:
                raise tarfile.ReadError(f"extended headers of more than {MAX_HEADERS >> 20} MiB")
        if member.type == tarfile.GNUTYPE_SPARSE:
            raise tarfile.ReadError("a file with holes")
        return member

    def _proc_pax(self, archive: Any) -> Any:
        stream = archive.fileobj
        archive.fileobj = _WithoutLongNumbers(stream)
        try:
            return super()._proc_pax(archive)  # type: ignore[misc]
        finally:
            archive.fileobj = stream

    def _proc_gnusparse_10(self, *_: object) -> None:
        raise tarfile.ReadError("a file with holes")


class _WithoutLongNumbers:
    """A file in which no number is longer than any is: tarfile looks for one from each digit on, and reads some of them."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream = stream

    def read(self, size: int = -1) -> bytes:
        found = self.stream.read(size)
        if _LONG_NUMBER.search(found):
            raise tarfile.ReadError("a header with a number of many digits")
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


class InTime:
    """A file that is read no longer than it may take to unpack: empty members of gzip give nothing that could be counted."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream, self.until = stream, time.process_time() + MAX_SECONDS

    def read(self, size: int = -1) -> bytes:
        if time.process_time() > self.until:
            raise tarfile.ReadError(f"it takes more than {MAX_SECONDS} s to unpack")
        return self.stream.read(size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def members(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """The members of an archive that was opened with `kind_of_members`, one after the other; none is kept."""
    for member in iter(archive.next, None):
        archive.members = []  # type: ignore[attr-defined]
        if member.size < 0 or member.sparse is not None:  # an extended header may say so, after `frombuf`
            raise tarfile.ReadError("a file with holes, or smaller than nothing")
        if member.size > MAX_SIZE:
            raise tarfile.ReadError(f"a file that claims more than {MAX_SIZE >> 30} GiB")
        yield member
    rest, until = archive.fileobj, time.process_time() + MAX_SECONDS
    for chunk in iter(lambda: rest.read(_CHUNK) if rest is not None else b"", b""):  # a few packed bytes may be gigabytes of it
        if chunk.strip(b"\0"):
            raise tarfile.ReadError("more behind the mark of its end")
        if time.process_time() > until:
            raise tarfile.ReadError(f"it takes more than {MAX_SECONDS} s to unpack")


def kind_of_members() -> type[Member]:
    """The class of the members of one archive."""
    return type("Member", (Member,), {"left": MAX_HEADERS})
