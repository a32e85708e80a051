"""Row `health`: temperature, throttling, memory errors, PCIe and NVLink as the driver reports them, and GPUs that did not start."""

from __future__ import annotations

from collections.abc import Iterator

from cudadoctor.checks import device_state, links, memory_errors
from cudadoctor.checks.base import Check, Line, Rule
from cudadoctor.checks.benchmark import CLOCKS
from cudadoctor.checks.gpu import by_address, logged
from cudadoctor.checks.reading import lines_with, listed, merged, some, subject_of, unknown
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Facts
from cudadoctor.model.findings import Basis, Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import KERNEL_LOG, NVML, NvmlGpu

_INIT_FAILED = lazy(r"RmInitAdapter failed|rm_init_adapter failed")
# What the driver says where it knows why: each of these is a cause of its own.
_REASON_GIVEN = lazy(
    r"power cables|PCI I/O region|BAR\d? is 0M|GSP|firmware|not supported by open|open kernel modules|Legacy drivers|fallen off the bus"
    r"|requires a newer|None of the NVIDIA devices|GPU is lost"
)
# Reasons for low clocks that are no trouble: an idle GPU, and clocks that somebody chose.
_HARMLESS = ("gpu-idle", "applications-clocks-setting", "display-clock-setting", "sync-boost")


def init_failed(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """This boot's kernel log says that the driver could not start the GPU, and it is not seen to work now.

    Where the log also gives a reason, that reason is the cause, and this is no more than a suspicion.
    """
    for address, fatal in logged(facts, lambda event: _INIT_FAILED.search(event.text) is not None):
        grouped = by_address(facts[KERNEL_LOG].need().events)
        near = (*grouped.get(None, ()), *grouped[address])
        basis: Basis = "suspected" if any(_REASON_GIVEN.search(event.text) for event in near) else "derived"
        yield Clue(cause="gpu-init-failed", quotes=fatal[-2:], subject=subject_of(address), basis=basis, values={"address": address or ""})


# ---------------------------------------------------------------- the line
def describe(facts: Facts, knowledge: Knowledge) -> Line:
    fact = facts[NVML]
    if fact.value is None or fact.value.code != 0:
        message = fact.value.message if fact.value is not None else "no library"
        raise unknown(NVML, f"NVML does not answer ({message})")
    if not fact.value.gpus:
        raise unknown(NVML, "NVML counts no GPU")
    states: dict[str, list[int]] = {}
    for gpu in fact.value.gpus:
        states.setdefault(state(gpu), []).append(gpu.index)
    if len(states) == 1 and len(fact.value.gpus) == 1:
        return Line(next(iter(states)), some(fact))
    words = [f"GPU {listed(str(index) for index in indices)}: {words}" for words, indices in states.items()]
    quotes = merged(*(lines_with(fact, f'"index":{gpu.index}', f'"index": {gpu.index}')[:1] for gpu in fact.value.gpus[:4]))
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
        words.append(_clocks(gpu))
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


def _clocks(gpu: NvmlGpu) -> str:
    reasons = [reason for reason in gpu.throttle_reasons if reason not in _HARMLESS]
    return f"clocks held down: {', '.join(reasons)}" if reasons else "no throttling"


CHECK = Check(
    id="health",
    title="Health",
    looks_at="NVML: temperature, power, throttling, ECC, PCIe link, NVLink; the kernel log for GPUs that the driver could not start",
    items=("nvml", "kernel-log", "ladder", "modules", "pci", "pnp-devices", "video-controllers"),
    rules=(
        Rule("driver", ("gpu-init-failed",), init_failed),
        Rule("health", (memory_errors.ECC,), memory_errors.uncorrected_counted),
        Rule("health", (memory_errors.ROWS,), memory_errors.remapping_counted),
        Rule("health", (memory_errors.RESET,), memory_errors.reset_asked),
        Rule("health", (CLOCKS,), memory_errors.clocks_held),
        Rule("health", (links.NVLINK,), links.nvlink_counted),
        Rule("health", (links.PCIE,), links.pcie_under_load),
        Rule("health", (memory_errors.ECC, memory_errors.ROWS, memory_errors.RESET, CLOCKS), memory_errors.shown),
        Rule("health", (links.PCIE,), links.pcie_shown),
        Rule("health", (links.NVLINK,), links.nvlink_shown),
        *device_state.OF_HEALTH,
    ),
    describe=describe,
)
