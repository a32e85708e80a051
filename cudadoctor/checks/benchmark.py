"""Row benchmark: the figures of the mini benchmark beside what the hardware can do.

A slow figure alone accuses nothing: other work on the GPU or the host slows copies too. It is said in the row.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from cudadoctor.checks.base import Check, Line
from cudadoctor.checks.common import passed, spoken
from cudadoctor.checks.smoke import QUICK
from cudadoctor.model.facts import Facts
from cudadoctor.model.report import BenchmarkResult
from cudadoctor.model.values import LADDER, Measurement

if TYPE_CHECKING:
    from cudadoctor.knowledge.load import Knowledge

# The share of the limit from which a figure is good. Pageable copies pass through a buffer of the driver: no limit judges them.
GOOD_SHARE = {"h2d_pinned": 0.70, "d2h_pinned": 0.70, "d2d": 0.75}
WORDS = {
    "h2d_pinned": "to the device", "d2h_pinned": "from the device", "h2d_pageable": "to the device from pageable memory",
    "d2h_pageable": "from the device to pageable memory", "d2d": "within the device", "launch_latency": "for a kernel launch",
}  # fmt: skip
SHOWN = ("h2d_pinned", "d2h_pinned", "d2d", "launch_latency")


def figure(value: float | None) -> float | None:
    """A figure that can be shown and compared; not a number and infinity are none."""
    return value if value is not None and math.isfinite(value) else None


def assess(measurement: Measurement) -> BenchmarkResult:
    """One measurement with its share of the limit and the verdict."""
    value, limit = figure(measurement.value), figure(measurement.limit)
    share = value / limit if value is not None and limit is not None and limit > 0 else None
    good = GOOD_SHARE.get(measurement.name)
    why = measurement.why
    if share is None or good is None:
        verdict = "cannot judge"
        if why is None:
            unlimited = "what the hardware can do is not known" if share is None else "no limit judges this figure"
            why = "not measured" if value is None else unlimited
    else:
        verdict = "ok" if share >= good else "slow"
        if verdict == "slow":
            below = f"{share:.0%} of {measurement.limit_from or 'the limit'}, {good:.0%} is usual"
            why = f"{below}; {why}" if why else below
    return BenchmarkResult(
        gpu=measurement.gpu,
        name=measurement.name,
        value=value,
        unit=measurement.unit,
        limit=limit,
        limit_from=measurement.limit_from,
        share=None if share is None else round(share, 4),
        verdict=verdict,  # type: ignore[arg-type]
        why=why,
    )


def _said(result: BenchmarkResult) -> str:
    """`55.5 GB/s to the device (88 % of PCIe 5.0 x16)`."""
    if result.value is None:
        return f"{WORDS.get(result.name, result.name)}: not measured ({result.why})"
    shown = f"{result.value:.0f}" if result.value >= 100 else f"{result.value:.3g}"
    said = f"{shown} {result.unit} {WORDS.get(result.name, result.name)}"
    if result.share is not None and result.verdict != "cannot judge":
        source = (result.limit_from or "the limit").split(":")[0]
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
        reached = "" if passed(ladder, "ptx-kernel") else ": no kernel ran"
        return Line(f"nothing was measured{reached}", fact.quotes[:1])
    gpus = sorted({entry.gpu for entry in ladder.benchmark})
    lines, quotes = [], []
    for gpu in gpus:
        entries = {entry.name: entry for entry in ladder.benchmark if entry.gpu == gpu}
        chosen = [entries[name] for name in SHOWN if name in entries] or list(entries.values())
        said = ", ".join(_said(assess(entry)) for entry in chosen)
        lines.append(said if len(gpus) == 1 else f"GPU {gpu}: {said}")
        quotes += [spoken("benchmark", entry.line, f"GPU {gpu}: {entry.name}: {entry.value} {entry.unit}") for entry in chosen]
    return Line("; ".join(lines), tuple(quotes))


CHECK = Check(
    id="benchmark",
    title="Benchmark",
    looks_at="copies over PCIe, device memory and launch time of every GPU, beside what its link and memory can do",
    items=("ladder",),
    rules=(),
    describe=_describe,
)
