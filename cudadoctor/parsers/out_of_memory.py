"""PyTorch's out-of-memory message: whose memory is it. Both sides are compared by what the message itself counts.

Either the program already holds most of what is in use (then it asks for more than there is), or others hold it.
Any other wording of `out of memory` is a code without figures and is left to parsers/error_codes.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from cudadoctor.model.findings import Clue
from cudadoctor.parsers.base import Text
from cudadoctor.parsers.lines import Lines, prepared

WAKE = "Tried to allocate"
OWN, OTHERS = "program-out-of-memory", "gpu-memory-held-by-others"
MOST = 0.8  # of what is in use: from here on the program itself is what fills the GPU
LITTLE = 0.2
_UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_SIZE = r"(\d{1,8}(?:\.\d{1,4})?) (bytes|KiB|MiB|GiB|TiB)"
_TOTAL = re.compile(rf"(?:{_SIZE} total capacity|total capacity of {_SIZE})")
_FREE = re.compile(rf"{_SIZE} (?:is )?free")
_ALLOCATED = re.compile(rf"{_SIZE} (?:already allocated|is allocated by PyTorch|allowed; Of the allocated)")
_RESERVED = re.compile(rf"{_SIZE} (?:reserved in total by PyTorch|is reserved by PyTorch but unallocated|cached)")
_RESERVED_BEYOND = "but unallocated"
REACH = 6  # lines over which a terminal may have broken the message


def clues(text: Text, *, from_rung: str | None = None, is_text: bool = False) -> tuple[Clue, ...]:
    """One clue for each message whose figures decide."""
    if WAKE not in text.text:
        return ()
    lines = prepared(text)
    return tuple(_found(text, lines, from_rung, is_text=is_text))


def _found(text: Text, lines: Lines, from_rung: str | None, *, is_text: bool) -> Iterator[Clue]:
    for hit in lines.all(WAKE):
        message = lines.line(hit)
        if _TOTAL.search(message) is None:
            message = " ".join((message, *lines.entries[hit.last : hit.last + REACH]))
        cause = judged(message)
        if cause is not None:
            yield Clue(cause=cause, quotes=(text.quote(hit.first, hit.last),), basis="stated", from_rung=from_rung, text=is_text)


def judged(message: str) -> str | None:
    """The cause that the message's figures show; None where they do not decide."""
    total, free = _bytes(_TOTAL, message), _bytes(_FREE, message)
    own = _bytes(_ALLOCATED, message)
    if total is None or free is None or own is None:
        return None
    reserved = _bytes(_RESERVED, message) or 0.0
    own = own + reserved if _RESERVED_BEYOND in message else max(own, reserved)
    used = total - free
    if used <= 0:
        return None
    if own >= MOST * used:
        return OWN
    return OTHERS if own <= LITTLE * used and used >= total / 2 else None


def _bytes(pattern: re.Pattern[str], message: str) -> float | None:
    found = pattern.search(message)
    if found is None:
        return None
    number, unit = [group for group in found.groups() if group is not None]
    return float(number) * _UNITS[unit]
