"""The rows of the tables about products, adapters and frameworks: which GPU a name means, who made an adapter, which wheels fit."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal, TypeVar

from cudadoctor.knowledge.tables import Row, Source, Table
from cudadoctor.model.version import ComputeCapability, ToolkitVersion

T = TypeVar("T")


class Product(Row, frozen=True, kw_only=True):
    """Product names of one compute capability."""

    pattern: str
    cc: str
    source: Source

    def fits(self, name: str) -> bool:
        return re.search(self.pattern, name) is not None

    @property
    def compute_capability(self) -> ComputeCapability:
        return ComputeCapability(self.cc)


class Products(Table, frozen=True, kw_only=True):
    product: tuple[Product, ...]


class TorchIndex(Row, frozen=True, kw_only=True):
    """One of PyTorch's package indexes (https://download.pytorch.org/whl/<tag>): for which drivers and GPUs its wheels are."""

    tag: str
    cuda: str
    cc_min: str
    cc_max: str
    lacks: tuple[str, ...] = ()  # of those between them
    last_torch: str | None = None
    note: str | None = None
    source: Source

    @property
    def toolkit(self) -> ToolkitVersion:
        return ToolkitVersion(self.cuda)

    def serves(self, capability: ComputeCapability) -> bool:
        return ComputeCapability(self.cc_min) <= capability <= ComputeCapability(self.cc_max) and capability.text not in self.lacks


class JetsonIndex(Row, frozen=True, kw_only=True):
    """One of the indexes whose wheels are built for the GPU of a Jetson."""

    tag: str
    cuda: str
    l4t: str
    source: Source


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


class Maker(Row, frozen=True, kw_only=True):
    """A maker of display adapters other than NVIDIA. `kind`: what its adapters are where a machine has no NVIDIA GPU."""

    vendor: str  # PCI vendor id
    name: str
    kind: Literal["gpu", "virtual", "board"]
    words: tuple[str, ...]
    source: Source


class Adapters(Table, frozen=True, kw_only=True):
    maker: tuple[Maker, ...]


class SoftwareTables:
    """The part of Knowledge that reads these tables."""

    def once(self, name: str, make: Callable[[], T]) -> T:
        raise NotImplementedError

    def _table(self, name: str, kind: type[T]) -> T:
        raise NotImplementedError

    @property
    def products(self) -> tuple[Product, ...]:
        return self.once("products", lambda: self._table("products", Products)).product

    @property
    def frameworks(self) -> Frameworks:
        return self.once("frameworks", lambda: self._table("frameworks", Frameworks))

    @property
    def torch_indexes(self) -> tuple[TorchIndex, ...]:
        """Oldest CUDA first."""
        return self.frameworks.torch_index

    def capability_of_product(self, name: str) -> ComputeCapability | None:
        """The compute capability of a product ("NVIDIA GeForce RTX 3090"); None where the name does not decide it."""
        row = next((row for row in self.products if row.fits(name)), None)
        return None if row is None else row.compute_capability

    @property
    def makers(self) -> tuple[Maker, ...]:
        return self.once("adapters", lambda: self._table("adapters", Adapters)).maker

    def maker_of(self, vendor: str | None, words: str | None) -> Maker | None:
        """Who made an adapter: by its PCI vendor id, else by what a listing or a text calls it."""
        if vendor is not None:
            return next((row for row in self.makers if row.vendor == vendor), None)
        return next((row for row in self.makers if any(word in (words or "") for word in row.words)), None)
