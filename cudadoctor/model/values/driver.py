"""Fact values: the driver's libraries, nvidia-smi, NVML, probes that hang, and processes that hold a GPU."""

from __future__ import annotations

from typing import Literal

import msgspec

from cudadoctor.model.bounds import Bytes, Celsius, Count, Generation, GpuIndex, Lanes, Megahertz, Pid, Watts
from cudadoctor.model.facts import Key
from cudadoctor.model.values.base import Shown, Value
from cudadoctor.model.version import ComputeCapability, CudaVersion, LibraryVersion, ModuleVersion


class LibraryFile(Shown, frozen=True, kw_only=True):
    """A library in the loader's cache or a known folder."""

    name: str
    path: str
    target: str | None = None  # what a link points to
    foreign: str | None = None  # the processor that it was made for, where it is another one


class Libraries(Value, frozen=True, kw_only=True):
    files: tuple[LibraryFile, ...]

    def find(self, prefix: str) -> tuple[LibraryFile, ...]:
        return tuple(file for file in self.files if file.name.startswith(prefix))


class Hang(Value, frozen=True, kw_only=True):
    """A probe that gave no answer. That is knowledge: none came within `seconds`; what it would have said stays unknown."""

    item: str  # evidence id: nvidia-smi, nvml, ladder
    what: str  # what a person would call it
    seconds: float
    step: str | None = None  # the worker's step that had begun
    uninterruptible: bool = False  # it could not be killed


class Hangs(Value, frozen=True, kw_only=True):
    """`asked`: the evidence ids of the probes that were asked at all; of the others nobody knows whether they would answer."""

    entries: tuple[Hang, ...]
    asked: tuple[str, ...] = ("nvidia-smi", "nvml", "ladder")


class GpuProcess(Value, frozen=True, kw_only=True):
    """A process in a table of GPU users. `memory_bytes` None: not shown."""

    gpu: str  # index or PCI address, as the source says
    pid: Pid
    kind: str | None = None  # C compute, G graphics
    name: str | None = None
    memory_bytes: Bytes | None = None


class SmiGpu(Shown, frozen=True, kw_only=True):
    index: int | None = None
    name: str | None = None
    address: str | None = None
    uuid: str | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    temperature_c: float | None = None
    ecc_uncorrected: int | None = None
    compute_mode: str | None = None
    mig: str | None = None
    mig_uuids: tuple[str, ...] = ()  # instances that `nvidia-smi -L` lists below the GPU
    errors: tuple[str, ...] = ()  # cells that say ERR! or Unknown Error

    @property
    def hardly_read(self) -> bool:
        """Whether the driver could read nothing that it measures. A single value fails now and then, and what a process holds often."""
        named = {error.partition(":")[0] for error in self.errors} - _OF_PROCESSES
        return self.temperature_c is None and len(named) >= _MANY_ERRORS


_OF_PROCESSES = {"Used GPU Memory", "used_memory", "Name", "process_name"}
_MANY_ERRORS = 3
UNFIT = "cannot execute binary file"  # a shell's words for what is there and is no program of this machine


class Smi(Value, frozen=True, kw_only=True):
    """What nvidia-smi said. `failure` is its message when it shows no table."""

    library: LibraryVersion | None = None
    module: ModuleVersion | None = None
    cuda: CudaVersion | None = None
    gpus: tuple[SmiGpu, ...] = ()
    processes: tuple[GpuProcess, ...] = ()
    process_list: bool = False  # the list of processes is there, with or without entries
    failure: str | None = None
    exit: int | None = None
    recognised: bool = True  # False: it printed something that is neither a table nor a known failure


class SmiCsv(Shown, frozen=True, kw_only=True):
    """One list of `nvidia-smi --query-... --format=csv`: field names without their units, and the values as printed."""

    fields: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...] = ()
    closed: bool = False  # the list is known to end here

    def column(self, *names: str) -> tuple[str, ...] | None:
        """The values of the first of these fields that the list has; None where it has none of them."""
        place = next((self.fields.index(name) for name in names if name in self.fields), None)
        return None if place is None else tuple(row[place] for row in self.rows)


