"""What `cudadoctor bench` prints: every figure with a bar for its share of what the hardware can do."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.report import BenchmarkResult, MachineGpu, Report
from cudadoctor.report import smoke_text, sustained, text, words
from cudadoctor.report.clean import one_line

BAR = 20  # columns
PARTS = {False: ("█", "░"), True: ("#", ".")}
VERDICT_STYLE = {"ok": "green", "slow": "bold yellow", "cannot judge": "dim"}
TITLE = 44


def render(report: Report, knowledge: Knowledge, style: text.Style, *, against: str | None = None) -> str:
    """The figures of each GPU, then the whole diagnosis where there is one to tell."""
    if not report.benchmark:
        return text.render(report, knowledge, style)
    page = text.Page(style)
    if report.sustained:
        sustained.render(page, report)
    for gpu in sorted({result.gpu for result in report.benchmark if result.peer is None}):
        page.raw(_heading(gpu, report.machine.gpus), style="bold")
        for result in report.benchmark:
            if result.gpu == gpu and result.peer is None:
                _figure(page, result, knowledge)
        page.gap()
    if report.lessons:
        smoke_text.lesson(page, report.lessons)
        page.gap()
    between = [result for result in report.benchmark if result.peer is not None]
    if between:
        _matrix(page, between, knowledge)
        page.gap()
    if report.verdict != "healthy" or report.exit_code != 0:
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
    row, title = knowledge.figure(result.name), words.figure(result.name, knowledge)
    if result.value is None:
        page.pair(f"  {title:<{TITLE}}", "", "not measured")
        page.prose(result.why or "no reason recorded", indent=6, style="dim")
        return
    value = f"{_short(result.value):>8} {result.unit:<8}"
    said = f"{value} {bar(result.share, ascii_only=page.style.ascii)}"
    if result.share is not None:
        said += f" {round(result.share * 100):>3} %"
    if result.verdict != "cannot judge":
        said += f"  {result.verdict}"
    if result.behind is not None:
        said += f"  {result.behind:.0%} behind equal GPUs"
    if result.change is not None:
        said += f"  {result.change:+.1%} against {_short(result.saved or 0.0)}"
    page.pair(f"  {title:<{TITLE}}", VERDICT_STYLE[result.verdict] if result.verdict == "slow" else "", said.rstrip())
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
        page.raw(f"{words.figure(name, knowledge)}, {unit} (from the row's GPU to the column's)", style="bold")
        gpus = sorted({gpu for pair in cells for gpu in pair if gpu is not None})
        page.raw("        " + "".join(f"{f'GPU {gpu}':>9}" for gpu in gpus))
        for one in gpus:
            row = (cells.get((one, other)) for other in gpus)
            line = "".join(f"{'-' if cell is None or cell.value is None else _short(cell.value):>9}" for cell in row)
            page.raw(f"  {f'GPU {one}':<6}{line}")
        ways = dict.fromkeys(result.limit_from for result in cells.values() if result.limit_from)
        for way in ways:
            page.raw(one_line(f"limit: {way}"), style="dim", indent=2)
        for result in cells.values():
            if result.verdict == "slow" or (result.value is None and result.why):
                page.prose(f"GPU {result.gpu} to GPU {result.peer}: {result.verdict}: {result.why}", indent=2, hang=2)


def _conclusion(page: text.Page, report: Report) -> None:
    judged = [result for result in report.benchmark if result.verdict != "cannot judge"]
    slow = [result for result in judged if result.verdict == "slow"]
    if slow:
        page.raw(f"{len(slow)} of {len(judged)} figures that a limit judges are slow.", style="bold yellow")
    elif judged:
        page.raw(f"All {len(judged)} figures that a limit judges are near what the hardware can do.", style="bold green")
