"""Ties that two values of a text decide: capabilities without compute, a malformed CUDA_HOME, two driver versions, code 35."""

from __future__ import annotations

from collections.abc import Iterator

from cudadoctor.checks import traces
from cudadoctor.checks.cuda_home import malformed
from cudadoctor.checks.driver_fit import same_release
from cudadoctor.checks.libcuda import MANAGER, MANAGERS_MODULE, MISSING
from cudadoctor.checks.reading import Quotes
from cudadoctor.checks.toolkit import HOME_VARIABLES
from cudadoctor.model.findings import Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import (
    FRAMEWORKS,
    LOADED_DRIVER,
    MODULES,
    NAMED_DRIVERS,
    SMI,
)
from cudadoctor.model.version import LibraryVersion
from cudadoctor.texts.tie_breakers.case import Case, codes, finding

CAPABILITIES = "NVIDIA_DRIVER_CAPABILITIES"
_FILE_VERSION = lazy(r"\.so\.(\d{3}\.\d+(?:\.\d+)?)$")
_CAPABILITIES = lazy(r"[Cc]apabilities")
_PATH = lazy(r"(?:^|(?<=[:\"']))/[^:;$~\s\"']{0,200}cuda[^:;$~\s\"']{0,40}")  # the one folder that a malformed CUDA_HOME holds
_COMPAT = lazy(r"/(?:compat|cuda-compat[^/:]*)(?:[/:]|$)")
_MISMATCH = codes("cuda 803")
_INSUFFICIENT = codes("cuda 35")
_WITHOUT_DRIVER = lazy(  # of CuPy and RAPIDS, which ask for no driver before
    r"CUDARuntimeError: cudaErrorInsufficient|<cudaError_t\.cudaErrorInsufficient|detect number of GPUs"
)


# ---------------------------------------------------------------- capabilities and CUDA_HOME
def capabilities(case: Case) -> Iterator[Clue]:
    """libcuda is not found, and the container was given driver capabilities without compute."""
    lines = case.stated("libcuda-missing")
    if not lines and (case.settled or not case.container):
        return
    asked = case.suspected("container-driver-capabilities", words=_CAPABILITIES)
    if asked:
        yield finding("container-driver-capabilities", asked, lines)
        return
    value, shown = case.variable(CAPABILITIES)
    if value and not {"compute", "all"} & {word.strip() for word in value.split(",")}:
        yield finding("container-driver-capabilities", shown, lines, basis="derived" if lines else "suspected", capabilities=value)


def malformed_home(case: Case) -> Iterator[Clue]:
    """A part of the toolkit is not found, and CUDA_HOME or CUDA_PATH is no path at all."""
    lines = case.stated("toolkit-missing")
    for name in HOME_VARIABLES if lines else ():
        value, shown = case.variable(name)
        reason = malformed(value) if value else None
        if reason is not None:
            values = {"variable": name, "cuda_variable": name, "value": value, "reason": reason}
            paths = _PATH.findall(value)
            yield finding("cuda-home-wrong", shown, lines, values={**values, **({"path": paths[0]} if len(paths) == 1 else {})})


# ---------------------------------------------------------------- versions
def two_driver_versions(case: Case) -> Iterator[Clue]:
    """cuInit refuses the pair (803, 804): two driver versions are shown, or the library is that of a cuda-compat package."""
    lines = next((clue.quotes[:1] for clue in case.said if clue.cause == "forward-compat-unsupported"), ())
    if not lines:
        return
    compat = _compat_library(case) or _newer_cuda(case) or case.says("cuda-compat")
    loaded, file = case.facts.there(LOADED_DRIVER), _other_library(case)
    if compat:
        yield finding("forward-compat-unsupported", lines, compat)
    elif loaded is not None and file is not None:
        library, shown = file
        yield finding("driver-version-mismatch", lines, loaded.some()[:1], shown, module=loaded.need().version.text, library=library.text)
    elif case.container:  # an image brings a libcuda of its own more often than a host has two
        yield finding("forward-compat-unsupported", lines, case.container, basis="suspected")
    elif case.suspected("driver-version-mismatch", words=_MISMATCH):
        yield finding("driver-version-mismatch", case.suspected("driver-version-mismatch", words=_MISMATCH))


