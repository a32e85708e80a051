"""One report to what the picture of many needs of it: a few kB of each machine. Pure.

Only the keys that are read here are decoded, so reports of earlier and later releases serve too. A report may be a stranger's: its words
for a cause, its links and its commands are not taken over, for this release knows its own.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Annotated, get_args

import msgspec

from cudadoctor.inventory.equals import link_of
from cudadoctor.model.findings import Verdict
from cudadoctor.model.fleet import Measured, Missing, Node, NodeGpu
from cudadoctor.model.recipe import Action
from cudadoctor.model.report import LARGEST, RequirementResult

SCHEMA = "cudadoctor.report/1"
PACKAGES = ("numba", "numba-cuda", "numpy", "torch", "tensorflow", "jax", "cupy")  # whose versions drift where it matters
_MOST_WRONG = 20  # lines of one file that are named each
_HOPELESS = 1000  # of them after which it is not read any further
_LONGEST = 300  # characters of a quoted line
_LEAST, _LARGEST = 1e-6, 1e9  # of a figure and of a clock: what lies beyond is none
_MOST = msgspec.Meta(max_length=1024)  # GPUs, and demands, of one machine
_Word = Annotated[str, msgspec.Meta(max_length=4096)]  # a name, a version, a line: what is longer is meant to flood those who read it
_MOST_FIGURES = msgspec.Meta(max_length=1 << 16)  # of one machine: of 64 GPUs each to each other, ten times over


# Unknown keys are passed over.
class _Quote(msgspec.Struct, frozen=True):
    source: str = ""
    text: str = ""


class _Finding(msgspec.Struct, frozen=True):
    cause: _Word
    evidence: tuple[_Quote, ...] = ()


class _Diagnosis(msgspec.Struct, frozen=True):
    root: _Finding | None = None


class _Driver(msgspec.Struct, frozen=True):
    module: _Word | None = None
    library: _Word | None = None
    cuda: _Word | None = None
    flavour: _Word | None = None


class _Python(msgspec.Struct, frozen=True):
    version: _Word | None = None
    packages: dict[_Word, _Word] = {}


class _Gpu(msgspec.Struct, frozen=True):
    uuid: _Word | None = None
    name: _Word | None = None
    cuda_index: int | None = None
    index: int | None = None
    ecc: _Word | None = None
    mig: _Word | None = None
    persistence: _Word | None = None
    power_limit_w: float | None = None
    vbios: _Word | None = None


class _Machine(msgspec.Struct, frozen=True):
    kernel: _Word | None = None
    distribution: _Word | None = None
    driver: _Driver = _Driver()
    python: _Python = _Python()
    gpus: Annotated[tuple[_Gpu, ...], _MOST] = ()


class _Figure(msgspec.Struct, frozen=True, gc=False):
    gpu: int
    name: _Word
    value: float | None = None
    unit: _Word = ""
    limit_from: _Word | None = None
    peer: int | None = None
    clock_mhz: float | None = None


class _Requirement(msgspec.Struct, frozen=True):
    text: _Word = ""
    met: bool | None = None
    found: _Word | None = None
    why: _Word | None = None


class _Origin(msgspec.Struct, frozen=True):
    host: _Word | None = None
    boot_id: _Word | None = None
    time: _Word | None = None
    node: _Word | None = None


class _Tool(msgspec.Struct, frozen=True):
    version: _Word = ""


class _Report(msgspec.Struct, frozen=True):
    schema: _Word
    verdict: Verdict
    exit_code: int = 0
    action: _Word = "none"
    tool: _Tool = _Tool()
    origin: _Origin = _Origin()
    machine: _Machine = _Machine()
    diagnosis: _Diagnosis = _Diagnosis()
    requirements: Annotated[tuple[_Requirement, ...], _MOST] = ()
    benchmark: Annotated[tuple[_Figure, ...], _MOST_FIGURES] = ()


_decoder = msgspec.json.Decoder(_Report)


def read(source: str, body: bytes) -> Iterator[Node | Missing]:
    """The node of a report; of several where each stands on a line of its own. What is none becomes a sentence, many of them one."""
    whole = one(source, body)
    firsts = [bytes(line[:1]) for _, line in islice(_lines(body), 2)]
    if isinstance(whole, Node) or firsts != [b"{", b"{"]:
        yield whole
        return
    right = wrong = 0
    for number, line in _lines(body):
        found = one(f"{source}, line {number}", line)
        right, wrong = right + isinstance(found, Node), wrong + isinstance(found, Missing)
        if isinstance(found, Node) or wrong <= _MOST_WRONG:
            yield found
        if wrong > max(_HOPELESS, right):
            yield Missing(source=source, why=f"it was not read beyond line {number}: {wrong} lines were no reports")
            return
    if wrong > _MOST_WRONG:
        yield Missing(source=source, why=f"{wrong - _MOST_WRONG} more of its lines are no reports")


def _lines(body: bytes) -> Iterator[tuple[int, memoryview]]:
    """The lines that are not empty, from their first character on, and their numbers. No copies: one line may be all of a large file."""
    whole, number, seen = memoryview(body), 1, 0
    for line in re.finditer(rb"\S[^\n]*", body):
        number, seen = number + body.count(b"\n", seen, line.start()), line.start()
        yield number, whole[line.start() : line.end()]


def one(source: str, body: bytes | memoryview) -> Node | Missing:
    if len(body) > LARGEST:
        return Missing(source=source, why=f"it is larger than {LARGEST >> 20} MiB, which no report is")
    if not bytes(body).strip():
        return Missing(source=source, why="it is empty")
    try:
        report = _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return Missing(source=source, why=f"it is no report: {error}")
    if report.schema != SCHEMA:
        return Missing(source=source, why=f"it is a report of schema {report.schema[:60]}; this release reads {SCHEMA}")
    return _node(source, report)


def _node(source: str, report: _Report) -> Node:
    root = report.diagnosis.root
    quote = root.evidence[0] if root is not None and root.evidence else None
    return Node(
        name=report.origin.host or report.origin.node or source,
        source=source,
        boot_id=report.origin.boot_id,
        time=report.origin.time,
        version=report.tool.version,
        verdict=report.verdict,
        action=report.action if report.action in get_args(Action) else "unknown",
        exit_code=report.exit_code,
        cause=root.cause if root is not None else None,
        line=f"{quote.source}: {quote.text}"[:_LONGEST] if quote is not None else None,
        settings=dict(_settings(report)),
        gpus=tuple(_gpus(report)),
        met=tuple(dict.fromkeys(one.text for one in report.requirements if one.met)),
        demands=tuple(_unmet(report.requirements)),
    )


def _unmet(requirements: Iterable[_Requirement]) -> Iterator[RequirementResult]:
    """Each once: a file may repeat one a million times."""
    for one in dict.fromkeys(requirements):
        if one.text and not one.met:
            yield RequirementResult(**msgspec.structs.asdict(one))


def _settings(report: _Report) -> Iterator[tuple[str, str]]:
    """What should be the same on equal nodes."""
    machine = report.machine
    known = {
        "driver": machine.driver.module or machine.driver.library, "kernel modules": machine.driver.flavour, "CUDA": machine.driver.cuda,
        "kernel": machine.kernel, "distribution": machine.distribution, "Python": machine.python.version,
    }  # fmt: skip
    yield from ((name, value) for name, value in known.items() if value)
    yield from ((name, machine.python.packages[name]) for name in PACKAGES if name in machine.python.packages)
    models = Counter(gpu.name or "unnamed" for gpu in machine.gpus)
    yield "GPUs", ", ".join(f"{count} x {model}" for model, count in sorted(models.items())) or "none"
    for name in ("ecc", "mig", "persistence", "vbios"):
        values = sorted({str(value) for gpu in machine.gpus if (value := getattr(gpu, name)) is not None})
        if values:
            yield f"GPU {name}", ", ".join(values)
    limits = sorted({gpu.power_limit_w for gpu in machine.gpus if gpu.power_limit_w is not None})
    if limits:
        yield "GPU power limit", ", ".join(f"{limit:g} W" for limit in limits)


def _gpus(report: _Report) -> Iterator[NodeGpu]:
    """By CUDA's number, which is the one of the figures."""
    known = {gpu.cuda_index if gpu.cuda_index is not None else gpu.index: gpu for gpu in report.machine.gpus}
    figures: dict[int, dict[str, _Figure]] = {}
    for figure in report.benchmark:
        if figure.value is not None and _LEAST <= figure.value <= _LARGEST:
            of = figures.setdefault(figure.gpu, {})
            before = of.setdefault(figure.name, figure)
            if before is not figure and figure.value < (before.value or 0.0):  # of the copies to other GPUs the slowest link alone
                of[figure.name] = figure
    for number in sorted({*figures, *(number for number in known if number is not None)}):
        gpu = known.get(number) or _Gpu()
        yield NodeGpu(number=number, uuid=gpu.uuid, name=gpu.name, figures=tuple(_measured(gpu, figures.get(number, {}).values())))


def _measured(gpu: _Gpu, figures: Iterable[_Figure]) -> list[Measured]:
    limit = f"{gpu.power_limit_w:g} W" if gpu.power_limit_w is not None else ""
    name = gpu.name or ""
    return [
        Measured(
            name=figure.name,
            value=figure.value or 0.0,
            unit=figure.unit,
            equal=_equal(name, figure.limit_from, limit),
            clock_mhz=figure.clock_mhz if _LEAST <= (figure.clock_mhz or 0.0) <= _LARGEST else None,
        )
        for figure in figures
    ]


@functools.lru_cache(maxsize=4096)
def _equal(name: str, limit_from: str | None, limit: str) -> tuple[str, ...]:
    """One object for all GPUs that have it: there may be a million figures."""
    return name, link_of(limit_from), limit
