"""Row `health`: temperature, throttling, memory errors, PCIe and NVLink as the driver reports them, and GPUs that did not start.

Of errors those counted since the driver was loaded count; those since the GPU was made are history. What no text shows is no ignorance
about the machine: rules about texts read `facts.all`, which is empty there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from cudadoctor.checks import device_state, links
from cudadoctor.checks.base import Check, Line, Rule
from cudadoctor.checks.benchmark import CLOCKS, GRAVE_REASONS
from cudadoctor.checks.gpu import by_address, logged
from cudadoctor.checks.reading import Quotes, block_of, listed, merged, subject_of
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Fact, Facts
from cudadoctor.model.findings import Basis, Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import KERNEL_LOG, NVML, SMI, SMI_CSV, SMI_DETAILS, GpuDetails, GpuHealth, NvmlGpu, SmiGpu

_INIT_FAILED = lazy(r"RmInitAdapter failed|rm_init_adapter failed")
# What the driver says where it knows why: each of these is a cause of its own.
_REASON_GIVEN = lazy(
    r"power cables|PCI I/O region|BAR\d? is 0M|GSP|firmware|not supported by open|open kernel modules|Legacy drivers|fallen off the bus"
    r"|requires a newer|None of the NVIDIA devices|GPU is lost"
)
# Reasons for low clocks that are no trouble: an idle GPU, and clocks that somebody chose.
_HARMLESS = ("gpu-idle", "applications-clocks-setting", "display-clock-setting", "sync-boost")
ECC, ROWS, RESET = "ecc-uncorrectable", "row-remap-needed", "gpu-needs-reset"
NEAR = 2.0  # degrees Celsius to the limit from which clocks are held down
RESETS = ("gpu-reset", "node-reboot", "system-reboot", "bus-reset", "drain-p2p")
REMAP = "drain-and-reset"
_REMAPPING_WORDS = {
    "remap_pending": "row remapping",
    "remap_failed": "row remapping",
    "retired_pages_pending": "retired pages pending",
    "recovery_action": "recovery action",
}
_CSV_REASONS = tuple(f"clocks_{word}_reasons.{reason.replace('-', '_')}" for word in ("throttle", "event") for reason in GRAVE_REASONS)


def init_failed(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """This boot's kernel log says that the driver could not start the GPU, and it is not seen to work now.

    Where the log also gives a reason, that reason is the cause, and this is no more than a suspicion.
    """
    for address, fatal in logged(facts, _INIT_FAILED):
        grouped = by_address(facts[KERNEL_LOG].need().events)
        near = (*grouped.get(None, ()), *grouped[address])
        basis: Basis = "suspected" if any(_REASON_GIVEN.search(event.text) for event in near) else "derived"
        yield Clue(cause="gpu-init-failed", quotes=fatal[-2:], subject=subject_of(address), basis=basis)


# ---------------------------------------------------------------- what NVML counts
def _counted(cause: str, says: Callable[[NvmlGpu], str | None], facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """A rule that asks each GPU of NVML. `says`: the words of NVML's line that show the cause, None where it is not at work."""
    fact = facts[NVML]
    for gpu in fact.value.gpus if fact.value is not None else ():
        words = says(gpu)
        if words is not None:
            quotes = tuple(quote for quote in fact.lines_with(words) if f"GPU {gpu.index}" in quote.text) or fact.lines_with(words)
            yield Clue(cause=cause, quotes=quotes[:1], subject=subject_of(gpu.address))


def _remapping(gpu: GpuHealth) -> tuple[str, ...]:
    """The fields that ask for rows to be remapped, or for pages to be retired."""
    named = [name for name in ("remap_pending", "remap_failed", "retired_pages_pending") if getattr(gpu, name)]
    return (*named, *(["recovery_action"] if gpu.recovery_action == REMAP else []))


def _to_reset(gpu: NvmlGpu) -> str | None:
    if gpu.recovery_action in RESETS:
        return "recovery action"
    words = [gpu.handle_error or "", *gpu.errors.values()]
    return next((word for word in words if "requires reset" in word), None)


