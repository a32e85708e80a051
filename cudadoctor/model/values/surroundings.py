"""Fact values: device nodes, the user, the operating system and its surroundings, and the engines for containers on a host."""

from __future__ import annotations

import msgspec

from cudadoctor.model.facts import Key
from cudadoctor.model.values.base import Shown, Value
from cudadoctor.model.version import ModuleVersion

NVIDIA_MAJOR = 195  # of nvidiactl and each GPU; nvidia-uvm gets one anew each time (Linux: Documentation/admin-guide/devices.txt)


class DeviceNode(Shown, frozen=True, kw_only=True):
    path: str
    mode: str  # as ls prints it: crw-rw-rw-
    owner: str
    group: str
    major: int | None = None
    minor: int | None = None


class DeviceNodes(Value, frozen=True, kw_only=True):
    """The listing of /dev as it was before any probe opened a device."""

    nodes: tuple[DeviceNode, ...]
    absent: tuple[str, ...] = ()  # paths that `ls` said are not there; may end in a `*`

    def find(self, path: str) -> DeviceNode | None:
        return next((node for node in self.nodes if node.path == path), None)

    def said_absent(self, path: str) -> bool:
        """Whether the listing itself says that this path is not there: knowledge even where it is not whole."""
        return any(path == entry or (entry.endswith("*") and path.startswith(entry[:-1])) for entry in self.absent)


class DeviceRule(Value, frozen=True, kw_only=True):
    """A rule of an LXC container's configuration that allows the character devices of one major number."""

    major: int
    line: int


class DeviceRules(Value, frozen=True, kw_only=True):
    rules: tuple[DeviceRule, ...]
    container: str | None = None  # Proxmox: the number of the container


class User(Value, frozen=True, kw_only=True):
    name: str
    uid: int
    gid: int
    groups: tuple[str, ...] = ()


class OperatingSystem(Value, frozen=True, kw_only=True):
    id: str | None = None  # ubuntu, debian, fedora, rhel, arch, opensuse-leap, ...
    version_id: str | None = None
    codename: str | None = None
    like: tuple[str, ...] = ()
    variant: str | None = None  # server, workstation, silverblue, ...


class Kernel(Value, frozen=True, kw_only=True):
    system: str
    release: str
    machine: str | None = None


class Environment(Value, frozen=True, kw_only=True):
    variables: dict[str, str]
    lines: dict[str, int]


class Directive(Shown, frozen=True, kw_only=True):
    """A line of a systemd unit, or of a file beside it."""

    unit: str  # whisper.service
    name: str
    value: str


class SetIn(Value, frozen=True, kw_only=True):
    """A line of a file that sets a variable of the environment; `alone`: it sets this one and does nothing else, as far as is seen."""

    name: str
    path: str
    line: int
    alone: bool = True
    unit: str | None = None  # the service that reads the file


class SpacedName(Value, frozen=True, kw_only=True):
    """A variable's name with a blank beside it. `command`: what wrote it so (set, export); None: the environment holds it."""

    name: str
    command: str | None
    line: int


class Start(Shown, frozen=True, kw_only=True):
    """A command that starts a container or a batch job."""

    program: str  # docker, podman, apptainer, srun, #SBATCH ...
    asks: bool  # whether it asks for a GPU


class WslDistribution(Shown, frozen=True, kw_only=True):
    """A Linux that WSL has; `version` 1 has no GPU."""

    name: str
    version: int
    default: bool = False


class OfferedGpus(Value, frozen=True, kw_only=True):
    """What nodes of Kubernetes offer, by the name behind nvidia.com/, and the line in which a pod asks for a whole GPU (0: none does)."""

    offered: dict[str, int]
    asked_line: int = 0


class Launcher(Shown, frozen=True, kw_only=True):
    """A command that starts several processes of a program on one node: torchrun --nproc_per_node=4."""

    program: str
    option: str  # as it is written, up to its number
    processes: int


class Setting(Value, frozen=True, kw_only=True):
    """What a user's text says of the place where its programs run: words and commands, not measurements.

    `words` holds the line of the first sign of each kind (container, wsl, snap-docker, docker-desktop, notebook, mac ...); `prose` names
    those that only somebody's own words speak of.
    """

    words: dict[str, int] = msgspec.field(default_factory=dict)
    prose: tuple[str, ...] = ()
    containers: tuple[Start, ...] = ()
    jobs: tuple[Start, ...] = ()
    visible: str | None = None  # the last value of CUDA_VISIBLE_DEVICES that is written anywhere in the text
    visible_line: int = 0
    launcher: Launcher | None = None  # the last one


class Limit(Shown, frozen=True, kw_only=True):
    """A finite limit: bytes, or a number of processes or files."""

    name: str
    value: int


