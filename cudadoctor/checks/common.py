"""What several rows share: quoting one line of a fact, reading rungs of the ladder, joining rules of which one is enough."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from cudadoctor.checks.base import Function
from cudadoctor.checks.reading import answers, climbed, passed
from cudadoctor.model.facts import Fact, Facts, Key, Quote, Quotes
from cudadoctor.model.findings import Clue
from cudadoctor.model.values import (
    ENVIRONMENT,
    LADDER,
    NVML,
    PYTHON,
    SMI,
    Environment,
    Ladder,
    NumbaState,
    Nvml,
    NvmlGpu,
    PythonEnvironment,
    PythonPackage,
    RungResult,
    Smi,
)
from cudadoctor.model.values.ladder import left_out
from cudadoctor.model.version import CudaVersion, PackageVersion

if TYPE_CHECKING:
    from packaging.requirements import Requirement

    from cudadoctor.knowledge.load import Knowledge

# What glibc's loader says behind the name of a file that it cannot use, and of one that is not there (elf/dl-load.c).
UNUSABLE = r"file too short|invalid ELF header|wrong ELF class\S{0,40}|cannot read file data|ELF load command \S{1,30} not page-aligned"
NOT_THERE = "cannot open shared object file: No such file"


def any_of(*branches: Function) -> Function:
    """The clues of all branches. Only where none found anything does an unknown fact in one of them leave the rule undecided."""

    def rule(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
        for clues in answers(lambda branch=branch: tuple(branch(facts, knowledge)) for branch in branches):  # type: ignore[misc]
            yield from clues

    rule.__name__ = " or ".join(branch.__name__ for branch in branches)
    return rule


def spoken(source: str, line: int, words: str) -> Quote:
    """What one line of a worker's output says, in words; `line` 0: nobody noted which."""
    return Quote(source=source, first=line or None, last=line or None, text=words[:300])


# ---------------------------------------------------------------- environment
def without_places(facts: Facts, name: str, unwanted: Callable[[str], bool]) -> tuple[dict[str, str], tuple[Quote, ...]]:
    """What a fix needs to take places out of a list of folders, and the line that holds them; nothing where none of them is unwanted, or
    the variables are not known."""
    environment = facts.there(ENVIRONMENT)
    value = variables_of(environment).get(name, "")
    places = value.split(":")
    kept = [place for place in places if not unwanted(place)]
    if environment is None or len(kept) == len(places):
        return {}, ()
    return {"variable": name, "value": value, "kept": ":".join(kept)}, (variable_quote(environment, name),)


def variables_of(fact: Fact[Environment] | None) -> dict[str, str]:
    """The environment's variables; none where it is not there."""
    return fact.value.variables if fact is not None and fact.value is not None else {}


def variable_quote(fact: Fact[Environment], name: str) -> Quote:
    """One variable as `env` prints it; a variable that is not set is said to be so."""
    source = fact.source("environment")
    if fact.value is None or name not in fact.value.variables:
        return Quote(source=source, text=f"{name} is not set")
    line = fact.value.lines.get(name)
    return Quote(source=source, first=line, last=line, text=f"{name}={fact.value.variables[name]}")


# ---------------------------------------------------------------- ladder
NOT_REACHED = "the ladder did not get so far"
QUICK = "--quick"


def need_whole(facts: Facts, *variables: str) -> None:
    """Not known, where the climb did not get all of one of these variables: what was not found may lie there for the user's program."""
    why = left_out(climbed(facts).withheld, variables)
    if why is not None:
        raise LADDER.unknown(why)


def rung_quote(fact: Fact[Ladder], result: RungResult) -> Quote:
    """The ladder's own line about one step. The lines of a climb in the doctor's own Python come after the examined one's."""
    found = [quote for quote in fact.single_lines() if result.line and quote.first == result.line]
    if found:
        return found[-1] if numba_is_ours(fact.value) and result.rung == "numba-kernel" else found[0]
    parts = [result.status, *(str(part) for part in (result.code, result.name) if part is not None)]
    output = last_line(result.output)
    return spoken("ladder", result.line, f"{result.rung}: {' '.join(parts)}" + (f": {output}" if output else ""))


def last_line(text: str) -> str:
    """The last line of an output, where Python and the loader put what went wrong."""
    return text.strip().rsplit("\n", 1)[-1].strip()


