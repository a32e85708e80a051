"""Reads what a user names: a file, a pipe, standard input. Within limits, and never held up by what gives nothing or never ends.

Of a file that is too long the end is kept, because that is where a program fails; of a stream the beginning, because its end may never
come. What was left out is said.
"""

from __future__ import annotations

import io
import os
import select
import stat
import time
from collections.abc import Callable, Iterator
from typing import IO, NamedTuple

TEXT = 32 << 20  # bytes read of a text
COUNTED = 4 << 30  # bytes before the end of a file in which lines are counted
HEAD = 64 << 10  # bytes that show what a file is
PATIENCE = 60.0  # seconds in which a program at the other end of a pipe must write something
_OPEN = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_KINDS = ((stat.S_ISDIR, "a folder"), (stat.S_ISSOCK, "a socket"), (stat.S_ISCHR, "a device"), (stat.S_ISBLK, "a device"))


class InputError(Exception):
    """It cannot be read; the message names it and says why."""


class Content(NamedTuple):
    """What was read, and what should be said of the rest."""

    body: bytes
    left_out: str | None = None
    lines_before: int = 0


def of_path(path: str, limit: Callable[[bytes], int] = lambda _: TEXT, both_ends: Callable[[bytes], bool] = lambda _: False) -> Content:
    """A file or a pipe. `limit`: how much of it to read, by how it begins; `both_ends`: whether not the end alone of a file that is longer.
    InputError where it is neither, or cannot be read.
    """
    try:
        kind = os.stat(path).st_mode
        what = next((words for matches, words in _KINDS if matches(kind)), None)
        if what is not None:
            raise InputError(f"{path}: it is {what}; name a file")
        with open(path, "rb", opener=lambda name, _: os.open(name, _OPEN)) as stream:
            return _of_pipe(path, stream, limit) if stat.S_ISFIFO(kind) else _of_file(path, stream, limit, both_ends)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    except ValueError as error:  # a path with a zero byte
        raise InputError(f"{path!r}: {error}") from error


def of_stream(stream: IO[bytes], name: str, limit: Callable[[bytes], int] = lambda _: TEXT) -> Content:
    """An open stream, such as standard input."""
    try:
        head = _some(stream, HEAD)
        most = limit(head)
        body = _some(stream, most, head)
        more = len(body) >= most and bool(stream.read(1))
    except OSError as error:
        raise InputError(f"{name}: {error.strerror}") from error
    return Content(body, f"Only the first {most >> 20} MiB of {name} were read." if more else None)


def _some(stream: IO[bytes], most: int, head: bytes = b"") -> bytes:
    """So many bytes with those that were read before, or fewer where the stream ends; held once, for they may be many."""
    read = io.BytesIO()
    read.write(head)
    for part in _parts(stream, most - len(head)):
        read.write(part)
    return read.getvalue()


def _parts(stream: IO[bytes], most: int) -> Iterator[bytes]:
    while most > 0 and (part := stream.read(min(most, 1 << 20))):
        yield part
        most -= len(part)


def _of_file(path: str, stream: IO[bytes], limit: Callable[[bytes], int], both_ends: Callable[[bytes], bool]) -> Content:
    head = _some(stream, HEAD)  # /proc/kmsg has the mode of a file, and nothing to give for the moment
    most, size = limit(head), os.fstat(stream.fileno()).st_size
    if size <= most:
        return Content(_some(stream, most, head))  # files of /proc have no size
    if both_ends(head):
        first = _some(stream, most // 2, head)
        stream.seek(size - most // 2)
        said = f"Of {size >> 20} MiB of {path} the beginning and the end were read, {most >> 20} MiB in all."
        return Content(first + _some(stream, most // 2), said)
    said = f"Only the last {most >> 20} MiB of {path} were read, of {size >> 20} MiB"
    counted = size - most <= COUNTED
    lines = head[: size - most].count(b"\n") + sum(part.count(b"\n") for part in _parts(stream, size - most - len(head))) if counted else 0
    stream.seek(size - most)
    return Content(_some(stream, most), f"{said}." if counted else f"{said}; lines are counted from there.", lines)


def _of_pipe(path: str, stream: IO[bytes], limit: Callable[[bytes], int]) -> Content:
    """A pipe that nobody has open for writing is at its end at once; `cudadoctor explain <(command)` has somebody there."""
    content = of_stream(_Patient(stream), path, limit)  # type: ignore[arg-type]
    if not content.body:
        raise InputError(f"{path}: it is a pipe into which no program writes")
    return content


class _Patient:
    """A pipe that does not block, read as if it did, but not for ever."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.descriptor = stream.fileno()

    def read(self, size: int) -> bytes:
        end = time.monotonic() + PATIENCE
        while (left := end - time.monotonic()) > 0:
            try:
                return os.read(self.descriptor, size)
            except BlockingIOError:
                select.select([self.descriptor], [], [], left)
        raise TimeoutError(0, f"nothing came through this pipe within {PATIENCE:g} s")
