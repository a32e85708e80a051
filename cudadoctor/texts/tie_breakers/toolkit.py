"""Ties of toolkit and GPU: which of the compiler, the build's list and the GPU is out of step, and whose binaries lack a GPU's code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeVar

import msgspec

from cudadoctor.checks.frameworks import lacks
from cudadoctor.checks.reading import Quotes
from cudadoctor.model.facts import Fact, Quote
from cudadoctor.model.findings import Basis, Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import (
    CUDA_MENTIONS,
    FRAMEWORKS,
    LOADED_DRIVER,
    NAMED_GPUS,
    NUMBA_REPORT,
    NVCC,
    SMI,
    FrameworkBuild,
    NumbaReport,
    SmiCsv,
    toolkit_of_build,
)
from cudadoctor.model.version import ComputeCapability, CudaVersion, PackageVersion, ToolkitVersion
from cudadoctor.texts.tie_breakers.case import Case, codes, finding, joined, suspects

T = TypeVar("T")
STALE, DROPPED, TOO_OLD = "build-arch-list-stale", "toolkit-dropped-gpu", "toolkit-too-old-for-gpu"
LACKS, NEWER = "framework-lacks-gpu-arch", "toolkit-newer-than-driver"
HOME_WRONG, UNSEEN = "cuda-home-wrong", "build-sees-no-gpu"
_ASKS_FOR_NVCC = lazy(r"/nvcc: [Cc]ommand not found|CUDA_HOME|nvcc was not found|NVCC executable|find nvcc|bare_metal_version")
_FOLDER_OF_NVCC = lazy(r"(?<![\w.])(/[\w./+-]{1,200})/bin/nvcc\b")
HOST = "host-compiler-unsupported"
NUMBA_OLD, NUMBA_MISMATCH, MISSING = "numba-too-old", "numba-toolkit-mismatch", "toolkit-missing"
_REJECTED = lazy(
    r"(?:nsupported gpu architecture|Value) '(?:compute|sm)_(?P<major>\d{1,2}?)(?P<minor>\d)[af]?'|CUDA arch \((?P<dotted>\d{1,2}\.\d)"
)
_NO_IMAGE = codes("cuda 209", "cuda 98", words=r"no kernel image|invalid device function")
_OF_KERNEL_GEN = lazy(r"'cuModuleLoadData\(&module, data\)' failed with '")  # TensorFlow's tf_gpu_runtime_wrappers.cc
_OF_A_FRAMEWORK = lazy(
    r"(?i)RuntimeError: CUDA error|torch|AcceleratorError|tensorflow|cupy|ggml|paddle|mxnet|jaxlib|xla|onnxruntime"
    r"|parallel_for failed|\bc10\b"
)
_OF_NUMBA = lazy(r"(?i)Call to cu[A-Z]|numba|nvrtc")
_PACKAGES = (
    "cudatoolkit", "cuda-nvcc", "nvidia-cuda-nvcc-cu12", "nvidia-cuda-nvcc-cu11", "cuda-version",
    "nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12", "nvidia-cuda-nvrtc-cu11",
)  # fmt: skip
_BUILT_HERE = ("torch", "pytorch", "tensorflow", "tensorflow-gpu", "jaxlib", "cupy", "onnxruntime-gpu", "paddlepaddle-gpu", "mxnet")
_CAPABILITY = lazy(r"\d{1,2}\.\d$")
_NO_NUMBER = lazy(r"invalid value for --gpu-architecture")
_BRINGS_CUDA = lazy(r"\b(?:cudatoolkit|pytorch-cuda|cuda-version)={1,2}\d")
OLDEST_OF_TODAY = ComputeCapability("7.5")  # no toolkit has dropped what is newer
OLDEST_OF_NUMBA = ToolkitVersion("11.0")  # what Numba from 0.57 on asks for; the releases before say less clearly what they lack


# ---------------------------------------------------------------- what the text says of GPU, toolkit and driver
class Gpu(NamedTuple):
    capability: ComputeCapability
    quotes: Quotes


def gpus_named(case: Case) -> tuple[Gpu, ...]:
    """The GPUs of the text, by capability: what a program printed, else by the product's name."""
    found: dict[str, Gpu] = {}
    named, table = case.facts.there(NAMED_GPUS), case.facts.there(SMI)
    shown = [(gpu.capability, gpu.name, named.line_of(gpu.line)) for gpu in named.need()] if named is not None else []
    shown += [(None, gpu.name, table.line_of(gpu.line)) for gpu in table.need().gpus] if table is not None else []
    shown += [(ComputeCapability(number), None, one.some()[:1]) for one in case.lists() for number in _capabilities(one)]
    for printed, name, quotes in shown:
        capability = printed or (case.knowledge.capability_of_product(name) if name else None)
        if capability is not None:
            found.setdefault(capability.text, Gpu(capability, quotes))
    return tuple(found.values())


