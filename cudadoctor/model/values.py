"""What facts are about: the typed values that parsers produce, and their keys.

Sizes are bytes, times seconds, rates GB/s (1e9 bytes per second), temperatures degrees Celsius, powers watts.
A field that is None was not stated by that source.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from cudadoctor.model.facts import Key
from cudadoctor.model.version import (
    ComputeCapability,
    CudaVersion,
    LibraryVersion,
    ModuleVersion,
    PackageVersion,
    ToolkitVersion,
)


class Value(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=False):
    """Base of all fact values."""


# ---------------------------------------------------------------- PCI bus and kernel
class PciFunction(Value, frozen=True, kw_only=True):
    """One function on the PCI bus. Ids are four lower-case hex digits without 0x, `class_code` too ("0302" is a 3D controller)."""

    address: str  # normalised: 0000:01:00.0
    vendor: str | None = None
    device: str | None = None
    class_code: str | None = None
    name: str | None = None
    driver: str | None = None  # the kernel driver bound to it; None where none is, or where this source does not say
    driver_known: bool = False  # whether `driver` None means "no driver"
    modules: tuple[str, ...] = ()  # kernel modules that could drive it
    revision: str | None = None
    line: int = 0

    @property
    def is_nvidia_gpu(self) -> bool:
        if self.vendor is not None and self.class_code is not None:
            return self.vendor == "10de" and self.class_code.startswith("03")
        return False


class PciBus(Value, frozen=True, kw_only=True):
    functions: tuple[PciFunction, ...]

    @property
    def nvidia_gpus(self) -> tuple[PciFunction, ...]:
        return tuple(function for function in self.functions if function.is_nvidia_gpu)


class KernelModule(Value, frozen=True, kw_only=True):
    name: str
    used_by: tuple[str, ...] = ()
    line: int = 0


class KernelModules(Value, frozen=True, kw_only=True):
    modules: tuple[KernelModule, ...]

    def find(self, name: str) -> KernelModule | None:
        wanted = name.replace("-", "_")
        return next((module for module in self.modules if module.name.replace("-", "_") == wanted), None)


class LoadedDriver(Value, frozen=True, kw_only=True):
    """The NVIDIA kernel module in memory (/proc/driver/nvidia/version)."""

    version: ModuleVersion
    flavour: Literal["open", "proprietary"] | None = None


class ModuleFile(Value, frozen=True, kw_only=True):
    """An nvidia.ko on disk. `kernel` is the release it belongs to."""

    path: str
    kernel: str | None = None
    version: ModuleVersion | None = None
    flavour: Literal["open", "proprietary"] | None = None


class ModuleFiles(Value, frozen=True, kw_only=True):
    files: tuple[ModuleFile, ...]


class DkmsEntry(Value, frozen=True, kw_only=True):
    module: str
    version: str
    kernel: str | None
    state: str  # added | built | installed | ...
    line: int = 0


class DkmsStatus(Value, frozen=True, kw_only=True):
    entries: tuple[DkmsEntry, ...]


class Package(Value, frozen=True, kw_only=True):
    name: str
    version: str
    state: str = "ii"
    line: int = 0


class DriverPackages(Value, frozen=True, kw_only=True):
    """Installed distribution packages whose name speaks of NVIDIA or CUDA."""

    packages: tuple[Package, ...]


class KernelEvent(Value, frozen=True, kw_only=True):
    """One line of the kernel log that speaks of the GPU. `seconds` since boot where the line has it."""

    text: str
    line: int
    seconds: float | None = None
    xid: int | None = None
    address: str | None = None


class KernelLog(Value, frozen=True, kw_only=True):
    events: tuple[KernelEvent, ...]


# ---------------------------------------------------------------- device nodes, user, surroundings
class DeviceNode(Value, frozen=True, kw_only=True):
    path: str
    mode: str  # as ls prints it: crw-rw-rw-
    owner: str
    group: str
    major: int | None = None
    minor: int | None = None
    line: int = 0


class DeviceNodes(Value, frozen=True, kw_only=True):
    """The listing of /dev as it was before any probe opened a device."""

    nodes: tuple[DeviceNode, ...]
    absent: tuple[str, ...] = ()  # paths that `ls` said are not there; may end in a `*`

    def find(self, path: str) -> DeviceNode | None:
        return next((node for node in self.nodes if node.path == path), None)

    def said_absent(self, path: str) -> bool:
        """Whether the listing itself says that this path is not there: knowledge even where it is not whole."""
        return any(path == entry or (entry.endswith("*") and path.startswith(entry[:-1])) for entry in self.absent)


class User(Value, frozen=True, kw_only=True):
    name: str
    uid: int
    gid: int
    groups: tuple[str, ...] = ()
    may_make_nodes: bool | None = None  # CAP_MKNOD in the effective set


class OperatingSystem(Value, frozen=True, kw_only=True):
    id: str | None = None  # ubuntu, debian, fedora, rhel, arch, opensuse-leap, ...
    version_id: str | None = None
    codename: str | None = None
    like: tuple[str, ...] = ()
    name: str | None = None


class Kernel(Value, frozen=True, kw_only=True):
    system: str
    release: str
    machine: str | None = None


class Environment(Value, frozen=True, kw_only=True):
    variables: dict[str, str]
    lines: dict[str, int]


# ---------------------------------------------------------------- driver's user-space side
class LibraryFile(Value, frozen=True, kw_only=True):
    """A library in the loader's cache or a known folder."""

    name: str
    path: str
    target: str | None = None  # what a link points to
    line: int = 0


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
    pid: int
    kind: str | None = None  # C compute, G graphics
    name: str | None = None
    memory_bytes: int | None = None