# System calls of Python's modules: refused, they say nothing of why the CUDA driver does not start.
OF_PYTHON = ("sched_getaffinity", "sched_getparam", "getrandom", "getpriority", "memfd_create", "prlimit64", "statfs", "getcwd")


class Refusal(Shown, frozen=True, kw_only=True):
    """A system call, or a part of /proc, that this process is refused, and the answer."""

    name: str
    answer: str


class ContainerEngine(Shown, frozen=True, kw_only=True):
    name: str  # docker, podman, nerdctl, containerd
    path: str
    snap: bool = False  # confined: it sees neither the host's driver nor its settings


class CdiSpec(Shown, frozen=True, kw_only=True):
    """A CDI specification: which devices it offers, and the driver whose files it lists."""

    path: str
    kind: str | None = None  # nvidia.com/gpu
    driver: ModuleVersion | None = None
    devices: tuple[str, ...] = ()


class ContainerStack(Value, frozen=True, kw_only=True):
    """`runtimes`: files of settings that name the NVIDIA runtime -> the line that does."""

    engines: tuple[ContainerEngine, ...]
    toolkit: str | None = None  # where nvidia-ctk or nvidia-container-runtime is
    runtimes: dict[str, int] = msgspec.field(default_factory=dict)
    rootless: bool = False
    desktop: bool = False  # Docker Desktop: a virtual machine of its own
    denied: tuple[str, ...] = ()  # files that this user may not read
    specifications: tuple[CdiSpec, ...] = ()

    def find(self, name: str) -> ContainerEngine | None:
        return next((engine for engine in self.engines if engine.name == name), None)


DEVICE_NODES = Key[DeviceNodes]("device-nodes")
DEVICE_NODES_AFTER = Key[DeviceNodes]("device-nodes-after")
MAJORS = Key[dict[str, int]]("majors")  # device driver -> the major number that it has at present
DEVICE_RULES = Key[DeviceRules]("device-rules")
USER = Key[User]("user")
OPERATING_SYSTEM = Key[OperatingSystem]("operating-system")
BOOTED_IMAGE = Key[str]("booted-image")  # what OSTree or bootc booted, a name or a reference; empty where only the kind is said
# grub | systemd-boot | proxmox-boot-tool (systemd-boot, kept by that): where the running kernel has its parameters from
BOOT_LOADER = Key[str]("boot-loader")
KEEPING_OUT = Key[str]("keeping-out")  # the kernel's parameter by which nvidia is not loaded
KEEPING_FILES = Key[tuple[str, ...]]("keeping-files")  # those of modprobe by which nvidia is not loaded
KERNEL = Key[Kernel]("kernel")
ENVIRONMENT = Key[Environment]("environment")
UNIT_FILES = Key[tuple[Directive, ...]]("unit-files")  # of services, what decides on devices and /tmp
SET_IN = Key[tuple[SetIn, ...]]("set-in")  # in the order in which a shell reads them
SPACED_NAMES = Key[tuple[SpacedName, ...]]("spaced-names")
SLURM_CLIENT = Key[str]("slurm-client")  # its path
NVIDIA_MODPROBE = Key[str]("nvidia-modprobe")  # its path
CONTAINER_MARKS = Key[tuple[str, ...]]("container-marks")  # /.dockerenv, cgroup names ...: they prove nothing alone
WSL = Key[bool]("wsl")
TEGRA = Key[bool]("tegra")
TOOLKIT_MODULES = Key[tuple[str, ...]]("toolkit-modules")  # of a cluster's environment modules, as `module load` takes them
WSL_DISTRIBUTIONS = Key[tuple[WslDistribution, ...]]("wsl-distributions")
DRAINED_NODE = Key[str]("drained-node")  # its name for Slurm
OFFERED_GPUS = Key[OfferedGpus]("offered-gpus")
HYPERVISOR = Key[str]("hypervisor")
CAPABILITIES = Key[tuple[int, ...]]("capabilities")  # the numbers of the effective set (linux/capability.h)
CAP_DAC_OVERRIDE, CAP_MKNOD = 1, 27
SETTING = Key[Setting]("setting")
LIMITS = Key[tuple[Limit, ...]]("limits")  # what is not listed has none, where the listing is whole; so for the control group
CGROUP_LIMITS = Key[tuple[Limit, ...]]("cgroup-limits")
KERNEL_INTERFACE = Key[tuple[Refusal, ...]]("kernel-interface")  # what of it this process is refused
KILLED_FOR_MEMORY = Key[int]("killed-for-memory")  # processes of this control group that the kernel killed, before the ladder
KILLED_FOR_MEMORY_AFTER = Key[int]("killed-for-memory-after")
BUNDLE = Key[str]("bundle")  # the tool that collected this evidence, where it was not the doctor: nobody climbed the ladder there
CONTAINER_STACK = Key[ContainerStack]("container-stack")
