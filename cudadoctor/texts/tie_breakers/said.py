"""What the rules about a text ask it: which lines raise a suspicion, which state a cause, and what it mentions around them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from cudadoctor.checks.reading import Quotes, merged
from cudadoctor.model.facts import Facts, Quote
from cudadoctor.model.findings import Basis, Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import SETTING

Said = Sequence[Clue]


class Codes(NamedTuple):
    """Clues that one of these codes raised, or a message with these words. The recogniser knew the code: nobody reads it out of a line."""

    codes: frozenset[str]
    words: re.Pattern[str] | None = None

    def fits(self, clue: Clue, quote: Quote) -> bool:
        return clue.code in self.codes or (self.words is not None and self.words.search(quote.text) is not None)


def codes(*codes: str, words: str | None = None) -> Codes:
    return Codes(frozenset(codes), lazy(words) if words is not None else None)


What = re.Pattern[str] | Codes
ANYTHING = lazy(r".")


def _fits(what: What, clue: Clue, quote: Quote) -> bool:
    return what.fits(clue, quote) if isinstance(what, Codes) else what.search(quote.text) is not None


def suspicions(said: Said, cause: str, what: What = ANYTHING) -> Quotes:
    """The lines of all suspicions of this cause that rest on this."""
    clues = (clue for clue in said if clue.cause == cause and clue.basis == "suspected")
    return tuple(quote for clue in clues for quote in clue.quotes if _fits(what, clue, quote))


def suspected(said: Said, cause: str, what: What = ANYTHING) -> Quotes:
    """The first of these lines."""
    return suspicions(said, cause, what)[:1]


def sure(clue: Clue) -> bool:
    """Whether the text says of its failure that this is the cause. A warning or a line of a listing blames nothing."""
    return clue.basis != "suspected" and not clue.advice


def settled(said: Said) -> bool:
    """Whether the text states any cause."""
    return any(sure(clue) for clue in said)


def values_of(said: Said, cause: str, name: str) -> str | None:
    """What the message about a cause names, where it does."""
    return next((clue.values[name] for clue in said if clue.cause == cause and name in clue.values), None)


def stated(said: Said, *causes: str, words: What = ANYTHING) -> Quotes:
    """The line that states one of these causes and rests on this."""
    clues = (clue for clue in said if clue.cause in causes and sure(clue))
    return tuple(quote for clue in clues for quote in clue.quotes if _fits(words, clue, quote))[:1]


def mention(facts: Facts, topic: str) -> Quotes:
    """The line of a text that speaks of this, () where none does."""
    found = facts.there(SETTING)
    return found.line_of(found.need().words[topic]) if found is not None and topic in found.need().words else ()


def finding(cause: str, *quotes: Quotes, basis: Basis = "derived", values: dict[str, str] | None = None, **named: str) -> Clue:
    """What a tie makes of these lines; the values that its recipe needs as a dictionary or by name."""
    return Clue(cause=cause, quotes=merged(*quotes), basis=basis, text=True, values={**(values or {}), **named})


def in_words(cause: str, *quotes: Quotes) -> Clue:
    """What somebody's own words speak of: a suspicion, no more."""
    return Clue(cause=cause, quotes=merged(*quotes), basis="suspected", text=True, words=True)