def cuda_above_the_branch(case: Case) -> Iterator[Clue]:
    """Nothing is stated, and nvidia-smi shows a CUDA that its driver does not carry: the libcuda of a cuda-compat package answers."""
    shown = _newer_cuda(case)
    if shown and not case.said:
        yield finding("forward-compat-unsupported", shown, basis="suspected")


def _compat_library(case: Case) -> Quotes:
    """A libcuda from a cuda-compat folder, or that folder in the loader's path."""
    for file, shown in case.libcuda_files():
        if _COMPAT.search(file.path):
            return shown
    value, shown = case.variable("LD_LIBRARY_PATH")
    return shown if _COMPAT.search(value) else ()


def _newer_cuda(case: Case) -> Quotes:
    """nvidia-smi's CUDA Version above what the module's branch carries: another libcuda answers."""
    for smi in case.facts.all(SMI):
        if smi.value is not None and smi.value.module is not None and smi.value.cuda is not None:
            branch = case.knowledge.branch(smi.value.module.major)
            if branch is not None and branch.cuda is not None and smi.value.cuda > branch.cuda:
                return smi.some()[:1]
    return ()


def _other_library(case: Case) -> tuple[LibraryVersion, Quotes] | None:
    """A libcuda of the driver whose file name carries another version than the loaded module."""
    loaded = case.facts.value(LOADED_DRIVER)
    for file, shown in case.libcuda_files():
        number = _FILE_VERSION.search(file.target or file.path)
        other = number is not None and loaded is not None and not same_release(loaded.version, LibraryVersion(number[1]))
        if number is not None and other and traces.of_the_driver(file.path):
            return LibraryVersion(number[1]), shown
    return None


def insufficient_driver(case: Case) -> Iterator[Clue]:
    """Code 35: with a driver at work the runtime is newer than it. Where no driver shows itself, it likely is too: few programs say 35
    of a missing libcuda.
    """
    lines = case.suspected("toolkit-newer-than-driver", words=_INSUFFICIENT)
    if not lines:
        return
    driver = _driver_at_work(case) or case.says("devices-answer")
    if driver:
        yield finding("toolkit-newer-than-driver", lines, driver[:1])
        return
    named = _driver_named(case)
    missing = not named and not case.says("windows") and any(_WITHOUT_DRIVER.search(quote.text) for quote in lines)
    yield finding("libcuda-missing" if missing else "toolkit-newer-than-driver", lines, named, basis="suspected")


def host_of_guests(case: Case) -> Iterator[Clue]:
    """Code 35, or no libcuda, where the module of the vGPU manager is loaded: that driver has no CUDA."""
    lines, modules = case.suspected("toolkit-newer-than-driver", words=_INSUFFICIENT) or case.stated(MISSING), case.facts.there(MODULES)
    module = modules.need().find(MANAGERS_MODULE) if modules is not None else None
    if lines and modules is not None and module is not None:
        yield finding(MANAGER, lines, modules.line_of(module.line))


def _driver_named(case: Case) -> Quotes:
    """The line in which the text speaks of its driver's version."""
    found = case.facts.there(NAMED_DRIVERS)
    return (
        next((found.line_of(entry.line)[:1] for entry in found.need().drivers if entry.branch is not None), ()) if found is not None else ()
    )


def _driver_at_work(case: Case) -> Quotes:
    loaded, report = case.facts.there(LOADED_DRIVER), case.facts.there(FRAMEWORKS)
    if loaded is not None:
        return loaded.some()
    driver = report.need().driver if report is not None else None
    if report is not None and driver is not None:
        return tuple(quote for quote in report.quotes if driver.text in quote.text)
    return next((fact.some() for fact in case.facts.all(SMI) if fact.value is not None and fact.value.module is not None), ())


TIES = (capabilities, malformed_home, two_driver_versions, cuda_above_the_branch, insufficient_driver, host_of_guests)