class Toolkit(NamedTuple):
    version: ToolkitVersion
    quotes: Quotes
    sure: bool  # nvcc's own word; else the text merely speaks of it


def toolkits_named(case: Case) -> tuple[Toolkit, ...]:
    """The toolkits of the text: those of nvcc and of packages first, then those that it speaks of."""
    found = [Toolkit(fact.value.version, fact.some()[:1], sure=True) for fact in case.facts.all(NVCC) if fact.value is not None]
    package = case.package(*_PACKAGES)
    if package is not None:
        found.append(Toolkit(ToolkitVersion(package[0].version.text), package[1], sure=True))
    report, mentions = case.facts.there(NUMBA_REPORT), case.facts.there(CUDA_MENTIONS)
    runtime = report.need().runtime if report is not None else None
    if report is not None and runtime is not None:
        found.append(Toolkit(runtime, report.line_of(report.need().runtime_line), sure=True))
    if mentions is not None:
        found += [Toolkit(one.version, mentions.line_of(one.line), sure=False) for one in mentions.need()]
    return tuple(found)


def driver_cuda_of_text(case: Case) -> tuple[CudaVersion, Quotes] | None:
    """The newest CUDA that the text's driver supports: as nvidia-smi prints it, else by the driver's branch."""
    for fact in case.facts.all(SMI):
        if fact.value is not None and fact.value.cuda is not None:
            return fact.value.cuda, fact.some()[:1]
    report, driver, loaded = case.facts.value(NUMBA_REPORT), case.framework.driver, case.facts.value(LOADED_DRIVER)
    if report is not None and report.driver_cuda is not None:
        return report.driver_cuda, case.first(NUMBA_REPORT)
    branches = [(driver.major, _with(case, driver.text))] if driver is not None else []
    branches += [(loaded.version.major, case.first(LOADED_DRIVER))] if loaded is not None else []
    branches += [(fact.value.module.major, fact.some()[:1]) for fact in case.facts.all(SMI) if fact.value is not None and fact.value.module]
    for number, quotes in branches:
        row = case.knowledge.branch(number)
        if row is not None and row.cuda is not None:
            return row.cuda, quotes
    return None


def _with(case: Case, word: str) -> Quotes:
    """The line with this word in what a framework says of itself."""
    quotes = case.facts[FRAMEWORKS].quotes
    return tuple(quote for quote in quotes if word in quote.text)[:1] or quotes[:1]


def needs_newer_driver(built: ToolkitVersion, driver: CudaVersion) -> bool:
    """Whether a driver of this CUDA cannot run it: from CUDA 11 on the major version decides, before it the minor version too."""
    return built.major > driver.major if built.major >= 11 else built.major_minor > driver.major_minor


def brought_cuda_is_too_new(case: Case) -> Iterator[Clue]:
    """A framework finds no GPU, and the package of conda that brings its CUDA is newer than the driver's."""
    none, driver = case.sees_gpu(available=False) or case.says("none-seen"), driver_cuda_of_text(case)
    if not none or driver is None or case.settled:
        return
    for kit in toolkits_named(case):
        if needs_newer_driver(kit.version, driver[0]) and any(_BRINGS_CUDA.search(quote.text) for quote in kit.quotes):
            yield finding("toolkit-newer-than-driver", kit.quotes, driver[1], none)
            return


