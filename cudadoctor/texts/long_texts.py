"""A long text is read without its repetitions; the report then names the lines of the full text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from cudadoctor.model.evidence import Evidence
from cudadoctor.model.facts import Quote
from cudadoctor.model.findings import Finding, Judged
from cudadoctor.model.report import Row
from cudadoctor.parsers.condense import condensed
from cudadoctor.parsers.literals import Literals

Numbering = Mapping[str, Sequence[int]]  # source of a text -> for each line that was read, its number in the full text


class Short(NamedTuple):
    """Evidence with condensed texts, how their lines were numbered before, and what a reader should know of what was left out."""

    evidence: Evidence
    numbering: Numbering = MappingProxyType({})
    remarks: tuple[str, ...] = ()


def shortened(evidence: Evidence, literals: Callable[[], Literals]) -> Short:
    """The evidence with its long texts condensed. `literals`: what any recogniser looks for."""
    items = []
    numbering: dict[str, Sequence[int]] = {}
    remarks = []
    for item in evidence.items:
        if (item.kind == "text" or item.id == "kernel-log") and item.stdout:
            text, numbers, repeated = condensed(item.stdout, literals)
            before = item.lines_before
            if numbers is not None:
                numbering[item.source] = tuple(number + before for number in numbers)
                item = msgspec.structs.replace(item, stdout=text)
            elif before:
                numbering[item.source] = range(before + 1, before + len(text) + 2)  # no text has more lines than letters
            if not repeated and numbers is not None:
                remarks.append(
                    f"Of the {item.source} {len(numbers)} lines were read, where what is known here stands first and last: "
                    "it is long, and all its lines are different."
                )
        items.append(item)
    return Short(msgspec.structs.replace(evidence, items=tuple(items)), numbering, tuple(remarks)) if numbering else Short(evidence)


def renumbered(judged: Judged, numbering: Numbering) -> Judged:
    """The findings with the line numbers of the full texts."""
    if not numbering:
        return judged
    found = judged.diagnosis
    diagnosis = msgspec.structs.replace(
        found,
        root=_finding(found.root, numbering) if found.root is not None else None,
        suspects=_findings(found.suspects, numbering),
        explains=_findings(found.explains, numbering),
        also=_findings(found.also, numbering),
    )
    not_now = _finding(judged.not_now, numbering) if judged.not_now is not None else None
    return msgspec.structs.replace(judged, diagnosis=diagnosis, past=_findings(judged.past, numbering), not_now=not_now)


def renumbered_rows(rows: Iterable[Row], numbering: Numbering) -> tuple[Row, ...]:
    """The rows of the checks, likewise."""
    return tuple(msgspec.structs.replace(row, evidence=_quotes(row.evidence, numbering)) for row in rows)


def _findings(findings: Iterable[Finding], numbering: Numbering) -> tuple[Finding, ...]:
    return tuple(_finding(finding, numbering) for finding in findings)


def _finding(finding: Finding, numbering: Numbering) -> Finding:
    return msgspec.structs.replace(finding, evidence=_quotes(finding.evidence, numbering))


def _quotes(quotes: Iterable[Quote], numbering: Numbering) -> tuple[Quote, ...]:
    return tuple(_quote(quote, numbering) for quote in quotes)


def _quote(quote: Quote, numbering: Numbering) -> Quote:
    numbers = numbering.get(quote.source)
    if numbers is None or quote.first is None or quote.last is None:
        return quote
    return msgspec.structs.replace(quote, first=numbers[quote.first - 1], last=numbers[quote.last - 1])
