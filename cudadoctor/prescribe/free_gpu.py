"""Another GPU for a program whose own is full: the freest of those that it may use.

Never more than was given. Only GPUs that CUDA shows now are offered, so what CUDA_VISIBLE_DEVICES hides stays hidden. Inside a job or a
pod what CUDA shows counts as the allocation only where the scheduler's own variables agree: it named at least as many GPUs, or, where it
names none, it set CUDA_VISIBLE_DEVICES itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from cudadoctor.inventory.devices import Device, cuda_answered, devices_of, same_address
from cudadoctor.model.pattern import lazy
from cudadoctor.model.units import size
from cudadoctor.model.values import LADDER, NVML
from cudadoctor.prescribe.case import Case
from cudadoctor.prescribe.places import JOBS, in_pod
from cudadoctor.prescribe.shells import Found

USED_LITTLE = 0.10  # of its memory: a GPU of which others hold no more counts as free (checks/processes.py blames from here on)
_NAMED_BY = ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS", "GPU_DEVICE_ORDINAL")  # lists of numbers: 0,1 or 0-1
_RANGE = lazy(r"(\d{1,4})(?:-(\d{1,4}))?")


def held(case: Case) -> Device | None:
    """The GPU that the finding is about, if programs see it. A program's own words name none: it was device 0, if that is not free now."""
    shown = visible(case)
    if not case.root.subject.startswith("gpu:"):
        return next((device for device in shown if device.number == 0 and not _is_free(device, case)), None)
    address = case.root.subject.removeprefix("gpu:")
    return next((device for device in shown if same_address(device.address, address)), None)


def visible(case: Case) -> tuple[Device, ...]:
    """The GPUs that CUDA shows, by its numbers. Slices of a GPU are left out: NVML counts the memory of the whole."""
    if not cuda_answered(case.facts):
        return ()
    return tuple(device for device in devices_of(case.facts) if device.number is not None and not device.is_slice)


def free_gpu(case: Case) -> Device | None:
    """The free GPU with the most room, where the full one is what programs take by default, or that default is not free either."""
    full, shown = held(case), visible(case)
    if full is None or default_free(case) or not _all_given(case, shown):
        return None
    least = max(_room(full) or 0, (_total(full) or 0) // 2)  # what was started on a GPU may need one of its size
    better = [device for device in shown if device != full and _is_free(device, case) and (_room(device) or 0) > least]
    return max(better, key=lambda device: (_room(device) or 0, -(device.number or 0)), default=None)


def default_free(case: Case) -> Device | None:
    """CUDA's device 0, where another GPU is the full one and this one is free: nothing need be chosen."""
    full = held(case)
    first = next((device for device in visible(case) if device.number == 0), None)
    return first if full is not None and first is not None and first != full and _is_free(first, case) else None


def _total(device: Device) -> int | None:
    """Bytes of its memory."""
    total = device.nvml.memory_total_bytes if device.nvml is not None else None
    return total or (device.cuda.memory_total_bytes if device.cuda is not None else None)


def _room(device: Device) -> int | None:
    """Bytes that a program could still have, as counted before the doctor's own contexts."""
    gpu = device.nvml
    if gpu is not None and gpu.memory_total_bytes is not None and gpu.memory_used_bytes is not None:
        return max(0, gpu.memory_total_bytes - gpu.memory_used_bytes - (gpu.memory_reserved_bytes or 0))
    return device.cuda.memory_free_bytes if device.cuda is not None else None


def _is_free(device: Device, case: Case) -> bool:
    """Hardly any of its memory is in use, and it computes for whoever comes."""
    gpu, nvml, ladder = device.nvml, case.get(NVML), case.get(LADDER)
    steps = [entry.status for entry in (ladder.rungs if ladder is not None else ()) if entry.gpu == device.number]
    if case.knowledge.placeholder_forms["free_gpu"].fullmatch(device.uuid or "") is None or not {*steps} <= {"pass", "skip"}:
        return False
    if gpu is None:
        room, total = _room(device), device.cuda.memory_total_bytes if device.cuda is not None else None
        return room is not None and bool(total) and room / (total or 1) > 1 - USED_LITTLE
    if gpu.memory_used_bytes is None or not gpu.memory_total_bytes or gpu.handle_error is not None or gpu.mig_mode == "enabled":
        return False
    if gpu.compute_mode == "prohibited" or gpu.recovery_action not in (None, "none"):
        return False
    users = [entry.gpu for entry in (nvml.processes if nvml is not None else ())]
    used = any(place in (str(device.index), device.address) or same_address(place, device.address) for place in users)
    if gpu.compute_mode not in (None, "default") and used:
        return False  # one program at a time, and it has one
    return gpu.memory_used_bytes / gpu.memory_total_bytes < USED_LITTLE


# ---------------------------------------------------------------- what a scheduler gave
def _all_given(case: Case, shown: Sequence[Device]) -> bool:
    """Whether everything that CUDA shows is this user's to take."""
    if any(case.variable(name) for name in JOBS):
        given = _given(case)
        return len(shown) <= given if given is not None else bool(case.variable("CUDA_VISIBLE_DEVICES"))
    if in_pod(case):
        stated = case.variable("NVIDIA_VISIBLE_DEVICES") or ""
        names = [name for name in stated.split(",") if name.startswith("GPU-")]
        return stated != "all" and (not names or all((device.uuid or "-") in names for device in shown))
    return True


def _given(case: Case) -> int | None:
    """How many GPUs the scheduler says that it gave; None where it does not say."""
    for name in _NAMED_BY:
        stated = case.variable(name)
        if stated:
            ranges = [_RANGE.fullmatch(part.strip()) for part in stated.split(",")]
            return sum(int(found[2] or found[1]) - int(found[1]) + 1 for found in ranges if found is not None)
    counted = case.variable("SLURM_GPUS_ON_NODE") or ""
    return int(counted) if re.fullmatch(r"\d{1,4}", counted) else None


# ---------------------------------------------------------------- words
def values(case: Case) -> Found:
    free, default = free_gpu(case), default_free(case)
    yield "free_gpu", free.uuid if free is not None else None
    yield "free_gpu_name", _named(free) if free is not None else None
    yield "default_gpu_name", _named(default) if default is not None else None


def _named(device: Device) -> str:
    """NVIDIA H200 at 0000:17:00.0 (CUDA device 1, nvidia-smi's GPU 1, 139.8 GiB free)."""
    room = _room(device)
    numbers = [f"CUDA device {device.number}"]
    numbers += [f"nvidia-smi's GPU {device.index}"] if device.index is not None else []
    numbers += [f"{size(room)} free"] if room is not None else []
    place = f" at {device.address}" if device.address is not None else ""
    return f"{device.name or 'the GPU'}{place} ({', '.join(numbers)})"
