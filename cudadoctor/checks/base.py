"""What a check is: one row of the pipeline, its rules (facts to clues), and the line that says what was found."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Facts, Quote
from cudadoctor.model.findings import Clue

Function = Callable[[Facts, Knowledge], Iterable[Clue]]


class Rule(msgspec.Struct, frozen=True):
    """Causes that one function can find. It reads facts as `facts[KEY]`, which raises where a fact is unknown: undecided.

    Where it ran to its end and yielded none of its causes, those causes are ruled out.
    """

    row: str
    causes: tuple[str, ...]
    function: Function


class Line(msgspec.Struct, frozen=True):
    """What a row says in one line, with the evidence behind it. `because` is set where the row's facts are unknown."""

    summary: str
    quotes: tuple[Quote, ...] = ()
    because: str | None = None  # why unknown
    skip: str | None = None  # why this row does not apply here (WSL, no Numba here, Jetson)
    details: tuple[str, ...] = ()  # further lines, one a thing, for whoever looks at the row itself


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One row. `looks_at` is what `check --list` prints; `items` are the evidence ids it reads."""

    id: str
    title: str
    looks_at: str
    items: tuple[str, ...]
    rules: tuple[Rule, ...]
    describe: Callable[[Facts, Knowledge], Line]