def _throttled(gpu: NvmlGpu) -> str | None:
    hot = None not in (gpu.temperature_c, gpu.temperature_slowdown_c) and (gpu.temperature_c or 0) >= (gpu.temperature_slowdown_c or 0)
    return "clocks held by" if set(gpu.throttle_reasons) & set(GRAVE_REASONS) else "slows down from" if hot else None


uncorrected_counted = partial(_counted, ECC, lambda gpu: "uncorrected ECC errors" if gpu.ecc_uncorrected_volatile else None)
remapping_counted = partial(_counted, ROWS, lambda gpu: next((_REMAPPING_WORDS[field] for field in _remapping(gpu)), None))
reset_asked = partial(_counted, RESET, _to_reset)
clocks_held = partial(_counted, CLOCKS, _throttled)


# ---------------------------------------------------------------- what tables and texts show
Shown = Iterator[tuple[Fact[Any], Quotes, str | None]]  # a fact, its lines, and the address of the GPU


def _in_sections(fields: Callable[[GpuDetails], tuple[str, ...]], facts: Facts) -> Shown:
    """Sections of nvidia-smi. `fields`: those that show the cause, none where it is not at work."""
    for fact in facts.all(SMI_DETAILS):
        for gpu in fact.value or ():
            if named := fields(gpu):
                yield fact, fact.lines_at({gpu.lines.get(name) for name in named})[:3], gpu.address


def _throttled_shown(gpu: GpuDetails) -> tuple[str, ...]:
    reasons = tuple(reason for reason in gpu.throttle_reasons if reason in GRAVE_REASONS)
    if reasons or gpu.temperature_c is None:
        return reasons
    if gpu.temperature_limit_c is not None and gpu.temperature_c > gpu.temperature_limit_c - NEAR:
        return ("temperature_c", "temperature_limit_c")
    return ("temperature_c", "temperature_margin_c") if gpu.temperature_margin_c is not None and gpu.temperature_margin_c < NEAR else ()


def _in_table(bad: Callable[[SmiGpu], object], facts: Facts) -> Shown:
    """The table that nvidia-smi draws."""
    for fact in facts.all(SMI):
        for gpu in fact.value.gpus if fact.value is not None else ():
            if bad(gpu):
                yield fact, block_of(fact, gpu.line)[:1], gpu.address


def _in_list(columns: tuple[str, ...], bad: Callable[[str], bool], facts: Facts) -> Shown:
    """`--query-gpu=... --format=csv`."""
    for fact in facts.all(SMI_CSV):
        for number, row in enumerate(fact.value.rows if fact.value is not None else (), 1):
            told, line = dict(zip(fact.need().fields, row, strict=False)), fact.need().line
            if any(name in told and bad(told[name]) for name in columns):
                address = told.get("pci.bus_id") or told.get("gpu_bus_id") or ""
                yield fact, fact.lines_at({line, line + number}), address if address.count(":") == 2 else None


ECC_COLUMNS = ("ecc.errors.uncorrected.volatile.total", "ecc.errors.uncorrected.volatile.dram", "ecc.errors.uncorrected.volatile.sram")
_RESET_WORDS = ("reset", "reboot", "bus reset", "system reboot", "drain p2p")  # "drain and reset" is for rows to be remapped
PENDING_COLUMNS = ("remapped_rows.pending", "remapped_rows.failure", "retired_pages.pending")
_SHOWN: dict[str, tuple[Callable[[Facts], Shown], ...]] = {
    ECC: (
        partial(_in_sections, lambda gpu: ("ecc_uncorrected",) if gpu.ecc_uncorrected else ()),
        partial(_in_table, lambda gpu: gpu.ecc_uncorrected),  # its column of volatile uncorrected errors
        partial(_in_list, ECC_COLUMNS, lambda value: value.isdecimal() and int(value) > 0),
    ),
    ROWS: (partial(_in_sections, _remapping), partial(_in_list, PENDING_COLUMNS, lambda value: value in ("Yes", "1"))),
    RESET: (
        partial(_in_sections, lambda gpu: ("recovery_action",) if gpu.recovery_action in RESETS else ()),
        partial(_in_table, lambda gpu: any("requires reset" in cell for cell in gpu.errors)),
        partial(_in_list, ("gpu_recovery_action",), lambda value: value.split("  ")[0].lower() in _RESET_WORDS),
    ),
    CLOCKS: (partial(_in_sections, _throttled_shown), partial(_in_list, _CSV_REASONS, lambda value: value == "Active")),
}


