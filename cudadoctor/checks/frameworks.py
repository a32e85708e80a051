"""Whether the installed frameworks fit driver and GPU, and whether the libraries that they load are there: by files, names and tables.

Rules of the rows python and toolkit. A framework that was tried (check --frameworks) and computed is not doubted; where its trial failed,
what is found here blocks. None of these rules clears its causes: what files do not show may be wrong all the same, so `causes` is empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from cudadoctor.checks.base import Rule
from cudadoctor.checks.common import driver_cuda, in_python
from cudadoctor.checks.toolkit import capabilities
from cudadoctor.inventory.devices import cuda_answered
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Fact, Facts, Quote
from cudadoctor.model.findings import Clue
from cudadoctor.model.frameworks import build_words, run_words
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import (
    ASKED_FRAMEWORKS,
    FRAMEWORK_BUILDS,
    FRAMEWORK_RUNS,
    KERNEL,
    LADDER,
    NVCC,
    PCI,
    PYTHON,
    FrameworkBuild,
    FrameworkBuilds,
    FrameworkRun,
    PythonEnvironment,
    PythonPackage,
)
from cudadoctor.model.version import ComputeCapability, CudaVersion, ToolkitVersion

NEWER, LACKS_ARCH = "toolkit-newer-than-driver", "framework-lacks-gpu-arch"
LIBRARIES, CUDNN, NVCC_MISSING = "framework-cuda-libs-missing", "cudnn-missing-or-mismatched", "toolkit-missing"
ANY_MINOR = 11  # from this CUDA on a driver serves every minor version of its major version
_CODE = lazy(r"^(?P<kind>sm|compute)_(?P<major>\d{1,2})(?P<minor>\d)(?P<only>[a-z]?)$")
_CUDNN_FILE = lazy(r"^libcudnn\.so\.\d")
_TAG = lazy(r"^(\d{2})\.(\d)")


# ---------------------------------------------------------------- what was tried
def run_of(facts: Facts, name: str) -> FrameworkRun | None:
    """The trial of one framework; None where nobody asked for it."""
    found = facts.value(FRAMEWORK_RUNS)
    return found.find(name) if found is not None else None


def seen(facts: Facts, *names: str) -> Literal["failed", "unseen"]:
    """Whether one of these was seen to fail."""
    runs = [run for run in (run_of(facts, name) for name in names) if run is not None]
    return "failed" if any(run.status in ("fail", "crash") for run in runs) else "unseen"


def all_computed(facts: Facts) -> bool:
    """Whether frameworks were tried, and each computed on a GPU."""
    found = facts.value(FRAMEWORK_RUNS)
    return found is not None and bool(found.runs) and all(run.status == "pass" for run in found.runs)


def asked(facts: Facts, name: str) -> bool:
    """Whether the user asked for this framework: by --frameworks, or by a text that names it."""
    return run_of(facts, name) is not None or name in (facts.value(ASKED_FRAMEWORKS) or ())


def gpu_here(facts: Facts) -> bool:
    """Whether this machine has an NVIDIA GPU: without one a build for the processor is the right one."""
    if cuda_answered(facts):
        return True
    bus = facts[PCI]
    if bus.value is None:
        raise LADDER.unknown("no device answered, and this system shows no PCI bus")
    return bool(bus.value.nvidia_gpus)


def _doubtful(facts: Facts) -> tuple[Fact[FrameworkBuilds], list[FrameworkBuild]]:
    """Builds for CUDA on a machine with a GPU, less those that were seen to compute."""
    fact = facts[FRAMEWORK_BUILDS]
    builds = [build for build in fact.need().builds if build.kind == "cuda" and not _computed(facts, build)]
    return fact, builds if builds and gpu_here(facts) else []


def _computed(facts: Facts, build: FrameworkBuild) -> bool:
    run = run_of(facts, build.name)
    return run is not None and run.status == "pass"


def build_quote(fact: Fact[FrameworkBuilds], build: FrameworkBuild) -> Quote:
    """The line about one framework."""
    version = build.version.text.partition("+")[0]
    return fact.line_with(f"{build.name} {version}", words=f"{build.name} {version}")


def _clue(facts: Facts, cause: str, build: FrameworkBuild, quotes: tuple[Quote, ...], **values: str) -> Clue:
    python, how = facts[PYTHON], seen(facts, build.name)
    if how == "failed":
        quotes = (facts[FRAMEWORK_RUNS].line_with(f"{build.name}: ", words=f"{build.name} failed"), *quotes)
    values = {"framework": build.name, "version": build.version.text, **values}
    if python.value is None:
        return Clue(cause=cause, quotes=quotes, seen=how, asked=asked(facts, build.name), values=values)
    return in_python(cause, python, quotes, values, seen=how, asked=asked(facts, build.name))


# ---------------------------------------------------------------- toolkit-newer-than-driver
def newer_than_driver(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """A build for a major version of CUDA that this driver does not serve."""
    fact, builds = _doubtful(facts)
    driver = driver_cuda(facts) if any(build.cuda is not None for build in builds) else None
    for build in builds:
        if build.cuda is not None and driver is not None and not serves(driver[0], build.cuda):
            yield _clue(facts, NEWER, build, (build_quote(fact, build), driver[1]), driver_cuda=driver[0].text)


def serves(driver: CudaVersion, cuda: ToolkitVersion) -> bool:
    """Whether programs built with this CUDA run on a driver of that CUDA."""
    if driver.major < ANY_MINOR:
        return cuda.major_minor <= driver.major_minor
    return cuda.major <= driver.major


# ---------------------------------------------------------------- framework-lacks-gpu-arch
def lacks_architecture(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """A build whose machine code is for other generations of GPUs: by its own list, PyTorch also by the index that it comes from."""
    fact, builds = _doubtful(facts)
    kernel = facts.value(KERNEL)
    in_table = kernel is not None and kernel.machine in ("x86_64", "AMD64")  # what the table of PyTorch's indexes is about
    for build in builds:
        if not build.architectures and not (build.name == "torch" and in_table):
            continue
        gpu = next((gpu for gpu in capabilities(facts, knowledge) if lacks(build, gpu.capability, knowledge)), None)
        if gpu is not None:
            words = f"{build.name} {build.version.text.partition('+')[0]} holds code for {', '.join(build.architectures)}"
            shown = (Quote(source=fact.source(), text=words),) if build.architectures else ()
            quotes = (build_quote(fact, build), *shown, gpu.quote)
            yield _clue(facts, LACKS_ARCH, build, quotes, capability=gpu.capability.text)


def lacks(build: FrameworkBuild, capability: ComputeCapability, knowledge: Knowledge) -> bool:
    """Whether no code of the build is for this GPU: by its own list, PyTorch also by the CUDA that it was built with."""
    if build.architectures:
        return not holds_code(build.architectures, capability)
    tag = _TAG.match(build.cuda.text) if build.cuda is not None else None
    row = next((row for row in knowledge.torch_indexes if tag is not None and row.tag == f"cu{tag[1]}{tag[2]}"), None)
    if row is None:
        # An index of before, cu121 or cu124, which hold no PTX: its compiler knew no GPU of this generation.
        first = knowledge.first_toolkit(capability)
        return (
            build.name == "torch" and build.cuda is not None and first is not None and (12, 0) <= build.cuda.major_minor < first.major_minor
        )
    # Lists differ a little between releases of one index: only what none of them had is told from the table.
    return capability.major > ComputeCapability(row.cc_max).major or capability.major < ComputeCapability(row.cc_min).major


def holds_code(architectures: Iterable[str], capability: ComputeCapability) -> bool:
    """Whether one of these fits: sm_80 runs on each 8.x from 8.0 on, sm_90a on 9.0 alone, compute_90 (PTX) on 9.0 and all newer GPUs."""
    known = False
    for name in architectures:
        code = _CODE.match(name)
        if code is None:
            continue
        known = True
        number = ComputeCapability(f"{code['major']}.{code['minor']}")
        same = number == capability if code["only"] == "a" else number.major == capability.major and number <= capability
        if same or (code["kind"] == "compute" and not code["only"] and number <= capability):
            return True
    return not known


# ---------------------------------------------------------------- framework-cuda-libs-missing, cudnn-missing-or-mismatched
def libraries_missing(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """Libraries of CUDA that a framework loads and that are nowhere."""
    fact, builds = _doubtful(facts)
    for build in builds:
        torch = fact.need().find("torch") if build.builds else None
        missing = next((name for name in build.missing if not _CUDNN_FILE.match(name)), None)
        if missing is not None:
            yield _clue(facts, LIBRARIES, build, (build_quote(fact, build),), library=missing)
        # bitsandbytes brings one library for each CUDA version; the one of PyTorch's major version is taken.
        elif torch is not None and torch.cuda is not None and all(one.major != torch.cuda.major for one in build.builds):
            yield _clue(facts, LIBRARIES, build, (build_quote(fact, build), build_quote(fact, torch)))


def cudnn(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """cuDNN is nowhere, or its wheel is older than the framework accepts."""
    fact, builds = _doubtful(facts)
    python = facts[PYTHON]
    for build in builds:
        old = _old_cudnn(python, build)
        if any(_CUDNN_FILE.match(name) for name in build.missing):
            yield _clue(facts, CUDNN, build, (build_quote(fact, build),))
        elif old is not None:
            words = f"{old.name} {old.version} is installed, {build.name} asks for {build.cudnn} or newer"
            quotes = (build_quote(fact, build), python.line_with(f"{old.name} {old.version}", words=words))
            yield _clue(facts, CUDNN, build, quotes, requirement=f"{old.name}>={build.cudnn}")


def _old_cudnn(python: Fact[PythonEnvironment], build: FrameworkBuild) -> PythonPackage | None:
    """The wheel of cuDNN, where it is older than the framework's metadata asks for (major and minor compared)."""
    if build.cudnn is None or build.cuda is None or python.value is None:
        return None
    wheel = python.value.package(f"nvidia-cudnn-cu{build.cuda.major}")
    return wheel if wheel is not None and wheel.version.major_minor < build.cudnn.major_minor else None


