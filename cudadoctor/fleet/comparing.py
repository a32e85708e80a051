"""`cudadoctor compare`: two reports side by side, without what always differs. Pure.

Left out: times, temperatures, process numbers, sizes in use, UUIDs and bus addresses, the path of the interpreter, the wording of rows that
have the same status, and figures of the benchmark within their spread. What only one side looked at (--quick, a bundle) is no difference;
a note says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import msgspec

from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.comparison import KINDS, Comparison, Difference, Kind, Side
from cudadoctor.model.evidence import Evidence
from cudadoctor.model.findings import Finding
from cudadoctor.model.pattern import lazy
from cudadoctor.model.report import BenchmarkResult, MachineGpu, Report, Row
from cudadoctor.model.units import size
from cudadoctor.report import words

DRIFT = 0.08  # of a figure that the tables do not know
# Variables that decide what a GPU program finds, of those whose value a recording keeps.
_SETTINGS = lazy(
    r"^(?P<name>CUDA\w*|NUMBA\w*|NVIDIA_(?:VISIBLE_DEVICES|DRIVER_CAPABILITIES|REQUIRE_CUDA|DISABLE_REQUIRE)|NCCL_\w*_DISABLE|XLA_FLAGS|"
    r"LD_LIBRARY_PATH|LD_PRELOAD|PYTHONPATH|PYTHONHOME)=(?P<value>.*)$"
)
_HOME = lazy(r"(/home/|/Users/)[^/:]+")
_UUID = lazy(r"\b(GPU|MIG)-[0-9a-fA-F-]{8,}")
_NOT_LOOKED_AT = ("skip", "unknown")


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """One side: its report, and the evidence where there is any (a report in JSON has none)."""

    name: str
    report: Report
    evidence: Evidence | None = None


def compare(a: Compared, b: Compared, knowledge: Knowledge) -> Comparison:
    """All differences, those that bear on the verdict first."""
    found = sorted(_all(a, b, knowledge), key=lambda one: KINDS.index(one.kind))
    return Comparison(a=_side(a), b=_side(b), equal=not found, differences=tuple(found), notes=tuple(_notes(a, b)))


def _side(one: Compared) -> Side:
    return Side(name=one.name, verdict=one.report.verdict, quick=one.report.origin.quick)


def _all(a: Compared, b: Compared, knowledge: Knowledge) -> Iterator[Difference]:
    one, other = a.report, b.report
    yield from _of({"verdict": one.verdict}, {"verdict": other.verdict}, "verdict")
    yield from _of({"root cause": _cause(one)}, {"root cause": _cause(other)}, "verdict")
    yield from _of(_findings(one), _findings(other), "finding")
    yield from _rows(one, other)
    asked = [{result.text: words.MET[result.met] for result in report.requirements} for report in (one, other)]
    yield from _of_both(asked[0], asked[1], "requirement")
    yield from _of_both(_steps(one), _steps(other), "smoke")
    for what, part in _PARTS:
        found = {what: part(one)}, {what: part(other)}
        yield from (_of if _complete(one, other) else _of_both)(*found, "machine")
    yield from _gpus(one, other)
    variables = _variables(a.evidence), _variables(b.evidence)
    if variables[0] is not None and variables[1] is not None:
        yield from _of(variables[0], variables[1], "setting")
    if _python_known(one) and _python_known(other):
        yield from _of(one.machine.python.packages, other.machine.python.packages, "package")
    yield from _figures(one, other, knowledge)


def _of(a: Mapping[str, str | None], b: Mapping[str, str | None], kind: Kind) -> Iterator[Difference]:
    """What two tables have not in common."""
    for what in sorted({*a, *b}):
        if a.get(what) != b.get(what):
            yield Difference(kind=kind, what=what, a=a.get(what), b=b.get(what))


# ---------------------------------------------------------------- what bears on the verdict
def _cause(report: Report) -> str | None:
    root = report.diagnosis.root
    return None if root is None else f"{root.named}{_where(root, _places(report))}"


def _where(finding: Finding, places: Mapping[str | None, int]) -> str:
    """` on GPU 1`: by its place, for addresses differ between machines."""
    if not finding.subject.startswith("gpu:"):
        return ""
    place = places.get(finding.subject[4:])
    return "" if place is None else f" on GPU {place}"


def _places(report: Report) -> dict[str | None, int]:
    return {gpu.address: len(report.machine.gpus) - 1 - place for place, gpu in enumerate(reversed(report.machine.gpus))}


def _findings(report: Report) -> dict[str, str]:
    """What else was found, by cause; how it stands there."""
    diagnosis, places = report.diagnosis, _places(report)
    groups = (("suspected", diagnosis.suspects), ("explained", diagnosis.explains), ("also", diagnosis.also))
    return {f"{one.named}{_where(one, places)}": f"{how}, {one.effect}" for how, group in groups for one in group}


def _rows(a: Report, b: Report) -> Iterator[Difference]:
    others = {row.id: row for row in b.checks}
    for row in a.checks:
        other = others.get(row.id)
        if other is None or row.status == other.status or not _comparable(row, other, a, b):
            continue
        yield Difference(kind="row", what=row.id, a=_said(row), b=_said(other))


def _said(row: Row) -> str:
    return f"{row.status}: {row.summary}{words.because(row)}"


def _comparable(row: Row, other: Row, a: Report, b: Report) -> bool:
    """Not so where a side was asked for less, or left a row out for the fault that is told already."""
    if {row.status, other.status} <= set(_NOT_LOOKED_AT):
        return False
    for one, report, counter in ((row, a, b), (other, b, a)):
        if one.status not in _NOT_LOOKED_AT:
            continue
        less = report.origin.quick and not counter.origin.quick
        if less or report.origin.bundle is not None or (report.diagnosis.root is not None and one.because == report.diagnosis.root.cause):
            return False
    return True


def _of_both(a: Mapping[str, str | None], b: Mapping[str, str | None], kind: Kind) -> Iterator[Difference]:
    """What differs of that which both tables have."""
    both = {what for what in a if a[what] is not None and b.get(what) is not None}
    yield from _of({what: a[what] for what in both}, {what: b[what] for what in both}, kind)


def _steps(report: Report) -> dict[str, str]:
    """Steps that ran, with how they ended."""
    return {
        (f"{result.step} on GPU {result.gpu}" if result.gpu is not None else result.step): result.status
        for result in report.smoke
        if result.status != "skip"
    }


# ---------------------------------------------------------------- what the machines are made of
_YES = {True: "yes", False: "no", None: None}
_OF_GPU: tuple[tuple[str, Callable[[MachineGpu], str | None]], ...] = (
    ("name", lambda gpu: gpu.name),
    ("compute capability", lambda gpu: gpu.compute_capability),
    ("memory", lambda gpu: None if gpu.memory_bytes is None else size(gpu.memory_bytes)),
    ("visible to CUDA", lambda gpu: _YES[gpu.visible]),
)
_PARTS: tuple[tuple[str, Callable[[Report], str | None]], ...] = (
    ("system", lambda one: one.machine.system),
    ("distribution", lambda one: one.machine.distribution),
    ("kernel", lambda one: one.machine.kernel),
    ("container", lambda one: one.machine.container),
    ("WSL", lambda one: _YES[one.machine.wsl]),
    ("driver, kernel module", lambda one: one.machine.driver.module),
    ("driver, library", lambda one: one.machine.driver.library),
    ("CUDA of the driver", lambda one: one.machine.driver.cuda),
    ("kind of kernel module", lambda one: one.machine.driver.flavour),
    ("Python", lambda one: one.machine.python.version),
)  # fmt: skip


def _complete(a: Report, b: Report) -> bool:
    """Whether both are of machines that were asked in the same way: then what only one of them knows is a difference too."""
    return all(one.origin.kind != "text" and one.origin.bundle is None for one in (a, b)) and a.origin.quick == b.origin.quick


def _python_known(report: Report) -> bool:
    """Whether a Python was asked: without packages is not the same as nobody looked."""
    return report.machine.python.version is not None or bool(report.machine.python.packages)


def _gpus_known(report: Report) -> bool:
    """Whether all GPUs are known, be there none: a text names those that it speaks of."""
    row = next((row for row in report.checks if row.id == "gpu"), None)
    return report.origin.kind != "text" and (bool(report.machine.gpus) or (row is not None and row.status not in _NOT_LOOKED_AT))


def _gpus(a: Report, b: Report) -> Iterator[Difference]:
    ours, theirs = a.machine.gpus, b.machine.gpus
    if len(ours) != len(theirs) and _gpus_known(a) and _gpus_known(b):
        yield Difference(kind="gpu", what="GPUs", a=str(len(ours)), b=str(len(theirs)))
    for place, (one, other) in enumerate(zip(ours, theirs, strict=False)):
        for what, of_gpu in _OF_GPU:
            name = f"GPU {place}, {what}"
            yield from _of_both({name: of_gpu(one)}, {name: of_gpu(other)}, "gpu")


def _variables(evidence: Evidence | None) -> dict[str, str] | None:
    """Those that a GPU program reads. Names of people and GPUs differ always, and a recording hides them."""
    item = evidence.get("environment") if evidence is not None else None
    if item is None or item.status != "ok" or item.stdout is None:
        return None
    found = (_SETTINGS.match(line) for line in item.stdout.split("\n"))
    return {match["name"]: _UUID.sub(r"\1-*", _HOME.sub(r"\1*", match["value"])) for match in found if match is not None}


# ---------------------------------------------------------------- what was measured
def _figures(a: Report, b: Report, knowledge: Knowledge) -> Iterator[Difference]:
    others = {_key(result): result for result in b.benchmark}
    for result in a.benchmark:
        other = others.get(_key(result))
        if other is None or result.value is None or other.value is None or result.unit != other.unit:
            continue
        change = other.value / result.value - 1 if result.value else 0.0
        row = knowledge.figure(result.name)
        noise = max(row.drift if row is not None else DRIFT, (result.spread or 0.0) + (other.spread or 0.0))
        if abs(change) > noise:
            on = f", GPU {result.gpu}" + (f" to GPU {result.peer}" if result.peer is not None else "")
            what = words.figure(result.name, knowledge) + on
            yield Difference(kind="figure", what=what, a=_value(result), b=f"{_value(other)} ({change:+.0%})")


def _key(result: BenchmarkResult) -> tuple[int, str, int | None]:
    return result.gpu, result.name, result.peer


def _value(result: BenchmarkResult) -> str:
    return f"{result.value:.4g} {result.unit}"


# ---------------------------------------------------------------- what could not be compared
def _notes(a: Compared, b: Compared) -> Iterator[str]:
    for one, other in ((a, b), (b, a)):
        if one.report.origin.quick and not other.report.origin.quick:
            yield f"{one.name} was examined with --quick: kernels, smoke test and benchmark are not compared."
        if one.report.origin.bundle is not None and other.report.origin.bundle is None:
            yield f"{one.name} is a report of {one.report.origin.bundle}: what it does not show is not compared."
        for what, known in (("GPUs", _gpus_known), ("Python", _python_known)):
            if not known(one.report) and known(other.report):
                yield f"{one.name} does not say which {what} it has, so that is not compared."
    if (a.evidence is None or b.evidence is None) and a.report.origin.kind != "text":
        names = " and ".join(one.name for one in (a, b) if one.evidence is None)
        yield f"{names}: a report holds no environment variables, so these are not compared."
