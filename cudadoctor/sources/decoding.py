"""What a program wrote, as text (UTF-8; UTF-16 as Windows' own tools write it; else the code page of Windows' console), and as JSON."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any

_MARKS = ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
_LOOKED_AT = 512  # bytes from which UTF-16 without a mark is recognised
LONG = 8 << 20  # bytes of a text that are read of what is longer than any machine says
NARROWED = 2 << 20  # from which it is read without letters that make all of it larger in memory: there may be many such texts
_PIECE, _LONGEST = 1 << 18, 4  # bytes at a time, and of a letter
_OTHER_SCRIPTS = re.compile(rb"[\xc4-\xf4][\x80-\xbf]{1,3}")  # in UTF-8


def narrow(content: bytes, most: int = NARROWED) -> bytes:
    """Of a text of more than `most` bytes what has no letters of other scripts: a single one doubles or fourfolds the memory of all."""
    return content if len(content) <= most else without(_OTHER_SCRIPTS, content)


def without(letters: re.Pattern[bytes], content: bytes) -> bytes:
    """The text with a question mark for each of these letters of UTF-8."""
    narrowed, end = bytearray(), 0
    while end < len(content):  # piece by piece: what is replaced is listed first, and takes many times its size
        start, end = end, end + _PIECE
        while end < min(len(content), start + _PIECE + _LONGEST) and content[end] & 0xC0 == 0x80:  # within a letter
            end += 1
        narrowed += letters.sub(b"?", content[start:end])
    return bytes(narrowed)


def decoded(content: bytes, *, windows: bool = sys.platform == "win32") -> str:
    """The text, without a mark of byte order. What cannot be read is replaced, never an error."""
    wide = _wide(content)
    if wide is not None:
        text = content.decode(wide, "replace")
        return text[1:] if text.startswith("\ufeff") else text
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        cut = error.reason == "unexpected end of data"  # a text that was too long to be kept ends within a letter
    if windows and not cut:
        # Programs of the console write in the OEM code page: cp437, cp850, cp932 and so on. Python knows it by this name there only.
        try:
            return content.decode("oem", "replace")
        except LookupError:
            pass
    return content.decode("utf-8-sig", "replace")


def _wide(content: bytes) -> str | None:
    """The kind of UTF-16, by its mark, or by the zero byte beside nearly every letter. One zero byte among others proves nothing."""
    for mark, name in _MARKS:
        if content.startswith(mark):
            return name
    head = content[:_LOOKED_AT]
    if len(head) < 4:
        return None
    even, odd = head[0::2], head[1::2]
    if odd.count(0) * 10 >= len(odd) * 8 and not even.count(0):
        return "utf-16-le"
    if even.count(0) * 10 >= len(even) * 8 and not odd.count(0):
        return "utf-16-be"
    return None


def json_objects(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The lines that are JSON objects."""
    return (entry for entry in map(json_object, lines) if entry is not None)


def json_object(line: str) -> dict[str, Any] | None:
    """None where a line is none; the last one of a program may be half written."""
    try:
        entry = json.loads(line) if line[:1] == "{" else None
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None
