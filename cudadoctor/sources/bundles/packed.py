"""Opens what is packed, within limits: gzip, xz and bzip2, and what a bundle may cost in all, in bytes and in CPU time."""

from __future__ import annotations

import bz2
import io
import lzma
import time
import zlib
from collections.abc import Callable
from functools import partial
from typing import IO, Any, Protocol

MIB = 1 << 20
MAX_MEMBERS = 100_000  # a report of sos has some ten thousand files
MAX_STREAM = 4096 * MIB  # bytes that are unpacked at all
MAX_RATIO = 100  # times its size that a stream may unpack to, beyond RATIO_FROM; logs reach some hundred at the very most
RATIO_FROM = 128 * MIB
MAX_DIRECTORY = 8 * MIB  # bytes of a zip's list of members
MAX_CPU = 20  # seconds of CPU time to unpack one, with all that is packed within it
MAX_WINDOW = 192 * MIB  # bytes of memory for xz, which a stream may ask up to 4 GiB of; the highest of its levels takes 65 MiB
CHUNK = 1 << 20
_PACKED = 1 << 16
_TAR_AT = 257  # where a tar's header says "ustar"


class BundleError(Exception):
    """The bundle cannot be read; the message says why."""


class TooMuchError(BundleError):
    """It unpacks to more than the bundle may, or takes longer: nothing else of it is unpacked."""


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


class Reads(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


class Packed(io.BytesIO):
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


class Counted(io.RawIOBase):
    """A stream that stops where its archive gave more than it may."""

    def __init__(self, stream: Reads, allowance: Allowance) -> None:
        self.stream, self.allowance = stream, allowance

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        # read1 gives what is there: where a stream is cut off, `read` would lose what it had gathered.
        chunk = getattr(self.stream, "read1", self.stream.read)(size if size >= 0 else CHUNK)
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
            given = self._unpacked(held, size if size > 0 else CHUNK)  # where nothing is held, what it has not given yet
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
_COMPRESSED: tuple[tuple[bytes, str, Callable[[IO[bytes]], Reads]], ...] = (
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


def opener_of(content: bytes) -> Callable[[IO[bytes]], Reads] | None:
    for magic, name in _UNREADABLE:
        if content.startswith(magic):
            raise BundleError(f"packed with {name}, which is not read here: unpack it and name the file within")
    return next((opener for magic, _, opener in _COMPRESSED if content.startswith(magic)), None)