class SmiGpu(Value, frozen=True, kw_only=True):
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
    errors: tuple[str, ...] = ()  # cells that say ERR! or Unknown Error
    line: int = 0


class Smi(Value, frozen=True, kw_only=True):
    """What nvidia-smi said. `failure` is its message when it shows no table."""

    library: LibraryVersion | None = None
    module: ModuleVersion | None = None
    cuda: CudaVersion | None = None
    gpus: tuple[SmiGpu, ...] = ()
    processes: tuple[GpuProcess, ...] = ()
    failure: str | None = None
    exit: int | None = None
    recognised: bool = True  # False: it printed something that is neither a table nor a known failure


class NvmlGpu(Value, frozen=True, kw_only=True):
    """One GPU as NVML describes it; every value was asked on its own and may be None."""

    index: int
    address: str | None = None
    name: str | None = None
    uuid: str | None = None
    compute_capability: ComputeCapability | None = None
    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None
    memory_reserved_bytes: int | None = None
    mig_mode: str | None = None  # enabled | disabled
    mig_uuids: tuple[str, ...] = ()
    compute_mode: str | None = None
    persistence: str | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    throttle_reasons: tuple[str, ...] = ()
    ecc_mode: str | None = None
    ecc_uncorrected_volatile: int | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    pcie_generation: int | None = None
    pcie_generation_max: int | None = None
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    sm_clock_mhz: int | None = None
    sm_clock_max_mhz: int | None = None
    memory_clock_max_mhz: int | None = None
    memory_bus_bits: int | None = None
    recovery_action: str | None = None
    nvlinks_active: int | None = None
    nvlinks_inactive: int | None = None
    handle_error: str | None = None  # the GPU is counted but cannot be opened
    errors: dict[str, str] = {}  # query -> NVML's answer, for each value that failed


class Nvml(Value, frozen=True, kw_only=True):
    code: int  # nvmlReturn_t of nvmlInit; 0 is success
    message: str | None = None
    library: LibraryVersion | None = None
    cuda: CudaVersion | None = None
    provider: str | None = None  # nvidia-ml-py 13.x | ctypes
    provider_error: str | None = None  # why `import pynvml` did not serve
    gpus: tuple[NvmlGpu, ...] = ()
    processes: tuple[GpuProcess, ...] = ()


# ---------------------------------------------------------------- the ladder
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
    components: dict[str, str] = {}  # nvvm, libdevice, nvrtc, nvjitlink, cudart -> file that Numba's own resolver names
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


# ---------------------------------------------------------------- toolkit and Python
class Toolkit(Value, frozen=True, kw_only=True):
    """A toolkit folder: what it holds."""

    path: str
    version: ToolkitVersion | None = None
    has_nvcc: bool = False
    has_nvvm: bool = False
    has_libdevice: bool = False
    rule: str | None = None  # CUDA_HOME, CUDA_PATH, PATH, /usr/local/cuda, /usr/local/cuda-*, /usr, conda
    stale: bool = False  # the folder or link is there, its content is not


class Nvcc(Value, frozen=True, kw_only=True):
    version: ToolkitVersion
    build: str | None = None


class Component(Value, frozen=True, kw_only=True):
    """The file that this Numba would load for one part of the toolkit."""

    name: str  # nvvm | libdevice | nvrtc | nvjitlink | cudart
    path: str | None = None
    version: ToolkitVersion | None = None
    rule: str | None = None  # wheel nvidia-cuda-nvrtc | conda | CUDA_HOME | /usr/local/cuda | ldconfig
    hides: tuple[str, ...] = ()