def numba_kernel_worked(facts: Facts) -> bool:
    """Whether a Numba kernel's result was seen to be right in the examined interpreter. Not looked at counts as not seen.

    For rules of layer toolkit alone: what a worker's search for files did not find is there after all where the kernel ran.
    """
    return passed(climbed(facts), "numba-kernel") and not numba_is_ours(climbed(facts))


def numba_state(facts: Facts) -> NumbaState | None:
    """What the examined interpreter's Numba said about itself, None where it was not imported (or another's was)."""
    return None if numba_is_ours(climbed(facts)) else climbed(facts).numba


def numba_is_ours(ladder: Ladder | None) -> bool:
    """Whether the Numba of the doctor's own Python answered, for want of one in the examined interpreter."""
    return ladder is not None and ladder.numba is not None and ladder.numba.python is not None


def driver_cuda(facts: Facts) -> tuple[CudaVersion, Quote] | None:
    """The newest CUDA that the driver supports: what libcuda says, else NVML, else nvidia-smi. None: all known, none states it."""
    stated = climbed(facts).cuda
    asked: tuple[Fact[Nvml] | Fact[Smi] | None, ...] = (facts.there(NVML), facts.there(SMI))
    for found in asked:
        other = found.need().cuda if found is not None else None
        if found is not None and other is not None and (stated is None or stated == other):
            return other, found.line_with(other.text, words=f"the driver supports CUDA {other}")
    if stated is not None:
        return stated, spoken("libcuda (cuDriverGetVersion)", 0, f"CUDA {stated}")
    keys: tuple[Key[Any], ...] = (LADDER, NVML, SMI)
    for key in keys:
        if (why := facts.why_unknown(key)) is not None:
            raise key.unknown(why)
    return None


# ---------------------------------------------------------------- NVML
def answering_gpus(facts: Facts, otherwise: str = "NVML does not start") -> tuple[Fact[Nvml], tuple[NvmlGpu, ...]]:
    """The GPUs that NVML can open; unknown (`otherwise`) where it does not start."""
    nvml = facts[NVML]
    if nvml.value is None or nvml.value.code != 0:
        raise NVML.unknown(otherwise)
    if not nvml.value.gpus and not nvml.whole:
        raise NVML.unknown("NVML answers, and its list of GPUs could not be read")
    return nvml, tuple(gpu for gpu in nvml.value.gpus if gpu.handle_error is None)


# ---------------------------------------------------------------- Python
def in_python(cause: str, python: Fact[PythonEnvironment], quotes: Quotes, values: dict[str, str] | None = None, **more: Any) -> Clue:
    """The clue to a cause that lies in the examined interpreter. `values`: what a recipe needs beside its path; `more`: see Clue."""
    path = python.need().path
    return Clue(cause=cause, quotes=quotes, subject=f"python:{path}", values={**(values or {}), "python": path}, **more)


def requirements_of(package: PythonPackage) -> Iterator[Requirement]:
    """What a package states to need everywhere. Conditions (an extra, a platform) are not this machine's to judge and are left out."""
    from packaging.requirements import Requirement  # slow to import; a machine without packages needs none

    for text in package.requires:
        try:
            requirement = Requirement(text)
        except ValueError:
            continue
        if requirement.marker is None:
            yield requirement


def rules_out(requirement: Requirement, version: PackageVersion) -> bool:
    """Whether what is installed is not what is needed. What nobody can compare proves nothing."""
    try:
        return not requirement.specifier.contains(version.text, prereleases=True)
    except ValueError:  # a number of thousands of digits
        return False


def package_of(fact: Fact[PythonEnvironment], name: str) -> PythonPackage | None:
    """An installed package, None where it is known not to be installed."""
    found = fact.value.package(name) if fact.value is not None else None
    if found is None and fact.value is not None and not fact.whole:
        raise PYTHON.unknown("the packages could not be listed")
    return found


def package_quote(fact: Fact[PythonEnvironment], package: PythonPackage) -> Quote:
    """The line that states one installed package."""
    words = f"{package.name} {package.version}"
    found = [quote for quote in fact.single_lines() if f"{quote.text} ".startswith(f"{words} ")]
    return found[0] if found else Quote(source=fact.source(), text=words)


def plural(count: int, one: str, many: str | None = None) -> str:
    """`1 GPU`, `2 GPUs`."""
    return f"{count} {one if count == 1 else many or one + 's'}"