def toolkit_elsewhere(case: Case) -> Iterator[Clue]:
    """A program does not find nvcc or CUDA_HOME, and the text shows an nvcc: it is there, and the variable does not lead to it."""
    lines, compilers = case.stated(MISSING, words=_ASKS_FOR_NVCC), case.facts.all(NVCC)
    shown = compilers[0].some()[:1] if compilers and all(fact.value is not None for fact in compilers) else case.says("which-nvcc")
    if lines and shown:
        folders = {folder for quote in shown for folder in _FOLDER_OF_NVCC.findall(quote.text) if f"{folder}/bin/nvcc" not in lines[0].text}
        there = {"path": folders.pop()} if len(folders) == 1 else {}
        yield finding(HOME_WRONG, lines, shown, values={"variable": "CUDA_HOME", "cuda_variable": "CUDA_HOME", **there})


# ---------------------------------------------------------------- a rejected architecture
def rejected_architecture(case: Case) -> Iterator[Clue]:
    """nvcc does not know an architecture: it is too old for it, or has dropped it, and then the GPU decides what has to change."""
    lines = case.suspicions(STALE, words=_REJECTED)
    match = _REJECTED.search(lines[0].text) if lines else None
    if match is None:
        return
    number = ComputeCapability(match["dotted"] or f"{match['major']}.{match['minor']}")
    row, gpus = case.knowledge.capability(number), gpus_named(case)
    if row is None and not gpus:
        return  # of a GPU to come, or of none
    first, last = (row.first_toolkit, row.last_toolkit) if row is not None else (None, None)
    known = toolkits_named(case)
    sure = [kit for kit in known if kit.sure]
    too_old = [kit for kit in known if first is not None and kit.version.major_minor < first.major_minor]
    older = next((kit for kit in too_old if kit.sure), None)
    older_said = too_old[0] if too_old and len(too_old) == len(known) else None
    too_new = [kit for kit in known if last is not None and kit.version.major_minor > last.major_minor]
    within = next((kit for kit in known if first is not None and kit not in too_old and kit not in too_new), None)
    newer = next((kit for kit in too_new if kit.sure or not sure), None)
    name = number.text
    shown = next((gpu.quotes for gpu in gpus if gpu.capability == number), ())
    if older is not None:
        yield finding(TOO_OLD, lines[:1], older.quotes, architecture=name, version=older.version.text)
    elif newer is None and within is not None and number >= ComputeCapability("5.0"):
        # The toolkit that the text speaks of knows this number, so another, older nvcc was run.
        yield finding(TOO_OLD, lines[:1], within.quotes, architecture=name)
    elif newer is None and older_said is not None:
        yield finding(TOO_OLD, lines[:1], older_said.quotes, architecture=name, version=older_said.version.text)
    elif shown and newer is None and _not_dropped(last, case):
        yield finding(TOO_OLD, lines[:1], shown, architecture=name)
    elif shown:
        yield finding(DROPPED, lines[:1], shown, newer.quotes if newer is not None else (), architecture=name)
    else:
        other = gpus[0].quotes if gpus else ()
        yield finding(STALE, lines[:1], newer.quotes if newer is not None else (), other, architecture=name)


def _not_dropped(last: ToolkitVersion | None, case: Case) -> bool:
    """Whether no toolkit that this driver serves has dropped the architecture."""
    if last is None:
        return True
    driver = driver_cuda_of_text(case)
    return driver is not None and driver[0].major_minor <= last.major_minor


def unnamed_architecture(case: Case) -> Iterator[Clue]:
    """NVRTC rejects the GPU's architecture without saying which: the GPU and the toolkit of the text decide."""
    lines = case.suspicions(DROPPED, words=_NO_NUMBER)
    if lines:
        found = tuple(_out_of_step(lines, case))
        newest = max((gpu.capability for gpu in gpus_named(case)), default=None)
        if not found and newest is not None and newest >= OLDEST_OF_TODAY:
            found = (finding(TOO_OLD, lines[:1], basis="suspected"),)
        yield from found


def _out_of_step(lines: Quotes, case: Case) -> Iterator[Clue]:
    """The pair of a GPU and a toolkit of the text of which one is older than the other allows."""
    for gpu in gpus_named(case):
        row = case.knowledge.capability(gpu.capability)
        for kit in toolkits_named(case):
            if row is not None and row.last_toolkit is not None and kit.version.major_minor > row.last_toolkit.major_minor:
                yield finding(DROPPED, lines[:1], gpu.quotes, kit.quotes)
                return
            if row is not None and row.first_toolkit is not None and kit.version.major_minor < row.first_toolkit.major_minor:
                yield finding(TOO_OLD, lines[:1], gpu.quotes, kit.quotes)
                return


