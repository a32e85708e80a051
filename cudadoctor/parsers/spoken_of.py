"""Lines that speak of a message and show none by their own form: items of a list of changes, of one with advice, a question of a FAQ.

A line below `File "...", line 12` is part of a traceback, and stays.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from functools import cache

from cudadoctor.model.pattern import lazy
from cudadoctor.parsers.base import Text
from cudadoctor.parsers.literals import Literals

_LONGEST = 400  # characters; a longer line is a paragraph, which may show a message and speak of another
_FRAME = 'File "'
_ITEM = ("- ", "* ", "+ ", "• ")
_RELEASE = lazy(r"#{0,4} ?\[?v?\d{1,3}\.\d{1,3}(?:\.\d{1,4})?\]? {0,2}(?:\(|[-–] ?)?\d{4}-\d\d-\d\d")
_FEWEST = 3  # items of a list of changes
# What speaks, and words of which one stands in every such line: most lines are seen by these alone.
_SPEAKS: tuple[tuple[tuple[str, ...], re.Pattern[str]], ...] = (
    # a list of changes
    (
        _ITEM,
        lazy(
            r"^\s{0,8}[-*+•] {1,3}"
            r"(?:Fix(?:e[sd])?|Handles?|Avoids?|Prevents?|Don't|Do not|Better|Catch(?:es)?|Suppress(?:es)?|Improved?):? "
        ),
    ),
    # a question of a FAQ
    (("Q: ",), lazy(r"^\W{0,6}Q: ")),
    # a list of messages with what to do about each
    (
        (". `", '. "', ") `", ') "', *_ITEM),
        lazy(
            r"^\s{0,8}(?:[-*+•]|\d{1,2}[.)]) {1,3}(?:\"[^\"\n]{6,200}\"|`[^`\n]{6,200}`)[^\n:`\"]{0,40}: (?:please )?"
            r"(?:check|drain|restart|reboot|reset|run|use|install|reinstall|see|set|unset|call|update|upgrade|ask|try|remove|replace)\b"
            r"(?! (?:does|did|didn|do|helps?|fixes|fails?|only)\b)"
        ),
    ),
)


def lines_of(text: Text) -> frozenset[int]:
    """Indexes (from 0) of the lines that only speak of what they quote."""
    lines, found = text.lines, set[int]()
    places = _literals().places(text.joined)
    for words, speaks in _SPEAKS:
        known: dict[str, bool] = {}  # logs repeat themselves
        for index in {text.line_at(at) - 1 for word in words for at in places.of(word)} - found:
            line = lines[index]
            if line not in known:
                known[line] = len(line) <= _LONGEST and speaks.search(line) is not None
            if known[line] and not (index and _FRAME in lines[index - 1]):
                found.add(index)
    return frozenset(found) | frozenset(_changes(lines, found))


@cache
def _literals() -> Literals:
    return Literals(word for words, _ in _SPEAKS for word in words)


def _changes(lines: Sequence[str], speaking: Collection[int]) -> Iterator[int]:
    """The items of a list of changes: it stands below a release with its day, or half of its items speak by their own words."""
    start: int | None = None
    for index in range(len(lines) + 1):
        if index < len(lines) and lines[index].startswith(_ITEM):
            start = index if start is None else start
        elif start is not None:
            items, start = range(start, index), None
            released = any(_RELEASE.match(line) for line in lines[max(0, items[0] - 3) : items[0]])
            if len(items) >= _FEWEST and (released or 2 * sum(item in speaking for item in items) >= len(items)):
                yield from items
