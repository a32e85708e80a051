"""What the rules about a text ask it: which lines raise a suspicion, which state a cause, and what it mentions around them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from cudadoctor.checks.common import variable_quote, variables_of
from cudadoctor.checks.reading import Quotes, merged
from cudadoctor.model.facts import Fact, Facts, Quote
from cudadoctor.model.findings import Basis, Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import DRIVER_FILES, ENVIRONMENT, LIBRARIES, SETTING, SMI, SMI_CSV, LibraryFile, Smi, SmiCsv, SmiGpu

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


def variable(facts: Facts, name: str) -> tuple[str, Quotes]:
    """A variable's value in the text, and its line; an empty value where it has none."""
    found = facts.there(ENVIRONMENT)
    value = variables_of(found).get(name, "")
    return value, (variable_quote(found, name),) if found is not None and value else ()


def libcuda_files(facts: Facts) -> Iterator[tuple[LibraryFile, Quotes]]:
    """Each libcuda that the text shows, with its line."""
    for found in filter(None, map(facts.there, (DRIVER_FILES, LIBRARIES))):
        yield from ((file, found.line_of(file.line)) for file in found.need().find("libcuda.so"))


class Listed(NamedTuple):
    """A GPU in an answer of nvidia-smi."""

    table: Fact[Smi]
    gpu: SmiGpu


def gpus_of_tables(facts: Facts) -> Iterator[Listed]:
    """Each GPU that an nvidia-smi of the text lists."""
    return (Listed(fact, gpu) for fact in facts.all(SMI) if fact.value is not None for gpu in fact.value.gpus)


def lists(facts: Facts) -> tuple[Fact[SmiCsv], ...]:
    """The answers to nvidia-smi --query-..."""
    return tuple(fact for fact in facts.all(SMI_CSV) if fact.value is not None)


def nobody_computes(facts: Facts) -> Quotes:
    """The heading of a list of compute processes that has none, and is known to end there."""
    return next((fact.some()[:1] for fact in lists(facts) if fact.need().column("pid") == () and fact.need().closed), ())


def finding(cause: str, *quotes: Quotes, basis: Basis = "derived", values: dict[str, str] | None = None, **named: str) -> Clue:
    """What a tie makes of these lines; the values that its recipe needs as a dictionary or by name."""
    return Clue(cause=cause, quotes=merged(*quotes), basis=basis, text=True, values={**(values or {}), **named})


def in_words(cause: str, *quotes: Quotes) -> Clue:
    """What somebody's own words speak of: a suspicion, no more."""
    return Clue(cause=cause, quotes=merged(*quotes), basis="suspected", text=True, words=True)
