"""Where the program runs: marks of a container (which prove nothing alone), WSL, Jetson, a virtual machine.

Files that say something by their place alone (/.dockerenv, the firmware's product name) have parsers that no pasted text wakes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import CONTAINER_MARKS, HYPERVISOR, TEGRA, WSL
from cudadoctor.parsers.base import Output, Parser, Text, first_line
from cudadoctor.parsers.shell import root_command

_CGROUP = lazy(r"^\s{0,16}\d{1,4}:[\w,=.-]{0,200}:(?P<path>/.{0,1000})$")
_CGROUP_MARK = lazy(r"docker|kubepods|libpod|lxc|containerd|garden|machine\.slice")
_HOST_INIT = "/init.scope"  # the host's own systemd; a container's first process is not in this group
_VARIABLE = lazy(r"^\s{0,16}container=(?P<engine>[\w.-]{1,60})$")
# Variables that an engine sets in each of its containers, whatever their value.
_OF_ENGINE = lazy(r"^\s{0,16}(?P<name>KUBERNETES_SERVICE_HOST|APPTAINER_CONTAINER|SINGULARITY_CONTAINER)=")
_ENGINE_NAME = lazy(r"^(?P<engine>[a-z][a-z-]{1,30})$")
_ROOT_MOUNT = lazy(r"^overlay / overlay \S{0,4000}?(?P<mark>containerd|containers/storage|docker|kubelet)")
_GVISOR = lazy(r"^(?:none|\S{1,200}) / 9p (?=\S{0,2000}\btrans=fd\b)")
# Docker's and Podman's own host name, twelve hexadecimal digits, in a prompt; and commands that go into a running container.
_CONTAINER_PROMPT = lazy(r"^\s{0,16}(?:\([^()\n]{1,40}\) ?)?(?P<host>[\w.-]{1,40}@[0-9a-f]{12}):[^\n]{0,200}[#$](?:\s|$)")
_ENTERED = lazy(
    r"^(?:sudo )?(?:(?:docker|podman|nerdctl|kubectl|crictl|docker compose|docker-compose|lxc|incus) )(?:-\S+ ){0,4}exec\b"
    r"|^(?:sudo )?(?:(?P<proxmox>pct) (?:enter|exec) \d{1,6}|lxc-attach )"
)
_DETECTED = lazy(r"^(?P<engine>lxc(?:-libvirt)?|systemd-nspawn|docker|podman|rkt|proot)$")
_KERNEL_LINE = lazy(r"^\s{0,16}Linux (?:version \d|\S{1,100} \d{1,3}\.\d{1,4}\S{0,100} )")
_TEGRA_LINE = lazy(r"^# R\d{2} \(release\)")
_HYPERVISORS = (
    ("VirtualBox", "VirtualBox"),
    ("VMware", "VMware"),
    ("Virtual Machine", "Hyper-V"),
    ("HVM domU", "Xen"),
    ("KVM", "KVM"),
    ("Standard PC", "QEMU"),
    ("QEMU", "QEMU"),
    ("Bochs", "QEMU"),
    ("OpenStack", "OpenStack"),
    ("RHEV", "KVM"),
    ("oVirt", "KVM"),
    ("BHYVE", "bhyve"),
    ("Google Compute Engine", "Google Compute Engine"),
    ("Alibaba Cloud", "Alibaba Cloud"),
    ("Droplet", "KVM"),
)
# systemd-detect-virt: its names for virtual machines.
_DETECTED_MACHINES = {
    "kvm": "KVM", "qemu": "QEMU", "vmware": "VMware", "microsoft": "Hyper-V", "xen": "Xen", "oracle": "VirtualBox", "amazon": "Amazon EC2",
    "google": "Google Compute Engine", "bhyve": "bhyve", "parallels": "Parallels",
}  # fmt: skip
_ASKS_VIRT = lazy(r"^systemd-detect-virt(?: -v| --vm)?$")
_HOSTNAMECTL = lazy(r"^\s{1,20}Virtualization: (\w{2,20})$")
_EC2 = lazy(r"^(?:[a-z]{1,3}\d{1,2}[a-z-]{0,6}\.(?!metal)\w{2,12})$")


def parse_cgroup(text: Text) -> Output:
    """Names of container engines in the control groups of process 1. Without one, only the host's own group says "no container"."""
    host = None
    for number, group in text.rows(_CGROUP):
        mark = _CGROUP_MARK.search(group["path"])
        if mark is not None:
            yield text.fact(CONTAINER_MARKS, (f"cgroup {mark[0]}",), text.quote(number), whole=False)
            return
        if group["path"] == _HOST_INIT:
            host = number
    if host is not None:
        yield text.fact(CONTAINER_MARKS, None, text.quote(host), whole=False)


def _mark_by_being_there(path: str) -> Callable[[Text], Output]:
    """Docker and Podman leave a file in each container, which may be empty."""
    return lambda text: [text.fact(CONTAINER_MARKS, (path,), text.absent(f"{path}: there"), whole=False)]


def _of_variable(line: str) -> tuple[str] | None:
    """`container=podman`, which some engines put into the environment."""
    found = _VARIABLE.match(line) if "container=" in line else None
    of_engine = _OF_ENGINE.match(line) if "=" in line else None
    return (f"container={found['engine']}",) if found is not None else (of_engine["name"],) if of_engine is not None else None


