"""What `cudadoctor bench` prints, keeps and compares: every figure with a bar for its share of what the hardware can do."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from cudadoctor import __version__
from cudadoctor.commands import smoking, terminal
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.report import BenchmarkResult, MachineGpu, Report
from cudadoctor.report import text
from cudadoctor.report.clean import one_line
from cudadoctor.sources import inputs

FORMAT = "cudadoctor-benchmark/1"
BAR = 20  # columns
PARTS = {False: ("█", "░"), True: ("#", ".")}
VERDICT_STYLE = {"ok": "green", "slow": "bold yellow", "cannot judge": "dim"}
TITLE = 44


# ---------------------------------------------------------------- figures that were kept
class Saved(msgspec.Struct, frozen=True):
    """Figures by the GPU's UUID (its number where there is none), name and peer; and the names of the GPUs."""

    figures: dict[tuple[str, str, str], float]
    gpus: tuple[str, ...]
    path: str


def _keys(gpus: Iterable[Any]) -> dict[int, str]:
    """CUDA's number of each GPU -> its UUID."""
    found = {}
    for gpu in gpus:
        index = gpu.get("cuda_index") if gpu.get("cuda_index") is not None else gpu.get("index")
        if isinstance(index, int):
            found[index] = str(gpu.get("uuid") or index)
    return found


def save(report: Report, path: str) -> None:
    """Write the figures of a run. Of a run that measured nothing there is nothing to keep."""
    if not any(result.value is not None for result in report.benchmark):
        raise terminal.usage(f"--save {path}: nothing was measured")
    body = {
        "format": FORMAT,
        "tool": __version__,
        "gpus": [msgspec.to_builtins(gpu) for gpu in report.machine.gpus],
        "benchmark": [msgspec.to_builtins(result) for result in report.benchmark],
    }
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(json.dumps(body, indent=1) + "\n")
    except OSError as error:
        raise terminal.usage(f"--save {path}: {error.strerror}") from error


