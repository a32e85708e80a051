"""The report as one HTML file that needs no network: it can be mailed, archived by a CI job and printed.

The page is templates/report.html.jinja with its style and script beside it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model import units
from cudadoctor.model.recipe import Step, Who
from cudadoctor.model.report import BenchmarkResult, Report
from cudadoctor.report import sustained, templates, text, words

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_HEAT = 45  # percent of the colour: words on it keep their contrast
_HEADS: dict[Who, str] = {"user": "", "administrator": text.ADMINISTRATOR, "afterwards": text.AFTERWARDS}


class Part(NamedTuple):
    """Steps of one person. `start`: the number of the first."""

    head: str
    start: int
    steps: tuple[Step, ...]


class Bar(NamedTuple):
    """A figure against its limit: `filled` and `limit` are percentages of the bar, None where no limit is known."""

    said: str
    of: str
    slow: bool
    filled: str | None = None
    limit: str | None = None


class Figure(NamedTuple):
    """One figure of the benchmark, its GPUs side by side. `limits`: what its limit is taken from."""

    title: str
    limits: tuple[str, ...]
    bars: list[tuple[int, Bar]]


class Cell(NamedTuple):
    """A copy from one GPU to another. `heat`: how strongly the cell is tinted, the fastest most."""

    said: str
    heat: str = ""
    slow: bool = False


class Links(NamedTuple):
    """A figure of copies between GPUs, as a square."""

    title: str
    limits: tuple[str, ...]
    gpus: list[int]
    rows: list[tuple[int, list[Cell]]]


def render(report: Report, knowledge: Knowledge) -> str:
    root, prescription = report.diagnosis.root, report.prescription
    steps = prescription.steps if prescription is not None else ()
    gpus = dict.fromkeys(result.gpu for result in report.smoke)
    starts = itertools.accumulate((len(leg.steps) for leg in report.way), initial=len(steps) + 1)  # the steps of the fix came before
    context = {
        "report": report,
        "courses": sustained.courses(report) if report.sustained else (),
        "headline": words.headline(report),
        "proof": words.proof(report),
        "tried": tuple(words.experiments(report)),
        "why": knowledge.cause(root.cause).why if root is not None else None,
        "open": report.verdict == "undecided" or (report.verdict == "degraded" and root is None),
        "failed": next((row for row in report.checks if row.status == "fail" and row.evidence), None),
        "required": sorted(report.requirements, key=lambda result: bool(result.met)),
        "parts": tuple(_parts(steps)),
        "legs": list(zip(report.way, starts, strict=False)),
        "seen": _seen(report),
        "benchmark": [
            Figure(words.figure(name, knowledge), _limits(results), [(result.gpu, _bar(result)) for result in results])
            for name, results in _by_name(report, peers=False)
        ],
        "links": [_links(name, results, knowledge) for name, results in _by_name(report, peers=True)],
        "statuses": {status: count for status in text.STATUS_STYLE if (count := sum(row.status == status for row in report.checks))},
        "smoke": [(gpu, [result for result in report.smoke if result.gpu == gpu]) for gpu in gpus],
        "words": words, "text": text,
    }  # fmt: skip
    return templates.render("report.html.jinja", context)


# ---------------------------------------------------------------- what the template reads
def _parts(steps: Sequence[Step]) -> Iterator[Part]:
    start = 1
    for who, group in itertools.groupby(steps, key=lambda step: step.who):
        part = Part(_HEADS[who], start, tuple(group))
        start += len(part.steps)
        yield part


def _seen(report: Report) -> str:
    """When and where the evidence was collected."""
    when = (report.origin.time or "").replace("T", " ").replace("Z", " UTC")
    host = f"on {report.origin.host}" if report.origin.host else ""
    return " ".join(filter(None, ("Seen", when, host))) if when or host else ""


def _by_name(report: Report, *, peers: bool) -> list[tuple[str, list[BenchmarkResult]]]:
    found = [result for result in report.benchmark if (result.peer is not None) == peers]
    return [(name, [result for result in found if result.name == name]) for name in dict.fromkeys(result.name for result in found)]


def _limits(results: Sequence[BenchmarkResult]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(result.limit_from for result in results if result.limit_from is not None))


def _bar(result: BenchmarkResult) -> Bar:
    if result.value is None:
        return Bar("not measured", result.why or "no reason recorded", slow=False)
    said = units.figure(result.value, result.unit)
    if result.share is None or result.limit is None:
        return Bar(said, "", slow=result.verdict == "slow")
    of = f"{result.share:.0%} of {units.figure(result.limit, result.unit)}"
    whole = max(1.0, result.share)  # a figure above its limit: the limit then stands within the bar
    filled, limit = (f"{max(0.0, part) / whole:.1%}" for part in (result.share, 1.0))
    return Bar(said, of, result.verdict == "slow", filled, limit)


def _links(name: str, results: Sequence[BenchmarkResult], knowledge: Knowledge) -> Links:
    cells = {(result.gpu, result.peer): result for result in results}
    gpus = sorted({gpu for pair in cells for gpu in pair if gpu is not None})
    most = max((result.value for result in results if result.value is not None), default=0.0)
    rows = [(one, [_cell(cells.get((one, other)), most) for other in gpus]) for one in gpus]
    return Links(f"{words.figure(name, knowledge)}, {results[0].unit}", _limits(results), gpus, rows)


def _cell(result: BenchmarkResult | None, most: float) -> Cell:
    if result is None:
        return Cell("-")
    if result.value is None:
        return Cell(f"not measured: {result.why}")
    heat = f"{result.value / most * MOST_HEAT:.0f}%" if most > 0 else ""
    return Cell(units.figure(result.value, "").strip(), heat, result.verdict == "slow")
