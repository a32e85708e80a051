"""Fact values: device nodes, the user, the operating system and its surroundings."""

from __future__ import annotations

from cudadoctor.model.facts import Key
from cudadoctor.model.values.base import Value


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


DEVICE_NODES = Key[DeviceNodes]("device-nodes")
DEVICE_NODES_AFTER = Key[DeviceNodes]("device-nodes-after")
USER = Key[User]("user")
OPERATING_SYSTEM = Key[OperatingSystem]("operating-system")
KERNEL = Key[Kernel]("kernel")
ENVIRONMENT = Key[Environment]("environment")
NVIDIA_MODPROBE = Key[str]("nvidia-modprobe")  # its path
CONTAINER_MARKS = Key[tuple[str, ...]]("container-marks")  # /.dockerenv, cgroup names ...: they prove nothing alone
WSL = Key[bool]("wsl")
TEGRA = Key[bool]("tegra")
HYPERVISOR = Key[str]("hypervisor")
MAY_MAKE_NODES = Key[bool]("may-make-nodes")  # CAP_MKNOD is in the effective set
