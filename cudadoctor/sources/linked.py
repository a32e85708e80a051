"""What the file of a program or a library says is loaded with it: its loader, libraries, and the folders where these are looked for first.

Source of the format: elf(5), elf.h of glibc, ld.so(8).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import IO, NamedTuple

_OF_64_BITS = b"\x7fELF\x02\x01"  # and the order of bytes of all machines that have CUDA
_LOAD, _DYNAMIC, _LOADER = 1, 2, 3  # kinds of segments
_STRINGS = 5  # an entry of the dynamic segment; so are these
_LIBRARIES = (1, 0x7FFFFFFD, 0x7FFFFFFF)  # needed, auxiliary, filter
_FOLDERS, _AUDITORS = (15, 29), (0x6FFFFEFB, 0x6FFFFEFC)  # lists of folders (rpath, runpath), of libraries (depaudit, audit)
_MOST_SEGMENTS, _MOST_ENTRIES, _LONGEST = 256, 4096, 4096
_ENTRY = 16  # bytes


class Places(NamedTuple):
    """Paths as a child in / gets them; one with $LIB or $PLATFORM is made by the loader. `names` are looked for in `folders`."""

    folders: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def found(self) -> list[str]:
        """The libraries that are there."""
        inner = (os.path.join(folder, name) for folder in self.folders for name in self.names)
        return [*self.files, *filter(os.path.exists, inner)]


class _Segment(NamedTuple):
    """A piece of the program: of which kind, where it is in the file and in memory, and its size in the file."""

    kind: int
    offset: int
    memory: int
    size: int


def places(path: str) -> Places:
    """None where the file is no such program or says nothing."""
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as stream:
            named = list(_named(stream))
    except (OSError, OverflowError, ValueError, struct.error):
        return Places()
    beside = any("$" in name for _, name in named)
    # Of a program what its links lead to, of a library where it was found.
    owns = dict.fromkeys(os.path.dirname(one) for one in ((os.path.realpath(path), path) if beside else (path,)))
    each = [(is_folder, name.replace("${ORIGIN}", own).replace("$ORIGIN", own)) for is_folder, name in named for own in owns]
    folders = [os.path.join(os.sep, name) for is_folder, name in each if is_folder]
    files = dict.fromkeys(name for is_folder, name in each if not is_folder and name)
    whole = (os.path.join(os.sep, name) for name in files if os.sep in name)
    return Places(tuple(dict.fromkeys(folders)), tuple(whole), tuple(name for name in files if os.sep not in name))


def _named(stream: IO[bytes]) -> Iterator[tuple[bool, str]]:
    """Whether it is a folder, and its name."""
    segments = _segments(stream)
    for kind, offset, _, size in segments:
        if kind == _LOADER:
            yield False, _text(stream, offset, size)
        elif kind == _DYNAMIC:
            stream.seek(offset)
            table = stream.read(min(size, _MOST_ENTRIES * _ENTRY))
            entries = list(struct.iter_unpack("<qQ", table[: len(table) // _ENTRY * _ENTRY]))
            strings = next((_in_file(segments, value) for tag, value in entries if tag == _STRINGS), None)
            for tag, value in entries if strings is not None else ():
                if tag in (*_LIBRARIES, *_FOLDERS, *_AUDITORS):
                    text = _text(stream, strings + value, _LONGEST)
                    yield from ((tag in _FOLDERS, name) for name in ([text] if tag in _LIBRARIES else text.split(":")))


def _segments(stream: IO[bytes]) -> list[_Segment]:
    head = stream.read(64)
    if not head.startswith(_OF_64_BITS):
        return []
    (start,), (width, count) = struct.unpack_from("<Q", head, 32), struct.unpack_from("<HH", head, 54)
    stream.seek(start)
    table = stream.read(width * min(count, _MOST_SEGMENTS))
    rows = (struct.unpack_from("<IIQQQQ", table, at) for at in range(0, len(table) - 39, max(width, 56)))
    return [_Segment(kind, offset, memory, size) for kind, _, offset, memory, _, size in rows]


def _in_file(segments: list[_Segment], address: int) -> int | None:
    """Where in the file an address of memory comes from."""
    loaded = (one for one in segments if one.kind == _LOAD and one.memory <= address < one.memory + one.size)
    return next((one.offset + address - one.memory for one in loaded), None)


def _text(stream: IO[bytes], start: int, size: int) -> str:
    stream.seek(start)
    return os.fsdecode(stream.read(min(size, _LONGEST)).partition(b"\0")[0])
