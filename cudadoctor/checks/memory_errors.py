"""Rules about failing memory, pending recovery and low clocks: what NVML counts, and what nvidia-smi's sections in a text say.

Counters since the driver was loaded count; those since the GPU was made are history. What no text shows is no ignorance about the
machine: rules about texts read `facts.all`, which is empty there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from cudadoctor.checks.base import Function
from cudadoctor.checks.benchmark import CLOCKS, GRAVE_REASONS
from cudadoctor.checks.reading import Quotes, lines_at, lines_with, some, subject_of
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Fact, Facts
from cudadoctor.model.findings import Clue
from cudadoctor.model.values import NVML, SMI, SMI_CSV, SMI_DETAILS, GpuDetails, NvmlGpu, SmiGpu

ECC, ROWS, RESET = "ecc-uncorrectable", "row-remap-needed", "gpu-needs-reset"
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

    rule.__name__ = cause
    return rule


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


uncorrected_counted = _counted(ECC, lambda gpu: "uncorrected ECC errors" if gpu.ecc_uncorrected_volatile else None)
remapping_counted = _counted(ROWS, _remapping)
reset_asked = _counted(RESET, _to_reset)
clocks_held = _counted(CLOCKS, _throttled)


# ---------------------------------------------------------------- what tables and texts show
Shown = Callable[[Facts], Iterator[tuple[Fact[Any], Quotes, str | None]]]  # a fact, its lines, and the address of the GPU


def _in_sections(fields: Callable[[GpuDetails], tuple[str, ...]]) -> Shown:
    """Sections of nvidia-smi. `fields`: those that show the cause, none where it is not at work."""

    def shown(facts: Facts) -> Iterator[tuple[Fact[Any], Quotes, str | None]]:
        for fact in facts.all(SMI_DETAILS):
            for gpu in fact.value.gpus if fact.value is not None else ():
                named = fields(gpu)
                if named:
                    yield fact, lines_at(fact, {gpu.lines.get(name) for name in named})[:3], gpu.address

    return shown


def _remapping_shown(gpu: GpuDetails) -> tuple[str, ...]:
    named = [name for name in ("remap_pending", "remap_failed", "retired_pages_pending") if getattr(gpu, name)]
    return (*named, *(["recovery_action"] if gpu.recovery_action in REMAPS else []))


def _throttled_shown(gpu: GpuDetails) -> tuple[str, ...]:
    reasons = tuple(reason for reason in gpu.throttle_reasons if reason in GRAVE_REASONS)
    if reasons or gpu.temperature_c is None:
        return reasons
    if gpu.temperature_limit_c is not None and gpu.temperature_c > gpu.temperature_limit_c - NEAR:
        return ("temperature_c", "temperature_limit_c")
    return ("temperature_c", "temperature_margin_c") if gpu.temperature_margin_c is not None and gpu.temperature_margin_c < NEAR else ()


def _in_table(bad: Callable[[SmiGpu], bool]) -> Shown:
    """The table that nvidia-smi draws."""

    def shown(facts: Facts) -> Iterator[tuple[Fact[Any], Quotes, str | None]]:
        for fact in facts.all(SMI):
            for gpu in fact.value.gpus if fact.value is not None else ():
                if bad(gpu):
                    around = (quote for quote in fact.quotes if quote.first is not None and quote.first <= gpu.line <= (quote.last or 0))
                    yield fact, tuple(around)[:1] or some(fact)[:1], gpu.address

    return shown


def _in_list(columns: tuple[str, ...], bad: Callable[[str], bool]) -> Shown:
    """`--query-gpu=... --format=csv`."""

    def shown(facts: Facts) -> Iterator[tuple[Fact[Any], Quotes, str | None]]:
        for fact in facts.all(SMI_CSV):
            for number, row in enumerate(fact.value.rows if fact.value is not None else (), 1):
                told, line = dict(zip(fact.need().fields, row, strict=False)), fact.need().line
                if any(name in told and bad(told[name]) for name in columns):
                    address = told.get("pci.bus_id") or told.get("gpu_bus_id") or ""
                    yield fact, lines_at(fact, {line, line + number}), address if address.count(":") == 2 else None

    return shown


def _asks_reset(value: str) -> bool:
    """The column's words: Reset, Reboot, Drain P2P; Drain and Reset is for rows to be remapped."""
    return value.split("  ")[0].lower() in ("reset", "reboot", "bus reset", "system reboot", "drain p2p")


ECC_COLUMNS = ("ecc.errors.uncorrected.volatile.total", "ecc.errors.uncorrected.volatile.dram", "ecc.errors.uncorrected.volatile.sram")
PENDING_COLUMNS = ("remapped_rows.pending", "remapped_rows.failure", "retired_pages.pending")
_SHOWN: dict[str, tuple[Shown, ...]] = {
    ECC: (
        _in_sections(lambda gpu: ("ecc_uncorrected",) if gpu.ecc_uncorrected else ()),
        _in_table(lambda gpu: bool(gpu.ecc_uncorrected)),  # its column of volatile uncorrected errors
        _in_list(ECC_COLUMNS, lambda value: value.isdecimal() and int(value) > 0),
    ),
    ROWS: (_in_sections(_remapping_shown), _in_list(PENDING_COLUMNS, lambda value: value in ("Yes", "1"))),
    RESET: (
        _in_sections(lambda gpu: ("recovery_action",) if gpu.recovery_action in RESETS else ()),
        _in_table(lambda gpu: any("requires reset" in cell for cell in gpu.errors)),
        _in_list(("gpu_recovery_action",), _asks_reset),
    ),
    CLOCKS: (_in_sections(_throttled_shown), _in_list(_CSV_REASONS, lambda value: value == "Active")),
}


def shown(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """What tables, sections and lists of nvidia-smi show of all this."""
    for cause, places in _SHOWN.items():
        for place in places:
            for fact, quotes, address in place(facts):
                values = {"address": address} if address else {}
                yield Clue(cause=cause, quotes=quotes, subject=subject_of(address), text=fact.origin == "text", values=values)
