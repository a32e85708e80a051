"""Row numba: which CUDA target answers, whether it may use the GPU, and how many GPUs it sees."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from cudadoctor.checks.base import Check, Function, Line, Rule
from cudadoctor.checks.common import (
    NOT_REACHED,
    QUICK,
    any_of,
    driver_cuda,
    in_python,
    last_line,
    numba_kernel_worked,
    numba_state,
    package_of,
    package_quote,
    plural,
    requirements_of,
    rules_out,
    rung_quote,
    variable_quote,
    variables_of,
)
from cudadoctor.checks.reading import broken, climbed, passed
from cudadoctor.checks.toolkit import component_quote
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Fact, Facts, Quote
from cudadoctor.model.findings import Clue
from cudadoctor.model.values import ENVIRONMENT, LADDER, PYTHON, TOOLKITS, Ladder, PythonEnvironment, PythonPackage
from cudadoctor.model.version import PackageVersion, ToolkitVersion

SIMULATOR, DISABLED = "numba-simulator-enabled", "numba-cuda-disabled"
TARGET_MISSING, TOO_OLD, MISMATCH = "numba-cuda-target-missing", "numba-too-old", "numba-toolkit-mismatch"
BUILT_IN = "Built-in"
BINDINGS_SINCE = PackageVersion("0.21")  # numba-cuda needs cuda-bindings and cuda-core from here on
CUDA_13_SINCE = PackageVersion("0.19")  # numba-cuda compiles with toolkit 13 from here on
# Driver 580 changed how cuCtxGetDevice fails; Numba's own target crashes on it up to this release, unless it uses NVIDIA's binding.
CRASH_MENDED_IN, CRASHING_CUDA = PackageVersion("0.63"), 13
_TRUE_WORDS = ("true", "yes", "on")


# ---------------------------------------------------------------- switches
def switched_on(value: str) -> bool:
    """Whether Numba reads this value of an environment variable as true: it takes whole numbers and ignores anything else."""
    try:
        return int(value) != 0
    except ValueError:
        return False


def _switch(variable: str, key: str, cause: str) -> Function:
    """A switch in the environment or, where it is not set there, in a .numba_config.yaml."""

    def in_environment(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
        environment = facts[ENVIRONMENT]
        value = variables_of(environment).get(variable)
        if value is not None and switched_on(value):
            yield Clue(cause=cause, quotes=(variable_quote(environment, variable),), values={"variable": variable, "value": value})

    def in_file(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
        python, environment, climb = facts[PYTHON], facts[ENVIRONMENT], facts.value(LADDER)
        if variable in variables_of(environment) or passed(climb, "numba-kernel"):
            return  # the environment outranks the file, which counts only where PyYAML is installed
        for entry in python.value.numba_config if python.value is not None else ():
            found = re.match(rf"\s*{key}\s*:\s*['\"]?(\w+)", entry.text, re.IGNORECASE)
            if found is not None and (switched_on(found[1]) or found[1].lower() in _TRUE_WORDS):
                quote = python.line_with(" ".join(entry.text.split()), words=f"{entry.path}: {entry.text.strip()}")
                yield Clue(cause=cause, quotes=(quote,), values={"variable": key, "value": found[1], "numba_config": entry.path})

    return any_of(in_environment, in_file)


def _simulator_answers(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    ladder = facts[LADDER]
    if ladder.value is None or ladder.value.numba is None or not ladder.value.numba.simulator:
        return
    quote = ladder.line_with("its simulator", words="Numba answers from its simulator")
    yield Clue(cause=SIMULATOR, quotes=(quote,), from_rung="numba-kernel", values={"variable": "NUMBA_ENABLE_CUDASIM"})


# ---------------------------------------------------------------- the target
class _Installed(NamedTuple):
    """The examined interpreter with its Numba and numba-cuda."""

    python: Fact[PythonEnvironment]
    numba: PythonPackage
    target: PythonPackage | None

    @property
    def nameless(self) -> bool:
        """A numba-cuda acts whose metadata are gone: nobody knows its version."""
        return self.target is None and bool(self.python.need().numba_cuda_redirects)

    @property
    def compiling(self) -> PythonPackage:
        """The package whose CUDA target compiles."""
        return self.target if self.target is not None else self.numba

    def toolkits(self, knowledge: Knowledge) -> tuple[ToolkitVersion | None, int | None]:
        """The oldest toolkit that this target accepts, and the newest major version that it knows."""
        if self.target is not None:
            return (ToolkitVersion("12.0"), None) if self.target.version >= CUDA_13_SINCE else (ToolkitVersion("11.2"), 12)
        release = knowledge.numba_release(self.numba.version)
        oldest, newest = release.toolkits if release is not None and release.toolkits is not None else (None, None)
        return oldest, newest.major if newest is not None else None


def _installed(facts: Facts) -> _Installed | None:
    """None where the examined interpreter has no Numba."""
    python = facts[PYTHON]
    numba = package_of(python, "numba")
    return None if numba is None else _Installed(python, numba, package_of(python, "numba-cuda"))


def _bindings_missing(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """numba-cuda without the packages that it cannot be imported without."""
    found = _installed(facts)
    if found is None or found.target is None or found.target.version < BINDINGS_SINCE:
        return
    python, target = found.python, found.target
    missing = [name for name in ("cuda-bindings", "cuda-core") if package_of(python, name) is None]
    if missing:
        words = f"{' and '.join(missing)}: not installed"
        yield in_python(TARGET_MISSING, python, (package_quote(python, target), Quote(source=python.need().path, text=words)))


def _not_redirected(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """numba-cuda is installed and Numba's own target answers: its start-up hook does not act. Python runs the hooks (.pth) of site-packages
    alone, and of no folder that PYTHONPATH names.
    """
    found = _installed(facts)
    if found is None or found.target is None:
        return
    python = found.python
    state, shown = numba_state(facts), None
    if state is not None and state.implementation is not None:
        if state.implementation == BUILT_IN:
            shown = facts[LADDER].line_with(BUILT_IN, words="numba.cuda.implementation is Built-in")
    elif python.need().numba_cuda_redirects is False:
        shown = python.line_with("start-up hook", words="numba-cuda's start-up hook is not in place")
    if shown is not None:
        quotes: tuple[Quote, ...] = (shown, package_quote(python, found.target))
        values = {}
        folder, listed = found.target.path, variables_of(facts.there(ENVIRONMENT)).get("PYTHONPATH", "")
        if folder is not None and folder in [place.rstrip("/") for place in listed.split(":")]:
            values = {"unhooked": "yes", "path": folder}
            quotes += (variable_quote(facts[ENVIRONMENT], "PYTHONPATH"),)
        yield in_python(TARGET_MISSING, python, quotes, values)


def _no_target(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """A Numba without a CUDA target of its own, and no numba-cuda."""
    found = _installed(facts)
    if found is None or found.target is not None or found.nameless:
        return
    python, numba = found.python, found.numba
    release = knowledge.numba_release(numba.version)
    if release is not None and release.builtin_cuda is False:
        yield in_python(TARGET_MISSING, python, (package_quote(python, numba),))


# ---------------------------------------------------------------- numba-too-old
def _older_than_target_wants(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """numba-cuda asks for a newer Numba than there is."""
    found = _installed(facts)
    if found is None or found.target is None:
        return
    python, numba, target = found.python, found.numba, found.target
    for requirement in requirements_of(target):
        if requirement.name.lower() == "numba" and rules_out(requirement, numba.version):
            yield in_python(TOO_OLD, python, (package_quote(python, target), package_quote(python, numba)))


def _older_than_toolkit(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """The compiler that Numba would load is of a major version that came after this Numba."""
    found = _installed(facts)
    if found is None or found.nameless:
        return
    toolkits, python, package = facts[TOOLKITS], found.python, found.compiling
    newest = found.toolkits(knowledge)[1]
    for part in toolkits.value.components if toolkits.value is not None and newest is not None else ():
        if part.name in ("nvvm", "nvrtc", "cudart") and part.version is not None and newest is not None and part.version.major > newest:
            yield in_python(TOO_OLD, python, (package_quote(python, package), component_quote(toolkits, part)))
            return


def _newer_than_toolkit(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """The compiler that Numba would load is older than the oldest that this Numba accepts."""
    found = _installed(facts)
    if found is None or found.nameless or numba_kernel_worked(facts):
        return
    toolkits, python, package = facts[TOOLKITS], found.python, found.compiling
    oldest = found.toolkits(knowledge)[0]
    for part in toolkits.value.components if toolkits.value is not None else ():
        if oldest is not None and part.name in ("nvvm", "cudart") and part.version is not None and part.version < oldest:
            yield in_python(MISMATCH, python, (package_quote(python, package), component_quote(toolkits, part)))
            return


def _crashes_on_driver(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """Numba's own target on a driver of CUDA 13: it crashes up to 0.62, and a seen crash counts for every release."""
    found = _installed(facts)
    if found is None or found.target is not None or found.nameless:
        return
    python, numba = found.python, found.numba
    driver = driver_cuda(facts)
    if driver is None or driver[0].major < CRASHING_CUDA:
        return
    crashes = [entry for entry in broken(facts.value(LADDER), "numba-kernel") if entry.status == "crash"]
    seen = tuple(rung_quote(facts[LADDER], entry) for entry in crashes[:1])
    if not seen and numba.version >= CRASH_MENDED_IN:
        return
    if seen or not switched_on(variables_of(facts[ENVIRONMENT]).get("NUMBA_CUDA_USE_NVIDIA_BINDING", "0")):
        yield in_python(TOO_OLD, python, (*seen, package_quote(python, numba), driver[1]))


