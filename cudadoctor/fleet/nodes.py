"""One report to what the picture of many needs of it: a few kB of each machine. Pure.

Only the keys that are read here are decoded, so reports of earlier and later releases serve too.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from cudadoctor.model.fleet import Measured, Missing, Node, NodeGpu, Verdict

SCHEMA = "cudadoctor.report/1"
PACKAGES = ("numba", "numba-cuda", "numpy", "torch", "tensorflow", "jax", "cupy")  # whose versions drift where it matters
_LONGEST = 300  # characters of a quoted line or a step
_LINKS = ("PCIe", "NVLink")


class _Part(msgspec.Struct, frozen=True):
    """Unknown keys are passed over."""


class _Quote(_Part, frozen=True):
    source: str = ""
    text: str = ""


class _Finding(_Part, frozen=True):
    cause: str
    title: str = ""
    url: str | None = None
    evidence: tuple[_Quote, ...] = ()


class _Diagnosis(_Part, frozen=True):
    root: _Finding | None = None


class _Step(_Part, frozen=True):
    text: str = ""
    shell: str | None = None


class _Prescription(_Part, frozen=True):
    steps: tuple[_Step, ...] = ()


class _Driver(_Part, frozen=True):
    module: str | None = None
    library: str | None = None
    cuda: str | None = None
    flavour: str | None = None


class _Python(_Part, frozen=True):
    version: str | None = None
    packages: dict[str, str] = {}


class _Gpu(_Part, frozen=True):
    uuid: str | None = None
    name: str | None = None
    cuda_index: int | None = None
    index: int | None = None
    ecc: str | None = None
    mig: str | None = None
    persistence: str | None = None
    power_limit_w: float | None = None
    vbios: str | None = None


class _Machine(_Part, frozen=True):
    kernel: str | None = None
    distribution: str | None = None
    driver: _Driver = _Driver()
    python: _Python = _Python()
    gpus: tuple[_Gpu, ...] = ()


class _Figure(_Part, frozen=True, gc=False):
    gpu: int
    name: str
    value: float | None = None
    unit: str = ""
    limit_from: str | None = None
    peer: int | None = None
    clock_mhz: float | None = None


class _Requirement(_Part, frozen=True):
    text: str = ""
    met: bool | None = None
    why: str | None = None


class _Origin(_Part, frozen=True):
    host: str | None = None
    boot_id: str | None = None
    time: str | None = None
    node: str | None = None


class _Tool(_Part, frozen=True):
    version: str = ""


class _Report(_Part, frozen=True):
    schema: str
    verdict: Verdict
    exit_code: int = 0
    action: str = "none"
    tool: _Tool = _Tool()
    origin: _Origin = _Origin()
    machine: _Machine = _Machine()
    diagnosis: _Diagnosis = _Diagnosis()
    prescription: _Prescription | None = None
    requirements: tuple[_Requirement, ...] = ()
    benchmark: tuple[_Figure, ...] = ()


_decoder = msgspec.json.Decoder(_Report)


def read(source: str, body: bytes) -> Iterator[Node | Missing]:
    """The node of a report; of several where each stands on a line of its own. What is none becomes a sentence."""
    whole = _one(source, body)
    lines = [line for line in body.split(b"\n") if line.strip()]
    if isinstance(whole, Node) or len(lines) < 2 or not all(line.lstrip().startswith(b"{") for line in lines[:2]):
        yield whole
        return
    for number, line in enumerate(lines, 1):
        yield _one(f"{source}, line {number}", line)


def _one(source: str, body: bytes) -> Node | Missing:
    if not body.strip():
        return Missing(source=source, why="it is empty")
    try:
        report = _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return Missing(source=source, why=f"it is no report: {error}")
    if report.schema != SCHEMA:
        return Missing(source=source, why=f"it is a report of schema {report.schema[:60]}; this release reads {SCHEMA}")
    return _node(source, report)


def _node(source: str, report: _Report) -> Node:
    root, steps = report.diagnosis.root, report.prescription.steps if report.prescription is not None else ()
    quote = root.evidence[0] if root is not None and root.evidence else None
    return Node(
        name=report.origin.host or report.origin.node or source,
        source=source,
        boot_id=report.origin.boot_id,
        time=report.origin.time,
        version=report.tool.version,
        verdict=report.verdict,
        action=report.action,
        exit_code=report.exit_code,
        cause=root.cause if root is not None else None,
        title=root.title if root is not None else "",
        url=root.url if root is not None else None,
        line=f"{quote.source}: {quote.text}"[:_LONGEST] if quote is not None else None,
        step=steps[0].text[:_LONGEST] if steps else None,
        command=steps[0].shell if steps else None,
        settings=dict(_settings(report)),
        gpus=tuple(_gpus(report)),
        demands={one.text: one.why for one in report.requirements if one.met is not True},
    )


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
        if figure.value is not None:
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
            clock_mhz=figure.clock_mhz,
        )
        for figure in figures
    ]


@functools.lru_cache(maxsize=4096)
def _equal(name: str, limit_from: str | None, limit: str) -> tuple[str, ...]:
    """One object for all GPUs that have it: there may be a million figures."""
    link = (limit_from or "").partition(":")[0]
    return name, link if link.startswith(_LINKS) else "", limit
