"""Ties of Python packages: a framework without CUDA, one that finds its libraries not or finds wrong ones, and who asks for them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from cudadoctor.checks.reading import Quotes
from cudadoctor.model.facts import Key
from cudadoctor.model.findings import Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import (
    FRAMEWORKS,
    LISTED_PACKAGES,
    NAMED_DRIVERS,
    NAMED_GPUS,
    NVCC,
    OPERATING_SYSTEM,
    PCI,
    SMI,
    ListedPackage,
)
from cudadoctor.model.version import CudaVersion, ToolkitVersion
from cudadoctor.texts.tie_breakers.case import Case, finding, joined, sure, suspects
from cudadoctor.texts.tie_breakers.toolkit import driver_cuda_of_text, listed, needs_newer_driver

CPU, NEWER = "framework-cpu-build", "toolkit-newer-than-driver"
LIBRARIES, CUDNN = "framework-cuda-libs-missing", "cudnn-missing-or-mismatched"
ABI, TARGET_MISSING = "python-abi-mismatch", "numba-cuda-target-missing"
SHADOWED = "python-module-shadowed"
LAST_ON_WINDOWS = (2, 10)
_CORE = lazy(
    r"module '(?:jax' has no attribute '(?:devices|jit|grad|vmap|random|__version__)"
    r"|cupy' has no attribute '(?:array|asarray|zeros|ones|arange|ndarray|cuda|__version__)"
    r"|numba' has no attribute '(?:jit|njit|vectorize|prange|float32|__version__)"
    r"|triton' has no attribute '(?:jit|__version__)"
    r"|torch' has no attribute '(?:nn|tensor|device|no_grad|zeros|ones|randn|__version__))'"
)
_OLD_BINDINGS = lazy(r"No module named 'cuda\.cuda")
PATH, MIXED = "library-path-conflict", "toolkit-libraries-mixed"
# Of PyTorch's collect_env and of transformers-cli env, which stand in every report, whatever it is about.
_LISTED = lazy(r"^[\s>-]{0,16}(?:Is CUDA available: |PyTorch version \(GPU\?\): )")
_CPU_BUILD = lazy(r"(?i)^cpu|[._]cpu(?:[._]|$)|^cpuonly")
_WITHOUT_CUDA = ("tensorflow-cpu", "tensorflow-intel", "cpuonly")
_FRAMEWORKS = (
    "torch", "pytorch", "tensorflow", "tensorflow-gpu", "jaxlib", "jax", "cupy", "cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x",
    "onnxruntime-gpu", "bitsandbytes", "paddlepaddle-gpu", "mxnet", "ctranslate2",
)  # fmt: skip
_BUILT_WITH = lazy(r"^cu(\d{2})(\d)$|cuda(\d{2})\.?(\d)")
_CUDA_LIBRARY = lazy(r"lib(?:cudart|nvrtc)\S{0,14}\.so")
_SERIES = lazy(r"^nvidia-[a-z0-9-]+-(cu1\d)$|^cupy-cuda(1\d)")
# A folder of CUDA libraries that no package of Python brought along.
_FOREIGN = lazy(
    r"/usr/local/cuda|/opt/cuda|hpc_sdk|/usr/lib/x86_64-linux-gnu/lib(?:cu|nv)|/conda/lib|conda3?/lib(?:64)?(?::|$)|/nvidia/lib64"
)
_NO_DEVICE = lazy(r"Failed to infer device type|Device string must not be empty|no GPU (?:is )?detected|requires at least 1 GPU")
_OF_PACKAGES = lazy(r"(?:site|dist)-packages/nvidia/")
_SYMBOL = lazy(r"symbol|version `|version '")
_NO_GPU_SEEN = (CPU, "libcuda-missing", NEWER, "cuda-visible-devices-hides-all")


# ---------------------------------------------------------------- no GPU is seen
def not_available(case: Case) -> Iterator[Clue]:
    """A framework sees no GPU: its build has no CUDA, or its CUDA is newer than the driver. A text that states a cause needs neither."""
    fact = case.facts.there(FRAMEWORKS)
    state = fact.value if fact is not None else None
    lines = case.suspicions(CPU)[:1]
    complains = bool(lines) or (state is not None and state.available is False)
    if not complains or any(sure(one) or (one.basis == "suspected" and one.cause not in _NO_GPU_SEEN) for one in case.said):
        return
    answer = fact.line_of(state.available_line) if fact is not None and state is not None and state.available_line else ()
    lines = lines or answer
    without = _built_without(case)
    if without:
        listed_only = not case.suspicions(CPU) and bool(answer) and _LISTED.search(answer[0].text) and not _gpu_beside(case)
        yield finding(CPU, lines, without, basis="suspected" if listed_only else "stated")  # the text says both
        return
    built, driver = _built_with(case), driver_cuda_of_text(case)
    if built is not None and driver is not None and needs_newer_driver(built[0], driver[0]):
        yield finding(NEWER, lines, built[1], driver[1], version=built[0].text, driver_cuda=driver[0].text)
    elif not case.suspicions(CPU):
        older = built is not None and any(needs_newer_driver(built[0], cuda) for cuda in _spoken_of(case))
        causes = sorted(_NO_GPU_SEEN, key=lambda cause: older and cause != NEWER)
        yield from (finding(cause, lines, basis="suspected") for cause in causes if built is None or cause != CPU)


def _spoken_of(case: Case) -> tuple[CudaVersion, ...]:
    """The newest CUDA of each driver that the text names: its user's word, which only orders suspects."""
    named = case.facts.value(NAMED_DRIVERS)
    drivers = named.drivers if named is not None else ()
    branches = (case.knowledge.branch(driver.branch) for driver in drivers if driver.branch is not None)
    return tuple(branch.cuda for branch in branches if branch is not None and branch.cuda is not None)