# ---------------------------------------------------------------- the row's line
def _describe(facts: Facts, knowledge: Knowledge) -> Line:
    python = facts[PYTHON]
    found = _installed(facts)
    climb, silent = climbed(facts), facts.why_unknown(LADDER)
    if found is None:
        return Line(_none_here(climb), python.some()[:1], skip="no Numba here")
    numba, target = found.numba, found.target
    said = f"Numba {numba.version}" + (f" with numba-cuda {target.version}" if target is not None else " with its own CUDA target")
    quotes = tuple(package_quote(python, entry) for entry in (numba, target) if entry is not None)
    if climb.quick:
        return Line(f"{said}; not imported", quotes, skip=QUICK)
    if silent is not None:
        return Line(f"{said}; whether it works is not known", quotes, because=silent)
    failed = broken(climb, "numba-kernel")
    if not failed and not passed(climb, "numba-kernel"):
        return Line(f"{said}; its kernel was not reached", quotes, because=NOT_REACHED)
    if climb.numba is not None and climb.numba.simulator:
        return Line(f"{said}: its simulator answers, nothing runs on a GPU", quotes)
    if failed:
        last = last_line(failed[0].output) or failed[0].why or failed[0].name or failed[0].status
        how = f"a kernel ends with {last}" if failed[0].status == "fail" else f"a kernel's process: {last}"
        return Line(f"{said}: {how}"[:240], (rung_quote(facts[LADDER], failed[0]), *quotes))
    return Line(f"{said} sees {plural(len(climb.devices), 'GPU')}", quotes)


