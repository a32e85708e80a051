"""Many machines in one picture: the shape of the published JSON (schema cudadoctor.fleet/1)."""

from __future__ import annotations

from typing import Literal

import msgspec

from cudadoctor.model.findings import Verdict
from cudadoctor.model.report import RequirementResult

SCHEMA: Literal["cudadoctor.fleet/1"] = "cudadoctor.fleet/1"

NOT_ASKED = "the report was made without this demand; a recording, or the node itself, can be asked"


class Measured(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One figure of one GPU. `equal`: what equal GPUs share (model, link, power limit); `clock_mhz`: under this load."""

    name: str
    value: float
    unit: str
    equal: tuple[str, ...]
    clock_mhz: float | None = None


class NodeGpu(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU of a node, by CUDA's number where it has one."""

    number: int
    uuid: str | None
    name: str | None
    figures: tuple[Measured, ...] = ()


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """What the picture needs of one machine's report. `source`: the file or stream that it came from."""

    name: str
    source: str
    boot_id: str | None
    time: str | None
    version: str
    verdict: Verdict
    action: str
    exit_code: int
    cause: str | None
    line: str | None  # that shows the cause
    settings: dict[str, str]
    gpus: tuple[NodeGpu, ...]
    met: tuple[str, ...] = ()  # demands
    demands: tuple[RequirementResult, ...] = ()  # that are not met, or of which nobody knows

    def asked(self, texts: tuple[str, ...]) -> Node:
        """The node of which this is demanded: nobody knows what its report was not asked."""
        answered = {*self.met, *(one.text for one in self.demands)}
        unknown = (RequirementResult(text=text, met=None, found=None, why=NOT_ASKED) for text in texts if text not in answered)
        return msgspec.structs.replace(self, demands=(*self.demands, *unknown))


class Missing(msgspec.Struct, frozen=True, kw_only=True):
    """What gave no report: a file that is none, a node that did not answer. `why` is a sentence."""

    source: str
    why: str


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes with the same verdict and cause. `step`, `command`: the first of the fix, as this release knows it for their distribution."""

    verdict: Verdict
    cause: str | None
    title: str
    url: str | None
    action: str
    nodes: tuple[str, ...]
    line: str | None
    step: str | None
    command: str | None


class Odd(msgspec.Struct, frozen=True, kw_only=True):
    """A value of a setting that is not the usual one, and the nodes that have it."""

    value: str
    nodes: tuple[str, ...]


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """A setting that is not the same everywhere. `usual`: what most nodes have; null where no value has the majority."""

    setting: str
    usual: str | None
    count: int
    odd: tuple[Odd, ...]


class Straggler(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU that is slower than `peers` equal ones, or than it was itself (`against`). `behind`: by which share of the usual figure."""

    node: str
    gpu: int
    uuid: str | None
    figure: str
    value: float
    unit: str
    usual: float
    behind: float
    peers: int
    against: Literal["peers", "history"]


class Demand(RequirementResult, frozen=True, kw_only=True):
    """What these nodes do not meet, or do not know of themselves; `found` and `why` are the first one's."""

    nodes: tuple[str, ...]


class Worse(msgspec.Struct, frozen=True, kw_only=True):
    """What is worse on these nodes than in their last earlier report. `what` is a sentence that all of them share."""

    what: str
    nodes: tuple[str, ...]


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """The picture. `repeated`: reports that another of the same node replaces; `strict`: a degraded node and a slow GPU fail too."""

    schema: Literal["cudadoctor.fleet/1"] = SCHEMA
    exit_code: int
    nodes: int
    gpus: dict[str, int]
    verdicts: dict[str, int]
    missing: tuple[Missing, ...]
    groups: tuple[Group, ...]
    drift: tuple[Drift, ...]
    stragglers: tuple[Straggler, ...]
    worse: tuple[Worse, ...] = ()
    demands: tuple[Demand, ...] = ()
    repeated: int = 0
    strict: bool = False
    notes: tuple[str, ...] = ()
