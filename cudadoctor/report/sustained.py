"""`bench --sustained`: how each GPU held out, as a curve in text and in HTML, and which one falls more than the others."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

import msgspec

from cudadoctor.model.report import Report, SustainedSample
from cudadoctor.report import text

SETTLED = 1.0  # seconds until the power limit has bound: before that each GPU is faster
FELT = 0.05  # of the throughput: a fall that is said, and one by which a GPU falls more than the others
COLUMNS = 48
DRAWN = 0.25  # of the highest value: what a curve shows at least
STEPS = {False: "▁▂▃▄▅▆▇█", True: "12345678"}
WIDTH, HEIGHT = 480, 60  # of a curve in HTML


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
    known = next((one for one in report.machine.gpus if one.cuda_index == gpu), None)
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
    counts: dict[str, int] = {}
    for one in samples:
        for reason in one.reasons:
            counts[reason] = counts.get(reason, 0) + 1
    for reason, count in sorted(counts.items(), key=lambda pair: -pair[1]):
        what = f"the power limit of {limit:.0f} W" if reason == "sw-power-cap" and limit is not None else reason
        yield f"clocks held by {what} in {count} of {len(samples)} moments"


def _beside(one: Course, others: Sequence[Course]) -> Iterator[str]:
    if one.fall > FELT:
        yield f"its throughput fell by {one.fall:.0%}"
    beside = [other.fall for other in others if other.gpu != one.gpu and other.name == one.name]
    if beside and one.fall - statistics.median(beside) > FELT:
        yield f"it falls more than {'the other' if len(beside) == 1 else f'{len(beside)} equal GPUs'}, by {statistics.median(beside):.0%}"


def render(page: text.Page, report: Report) -> None:
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
