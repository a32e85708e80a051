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
    LISTED_PACKAGES,
    LOADED_DRIVER,
    NAMED_GPUS,
    NUMBA_REPORT,
    NVCC,
    SMI,
    Framework,
    FrameworkBuild,
    ListedPackage,
    NumbaReport,
)
from cudadoctor.model.version import ComputeCapability, CudaVersion, PackageVersion, ToolkitVersion
from cudadoctor.texts.tie_breakers.case import Case, codes, finding, sure

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
_INVALID_PTX = codes("cuda 218")
_OF_KERNEL_GEN = lazy(r"'cuModuleLoadData\(&module, data\)' failed with '")  # TensorFlow's tf_gpu_runtime_wrappers.cc
_OF_A_FRAMEWORK = lazy(
    r"(?i)RuntimeError: CUDA error|torch|AcceleratorError|tensorflow|cupy|ggml|paddle|mxnet|jaxlib|xla|onnxruntime"
    r"|parallel_for failed|\bc10\b"
)
_OF_NUMBA = lazy(r"(?i)Call to cu[A-Z]|numba|nvrtc")
_BUILT_HERE = ("torch", "pytorch", "tensorflow", "tensorflow-gpu", "jaxlib", "cupy", "onnxruntime-gpu", "paddlepaddle-gpu", "mxnet")
_CAPABILITY = lazy(r"\d{1,2}\.\d$")
_TAG = lazy(r"cu(\d{2})(\d)$")
_NO_NUMBER = lazy(r"invalid value for --gpu-architecture")
_BRINGS_CUDA = lazy(r"\b(?:cudatoolkit|pytorch-cuda|cuda-version)={1,2}\d")
_NO_CAPABILITIES = lazy(r"No supported GPU compute capabilities found")
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
    if named is not None:
        for gpu in named.need():
            capability = gpu.capability or (case.knowledge.capability_of_product(gpu.name) if gpu.name is not None else None)
            if capability is not None:
                found.setdefault(capability.text, Gpu(capability, named.line_of(gpu.line)))
    if table is not None:
        for row in table.need().gpus:
            capability = case.knowledge.capability_of_product(row.name) if row.name else None
            if capability is not None:
                found.setdefault(capability.text, Gpu(capability, table.line_of(row.line)))
    return tuple(found.values())


class Toolkit(NamedTuple):
    version: ToolkitVersion
    quotes: Quotes
    sure: bool  # nvcc's own word; else the text merely speaks of it


def toolkits_named(case: Case) -> tuple[Toolkit, ...]:
    """The toolkits of the text: those of nvcc and of packages first, then those that it speaks of."""
    found = [Toolkit(fact.value.version, fact.some()[:1], sure=True) for fact in case.facts.all(NVCC) if fact.value is not None]
    package = listed(case, "cudatoolkit", "cuda-nvcc", "nvidia-cuda-nvcc-cu12", "nvidia-cuda-nvcc-cu11", "cuda-version")
    if package is not None:
        found.append(Toolkit(ToolkitVersion(package[0].version.text), package[1], sure=True))
    report, mentions = case.facts.there(NUMBA_REPORT), case.facts.there(CUDA_MENTIONS)
    runtime = report.need().runtime if report is not None else None
    if report is not None and runtime is not None:
        found.append(Toolkit(runtime, report.line_of(report.need().runtime_line), sure=True))
    if mentions is not None:
        found += [Toolkit(one.version, mentions.line_of(one.line), sure=False) for one in mentions.need()]
    return tuple(found)


def listed(case: Case, *names: str) -> tuple[ListedPackage, Quotes] | None:
    """The first of these packages that the text lists, with its line."""
    fact = case.facts.there(LISTED_PACKAGES)
    package = fact.need().named(*names) if fact is not None else None
    return None if fact is None or package is None else (package, fact.line_of(package.line))


