"""Many literals looked for in one pass (Aho-Corasick): the time does not grow with their number.

Every recogniser says which literals wake it; a text is read once for all of them, and then only the lines that hold one are looked at.
"""

from __future__ import annotations

from array import array
from collections.abc import Container, Iterable, Sequence

try:
    from ahocorasick_rs import AhoCorasick, Implementation
except ImportError:  # a library of the patient's environment (LD_LIBRARY_PATH) may break this one too: slower is better than nothing
    AhoCorasick = None  # type: ignore[assignment, misc]

BLOCK = 1 << 20  # characters searched at a time: bounds the list of places, cut at the end of a line where there is one


class Places:
    """Where the literals stand in one text: offsets in ascending order, of each literal those that do not overlap."""

    def __init__(self, found: dict[str, array[int]], known: frozenset[str], text: str) -> None:
        self._found, self._known, self._text = found, known, text

    def __contains__(self, literal: str) -> bool:
        return literal in self._found or (literal not in self._known and literal in self._text)

    def none_of(self, literals: frozenset[str]) -> bool:
        """Whether none of these, which were looked for, stands in the text."""
        return literals.isdisjoint(self._found)

    def each(self) -> Iterable[Sequence[int]]:
        return self._found.values()

    def among(self, wanted: Container[str]) -> list[str]:
        """Those of the wanted that were looked for and stand in the text."""
        return [literal for literal in self._found if literal in wanted]

    def of(self, literal: str) -> Sequence[int]:
        """The offsets of a literal. One that was not looked for with the others is looked for now."""
        if literal in self._known:
            return self._found.get(literal, ())
        return each(literal, self._text)


def each(literal: str, text: str) -> list[int]:
    found, at = [], text.find(literal)
    while at >= 0:
        found.append(at)
        at = text.find(literal, at + len(literal))
    return found


class Literals:
    """A set of literals made ready for the pass. One that goes over the end of a line is looked for by itself."""

    def __init__(self, literals: Iterable[str]) -> None:
        self._list = tuple(dict.fromkeys(literal for literal in literals if "\n" not in literal))
        self._known = frozenset(self._list)
        self._longest = max(map(len, self._list), default=0)
        self._automaton = AhoCorasick(self._list, implementation=Implementation.ContiguousNFA) if AhoCorasick is not None else None

    def __or__(self, others: Literals) -> Literals:
        return Literals((*self._list, *others._list))

    def places(self, text: str) -> Places:
        if self._automaton is None:
            one_by_one = {literal: array("Q", each(literal, text)) for literal in self._list}
            return Places({literal: at for literal, at in one_by_one.items() if at}, self._known, text)
        found: dict[int, array[int]] = {}
        start = 0
        while start < len(text):
            end = text.rfind("\n", start, start + BLOCK) + 1 if len(text) > start + BLOCK else len(text)
            end = end or start + BLOCK  # in a line that is longer; what goes over the cut belongs to the block in which it begins
            for number, first, last in self._automaton.find_matches_as_indexes(text[start : end + self._longest], overlapping=True):
                if start + first >= end:
                    continue
                at = found.get(number)
                if at is None:
                    at = found[number] = array("Q")
                elif at[-1] + last - first > start + first:
                    continue  # overlaps the one before
                at.append(start + first)
            start = end
        return Places({self._list[number]: at for number, at in found.items()}, self._known, text)
