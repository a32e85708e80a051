"""Ties of Python packages: a framework without CUDA, one that finds its libraries not or finds wrong ones, and who asks for them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from cudadoctor.checks.reading import Quotes
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Facts, Key
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
    SETTING,
    SMI,
    ListedPackage,
)
from cudadoctor.model.version import CudaVersion, ToolkitVersion
from cudadoctor.texts.tie_breakers.joining import joined, suspects
from cudadoctor.texts.tie_breakers.place import place_of
from cudadoctor.texts.tie_breakers.said import Said, finding, settled, stated, sure, suspicions, variable
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
# Code 303: a library is not there at all, which is no missing symbol.
NOTHING_LOADED = "cuda 303"
_NO_DEVICE = lazy(r"Failed to infer device type|Device string must not be empty|no GPU (?:is )?detected|requires at least 1 GPU")
_OF_PACKAGES = lazy(r"(?:site|dist)-packages/nvidia/")
_SYMBOL = lazy(r"symbol|version `|version '")
_NO_GPU_SEEN = (CPU, "libcuda-missing", NEWER, "cuda-visible-devices-hides-all")


# ---------------------------------------------------------------- no GPU is seen
def not_available(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """A framework sees no GPU: its build has no CUDA, or its CUDA is newer than the driver. A text that states a cause needs neither."""
    fact = facts.there(FRAMEWORKS)
    state = fact.value if fact is not None else None
    lines = suspicions(said, CPU)[:1]
    complains = bool(lines) or (state is not None and state.available is False)
    if not complains or any(sure(one) or (one.basis == "suspected" and one.cause not in _NO_GPU_SEEN) for one in said):
        return
    answer = fact.line_of(state.available_line) if fact is not None and state is not None and state.available_line else ()
    lines = lines or answer
    without = _built_without(facts)
    if without:
        listed_only = not suspicions(said, CPU) and bool(answer) and _LISTED.search(answer[0].text) and not _gpu_beside(facts)
        yield finding(CPU, lines, without, basis="suspected" if listed_only else "stated")  # the text says both
        return
    built, driver = _built_with(facts), driver_cuda_of_text(facts, knowledge)
    if built is not None and driver is not None and needs_newer_driver(built[0], driver[0]):
        yield finding(NEWER, lines, built[1], driver[1], version=built[0].text, driver_cuda=driver[0].text)
    elif not suspicions(said, CPU):
        older = built is not None and any(needs_newer_driver(built[0], cuda) for cuda in _spoken_of(facts, knowledge))
        causes = sorted(_NO_GPU_SEEN, key=lambda cause: older and cause != NEWER)
        yield from (finding(cause, lines, basis="suspected") for cause in causes if built is None or cause != CPU)


def _spoken_of(facts: Facts, knowledge: Knowledge) -> tuple[CudaVersion, ...]:
    """The newest CUDA of each driver that the text names: its user's word, which only orders suspects."""
    named = facts.value(NAMED_DRIVERS)
    drivers = named.drivers if named is not None else ()
    branches = (knowledge.branch(driver.branch) for driver in drivers if driver.branch is not None)
    return tuple(branch.cuda for branch in branches if branch is not None and branch.cuda is not None)


def _gpu_beside(facts: Facts) -> bool:
    """Whether the text shows an NVIDIA GPU or driver, or says that a GPU is not seen: a framework that uses none is a complaint then."""
    state, place = facts.value(FRAMEWORKS), facts.value(SETTING)
    complains = place is not None and "none-seen" in place.words
    keys: tuple[Key[Any], ...] = (SMI, NAMED_GPUS, PCI, NVCC)
    shown = any(facts.there(key) is not None for key in keys)
    return complains or shown or (state is not None and (state.driver is not None or state.runtime is not None))


