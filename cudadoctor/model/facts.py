"""Three-valued facts: known, known to be absent, or unknown with a reason.

`facts[KEY]` gives a `Fact` (its `value` is None when the thing is known to be absent) and raises `NotKnown` when nobody knows.
A rule that meets an unknown fact is thereby undecided: it neither accuses nor absolves.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Generic, NoReturn, TypeVar

import msgspec

from cudadoctor.model.evidence import Origin

T = TypeVar("T")


class Quote(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Lines of the machine's own words. `first` and `last` are line numbers from 1, null for something absent."""

    source: str
    first: int | None = None
    last: int | None = None
    text: str


Quotes = tuple[Quote, ...]
QUOTES_AT_MOST = 3  # lines that one fact gives to a clue


class Key(msgspec.Struct, Generic[T], frozen=True):
    """The name of a fact whose value has type T."""

    name: str

    def unknown(self, why: str) -> NotKnown:
        """What a rule raises where a fact is there but does not say enough."""
        return NotKnown(Unknown(key=self.name, why=why))


class Fact(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """A known fact. `value` is None: known to be absent. `whole`: what the value does not list is known not to be there."""

    key: str
    value: T | None
    quotes: Quotes
    origin: Origin = "live"
    whole: bool = True

    @property
    def present(self) -> bool:
        return self.value is not None

    def need(self) -> T:
        """The value of a fact that the caller has seen to be present."""
        if self.value is None:
            raise LookupError(f"{self.key} is absent")
        return self.value

    # ------------------------------------------------------------ lines to quote
    def single_lines(self) -> Quotes:
        """The quoted lines, one quote a line."""
        return _taken_apart(self.quotes)

    def some(self) -> Quotes:
        """The first quotes, never none: lines also stand for "yes"."""
        return self.quotes[:QUOTES_AT_MOST] or (Quote(source=self.key, text=f"{self.key}: known, without a line"),)

    def source(self, unnamed: str | None = None) -> str:
        """Where the fact comes from, as a person would call it; `unnamed` where it quotes nothing."""
        return self.quotes[0].source if self.quotes else unnamed or self.key

    def lines_at(self, lines: Iterable[int | None]) -> Quotes:
        """The lines with these numbers; the first quote where it has none of them."""
        numbered, wanted = _by_number(self.quotes), sorted({line for line in lines if line is not None})
        return tuple(quote for line in wanted for quote in numbered.get(line, ())) or self.some()[:1]

    def line_of(self, line: int) -> Quotes:
        """The one line on which an entry stands; the first quotes where it cannot be found."""
        return _by_number(self.quotes).get(line, ())[:1] or self.some()

    def lines_with(self, *words: str) -> Quotes:
        """The quoted lines that hold one of these words; the first quotes where none does."""
        found = tuple(quote for quote in self.single_lines() if any(word in quote.text for word in words))
        return found[:QUOTES_AT_MOST] or self.some()

    def line_with(self, *needles: str, words: str) -> Quote:
        """The quoted line that holds all needles; `words` where the fact does not quote such a line."""
        fitting = (quote for quote in self.single_lines() if all(needle in quote.text for needle in needles))
        return next(fitting, None) or Quote(source=self.source(), text=words)


@lru_cache(maxsize=64)  # a rule asks for the lines of each of many GPUs, nodes or packages
def _taken_apart(quotes: Quotes) -> Quotes:
    single: list[Quote] = []
    for quote in quotes:
        if quote.first is None:
            single.append(quote)
            continue
        for place, text in enumerate(quote.text.split("\n"), quote.first):
            single.append(Quote(source=quote.source, first=place, last=place, text=text))
    return tuple(single)


@lru_cache(maxsize=64)
def _by_number(quotes: Quotes) -> dict[int, Quotes]:
    numbered: dict[int, Quotes] = {}
    for quote in _taken_apart(quotes):
        if quote.first is not None:
            numbered[quote.first] = (*numbered.get(quote.first, ()), quote)
    return numbered


class Unknown(msgspec.Struct, frozen=True, kw_only=True):
    """Nobody knows. It has no truth value: `if unknown:` is an error, not a guess."""

    key: str
    why: str

    def __bool__(self) -> NoReturn:
        raise TypeError(f"{self.key} is unknown ({self.why}) and has no truth value")


class NotKnown(Exception):
    """Raised by `facts[KEY]` where the fact is unknown; the rule that asked is undecided."""

    def __init__(self, unknown: Unknown) -> None:
        super().__init__(f"{unknown.key}: {unknown.why}")
        self.unknown = unknown


class Facts:
    """All facts of one run. Several sources may state the same key: the first known one counts, all are kept."""

    def __init__(self, facts: Iterable[Fact[object]], unknown: Iterable[Unknown] = ()) -> None:
        self._known: dict[str, list[Fact[object]]] = {}
        for fact in facts:
            self._known.setdefault(fact.key, []).append(fact)
        self._why: dict[str, str] = {}
        for entry in unknown:
            self._why.setdefault(entry.key, entry.why)

    def get(self, key: Key[T]) -> Fact[T] | Unknown:
        """The fact, or the reason why it is unknown. Present values outrank known absence (one tool may be missing)."""
        known = self._known.get(key.name)
        if not known:
            return Unknown(key=key.name, why=self._why.get(key.name, "not recorded"))
        # A text never changes what live evidence knows; among the rest presence outranks absence, then order counts.
        best = min(known, key=lambda fact: (fact.origin == "text", fact.value is None, not fact.whole))
        return best  # type: ignore[return-value]

    def __getitem__(self, key: Key[T]) -> Fact[T]:
        found = self.get(key)
        if isinstance(found, Unknown):
            raise NotKnown(found)
        return found

    def value(self, key: Key[T]) -> T | None:
        """A fact's value; None where it is absent or nobody knows."""
        found = self.get(key)
        return None if isinstance(found, Unknown) else found.value

    def there(self, key: Key[T]) -> Fact[T] | None:
        """The fact where it is known and its value is there."""
        found = self.get(key)
        return found if isinstance(found, Fact) and found.present else None

    def all(self, key: Key[T]) -> tuple[Fact[T], ...]:
        """Every known statement of this fact, in the order of the parsers."""
        return tuple(self._known.get(key.name, ()))  # type: ignore[arg-type]

    def told_by_text(self) -> frozenset[str]:
        """The names of all facts whose presence a user's text states."""
        return frozenset(name for name, facts in self._known.items() if any(fact.origin == "text" and fact.present for fact in facts))

    def why_unknown(self, key: Key[T]) -> str | None:
        found = self.get(key)
        return found.why if isinstance(found, Unknown) else None
