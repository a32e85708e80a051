"""What a requirement can ask for, and what the machine answers: one function a name, from facts and report to answers.

An answer that nobody knows says why. A user's text (--log) answers nothing here: only what was read from the machine does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

import msgspec

from cudadoctor.checks.common import size
from cudadoctor.devices import Device, cuda_answered, devices_of, same_address
from cudadoctor.model.facts import Facts, Key, Unknown
from cudadoctor.model.pattern import lazy
from cudadoctor.model.report import Report
from cudadoctor.model.requirements import Kind
from cudadoctor.model.values import (
    FRAMEWORK_BUILDS,
    LADDER,
    LOADED_DRIVER,
    NVCC,
    NVML,
    PYTHON,
    SMI,
    TOOLKITS,
    FrameworkBuild,
    GpuProcess,
    NvmlGpu,
)

T = TypeVar("T")
Value = str | float | bool
IDLE_LIMIT = 300 << 20  # bytes in use beyond the driver's reserve that an idle GPU does not reach
PRESENT, ABSENT = True, False
_WHILE_COPYING = lazy(r"link while copying: PCIe (?P<generation>\d)\.0 x(?P<width>\d{1,2})")
NOT_SUPPORTED = "not supported"
NO_GPU = "no GPU is visible to CUDA"


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What one thing (a GPU, the machine) answers. `value` None: nobody knows, `why` says why. `share`: the share of a figure's limit."""

    value: Value | None = None
    shown: str = ""
    where: str = ""
    why: str = ""
    share: float | None = None
    is_fault: bool = False  # the thing that was asked about is not there: no comparison holds for it


class View(msgspec.Struct, frozen=True, kw_only=True):
    """What questions are put to."""

    facts: Facts
    report: Report

    def known(self, key: Key[T]) -> T | None | Unknown:
        """A fact of the machine; what only a user's text states is not known of it."""
        found = self.facts.get(key)
        if isinstance(found, Unknown):
            return found
        return Unknown(key=key.name, why="only a text speaks of it") if found.origin == "text" else found.value

    def value(self, key: Key[T]) -> T | None:
        found = self.known(key)
        return None if isinstance(found, Unknown) else found

    def why(self, key: Key[T], otherwise: str) -> str:
        found = self.known(key)
        return found.why if isinstance(found, Unknown) else otherwise


Answers = Iterable[Answer]
Question = Callable[[View], Answers]


# ---------------------------------------------------------------- GPUs
def _devices(view: View) -> tuple[Device, ...]:
    """The GPUs that a program sees; all that NVML lists where CUDA did not say which those are."""
    found = devices_of(view.facts)
    return tuple(device for device in found if device.cuda is not None) if cuda_answered(view.facts) else found


def _nobody(view: View) -> Answer:
    """Why there is no GPU to ask about: there is none, or nobody could look."""
    ladder = view.known(LADDER)
    nobody_looked = isinstance(ladder, Unknown) or ladder is None or not ladder.rungs
    return Answer(why=view.why(LADDER, "CUDA was not asked")) if nobody_looked else Answer(is_fault=True, shown=NO_GPU)


def _each(view: View, ask: Callable[[Device], Answer]) -> Iterator[Answer]:
    devices = _devices(view)
    if not devices:
        yield _nobody(view)
    for place, device in enumerate(devices):
        number = device.number if device.number is not None else device.index if device.index is not None else place
        yield msgspec.structs.replace(ask(device), where=f"GPU {number}" if len(devices) > 1 else "")


def _of_nvml(view: View, ask: Callable[[NvmlGpu], Answer]) -> Iterator[Answer]:
    """A question that NVML alone answers."""

    def one(device: Device) -> Answer:
        if device.nvml is None:
            return Answer(why=view.why(NVML, "NVML does not list this GPU"))
        return Answer(why=device.nvml.handle_error) if device.nvml.handle_error is not None else ask(device.nvml)

    return _each(view, one)


def _gpus(view: View) -> Answers:
    if cuda_answered(view.facts):
        devices = _devices(view)
        names = ", ".join(dict.fromkeys(device.name or "GPU" for device in devices))
        return (Answer(value=float(len(devices)), shown=f"{len(devices)} visible to CUDA ({names})"),)
    nobody = _nobody(view)
    return (Answer(value=0.0, shown="0 visible to CUDA") if nobody.is_fault else nobody,)


