"""The rows of tables/benchmark.toml as typed values: what a figure is called, and from which share of its limit it is good."""

from __future__ import annotations

from typing import Literal

from cudadoctor.knowledge.dcgm import DcgmTables
from cudadoctor.knowledge.decoding import part_of, row_by
from cudadoctor.knowledge.tables import Architectures, Sourced, Table
from cudadoctor.model.version import ComputeCapability

FigureClass = Literal["pcie", "memory", "arithmetic", "tensor", "shared", "peer", "none"]
SHARED_BYTES = 128  # that one multiprocessor reads in a cycle, from Maxwell on


class FigureRow(Sourced, frozen=True, kw_only=True, rename={"of": "class"}):
    """One figure. `of`: what sets its limit."""

    name: str
    title: str
    words: str
    of: FigureClass
    good: float | None = None
    drift: float = 0.08
    less: bool = False
    key: bool = False


class RateRow(Sourced, frozen=True, kw_only=True):
    """What one multiprocessor does in a cycle, in multiply-adds."""

    cc: str
    fp16: int | None = None
    bf16: int | None = None
    tensor: dict[str, int] | None = None  # multiply-adds of the tensor cores, dense, by the type of the operands
    shared_bytes: int | None = None
    nvlink: float | None = None  # GB/s of one link in one direction


class Figures(Table, frozen=True, kw_only=True):
    figure: tuple[FigureRow, ...]
    rate: tuple[RateRow, ...] = ()


class FigureTables(DcgmTables):
    """The part of Knowledge that reads them."""

    _rates = part_of("benchmark", Figures, lambda table: table.rate)
    figures = part_of("benchmark", Figures, lambda table: table.figure)
    figure = row_by(figures, "name")  # None for a figure of a later release

    def nvlink(self, capability: ComputeCapability) -> float | None:
        """GB/s that one NVLink of such a GPU carries in one direction."""
        return next((row.nvlink for row in self._rates if row.cc == capability.text), None)

    def per_cycle(self, capability: ComputeCapability, kind: str) -> int | None:
        """Multiply-adds of one multiprocessor in a cycle; `shared`: bytes of shared memory; `tensor_bf16`, `product_bf16`: of its tensor
        cores. None: not known."""
        rate = next((row for row in self._rates if row.cc == capability.text), None)
        if kind == "shared":
            return (rate.shared_bytes if rate is not None else None) or SHARED_BYTES
        what, _, operands = kind.partition("_")
        if what in ("tensor", "product"):
            return (rate.tensor or {}).get(operands) if rate is not None else None
        if kind in ("fp16", "bf16"):
            return getattr(rate, kind) if rate is not None else None
        row = next((row for row in self._table("architectures", Architectures).capability if row.compute_capability == capability), None)
        return None if row is None else row.fp32_lanes_per_sm if kind == "fp32" else row.fp64_lanes_per_sm
