"""A long text is read without its repetitions; the report then names the lines of the full text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from cudadoctor.model.diagnosis import Judged
from cudadoctor.model.evidence import Evidence
from cudadoctor.model.facts import Quote
from cudadoctor.model.findings import Finding
from cudadoctor.model.report import Row
from cudadoctor.parsers.condense import condensed

Numbering = Mapping[str, tuple[int, ...]]  # source of a text -> for each line that was read, its number in the full text


def shortened(evidence: Evidence) -> tuple[Evidence, Numbering]:
    """The evidence with its long texts condensed, and how their lines were numbered before."""
    items = []
    numbering: dict[str, tuple[int, ...]] = {}
    for item in evidence.items:
        if (item.kind == "text" or item.id == "kernel-log") and item.stdout:
            text, numbers = condensed(item.stdout)
            if numbers is not None:
                numbering[item.source] = numbers
                item = msgspec.structs.replace(item, stdout=text)
        items.append(item)
    return (msgspec.structs.replace(evidence, items=tuple(items)), numbering) if numbering else (evidence, {})


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