def _name(view: View) -> Answers:
    return _each(view, lambda device: Answer(value=device.name, shown=device.name or "", why="its name is not known"))


def _capability(view: View) -> Answers:
    def one(device: Device) -> Answer:
        stated = [part.compute_capability for part in (device.cuda, device.nvml) if part is not None]
        text = next((str(capability) for capability in stated if capability is not None), None)
        return Answer(value=text, shown=text or "", why="neither CUDA nor NVML says it")

    return _each(view, one)


def _memory(view: View) -> Answers:
    def one(device: Device) -> Answer:
        of_slice = device.is_slice and device.cuda is not None
        total = device.cuda.memory_total_bytes if of_slice and device.cuda is not None else None
        total = total or (device.nvml.memory_total_bytes if device.nvml is not None else None)
        total = total or (device.cuda.memory_total_bytes if device.cuda is not None else None)
        return _size(total, "how much memory it has is not known")

    return _each(view, one)


def _free_memory(view: View) -> Answers:
    """What NVML saw before anything of ours ran there; of a slice what CUDA says."""

    def one(device: Device) -> Answer:
        gpu = device.nvml
        if gpu is not None and not device.is_slice and gpu.memory_total_bytes is not None and gpu.memory_used_bytes is not None:
            return _size(gpu.memory_total_bytes - gpu.memory_used_bytes - (gpu.memory_reserved_bytes or 0), "")
        free = device.cuda.memory_free_bytes if device.cuda is not None else None
        return _size(free, "how much memory is free is not known")

    return _each(view, one)


def _size(number: int | None, why: str) -> Answer:
    return Answer(why=why) if number is None else Answer(value=float(number), shown=size(number))


def _switch(attribute: str) -> Question:
    """One of NVML's switches. A GPU that has none is off."""

    def question(view: View) -> Answers:
        def one(gpu: NvmlGpu) -> Answer:
            state = getattr(gpu, attribute)
            if state is None and NOT_SUPPORTED in gpu.errors.get(attribute, "").lower():
                return Answer(value="off", shown="off (this GPU has none)")
            if state is None:
                return Answer(why=gpu.errors.get(attribute, "NVML does not say"))
            on = state == "enabled"
            return Answer(value="on" if on else "off", shown="on" if on else "off")

        return _of_nvml(view, one)

    return question


def _ecc_errors(view: View) -> Answers:
    def one(gpu: NvmlGpu) -> Answer:
        count = gpu.ecc_uncorrected_volatile
        if count is None and gpu.ecc_mode == "disabled":
            return Answer(why="ECC is off, so nobody counts errors")
        if count is None:
            return Answer(why=gpu.errors.get("ecc_uncorrected_volatile", "NVML does not count them"))
        return Answer(value=float(count), shown=f"{count} uncorrected since the driver was loaded")

    return _of_nvml(view, one)


def _pcie(part: str) -> Question:
    """Width or generation of the link. At rest a GPU trains its link down, so the generation while copying counts, where it was seen."""

    def question(view: View) -> Answers:
        def one(device: Device) -> Answer:
            copying = _link_while_copying(view, device, part)
            if copying is not None:
                return Answer(value=float(copying), shown=f"{copying} while copying")
            gpu = device.nvml
            now = getattr(gpu, f"pcie_{part}") if gpu is not None else None
            best = getattr(gpu, f"pcie_{part}_max") if gpu is not None else None
            if now is None:
                return Answer(why=view.why(NVML, "NVML does not say"))
            if part == "generation" and best is not None and now < best:
                return Answer(why=f"at rest the link is at generation {now}, card and slot can do {best}; nothing was copied to see it at work")
            return Answer(value=float(now), shown=str(now))

        return _each(view, one)

    return question


def _link_while_copying(view: View, device: Device, part: str) -> int | None:
    for figure in view.report.benchmark:
        found = _WHILE_COPYING.search(figure.why or "") if figure.gpu == device.number else None
        if found is not None:
            return int(found[part])
    return None


