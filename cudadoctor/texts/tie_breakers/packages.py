"""Ties of Python packages: a framework without CUDA, one that finds its libraries not or finds wrong ones, and who asks for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cudadoctor.checks.reading import Quotes
from cudadoctor.model.facts import Key
from cudadoctor.model.findings import Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import FRAMEWORKS, LISTED_PACKAGES, NAMED_DRIVERS, NAMED_GPUS, NVCC, OPERATING_SYSTEM, PCI, SMI
from cudadoctor.model.version import ToolkitVersion
from cudadoctor.texts.tie_breakers.case import Case, finding, joined, states, sure, suspects
from cudadoctor.texts.tie_breakers.toolkit import driver_cuda_of_text, needs_newer_driver

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
_SERIES = (lazy(r"^nvidia-[a-z0-9-]+-cu(1\d)$"), lazy(r"^cupy-cuda(1\d)"))
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
    complains, state = case.suspected(CPU), case.framework
    if not complains and state.available is not False:
        return
    others = (one for one in case.said if one.basis == "suspected" and one.cause not in _NO_GPU_SEEN)
    if any(map(sure, case.said)) or any(one.quotes[:1] != complains[:1] for one in others):  # the complaint itself may suspect more
        return
    lines = complains or case.sees_gpu(available=False)
    without = _built_without(case)
    if without:
        # Whether the text shows an NVIDIA GPU or driver, or says that a GPU is not seen: a framework that uses none is a complaint then.
        keys: tuple[Key[Any], ...] = (SMI, NAMED_GPUS, PCI, NVCC)
        beside = case.says("none-seen") or state.driver or state.runtime or any(case.facts.there(key) is not None for key in keys)
        listed_only = not complains and not beside and _LISTED.search(lines[0].text)
        yield finding(CPU, lines, without, basis="suspected" if listed_only else "stated")  # the text says both
        return
    built, driver = _built_with(case), driver_cuda_of_text(case)
    if built is not None and driver is not None and needs_newer_driver(built[0], driver[0]):
        yield finding(NEWER, lines, built[1], driver[1], version=built[0].text, driver_cuda=driver[0].text)
    elif not complains:
        # The driver that the text names is its user's word, which only orders suspects.
        named = case.facts.value(NAMED_DRIVERS)
        branches = [case.knowledge.branch(one.branch) for one in (named.drivers if named is not None else ()) if one.branch is not None]
        cudas = [branch.cuda for branch in branches if branch is not None and branch.cuda is not None]
        older = built is not None and any(needs_newer_driver(built[0], cuda) for cuda in cudas)
        causes = sorted(_NO_GPU_SEEN, key=lambda cause: older and cause != NEWER)
        yield from (finding(cause, lines, basis="suspected") for cause in causes if built is None or cause != CPU)


def _built_without(case: Case) -> Quotes:
    """The line that shows a framework without CUDA."""
    if case.framework.built_with_cuda is False or _CPU_BUILD.search(case.framework.build or ""):
        return case.line(FRAMEWORKS, case.framework.line)
    for entry in case.packages:
        if entry.name in _WITHOUT_CUDA or (entry.name in _FRAMEWORKS and _CPU_BUILD.search(entry.build or "")):
            return case.line(LISTED_PACKAGES, entry.line)
    return ()


def _built_with(case: Case) -> tuple[ToolkitVersion, Quotes] | None:
    """The CUDA that the framework was built with."""
    state, package = case.framework, case.package("torch", "pytorch", "jaxlib")
    shown = case.line(FRAMEWORKS, state.line)
    if state.cuda is not None:
        return state.cuda, shown
    for build, quotes in ((state.build, shown), (package[0].build, package[1]) if package is not None else (None, ())):
        if (number := _BUILT_WITH.search(build or "")) is not None:
            return ToolkitVersion(f"{number[1] or number[3]}.{number[2] or number[4]}"), quotes
    return None


# ---------------------------------------------------------------- libraries
def two_series(case: Case) -> Quotes:
    """The lines of two packages that are of different CUDA series; () where the text lists none."""
    for form in _SERIES:
        seen: dict[str, int] = {}
        for entry in case.packages:
            if (match := form.match(entry.name)) is not None:
                seen.setdefault(match[1], entry.line)
        if len(seen) > 1:
            return tuple(quote for line in list(seen.values())[:2] for quote in case.line(LISTED_PACKAGES, line))
    # One series, but nvJitLink is older than the runtime beside it.
    runtime, linker = case.package("nvidia-cuda-runtime-cu12"), case.package("nvidia-nvjitlink-cu12")
    if runtime is None or linker is None or linker[0].version.major_minor >= runtime[0].version.major_minor:
        return ()
    return (*runtime[1], *linker[1])


def wrong_library(case: Case) -> Iterator[Clue]:
    """A symbol is missing: a foreign folder is shown, or two sets of packages are; a bare line speaks for the path."""
    # Code 303: a library is not there at all, which is no missing symbol.
    lines = case.suspicions(PATH, words=lambda clue, quote: clue.code != "cuda 303")[:2]
    if not lines:
        return
    value, shown = case.variable("LD_LIBRARY_PATH")
    foreign, mixed = shown if _FOREIGN.search(value) else (), two_series(case)
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


# ---------------------------------------------------------------- CUDA's Python bindings
def bindings(case: Case) -> Iterator[Clue]:
    """cuda.cudart or cuda.cuda is missing: cuda-bindings 13 has neither any more; without any bindings Numba's target lacks them."""
    lines = case.suspicions(ABI, words=_OLD_BINDINGS)
    if not lines or case.stated(ABI, TARGET_MISSING):
        return
    new, numba = case.package("cuda-bindings", "cuda-python"), case.package("numba-cuda", "numba")
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
    package, system = case.package("tensorflow", "tensorflow-gpu", "tensorflow-intel"), case.facts.value(OPERATING_SYSTEM)
    asked = case.says("tensorflow-asked")
    if package is None or not asked or system is None or system.id != "windows" or case.settled:
        return
    if package[0].version.major_minor > LAST_ON_WINDOWS:
        values = {"framework": "tensorflow", "package": package[0].name, "version": package[0].version.text}
        yield finding(CPU, package[1], asked, basis="stated", values=values)


