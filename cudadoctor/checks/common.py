"""What several rows share: quoting one line of a fact, reading rungs of the ladder, joining rules of which one is enough."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from cudadoctor.checks.base import Function
from cudadoctor.checks.reading import single_lines
from cudadoctor.model.facts import Fact, Facts, NotKnown, Quote, Unknown
from cudadoctor.model.findings import Clue
from cudadoctor.model.values import (
    LADDER,
    NVML,
    SMI,
    Environment,
    Ladder,
    PythonEnvironment,
    PythonPackage,
    RungName,
    RungResult,
)
from cudadoctor.model.version import CudaVersion

if TYPE_CHECKING:
    from cudadoctor.knowledge.load import Knowledge

GIB = 1 << 30


def any_of(facts: Facts, knowledge: Knowledge, *branches: Function) -> Iterator[Clue]:
    """The clues of all branches. Only where none found anything does an unknown fact in one of them leave the rule undecided."""
    found = False
    ignorance: NotKnown | None = None
    for branch in branches:
        try:
            clues = tuple(branch(facts, knowledge))
        except NotKnown as unknown:
            ignorance = ignorance or unknown
            continue
        found = found or bool(clues)
        yield from clues
    if not found and ignorance is not None:
        raise ignorance


def source_of(fact: Fact[Any]) -> str:
    """Where a fact comes from, as a person would call it."""
    return fact.quotes[0].source if fact.quotes else fact.key


def line_with(fact: Fact[Any], *needles: str, words: str) -> Quote:
    """The quoted line of this fact that holds all needles; `words` where the fact does not quote such a line."""
    for quote in single_lines(fact):
        if all(needle in quote.text for needle in needles):
            return quote
    return Quote(source=source_of(fact), text=words)


def at_line(fact: Fact[Any], line: int, words: str) -> Quote:
    """Line `line` of this fact's source as the fact quotes it; `words` where it does not."""
    for quote in single_lines(fact):
        if line and quote.first == line:
            return quote
    return Quote(source=source_of(fact), text=words)


# ---------------------------------------------------------------- environment
def variables_of(fact: Fact[Environment]) -> dict[str, str]:
    """The environment's variables; none where it is known to be absent."""
    return fact.value.variables if fact.value is not None else {}


def variable_quote(fact: Fact[Environment], name: str) -> Quote:
    """One variable as `env` prints it; a variable that is not set is said to be so."""
    source = source_of(fact) if fact.quotes else "environment"
    if fact.value is None or name not in fact.value.variables:
        return Quote(source=source, text=f"{name} is not set")
    line = fact.value.lines.get(name)
    return Quote(source=source, first=line, last=line, text=f"{name}={fact.value.variables[name]}")


# ---------------------------------------------------------------- ladder
def passed(ladder: Ladder, rung: RungName) -> bool:
    """Whether this rung was climbed, and every try of it was good."""
    results = [entry for entry in ladder.result(rung) if entry.status != "skip"]
    return bool(results) and all(entry.status == "pass" for entry in results)


def broken(ladder: Ladder, rung: RungName) -> tuple[RungResult, ...]:
    """The tries of this rung that did not end well."""
    return tuple(entry for entry in ladder.result(rung) if entry.status not in ("pass", "skip"))


def rung_quote(fact: Fact[Ladder], result: RungResult) -> Quote:
    """The ladder's own line about one step."""
    said = [result.status, *(str(part) for part in (result.code, result.name) if part is not None)]
    output = result.output.strip().rsplit("\n", 1)[-1]
    words = f"{result.rung}: {' '.join(said)}" + (f": {output}" if output else "")
    return at_line(fact, result.line, words[:300])


def numba_kernel_worked(facts: Facts) -> bool:
    """Whether a Numba kernel's result was seen to be right in the examined interpreter. Not looked at counts as not seen.

    For rules of layer toolkit alone: what a worker's search for files did not find is there after all where the kernel ran.
    """
    found = facts.get(LADDER)
    if isinstance(found, Unknown) or found.value is None:
        return False
    elsewhere = found.value.numba is not None and found.value.numba.python is not None
    return passed(found.value, "numba-kernel") and not elsewhere


def driver_cuda(facts: Facts) -> tuple[CudaVersion, Quote] | None:
    """The newest CUDA that the driver supports: what libcuda says, else NVML, else nvidia-smi. None: all known, none states it."""
    ignorance: Unknown | None = None
    asked: Iterable[Fact[Any] | Unknown] = (facts.get(LADDER), facts.get(NVML), facts.get(SMI))
    for found in asked:
        if isinstance(found, Unknown):
            ignorance = ignorance if ignorance is not None else found
        elif found.value is not None and found.value.cuda is not None:
            version: CudaVersion = found.value.cuda
            return version, line_with(found, version.text, words=f"the driver supports CUDA {version}")
    if ignorance is not None:
        raise NotKnown(ignorance)
    return None


# ---------------------------------------------------------------- Python
def python_subject(python: PythonEnvironment) -> str:
    """The subject of a cause that lies in the examined interpreter."""
    return f"python:{python.path}"


def package_quote(fact: Fact[PythonEnvironment], package: PythonPackage) -> Quote:
    """The line that states one installed package."""
    return line_with(fact, f'"{package.name}"', package.version.text, words=f"{package.name} {package.version}")


def plural(count: int, one: str, many: str | None = None) -> str:
    """`1 GPU`, `2 GPUs`."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def size(count: int) -> str:
    """Bytes in the unit that a reader expects."""
    if count >= GIB:
        return f"{count / GIB:.1f} GiB"
    return f"{count / (1 << 20):.0f} MiB"