def _nvlink(view: View) -> Answers:
    def one(gpu: NvmlGpu) -> Answer:
        if gpu.nvlinks_active is None and gpu.nvlinks_inactive is None:
            if NOT_SUPPORTED in gpu.errors.get("nvlinks", "").lower():
                return Answer(value="off", shown="this GPU has no NVLink")
            return Answer(why=gpu.errors.get("nvlinks", "NVML does not say"))
        up, down = gpu.nvlinks_active or 0, gpu.nvlinks_inactive or 0
        return Answer(value="on" if up and not down else "off", shown=f"{up} of {up + down} links up")

    return _of_nvml(view, one)


def _alone(view: View) -> Answers:
    """Whether nobody else is on the GPU. Memory in use without a listed process leaves it open."""

    def one(gpu: NvmlGpu) -> Answer:
        nvml = view.value(NVML)
        listed = [entry for entry in (nvml.processes if nvml is not None else ()) if _is_on(entry, gpu)]
        if listed:
            names = ", ".join(f"{entry.name or 'process'} ({entry.pid})" for entry in listed[:3])
            return Answer(value="off", shown=names + (f" and {len(listed) - 3} more" if len(listed) > 3 else ""))
        refused = next((gpu.errors[name] for name in ("processes_c", "processes_g") if name in gpu.errors), None)
        if refused is not None:
            return Answer(why=f"NVML does not list processes: {refused}")
        if gpu.memory_used_bytes is None:
            return Answer(why="how much memory is in use is not known")
        if gpu.memory_used_bytes > IDLE_LIMIT:
            return Answer(why=f"{size(gpu.memory_used_bytes)} are in use, and NVML lists no process")
        return Answer(value="on", shown="no other process")

    return _of_nvml(view, one)


def _is_on(entry: GpuProcess, gpu: NvmlGpu) -> bool:
    return entry.gpu == str(gpu.index) or same_address(entry.gpu if ":" in entry.gpu else None, gpu.address)


# ---------------------------------------------------------------- driver and toolkit
def _driver_text(view: View) -> tuple[str | None, str]:
    """The kernel module's version; the library's where the module is out of sight (WSL, some containers)."""
    loaded, ladder, nvml, smi = (view.value(key) for key in (LOADED_DRIVER, LADDER, NVML, SMI))
    if loaded is not None:
        return str(loaded.version), ""  # type: ignore[attr-defined]
    libraries = (part.library for part in (ladder, nvml, smi) if part is not None)  # type: ignore[attr-defined]
    library = next((str(version) for version in libraries if version is not None), None)
    return library, " (its library)" if library is not None else ""


def _driver(view: View) -> Answers:
    text, of_library = _driver_text(view)
    if text is None:
        known = view.known(LOADED_DRIVER)
        why = known.why if isinstance(known, Unknown) else ""
        return (Answer(why=why) if why else Answer(is_fault=True, shown="no driver is loaded"),)
    return (Answer(value=text, shown=text + of_library),)


def _branch(view: View) -> Answers:
    for answer in _driver(view):
        yield msgspec.structs.replace(answer, value=float(answer.value.split(".")[0])) if isinstance(answer.value, str) else answer


def _cuda(view: View) -> Answers:
    """The newest CUDA that the driver supports."""
    ladder, nvml, smi = view.value(LADDER), view.value(NVML), view.value(SMI)
    stated = (part.cuda for part in (ladder, nvml, smi) if part is not None)
    text = next((str(version) for version in stated if version is not None), None)
    if text is not None:
        return (Answer(value=text, shown=f"{text} (the newest that the driver supports)"),)
    if isinstance(view.known(LADDER), Unknown):
        return (Answer(why=view.why(LADDER, "CUDA was not asked")),)
    return (Answer(is_fault=True, shown="no driver says which CUDA it supports"),)


