"""The rows of the tables about products, adapters and frameworks: which GPU a name means, who made an adapter, which wheels fit."""

from __future__ import annotations

import re
from typing import Literal

from cudadoctor.knowledge.tables import Sourced, Table
from cudadoctor.model.version import ComputeCapability, ToolkitVersion


class Product(Sourced, frozen=True, kw_only=True):
    """Product names of one compute capability."""

    pattern: str
    cc: str

    def fits(self, name: str) -> bool:
        return re.search(self.pattern, name) is not None

    @property
    def compute_capability(self) -> ComputeCapability:
        return ComputeCapability(self.cc)


class TorchIndex(Sourced, frozen=True, kw_only=True):
    """One of PyTorch's package indexes (https://download.pytorch.org/whl/<tag>): for which drivers and GPUs its wheels are."""

    tag: str
    cuda: str
    cc_min: str
    cc_max: str
    lacks: tuple[str, ...] = ()  # of those between them
    last_torch: str | None = None
    note: str | None = None

    @property
    def toolkit(self) -> ToolkitVersion:
        return ToolkitVersion(self.cuda)

    def serves(self, capability: ComputeCapability) -> bool:
        return ComputeCapability(self.cc_min) <= capability <= ComputeCapability(self.cc_max) and capability.text not in self.lacks


class JetsonIndex(Sourced, frozen=True, kw_only=True):
    """One of the indexes whose wheels are built for the GPU of a Jetson."""

    tag: str
    cuda: str
    l4t: str


class Frameworks(Table, frozen=True, kw_only=True):
    """`requirements`: what pip is asked for, by framework and series; `libraries`: the wheel that holds each; `conda`: the wheels with
    a package's library.
    """

    torch_index: tuple[TorchIndex, ...]
    jetson_index: tuple[JetsonIndex, ...]
    requirements: dict[str, dict[str, str]]
    wheels: dict[str, tuple[str, ...]]
    libraries: dict[str, str]
    conda: dict[str, tuple[str, ...]]


class Maker(Sourced, frozen=True, kw_only=True):
    """A maker of display adapters other than NVIDIA. `kind`: what its adapters are where a machine has no NVIDIA GPU."""

    vendor: str  # PCI vendor id
    name: str
    kind: Literal["gpu", "virtual", "board"]
    words: tuple[str, ...]
