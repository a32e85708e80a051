"""Fact values: the ladder from libcuda to a Numba kernel, smoke test and benchmark."""

from __future__ import annotations

from typing import Literal

import msgspec

from cudadoctor.model.facts import Key
from cudadoctor.model.values.base import Value
from cudadoctor.model.version import ComputeCapability, CudaVersion, LibraryVersion

RungName = Literal[
    "pci", "driver", "nodes", "libcuda", "init", "devices", "context", "memory", "ptx-kernel", "numba-kernel",
    "nvml", "toolkit", "framework", "program", "speed",
]  # fmt: skip


class RungResult(Value, frozen=True, kw_only=True):
    """How one step of the ladder ended. `gpu` is the CUDA index among the visible devices, None before there is one."""

    rung: RungName
    gpu: int | None = None
    status: Literal["pass", "fail", "skip", "crash", "hang"]
    code: int | None = None  # CUresult
    name: str | None = None  # its symbolic name, as the library itself or our table calls it
    output: str = ""  # what the failing step printed, read like a user's text
    why: str | None = None
    seconds: float | None = None
    line: int = 0


class CudaDevice(Value, frozen=True, kw_only=True):
    index: int
    name: str | None = None
    uuid: str | None = None
    address: str | None = None
    compute_capability: ComputeCapability | None = None
    memory_total_bytes: int | None = None
    memory_free_bytes: int | None = None


class Opening(Value, frozen=True, kw_only=True):
    """The attempt to open one device node, made after cuInit failed. `errno_name` None: it opened."""

    path: str
    errno_name: str | None = None


class SmokeStep(Value, frozen=True, kw_only=True):
    gpu: int | None
    step: str
    status: Literal["pass", "fail", "skip"]
    why: str | None = None
    seconds: float | None = None
    line: int = 0


class Measurement(Value, frozen=True, kw_only=True):
    """One figure of the benchmark. `limit` is what the hardware can do, `limit_from` says how that is known."""

    gpu: int
    name: str
    value: float | None
    unit: str
    limit: float | None = None
    limit_from: str | None = None
    why: str | None = None
    seconds: float | None = None
    line: int = 0


class NumbaState(Value, frozen=True, kw_only=True):
    """What Numba says about itself once it was imported."""

    version: str | None = None
    implementation: str | None = None  # NVIDIA (numba-cuda) | Built-in | simulator
    simulator: bool = False
    python: str | None = None  # the interpreter, when it is not the examined one
    # nvvm, libdevice, nvrtc, nvjitlink, cudart -> file that Numba's own resolver names
    components: dict[str, str] = msgspec.field(default_factory=dict)
    line: int = 0


class Ladder(Value, frozen=True, kw_only=True):
    """One climb: libcuda loads, cuInit, devices, context, memory, a PTX kernel, a Numba kernel."""

    python: str | None = None
    library_path: str | None = None  # libcuda really loaded
    library: LibraryVersion | None = None
    cuda: CudaVersion | None = None
    rungs: tuple[RungResult, ...] = ()
    devices: tuple[CudaDevice, ...] = ()
    openings: tuple[Opening, ...] = ()
    numba: NumbaState | None = None
    smoke: tuple[SmokeStep, ...] = ()
    benchmark: tuple[Measurement, ...] = ()
    quick: bool = False

    def result(self, rung: RungName) -> tuple[RungResult, ...]:
        return tuple(entry for entry in self.rungs if entry.rung == rung)


LADDER = Key[Ladder]("ladder")
COMPUTED = Key[str]("computed")  # the words of a text that a program prints only after a GPU computed
