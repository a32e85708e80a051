"""What people write about a failure: a subject and a complaint of the lexicon in one sentence. It raises suspicions and states nothing."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from cudadoctor.knowledge.wording import Lexicon, Says
from cudadoctor.model.pattern import lazy
from cudadoctor.parsers.base import Text
from cudadoctor.parsers.discourse import SAID_BY_OTHERS
from cudadoctor.parsers.literals import Literals, Places

LONGEST = 3000  # lines; what is longer is a log, and people describe a failure in less
_PLACES = 200  # places of one word that are looked at
_OPEN = "*"  # ends a word that may go on
_END = lazy(r"[.!?;](?=\s)|[。！？；]|\n(?![ \t]{0,8}[a-zß-ÿа-я])")  # prose that goes on in the next line goes on in small letters
_ADDRESS = lazy(r"\bhttps?://[^\s)>\]]{1,2000}")  # its words are of a page that is elsewhere
_MARKS, _FEW = '"“„«', 26  # characters of such words
_NEGATION = 16  # characters before a word in which a negation counts


class _Place(NamedTuple):
    """A word of the text: offsets, and the number of its sentence."""

    start: int
    end: int
    sentence: int


class _Edges(NamedTuple):
    """Where the words of a sentence begin and end, in order."""

    starts: list[int]
    ends: list[int]

    @classmethod
    def of(cls, places: list[_Place]) -> _Edges:
        return cls(sorted(place.start for place in places), sorted(place.end for place in places))

    def near(self, place: _Place, reach: int) -> bool:
        """Whether one of them ends before this word, or begins behind it, with at most `reach` characters between."""
        before, behind = bisect_right(self.ends, place.start) - 1, bisect_left(self.starts, place.end)
        return (before >= 0 and place.start - self.ends[before] <= reach) or (
            behind < len(self.starts) and self.starts[behind] - place.end <= reach
        )


class _Says(NamedTuple):
    """An entry of the lexicon with its lists of words."""

    entry: Says
    subjects: tuple[str, ...]
    complaints: tuple[str, ...]
    also: tuple[str, ...]
    unless: tuple[str, ...]

    @property
    def wake(self) -> tuple[frozenset[str], frozenset[str]]:
        """Sets of which the text holds a word each."""
        return _bare(self.subjects), _bare(self.complaints)


class Prose:
    """The lexicon made ready for texts."""

    def __init__(self, lexicon: Lexicon) -> None:
        listed = lexicon.listed
        denials = "|".join(("" if word.startswith(_OPEN) else r"\b") + re.escape(word.strip(_OPEN)) for word in lexicon.denials)
        self._denied = re.compile(rf"(?:{denials})\b[-\s\w]{{0,12}}$")
        self._says = tuple(
            _Says(entry, *(listed(words) for words in (entry.subject, entry.complaint, entry.also, entry.unless))) for entry in lexicon.says
        )
        words = (word for says in self._says for word in (*says.subjects, *says.complaints, *says.also, *says.unless))
        self._literals = Literals(word.rstrip(_OPEN) for word in words)

    def kinds(self, text: Text) -> dict[str, int]:
        """Each kind that the text speaks of, with the line of its complaint."""
        low = _ADDRESS.sub(_blank, SAID_BY_OTHERS.sub(_blank, text.joined)).lower()
        if len(text.lines) > LONGEST or len(low) != len(text.joined):
            return {}
        places = self._literals.places(low)
        sentences = _Sentences(text.joined, low, places, self._denied)
        found: dict[str, int] = {}
        for says in self._says:
            if any(map(places.none_of, says.wake)):
                continue
            at = sentences.first(says)
            for kind in says.entry.kinds if at is not None else ():
                found[kind] = min(text.line_at(at or 0), found.get(kind, len(text.lines)))
        return found


class _Sentences:
    """A text in lower case, the places of the lexicon's words, and where its sentences end."""

    def __init__(self, text: str, low: str, places: Places, denied: re.Pattern[str]) -> None:
        self._low, self._places, self._denied = low, places, denied
        self._ends = [found.end() for found in _END.finditer(text)]
        self._known: dict[str, list[_Place]] = {}

    def first(self, says: _Says) -> int | None:
        """Where the first complaint stands near a subject of its sentence."""
        found: dict[int, list[_Place]] = {}
        for place in self._all(says.subjects):
            found.setdefault(place.sentence, []).append(place)
        subjects = {sentence: _Edges.of(places) for sentence, places in found.items()}
        if not subjects:
            return None
        around = {place.sentence for place in self._all(says.also)} if says.also else set(subjects)
        around -= {place.sentence for place in self._all(says.unless)}
        complaints = (place for place in self._all(says.complaints) if place.sentence in around and not self._negated(place.start))
        near = (
            place.start for place in complaints if place.sentence in subjects and subjects[place.sentence].near(place, says.entry.reach)
        )
        return min(near, default=None)

    def _all(self, words: tuple[str, ...]) -> Iterator[_Place]:
        for word in words:
            if word not in self._known:
                self._known[word] = list(self._of(word))
            yield from self._known[word]

    def _of(self, word: str) -> Iterator[_Place]:
        literal = word.rstrip(_OPEN)
        for start in self._places.of(literal)[:_PLACES]:
            end = start + len(literal)
            if self._stands_alone(start, end, literal, open_end=word.endswith(_OPEN)):
                yield _Place(start, end, bisect_right(self._ends, start))

    def _stands_alone(self, start: int, end: int, literal: str, *, open_end: bool) -> bool:
        """A word of an alphabet with blanks is no part of a longer one."""
        before, after = self._low[start - 1 : start], self._low[end : end + 1]
        if _in_word(literal[0]) and _in_word(before):
            return False
        return open_end or not (_in_word(literal[-1]) and _in_word(after))

    def _negated(self, start: int) -> bool:
        return self._denied.search(self._low[max(0, start - _NEGATION) : start]) is not None


def _blank(quoted: re.Match[str]) -> str:
    """A few words in quotation marks are the writer's own: the card has "fallen off the bus"."""
    own = quoted[0][0] in _MARKS and len(quoted[0]) <= _FEW and ":" not in quoted[0]
    return quoted[0] if own else " " * len(quoted[0])


@cache
def _bare(words: tuple[str, ...]) -> frozenset[str]:
    return frozenset(word.rstrip(_OPEN) for word in words)


def _in_word(letter: str) -> bool:
    """Scripts without blanks between words (Chinese, Japanese, Korean) have no edge of a word."""
    return (letter.isalnum() or letter == "_") and letter < "\u3000"