def _gpu_beside(case: Case) -> bool:
    """Whether the text shows an NVIDIA GPU or driver, or says that a GPU is not seen: a framework that uses none is a complaint then."""
    state, complains = case.facts.value(FRAMEWORKS), bool(case.says("none-seen"))
    keys: tuple[Key[Any], ...] = (SMI, NAMED_GPUS, PCI, NVCC)
    shown = any(case.facts.there(key) is not None for key in keys)
    return complains or shown or (state is not None and (state.driver is not None or state.runtime is not None))


def no_device_for_a_cpu_build(case: Case) -> Iterator[Clue]:
    """A program on top of a framework finds no device, and the text shows the framework's build without CUDA."""
    lines, without = case.suspicions("driver-not-loaded", words=_NO_DEVICE), _built_without(case)
    if lines and without:
        yield finding(CPU, lines[:1], without, basis="stated")  # the text says both


def cpu_build_shown(case: Case) -> Iterator[Clue]:
    """A text that names no cause shows a framework's build without CUDA: a line of a listing, which blames nothing."""
    state, without = case.facts.value(FRAMEWORKS), _built_without(case)
    if without and not (state is not None and state.available):
        yield msgspec.structs.replace(finding(CPU, without, basis="stated"), advice=True)


def _built_without(case: Case) -> Quotes:
    """The line that shows a framework without CUDA."""
    fact, packages = case.facts.there(FRAMEWORKS), case.facts.there(LISTED_PACKAGES)
    if fact is not None:
        state = fact.need()
        if state.built_with_cuda is False or (state.build is not None and _CPU_BUILD.search(state.build)):
            return fact.line_of(state.line)
    if packages is None:
        return ()
    for entry in packages.need().packages:
        if entry.name in _WITHOUT_CUDA or (entry.name in _FRAMEWORKS and entry.build is not None and _CPU_BUILD.search(entry.build)):
            return packages.line_of(entry.line)
    return ()


def _built_with(case: Case) -> tuple[ToolkitVersion, Quotes] | None:
    """The CUDA that the framework was built with."""
    fact = case.facts.there(FRAMEWORKS)
    if fact is not None:
        state = fact.need()
        if state.cuda is not None:
            return state.cuda, fact.line_of(state.line)
        number = _BUILT_WITH.search(state.build or "")
        if number is not None:
            return _toolkit(number), fact.line_of(state.line)
    package = listed(case, "torch", "pytorch", "jaxlib")
    number = _BUILT_WITH.search(package[0].build or "") if package is not None else None
    return None if number is None or package is None else (_toolkit(number), package[1])


def _toolkit(number: re.Match[str]) -> ToolkitVersion:
    return ToolkitVersion(f"{number[1] or number[3]}.{number[2] or number[4]}")


# ---------------------------------------------------------------- libraries
def two_series(case: Case) -> Quotes:
    """The lines of two packages that are of different CUDA series; () where the text lists none."""
    fact = case.facts.there(LISTED_PACKAGES)
    if fact is None:
        return ()
    seen: dict[tuple[str, str], ListedPackage] = {}
    for entry in fact.need().packages:
        match = _SERIES.match(entry.name)
        if match is not None:
            seen.setdefault(("cupy" if match[2] else "nvidia", match[1] or f"cu{match[2]}"), entry)
    for kind in ("nvidia", "cupy"):
        entries = [entry for (family, _), entry in seen.items() if family == kind]
        if len(entries) > 1:
            return tuple(quote for entry in entries[:2] for quote in fact.line_of(entry.line))
    return _apart(case)


