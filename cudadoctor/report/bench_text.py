"""What `cudadoctor bench` prints: every figure with a bar for its share of what the hardware can do. With --sustained: how each GPU held
out, as a curve in text and in HTML, and which one falls more than the others.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model import units
from cudadoctor.model.report import BenchmarkResult, Report, SustainedSample
from cudadoctor.report import smoke_text, text, words
from cudadoctor.report.clean import one_line

BAR = 20  # columns
PARTS = {False: ("█", "░"), True: ("#", ".")}
VERDICT_STYLE = {"ok": "green", "slow": "bold yellow", "cannot judge": "dim"}
TITLE = 44
SETTLED = 1.0  # seconds until the power limit has bound: before that each GPU is faster
FELT = 0.05  # of the throughput: a fall that is said, and one by which a GPU falls more than the others
COLUMNS = 48
DRAWN = 0.25  # of the highest value: what a curve shows at least
STEPS = {False: "▁▂▃▄▅▆▇█", True: "12345678"}
WIDTH, HEIGHT = 480, 60  # of a curve in HTML


def render(report: Report, knowledge: Knowledge, style: text.Style, *, against: str | None = None) -> str:
    """The figures of each GPU, then the whole diagnosis where there is one to tell."""
    if not report.benchmark:
        return text.render(report, knowledge, style)
    page = text.Page(style)
    if report.sustained:
        held_out(page, report)
    for gpu in sorted({result.gpu for result in report.benchmark if result.peer is None}):
        known = report.machine.gpu(gpu)
        head = (f"GPU {gpu}", known.name or "" if known is not None else "", known.address or "" if known is not None else "")
        page.raw(one_line("  ".join(part for part in head if part)), style="bold")
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
    page.notes(report.notes)
    _conclusion(page, report)
    return page.text()


def _figure(page: text.Page, result: BenchmarkResult, knowledge: Knowledge) -> None:
    row, title = knowledge.figure(result.name), words.figure(result.name, knowledge)
    if result.value is None:
        page.pair(f"  {title:<{TITLE}}", "", "not measured")
        page.prose(result.why or "no reason recorded", indent=6, style="dim")
        return
    value = f"{units.short(result.value):>8} {result.unit:<8}"
    said = f"{value} {bar(result.share, ascii_only=page.style.ascii)}"
    if result.share is not None:
        said += f" {round(result.share * 100):>3} %"
    if result.verdict != "cannot judge":
        said += f"  {result.verdict}"
    if result.behind is not None:
        said += f"  {result.behind:.0%} behind equal GPUs"
    if result.change is not None:
        said += f"  {result.change:+.1%} against {units.short(result.saved or 0.0)}"
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
        parts.append(f"limit {units.short(result.limit)} {result.unit} ({result.limit_from})")
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


def _matrix(page: text.Page, between: Sequence[BenchmarkResult], knowledge: Knowledge) -> None:
    """One table a figure: from each GPU (row) to each other (column)."""
    for name, results in by_name(between).items():
        gpus, cells = square(results)
        page.raw(f"{words.figure(name, knowledge)}, {results[0].unit} (from the row's GPU to the column's)", style="bold")
        page.raw("        " + "".join(f"{f'GPU {gpu}':>9}" for gpu in gpus))
        for one in gpus:
            row = (cells.get((one, other)) for other in gpus)
            line = "".join(f"{'-' if cell is None or cell.value is None else units.short(cell.value):>9}" for cell in row)
            page.raw(f"  {f'GPU {one}':<6}{line}")
        for way in limits(results):
            page.raw(one_line(f"limit: {way}"), style="dim", indent=2)
        for result in results:
            if result.verdict == "slow" or (result.value is None and result.why):
                page.prose(f"GPU {result.gpu} to GPU {result.peer}: {result.verdict}: {result.why}", indent=2, hang=2)


def by_name(results: Iterable[BenchmarkResult]) -> dict[str, list[BenchmarkResult]]:
    found: dict[str, list[BenchmarkResult]] = {}
    for result in results:
        found.setdefault(result.name, []).append(result)
    return found


def square(results: Iterable[BenchmarkResult]) -> tuple[list[int], dict[tuple[int, int | None], BenchmarkResult]]:
    """The GPUs of copies between two, and the figure of each pair."""
    cells = {(result.gpu, result.peer): result for result in results}
    return sorted({gpu for pair in cells for gpu in pair if gpu is not None}), cells


def limits(results: Iterable[BenchmarkResult]) -> tuple[str, ...]:
    """What sets the limits of these figures, each once."""
    return tuple(dict.fromkeys(result.limit_from for result in results if result.limit_from))


def _conclusion(page: text.Page, report: Report) -> None:
    judged = [result for result in report.benchmark if result.verdict != "cannot judge"]
    slow = [result for result in judged if result.verdict == "slow"]
    if slow:
        page.raw(f"{len(slow)} of {len(judged)} figures that a limit judges are slow.", style="bold yellow")
    elif judged:
        page.raw(f"All {len(judged)} figures that a limit judges are near what the hardware can do.", style="bold green")


# ---------------------------------------------------------------- how each GPU held out
class Curve(msgspec.Struct, frozen=True):
    """One quantity over time: what it was at the beginning and at the end, and every value between."""

    title: str
    unit: str
    values: tuple[float, ...]

    @property
    def ends(self) -> tuple[float, float]:
        """Medians of the first and the last quarter."""
        part = max(1, len(self.values) // 4)
        return statistics.median(self.values[:part]), statistics.median(self.values[-part:])

    @property
    def scale(self) -> tuple[float, float]:
        """The lowest and the highest value that is drawn: a flicker of one percent is no mountain."""
        high = max(self.values)
        return min(*self.values, high * (1 - DRAWN)), high

    def line(self, *, ascii_only: bool) -> str:
        """A sign for each of at most COLUMNS moments, the higher the more."""
        signs, (low, high) = STEPS[ascii_only], self.scale
        count = min(COLUMNS, len(self.values))
        chosen = [self.values[place * len(self.values) // count] for place in range(count)]
        return "".join(signs[round((value - low) / (high - low) * (len(signs) - 1)) if high > low else 0] for value in chosen)

    @property
    def points(self) -> str:
        """The curve in a box of WIDTH x HEIGHT, for SVG."""
        low, high = self.scale
        step = WIDTH / max(1, len(self.values) - 1)
        height = [(value - low) / (high - low) if high > low else 0.5 for value in self.values]
        return " ".join(f"{place * step:.1f},{HEIGHT - 4 - share * (HEIGHT - 8):.1f}" for place, share in enumerate(height))


class Course(msgspec.Struct, frozen=True):
    gpu: int
    name: str
    seconds: float
    curves: tuple[Curve, ...]
    remarks: tuple[str, ...]

    @property
    def fall(self) -> float:
        """By which share the throughput fell."""
        begin, end = self.curves[0].ends
        return 1 - end / begin if begin else 0.0


def courses(report: Report) -> list[Course]:
    """Each GPU's; what sets one apart from the others is among its remarks."""
    alone = [_course(gpu, report) for gpu in sorted({one.gpu for one in report.sustained})]
    return [msgspec.structs.replace(one, remarks=(*_beside(one, alone), *one.remarks)) for one in alone]