def driver_cuda_of_text(case: Case) -> tuple[CudaVersion, Quotes] | None:
    """The newest CUDA that the text's driver supports: as nvidia-smi prints it, else by the driver's branch."""
    for fact in case.facts.all(SMI):
        if fact.value is not None and fact.value.cuda is not None:
            return fact.value.cuda, fact.some()[:1]
    report, framework, loaded = case.facts.there(NUMBA_REPORT), case.facts.there(FRAMEWORKS), case.facts.there(LOADED_DRIVER)
    newest = report.need().driver_cuda if report is not None else None
    if report is not None and newest is not None:
        return newest, report.some()[:1]
    branches: list[tuple[int, Quotes]] = []
    driver = framework.need().driver if framework is not None else None
    if framework is not None and driver is not None:
        branches.append((driver.major, _with(framework, driver.text)))
    if loaded is not None:
        branches.append((loaded.need().version.major, loaded.some()[:1]))
    branches += [(fact.value.module.major, fact.some()[:1]) for fact in case.facts.all(SMI) if fact.value is not None and fact.value.module]
    for number, quotes in branches:
        row = case.knowledge.branch(number)
        if row is not None and row.cuda is not None:
            return row.cuda, quotes
    return None


def _with(fact: Fact[T], word: str) -> Quotes:
    found: list[Quote] = [quote for quote in fact.quotes if word in quote.text]
    return tuple(found[:1]) or fact.quotes[:1]


def needs_newer_driver(built: ToolkitVersion, driver: CudaVersion) -> bool:
    """Whether a driver of this CUDA cannot run it: from CUDA 11 on the major version decides, before it the minor version too."""
    return built.major > driver.major if built.major >= 11 else built.major_minor > driver.major_minor


def brought_cuda_is_too_new(case: Case) -> Iterator[Clue]:
    """A framework finds no GPU, and the package of conda that brings its CUDA is newer than the driver's."""
    none, driver = _finds_none(case) or case.says("none-seen"), driver_cuda_of_text(case)
    if not none or driver is None or case.settled:
        return
    for kit in toolkits_named(case):
        if needs_newer_driver(kit.version, driver[0]) and any(_BRINGS_CUDA.search(quote.text) for quote in kit.quotes):
            yield finding("toolkit-newer-than-driver", kit.quotes, driver[1], none)
            return


def _finds_none(case: Case) -> Quotes:
    """The line in which a framework says that it finds no GPU."""
    fact = case.facts.there(FRAMEWORKS)
    if fact is None or fact.need().available is not False:
        return ()
    return fact.line_of(fact.need().available_line)[:1]


def toolkit_elsewhere(case: Case) -> Iterator[Clue]:
    """A program does not find nvcc or CUDA_HOME, and the text shows an nvcc: it is there, and the variable does not lead to it."""
    lines = tuple(
        quote for one in case.said if one.cause == MISSING and sure(one) for quote in one.quotes if _ASKS_FOR_NVCC.search(quote.text)
    )
    compilers = [fact for fact in case.facts.all(NVCC) if fact.value is not None]
    shown = compilers[0].some()[:1] if compilers and not any(fact.value is None for fact in case.facts.all(NVCC)) else ()
    shown = shown or case.says("which-nvcc")
    if lines and shown:
        folders = {folder for quote in shown for folder in _FOLDER_OF_NVCC.findall(quote.text) if f"{folder}/bin/nvcc" not in lines[0].text}
        there = {"path": folders.pop()} if len(folders) == 1 else {}
        yield finding(HOME_WRONG, lines[:1], shown, values={"variable": "CUDA_HOME", "cuda_variable": "CUDA_HOME", **there})


def nvcc_not_there(case: Case) -> Iterator[Clue]:
    """All that a text shows is that there is no nvcc: nothing is wrong with a GPU then, but it is what the user asks about."""
    fact = case.facts.get(NVCC)
    if not case.said and isinstance(fact, Fact) and fact.value is None:
        yield from (finding(cause, fact.some()[:1], basis="suspected") for cause in (MISSING, HOME_WRONG))


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
    within = next((kit for kit in known if first is not None and _within(kit.version, first, last)), None)
    newer = next((kit for kit in (sure or known) if last is not None and kit.version.major_minor > last.major_minor), None)
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


