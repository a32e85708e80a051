"""What a policy can ask of the GPUs: their number and names, memory, switches, links, who else is on them, and what was run there."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from cudadoctor.inventory.devices import Device, cuda_answered, devices_of, same_address
from cudadoctor.model import units
from cudadoctor.model.facts import Unknown
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import LADDER, NVML, NvmlGpu
from cudadoctor.policy.base import Answer, Answers, Question, View

IDLE_LIMIT = 300 << 20  # bytes in use beyond the driver's reserve that an idle GPU does not reach
NOT_SUPPORTED = "not supported"
NO_GPU = "no GPU is visible to CUDA"
_WHILE_COPYING = lazy(r"link while copying: PCIe (?P<generation>\d)\.0 x(?P<width>\d{1,2})")


def devices(view: View) -> tuple[Device, ...]:
    """The GPUs that a program sees; all that NVML lists where CUDA did not say which those are."""
    found = devices_of(view.facts)
    return tuple(device for device in found if device.cuda is not None) if cuda_answered(view.facts) else found


def nobody(view: View) -> Answer:
    """Why there is no GPU to ask about: there is none, or nobody could look."""
    ladder = view.known(LADDER)
    nobody_looked = isinstance(ladder, Unknown) or ladder is None or not ladder.rungs
    return Answer(why=view.why(LADDER, "CUDA was not asked")) if nobody_looked else Answer(is_fault=True, shown=NO_GPU)


def of_each(ask: Callable[[View, Device], Answer]) -> Question:
    def question(view: View) -> Answers:
        found = devices(view)
        if not found:
            yield nobody(view)
        for place, device in enumerate(found):
            number = device.number if device.number is not None else device.index if device.index is not None else place
            yield msgspec.structs.replace(ask(view, device), where=f"GPU {number}" if len(found) > 1 else "")

    return question


def of_nvml(ask: Callable[[View, NvmlGpu], Answer]) -> Question:
    def one(view: View, device: Device) -> Answer:
        if device.nvml is None:
            return Answer(why=view.why(NVML, "NVML does not list this GPU"))
        return Answer(why=device.nvml.handle_error) if device.nvml.handle_error is not None else ask(view, device.nvml)

    return of_each(one)


def gpus(view: View) -> Answers:
    if cuda_answered(view.facts):
        shown = devices(view)
        names = ", ".join(dict.fromkeys(device.name or "GPU" for device in shown))
        return (Answer(value=float(len(shown)), shown=f"{len(shown)} visible to CUDA ({names})"),)
    why = nobody(view)
    return (Answer(value=0.0, shown="0 visible to CUDA") if why.is_fault else why,)


@of_each
def name(_: View, device: Device) -> Answer:
    return Answer(value=device.name, shown=device.name or "", why="its name is not known")


@of_each
def capability(_: View, device: Device) -> Answer:
    stated = [part.compute_capability for part in (device.cuda, device.nvml) if part is not None]
    text = next((str(capability) for capability in stated if capability is not None), None)
    return Answer(value=text, shown=text or "", why="neither CUDA nor NVML says it")


@of_each
def memory(_: View, device: Device) -> Answer:
    """What NVML says; of a slice what CUDA says."""
    parts = (device.cuda, device.nvml) if device.is_slice else (device.nvml, device.cuda)
    total = next((part.memory_total_bytes for part in parts if part is not None and part.memory_total_bytes), None)
    return _size(total, "how much memory it has is not known")


@of_each
def free_memory(_: View, device: Device) -> Answer:
    """What NVML saw before anything of ours ran there; of a slice what CUDA says."""
    gpu = device.nvml
    if gpu is not None and not device.is_slice and gpu.memory_total_bytes is not None and gpu.memory_used_bytes is not None:
        return _size(gpu.memory_total_bytes - gpu.memory_used_bytes - (gpu.memory_reserved_bytes or 0), "")
    free = device.cuda.memory_free_bytes if device.cuda is not None else None
    return _size(free, "how much memory is free is not known")


def _size(number: int | None, why: str) -> Answer:
    return Answer(why=why) if number is None else Answer(value=float(number), shown=units.size(number))


def switch(attribute: str) -> Question:
    """One of NVML's switches. A GPU that has none is off."""

    @of_nvml
    def question(_: View, gpu: NvmlGpu) -> Answer:
        state = getattr(gpu, attribute)
        if state is None and NOT_SUPPORTED in gpu.errors.get(attribute, "").lower():
            return Answer(value="off", shown="off (this GPU has none)")
        if state is None:
            return Answer(why=gpu.errors.get(attribute, "NVML does not say"))
        shown = "on" if state == "enabled" else "off"
        return Answer(value=shown, shown=shown)

    return question


@of_nvml
def ecc_errors(_: View, gpu: NvmlGpu) -> Answer:
    count = gpu.ecc_uncorrected_volatile
    if count is None and gpu.ecc_mode == "disabled":
        return Answer(why="ECC is off, so nobody counts errors")
    if count is None:
        return Answer(why=gpu.errors.get("ecc_uncorrected_volatile", "NVML does not count them"))
    return Answer(value=float(count), shown=f"{count} uncorrected since the driver was loaded")


