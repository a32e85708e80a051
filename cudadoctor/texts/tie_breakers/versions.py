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
from cudadoctor.model.values import FRAMEWORKS, LOADED_DRIVER, NAMED_DRIVERS, SMI
from cudadoctor.model.version import LibraryVersion
from cudadoctor.texts.tie_breakers.case import Case, codes, finding, joined, states, suspects

COMPAT, MISMATCH, NEWER = "forward-compat-unsupported", "driver-version-mismatch", "toolkit-newer-than-driver"
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
    lines = next((clue.quotes[:1] for clue in case.said if clue.cause == COMPAT), ())
    if not lines:
        return
    compat = _compat_library(case) or _newer_cuda(case) or case.says("cuda-compat")
    loaded, file = case.facts.there(LOADED_DRIVER), _other_library(case)
    if compat:
        yield finding(COMPAT, lines, compat)
    elif loaded is not None and file is not None:
        library, shown = file
        yield finding(MISMATCH, lines, loaded.some()[:1], shown, module=loaded.need().version.text, library=library.text)
    elif named := case.says("mismatch-named"):  # somebody's word for what nvidia-smi says on the same machine
        yield finding(MISMATCH, lines, named)
    elif case.container:  # an image brings a libcuda of its own more often than a host has two
        yield finding(COMPAT, lines, case.container, basis="suspected")
    elif refused := case.suspected(MISMATCH, words=_MISMATCH):
        yield finding(MISMATCH, refused)


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
    lines = case.suspected(NEWER, words=_INSUFFICIENT)
    if not lines:
        return
    driver, words = _driver_at_work(case) or case.says("devices-answer"), case.facts.value(NAMED_DRIVERS)
    if driver:
        yield finding(NEWER, lines, driver[:1])
        return
    drivers = words.drivers if words is not None else ()
    named = next((case.line(NAMED_DRIVERS, one.line) for one in drivers if one.branch is not None), ())
    missing = not named and not case.says("windows") and any(_WITHOUT_DRIVER.search(quote.text) for quote in lines)
    yield finding("libcuda-missing" if missing else NEWER, lines, named, basis="suspected")


def _driver_at_work(case: Case) -> Quotes:
    driver = case.framework.driver
    if case.first(LOADED_DRIVER):
        return case.first(LOADED_DRIVER)
    if driver is not None:
        return tuple(quote for quote in case.facts[FRAMEWORKS].quotes if driver.text in quote.text)
    return next((fact.some() for fact in case.facts.all(SMI) if fact.value is not None and fact.value.module is not None), ())


def _nothing_but_newer_cuda(case: Case) -> Quotes:
    return () if case.said else _newer_cuda(case)


TIES = (
    *(capabilities, malformed_home, two_driver_versions),
    # nvidia-smi shows a CUDA that its driver does not carry: the libcuda of a cuda-compat package answers.
    joined(COMPAT, _nothing_but_newer_cuda, basis="suspected"),
    insufficient_driver,
    # Code 35, or no libcuda, where the module of the vGPU manager is loaded: that driver has no CUDA.
    joined(MANAGER, suspects(NEWER, words=_INSUFFICIENT), states(MISSING), beside=(lambda case: case.module(MANAGERS_MODULE),)),
)