def _toolkit(view: View) -> Answers:
    """What nvcc says; else what Numba would load; else the newest folder with a compiler."""
    nvcc, found = view.known(NVCC), view.known(TOOLKITS)
    if not isinstance(nvcc, Unknown) and nvcc is not None:
        return (Answer(value=str(nvcc.version), shown=f"{nvcc.version} (nvcc)"),)
    if isinstance(found, Unknown):
        return (Answer(why=found.why),)
    for part in found.components if found is not None else ():
        if part.path is not None and part.version is not None:
            return (Answer(value=str(part.version), shown=f"{part.version} ({part.name} at {part.path})"),)
    folders = [entry for entry in (found.toolkits if found is not None else ()) if entry.version is not None and not entry.stale]
    if folders:
        best = max(folders, key=lambda entry: entry.version.numbers if entry.version is not None else ())
        return (Answer(value=str(best.version), shown=f"{best.version} ({best.path})"),)
    return (Answer(is_fault=True, shown="no toolkit was found"),)


# ---------------------------------------------------------------- Python
def _package(name: str, *others: str) -> Question:
    """The version of a package in the examined interpreter."""

    def question(view: View) -> Answers:
        found = view.facts.get(PYTHON)
        python = view.value(PYTHON)
        if isinstance(found, Unknown) or python is None:
            return (Answer(why=view.why(PYTHON, "no Python was examined")),)
        package = next((entry for entry in map(python.package, (name, *others)) if entry is not None), None)
        build = _build(view, name)
        version = str(package.version) if package is not None else str(build.version) if build is not None else None
        if version is not None:
            return (Answer(value=version, shown=f"{version} in {python.path}"),)
        missing = f"not installed in {python.path}"
        return (Answer(is_fault=True, shown=missing) if found.whole else Answer(why="the packages could not all be listed"),)

    return question


def _build(view: View, name: str) -> FrameworkBuild | None:
    builds = view.value(FRAMEWORK_BUILDS)
    return builds.find(name) if builds is not None else None


def _built_for(name: str) -> Question:
    """The CUDA version that a framework was built for."""

    def question(view: View) -> Answers:
        build = _build(view, name)
        if build is None:
            return tuple(
                answer if answer.is_fault else Answer(why=answer.why or f"how {name} was built is not known")
                for answer in _package(name)(view)
            )
        if build.kind in ("cpu", "rocm"):
            return (Answer(is_fault=True, shown=f"{name} {build.version}, built {'for ROCm' if build.kind == 'rocm' else 'without CUDA'}"),)
        cuda = build.cuda or (build.builds[-1] if build.builds else None)
        if build.kind is None:
            return (Answer(why=f"how {name} {build.version} was built is not known"),)
        told = str(cuda) if cuda is not None else ""
        return (Answer(value=told or None, shown=f"{name} {build.version} for CUDA {told}".rstrip(), why="for which CUDA is not known"),)

    return question


# ---------------------------------------------------------------- what was run
def _smoke(view: View) -> Answers:
    report = view.report
    kernels = [result for result in report.smoke if result.step == "numba-kernel"]
    bad = next((result for result in report.smoke if result.status == "fail"), None)
    if bad is not None:
        where = f" on GPU {bad.gpu}" if bad.gpu is not None else ""
        return (Answer(value="off", shown=f"{bad.step} failed{where}: {bad.why or 'no reason given'}"),)
    devices = _devices(view)
    if not devices and _nobody(view).is_fault:
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


def _figure(name: str) -> Question:
    """One figure of the benchmark on each GPU, in the unit of its kind."""

    def question(view: View) -> Answers:
        found = [figure for figure in view.report.benchmark if figure.name == name]
        if not found:
            nobody = _nobody(view)
            if not _devices(view) and nobody.is_fault:
                yield nobody
                return
            yield Answer(why="--quick measures nothing" if view.report.origin.quick else f"{name} was not measured")
        many = len({figure.gpu for figure in found}) > 1
        for figure in found:
            where = f"GPU {figure.gpu}" if many else ""
            if figure.value is None:
                yield Answer(where=where, why=figure.why or "not measured")
                continue
            factor = {"ns": 1e-3, "ms": 1e3, "s": 1e6}.get(figure.unit, 1.0)
            share = f", {figure.share:.0%} of {figure.limit:.0f} {figure.unit}" if figure.share is not None and figure.limit else ""
            shown = f"{figure.value:.4g} {figure.unit}{share}"
            yield Answer(where=where, value=figure.value * factor, shown=shown, share=figure.share)

    return question