class Toolkits(Value, frozen=True, kw_only=True):
    toolkits: tuple[Toolkit, ...] = ()
    components: tuple[Component, ...] = ()

    def component(self, name: str) -> Component | None:
        return next((entry for entry in self.components if entry.name == name), None)


class PythonPackage(Value, frozen=True, kw_only=True):
    name: str
    version: PackageVersion
    build: str | None = None  # cpu, cu128, a conda build string
    path: str | None = None
    requires: tuple[str, ...] = ()


class Shadow(Value, frozen=True, kw_only=True):
    """A file of the user's that hides a package."""

    module: str
    path: str


class ConfigLine(Value, frozen=True, kw_only=True):
    path: str
    line: int
    text: str


class PythonEnvironment(Value, frozen=True, kw_only=True):
    """The examined interpreter, from metadata and listings alone."""

    path: str
    version: str
    prefix: str | None = None
    conda: str | None = None
    virtual: bool = False
    packages: tuple[PythonPackage, ...] = ()
    shadows: tuple[Shadow, ...] = ()
    numba_config: tuple[ConfigLine, ...] = ()
    numba_cuda_redirects: bool | None = None  # numba-cuda's start-up hook is in place
    others_with_numba: tuple[str, ...] = ()

    def package(self, name: str) -> PythonPackage | None:
        wanted = name.lower().replace("_", "-")
        return next((entry for entry in self.packages if entry.name.lower().replace("_", "-") == wanted), None)


# ---------------------------------------------------------------- processes
class Process(Value, frozen=True, kw_only=True):
    """A process that holds a GPU, by NVML's lists or an open /dev/nvidia* file."""

    pid: int
    ppid: int | None = None
    sid: int | None = None
    user: str | None = None
    own: bool | None = None
    state: Literal["running", "stopped", "orphaned", "defunct", "uninterruptible", "unknown"] = "unknown"
    start_time: float | None = None
    command: str | None = None
    devices: tuple[str, ...] = ()
    service: bool | None = None  # its cgroup is a .service
    namespaced: bool | None = None  # True: not visible in this PID namespace
    line: int = 0


class Processes(Value, frozen=True, kw_only=True):
    processes: tuple[Process, ...]
    provider: str | None = None  # psutil 7.x | /proc
    provider_error: str | None = None
    complete: bool = True  # False: other users' open files could not be read

    def find(self, pid: int) -> Process | None:
        return next((entry for entry in self.processes if entry.pid == pid), None)


PCI = Key[PciBus]("pci")
MODULES = Key[KernelModules]("kernel-modules")
LOADED_DRIVER = Key[LoadedDriver]("loaded-driver")
MODULE_FILES = Key[ModuleFiles]("module-files")
DKMS = Key[DkmsStatus]("dkms")
SECURE_BOOT = Key[bool]("secure-boot")
DRIVER_PACKAGES = Key[DriverPackages]("driver-packages")
KERNEL_LOG = Key[KernelLog]("kernel-log")
DEVICE_NODES = Key[DeviceNodes]("device-nodes")
DEVICE_NODES_AFTER = Key[DeviceNodes]("device-nodes-after")
USER = Key[User]("user")
OPERATING_SYSTEM = Key[OperatingSystem]("operating-system")
KERNEL = Key[Kernel]("kernel")
ENVIRONMENT = Key[Environment]("environment")
LIBRARIES = Key[Libraries]("libraries")
SMI = Key[Smi]("nvidia-smi")
NVML = Key[Nvml]("nvml")
LADDER = Key[Ladder]("ladder")
NVCC = Key[Nvcc]("nvcc")
TOOLKITS = Key[Toolkits]("toolkits")
PYTHON = Key[PythonEnvironment]("python")
PROCESSES = Key[Processes]("processes")
NVIDIA_MODPROBE = Key[str]("nvidia-modprobe")  # its path
CONTAINER_MARKS = Key[tuple[str, ...]]("container-marks")  # /.dockerenv, cgroup names ...: they prove nothing alone
WSL = Key[bool]("wsl")
TEGRA = Key[bool]("tegra")
HYPERVISOR = Key[str]("hypervisor")
MAY_MAKE_NODES = Key[bool]("may-make-nodes")  # CAP_MKNOD is in the effective set
DRIVER_FILES = Key[Libraries]("driver-files")  # libcuda and libnvidia-ml in the usual folders
WSL_LIBRARIES = Key[Libraries]("wsl-libraries")  # /usr/lib/wsl/lib, what Windows lends
HANGS = Key[Hangs]("hangs")  # probes that gave no answer within their limit