def _unnamed_libraries(case: Case) -> Quotes:
    both = {*case.suspicions(LIBRARIES)}.intersection(case.suspicions(CUDNN))
    return tuple(quote for quote in case.suspicions(LIBRARIES) if quote in both and not _CUDA_LIBRARY.search(quote.text))[:1]


def _no_provider(case: Case) -> Quotes:
    """ONNX Runtime's list of providers, without CUDA's."""
    clues = (clue for clue in case.said if clue.cause == CPU)
    return tuple(quote for clue in clues for quote in clue.quotes if "ExecutionProvider'" in quote.text)[:1]


def _both_runtimes(case: Case) -> Quotes:
    """The two packages that write the same folder: the one that was installed last is there."""
    found = [case.package(name) for name in ("onnxruntime", "onnxruntime-gpu")]
    return tuple(quote for one in found if one is not None for quote in one[1]) if None not in found else ()


TIES = (
    not_available,
    joined(CPU, _no_provider, beside=(_both_runtimes,), basis="stated", framework="onnxruntime"),
    none_for_windows,
    # Ollama found no GPU, and of Arch's packages of it only the one for processors is here.
    joined(CPU, beside=("ollama-on-cpu", "ollama-alone"), basis="stated", framework="ollama"),
    # A program computes on the processor, and the project's file takes PyTorch from an index that has builds for processors alone.
    joined(
        CPU,
        lambda case: case.says("on-cpu"),
        beside=("uv-index-of-cpu",),
        unless=("uv-index-of-cuda",),
        basis="stated",
        framework="torch",
    ),
    # A program on top of a framework finds no device, and the text shows the framework's build without CUDA: it says both.
    joined(CPU, suspects("driver-not-loaded", words=_NO_DEVICE), beside=(_built_without,), basis="stated"),
    # A text that names no cause shows a framework's build without CUDA: a line of a listing, which blames nothing.
    joined(CPU, _built_without, unless=(lambda case: case.sees_gpu(available=True),), basis="stated", advice=True),
    wrong_library,
    # A framework does not find its libraries, and the package list shows two sets of them.
    joined(MIXED, beside=(two_series, (states(LIBRARIES), suspects(LIBRARIES)))),
    # The framework says that libraries are missing and not which: cuDNN where cuDNN alone is named elsewhere, else the framework's set.
    joined(CUDNN, suspects(LIBRARIES), beside=("no-cudnn",), only_if=(suspects(CUDNN),), unless_stated=(LIBRARIES, CUDNN, PATH)),
    joined(LIBRARIES, _unnamed_libraries, unless=("no-cudnn",), unless_stated=(LIBRARIES, CUDNN, PATH)),
    # A package lacks what every release of it has: another file of that name is likelier than versions that do not fit.
    joined(SHADOWED, suspects(SHADOWED, words=_CORE), unless_stated=(SHADOWED, ABI), basis="suspected"),
    bindings,
)