def _within(version: ToolkitVersion, first: ToolkitVersion, last: ToolkitVersion | None) -> bool:
    return version.major_minor >= first.major_minor and (last is None or version.major_minor <= last.major_minor)


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


def build_of_an_image(case: Case) -> Iterator[Clue]:
    """A build saw no GPU, and an image is built: its steps have none, whatever the machine has."""
    lines, shown = case.suspicions(UNSEEN)[:1], case.says("image-build")
    if lines and shown and not case.settled:
        yield finding(UNSEEN, lines, shown)


def newer_gcc(case: Case) -> Iterator[Clue]:
    """nvcc failed without a reason that was pasted, and the text's gcc is newer than this nvcc accepts."""
    lines, framework, nvcc = case.suspicions(HOST), case.facts.there(FRAMEWORKS), case.facts.there(NVCC)
    if not lines or framework is None or nvcc is None:
        return
    row, gcc = case.knowledge.toolkit(nvcc.need().version), framework.need().gcc
    if row is not None and gcc is not None and gcc > row.gcc_max:
        yield finding(HOST, lines[:1], _with(framework, f"{gcc}."), nvcc.some()[:1])


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
    framework, package = case.facts.there(FRAMEWORKS), listed(case, *_BUILT_HERE)
    if own:
        yield finding(LACKS, own[:1])
    elif package is not None:
        yield finding(LACKS, lines[:1], package[1])
    elif apart := case.says("torch-advises") or case.says("built-elsewhere"):
        yield finding(LACKS, lines[:1], apart)
    elif framework is not None and framework.need().version is not None:
        yield finding(LACKS, lines[:1], framework.some()[:1])
    else:
        basis: Basis = "derived" if any(kit.sure for kit in toolkits_named(case)) else "suspected"
        yield from (msgspec.structs.replace(clue, basis=basis) for clue in _out_of_step(lines, case))


def built_for_others(case: Case) -> Iterator[Clue]:
    """PyTorch's own list of GPUs, or the CUDA that it was built with, leaves out the GPU that it found: nothing can run there."""
    gpu = _gpu_of_torch(case)
    build = _torch_of(case) if gpu is not None and not case.settled else None
    if gpu is not None and build is not None and lacks(build[0], gpu.capability, case.knowledge):
        yield finding(LACKS, build[1], gpu.quotes, framework="torch", capability=gpu.capability.text)


def _gpu_of_torch(case: Case) -> Gpu | None:
    """The GPU whose capability PyTorch printed; else the only one of which nvidia-smi did."""
    fact = case.facts.there(FRAMEWORKS)
    printed = fact.need().capability if fact is not None else None
    if fact is not None and printed is not None:
        return Gpu(printed, fact.some()[-1:])
    columns = [(table, table.need().column("compute_cap")) for table in case.lists()]
    shown = [(table, column[0]) for table, column in columns if column is not None and len(column) == 1 and _CAPABILITY.match(column[0])]
    return Gpu(ComputeCapability(shown[0][1]), shown[0][0].some()[:1]) if shown else None


def _torch_of(case: Case) -> tuple[FrameworkBuild, Quotes] | None:
    """PyTorch's build, by what it printed and by a list of packages."""
    fact, package = case.facts.there(FRAMEWORKS), listed(case, "torch")
    own = fact.need() if fact is not None else Framework()
    version = own.version or (package[0].version if package is not None else None)
    tag = _TAG.match(own.build or (package[0].build if package is not None else None) or "")
    cuda = own.cuda or (ToolkitVersion(f"{tag[1]}.{tag[2]}") if tag is not None else None)
    if version is None and not own.architectures:
        return None
    shown = fact.line_of(own.line) if fact is not None and own.line else package[1] if package is not None else ()
    build = FrameworkBuild(
        name="torch", package="torch", version=version or PackageVersion("0"), cuda=cuda, architectures=own.architectures, line=0
    )
    return build, shown


