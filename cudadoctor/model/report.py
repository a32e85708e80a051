"""The report: everything that a run says, in the shape of the published JSON (schema cudadoctor.report/1).

Every key is always there; null means unknown. Keys may be added, none renamed or removed.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from cudadoctor.model.bounds import Bytes, Count, Figure, Seconds
from cudadoctor.model.facts import Quote
from cudadoctor.model.findings import Diagnosis, Verdict
from cudadoctor.model.recipe import Action, Leg, Prescription
from cudadoctor.model.values import LessonResult

SCHEMA: Literal["cudadoctor.report/1"] = "cudadoctor.report/1"
LARGEST = 4 << 20  # bytes of one report as JSON; of eight GPUs it has a quarter of a MiB
RowStatus = Literal["pass", "warn", "fail", "unknown", "skip"]


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the report's parts."""


class Tool(Part, frozen=True, kw_only=True):
    name: str
    version: str


class ReportOrigin(Part, frozen=True, kw_only=True):
    kind: Literal["live", "recording", "text"]
    python: str | None
    quick: bool
    redacted: bool
    host: str | None = None  # the machine's name, or its pseudonym
    boot_id: str | None = None  # one for each start of a Linux machine
    time: str | None = None  # when the evidence was collected, UTC, ISO 8601
    bundle: str | None = None  # the tool that collected the evidence, where it was another
    node: str | None = None  # the machine that is spoken of, where a bundle holds several


class MachineDriver(Part, frozen=True, kw_only=True):
    module: str | None
    library: str | None
    cuda: str | None
    flavour: str | None

    @property
    def version(self) -> str | None:
        return self.module or self.library


class MachinePython(Part, frozen=True, kw_only=True):
    path: str | None
    version: str | None
    packages: dict[str, str]


class MachineGpu(Part, frozen=True, kw_only=True):
    address: str | None
    index: Count | None  # nvidia-smi's
    cuda_index: Count | None = None  # CUDA's, among the GPUs that it shows
    uuid: str | None
    name: str | None
    architecture: str | None
    compute_capability: str | None
    memory_bytes: Bytes | None
    visible: bool | None
    ecc: str | None = None  # enabled | disabled, as mig and persistence
    mig: str | None = None
    persistence: str | None = None
    power_limit_w: float | None = None
    vbios: str | None = None


class Machine(Part, frozen=True, kw_only=True):
    system: str | None
    kernel: str | None
    distribution: str | None
    container: str | None
    wsl: bool | None
    driver: MachineDriver
    python: MachinePython
    gpus: tuple[MachineGpu, ...]

    def gpu(self, cuda_index: int) -> MachineGpu | None:
        return next((one for one in self.gpus if one.cuda_index == cuda_index), None)


class Row(Part, frozen=True, kw_only=True):
    """One row of the pipeline. `because` is set where the status is skip or unknown."""

    id: str
    title: str
    status: RowStatus
    summary: str
    because: str | None
    evidence: tuple[Quote, ...]
    details: tuple[str, ...] = ()  # further lines: each GPU with its numbers, say


class RequirementResult(Part, frozen=True, kw_only=True):
    text: str
    met: bool | None
    found: str | None
    why: str | None

    @property
    def said(self) -> str:
        """What was found; where nobody knows, why."""
        return (self.found if self.met is not None else self.why) or ""


class Planted(Part, frozen=True, kw_only=True):
    """A failure that a step made on purpose, and what the doctor makes of its words."""

    text: str
    cause: str | None
    advice: str | None  # the first step of its fix


class SmokeResult(Part, frozen=True, kw_only=True):
    gpu: Count | None
    step: str
    status: Literal["pass", "fail", "skip"]
    why: str | None
    seconds: Seconds | None
    said: str | None = None  # what a step that passed has to tell
    planted: Planted | None = None


class SustainedSample(Part, frozen=True, kw_only=True):
    """A moment of `bench --sustained`. `clock_mhz`: counted by the kernels; `reasons`: what held the clocks down."""

    gpu: Count
    seconds: float  # since the load began
    value: float
    unit: str
    clock_mhz: float | None
    power_w: float | None
    temperature_c: float | None
    reasons: tuple[str, ...]


class BenchmarkResult(Part, frozen=True, kw_only=True):
    gpu: Count
    name: str
    value: Figure | None
    unit: str
    limit: Figure | None
    limit_from: str | None
    share: float | None
    verdict: Literal["ok", "slow", "cannot judge"]
    why: str | None
    peer: Count | None = None  # the other GPU of a copy between two
    spread: float | None = None  # distance of the extreme samples, in parts of the median
    runs: tuple[float, ...] = ()  # the figure in each run, where it was measured more than once
    clock_mhz: float | None = None  # measured under this very load
    behind: float | None = None  # the share by which it lies below those of equal GPUs of this machine, where that is no chance
    saved: float | None = None  # the figure of the file given with --against
    change: float | None = None  # against that: 0.05 is 5 % more


class Timing(Part, frozen=True, kw_only=True):
    total_s: float | None
    rows: dict[str, float]


class Report(Part, frozen=True, kw_only=True):
    schema: Literal["cudadoctor.report/1"] = SCHEMA
    tool: Tool
    origin: ReportOrigin
    verdict: Verdict
    exit_code: int
    action: Action
    machine: Machine
    checks: tuple[Row, ...]
    diagnosis: Diagnosis
    prescription: Prescription | None
    way: tuple[Leg, ...]  # from the fix on to a running kernel
    requirements: tuple[RequirementResult, ...]
    smoke: tuple[SmokeResult, ...]
    benchmark: tuple[BenchmarkResult, ...]
    lessons: tuple[LessonResult, ...] = ()
    sustained: tuple[SustainedSample, ...] = ()
    timing: Timing
    notes: tuple[str, ...] = ()  # what a reader should know: probing changed the machine, another Python has Numba ...