def shown(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """What tables, sections and lists of nvidia-smi show of all this."""
    for cause, places in _SHOWN.items():
        for place in places:
            for fact, quotes, address in place(facts):
                yield Clue(cause=cause, quotes=quotes, subject=subject_of(address), text=fact.origin == "text")


# ---------------------------------------------------------------- the line
def describe(facts: Facts, knowledge: Knowledge) -> Line:
    fact = facts[NVML]
    if fact.value is None or fact.value.code != 0:
        message = fact.value.message if fact.value is not None else "no library"
        raise NVML.unknown(f"NVML does not answer ({message})")
    if not fact.value.gpus:
        raise NVML.unknown("NVML counts no GPU")
    states: dict[str, list[int]] = {}
    for gpu in fact.value.gpus:
        states.setdefault(state(gpu), []).append(gpu.index)
    if len(states) == 1 and len(fact.value.gpus) == 1:
        return Line(next(iter(states)), fact.some())
    words = [f"GPU {listed(str(index) for index in indices)}: {words}" for words, indices in states.items()]
    quotes = merged(*(fact.lines_with(f'"index":{gpu.index}', f'"index": {gpu.index}')[:1] for gpu in fact.value.gpus[:4]))
    return Line("; ".join(words), quotes)


def state(gpu: NvmlGpu) -> str:
    """28 C, 100 W, no throttling, ECC 0, PCIe 5 x16, 18 NVLinks up."""
    if gpu.handle_error is not None:
        return f"does not answer ({gpu.handle_error})"
    words = []
    if gpu.temperature_c is not None:
        words.append(f"{gpu.temperature_c:.0f} C")
    if gpu.power_w is not None:
        words.append(f"{gpu.power_w:.0f} W")
    if gpu.throttle_reasons or (gpu.temperature_c is not None and "throttle_reasons" not in gpu.errors):
        reasons = [reason for reason in gpu.throttle_reasons if reason not in _HARMLESS]
        words.append(f"clocks held down: {', '.join(reasons)}" if reasons else "no throttling")
    if gpu.ecc_uncorrected_volatile is not None:
        words.append(f"ECC {gpu.ecc_uncorrected_volatile}")
    if gpu.remap_failed or gpu.remap_pending:
        words.append("row remapping failed" if gpu.remap_failed else "row remapping pending")
    if gpu.pcie_generation is not None and gpu.pcie_width is not None:
        words.append(f"PCIe {gpu.pcie_generation} x{gpu.pcie_width}")
    if gpu.nvlinks_active or gpu.nvlinks_inactive:
        down = f", {gpu.nvlinks_inactive} down" if gpu.nvlinks_inactive else ""
        words.append(f"{gpu.nvlinks_active or 0} NVLinks up{down}")
    return ", ".join(words)


CHECK = Check(
    id="health",
    title="Health",
    looks_at="NVML: temperature, power, throttling, ECC, PCIe link, NVLink; the kernel log for GPUs that the driver could not start",
    items=("nvml", "kernel-log", "ladder", "modules", "pci", "pnp-devices", "video-controllers"),
    rules=(
        Rule("driver", ("gpu-init-failed",), init_failed),
        Rule("health", (ECC,), uncorrected_counted),
        Rule("health", (ROWS,), remapping_counted),
        Rule("health", (RESET,), reset_asked),
        Rule("health", (CLOCKS,), clocks_held),
        Rule("health", (links.NVLINK,), links.nvlink_counted),
        Rule("health", (links.PCIE,), links.pcie_under_load),
        Rule("health", (ECC, ROWS, RESET, CLOCKS), shown),
        Rule("health", (links.PCIE,), links.pcie_shown),
        Rule("health", (links.NVLINK,), links.nvlink_shown),
        *device_state.OF_HEALTH,
    ),
    describe=describe,
)
