"""Ties that only put lines side by side: what raises a suspicion or is stated, and the circumstances in which it means something else."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cudadoctor.checks.reading import Quotes
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Facts
from cudadoctor.model.findings import Basis, Clue
from cudadoctor.texts.tie_breakers.place import place_of
from cudadoctor.texts.tie_breakers.said import ANYTHING, Said, What, finding, settled, stated, suspected

Tie = Callable[[Said, Facts, Knowledge], Iterator[Clue]]
Look = Callable[[Said], Quotes]


def suspects(cause: str, what: What = ANYTHING) -> Look:
    return lambda said: suspected(said, cause, what)


def states(*causes: str, words: What = ANYTHING) -> Look:
    return lambda said: stated(said, *causes, words=words)


def joined(
    causes: str | tuple[str, ...],
    *looks: Look,
    beside: tuple[str, ...] = (),
    only_if: tuple[str, ...] = (),
    unless: tuple[str, ...] = (),
    unless_stated: tuple[str, ...] = (),
    unsettled: bool = False,
    basis: Basis = "derived",
    **values: str,
) -> Tie:
    """The first line that a look finds, and a circumstance of each `beside` ("a|b": the first of them that is there): these causes.

    `only_if`: circumstances that are not quoted; `unsettled`: only where the text states no cause.
    """

    def tie(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
        lines, place = next(filter(None, (look(said) for look in looks)), ()), place_of(facts)
        if looks and not lines:
            return
        shown = [next(filter(None, map(place.shows, kinds.split("|"))), ()) for kinds in beside]
        if not all(shown) or not all(map(place.shows, only_if)) or any(map(place.shows, unless)):
            return
        if stated(said, *unless_stated) or (unsettled and settled(said)):
            return
        for cause in (causes,) if isinstance(causes, str) else causes:
            yield finding(cause, lines, *shown, basis=basis, values=values)

    return tie
