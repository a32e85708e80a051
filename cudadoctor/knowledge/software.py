"""The rows of the tables about products, adapters and frameworks: which GPU a name means, who made an adapter, which wheels fit."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal, TypeVar

from cudadoctor.knowledge.decoding import part_of
from cudadoctor.knowledge.tables import Sourced, Table
from cudadoctor.model.version import ComputeCapability, ToolkitVersion

T = TypeVar("T")


class Product(Sourced, frozen=True, kw_only=True):
    """Product names of one compute capability."""

    pattern: str
    cc: str

    def fits(self, name: str) -> bool:
        return re.search(self.pattern, name) is not None

    @property
    def compute_capability(self) -> ComputeCapability:
        return ComputeCapability(self.cc)


class Products(Table, frozen=True, kw_only=True):
    product: tuple[Product, ...]


class TorchIndex(Sourced, frozen=True, kw_only=True):
    """One of PyTorch's package indexes (https://download.pytorch.org/whl/<tag>): for which drivers and GPUs its wheels are."""

    tag: str
    cuda: str
    cc_min: str
    cc_max: str
    last_torch: str | None = None
    note: str | None = None

    @property
    def toolkit(self) -> ToolkitVersion:
        return ToolkitVersion(self.cuda)

    def serves(self, capability: ComputeCapability) -> bool:
        return ComputeCapability(self.cc_min) <= capability <= ComputeCapability(self.cc_max)


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


class Adapters(Table, frozen=True, kw_only=True):
    maker: tuple[Maker, ...]


class SoftwareTables:
    """The part of Knowledge that reads these tables."""

    def once(self, name: str, make: Callable[[], T]) -> T:
        raise NotImplementedError

    def _table(self, name: str, kind: type[T]) -> T:
        raise NotImplementedError

    products = part_of("products", Products, lambda table: table.product)
    torch_indexes = part_of("frameworks", Frameworks, lambda table: table.torch_index)  # oldest CUDA first
    makers = part_of("adapters", Adapters, lambda table: table.maker)

    @property
    def frameworks(self) -> Frameworks:
        return self._table("frameworks", Frameworks)

    def capability_of_product(self, name: str) -> ComputeCapability | None:
        """The compute capability of a product ("NVIDIA GeForce RTX 3090"); None where the name does not decide it."""
        row = next((row for row in self.products if row.fits(name)), None)
        return None if row is None else row.compute_capability

    def maker_of(self, vendor: str | None, words: str | None) -> Maker | None:
        """Who made an adapter: by its PCI vendor id, else by what a listing or a text calls it."""
        if vendor is not None:
            return next((row for row in self.makers if row.vendor == vendor), None)
        return next((row for row in self.makers if any(word in (words or "") for word in row.words)), None)
