"""What the driver says that a GPU needs before it is used again, and conditions of recipes about a GPU's health.

Since branch 565 NVML, `nvidia-smi -q` and Xid 154 name the recovery in the same words. What they say decides between going on, a reset,
a restart and a repair; where none of them says anything a reset is offered, which harms no GPU.
"""

from __future__ import annotations

from collections.abc import Iterator

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import KERNEL_LOG, LOADED_DRIVER, NVML, SMI_DETAILS, GpuDetails, NvmlGpu
from cudadoctor.prescribe.case import Case, Condition

NONE = "none"
REBOOTS = ("node-reboot", "system-reboot")
_NVML = "NVML_GPU_RECOVERY_ACTION_"
_CHANGED = lazy(r"recovery action changed from .{1,60}? to 0x[0-9a-f]{1,4} \((?P<words>[\w ]{2,40})\)")
_REMAP_FAILED = lazy(r"row remapping failed|Remapping Failure Occurred\s{0,60}: Yes|\bXid \([^)\n]{1,40}\): {0,2}64\b")
_SWITCHES = ("prime", "supergfxctl", "system76", "envycontrol", "bbswitch")  # tools that switch a laptop's second GPU off


def needed(case: Case) -> str | None:
    """The recovery that the driver asks for, for the finding's GPU where it is one GPU's; None where nobody says."""
    said = [action for address, action in _said(case) if _concerns(case, address)]
    asked = [action for action in said if action != NONE]
    return asked[0] if asked else said[0] if said else None


def _gpus(case: Case) -> tuple[tuple[NvmlGpu, ...], tuple[GpuDetails, ...]]:
    """As NVML tells of them, and as nvidia-smi does."""
    nvml = case.get(NVML)
    return nvml.gpus if nvml is not None else (), case.get(SMI_DETAILS) or ()


def _said(case: Case) -> Iterator[tuple[str | None, str]]:
    """What NVML says, else nvidia-smi, else the last words of the kernel log: an earlier source knows better."""
    for gpus in _gpus(case):
        told = [(gpu.address, gpu.recovery_action) for gpu in gpus if gpu.recovery_action]
        if told:
            yield from told
            return
    log = case.get(KERNEL_LOG)
    last: dict[str | None, str] = {}
    for event in log.events if log is not None else ():
        changed = _CHANGED.search(event.text)
        if changed is not None:
            last[event.address] = _named(changed["words"], case)
    yield from last.items()
    for line in case.lines:
        for changed in _CHANGED.finditer(line):
            yield None, _named(changed["words"], case)


def _named(words: str, case: Case) -> str:
    """NVML's name for what Xid 154 calls by these words; a word of a later branch asks for a reset at least."""
    row = next((row for row in case.knowledge.recovery_actions if row.xid154_text == words), None)
    return "gpu-reset" if row is None else row.nvml.removeprefix(_NVML).lower().replace("_", "-")


def _concerns(case: Case, address: str | None) -> bool:
    return address is None or not case.root.subject.startswith("gpu:") or f"gpu:{address}" == case.root.subject


# ---------------------------------------------------------------- conditions
def remapping_failed(case: Case) -> bool:
    """No spare row is left for memory that fails. Said by NVML, by nvidia-smi, or by the lines that the finding quotes."""
    failed = (gpu for gpus in _gpus(case) for gpu in gpus if gpu.remap_failed is True)
    return case.quotes(_REMAP_FAILED) or any(_concerns(case, gpu.address) for gpu in failed)


def reset_fits(case: Case) -> bool:
    if remapping_failed(case) or needed(case) in REBOOTS:
        return False
    return needed(case) != NONE or case.root.cause != "ecc-uncorrectable"


def gsp_can_be_off(case: Case) -> bool:
    """The proprietary module drives these GPUs, and they do not need the open one."""
    loaded = case.get(LOADED_DRIVER)
    return loaded is not None and loaded.flavour == "proprietary" and all(row.open_modules != "required" for row in case.gpus.architectures)


CONDITIONS: dict[str, Condition] = {
    "reset-fits": reset_fits,
    "reboot-fits": lambda case: needed(case) in REBOOTS,
    "no-recovery-needed": lambda case: needed(case) == NONE,
    "remapping-failed": remapping_failed,
    "gsp-can-be-off": gsp_can_be_off,
    "switched-by-unknown": lambda case: not any(case.says(case.forms["says"][f"switched-by-{tool}"]) for tool in _SWITCHES),
}
