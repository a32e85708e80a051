"""Row python: the examined interpreter, and whether its packages fit each other.

Read from metadata and listings alone: nothing is imported. Requirements are those that the packages state themselves; what they
should state and do not (numba-cuda and NumPy 2.5) is written here, and old releases of Numba are in the knowledge tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from cudadoctor.checks import broken_package, frameworks, withheld
from cudadoctor.checks.base import Check, Line, Rule
from cudadoctor.checks.common import (
    any_of,
    in_python,
    package_quote,
    requirements_of,
    rules_out,
    rung_quote,
    spoken,
    variables_of,
    without_places,
)
from cudadoctor.checks.driver_fit import misled
from cudadoctor.checks.reading import broken
from cudadoctor.checks.wheels import CPU, MIXED, PATH, cpu_build, library_path, mixed, where_one_stands
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.knowledge.numba_rows import LAST_WITH_ROW_STACK, NUMPY_WITHOUT_ROW_STACK
from cudadoctor.model.evidence import NOT_SHOWN
from cudadoctor.model.facts import Fact, Facts, Quote
from cudadoctor.model.findings import Basis, Clue
from cudadoctor.model.frameworks import NAMES
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import ENVIRONMENT, LADDER, NVML, PYTHON, PYTHON_RAN, PythonEnvironment, PythonPackage, RungName
from cudadoctor.model.version import PackageVersion

ABI, SHADOWED, CONFLICT = "python-abi-mismatch", "python-module-shadowed", "pynvml-conflict"
SILENT = "python-does-not-start"
# What an import would have found, by the beginning of the packages' names: without one of them a file of the module's name hides nothing.
BEHIND = {"cuda": ("cuda-bindings", "cuda-python", "cuda-core", "numba-cuda"), "pynvml": ("nvidia-ml-py", "pynvml")}
# What the interpreter's own start does to CUDA's variables (.pth files, sitecustomize, usercustomize), which no shell shows.
HOOK = "python-startup-sets-variable"
HOOKED: tuple[RungName, ...] = ("init", "devices", "context", "memory", "ptx-kernel", "numba-kernel")
# The variable, and what cuInit says where its value shows no GPU, or none that is there.
_OWN = ("CUDA_CACHE_DISABLE",)  # variables that a child of the doctor's has besides
VISIBLE, SHOWS_NONE = "CUDA_VISIBLE_DEVICES", (100, 101)
_SHOWN = ("numba", "numba-cuda", "numpy", "llvmlite", "cuda-bindings")
_WRONG_MODULE = lazy(r"has no attribute|deprecated distribution|not the NVML binding")


# ---------------------------------------------------------------- python-abi-mismatch
def _mismatch(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    fact = facts[PYTHON]
    python = fact.value
    if python is None:
        return
    target, numpy = python.package("numba-cuda"), python.package("numpy")
    if target is not None and numpy is not None and target.version <= LAST_WITH_ROW_STACK and numpy.version >= NUMPY_WITHOUT_ROW_STACK:
        yield _unfit(fact, target, numpy, f"numpy<{NUMPY_WITHOUT_ROW_STACK}")
    for name in ("numba", "numba-cuda"):
        package = python.package(name)
        if package is None:
            continue
        stated = set()
        for requirement in requirements_of(package):
            stated.add(requirement.name.lower())
            other = python.package(requirement.name)
            if other is None or requirement.name.lower() not in broken_package.BOUND:
                continue
            if rules_out(requirement, other.version):
                yield _unfit(fact, package, other, f"{other.name}{requirement.specifier}")
        if name == "numba" and "numpy" not in stated:
            # The metadata of an old Numba set no upper bound: the table does.
            release = knowledge.numba_release(package.version)
            if numpy is not None and release is not None and release.numpy and not within(numpy.version, release.numpy):
                yield _unfit(fact, package, numpy, "numpy<" + upper_bound(release.numpy))


def _unfit(fact: Fact[PythonEnvironment], package: PythonPackage, other: PythonPackage, wanted: str) -> Clue:
    return in_python(ABI, fact, (package_quote(fact, package), package_quote(fact, other)), {"package": other.name, "requirement": wanted})


def within(version: PackageVersion, ranges: str) -> bool:
    """Whether a version lies in one of a table's ranges: `1.22 <= version < 1.27 ; 2.0 <= version < 2.6`, `>= 1.22, < 2.6`."""
    return any(_inside(version, part) for part in ranges.split(";"))


def _inside(version: PackageVersion, text: str) -> bool:
    lower = re.search(r"([\d.]{1,30})\s{0,4}<=\s{0,4}version|>=\s{0,4}([\d.]{1,30})", text)
    upper = re.search(r"<\s*([\d.]+)", text)
    equal = re.search(r"==\s*([\d.]+)", text)
    if equal is not None:
        numbers = PackageVersion(equal.group(1)).numbers
        return version.numbers[: len(numbers)] == numbers
    if lower is not None and version < PackageVersion(lower.group(1) or lower.group(2)):
        return False
    return upper is None or version < PackageVersion(upper.group(1))


def upper_bound(ranges: str) -> str:
    """The highest bound that a table's ranges set."""
    found = re.findall(r"<\s*(\d[\d.]*)", ranges)
    return max(found, key=lambda text: PackageVersion(text).numbers) if found else ""