def _none_here(climb: Ladder) -> str:
    """The examined Python has no Numba; whose Numba ran instead."""
    if climb.numba is None or not (passed(climb, "numba-kernel") or broken(climb, "numba-kernel")):
        return "no Numba in the examined Python"
    where = f" ({climb.numba.python})" if climb.numba.python else ""
    return f"no Numba in the examined Python; Numba {climb.numba.version} of the doctor's own Python{where} ran instead"


CHECK = Check(
    id="numba",
    title="Numba",
    looks_at="numba.cuda.gpus: the CUDA target in use, its switches, and a kernel on each GPU",
    items=("python-env", "ladder", "ladder-own", "environment"),
    rules=(
        Rule("numba", (SIMULATOR,), any_of(_switch("NUMBA_ENABLE_CUDASIM", "enable_cudasim", SIMULATOR), _simulator_answers)),
        Rule("numba", (DISABLED,), _switch("NUMBA_DISABLE_CUDA", "disable_cuda", DISABLED)),
        Rule("numba", (TARGET_MISSING,), any_of(_bindings_missing, _not_redirected, _no_target)),
        Rule("numba", (TOO_OLD,), any_of(_older_than_target_wants, _older_than_toolkit, _crashes_on_driver)),
        Rule("numba", (MISMATCH,), _newer_than_toolkit),
    ),
    describe=_describe,
)
