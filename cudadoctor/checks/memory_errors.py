"""Rules about failing memory, pending recovery and low clocks: what NVML counts, and what nvidia-smi's sections in a text say.

Counters since the driver was loaded count; those since the GPU was made are history. What no text shows is no ignorance about the
machine: rules about texts read `facts.all`, which is empty there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from cudadoctor.checks.base import Function
from cudadoctor.checks.reading import Quotes, lines_with, single_lines, some, subject_of
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Fact, Facts
from cudadoctor.model.findings import Clue
from cudadoctor.model.values import NVML, SMI, SMI_CSV, SMI_DETAILS, GpuDetails, NvmlGpu, Smi, SmiCsv, SmiDetails, SmiGpu

ECC, ROWS, RESET, CLOCKS = "ecc-uncorrectable", "row-remap-needed", "gpu-needs-reset", "thermal-or-power-throttling"
# Why the hardware itself holds clocks down. A power limit of software is normal under load.
GRAVE_REASONS = ("hw-slowdown", "hw-thermal-slowdown", "hw-power-brake-slowdown", "sw-thermal-slowdown")
NEAR = 2.0  # degrees Celsius to the limit from which clocks are held down
RESETS = ("gpu-reset", "node-reboot", "system-reboot", "bus-reset", "drain-p2p")
REMAPS = ("drain-and-reset",)
_CSV_REASONS = tuple(
    f"clocks_{word}_reasons.{reason.replace('-', '_')}" for word in ("throttle", "event") for reason in GRAVE_REASONS
)  # fmt: skip


# ---------------------------------------------------------------- the machine itself
def _counted(cause: str, says: Callable[[NvmlGpu], str | None]) -> Function:
    """A rule that asks each GPU of NVML. `says`: the words of NVML's line that show the cause, None where it is not at work."""

    def rule(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
        fact = facts[NVML]
        for gpu in fact.value.gpus if fact.value is not None else ():
            words = says(gpu)
            if words is not None:
                quotes = tuple(quote for quote in lines_with(fact, words) if f"GPU {gpu.index}" in quote.text) or lines_with(fact, words)
                values = {"address": gpu.address or "", "index": str(gpu.index)}
                yield Clue(cause=cause, quotes=quotes[:1], subject=subject_of(gpu.address), values=values)

    return rule


def _uncorrected(gpu: NvmlGpu) -> str | None:
    return "uncorrected ECC errors" if gpu.ecc_uncorrected_volatile else None


def _remapping(gpu: NvmlGpu) -> str | None:
    if gpu.remap_pending or gpu.remap_failed:
        return "row remapping"
    if gpu.retired_pages_pending:
        return "retired pages pending"
    return "recovery action" if gpu.recovery_action in REMAPS else None


def _to_reset(gpu: NvmlGpu) -> str | None:
    if gpu.recovery_action in RESETS:
        return "recovery action"
    words = [gpu.handle_error or "", *gpu.errors.values()]
    return next((word for word in words if "requires reset" in word), None)


def _throttled(gpu: NvmlGpu) -> str | None:
    hot = None not in (gpu.temperature_c, gpu.temperature_slowdown_c) and (gpu.temperature_c or 0) >= (gpu.temperature_slowdown_c or 0)
    return "clocks held by" if set(gpu.throttle_reasons) & set(GRAVE_REASONS) else "slows down from" if hot else None


# ---------------------------------------------------------------- what tables and texts show
def _shown(cause: str, fields: Callable[[GpuDetails], tuple[str, ...]]) -> Function:
    """A rule about the sections of nvidia-smi. `fields`: those that show the cause, none where it is not at work."""

    def rule(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
        for fact, gpu in _details(facts):
            named = fields(gpu)
            if named:
                places = {gpu.lines.get(name) for name in named}
                quotes = tuple(quote for quote in single_lines(fact) if quote.first in places) or some(fact)[:1]
                yield _clue(cause, quotes[:3], gpu.address, text=fact.origin == "text")

    return rule


def _details(facts: Facts) -> Iterator[tuple[Fact[SmiDetails], GpuDetails]]:
    for fact in facts.all(SMI_DETAILS):
        for gpu in fact.value.gpus if fact.value is not None else ():
            yield fact, gpu


def _clue(cause: str, quotes: Quotes, address: str | None, *, text: bool) -> Clue:
    return Clue(cause=cause, quotes=quotes, subject=subject_of(address), text=text, values={"address": address} if address else {})


def _uncorrected_shown(gpu: GpuDetails) -> tuple[str, ...]:
    return ("ecc_uncorrected",) if gpu.ecc_uncorrected else ()


def _remapping_shown(gpu: GpuDetails) -> tuple[str, ...]:
    named = [name for name in ("remap_pending", "remap_failed", "retired_pages_pending") if getattr(gpu, name)]
    return (*named, *(["recovery_action"] if gpu.recovery_action in REMAPS else []))


def _to_reset_shown(gpu: GpuDetails) -> tuple[str, ...]:
    return ("recovery_action",) if gpu.recovery_action in RESETS else ()


def _throttled_shown(gpu: GpuDetails) -> tuple[str, ...]:
    reasons = tuple(reason for reason in gpu.throttle_reasons if reason in GRAVE_REASONS)
    if reasons or gpu.temperature_c is None:
        return reasons
    if gpu.temperature_limit_c is not None and gpu.temperature_c > gpu.temperature_limit_c - NEAR:
        return ("temperature_c", "temperature_limit_c")
    return ("temperature_c", "temperature_margin_c") if gpu.temperature_margin_c is not None and gpu.temperature_margin_c < NEAR else ()


def _rows(facts: Facts) -> Iterator[tuple[Fact[Smi], SmiGpu]]:
    for fact in facts.all(SMI):
        for gpu in fact.value.gpus if fact.value is not None else ():
            yield fact, gpu


def _row(fact: Fact[Smi], gpu: SmiGpu) -> Quotes:
    """The GPU's lines in the table."""
    around = (quote for quote in fact.quotes if quote.first is not None and quote.first <= gpu.line <= (quote.last or 0))
    return tuple(around)[:1] or some(fact)[:1]


def _table_counts(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """nvidia-smi's table: its column of volatile uncorrected errors is not 0."""
    for fact, gpu in _rows(facts):
        if gpu.ecc_uncorrected:
            yield _clue(ECC, _row(fact, gpu), gpu.address, text=fact.origin == "text")


def _cells_ask(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """Values that nvidia-smi cannot read, because the GPU requires a reset."""
    for fact, gpu in _rows(facts):
        if any("requires reset" in cell for cell in gpu.errors):
            yield _clue(RESET, _row(fact, gpu), gpu.address, text=fact.origin == "text")


def _listed(cause: str, columns: tuple[str, ...], bad: Callable[[str], bool]) -> Function:
    """A rule about `--query-gpu=... --format=csv`."""

    def rule(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
        for fact in facts.all(SMI_CSV):
            if fact.value is not None:
                yield from _in_list(fact, cause, columns, bad)

    return rule


def _in_list(fact: Fact[SmiCsv], cause: str, columns: tuple[str, ...], bad: Callable[[str], bool]) -> Iterator[Clue]:
    table = fact.need()
    for number, row in enumerate(table.rows, 1):
        told = dict(zip(table.fields, row, strict=False))
        if any(name in told and bad(told[name]) for name in columns):
            lines = {table.line, table.line + number}
            quotes = tuple(quote for quote in single_lines(fact) if quote.first in lines)
            yield _clue(cause, quotes or some(fact)[:1], _address(told), text=fact.origin == "text")


def _address(told: dict[str, Any]) -> str | None:
    found = str(told.get("pci.bus_id") or told.get("gpu_bus_id") or "")
    return found if found.count(":") == 2 else None


def _asks_reset(value: str) -> bool:
    """The column's words: Reset, Reboot, Drain P2P; Drain and Reset is for rows to be remapped."""
    return value.split("  ")[0].lower() in ("reset", "reboot", "bus reset", "system reboot", "drain p2p")


def _many(value: str) -> bool:
    return value.isdecimal() and int(value) > 0


ECC_COLUMNS = ("ecc.errors.uncorrected.volatile.total", "ecc.errors.uncorrected.volatile.dram", "ecc.errors.uncorrected.volatile.sram")
PENDING_COLUMNS = ("remapped_rows.pending", "remapped_rows.failure", "retired_pages.pending")


_SHOWN: dict[str, tuple[Function, ...]] = {
    ECC: (_shown(ECC, _uncorrected_shown), _table_counts, _listed(ECC, ECC_COLUMNS, _many)),
    ROWS: (_shown(ROWS, _remapping_shown), _listed(ROWS, PENDING_COLUMNS, lambda value: value in ("Yes", "1"))),
    RESET: (_shown(RESET, _to_reset_shown), _cells_ask, _listed(RESET, ("gpu_recovery_action",), _asks_reset)),
    CLOCKS: (_shown(CLOCKS, _throttled_shown), _listed(CLOCKS, _CSV_REASONS, lambda value: value == "Active")),
}


def shown(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """What tables, sections and lists of nvidia-smi show of all this."""
    for branches in _SHOWN.values():
        for branch in branches:
            yield from branch(facts, knowledge)


uncorrected_counted = _counted(ECC, _uncorrected)
remapping_counted = _counted(ROWS, _remapping)
reset_asked = _counted(RESET, _to_reset)
clocks_held = _counted(CLOCKS, _throttled)