# ---------------------------------------------------------------- python-module-shadowed, pynvml-conflict
def _shadowed(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """What a program started here imports instead of the package."""
    fact = facts[PYTHON]
    if fact.value is None:
        return
    for shadow in fact.value.shadows:
        if any(entry.name.startswith(BEHIND.get(shadow.module, (shadow.module.replace(".", "-"),))) for entry in fact.value.packages):
            quote = fact.line_with(f"{shadow.path}: hides", words=shadow.words)
            # The entry that brought it is the user's to change; the file may be another's.
            folder = shadow.path.rsplit("/", shadow.module.count(".") + 1)[0]
            brought, quotes = without_places(facts, "PYTHONPATH", {folder, f"{folder}/"}.__contains__)
            named = {"path": shadow.path, "owning_package": shadow.owner or "", **brought}
            yield in_python(SHADOWED, fact, (quote, *quotes), {name: text for name, text in named.items() if text})


def _two_bindings(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    fact = facts[PYTHON]
    if fact.value is None:
        return
    old, new = fact.value.package("pynvml"), fact.value.package("nvidia-ml-py")
    if old is not None and new is not None:
        yield in_python(CONFLICT, fact, (package_quote(fact, old), package_quote(fact, new)))


def _wrong_binding(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """`import pynvml` gave another module than NVIDIA's to the doctor itself."""
    fact = facts[NVML]
    error = fact.value.provider_error if fact.value is not None else None
    if error is not None and _WRONG_MODULE.search(error):
        yield Clue(cause=CONFLICT, quotes=(fact.line_with(error[:60], words=error),))


# ---------------------------------------------------------------- python-startup-sets-variable
def set_at_start(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """A rung failed, and before it began the interpreter had changed a variable that CUDA or Numba reads."""
    fact = facts[LADDER]
    climb = fact.value
    failed = broken(climb, *HOOKED)
    python = facts.value(PYTHON)
    hooks = python.hooks if python is not None else ()
    for changed in climb.changed if climb is not None and failed else ():
        certain = changed.name == VISIBLE and failed[0].code in SHOWS_NONE
        assignment = f"{changed.name}={changed.value}" if changed.value is not None else f"{changed.name} is gone"
        hook = next((hook for hook in hooks if changed.name in hook.text), None)
        quotes = (
            spoken("ladder", changed.line, f"once the interpreter had started: {assignment}"),
            *((spoken(hook.path, hook.line, hook.text),) if hook is not None else ()),
            *(spoken("loader", changed.line, f"preloaded: {path}") for path in (changed.preloaded[:2] if hook is None else ())),
            rung_quote(fact, failed[0]),
        )
        values = {"variable": changed.name, **({"path": hook.path} if hook is not None else {})}
        if hook is None and changed.preloaded:
            values["preloaded"] = changed.preloaded[0]
        yield Clue(cause=HOOK, quotes=quotes, from_rung=failed[0].rung, basis="derived" if certain else "suspected", values=values)


def set_by_wrapper(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """A rung failed, and the interpreter's process was started with another value than this shell has: what was named starts another."""
    fact, environment, python = facts[LADDER], facts.there(ENVIRONMENT), facts.value(PYTHON)
    failed = broken(fact.value, *HOOKED)
    given = (fact.value.given if fact.value is not None and failed else None) or {}
    here, named = variables_of(environment), (python.named if python is not None else None) or "ladder"
    for name, value in sorted(given.items()) if environment is not None and environment.whole else ():
        # What a recording does not show is no other value.
        if name in _OWN or NOT_SHOWN in value or value in here.get(name, ""):
            continue
        certain = name == VISIBLE and failed[0].code in SHOWS_NONE
        started = Quote(source=named, text=f"starts the interpreter with {name}={value}"[:300])
        values = {"variable": name, **({"path": named} if named.startswith("/") else {})}
        quotes = (started, rung_quote(fact, failed[0]))
        yield Clue(cause=HOOK, quotes=quotes, from_rung=failed[0].rung, basis="derived" if certain else "suspected", values=values)


# ---------------------------------------------------------------- the row's line
def _describe(facts: Facts, knowledge: Knowledge) -> Line:
    fact = facts[PYTHON]
    if fact.value is None:
        return Line("no Python was found", fact.some())
    python = fact.value
    packages = [entry for entry in (python.package(name) for name in _SHOWN) if entry is not None]
    kind = " (conda)" if python.conda is not None else ""
    said, quotes = frameworks.described(facts)
    words = ", ".join([f"{entry.name} {entry.version}" for entry in packages] + said) or "none of the packages that use a GPU"
    quoted = (*quotes, *(package_quote(fact, entry) for entry in packages[:3]))
    return Line(f"Python {python.version}{kind} at {python.path}: {words}", quoted)


def _silent(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """The examined interpreter ends before it runs anything; where it lists its packages and no more, that is a suspicion."""
    fact = facts[PYTHON_RAN]
    if fact.value is not None:
        basis: Basis = "derived" if fact.value.at_all else "suspected"
        yield Clue(cause=SILENT, quotes=fact.quotes, seen="failed", basis=basis, values={"python": fact.value.path})


CHECK = Check(
    id="python",
    title="Python",
    looks_at="the examined interpreter: Numba, NumPy, llvmlite and CUDA packages, files that hide them, frameworks",
    items=("python-env", "nvml", "environment", "pci", "ladder", "nvcc", *(f"framework-{name}" for name in NAMES)),
    rules=(
        Rule("python", (SILENT,), _silent),
        Rule("python", (ABI,), _mismatch),
        Rule("python", (SHADOWED,), _shadowed),
        Rule("nvml", (CONFLICT,), any_of(_two_bindings, _wrong_binding)),
        Rule("python", (CPU,), cpu_build),
        Rule("toolkit", (MIXED,), mixed),
        Rule("python", (PATH,), any_of(library_path, misled, where_one_stands)),
        *frameworks.RULES,
        *broken_package.RULES,
        *withheld.OF_FILES,
        Rule("python", (HOOK,), any_of(set_at_start, set_by_wrapper)),
    ),
    describe=_describe,
)
