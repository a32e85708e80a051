"""Whether a recorded output is whole: what a cut, a crash of a file system or a damaged bit leaves of it."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator

from cudadoctor.sources.decoding import LONG, json_object

_HOLE = re.compile(rb"\0[\0\n]|\xff{2}|\A\s{16,}\Z")  # what stands in a file whose content was lost
_BLANKED = (b" " * 600, b"\n" * 200)  # and these: an expression would try them anew at each place
_LINE = 1 << 20  # bytes of a worker's line
_EVENT = b'{"event": "'  # how it begins


def bytes_lost(size: int | None, *streams: bytes | None, worker: bool) -> int:
    """Bytes that are gone since it was recorded: at least one where zeros stand in it, as after a crash of a file system, or where a
    worker's line is not whole, for older recordings have neither size nor checksum.
    """
    said = (streams[0] or b"") if worker else b""
    is_torn = any(map(_has_hole, streams)) or not all(map(_is_whole, _entries(said)))
    return max((size or 0) - sum(len(stream or b"") for stream in streams), int(is_torn))


def _has_hole(stream: bytes | None) -> bool:
    return stream is not None and (_HOLE.search(stream) is not None or any(blanks in stream for blanks in _BLANKED))


def is_other(crc32: int | None, *streams: bytes | None) -> bool:
    """Whether it has another checksum than when it was recorded; older recordings have none."""
    summed = 0
    for stream in streams:
        summed = zlib.crc32(stream or b"", summed)
    return crc32 is not None and crc32 != summed


def summed(listed: bytes) -> bytes:
    """recording.json with its checksum in the last place that names one, whatever number stood there; the sum is of it with null."""
    before, name, after = listed.rpartition(b'"crc32": ')
    after = after.lstrip(b"0123456789") if after[:1].isdigit() else after[len(b"null") :]
    return b"%b%b%d%b" % (before, name, zlib.crc32(before + name + b"null" + after), after)


def _entries(said: bytes) -> Iterator[bytes]:
    """A worker's lines that name an event, as far as they are read, and the last one. No copy of all lines: there may be millions."""
    at = said.find(_EVENT[1:])
    while 0 <= at < LONG:
        end = said.find(b"\n", at)
        end = len(said) if end < 0 else end
        yield said[max(0, at - 1) : end]
        at = said.find(_EVENT[1:], end)
    last = said.rstrip(b"\n").rpartition(b"\n")[2]
    yield last if last.startswith(b"{") else b"{}"


def _is_whole(line: bytes) -> bool:
    """Whether a line is all of an object of JSON. What is longer than any worker's line is not taken apart, which costs much memory."""
    if b"\0" in line:
        return False
    return line.endswith(b"}") if len(line) > _LINE else json_object(line.decode("utf-8", "replace")) is not None