def no_device_for_a_cpu_build(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """A program on top of a framework finds no device, and the text shows the framework's build without CUDA."""
    lines, without = suspicions(said, "driver-not-loaded", _NO_DEVICE), _built_without(facts)
    if lines and without:
        yield finding(CPU, lines[:1], without, basis="stated")  # the text says both


def cpu_build_shown(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """A text that names no cause shows a framework's build without CUDA: a line of a listing, which blames nothing."""
    state, without = facts.value(FRAMEWORKS), _built_without(facts)
    if without and not (state is not None and state.available):
        yield msgspec.structs.replace(finding(CPU, without, basis="stated"), advice=True)


def _built_without(facts: Facts) -> Quotes:
    """The line that shows a framework without CUDA."""
    fact, packages = facts.there(FRAMEWORKS), facts.there(LISTED_PACKAGES)
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


def _built_with(facts: Facts) -> tuple[ToolkitVersion, Quotes] | None:
    """The CUDA that the framework was built with."""
    fact = facts.there(FRAMEWORKS)
    if fact is not None:
        state = fact.need()
        if state.cuda is not None:
            return state.cuda, fact.line_of(state.line)
        number = _BUILT_WITH.search(state.build or "")
        if number is not None:
            return _toolkit(number), fact.line_of(state.line)
    package = listed(facts, "torch", "pytorch", "jaxlib")
    number = _BUILT_WITH.search(package[0].build or "") if package is not None else None
    return None if number is None or package is None else (_toolkit(number), package[1])


def _toolkit(number: re.Match[str]) -> ToolkitVersion:
    return ToolkitVersion(f"{number[1] or number[3]}.{number[2] or number[4]}")


# ---------------------------------------------------------------- libraries
def two_series(facts: Facts) -> Quotes:
    """The lines of two packages that are of different CUDA series; () where the text lists none."""
    fact = facts.there(LISTED_PACKAGES)
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
    return _apart(facts)


def _apart(facts: Facts) -> Quotes:
    """One series, but nvJitLink is older than the runtime beside it."""
    runtime, linker = listed(facts, "nvidia-cuda-runtime-cu12"), listed(facts, "nvidia-nvjitlink-cu12")
    if runtime is None or linker is None or linker[0].version.major_minor >= runtime[0].version.major_minor:
        return ()
    return (*runtime[1], *linker[1])


def wrong_library(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """A symbol is missing: a foreign folder is shown, or two sets of packages are; a bare line speaks for the path."""
    lines = suspicions([clue for clue in said if clue.code != NOTHING_LOADED], PATH)[:2]
    if not lines:
        return
    foreign, mixed = _foreign_path(facts), two_series(facts)
    if any(_FOREIGN.search(quote.text) for quote in lines) or foreign:
        yield finding(PATH, lines[:1], foreign)
    elif mixed:
        yield finding(MIXED, lines[:1], mixed)
    elif any(_SYMBOL.search(quote.text) for quote in lines):
        no_path = place_of(facts).said("no-library-path")
        if no_path and _OF_PACKAGES.search(lines[0].text):
            yield finding(MIXED, lines[:1], no_path)
        else:
            yield finding(PATH, lines[:1])


def _foreign_path(facts: Facts) -> Quotes:
    """LD_LIBRARY_PATH with a folder of CUDA libraries."""
    value, shown = variable(facts, "LD_LIBRARY_PATH")
    return shown if _FOREIGN.search(value) else ()


def mixed_packages(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """A framework does not find its libraries, and the package list shows two sets of them."""
    lines = stated(said, LIBRARIES) or suspicions(said, LIBRARIES)[:1]
    mixed = two_series(facts) if lines else ()
    if mixed:
        yield finding(MIXED, mixed, lines)


def libraries_unnamed(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """The framework says that libraries are missing and not which: cuDNN where cuDNN alone is named elsewhere, else the framework's set."""
    lines = suspicions(said, LIBRARIES)
    absent = place_of(facts).said("no-cudnn")
    if absent and lines and suspicions(said, CUDNN) and not stated(said, LIBRARIES, CUDNN, PATH):
        yield finding(CUDNN, lines[:1], absent)
        return
    both = tuple(quote for quote in lines if not _CUDA_LIBRARY.search(quote.text) and quote in suspicions(said, CUDNN))
    if both and not stated(said, LIBRARIES, CUDNN, PATH):
        yield finding(LIBRARIES, both[:1])


# ---------------------------------------------------------------- CUDA's Python bindings
def bindings(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """cuda.cudart or cuda.cuda is missing: cuda-bindings 13 has neither any more; without any bindings Numba's target lacks them."""
    lines = suspicions(said, ABI, _OLD_BINDINGS)
    if not lines or stated(said, ABI, TARGET_MISSING):
        return
    new, numba = listed(facts, "cuda-bindings", "cuda-python"), listed(facts, "numba-cuda", "numba")
    if new is not None and new[0].version.major >= 13:
        yield finding(ABI, lines[:1], new[1])
    elif new is None and numba is not None:
        yield finding(TARGET_MISSING, lines[:1], numba[1])
    else:
        yield finding(ABI, lines[:1], new[1] if new is not None else ())


def none_for_windows(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """TensorFlow on Windows itself, of a release that has no build for GPUs there, and the text asks it for its GPUs.

    https://www.tensorflow.org/install/pip: 2.10 was the last one.
    """
    package, system = listed(facts, "tensorflow", "tensorflow-gpu", "tensorflow-intel"), facts.value(OPERATING_SYSTEM)
    asked = place_of(facts).said("tensorflow-asked")
    if package is None or not asked or system is None or system.id != "windows" or settled(said):
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
    joined(SHADOWED, suspects(SHADOWED, _CORE), unless_stated=(SHADOWED, ABI), basis="suspected"),
    bindings,
)
