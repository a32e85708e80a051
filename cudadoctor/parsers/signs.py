"""Messages that state their cause: looks for every `[[match]]` of the causes in a text.

A match counts where its literal stands, its `pattern` (if any) is found in the window around it, and its `unless` is not.
Patterns see the lines of the window joined by newlines, with ^ and $ at each line. Named groups become the clue's values;
a group `address` (a PCI address), or one that NVIDIA's module writes before its message, makes that GPU the clue's subject where a GPU
may have the fault alone. A match with `suspects` raises suspicion of those causes.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from cudadoctor.model.addresses import normal_address
from cudadoctor.model.facts import Quote
from cudadoctor.model.findings import GPU_LAYERS, Basis, Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.model.recipe import Match
from cudadoctor.parsers.base import Text
from cudadoctor.parsers.lines import REACH, Hit, Lines, prepared

if TYPE_CHECKING:
    from cudadoctor.knowledge.load import Knowledge

QUOTE_LINES = 4  # the literal's line and the pattern's are quoted together when they stand this close
ADDRESS = "address"
_MODULE_SPEAKS = lazy(r"\bNVRM: (?:GPU (?:at )?)?(?:PCI:)?\(?(?:PCI:)?(?P<address>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.\d)?)")


class _Place(msgspec.Struct, frozen=True):
    """Where a sign was found: the lines to quote and what its pattern captured."""

    first: int
    last: int
    literal: str
    values: dict[str, str] = {}


class _Sign(NamedTuple):
    """One literal of a match."""

    order: int
    cause: str
    match: Match
    literal: str


class _Key(NamedTuple):
    """One clue: the places of the same cause, subject and basis are joined."""

    cause: str
    subject: str
    basis: Basis
    advice: bool


def clues(text: Text, knowledge: Knowledge, *, from_rung: str | None = None, is_text: bool = False) -> tuple[Clue, ...]:
    """What the text states: one clue for each cause and subject, quoting the first place, the last, and the one that tells most."""
    lines = prepared(text)
    ends: dict[_Key, tuple[_Place, _Place, _Place]] = {}
    values: dict[_Key, dict[str, str]] = {}
    order, signs = attrgetter("first", "last"), literals(knowledge)
    for sign in sorted((sign for literal in lines.present(signs) for sign in signs[literal]), key=attrgetter("order")):
        hits = lines.some_ends(sign.literal, sign.match.window)
        for place in filter(None, (_judged(sign.match, sign.literal, hit, lines) for hit in hits)):
            own = knowledge.causes[sign.cause].layer in GPU_LAYERS
            address = normal_address(place.values.get(ADDRESS) or (_of_module(lines.entries[place.first - 1]) if own else ""))
            for key in _keys(sign.cause, sign.match, "machine" if address is None else f"gpu:{address}"):
                first, telling, last = ends.get(key, (place, place, place))
                telling = place if len(place.values) > len(telling.values) else telling
                ends[key] = (min(first, place, key=order), telling, max(last, place, key=order))
                stated = {**sign.match.values, **place.values}
                values.setdefault(key, {}).update({name: value for name, value in stated.items() if name != ADDRESS})
    return tuple(
        Clue(
            cause=key.cause,
            quotes=_quotes(text, lines, *ends[key]),
            basis=key.basis,
            subject=key.subject,
            from_rung=from_rung,
            text=is_text,
            advice=key.advice,
            values=values[key],
        )
        for key in ends
    )


def _of_module(line: str) -> str:
    """The GPU of which a line of the kernel log is."""
    found = _MODULE_SPEAKS.search(line)
    return found["address"] if found is not None else ""


def _keys(cause: str, match: Match, subject: str) -> tuple[_Key, ...]:
    """What a hit says: its file's cause, or suspicion of several."""
    if not match.suspects:
        return (_Key(cause, subject, "stated", match.advice),)
    return tuple(_Key(suspect, subject, "suspected", match.advice) for suspect in match.suspects)


def _quotes(text: Text, lines: Lines, *places: _Place) -> tuple[Quote, ...]:
    """These places in the order of the text, and of those that say the same the first."""
    said: dict[tuple[object, ...], _Place] = {}
    for place in sorted(places, key=attrgetter("first", "last")):
        said.setdefault(tuple(lines.entries[place.first - 1 : place.last]), place)
    return tuple(text.quote(place.first, place.last, about=place.literal) for place in said.values())


def literals(knowledge: Knowledge) -> dict[str, list[_Sign]]:
    return knowledge.once("signs", lambda: _signs(knowledge))


def _signs(knowledge: Knowledge) -> dict[str, list[_Sign]]:
    """By the literal that wakes them."""
    found: dict[str, list[_Sign]] = {}
    every = ((cause.id, match, literal) for cause in knowledge.causes.values() for match in cause.match for literal in match.literals)
    for order, (cause, match, literal) in enumerate(every):
        found.setdefault(literal, []).append(_Sign(order, cause, match, literal))
    return found


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compiled when its literal was found, for most never are."""
    return re.compile(pattern, re.MULTILINE)


def _judged(match: Match, literal: str, hit: Hit, lines: Lines) -> _Place | None:
    if match.until is not None and lines.says_on(hit, _compiled(match.until)):
        return None
    if match.pattern is None and match.unless is None:
        return _Place(hit.first, hit.last, literal)
    window, top = lines.window(hit, match.window)
    if match.unless is not None and _compiled(match.unless).search(window):
        return None
    if match.pattern is None:
        return _Place(hit.first, hit.last, literal)
    form, own = _compiled(match.pattern), lines.line(hit)
    found = form.search(own) if not form.groupindex else None  # what the line says alone is quoted alone; values may stand beside it
    window, top = (own, hit.first) if found is not None else (window, top)
    found = found or form.search(window)
    if found is None:
        return _of_sentence(match, literal, hit, lines)
    if literal in found[0] and not lines.stands(hit, found[0]):
        return None  # the line holds the literal twice
    last = max(found.start(), found.end() - 1)
    return _place(literal, hit, found, top + window.count("\n", 0, found.start()), top + window.count("\n", 0, last))


def _of_sentence(match: Match, literal: str, hit: Hit, lines: Lines) -> _Place | None:
    """What the pattern looks for may stand where the sentence begins or goes on, in the lines beside it."""
    for sentence in lines.sentences(hit):
        words = sentence.text[: 4 * REACH]
        found = _compiled(match.pattern or "").search(words)
        if found is None or (match.unless is not None and _compiled(match.unless).search(words)):
            continue
        first = sentence.first + bisect_right(sentence.ends, found.start())
        last = sentence.first + bisect_left(sentence.begins, found.end())
        return _place(literal, hit, found, first, last)
    return None


def _place(literal: str, hit: Hit, found: re.Match[str], first: int, last: int) -> _Place:
    """The lines of the hit with those of what its pattern found, where these are close."""
    first, last = min(hit.first, first), max(hit.last, last)
    if last - first >= QUOTE_LINES:
        first, last = hit.first, hit.last
    return _Place(first, last, literal, {name: value for name, value in found.groupdict().items() if value is not None})
