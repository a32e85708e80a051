"""System calls and /proc that a sandbox withholds from the driver. The rule shows itself in the row libcuda."""

from __future__ import annotations

from collections.abc import Iterator

from cudadoctor.checks.base import Rule
from cudadoctor.checks.common import broken, rung_quote
from cudadoctor.checks.limits import PROCESSES, REFUSALS, REFUSED, tight
from cudadoctor.checks.reading import line_of
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Facts, Quote
from cudadoctor.model.findings import Clue
from cudadoctor.model.values import CGROUP_LIMITS, KERNEL_INTERFACE, LADDER, LIMITS

WITHHELD = "kernel-interface-withheld"
THREADS = "clone3"
NO_DEVICE, IOCTL = 100, "ioctl"  # without it cuInit finds no device; other refusals do not end so


def withheld(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """CUDA's start failed as it does where a part of the kernel's interface is missing, and a part of it is."""
    failure = _failure(facts)
    fact = facts[KERNEL_INTERFACE] if failure is not None else None
    if failure is None or fact is None or fact.value is None:
        return
    shown, code = failure
    refused = [entry for entry in fact.value if entry.name != THREADS or not _few_processes(facts)]
    names = [entry.name for entry in refused]
    if refused and (code != NO_DEVICE or IOCTL in names):
        values = {"call": ", ".join(names), **({"proc": "yes"} if names[0].startswith("/proc") else {})}
        quotes = tuple(quote for entry in refused[:3] for quote in line_of(fact, entry.line))
        yield Clue(cause=WITHHELD, quotes=(shown, *quotes), from_rung="init", seen="failed", values=values)


def _failure(facts: Facts) -> tuple[Quote, int | None] | None:
    """cuInit's refusal and its code, or the words of an interpreter that could start no thread."""
    silent = facts.why_unknown(LADDER)
    if silent is not None and any(words in silent for words in REFUSED):
        return Quote(source=LADDER.name, text=silent), None
    climb = facts[LADDER]
    failed = [result for result in broken(climb.value, "init") if result.code in (*REFUSALS, NO_DEVICE)]
    return (rung_quote(climb, failed[0]), failed[0].code) if failed else None


def _few_processes(facts: Facts) -> bool:
    """Whether a limit says why no thread can be started (checks/limits.py)."""
    low = [tight(limits) for limits in (facts.value(LIMITS), facts.value(CGROUP_LIMITS)) if limits is not None]
    return any(entry is not None and entry.name in PROCESSES for entry in low)


RULES = (Rule("libcuda", (WITHHELD,), withheld),)