def _course(gpu: int, report: Report) -> Course:
    all_of_it = [one for one in report.sustained if one.gpu == gpu]
    samples = [one for one in all_of_it if one.seconds >= SETTLED] or all_of_it
    known = report.machine.gpu(gpu)
    quantities = (
        ("throughput", samples[0].unit, [one.value for one in samples]),
        ("clock", "MHz", [one.clock_mhz for one in samples]),
        ("power", "W", [one.power_w for one in samples]),
        ("temperature", "C", [one.temperature_c for one in samples]),
    )
    curves = (Curve(title, unit, tuple(float(value) for value in values if value is not None)) for title, unit, values in quantities)
    limit = known.power_limit_w if known is not None else None
    return Course(
        gpu=gpu,
        name=(known.name or "") if known is not None else "",
        seconds=all_of_it[-1].seconds,
        curves=tuple(curve for curve in curves if curve.values),
        remarks=tuple(_held(samples, limit)),
    )


def _held(samples: Sequence[SustainedSample], limit: float | None) -> Iterator[str]:
    """What held the clocks down, for how long, in the order of frequency."""
    for reason, count in Counter(reason for one in samples for reason in one.reasons).most_common():
        what = f"the power limit of {limit:.0f} W" if reason == "sw-power-cap" and limit is not None else reason
        yield f"clocks held by {what} in {count} of {len(samples)} moments"


def _beside(one: Course, others: Sequence[Course]) -> Iterator[str]:
    if one.fall > FELT:
        yield f"its throughput fell by {one.fall:.0%}"
    beside = [other.fall for other in others if other.gpu != one.gpu and other.name == one.name]
    if beside and one.fall - statistics.median(beside) > FELT:
        yield f"it falls more than {'the other' if len(beside) == 1 else f'{len(beside)} equal GPUs'}, by {statistics.median(beside):.0%}"


def held_out(page: text.Page, report: Report) -> None:
    """Each GPU: a line for each quantity, from its beginning to its end."""
    for one in courses(report):
        page.raw(f"GPU {one.gpu}  {one.name}  {one.seconds:.0f} s under load".replace("    ", "  "), style="bold")
        for curve in one.curves:
            begin, end = curve.ends
            line = curve.line(ascii_only=page.style.ascii)
            page.raw(f"{curve.title:<12}{begin:>7.4g}  {line}  {end:.4g} {curve.unit}", indent=2)
        for remark in one.remarks:
            page.prose(remark, indent=2)
        page.gap()
