"""Fact values: the ladder from libcuda to a Numba kernel, smoke test and benchmark."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from cudadoctor.model.bounds import Bytes, Count, Figure, Generation, GpuIndex, Lanes, Megahertz, Percent, Pid, Seconds, Watts, WholeCelsius
from cudadoctor.model.facts import Key
from cudadoctor.model.values.base import Refused, Shown, Value
from cudadoctor.model.values.surroundings import Limit
from cudadoctor.model.version import ComputeCapability, CudaVersion, LibraryVersion

RungName = Literal[
    "pci", "driver", "nodes", "libcuda", "init", "devices", "context", "memory", "ptx-kernel", "numba-kernel",
    "nvml", "toolkit", "framework", "program", "speed",
]  # fmt: skip


class RungResult(Shown, frozen=True, kw_only=True):
    """How one step of the ladder ended. `gpu` is the CUDA index among the visible devices, None before there is one."""

    rung: RungName
    gpu: GpuIndex | None = None
    status: Literal["pass", "fail", "skip", "crash", "hang"]
    code: int | None = None  # CUresult
    name: str | None = None  # its symbolic name, as the library itself or our table calls it
    output: str = ""  # what the failing step printed, read like a user's text
    why: str | None = None
    seconds: Seconds | None = None


class CudaDevice(Value, frozen=True, kw_only=True):
    index: GpuIndex
    name: str | None = None
    uuid: str | None = None
    address: str | None = None
    compute_capability: ComputeCapability | None = None
    memory_total_bytes: Bytes | None = None
    memory_free_bytes: Bytes | None = None


class Opening(Value, frozen=True, kw_only=True):
    """The attempt to open one device node, made after cuInit failed. `errno_name` None: it opened."""

    path: str
    errno_name: str | None = None
    nodev: bool = False  # it lies on a mount that allows no devices
    intercepted: bool = False  # the kernel opens it: what refuses is a library that stands before its system calls


class InstalledFile(Shown, frozen=True, kw_only=True):
    """A file that an error names, and the package that brought it. `differs`: how it is not what that package's RECORD says; `byte_code`:
    what Python runs in its place, compiled from another source.
    """

    path: str
    package: str
    version: str | None = None
    differs: str | None = None
    byte_code: str | None = None


class SmokeStep(Shown, frozen=True, kw_only=True):
    gpu: GpuIndex | None
    step: str
    status: Literal["pass", "fail", "skip"]
    why: str | None = None
    said: str | None = None  # what a step that passed has to tell
    planted: str | None = None  # a failure that the step made on purpose, in the driver's words
    seconds: Seconds | None = None


class Load(Value, frozen=True, kw_only=True):
    """What NVML said of a GPU while it worked on a figure."""

    sm_clock_mhz: Megahertz | None = None
    sm_clock_max_mhz: Megahertz | None = None
    memory_clock_mhz: Megahertz | None = None
    temperature_c: WholeCelsius | None = None
    power_w: Watts | None = None
    pcie_generation: Generation | None = None
    pcie_width: Lanes | None = None
    reasons: tuple[str, ...] | None = None  # what held the clocks down
    power_source: Literal["ac", "battery", "undersized"] | None = None


class Measurement(Shown, frozen=True, kw_only=True):
    """One figure of the benchmark. `limit` is what the hardware can do, `limit_from` says how that is known.

    What a limit of arithmetic is made of is measured with it: multiprocessors, and the clock under that very load.
    """

    gpu: GpuIndex
    name: str
    value: Figure | None
    unit: str
    limit: Figure | None = None
    limit_from: str | None = None
    why: str | None = None
    seconds: Seconds | None = None
    peer: GpuIndex | None = None  # the other GPU of a copy between two
    spread: Figure | None = None  # distance of the extreme samples, in parts of the median
    runs: tuple[Figure, ...] = ()  # the figure in each run, where it was measured more than once
    sm_count: Count | None = None
    clock_mhz: Figure | None = None
    compute_capability: ComputeCapability | None = None
    links: Count | None = None  # NVLinks between the two GPUs, where the driver does not say what one carries
    single_to_double: Count | None = None  # how many times faster single precision is, as the driver says
    load: Load | None = None
    distorted: tuple[str, ...] = ()  # variables that change what is measured


class GpuLoad(Shown, frozen=True, kw_only=True):
    """The moment of a long load at which most held the clocks of a GPU down."""

    gpu: GpuIndex
    load: Load


class Sustained(Shown, frozen=True, kw_only=True):
    """A moment of a long load: seconds since it began, throughput, the clock that the kernels counted, and what NVML said."""

    gpu: GpuIndex
    at: Seconds
    value: Figure
    unit: str
    clock_mhz: Figure | None = None
    load: Load | None = None


class LessonResult(Value, frozen=True, kw_only=True):
    """One computation at one size, timed in several ways (microseconds)."""

    gpu: GpuIndex
    step: str
    elements: Count
    cpu_us: Figure  # NumPy
    gpu_us: Figure  # with both copies
    kernel_us: Figure  # the kernel alone, by events
    launch_us: Figure  # the launch call alone: what a timer without `synchronize` claims
    first_us: Figure  # the first call, with its compilation
    python_us: Figure | None = None  # a loop in plain Python, where it is short enough
    compiled_us: Figure | None = None  # that loop compiled for the CPU


class Guest(Shown, frozen=True, kw_only=True):
    """Another process computes on this GPU, or the GPU works and nobody says for whom (`pids` empty)."""

    gpu: GpuIndex
    pids: tuple[Pid, ...] = ()
    memory_bytes: tuple[Bytes | None, ...] = ()
    percent: Percent | None = None


class NumbaState(Shown, frozen=True, kw_only=True):
    """What Numba says about itself once it was imported."""

    version: str | None = None
    implementation: str | None = None  # NVIDIA (numba-cuda) | Built-in | simulator
    simulator: bool = False
    python: str | None = None  # the interpreter, when it is not the examined one
    # nvvm, libdevice, nvrtc, nvjitlink, cudart -> file that Numba's own resolver names
    components: dict[str, str] = msgspec.field(default_factory=dict)


REPLACING = "what this check does not load, for it lies in the working directory or other users may write there"


def left_out(withheld: Iterable[str], variables: Iterable[str]) -> str | None:
    """The sentence for the first of the withheld variables that is one of these."""
    name = next((name for name in withheld if name in variables), None)
    return None if name is None else f"entries of {name} were left out of this check, and what is missing may lie there"


class Changed(Shown, frozen=True, kw_only=True):
    """A variable that the interpreter's own start set or removed (None), and the libraries that the loader put into its process."""

    name: str
    value: str | None
    preloaded: tuple[str, ...] = ()


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
    guests: tuple[Guest, ...] = ()
    loads: tuple[GpuLoad, ...] = ()
    sustained: tuple[Sustained, ...] = ()
    lessons: tuple[LessonResult, ...] = ()
    quick: bool = False
    given: dict[str, str] | None = None  # variables of CUDA's and Numba's that its process was started with
    preloaded: tuple[str, ...] = ()  # libraries of /etc/ld.so.preload and LD_PRELOAD
    limits: tuple[Limit, ...] = ()  # of its process, where cuInit failed
    refused: tuple[Refused, ...] = ()  # copies of libcuda
    changed: tuple[Changed, ...] = ()
    installed: tuple[InstalledFile, ...] = ()
    withheld: tuple[str, ...] = ()  # variables of the user's of which the climb did not get all
    replaced: tuple[str, ...] = ()  # those of them by which other programs load another libcuda, or one more library into it
    beside: tuple[str, ...] = ()  # libraries in an empty or relative entry of LD_LIBRARY_PATH, which the climb did not get

    def result(self, rung: RungName) -> tuple[RungResult, ...]:
        return tuple(entry for entry in self.rungs if entry.rung == rung)

    def address(self, gpu: int | None) -> str | None:
        """The PCI address of the device that has this number."""
        return next((device.address for device in self.devices if device.index == gpu), None)


LADDER = Key[Ladder]("ladder")
GPU_WORK = Key[Ladder]("gpu-work")  # what the workers of `bench` and `smoke` did on one GPU, or between two: it joins the ladder's own
COMPUTED = Key[str]("computed")  # the words of a text that a program prints only after a GPU computed
