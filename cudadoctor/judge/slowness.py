"""What a slow figure means for the verdict: a machine that was slow in every run is degraded, also where no known cause agrees.

Where a cause agrees (a degraded link, held clocks, failing memory, NVLink), its own rule has found it, and nothing is added here.
"""

from __future__ import annotations

from collections.abc import Iterable

from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.diagnosis import Ask
from cudadoctor.model.report import BenchmarkResult

# What is looked at first where figures of a class are slow.
_SUSPECTED = {
    "pcie": ("pcie-link-degraded",),
    "memory": ("row-remap-needed", "thermal-or-power-throttling"),
    "arithmetic": ("thermal-or-power-throttling",),
    "tensor": ("thermal-or-power-throttling",),
    "shared": ("thermal-or-power-throttling",),
    "peer": ("nvlink-error", "peer-access-broken"),
}


def slow(figures: Iterable[BenchmarkResult]) -> list[BenchmarkResult]:
    """The figures that were slow in each of several runs."""
    return [result for result in figures if result.verdict == "slow" and len(result.runs) > 1]


def asks(slow_figures: Iterable[BenchmarkResult], knowledge: Knowledge) -> tuple[Ask, ...]:
    """What would tell why they are."""
    commands: dict[str, tuple[str, list[str]]] = {}
    for result in slow_figures:
        row = knowledge.figure(result.name)
        title = row.title if row is not None else result.name
        for cause in _SUSPECTED.get(row.of if row is not None else "", ()):
            why = f"{title} is slow on GPU {result.gpu} ({result.share:.0%} of its limit, in each of {len(result.runs)} runs)"
            commands.setdefault(knowledge.cause(cause).tell_apart, (why, []))[1].append(cause)
    return tuple(Ask(command=command, why=why, tells_apart=tuple(dict.fromkeys(causes))) for command, (why, causes) in commands.items())
