"""Where a code in a user's text has several candidate causes, what the same text shows decides between them.

The codes name candidates; each rule here reads the facts of the same text and raises one of them from suspicion to a finding.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from cudadoctor.checks import traces
from cudadoctor.checks.common import variable_quote, variables_of
from cudadoctor.checks.cuda_home import malformed
from cudadoctor.checks.driver_fit import same_release
from cudadoctor.checks.reading import Quotes, line_of, merged, some
from cudadoctor.checks.ties import device, driver, fit, packages, plain_words, programs, setting, toolkit
from cudadoctor.checks.toolkit import HOME_VARIABLES
from cudadoctor.model.facts import Fact, Facts, Key, Unknown
from cudadoctor.model.findings import Basis, Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import (
    CONTAINER_MARKS,
    DRIVER_FILES,
    ENVIRONMENT,
    FRAMEWORKS,
    LIBRARIES,
    LOADED_DRIVER,
    SMI,
    WSL,
    LibraryFile,
    LoadedDriver,
    Smi,
    SmiGpu,
)
from cudadoctor.model.version import LibraryVersion, ModuleVersion

if TYPE_CHECKING:
    from cudadoctor.knowledge.load import Knowledge

CAPABILITIES = "NVIDIA_DRIVER_CAPABILITIES"
IDLE_LIMIT = 600 << 20  # bytes in use, the driver's own reserve with it, that an idle GPU does not reach
_UNKNOWN_ERROR = lazy(r"Unknown Error|NVMLError_Unknown|NVML_ERROR_UNKNOWN|nvml\w* error:? ?999")
_BLOCKED = lazy(r"GPU access blocked by the operating system|operating system has blocked")
_FILE_VERSION = lazy(r"\.so\.(\d{3}\.\d+(?:\.\d+)?)$")
_CAPABILITIES = lazy(r"[Cc]apabilities")
_COMPAT = lazy(r"/(?:compat|cuda-compat[^/:]*)(?:[/:]|$)")
_MISMATCH = lazy(r"\b803\b|DRIVER_MISMATCH|DriverMismatch|unsupported display driver")
_INSUFFICIENT = lazy(r"driver version is insufficient|InsufficientDriver|\b35\b")
_OUT_OF_MEMORY = lazy(r"(?i)out.of.memory")

Said = Sequence[Clue]
Tie = Callable[[Said, Facts, "Knowledge"], Iterator[Clue]]


def decided(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """What the text's facts make of its suspects. Comes before them, so that a suspect named here is the first."""
    for tie in TIES:
        yield from tie(said, facts, knowledge)


def _suspected(said: Said, cause: str, words: re.Pattern[str]) -> Quotes:
    """The lines of a suspicion of this cause that say these words."""
    quotes = (quote for clue in said if clue.cause == cause and clue.basis == "suspected" for quote in clue.quotes)
    return tuple(quote for quote in quotes if words.search(quote.text))[:1]


def _stated(said: Said, cause: str) -> Quotes:
    return next((clue.quotes[:1] for clue in said if clue.cause == cause and clue.basis != "suspected"), ())


def _clue(cause: str, *quotes: Quotes, basis: Basis = "derived", **values: str) -> Clue:
    return Clue(cause=cause, quotes=merged(*quotes), basis=basis, text=True, values=values)


