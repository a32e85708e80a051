"""What was run and measured: smoke test, benchmark figures with their limits, seconds of the probes."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Literal

import msgspec
from msgspec.structs import asdict

from cudadoctor.checks import rows
from cudadoctor.checks.benchmark import assess_all, figure
from cudadoctor.checks.reading import climbed
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model import report
from cudadoctor.model.evidence import Evidence
from cudadoctor.model.facts import Facts
from cudadoctor.model.values import NVML, Ladder, LessonResult, Measurement


def smoke(facts: Facts, explain: Callable[[str], report.Planted]) -> tuple[report.SmokeResult, ...]:
    """Each step on each visible GPU, from the context to the last Numba kernel. `explain`: what the doctor makes of a text."""
    results = []
    for entry in climbed(facts).rungs:
        if entry.rung in ("context", "memory", "ptx-kernel", "numba-kernel"):
            status: Literal["pass", "skip", "fail"] = entry.status if entry.status in ("pass", "skip") else "fail"
            why = entry.why or (entry.name if status != "pass" else None)
            results.append(report.SmokeResult(gpu=entry.gpu, step=entry.rung, status=status, why=why, seconds=entry.seconds))
    for step in climbed(facts).smoke:
        known = {name: value for name, value in asdict(step).items() if name != "line"}
        results.append(report.SmokeResult(**{**known, "planted": explain(step.planted) if step.planted else None}))
    return tuple(results)


def lessons(facts: Facts) -> tuple[LessonResult, ...]:
    """What a timer measures: the same computation by the CPU, by the GPU with copies, by its kernel, and by the launch call alone."""
    return tuple(
        msgspec.structs.replace(one, python_us=figure(one.python_us), compiled_us=figure(one.compiled_us))
        for one in climbed(facts).lessons
        if all(isfinite(figure) for figure in (one.cpu_us, one.gpu_us, one.kernel_us, one.launch_us, one.first_us))
    )


def sustained(facts: Facts) -> tuple[report.SustainedSample, ...]:
    """How a long load went, moment by moment."""
    return tuple(
        report.SustainedSample(
            gpu=one.gpu,
            seconds=one.at,
            value=one.value,
            unit=one.unit,
            clock_mhz=figure(one.clock_mhz),
            power_w=figure(one.load.power_w) if one.load is not None else None,
            temperature_c=one.load.temperature_c if one.load is not None else None,
            reasons=(one.load.reasons or ()) if one.load is not None else (),
        )
        for one in climbed(facts).sustained
        if isfinite(one.at) and isfinite(one.value)
    )


def benchmark(facts: Facts, knowledge: Knowledge) -> tuple[report.BenchmarkResult, ...]:
    """Each figure with its share of what the hardware can do, in the order of the table."""
    ladder = climbed(facts)
    order = {row.name: place for place, row in enumerate(knowledge.figures)}
    found = sorted(ladder.benchmark, key=lambda one: (one.peer is not None, one.gpu, order.get(one.name, len(order)), one.peer or 0))
    return tuple(assess_all((_with_memory_limit(entry, ladder, facts, knowledge) for entry in found), ladder, knowledge))


def _with_memory_limit(figure: Measurement, ladder: Ladder, facts: Facts, knowledge: Knowledge) -> Measurement:
    """Newer drivers tell CUDA no memory clock; NVML knows it. A slice has a share of the memory's width that nobody states."""
    row = knowledge.figure(figure.name)
    if row is None or row.of != "memory":
        return figure
    device = next((device for device in ladder.devices if device.index == figure.gpu), None)
    if device is not None and (device.uuid or "").startswith("MIG-"):
        why = "a slice of a GPU: its share of the memory's width is not known"
        return msgspec.structs.replace(figure, limit=None, limit_from=None, why=f"{figure.why}; {why}" if figure.why else why)
    if figure.limit is not None or "the cache counts" in (figure.why or ""):
        return figure
    nvml, address = facts.value(NVML), ladder.address(figure.gpu)
    gpu = next((entry for entry in nvml.gpus if entry.address == address), None) if nvml is not None else None
    if gpu is None or not gpu.memory_clock_max_mhz or not gpu.memory_bus_bits:
        return msgspec.structs.replace(figure, limit=None, limit_from=None)
    rate = 2 * gpu.memory_clock_max_mhz * 1e6 * gpu.memory_bus_bits / 8 / 1e9  # GB/s at double data rate
    limit_from = f"2 x {gpu.memory_clock_max_mhz} MHz x {gpu.memory_bus_bits} bit (NVML)"
    return msgspec.structs.replace(figure, limit=rate, limit_from=limit_from)


def timing(evidence: Evidence, knowledge: Knowledge) -> report.Timing:
    seconds = {item.id: item.seconds for item in evidence.items}
    per_row = {check.id: round(max((seconds.get(item, 0.0) for item in check.items), default=0.0), 3) for check in rows.of(knowledge)}
    return report.Timing(total_s=None, rows=per_row)
