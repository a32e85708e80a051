"""Long logs repeat themselves: leaves out the lines that stand many more times in the same text, and keeps count of what is left.

A line counts as repeated where it differs from others in its digits alone (times, steps, process ids). The first and the last
occurrences stay, so a block that is printed a thousand times stays whole where it is first and last shown; and what stands around a
line that is rare stays, because it is its context.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

LIMIT = 512 << 10  # characters; shorter texts are read as they are
KEPT = (24, 4, 1)  # occurrences of a repeated line kept at each end: fewer where the text is still long
ENOUGH = 1 << 20  # characters that are read without looking for more to leave out
CONTEXT = 12  # lines kept on each side of a rare line
HEAD, TAIL = 200, 2000  # lines kept in any case: what a run says of itself, and how it ended
_DIGITS = str.maketrans("123456789", "000000000")


def shape(text: str) -> str:
    """The text with every digit as 0: times, steps and process ids then look alike."""
    if text.isascii():
        return text.translate(_DIGITS)
    for digit in "123456789":  # translating is slow where letters of other scripts are
        text = text.replace(digit, "0")
    return text


def condensed(text: str) -> tuple[str, tuple[int, ...] | None]:
    """The text without its repetitions, and for each line its number in the full text. (text, None) where nothing was left out."""
    if len(text) <= LIMIT:
        return text, None
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    lines = text.split("\n")
    shapes = shape(text).split("\n")
    often = Counter(shapes)
    for ends in KEPT:
        keep = _kept(shapes, often, ends)
        if sum(len(line) for line, stays in zip(lines, keep, strict=True) if stays) <= ENOUGH:
            break
    numbers = tuple(number for number, kept in enumerate(keep, 1) if kept)
    if len(numbers) == len(lines):
        return text, None
    return "\n".join(lines[number - 1] for number in numbers), numbers


def _kept(shapes: list[str], often: Mapping[str, int], ends: int) -> bytearray:
    """One byte a line: 1 where it stays. `often`: how often each shape stands; `ends`: occurrences kept at each end."""
    count = len(shapes)
    seen: dict[str, int] = {}
    keep = bytearray(count + 2 * CONTEXT)  # a margin at both ends saves clipping; line i stands at i + CONTEXT
    around = b"\x01" * (2 * CONTEXT + 1)
    for index, line in enumerate(shapes):
        total = often[line]
        if total <= 2 * ends:
            keep[index : index + len(around)] = around
            continue
        number = seen.get(line, 0)
        seen[line] = number + 1
        if number < ends or number >= total - ends:
            keep[index + CONTEXT] = 1
    keep = keep[CONTEXT : CONTEXT + count]
    keep[:HEAD] = b"\x01" * min(HEAD, count)
    keep[max(0, count - TAIL) :] = b"\x01" * min(TAIL, count)
    return keep