def newer_gcc(case: Case) -> Iterator[Clue]:
    """nvcc failed without a reason that was pasted, and the text's gcc is newer than this nvcc accepts."""
    lines, gcc, nvcc = case.suspected(HOST), case.framework.gcc, case.facts.value(NVCC)
    row = case.knowledge.toolkit(nvcc.version) if nvcc is not None else None
    if lines and row is not None and gcc is not None and gcc > row.gcc_max:
        yield finding(HOST, lines, _with(case, f"{gcc}."), case.first(NVCC))


# ---------------------------------------------------------------- no code for this GPU (209)
def no_kernel_image(case: Case) -> Iterator[Clue]:
    """A prebuilt framework lacks the code, or what one's own compiler made does not fit the GPU."""
    lines = case.suspicions(LACKS, words=_NO_IMAGE)
    if not lines or case.stated(LACKS, TOO_OLD, DROPPED):
        return
    if any(_OF_NUMBA.search(quote.text) for quote in lines):
        yield from _out_of_step(lines, case)
        return
    own = tuple(quote for quote in lines if _OF_A_FRAMEWORK.search(quote.text))
    package = case.package(*_BUILT_HERE)
    if own:
        yield finding(LACKS, own[:1])
    elif package is not None:
        yield finding(LACKS, lines[:1], package[1])
    elif apart := case.says("torch-advises") or case.says("built-elsewhere"):
        yield finding(LACKS, lines[:1], apart)
    elif case.framework.version is not None:
        yield finding(LACKS, lines[:1], case.first(FRAMEWORKS))
    else:
        basis: Basis = "derived" if any(kit.sure for kit in toolkits_named(case)) else "suspected"
        yield from (msgspec.structs.replace(clue, basis=basis) for clue in _out_of_step(lines, case))


def built_for_others(case: Case) -> Iterator[Clue]:
    """PyTorch's own list of GPUs, or the CUDA that it was built with, leaves out the GPU that it found: nothing can run there."""
    gpu, build = _gpu_of_torch(case), _torch_of(case)
    if gpu is not None and build is not None and not case.settled and lacks(build[0], gpu.capability, case.knowledge):
        yield finding(LACKS, build[1], gpu.quotes, framework="torch", capability=gpu.capability.text)


def _gpu_of_torch(case: Case) -> Gpu | None:
    """The GPU whose capability PyTorch printed; else the only one of which nvidia-smi did."""
    if case.framework.capability is not None:
        return Gpu(case.framework.capability, case.facts[FRAMEWORKS].some()[-1:])
    listed = [(table, _capabilities(table)) for table in case.lists()]
    alone = [(table, numbers[0]) for table, numbers in listed if len(numbers) == 1]
    return Gpu(ComputeCapability(alone[0][1]), alone[0][0].some()[:1]) if alone else None


def _capabilities(table: Fact[SmiCsv]) -> list[str]:
    """The column of nvidia-smi --query-gpu=compute_cap."""
    return [number for number in table.need().column("compute_cap") or () if _CAPABILITY.match(number)]


def _torch_of(case: Case) -> tuple[FrameworkBuild, Quotes] | None:
    """PyTorch's build, by what it printed and by a list of packages."""
    own, package = case.framework, case.package("torch")
    version = own.version or (package[0].version if package is not None else None)
    cuda = own.toolkit or (toolkit_of_build(package[0].build) if package is not None else None)
    if version is None and not own.architectures:
        return None
    shown = case.line(FRAMEWORKS, own.line) if own.line else package[1] if package is not None else ()
    build = FrameworkBuild(
        name="torch", package="torch", version=version or PackageVersion("0"), cuda=cuda, architectures=own.architectures, line=0
    )
    return build, shown


def _of_kernel_gen(clue: Clue, quote: Quote) -> bool:
    return clue.code == "cuda 218" and _OF_KERNEL_GEN.search(quote.text) is not None


# ---------------------------------------------------------------- Numba
def _toolkits_of_numba(case: Case) -> tuple[ToolkitVersion, ToolkitVersion] | None:
    """The oldest and the newest toolkit that the text's Numba compiles with."""
    report, package = case.facts.value(NUMBA_REPORT), case.package("numba")
    version = (report.numba if report is not None else None) or (package[0].version if package is not None else None)
    row = case.knowledge.numba_release(version) if version is not None else None
    return row.toolkits if row is not None else None


