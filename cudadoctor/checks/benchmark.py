"""Row benchmark: each figure beside what the hardware can do, and what a slow one means.

A slow figure accuses nothing by itself: where another process uses the GPU, in a slice of one, on battery, where a variable distorts it,
where its samples or its runs disagree, it cannot be judged. What NVML said while the GPU worked can name the cause: rules below.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import msgspec

from cudadoctor.checks.base import Check, Line, Rule
from cudadoctor.checks.common import NOT_REACHED, QUICK, spoken
from cudadoctor.checks.reading import passed, subject_of
from cudadoctor.inventory import equals
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.knowledge.tables import FigureRow
from cudadoctor.model.facts import Facts
from cudadoctor.model.findings import Clue
from cudadoctor.model.report import BenchmarkResult
from cudadoctor.model.values import LADDER, GpuLoad, Guest, Ladder, Load, Measurement

NOISY = 0.10  # spread of the samples from which a low figure says nothing
IMPOSSIBLE = 1.05  # share from which the limit, not the figure, is wrong
NEGLIGIBLE = 1e-9  # of a limit, in any unit: no share can be told of it
CLOCKS = "thermal-or-power-throttling"
# Why the hardware itself holds clocks down. A power limit of software is normal under load.
GRAVE_REASONS = ("hw-slowdown", "hw-thermal-slowdown", "hw-power-brake-slowdown", "sw-thermal-slowdown")
BUSY_WORDS = "--busy measures anyway"


def figure(value: float | None) -> float | None:
    """A figure that can be shown and compared; not a number and infinity are none."""
    return value if value is not None and math.isfinite(value) else None


# ---------------------------------------------------------------- limits
def limit_of(measurement: Measurement, row: FigureRow | None, knowledge: Knowledge) -> tuple[float | None, str | None, str | None]:
    """What the hardware can do, how that is known, and why it is not."""
    if row is not None and row.of == "peer" and measurement.links and figure(measurement.limit) is None:
        return _of_links(measurement, knowledge)
    if figure(measurement.limit) is not None or row is None or row.of not in ("arithmetic", "tensor", "shared"):
        return figure(measurement.limit), measurement.limit_from, None
    count, clock, capability = measurement.sm_count, figure(measurement.clock_mhz), measurement.compute_capability
    if not count or not clock or capability is None:
        return None, None, "the clock under load is not known" if count else None
    per_cycle = knowledge.per_cycle(capability, "shared" if row.of == "shared" else row.name)
    if row.name == "fp64" and measurement.single_to_double:
        single = knowledge.per_cycle(capability, "fp32")
        per_cycle = single // measurement.single_to_double if single else per_cycle
    if not per_cycle:
        return None, None, f"what a multiprocessor of compute capability {capability} does in a cycle is not known"
    if row.of == "shared":
        return count * per_cycle * clock / 1e3, f"{count} SMs x {per_cycle} bytes x {clock:.0f} MHz, measured under this load", None
    lanes = "lanes" if row.of == "arithmetic" else "multiply-adds"
    rate = f"{count} SMs x {per_cycle} {lanes} x 2 x {clock:.0f} MHz, measured under this load"
    return count * per_cycle * 2 * clock / 1e6, rate, None


def _of_links(measurement: Measurement, knowledge: Knowledge) -> tuple[float | None, str | None, str | None]:
    """NVLinks x the rate of one; both ways at once each carries it twice."""
    capability, links = measurement.compute_capability, measurement.links or 0
    rate = knowledge.nvlink(capability) if capability is not None else None
    if rate is None:
        return None, measurement.limit_from, "what an NVLink of this GPU carries is not known"
    ways = 2 if measurement.name == "peer_both" else 1
    return links * rate * ways, f"{links} NVLinks x {rate:g} GB/s{', both ways' if ways == 2 else ''}", None


# ---------------------------------------------------------------- verdicts
def assess(measurement: Measurement, knowledge: Knowledge, ladder: Ladder | None = None) -> BenchmarkResult:
    """One measurement with its share of the limit and the verdict. `ladder` knows the GPU, and who else computes there."""
    row = knowledge.figure(measurement.name)
    limit, limit_from, unlimited = limit_of(measurement, row, knowledge)
    value = figure(measurement.value)
    share = value / limit if value is not None and limit is not None and limit > NEGLIGIBLE else None
    doubt = _doubt(measurement, row, share, limit, unlimited) or (_excuse(measurement, ladder) if _is_low(row, share) else None)
    why, verdict = measurement.why, "cannot judge"
    if doubt is not None:
        why = doubt if why is None or value is None else f"{why}; {doubt}"
    elif row is not None and row.good is not None and share is not None:
        verdict = "ok" if share >= row.good else "slow"
        if verdict == "slow":
            twice = f", in each of {len(measurement.runs)} runs" if len(measurement.runs) > 1 else ""
            below = f"{share:.0%} of {limit_from or 'the limit'}, {row.good:.0%} is usual{twice}"
            why = f"{below}; {why}" if why else below
    return BenchmarkResult(
        gpu=measurement.gpu,
        name=measurement.name,
        value=value,
        unit=measurement.unit,
        limit=None if limit is None else round(limit, 3),
        limit_from=limit_from,
        share=None if share is None else round(share, 4),
        verdict=verdict,  # type: ignore[arg-type]
        why=why,
        peer=measurement.peer,
        spread=figure(measurement.spread),
        runs=tuple(run for run in measurement.runs if figure(run) is not None),
        clock_mhz=figure(measurement.clock_mhz),
    )


def assess_all(measured: Iterable[Measurement], ladder: Ladder, knowledge: Knowledge) -> list[BenchmarkResult]:
    """Each measurement, also beside those of equal GPUs of this machine: of five or more a slow one is told, whatever the limit."""
    results = [assess(one, knowledge, ladder) for one in measured]
    names = {device.index: device.name for device in ladder.devices}
    kinds: dict[tuple[str, str | None, str], list[int]] = {}
    for place, one in enumerate(results):
        if one.value and one.peer is None and names.get(one.gpu) is not None:
            kinds.setdefault((one.name, names[one.gpu], equals.link_of(one.limit_from)), []).append(place)
    for (name, _, _), places in kinds.items():
        row, clocks = knowledge.figure(name), [results[place].clock_mhz for place in places]
        less = row is not None and row.less
        values = equals.comparable([results[place].value or 0.0 for place in places], clocks, equals.usual_clock(clocks), less=less)
        for at, usual in equals.slow(values):
            results[places[at]] = msgspec.structs.replace(results[places[at]], behind=round(1 - values[at] / usual, 4))
    return results


def _is_low(row: FigureRow | None, share: float | None) -> bool:
    return row is not None and row.good is not None and share is not None and share < row.good


def _doubt(measurement: Measurement, row: FigureRow | None, share: float | None, limit: float | None, unlimited: str | None) -> str | None:
    """Why a figure cannot be judged, or not by its limit; None where it can."""
    if figure(measurement.value) is None:
        return measurement.why or "not measured"
    if row is None or row.good is None:
        return None if measurement.why else "no limit judges this figure"
    if share is None or limit is None:
        return unlimited or "what the hardware can do is not known"
    if measurement.distorted:
        return f"{', '.join(measurement.distorted)} set: the figure is not the GPU's own"
    if share > IMPOSSIBLE:
        return f"{share:.0%} of the limit: the limit cannot be right"
    if _is_low(row, share) and len(measurement.runs) > 1 and any(run / limit >= row.good for run in measurement.runs):
        return f"slow in one of {len(measurement.runs)} runs"
    return None


def _excuse(measurement: Measurement, ladder: Ladder | None) -> str | None:
    """Why a low figure accuses nothing."""
    guests = ladder.guests if ladder is not None else ()
    guest = next((guest for guest in guests if guest.gpu == measurement.gpu), None)
    if guest is not None:
        return f"slow, while {in_use(guest)}"
    device = next((device for device in ladder.devices if device.index == measurement.gpu), None) if ladder is not None else None
    if device is not None and (device.uuid or "").startswith("MIG-"):
        return "slow beside a whole GPU's limit; this is a MIG slice, whose share of it is not known"
    source = measurement.load.power_source if measurement.load is not None else None
    if source is not None and source != "ac":
        return f"slow, while the machine runs on {'its battery' if source == 'battery' else 'a power supply that is too small for it'}"
    if measurement.spread is not None and measurement.spread > NOISY:
        return f"noisy: the samples differ by {measurement.spread:.0%}"
    return None


def in_use(guest: Guest) -> str:
    """`GPU 0 is in use by PID 4242`."""
    if not guest.pids:
        return f"GPU {guest.gpu} is in use ({guest.percent} % busy, by a process that is not shown)"
    return f"GPU {guest.gpu} is in use by PID{('s' if len(guest.pids) > 1 else '')} {', '.join(str(pid) for pid in guest.pids[:4])}"


# ---------------------------------------------------------------- causes
def _grave_reasons(load: Load | None) -> list[str]:
    """Why the hardware held clocks down; on battery a laptop does so by design, unless it is hot."""
    found = [reason for reason in load.reasons or () if reason in GRAVE_REASONS] if load is not None else []
    return [reason for reason in found if "thermal" in reason] if load is not None and load.power_source == "battery" else found


def held_under_load(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """While the GPU worked, its hardware held the clocks down."""
    ladder = facts[LADDER].value
    told: set[int] = set()
    entries: tuple[Measurement | GpuLoad, ...] = (*ladder.benchmark, *ladder.loads) if ladder is not None else ()
    for entry in entries:
        grave = _grave_reasons(entry.load)
        if not grave or entry.gpu in told or entry.load is None or ladder is None:
            continue
        told.add(entry.gpu)
        clock, heat = entry.load.sm_clock_mhz, entry.load.temperature_c
        what = entry.name if isinstance(entry, Measurement) else "the load"
        words = f"GPU {entry.gpu}: while {what} ran: {', '.join(grave)}, {clock} of {entry.load.sm_clock_max_mhz} MHz, {heat} C"
        yield Clue(cause=CLOCKS, quotes=(spoken("benchmark", entry.line, words),), subject=subject_of(ladder.address(entry.gpu)))


# ---------------------------------------------------------------- the line
def _said(result: BenchmarkResult, row: FigureRow | None) -> str:
    """`55.5 GB/s to the device (88 % of PCIe 5.0 x16)`."""
    words = row.words if row is not None else result.name
    if result.value is None:
        return f"{words}: not measured ({result.why})"
    shown = f"{result.value:.0f}" if result.value >= 100 else f"{result.value:.3g}"
    said = f"{shown} {result.unit} {words}"
    if result.behind is not None:
        said += f" ({result.behind:.0%} behind equal GPUs here)"
    if result.share is not None and result.verdict != "cannot judge":
        source = (result.limit_from or "the limit").split(":")[0].split(",")[0]
        said += f" ({round(result.share * 100)} % of {source}{', slow' if result.verdict == 'slow' else ''})"
    return said


def _describe(facts: Facts, knowledge: Knowledge) -> Line:
    fact = facts[LADDER]
    ladder = fact.value
    if ladder is None:
        return Line("nothing was measured", fact.quotes[:1])
    if ladder.quick:
        return Line("nothing was measured", skip=QUICK)
    if not ladder.benchmark:
        if ladder.guests:
            users = "; ".join(in_use(guest) for guest in ladder.guests)
            shown = tuple(spoken("NVML", guest.line, in_use(guest)) for guest in ladder.guests)
            return Line("nothing was measured", shown, skip=f"{users}; {BUSY_WORDS}")
        return Line("nothing was measured", fact.quotes[:1], because=None if passed(ladder, "ptx-kernel") else NOT_REACHED)
    gpus = sorted({entry.gpu for entry in ladder.benchmark})
    results = assess_all(ladder.benchmark, ladder, knowledge)
    lines, quotes = [], []
    for gpu in gpus:
        chosen = _chosen(
            [pair for pair in zip(ladder.benchmark, results, strict=True) if pair[0].gpu == gpu and pair[0].peer is None], knowledge
        )
        said = ", ".join(_said(result, knowledge.figure(result.name)) for _, result in chosen)
        lines.append(said if len(gpus) == 1 else f"GPU {gpu}: {said}")
        quotes += [spoken("benchmark", entry.line, f"GPU {gpu}: {entry.name}: {entry.value} {entry.unit}") for entry, _ in chosen]
    lines += [f"{in_use(guest)}: not measured; {BUSY_WORDS}" for guest in ladder.guests if guest.gpu not in gpus]
    return Line("; ".join(lines), tuple(quotes))


def _chosen(pairs: list[tuple[Measurement, BenchmarkResult]], knowledge: Knowledge) -> list[tuple[Measurement, BenchmarkResult]]:
    """The figures that say most, every slow one, and every one behind equal GPUs."""
    named = [row.name for row in knowledge.figures if row.key]
    chosen = [pair for pair in pairs if pair[1].name in named or pair[1].verdict == "slow" or pair[1].behind is not None]
    return sorted(chosen, key=lambda pair: named.index(pair[1].name) if pair[1].name in named else len(named)) or pairs


CHECK = Check(
    id="benchmark",
    title="Benchmark",
    looks_at="copies over PCIe, device memory, arithmetic and launch time of every GPU, beside what its link, memory and clock can do",
    items=("ladder",),
    rules=(Rule("health", (CLOCKS,), held_under_load),),
    describe=_describe,
)
