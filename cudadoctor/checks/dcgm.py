"""What DCGM's own diagnostic says of a test that failed: the cause behind DCGM's number for it.

These clues are words of the machine (texts/statements.py asks for them), no rule: a run that found nothing clears no cause.
"""

from __future__ import annotations

from collections.abc import Iterator

from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Fact, Facts, Quote
from cudadoctor.model.findings import Basis, Clue
from cudadoctor.model.values import DCGM, DcgmDiag, DcgmError, DcgmFailure


def failures(facts: Facts) -> Iterator[tuple[Fact[DcgmDiag], DcgmFailure]]:
    """Every test that failed."""
    fact = facts.there(DCGM)
    if fact is not None:
        yield from ((fact, failure) for failure in fact.need().failures)


def by_number(fact: Fact[DcgmDiag], failure: DcgmFailure, error: DcgmError, knowledge: Knowledge) -> Iterator[Clue]:
    """The causes that the table names for DCGM's number."""
    row = knowledge.dcgm_error(error.code) if error.code is not None else None
    if row is not None:
        number = (failure.entity or "").removeprefix("GPU ")
        values = {"index": number} if number.isdecimal() else {}
        basis: Basis = "stated" if len(row.causes) == 1 and not row.suspect_only else "suspected"
        for cause in row.causes:
            yield Clue(cause=cause, quotes=(quote(fact, failure, error),), basis=basis, values=values)


def quote(fact: Fact[DcgmDiag], failure: DcgmFailure, error: DcgmError) -> Quote:
    """DCGM's words with the test and the GPU that they are about."""
    return Quote(
        source=fact.line_of(error.line)[0].source,
        first=error.line or None,
        last=error.line or None,
        text=f"{named(failure)}: {error.text}"[:300],
    )


def named(failure: DcgmFailure) -> str:
    """memory, GPU 0."""
    return f"{failure.test}, {failure.entity}" if failure.entity else failure.test
