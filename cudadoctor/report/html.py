"""The report, and the picture of many machines, as one HTML file that needs no network: it can be mailed, archived by a CI job and printed.

The pages are templates/report.html.jinja and fleet.html.jinja with style and script beside them. The data of the fleet's map are one byte
a GPU and figure (percent of the usual), so that 80,000 GPUs fit. Words of a machine are made visible (`clean`) and escaped wherever a
template puts them; style and script stand in the page, and its own policy (CSP) runs no script but ours and loads nothing.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import itertools
from collections.abc import Iterator, Sequence

import jinja2
import msgspec
from markupsafe import Markup, escape

from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model import units
from cudadoctor.model.facts import Quote
from cudadoctor.model.pattern import lazy
from cudadoctor.model.recipe import Step, Who
from cudadoctor.model.report import BenchmarkResult, Report
from cudadoctor.report import bench_text, fleet_text, text, words
from cudadoctor.report.clean import clean, one_line
from cudadoctor.report.formats import Seen

Shown = dict[str, object]  # what a template reads of one thing
MOST_HEAT = 45  # percent of the colour: words on it keep their contrast
_CODE = lazy(r"`([^`\n]+)`")
_HEADS: dict[Who, str] = {"user": "", "administrator": text.ADMINISTRATOR, "afterwards": text.AFTERWARDS}


def render(report: Report, knowledge: Knowledge) -> str:
    root, prescription = report.diagnosis.root, report.prescription
    steps = prescription.steps if prescription is not None else ()
    gpus = dict.fromkeys(result.gpu for result in report.smoke)
    starts = itertools.accumulate((len(leg.steps) for leg in report.way), initial=len(steps) + 1)  # the steps of the fix came before
    between = bench_text.by_name(one for one in report.benchmark if one.peer is not None)
    context = {
        "report": report,
        "courses": bench_text.courses(report) if report.sustained else (),
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
            {
                "title": words.figure(name, knowledge),
                "limits": bench_text.limits(results),
                "bars": [(one.gpu, _bar(one)) for one in results],
            }
            for name, results in bench_text.by_name(one for one in report.benchmark if one.peer is None).items()
        ],
        "links": [_links(name, results, knowledge) for name, results in between.items()],
        "statuses": {status: count for status in text.STATUS_STYLE if (count := sum(row.status == status for row in report.checks))},
        "smoke": [(gpu, [result for result in report.smoke if result.gpu == gpu]) for gpu in gpus],
        "words": words, "text": text,
    }  # fmt: skip
    return _environment().get_template("report.html.jinja").render(context)


# ---------------------------------------------------------------- what the template reads
def _parts(steps: Sequence[Step]) -> Iterator[Shown]:
    """Steps of one person. `start`: the number of the first."""
    for who, group in itertools.groupby(enumerate(steps, 1), key=lambda numbered: numbered[1].who):
        numbered = list(group)
        yield {"head": _HEADS[who], "start": numbered[0][0], "steps": [step for _, step in numbered]}


def _seen(report: Report) -> str:
    """When and where the evidence was collected."""
    when = (report.origin.time or "").replace("T", " ").replace("Z", " UTC")
    host = f"on {report.origin.host}" if report.origin.host else ""
    return " ".join(filter(None, ("Seen", when, host))) if when or host else ""


def _bar(result: BenchmarkResult) -> Shown:
    """A figure against its limit: `filled` and `limit` are percentages of the bar, None where no limit is known."""
    slow, said, of = result.verdict == "slow", "not measured", result.why or "no reason recorded"
    filled = limit = None
    if result.value is not None:
        said, of = units.figure(result.value, result.unit), ""
        if result.share is not None and result.limit is not None:
            of = f"{result.share:.0%} of {units.figure(result.limit, result.unit)}"
            whole = max(1.0, result.share)  # a figure above its limit: the limit then stands within the bar
            filled, limit = (f"{max(0.0, part) / whole:.1%}" for part in (result.share, 1.0))
    return {"said": said, "of": of, "slow": slow, "filled": filled, "limit": limit}


def _links(name: str, results: Sequence[BenchmarkResult], knowledge: Knowledge) -> Shown:
    """A figure of copies between GPUs, as a square: the faster, the stronger the tint."""
    gpus, cells = bench_text.square(results)
    most = max((result.value for result in results if result.value is not None), default=0.0)
    rows = [(one, [_cell(cells.get((one, other)), most) for other in gpus]) for one in gpus]
    return {
        "title": f"{words.figure(name, knowledge)}, {results[0].unit}",
        "limits": bench_text.limits(results),
        "gpus": gpus,
        "rows": rows,
    }


def _cell(result: BenchmarkResult | None, most: float) -> Shown:
    if result is None or result.value is None:
        return {"said": "-" if result is None else f"not measured: {result.why}", "heat": "", "slow": False}
    heat = f"{result.value / most * MOST_HEAT:.0f}%" if most > 0 else ""
    return {"said": units.short(result.value), "heat": heat, "slow": result.verdict == "slow"}


# ---------------------------------------------------------------- many machines
def render_fleet(seen: Seen, knowledge: Knowledge) -> str:
    fleet, fold = seen.fleet, fleet_text.folded
    groups = {(group.verdict, group.cause): group for group in fleet.groups}
    context = {
        "fleet": fleet,
        "verdict": fleet_text.worst(fleet),
        "headline": fleet_text.headline(fleet),
        "models": fleet_text.models(fleet),
        "missing": [(fold(sources), why) for why, sources in fleet_text.by_reason(fleet).items()],
        "groups": [(group, fold(group.nodes)) for group in fleet.groups],
        "demands": [(fold(one.nodes), words.asked(one)) for one in fleet.demands],
        "worse": [(fold(one.nodes), one.what) for one in fleet.worse],
        "slow": [("", fleet_text.slow(one, knowledge)) for one in fleet.stragglers],
        "drift": [("", fleet_text.drifting(one)) for one in fleet.drift],
        "sick": [(node, groups[node.verdict, node.cause]) for node in seen.nodes if node.verdict != "healthy"],
        "heat": _heat(seen, knowledge),
    }
    return _environment().get_template("fleet.html.jinja").render(context)


def _heat(seen: Seen, knowledge: Knowledge) -> Markup:
    """The data of the map as JSON that may stand in a page; empty where nothing was measured."""
    nodes, shares = seen.nodes, seen.heat()
    rows = sorted((row for row in knowledge.figures if row.name in shares), key=lambda row: min(shares[row.name]))
    if not rows:
        return Markup("")
    data = {
        "names": [one_line(node.name) for node in nodes],
        "states": [node.verdict if node.cause is None else f"{node.verdict}: {one_line(node.cause)}" for node in nodes],
        "gpus": [[gpu.number for gpu in node.gpus] for node in nodes],
        "maps": [{"title": row.title, "shares": base64.b64encode(shares[row.name]).decode()} for row in rows],
    }
    body = msgspec.json.encode(data).decode()
    return Markup(body.replace("<", "\\u003c"))  # noqa: S704 - JSON without a tag


# ---------------------------------------------------------------- templates
@functools.cache
def _environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("cudadoctor.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_finalized,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters.update(prose=_prose, lines=_lines, because=words.because, size=units.size, figure=units.figure)
    made.globals.update(asset=_asset, digest=_digest, settles=words.settles)
    return made


def _asset(name: str) -> Markup:
    """A style or a script of ours."""
    loader = _environment().loader
    assert loader is not None
    return Markup(loader.get_source(_environment(), name)[0].strip())  # noqa: S704 - a file of ours


def _digest(name: str) -> str:
    """By which the page's policy knows a script."""
    return base64.b64encode(hashlib.sha256(_asset(name).encode()).digest()).decode()


def _finalized(value: object) -> object:
    """What every expression of the template goes through before it is escaped."""
    if value is None:
        return ""
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _prose(said: str) -> Markup:
    """A sentence in which `commands` stand between backticks."""
    pieces = _CODE.split(clean(said))
    return Markup("").join(Markup("<code>{}</code>").format(piece) if odd % 2 else escape(piece) for odd, piece in enumerate(pieces))


def _lines(quote: Quote) -> list[tuple[int | str, str]]:
    """The lines of a quote with their numbers, where these are known."""
    shown = clean(quote.text).split("\n")
    known = quote.first is not None and quote.last is not None and quote.last - quote.first + 1 == len(shown)
    return list(zip(itertools.count(quote.first or 1) if known else itertools.repeat(""), shown, strict=False))