def _own_target_is_older(report: NumbaReport, case: Case) -> Quotes | None:
    """The line with a Numba whose own target came before the runtime's series; None where numba-cuda may compile."""
    package, span = case.package("numba"), _toolkits_of_numba(case)
    if report.runtime is None or span is None or report.runtime.major <= span[1].major:
        return None
    shown = package is not None or report.implementation is not None  # a list of packages, or the report, would name numba-cuda
    if not shown or case.package("numba-cuda") is not None or (report.implementation or "Built-in") != "Built-in":
        return None
    return package[1] if package is not None else case.facts[NUMBA_REPORT].line_of(report.line)


def numba_against_toolkit(case: Case) -> Iterator[Clue]:
    """Numba knows no capability of the toolkit that it found: the toolkit is older than it accepts."""
    lines = case.stated(NUMBA_OLD, words=lazy(r"No supported GPU compute capabilities found"))
    package = case.package("numba")
    row = case.knowledge.numba_release(package[0].version) if package is not None else None
    oldest = row.toolkits[0] if row is not None and row.toolkits is not None else OLDEST_OF_NUMBA
    older = [kit for kit in toolkits_named(case) if kit.sure and kit.version.major_minor < oldest.major_minor]
    if lines and older and not case.stated(NUMBA_MISMATCH):
        yield finding(NUMBA_MISMATCH, lines[:1], older[0].quotes, version=older[0].version.text, minimum=oldest.text)


def looks_in_old_folders(report: NumbaReport) -> bool:
    """Whether Numba finds parts of CUDA 13 on Windows and cannot open its NVVM, which lies in another folder than in CUDA 12.

    https://github.com/NVIDIA/numba-cuda/pull/397
    """
    return "nvvm" in report.missing and report.located is not None and report.located.major >= 13


def numba_report(case: Case) -> Iterator[Clue]:
    """`numba -s` of a machine whose runtime is of a newer major version than the driver's CUDA. Beside a stated cause it is background."""
    fact = case.facts.there(NUMBA_REPORT)
    if fact is None or case.settled:
        return
    report, kept = fact.need(), _own_target_is_older(fact.need(), case)
    if looks_in_old_folders(report):
        yield finding(NUMBA_OLD, fact.lines_with("nvvm:", "nvvm.dll")[:1], fact.line_of(report.located_line))
    elif kept is not None:
        yield finding(NUMBA_OLD, kept, fact.line_of(report.runtime_line))
    elif report.runtime is not None and report.driver_cuda is not None and report.runtime.major > report.driver_cuda.major:
        shown = (*fact.line_of(report.runtime_line), *fact.some()[:1])
        yield finding(NEWER, shown, version=report.runtime.text, driver_cuda=report.driver_cuda.text)
    elif report.initialised and {"nvvm", "libdevice", "nvrtc"} & set(report.missing):
        yield finding(MISSING, fact.some()[-1:], parts=" ".join(report.missing))


def _no_nvcc(case: Case) -> Quotes:
    fact = case.facts.get(NVCC)
    return fact.some()[:1] if isinstance(fact, Fact) and fact.value is None and not case.said else ()


TIES = (
    *(brought_cuda_is_too_new, toolkit_elsewhere),
    # All that a text shows is that there is no nvcc: nothing is wrong with a GPU then, but it is what the user asks about.
    joined((MISSING, HOME_WRONG), _no_nvcc, basis="suspected"),
    *(rejected_architecture, unnamed_architecture),
    # A build saw no GPU, and an image is built: its steps have none, whatever the machine has.
    joined(UNSEEN, suspects(UNSEEN), beside=("image-build",), unsettled=True),
    *(newer_gcc, no_kernel_image, built_for_others),
    # TensorFlow's kernels of kernel_gen, for which its package has no code of this GPU: their PTX is of a GPU's own features, which the
    # driver of no other takes.
    joined(LACKS, suspects(NEWER, words=_of_kernel_gen), unless_stated=(LACKS, NEWER)),
    numba_against_toolkit,
    numba_report,
)