# ---------------------------------------------------------------- the closed list
class Entry(msgspec.Struct, frozen=True):
    """One name: what it compares, how it is asked, what it means. `alone`: the name alone is a demand."""

    kind: Kind
    ask: Question
    meaning: str
    alone: bool = False


_RATES = {
    "h2d-bandwidth": ("h2d_pinned", "copies from the host, pinned memory"),
    "d2h-bandwidth": ("d2h_pinned", "copies to the host, pinned memory"),
    "memory-bandwidth": ("d2d", "the GPU's own memory, bytes read and written"),
    **{
        name.replace("_", "-"): (name, f"the benchmark's figure {name}")
        for name in (
            "h2d_pinned", "d2h_pinned", "both_pinned", "h2d_pageable", "d2h_pageable", "both_pageable", "d2d", "d2d_kernel", "device_read",
            "shared_memory",
        )
    },
}  # fmt: skip
_TIMES = ("launch_latency", "launch_queued", "launch_graph", "memory_latency", "context_creation", "jit_compile")
_FRAMEWORKS = ("torch", "tensorflow", "jax", "cupy")

QUESTIONS: Mapping[str, Entry] = {
    "gpus": Entry("count", _gpus, "GPUs that CUDA shows"),
    "gpu-name": Entry("words", _name, "every GPU's name; ~ asks for a part of it"),
    "compute-capability": Entry("version", _capability, "every GPU's compute capability"),
    "memory": Entry("size", _memory, "every GPU's memory"),
    "free-memory": Entry("size", _free_memory, "memory of every GPU that nobody uses"),
    "exclusive": Entry("switch", _alone, "no other process is on any GPU", alone=True),
    "ecc": Entry("switch", _switch("ecc_mode"), "error correction of the memory", alone=True),
    "ecc-errors": Entry("count", _ecc_errors, "uncorrected memory errors since the driver was loaded"),
    "persistence": Entry("switch", _switch("persistence"), "persistence mode", alone=True),
    "mig": Entry("switch", _switch("mig_mode"), "whether the GPU is cut into instances", alone=True),
    "pcie-width": Entry("count", _pcie("width"), "lanes of the PCIe link"),
    "pcie-generation": Entry("count", _pcie("generation"), "generation of the PCIe link while it copies"),
    "nvlink": Entry("switch", _nvlink, "every NVLink of every GPU is up", alone=True),
    "driver": Entry("version", _driver, "the driver's version", alone=True),
    "driver-branch": Entry("count", _branch, "the first number of the driver's version"),
    "cuda": Entry("version", _cuda, "the newest CUDA that the driver supports"),
    "toolkit": Entry("version", _toolkit, "the CUDA toolkit: nvcc, else what Numba would load", alone=True),
    **{
        name: Entry("version", _package(name), f"the package {name} of the examined Python", alone=True)
        for name in ("numba", "numba-cuda", "numpy", "llvmlite", "cuda-bindings", "nvidia-ml-py")
    },
    **{name: Entry("version", _package(name), f"the package {name} of the examined Python", alone=True) for name in _FRAMEWORKS},
    **{f"{name}-cuda": Entry("version", _built_for(name), f"the CUDA version that {name} was built for", alone=True) for name in _FRAMEWORKS},
    "smoke": Entry("switch", _smoke, "Numba kernels ran on every GPU, and every result was right", alone=True),
    **{name: Entry("rate", _figure(figure), meaning) for name, (figure, meaning) in _RATES.items()},
    **{name.replace("_", "-"): Entry("time", _figure(name), f"the benchmark's figure {name}") for name in _TIMES},
    **{name: Entry("flops", _figure(name), f"arithmetic, {name}") for name in ("fp16", "bf16", "fp32", "fp64")},
    **{
        name.replace("_", "-"): Entry("operations", _figure(name), f"the benchmark's figure {name}") for name in ("atomics", "atomics_same")
    },
}
KINDS: Mapping[str, Kind] = {name: entry.kind for name, entry in QUESTIONS.items()}
ALONE = frozenset(name for name, entry in QUESTIONS.items() if entry.alone)