def _apart(case: Case) -> Quotes:
    """One series, but nvJitLink is older than the runtime beside it."""
    runtime, linker = listed(case, "nvidia-cuda-runtime-cu12"), listed(case, "nvidia-nvjitlink-cu12")
    if runtime is None or linker is None or linker[0].version.major_minor >= runtime[0].version.major_minor:
        return ()
    return (*runtime[1], *linker[1])


def wrong_library(case: Case) -> Iterator[Clue]:
    """A symbol is missing: a foreign folder is shown, or two sets of packages are; a bare line speaks for the path."""
    # Code 303: a library is not there at all, which is no missing symbol.
    lines = case.suspicions(PATH, words=lambda clue, quote: clue.code != "cuda 303")[:2]
    if not lines:
        return
    foreign, mixed = _foreign_path(case), two_series(case)
    if any(_FOREIGN.search(quote.text) for quote in lines) or foreign:
        yield finding(PATH, lines[:1], foreign)
    elif mixed:
        yield finding(MIXED, lines[:1], mixed)
    elif any(_SYMBOL.search(quote.text) for quote in lines):
        no_path = case.says("no-library-path")
        if no_path and _OF_PACKAGES.search(lines[0].text):
            yield finding(MIXED, lines[:1], no_path)
        else:
            yield finding(PATH, lines[:1])


def _foreign_path(case: Case) -> Quotes:
    """LD_LIBRARY_PATH with a folder of CUDA libraries."""
    value, shown = case.variable("LD_LIBRARY_PATH")
    return shown if _FOREIGN.search(value) else ()


def mixed_packages(case: Case) -> Iterator[Clue]:
    """A framework does not find its libraries, and the package list shows two sets of them."""
    lines = case.stated(LIBRARIES) or case.suspicions(LIBRARIES)[:1]
    mixed = two_series(case) if lines else ()
    if mixed:
        yield finding(MIXED, mixed, lines)


def libraries_unnamed(case: Case) -> Iterator[Clue]:
    """The framework says that libraries are missing and not which: cuDNN where cuDNN alone is named elsewhere, else the framework's set."""
    lines = case.suspicions(LIBRARIES)
    absent = case.says("no-cudnn")
    if absent and lines and case.suspicions(CUDNN) and not case.stated(LIBRARIES, CUDNN, PATH):
        yield finding(CUDNN, lines[:1], absent)
        return
    both = tuple(quote for quote in lines if not _CUDA_LIBRARY.search(quote.text) and quote in case.suspicions(CUDNN))
    if both and not case.stated(LIBRARIES, CUDNN, PATH):
        yield finding(LIBRARIES, both[:1])


# ---------------------------------------------------------------- CUDA's Python bindings
def bindings(case: Case) -> Iterator[Clue]:
    """cuda.cudart or cuda.cuda is missing: cuda-bindings 13 has neither any more; without any bindings Numba's target lacks them."""
    lines = case.suspicions(ABI, words=_OLD_BINDINGS)
    if not lines or case.stated(ABI, TARGET_MISSING):
        return
    new, numba = listed(case, "cuda-bindings", "cuda-python"), listed(case, "numba-cuda", "numba")
    if new is not None and new[0].version.major >= 13:
        yield finding(ABI, lines[:1], new[1])
    elif new is None and numba is not None:
        yield finding(TARGET_MISSING, lines[:1], numba[1])
    else:
        yield finding(ABI, lines[:1], new[1] if new is not None else ())


def none_for_windows(case: Case) -> Iterator[Clue]:
    """TensorFlow on Windows itself, of a release that has no build for GPUs there, and the text asks it for its GPUs.

    https://www.tensorflow.org/install/pip: 2.10 was the last one.
    """
    package, system = listed(case, "tensorflow", "tensorflow-gpu", "tensorflow-intel"), case.facts.value(OPERATING_SYSTEM)
    asked = case.says("tensorflow-asked")
    if package is None or not asked or system is None or system.id != "windows" or case.settled:
        return
    if package[0].version.major_minor > LAST_ON_WINDOWS:
        values = {"framework": "tensorflow", "package": package[0].name, "version": package[0].version.text}
        yield finding(CPU, package[1], asked, basis="stated", values=values)


TIES = (
    not_available,
    none_for_windows,
    no_device_for_a_cpu_build,
    cpu_build_shown,
    wrong_library,
    mixed_packages,
    libraries_unnamed,
    # A package lacks what every release of it has: another file of that name is likelier than versions that do not fit.
    joined(SHADOWED, suspects(SHADOWED, words=_CORE), unless_stated=(SHADOWED, ABI), basis="suspected"),
    bindings,
)