# ---------------------------------------------------------------- toolkit-missing
def nvcc_missing(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """PyCUDA calls nvcc each time a program gives it the source of a kernel, whatever the GPU."""
    fact = facts[FRAMEWORK_BUILDS]
    build = fact.value.find("pycuda") if fact.value is not None else None
    if build is not None and not _computed(facts, build) and not facts[NVCC].present:
        absent = facts[NVCC].quotes[:1] or (Quote(source="nvcc", text="nvcc: command not found"),)
        yield _clue(facts, NVCC_MISSING, build, (build_quote(fact, build), *absent))


RULES = (
    Rule("toolkit", (), newer_than_driver),
    Rule("python", (), lacks_architecture),
    Rule("python", (), libraries_missing),
    Rule("toolkit", (), cudnn),
    Rule("toolkit", (), nvcc_missing),
)


# ---------------------------------------------------------------- words for the row
def described(facts: Facts) -> tuple[list[str], tuple[Quote, ...]]:
    """`torch 2.11.0 for CUDA 13.0: computed on NVIDIA H200`, one for each framework that is there, and the lines behind them."""
    fact, runs = facts[FRAMEWORK_BUILDS], facts.get(FRAMEWORK_RUNS)
    said = []
    for build in fact.value.builds if fact.value is not None else ():
        run = run_of(facts, build.name)
        said.append(build_words(build) + (f": {run_words(run)}" if run is not None else ""))
    return said, (*(runs.quotes if isinstance(runs, Fact) else ()), *(quote for quote in fact.quotes if quote.first is not None))