def kernels_made_ahead(case: Case) -> Iterator[Clue]:
    """TensorFlow's kernels of kernel_gen, for which its package has no code of this GPU: their PTX is of a GPU's own features, which the
    driver of no other takes."""
    lines = tuple(quote for quote in case.suspicions(NEWER, words=_INVALID_PTX) if _OF_KERNEL_GEN.search(quote.text))
    if lines and not case.stated(LACKS, NEWER):
        yield finding(LACKS, lines[:1])


# ---------------------------------------------------------------- Numba
def numba_against_toolkit(case: Case) -> Iterator[Clue]:
    """Numba knows no capability of the toolkit that it found: the toolkit is older than it accepts."""
    lines = tuple(quote for one in case.said if one.cause == NUMBA_OLD for quote in one.quotes if _NO_CAPABILITIES.search(quote.text))
    if not lines or case.stated(NUMBA_MISMATCH):
        return
    oldest = _oldest_of_numba(case)
    for kit in toolkits_named(case):
        if kit.sure and kit.version.major_minor < oldest.major_minor:
            yield finding(NUMBA_MISMATCH, lines[:1], kit.quotes, version=kit.version.text, minimum=oldest.text)
            return


def _oldest_of_numba(case: Case) -> ToolkitVersion:
    """The oldest toolkit that the text's Numba compiles with."""
    report, package = case.facts.value(NUMBA_REPORT), listed(case, "numba")
    version = report.numba if report is not None else None
    version = version or (package[0].version if package is not None else None)
    row = case.knowledge.numba_release(version) if version is not None else None
    return row.toolkits[0] if row is not None and row.toolkits is not None else OLDEST_OF_NUMBA


def _own_target_is_older(report: NumbaReport, case: Case) -> Quotes | None:
    """The line with a Numba whose own target came before the runtime's series; None where numba-cuda may compile."""
    package = listed(case, "numba")
    version = report.numba or (package[0].version if package is not None else None)
    row = case.knowledge.numba_release(version) if version is not None else None
    if report.runtime is None or row is None or row.toolkits is None or report.runtime.major <= row.toolkits[1].major:
        return None
    shown = package is not None or report.implementation is not None  # a list of packages, or the report, would name numba-cuda
    if not shown or listed(case, "numba-cuda") is not None or (report.implementation or "Built-in") != "Built-in":
        return None
    return package[1] if package is not None else case.facts[NUMBA_REPORT].line_of(report.line)


def numba_report(case: Case) -> Iterator[Clue]:
    """`numba -s` of a machine whose runtime is of a newer major version than the driver's CUDA. Beside a stated cause it is background."""
    fact = case.facts.there(NUMBA_REPORT)
    if fact is None or case.settled:
        return
    report, kept = fact.need(), _own_target_is_older(fact.need(), case)
    if kept is not None:
        yield finding(NUMBA_OLD, kept, fact.line_of(report.runtime_line))
    elif report.runtime is not None and report.driver_cuda is not None and report.runtime.major > report.driver_cuda.major:
        shown = (*fact.line_of(report.runtime_line), *fact.some()[:1])
        yield finding(NEWER, shown, version=report.runtime.text, driver_cuda=report.driver_cuda.text)
    elif report.initialised and {"nvvm", "libdevice", "nvrtc"} & set(report.missing):
        yield finding(MISSING, fact.some()[-1:], parts=" ".join(report.missing))


TIES = (
    brought_cuda_is_too_new, toolkit_elsewhere, nvcc_not_there, rejected_architecture, unnamed_architecture, build_of_an_image, newer_gcc,
    no_kernel_image, built_for_others, kernels_made_ahead, numba_against_toolkit, numba_report,
)  # fmt: skip
