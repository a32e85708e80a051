"""Long logs repeat themselves: leaves out what stands many more times in the same text, and keeps count of what is left.

A line counts as repeated where it differs from others in its digits alone (times, steps, process ids), but for those of a code. The first
and the last occurrences stay, so a block that is printed a thousand times stays whole where it is first and last shown; and what stands
around a line that is rare stays, because it is its context. Where a text is long and its lines are all different, the words that anything
here recognises repeat themselves: the lines stay that hold the first and the last occurrences of each.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from cudadoctor.parsers.literals import Literals

LIMIT = 512 << 10  # characters; shorter texts are read as they are
KEPT = (24, 4, 1)  # occurrences of a repeated line kept at each end: fewer where the text is still long
ENOUGH = 1 << 20  # characters that are read without looking for more to leave out; of more, only lines that hold a literal
CONTEXT = 12  # lines kept on each side of a rare line
HEAD, TAIL = 200, 2000  # lines kept in any case: what a run says of itself, and how it ended
TELLING = 384 << 10  # characters of lines that hold one
ENDS = ((24, 12), (8, 6), (2, 3), (1, 1), (1, 0))  # occurrences of a literal kept at each end, and lines around each
_DIGITS = bytes.maketrans(b"123456789", b"000000000")
Places = Callable[[str], Iterable[tuple[int, int]]]  # where on a line codes stand as numbers


class Condensed(NamedTuple):
    """`numbers`: for each line of the text its number in the full text; None where nothing was left out.

    `repeated`: whether all that was left out stands in the text that is left, but for its digits.
    """

    text: str
    numbers: tuple[int, ...] | None = None
    repeated: bool = True


def condensed(text: str, literals: Callable[[], Literals], codes: Places) -> Condensed:
    """The text without its repetitions. `literals` gives what any recogniser looks for, `codes` where codes stand on a line."""
    if len(text) <= LIMIT:
        return Condensed(text)
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    lines = text.split("\n")
    numbers = _rare(text, lines, codes)
    too_much = _size(lines, numbers) > ENOUGH
    if too_much:
        numbers = _telling([lines[number] for number in numbers], numbers, literals())
    if len(numbers) == len(lines):
        return Condensed(text)
    return Condensed("\n".join(lines[number] for number in numbers), tuple(number + 1 for number in numbers), not too_much)


def _size(lines: Sequence[str], numbers: Iterable[int]) -> int:
    return sum(len(lines[number]) + 1 for number in numbers)


def _rare(text: str, lines: Sequence[str], codes: Places) -> Sequence[int]:
    """The lines, from 0, that stay without the repeated ones."""
    shapes = text.encode("utf-8", "surrogatepass").translate(_DIGITS).split(b"\n")  # a digit's byte is no part of another character
    often = Counter(shapes)
    if len(often) > 0.9 * len(lines) and len(text) > ENOUGH:
        return range(len(lines))  # nothing repeats itself
    shapes = _told_apart(lines, shapes, often, codes)
    often = Counter(shapes)
    numbers: Sequence[int] = ()
    for ends in KEPT:
        numbers = _kept(shapes, often, ends)
        if _size(lines, numbers) <= ENOUGH:
            break
    return numbers


def _told_apart(lines: Sequence[str], shapes: Sequence[bytes], often: Mapping[bytes, int], codes: Places) -> list[bytes]:
    """The shapes, with the codes of those that repeat themselves: in lines of one shape a code stands at one place."""
    repeated = 2 * min(KEPT)
    coded: dict[bytes, tuple[tuple[int, int], ...]] = {}
    found = []
    for line, shape in zip(lines, shapes, strict=True):
        if often[shape] > repeated:
            if shape not in coded:
                coded[shape] = tuple(codes(line))
            shape += b"".join(b"\n" + line[start:end].encode() for start, end in coded[shape])
        found.append(shape)
    return found


def _telling(lines: Sequence[str], numbers: Sequence[int], literals: Literals) -> Sequence[int]:
    """Of these lines, numbered so, those that hold the first and the last occurrences of a literal."""
    text = "\n".join(lines)
    places = literals.places(text)
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    chosen: Sequence[int] = range(len(lines))
    for ends, around in ENDS:
        hits = {bisect_right(starts, at) - 1 for found in places.each() for at in (*found[:ends], *found[-ends:])}
        keep = bytearray(len(lines) + 2 * around)
        for line in hits:
            keep[line : line + 2 * around + 1] = b"\x01" * (2 * around + 1)
        chosen = _chosen(keep[around : around + len(lines)], HEAD)
        if _size(lines, chosen) <= TELLING:
            break
    return [numbers[number] for number in chosen]


def _kept(shapes: list[bytes], often: Mapping[bytes, int], ends: int) -> list[int]:
    """The lines, from 0, that stay. `often`: how often each shape stands; `ends`: occurrences kept at each end."""
    count = len(shapes)
    seen: dict[bytes, int] = {}
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
    return _chosen(keep[CONTEXT : CONTEXT + count], TAIL)


def _chosen(keep: bytearray, tail: int) -> list[int]:
    """The lines, from 0, that are kept, with those at the head and so many at the end."""
    count = len(keep)
    keep[:HEAD] = b"\x01" * min(HEAD, count)
    keep[max(0, count - tail) :] = b"\x01" * min(tail, count)
    return [number for number, kept in enumerate(keep) if kept]