def pcie(part: str) -> Question:
    """Width or generation of the link. At rest a GPU trains its link down, so the generation while copying counts, where it was seen."""

    @of_each
    def question(view: View, device: Device) -> Answer:
        copying = _link_while_copying(view, device, part)
        if copying is not None:
            return Answer(value=float(copying), shown=f"{copying} while copying")
        now, best = getattr(device.nvml, f"pcie_{part}", None), getattr(device.nvml, f"pcie_{part}_max", None)
        if now is None:
            return Answer(why=view.why(NVML, "NVML does not say"))
        if part == "generation" and best is not None and now < best:
            return Answer(why=f"at rest the link is at generation {now}, card and slot can do {best}; nothing was copied to see it at work")
        return Answer(value=float(now), shown=str(now))

    return question


def _link_while_copying(view: View, device: Device, part: str) -> int | None:
    for figure in view.report.benchmark:
        found = _WHILE_COPYING.search(figure.why or "") if figure.gpu == device.number else None
        if found is not None:
            return int(found[part])
    return None


@of_nvml
def nvlink(_: View, gpu: NvmlGpu) -> Answer:
    if gpu.nvlinks_active is None and gpu.nvlinks_inactive is None:
        if NOT_SUPPORTED in gpu.errors.get("nvlinks", "").lower():
            return Answer(value="off", shown="this GPU has no NVLink")
        return Answer(why=gpu.errors.get("nvlinks", "NVML does not say"))
    up, down = gpu.nvlinks_active or 0, gpu.nvlinks_inactive or 0
    return Answer(value="on" if up and not down else "off", shown=f"{up} of {up + down} links up")


@of_nvml
def alone(view: View, gpu: NvmlGpu) -> Answer:
    """Whether nobody else is on the GPU. Memory in use without a listed process leaves it open."""
    nvml = view.value(NVML)
    every = nvml.processes if nvml is not None else ()
    index = str(gpu.index)
    listed = [one for one in every if one.gpu == index or same_address(one.gpu if ":" in one.gpu else None, gpu.address)]
    if listed:
        names = ", ".join(f"{entry.name or 'process'} ({entry.pid})" for entry in listed[:3])
        return Answer(value="off", shown=names + (f" and {len(listed) - 3} more" if len(listed) > 3 else ""))
    refused = next((gpu.errors[name] for name in ("processes_c", "processes_g") if name in gpu.errors), None)
    if refused is not None:
        return Answer(why=f"NVML does not list processes: {refused}")
    if gpu.memory_used_bytes is None:
        return Answer(why="how much memory is in use is not known")
    if gpu.memory_used_bytes > IDLE_LIMIT:
        return Answer(why=f"{units.size(gpu.memory_used_bytes)} are in use, and NVML lists no process")
    return Answer(value="on", shown="no other process")


# ---------------------------------------------------------------- what was run on them
def smoke(view: View) -> Answers:
    """Whether Numba's kernels ran on every GPU, and all were right."""
    report = view.report
    kernels = [result for result in report.smoke if result.step == "numba-kernel"]
    bad = next((result for result in report.smoke if result.status == "fail"), None)
    if bad is not None:
        where = f" on GPU {bad.gpu}" if bad.gpu is not None else ""
        return (Answer(value="off", shown=f"{bad.step} failed{where}: {bad.why or 'no reason given'}"),)
    if not devices(view) and nobody(view).is_fault:
        return (Answer(value="off", shown=NO_GPU),)
    passed = {result.gpu for result in kernels if result.status == "pass"}
    left_out = next((result for result in report.smoke if result.status == "skip"), None)
    if report.origin.quick and not kernels:
        return (Answer(why="--quick runs no kernel"),)
    if not passed or len(passed) < len({result.gpu for result in report.smoke if result.gpu is not None}):
        return (Answer(why=(left_out.why if left_out is not None else None) or "no Numba kernel ran on every GPU"),)
    if left_out is not None:
        return (Answer(why=f"{left_out.step} was left out: {left_out.why or 'no reason given'}"),)
    return (Answer(value="on", shown=f"every kernel was right on {len(passed)} GPU{'s' if len(passed) != 1 else ''}"),)


def figure(name: str) -> Question:
    """One figure of the benchmark on each GPU, in the unit of its kind."""

    def question(view: View) -> Answers:
        found = [entry for entry in view.report.benchmark if entry.name == name]
        if not found:
            without = nobody(view)
            if not devices(view) and without.is_fault:
                yield without
                return
            yield Answer(why="--quick measures nothing" if view.report.origin.quick else f"{name} was not measured")
        many = len(found) > 1
        for entry in found:
            other = f" and GPU {entry.peer}" if entry.peer is not None else ""
            where = f"GPU {entry.gpu}{other}" if many or other else ""
            if entry.value is None:
                yield Answer(where=where, why=entry.why or "not measured")
                continue
            factor = {"ns": 1e-3, "ms": 1e3, "s": 1e6, "TOP/s": 1e3}.get(entry.unit, 1.0)
            share = f", {entry.share:.0%} of {entry.limit:.0f} {entry.unit}" if entry.share is not None and entry.limit else ""
            shown = f"{units.figure(entry.value, entry.unit)}{share}"
            yield Answer(where=where, value=entry.value * factor, shown=shown, share=entry.share)

    return question