class GpuHealth(Value, frozen=True, kw_only=True):
    """What NVML and the sections of nvidia-smi say alike of one GPU; None: not shown."""

    address: str | None = None
    temperature_c: Celsius | None = None
    throttle_reasons: tuple[str, ...] = ()  # those that are active now, in NVML's words: hw-slowdown ...
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    retired_pages_pending: bool | None = None  # pages to be taken out of use at the next reset (GPUs before Ampere)
    recovery_action: str | None = None  # in NVML's words: none, gpu-reset, node-reboot, drain-and-reset ...
    pcie_generation: Generation | None = None
    pcie_generation_max: Generation | None = None
    pcie_width: Lanes | None = None
    pcie_width_max: Lanes | None = None
    nvlinks_active: Count | None = None
    nvlinks_inactive: Count | None = None
    fabric_state: str | None = None  # not-supported | not-started | in-progress | completed
    fabric_status: str | None = None  # how the registration with the fabric ended: Success, or an error
    vgpu_mode: str | None = None  # none | passthrough | vgpu | host-vgpu | host-vsga
    vgpu_license: str | None = None  # licensed | unlicensed | expired | ..., as NVML or nvidia-smi words it, in small letters


class NvmlGpu(GpuHealth, frozen=True, kw_only=True):
    """One GPU as NVML describes it; every value was asked on its own and may be None."""

    index: GpuIndex
    name: str | None = None
    uuid: str | None = None
    compute_capability: ComputeCapability | None = None
    memory_total_bytes: Bytes | None = None
    memory_used_bytes: Bytes | None = None
    memory_reserved_bytes: Bytes | None = None
    mig_mode: str | None = None  # enabled | disabled
    mig_uuids: tuple[str, ...] = ()
    compute_mode: str | None = None
    mps_clients: Count | None = None  # processes that compute through MPS, in whichever PID namespace
    persistence: str | None = None
    power_w: Watts | None = None
    power_limit_w: Watts | None = None
    vbios: str | None = None
    ecc_mode: str | None = None
    ecc_uncorrected_volatile: Count | None = None
    sm_clock_mhz: Megahertz | None = None
    sm_clock_max_mhz: Megahertz | None = None
    memory_clock_max_mhz: Megahertz | None = None
    memory_bus_bits: Count | None = None
    temperature_slowdown_c: Celsius | None = None  # where the hardware begins to slow itself down
    handle_error: str | None = None  # the GPU is counted but cannot be opened
    errors: dict[str, str] = msgspec.field(default_factory=dict)  # query -> NVML's answer, for each value that failed


class Nvml(Value, frozen=True, kw_only=True):
    code: int  # nvmlReturn_t of nvmlInit; 0 is success
    message: str | None = None
    library: LibraryVersion | None = None
    path: str | None = None  # the file that was loaded
    cuda: CudaVersion | None = None
    provider: str | None = None  # nvidia-ml-py 13.x | ctypes
    provider_error: str | None = None  # why `import pynvml` did not serve
    confidential_compute: str | None = None  # off | on | devtools: the system's confidential-computing mode
    confidential_compute_ready: bool | None = None  # whether GPUs accept work in that mode
    gpus: tuple[NvmlGpu, ...] = ()
    processes: tuple[GpuProcess, ...] = ()


class Process(Shown, frozen=True, kw_only=True):
    """A process that holds a GPU, by NVML's lists or an open /dev/nvidia* file."""

    pid: Pid
    ppid: Pid | None = None
    user: str | None = None
    own: bool | None = None
    state: Literal["running", "stopped", "orphaned", "defunct", "uninterruptible", "unknown"] = "unknown"
    start_time: float | None = None
    command: str | None = None
    devices: tuple[str, ...] = ()
    waits: str | None = None  # in uninterruptible sleep: where in the kernel, with the module where that was told
    in_driver: bool | None = None  # whether that is in NVIDIA's driver, by the kernel's whole stack of it
    service: bool | None = None  # its cgroup is a .service
    namespaced: bool | None = None  # True: not visible in this PID namespace


class Processes(Value, frozen=True, kw_only=True):
    processes: tuple[Process, ...]
    provider: str | None = None  # psutil 7.x | /proc
    provider_error: str | None = None
    complete: bool = True  # False: other users' open files could not be read

    def find(self, pid: int) -> Process | None:
        return next((entry for entry in self.processes if entry.pid == pid), None)


LIBRARIES = Key[Libraries]("libraries")
SMI = Key[Smi]("nvidia-smi")
SMI_CSV = Key[SmiCsv]("nvidia-smi-csv")
NVML = Key[Nvml]("nvml")
DRIVER_FILES = Key[Libraries]("driver-files")  # libcuda and libnvidia-ml in the usual folders
WSL_LIBRARIES = Key[Libraries]("wsl-libraries")  # /usr/lib/wsl/lib, what Windows lends
HANGS = Key[Hangs]("hangs")  # probes that gave no answer within their limit
PROCESSES = Key[Processes]("processes")