def read_saved(path: str) -> Saved:
    """Figures that --save kept, or the JSON report of an earlier run."""
    try:
        body = json.loads(inputs.of_path(path).body)
        gpus = body["machine"]["gpus"] if "machine" in body else body["gpus"]
        keys = _keys(gpus)
        figures = {
            (keys.get(one["gpu"], str(one["gpu"])), str(one["name"]), _peer(one.get("peer"), keys)): float(one["value"])
            for one in body["benchmark"]
            if isinstance(one.get("value"), int | float)
        }
    except inputs.InputError as error:
        raise terminal.usage(f"--against {error}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise terminal.usage(f"--against {path}: no figures of `cudadoctor bench --save` are in it") from error
    return Saved(figures=figures, gpus=tuple(str(gpu.get("name")) for gpu in gpus), path=os.path.basename(path))


def _peer(peer: int | None, keys: dict[int, str]) -> str:
    return "" if peer is None else keys.get(peer, str(peer))


def compared(report: Report, saved: Saved | None, knowledge: Knowledge, *, strict: bool) -> Report:
    """The report with each figure's change; those that fell behind are told, and under --strict exit with 1."""
    if saved is None:
        return report
    keys = _keys(msgspec.to_builtins(gpu) for gpu in report.machine.gpus)
    results, behind = [], []
    for result in report.benchmark:
        before = saved.figures.get((keys.get(result.gpu, str(result.gpu)), result.name, _peer(result.peer, keys)))
        if before is None or before <= 0 or result.value is None:
            results.append(result)
            continue
        change = round(result.value / before - 1, 4)
        results.append(msgspec.structs.replace(result, saved=before, change=change))
        row = knowledge.figure(result.name)
        if row is not None and (change > row.drift if row.less else change < -row.drift):
            behind.append(f"{row.title} on GPU {result.gpu}: {result.value:.4g} {result.unit}, {before:.4g} before ({change:+.0%})")
    notes = tuple(f"Worse than in {saved.path}: {words}" for words in behind)
    if not any(result.saved is not None for result in results):
        notes = (f"{saved.path} holds no figures of these GPUs, but of {', '.join(saved.gpus) or 'none'}",)
    code = 1 if behind and strict and report.exit_code == 0 else report.exit_code
    return msgspec.structs.replace(report, benchmark=tuple(results), notes=(*notes, *report.notes), exit_code=code)


# ---------------------------------------------------------------- text
def render(report: Report, knowledge: Knowledge, style: text.Style, *, against: str | None = None) -> str:
    """The figures of each GPU, then the whole diagnosis where there is one to tell."""
    if not report.benchmark:
        return text.render(report, knowledge, style)
    page = text.Page(style)
    for gpu in sorted({result.gpu for result in report.benchmark if result.peer is None}):
        page.raw(_heading(gpu, report.machine.gpus), style="bold")
        for result in report.benchmark:
            if result.gpu == gpu and result.peer is None:
                _figure(page, result, knowledge)
        page.gap()
    if report.lessons:
        smoking.lesson(page, report.lessons)
        page.gap()
    between = [result for result in report.benchmark if result.peer is not None]
    if between:
        _matrix(page, between, knowledge)
        page.gap()
    told = report.verdict not in ("healthy",) or report.exit_code != 0
    if told:
        return page.text() + text.render(msgspec.structs.replace(report, benchmark=()), knowledge, style)
    for note in report.notes:
        page.prose(f"Note: {note}", hang=2)
    _conclusion(page, report)
    return page.text()


def _heading(gpu: int, gpus: Sequence[MachineGpu]) -> str:
    known = next((one for one in gpus if one.cuda_index == gpu), None)
    parts = (f"GPU {gpu}", known.name or "" if known is not None else "", known.address or "" if known is not None else "")
    return one_line("  ".join(part for part in parts if part))


def _figure(page: text.Page, result: BenchmarkResult, knowledge: Knowledge) -> None:
    row = knowledge.figure(result.name)
    title = row.title if row is not None else result.name
    if result.value is None:
        page.pair(f"  {title:<{TITLE}}", "", "not measured")
        page.prose(result.why or "no reason recorded", indent=6, style="dim")
        return
    value = f"{_short(result.value):>8} {result.unit:<8}"
    words = f"{value} {bar(result.share, ascii_only=page.style.ascii)}"
    if result.share is not None:
        words += f" {round(result.share * 100):>3} %"
    if result.verdict != "cannot judge":
        words += f"  {result.verdict}"
    if result.change is not None:
        words += f"  {result.change:+.1%} against {_short(result.saved or 0.0)}"
    page.pair(f"  {title:<{TITLE}}", VERDICT_STYLE[result.verdict] if result.verdict == "slow" else "", words.rstrip())
    details = _details(result, judged=row is not None and row.good is not None, verbose=page.style.verbose)
    if details:
        page.prose(details, indent=6, style="dim")


def _details(result: BenchmarkResult, *, judged: bool, verbose: bool) -> str:
    """Where the limit comes from and how far the samples lay apart; a figure that is not good says so without -v."""
    doubtful = result.verdict == "slow" or (result.verdict == "cannot judge" and judged)
    if not verbose:
        return result.why or "" if doubtful else ""
    parts = []
    if result.limit is not None:
        parts.append(f"limit {_short(result.limit)} {result.unit} ({result.limit_from})")
    if result.spread is not None:
        parts.append(f"spread {result.spread:.1%}" + (f" over {len(result.runs)} runs" if result.runs else ""))
    if result.why:
        parts.append(result.why)
    return "; ".join(parts)


def bar(share: float | None, *, ascii_only: bool) -> str:
    """`████░░`: the share of the limit; blanks where there is no limit."""
    if share is None:
        return " " * BAR
    full, empty = PARTS[ascii_only]
    filled = min(BAR, max(0, round(share * BAR)))
    return full * filled + empty * (BAR - filled)


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 1000 else f"{value:.4g}"


def _matrix(page: text.Page, between: Sequence[BenchmarkResult], knowledge: Knowledge) -> None:
    """One table a figure: from each GPU (row) to each other (column)."""
    for name in dict.fromkeys(result.name for result in between):
        cells = {(result.gpu, result.peer): result for result in between if result.name == name}
        unit = next(iter(cells.values())).unit
        row = knowledge.figure(name)
        page.raw(f"{row.title if row is not None else name}, {unit} (from the row's GPU to the column's)", style="bold")
        gpus = sorted({gpu for pair in cells for gpu in pair if gpu is not None})
        page.raw("        " + "".join(f"{f'GPU {gpu}':>9}" for gpu in gpus))
        for one in gpus:
            line = "".join(f"{_cell(cells.get((one, other))):>9}" for other in gpus)
            page.raw(f"  {f'GPU {one}':<6}{line}")
        ways = dict.fromkeys(result.limit_from for result in cells.values() if result.limit_from)
        for way in ways:
            page.raw(one_line(f"limit: {way}"), style="dim", indent=2)
        for result in cells.values():
            if result.verdict == "slow" or (result.value is None and result.why):
                page.prose(f"GPU {result.gpu} to GPU {result.peer}: {result.verdict}: {result.why}", indent=2, hang=2)


def _cell(result: BenchmarkResult | None) -> str:
    return "-" if result is None or result.value is None else _short(result.value)


def _conclusion(page: text.Page, report: Report) -> None:
    judged = [result for result in report.benchmark if result.verdict != "cannot judge"]
    slow = [result for result in judged if result.verdict == "slow"]
    if slow:
        page.raw(f"{len(slow)} of {len(judged)} figures that a limit judges are slow.", style="bold yellow")
    elif judged:
        page.raw(f"All {len(judged)} figures that a limit judges are near what the hardware can do.", style="bold green")