# ---------------------------------------------------------------- containers and WSL
def lost_in_container(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """NVML's 'Unknown Error' inside a container."""
    lines = _suspected(said, "container-lost-devices", _UNKNOWN_ERROR)
    marks = facts.get(CONTAINER_MARKS)
    if lines and isinstance(marks, Fact) and marks.present:
        yield _clue("container-lost-devices", lines, some(marks)[:1])


def blocked_in_wsl(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """The same message means an unusable node on plain Linux and a GPU that is not lent in WSL."""
    lines = _suspected(said, "wsl-gpu-unavailable", _BLOCKED)
    wsl = facts.get(WSL)
    if lines and isinstance(wsl, Fact) and wsl.value:
        yield _clue("wsl-gpu-unavailable", lines, some(wsl)[:1])


def capabilities(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """libcuda is not found, and the container was given driver capabilities without compute."""
    lines, environment = _stated(said, "libcuda-missing"), facts.get(ENVIRONMENT)
    if not lines:
        return
    asked = _suspected(said, "container-driver-capabilities", _CAPABILITIES)
    if asked:
        yield _clue("container-driver-capabilities", asked, lines)
        return
    value = None if isinstance(environment, Unknown) else variables_of(environment).get(CAPABILITIES)
    if value and not isinstance(environment, Unknown) and not {"compute", "all"} & {word.strip() for word in value.split(",")}:
        quotes = (variable_quote(environment, CAPABILITIES),)
        yield _clue("container-driver-capabilities", quotes, lines, capabilities=value)


# ---------------------------------------------------------------- versions
def two_driver_versions(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """cuInit refuses the pair (803, 804): two driver versions are shown, or the library is that of a cuda-compat package."""
    lines = next((clue.quotes[:1] for clue in said if clue.cause == "forward-compat-unsupported"), ())
    if not lines:
        return
    compat = _compat_library(facts) or _newer_cuda(facts, knowledge)
    loaded, file = facts.get(LOADED_DRIVER), _other_library(facts)
    if compat:
        yield _clue("forward-compat-unsupported", lines, compat)
    elif isinstance(loaded, Fact) and loaded.value is not None and file is not None:
        library, shown = file
        yield _clue("driver-version-mismatch", lines, some(loaded)[:1], shown, module=loaded.value.version.text, library=library.text)
    elif _suspected(said, "driver-version-mismatch", _MISMATCH):
        yield _clue("driver-version-mismatch", _suspected(said, "driver-version-mismatch", _MISMATCH))


def _files(facts: Facts) -> Iterator[tuple[LibraryFile, Quotes]]:
    for key in (DRIVER_FILES, LIBRARIES):
        found = facts.get(key)
        if isinstance(found, Fact) and found.value is not None:
            for file in found.value.find("libcuda.so"):
                yield file, line_of(found, file.line)


def _compat_library(facts: Facts) -> Quotes:
    """A libcuda from a cuda-compat folder, or that folder in the loader's path."""
    for file, shown in _files(facts):
        if _COMPAT.search(file.path):
            return shown
    environment = facts.get(ENVIRONMENT)
    if isinstance(environment, Fact) and _COMPAT.search(variables_of(environment).get("LD_LIBRARY_PATH", "")):
        return (variable_quote(environment, "LD_LIBRARY_PATH"),)
    return ()


def _newer_cuda(facts: Facts, knowledge: Knowledge) -> Quotes:
    """nvidia-smi's CUDA Version above what the module's branch carries: another libcuda answers."""
    smi = facts.get(SMI)
    if isinstance(smi, Unknown) or smi.value is None or smi.value.module is None or smi.value.cuda is None:
        return ()
    branch = knowledge.branch(smi.value.module.major)
    return some(smi)[:1] if branch is not None and branch.cuda is not None and smi.value.cuda > branch.cuda else ()


def _other_library(facts: Facts) -> tuple[LibraryVersion, Quotes] | None:
    """A libcuda of the driver whose file name carries another version than the loaded module."""
    loaded = facts.get(LOADED_DRIVER)
    if not isinstance(loaded, Fact) or loaded.value is None:
        return None
    for file, shown in _files(facts):
        number = _FILE_VERSION.search(file.target or file.path)
        if number is not None and traces.of_the_driver(file.path) and not same_release(loaded.value.version, LibraryVersion(number[1])):
            return LibraryVersion(number[1]), shown
    return None


def insufficient_driver(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """Code 35: with a driver at work the runtime is newer than it; where no driver shows itself, no libcuda was found either."""
    lines = _suspected(said, "toolkit-newer-than-driver", _INSUFFICIENT)
    if not lines:
        return
    driver = _driver_at_work(facts)
    if driver:
        yield _clue("toolkit-newer-than-driver", lines, driver[:1])
    else:
        yield _clue("libcuda-missing", lines, basis="suspected")


def _driver_at_work(facts: Facts) -> Quotes:
    loaded: Fact[LoadedDriver] | Unknown = facts.get(LOADED_DRIVER)
    if isinstance(loaded, Fact) and loaded.present:
        return some(loaded)
    report = facts.get(FRAMEWORKS)
    if isinstance(report, Fact) and report.value is not None and report.value.driver is not None:
        return tuple(quote for quote in report.quotes if report.value.driver.text in quote.text)
    return next((some(fact) for fact in _tables(facts) if fact.need().module is not None), ())


def _tables(facts: Facts) -> tuple[Fact[Smi], ...]:
    """The tables of nvidia-smi, the last of the text first."""
    return tuple(fact for fact in facts.all(SMI) if fact.value is not None and isinstance(fact.value.module, ModuleVersion))


# ---------------------------------------------------------------- toolkit
def malformed_home(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """A part of the toolkit is not found, and CUDA_HOME or CUDA_PATH is no path at all."""
    lines, environment = _stated(said, "toolkit-missing"), facts.get(ENVIRONMENT)
    if not lines or isinstance(environment, Unknown):
        return
    for name in HOME_VARIABLES:
        value = variables_of(environment).get(name)
        reason = malformed(value) if value else None
        if value and reason is not None:
            quotes = (variable_quote(environment, name),)
            yield _clue("cuda-home-wrong", quotes, lines, variable=name, cuda_variable=name, value=value, reason=reason)


# ---------------------------------------------------------------- memory
def nobody_holds_it(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """Out of memory, and nvidia-smi's table shows memory in use without any process, neither in a container nor in WSL."""
    lines = _suspected(said, "zombie-gpu-process", _OUT_OF_MEMORY)
    if not lines or any(_true(facts, key) for key in (CONTAINER_MARKS, WSL)):
        return
    for table in _tables(facts):
        held = [gpu for gpu in table.need().gpus if _much(gpu)]
        if held and not table.need().processes:
            place = f"GPU {held[0].index}: " if held[0].index is not None else ""
            used = f"{(held[0].memory_used_bytes or 0) >> 20} MiB"
            yield _clue("zombie-gpu-process", line_of(table, held[0].line), lines, gpu=place[4:-2], memory=used, state="not listed")
            return


def _much(gpu: SmiGpu) -> bool:
    used, total = gpu.memory_used_bytes, gpu.memory_total_bytes
    return used is not None and bool(total) and used > IDLE_LIMIT


def _true(facts: Facts, key: Key[Any]) -> bool:
    found = facts.get(key)
    return isinstance(found, Fact) and bool(found.value)


TIES: tuple[Tie, ...] = (
    *setting.TIES, *plain_words.TIES,
    lost_in_container, blocked_in_wsl, capabilities, two_driver_versions, insufficient_driver, malformed_home, nobody_holds_it,
    *programs.TIES, *toolkit.TIES, *packages.TIES,
    *driver.TIES, *fit.TIES, *device.TIES,
)  # fmt: skip