def _of_root_mount(line: str) -> tuple[str] | None:
    """What is mounted as /: the layers of an image under the folder of an engine, or gVisor's own file server."""
    found = _ROOT_MOUNT.match(line)
    return (f"/ from {found['mark']}",) if found is not None else ("gVisor",) if _GVISOR.match(line) else None


def _of_manager(line: str) -> tuple[str] | None:
    """/run/systemd/container and /run/host/container-manager hold the engine's name: lxc, systemd-nspawn, podman."""
    found = _ENGINE_NAME.match(line.strip())
    return (found["engine"],) if found is not None and found["engine"] != "wsl" else None


def parse_session(text: Text) -> Output:
    """A shell inside a container, by its prompt or by the command that went in. The last one counts: that is where the text ends."""
    for number, line in reversed(list(enumerate(text.plain_lines, 1))):
        prompt = _CONTAINER_PROMPT.match(line) if "@" in line else None
        entered = _ENTERED.match(root_command(line) or "") if "@" in line or "exec" in line or "pct " in line or "lxc-" in line else None
        detected = _DETECTED.match(line) if number > 1 and "detect-virt" in text.plain_lines[number - 2] else None
        if prompt is not None or entered is not None or detected is not None:
            mark = f"prompt {prompt['host']}" if prompt is not None else detected["engine"] if detected is not None else ""
            if entered is not None:
                mark = ("lxc of Proxmox: " if entered["proxmox"] else "") + entered[0].removeprefix("sudo ")
            yield text.fact(CONTAINER_MARKS, (mark,), text.quote(number), whole=False)
            return


def parse_kernel(text: Text) -> Output:
    """A kernel made by Microsoft is WSL's; a kernel that names Tegra runs on a Jetson."""
    for number, line in enumerate(text.plain_lines, 1):
        if not _KERNEL_LINE.match(line):
            continue
        words = line.lower()
        yield text.fact(WSL, "microsoft" in words, text.quote(number))
        if "-tegra" in words:
            yield text.fact(TEGRA, True, text.quote(number))
        elif not text.pasted and " x86_64" in words:
            yield text.fact(TEGRA, None, text.quote(number))  # a Jetson is an ARM machine
        return


def parse_dmi(text: Text) -> Output:
    """The firmware's product name: that of a hypervisor, or of a machine (then known to be none)."""
    product = text.plain_lines[0].strip()
    if not product:
        return
    name = next((name for words, name in _HYPERVISORS if words in product), None)
    if name is None and _EC2.match(product):
        name = "Amazon EC2"
    yield text.fact(HYPERVISOR, name, text.quote(1))


def parse_detected(text: Text) -> Output:
    """What `systemd-detect-virt` of a paste answered, or hostnamectl says."""
    lines = text.plain_lines
    for number, line in enumerate(lines, 1):
        asked = "detect-virt" in line and number < len(lines) and _ASKS_VIRT.match(root_command(line) or "") is not None
        told = _HOSTNAMECTL.match(line)
        name = _DETECTED_MACHINES.get(lines[number].strip() if asked else told[1] if told is not None else "")
        if name is not None:
            yield text.fact(HYPERVISOR, name, text.quote(number, number + asked))
            return


_MARKS = (CONTAINER_MARKS.name,)
_mark = partial(first_line, CONTAINER_MARKS, whole=False)
PARSERS = (
    Parser(
        name="surroundings",
        reads=("proc-version", "uname"),
        keys=(WSL.name, TEGRA.name),
        parse=parse_kernel,
        wakes=("Linux version ", "GNU/Linux"),
    ),
    Parser(name="cgroup", reads=("cgroup",), keys=_MARKS, parse=parse_cgroup, wakes=("/docker/", "kubepods", "libpod-", ":/lxc/")),
    Parser(name="dockerenv", reads=("dockerenv",), keys=_MARKS, parse=_mark_by_being_there("/.dockerenv"), absent=_MARKS),
    Parser(name="containerenv", reads=("containerenv",), keys=_MARKS, parse=_mark_by_being_there("/run/.containerenv"), absent=_MARKS),
    Parser(name="container_manager", reads=("container-manager",), keys=_MARKS, parse=_mark(_of_manager), absent=_MARKS),
    Parser(name="root_mount", reads=("root-mount",), keys=_MARKS, parse=_mark(_of_root_mount)),
    Parser(
        name="container_variable",
        reads=("environment",),
        keys=_MARKS,
        parse=_mark(_of_variable),
        wakes=("container=", "KUBERNETES_SERVICE_HOST=", "APPTAINER_CONTAINER=", "SINGULARITY_CONTAINER="),
    ),
    Parser(
        name="container_session",
        keys=_MARKS,
        parse=parse_session,
        wakes=("nvidia", "NVIDIA", "initialize NVML", "libcuda.so", "of memory", "OF_MEMORY"),  # what such a prompt has a bearing on
    ),
    Parser(
        name="tegra",
        reads=("tegra",),
        keys=(TEGRA.name,),
        parse=first_line(TEGRA, lambda line: True if _TEGRA_LINE.match(line) else None),
        wakes=("(release), REVISION",),
        absent=(TEGRA.name,),
    ),
    Parser(name="detect_virt", keys=(HYPERVISOR.name,), parse=parse_detected, wakes=("systemd-detect-virt", "Virtualization: ")),
    Parser(name="dmi", reads=("dmi",), keys=(HYPERVISOR.name,), parse=parse_dmi),
)
