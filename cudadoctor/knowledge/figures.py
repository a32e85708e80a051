"""The rows of tables/benchmark.toml as typed values: what a figure is called, and from which share of its limit it is good."""

from __future__ import annotations

from typing import Literal

from cudadoctor.knowledge.tables import Sourced

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
