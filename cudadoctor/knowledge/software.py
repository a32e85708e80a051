"""The rows of the tables about products and frameworks: which GPU a name means, which wheels serve which driver and GPU."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

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
    last_torch: str | None = None
    note: str | None = None
    source: Source

    @property
    def toolkit(self) -> ToolkitVersion:
        return ToolkitVersion(self.cuda)

    def serves(self, capability: ComputeCapability) -> bool:
        return ComputeCapability(self.cc_min) <= capability <= ComputeCapability(self.cc_max)


class Frameworks(Table, frozen=True, kw_only=True):
    torch_index: tuple[TorchIndex, ...]


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
    def torch_indexes(self) -> tuple[TorchIndex, ...]:
        """Oldest CUDA first."""
        return self.once("frameworks", lambda: self._table("frameworks", Frameworks)).torch_index

    def capability_of_product(self, name: str) -> ComputeCapability | None:
        """The compute capability of a product ("NVIDIA GeForce RTX 3090"); None where the name does not decide it."""
        row = next((row for row in self.products if row.fits(name)), None)
        return None if row is None else row.compute_capability
