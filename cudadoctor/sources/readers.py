"""In-process reads of a live host: files, sysfs, listings, environment. Each returns text in the form a user would paste.

A reader raises OSError where the thing cannot be read; sources/host.py turns that into a status.
"""

from __future__ import annotations

import errno
import os
import platform
import re
import stat
import sys
from collections.abc import Callable, Iterator

from cudadoctor.sources.container_stack import read_container_stack
from cudadoctor.sources.held_packages import list_held_packages
from cudadoctor.sources.kernel_interface import read_kernel_interface
from cudadoctor.sources.plain_files import beginning, opened, text
from cudadoctor.sources.programs import anywhere
from cudadoctor.sources.setting_files import list_settings

FILE_LIMIT = 1 << 20  # bytes of one file; nothing that is read here is larger on a sound machine
LIBRARY_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu/nvidia/current", "/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/lib/wsl/lib",
    "/usr/lib/aarch64-linux-gnu/tegra", "/usr/lib/aarch64-linux-gnu/nvidia", "/run/opengl-driver/lib", "/usr/local/cuda/compat",
)  # fmt: skip
_MACHINES = {3: "x86", 21: "PowerPC64", 40: "ARM", 62: "x86-64", 183: "AArch64", 243: "RISC-V"}  # e_machine
# The core module of every packaging: nvidia.ko, Debian's nvidia-current.ko and nvidia-legacy-390xx.ko, Ubuntu's old nvidia_352.ko.
MODULE_NAME = re.compile(r"^(nvidia([-_](current|legacy|tesla|open|\d).*)?|nouveau|nova[-_]core)\.ko(\.|$)")
NIXOS_MODULES = "/run/booted-system/kernel-modules/lib/modules"  # NixOS has no /lib/modules
_PCI_IDS = ("/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids", "/usr/share/pci.ids", "/var/lib/pciutils/pci.ids")
_BUS = "/sys/bus/pci/devices"
_NVIDIA = "10de"
_GROUP_LIMIT = 1 << 16  # characters of one file
_GROUPS = "/sys/fs/cgroup"
_GROUP_FILES = {  # by the kind of a tree of version 1; "" is version 2
    "": ("memory.max", "memory.events", "pids.max"),
    "memory": ("memory.limit_in_bytes", "memory.oom_control"),
    "pids": ("pids.max",),
}
_DEEPEST = 32  # groups within groups


def read_file(path: str) -> str:
    """At most FILE_LIMIT bytes of a file, as text. A pipe or a device in its place is an error."""
    return text(path, FILE_LIMIT)


def read_container_manager(path: str) -> str:
    """The engine's name: systemd inside writes it to `path`, engines that keep to systemd's interface write the other file."""
    other = "/run/host/container-manager"
    return read_file(other if not os.path.exists(path) and os.path.exists(other) else path)


def read_root_mount(path: str) -> str:
    """The line of /proc/self/mounts about /: the last one counts."""
    lines = [line for line in read_file(path).split("\n") if line.split(" ")[1:2] == ["/"]]
    return "".join(f"{line}\n" for line in lines[-1:])


def read_kernel_parameters(path: str) -> str:
    """Of the running kernel's command line what boots it and what decides on drivers; the rest names disks and networks."""
    words = read_file(path).split()
    told = ("BOOT_IMAGE=", "initrd=", "modprobe.blacklist=", "module_blacklist=", "rd.driver.blacklist=", "vfio-pci.", "pci-stub.")
    return " ".join(word for word in words if word.startswith(told)) + "\n"


def read_environment(_: str) -> str:
    """All variables, one a line, as `env` prints them; a line break inside a value is written as \\n."""
    return "".join(f"{name}={value}".replace("\n", "\\n") + "\n" for name, value in sorted(os.environ.items()))


def read_pci(path: str) -> str:
    """`path:value` for vendor, device, class and revision of every function, and where its driver link points."""
    lines = []
    for address in sorted(os.listdir(path)):
        folder = f"{path}/{address}"
        for name in ("vendor", "device", "class", "revision"):
            try:
                lines.append(f"{folder}/{name}:{read_file(f'{folder}/{name}').strip()}")
            except OSError as error:
                lines.append(f"{folder}/{name}: {error.strerror}")
        try:
            lines.append(f"{folder}/driver -> {os.readlink(f'{folder}/driver')}")
        except FileNotFoundError:
            pass
        except OSError as error:
            lines.append(f"{folder}/driver: {error.strerror}")
    return "\n".join(lines) + "\n"


def list_names(path: str) -> str:
    """The names in a folder, one a line."""
    return "".join(f"{name}\n" for name in sorted(os.listdir(path)))


def _long(path: str, *, followed: bool = False) -> str:
    """One entry as `ls -l` prints it, with the full path; a device shows its numbers instead of a size."""
    info = os.stat(path) if followed else os.lstat(path)
    if stat.S_ISCHR(info.st_mode) or stat.S_ISBLK(info.st_mode):
        size = f"{os.major(info.st_rdev)}, {os.minor(info.st_rdev)}"
    else:
        size = str(info.st_size)
    target = f" -> {os.readlink(path)}" if stat.S_ISLNK(info.st_mode) else ""
    mode = stat.filemode(info.st_mode) + _access_list(path)
    return f"{mode} {info.st_nlink} {_name(info.st_uid)} {_name(info.st_gid, group=True)} {size} {path}{target}"


def _access_list(path: str) -> str:
    """What `ls -l` writes behind a mode: "+" where users or groups are named beside owner and group, so that the mode alone decides
    nothing; "?" where nobody may say.
    """
    try:
        return "+" if hasattr(os, "getxattr") and os.getxattr(path, "system.posix_acl_access") else ""
    except OSError as error:
        return "" if error.errno in (errno.ENODATA, errno.ENOTSUP, errno.ENOENT) else "?"


def _name(number: int, *, group: bool = False) -> str:
    try:
        import grp
        import pwd

        return grp.getgrgid(number).gr_name if group else pwd.getpwuid(number).pw_name
    except (ImportError, KeyError):
        return str(number)


def list_dev(path: str) -> str:
    """`ls -l` of the entries of /dev that concern a GPU. Of a link what it leads to, as programs find it; itself where that is nothing."""
    lines = []
    for name in sorted(os.listdir(path)):
        if not name.startswith(("nvidia", "dri", "dxg", "nvhost", "nvmap", "kfd")):
            continue
        full = f"{path}/{name}"
        try:
            lines.append(_long(full, followed=os.path.exists(full)))
            if stat.S_ISDIR(os.lstat(full).st_mode):
                lines.extend(_long(f"{full}/{inner}") for inner in sorted(os.listdir(full)))
        except OSError as error:
            lines.append(f"ls: cannot access '{full}': {error.strerror}")
    return "".join(f"{line}\n" for line in lines)


def list_module_files(path: str) -> str:
    """Full paths of the NVIDIA and nouveau modules of every installed kernel. One unreadable kernel folder makes it an error."""
    found: list[str] = []

    def fail(error: OSError) -> None:
        raise error

    roots = [root for root in (path, NIXOS_MODULES) if os.path.isdir(root)]
    if not roots:
        raise FileNotFoundError(2, "No such file or directory", path)
    for root in roots:
        for kernel in sorted(os.listdir(root)):
            top = f"{root}/{kernel}"
            for folder, folders, files in os.walk(top, onerror=fail):
                if folder == top:
                    # `build` and `source` are links into kernel sources; the other names hold no GPU module.
                    folders[:] = [name for name in folders if name not in ("build", "source", "vdso")]
                found.extend(f"{folder}/{name}" for name in files if MODULE_NAME.match(name))
    return "".join(f"{name}\n" for name in sorted(found))


def list_driver_libraries(_: str) -> str:
    """`ls -l` of libcuda and libnvidia-ml in the folders where drivers put them."""
    lines: list[str] = []
    seen: set[str] = set()
    for folder in LIBRARY_FOLDERS:
        real = os.path.realpath(folder)
        if real in seen or not os.path.isdir(real):
            continue
        seen.add(real)
        names = [name for name in sorted(os.listdir(real)) if name.startswith(("libcuda.so", "libnvidia-ml.so"))]
        lines.extend(_library(f"{folder}/{name}") for name in names)
        lines.extend(filter(None, (_foreign(f"{folder}/{name}") for name in names)))
    return "".join(f"{line}\n" for line in lines)


def _library(path: str) -> str:
    """As `ls -l` shows it; a link to nothing is no library, and is told as file(1) tells it."""
    return _long(path) if os.path.exists(path) else f"{path}: broken symbolic link to {os.readlink(path)}"


def _foreign(path: str) -> str | None:
    """Said of a library of another processor's: the loader passes it over as if it were not there."""
    own, machine = _elf_machine(sys.executable), _elf_machine(path)
    if own is None or machine is None or machine == own:
        return None
    return f"{path}: ELF for {_MACHINES.get(machine, machine)}, this machine runs {_MACHINES.get(own, own)}"


def _elf_machine(path: str) -> int | None:
    """e_machine of the ELF header."""
    try:
        with opened(path) as stream:
            head = stream.read(20)
    except OSError:
        return None
    return int.from_bytes(head[18:20], "little") if len(head) == 20 and head[:4] == b"\x7fELF" else None


def read_user(_: str) -> str:
    """Who runs this, in the form of `id`."""
    if not hasattr(os, "geteuid"):
        raise FileNotFoundError(2, "No such file or directory", "id")
    uid, gid = os.geteuid(), os.getegid()
    groups = sorted({gid, *os.getgroups()})
    named = ",".join(f"{number}({_name(number, group=True)})" for number in groups)
    return f"uid={uid}({_name(uid)}) gid={gid}({_name(gid, group=True)}) groups={named}\n"


def read_uname(_: str) -> str:
    """The form of `uname -a`."""
    info = platform.uname()
    return f"{info.system} {info.node} {info.release} {info.version} {info.machine} GNU/{info.system}\n"


def find_program(name: str) -> str:
    """Where a program is, on PATH or in the usual system folders; FileNotFoundError where it is not."""
    found = anywhere(name)
    if found is None:
        raise FileNotFoundError(2, "No such file or directory", name)
    return f"{found}\n"


# ---------------------------------------------------------------- the names of pci.ids
def read_pci_names(_: str) -> str:
    """The excerpt of this machine's pci.ids on its NVIDIA functions: the vendor's line and one for each of its devices here.

    FileNotFoundError where no pci.ids is installed.
    """
    place = next((place for place in _PCI_IDS if os.path.isfile(place)), None)
    if place is None:
        raise FileNotFoundError(2, "No such file or directory", "pci.ids")
    wanted = set(_nvidia_devices())
    if not wanted:
        return ""
    with open(place, encoding="utf-8", errors="replace") as file:
        lines = [line for line in _of_vendor(file) if line[:1] != "\t" or line[1:5] in wanted]
    return "".join(line.rstrip("\n")[:200] + "\n" for line in lines)


def _nvidia_devices() -> Iterator[str]:
    for address in sorted(os.listdir(_BUS)) if os.path.isdir(_BUS) else ():
        vendor, device = (beginning(f"{_BUS}/{address}/{name}", 32).strip().lower().replace("0x", "", 1) for name in ("vendor", "device"))
        if vendor == _NVIDIA:
            yield device


def _of_vendor(lines: Iterator[str]) -> Iterator[str]:
    """The vendor's line and those of its devices, without subsystems."""
    inside = False
    for line in lines:
        if line[:1] not in ("\t", "#", "\n"):
            if inside:
                return
            inside = line.startswith(_NVIDIA)
        if inside and line[:1] != "#" and line[:2] != "\t\t" and line.strip():
            yield line


# ---------------------------------------------------------------- control groups
def read_control_group(path: str) -> str:
    """The limits of the control group in which this process runs and of those around it, and how many processes the kernel killed for them.

    As `grep -H . FILE` prints them: `/sys/fs/cgroup/job/memory.max:209715200`. Version 2 keeps all in one tree, version 1 has one for each
    kind. `path` is /proc/self/cgroup. FileNotFoundError where this kernel has no control groups that may be read.
    """
    lines = [line for file in _group_files(beginning(path, _GROUP_LIMIT)) for line in _of_group(file)]
    if not lines:
        raise FileNotFoundError(2, "No such file or directory", _GROUPS)
    return "".join(f"{line}\n" for line in dict.fromkeys(lines))


def _group_files(own: str) -> Iterator[str]:
    """The files to read of each group from the process's own to the outermost that is seen here."""
    for line in own.split("\n"):
        kinds, _, group = line.partition(":")[2].partition(":")
        for kind, names in _GROUP_FILES.items() if group.startswith("/") else ():
            if kind in kinds.split(","):
                for top in (f"{_GROUPS}/{kind}",) if kind else (_GROUPS, f"{_GROUPS}/unified"):
                    yield from (f"{folder}/{name}" for folder in _upwards(top, group) for name in names)


def _upwards(top: str, group: str) -> Iterator[str]:
    """The folders of a group and of those around it. In a container the group's own path may not be seen: then its top is the group."""
    parts = [part for part in group.split("/") if part]
    if ".." in parts or not os.path.isdir("/".join((top, *parts))):
        parts = []
    for depth in range(min(len(parts), _DEEPEST), -1, -1):
        yield "/".join((top, *parts[:depth]))


def _of_group(path: str) -> Iterator[str]:
    """A limit, or of the counters the one that tells of kills."""
    for line in beginning(path, _GROUP_LIMIT).split("\n"):
        if line and (not path.endswith((".events", "_control")) or line.startswith("oom_kill ")):
            yield f"{path}:{line}"


# ---------------------------------------------------------------- Windows
def read_windows_version(_: str) -> str:
    """The form of `ver`, and below it the edition and the processor. Builds and editions tell a server from a desktop."""
    if sys.platform == "win32":
        build = ".".join(str(number) for number in sys.getwindowsversion().platform_version)
        return f"Microsoft Windows [Version {build}]\nEdition: {_edition()}\nMachine: {platform.machine()}\n"
    raise FileNotFoundError(2, "No such file or directory", "ver")


def _edition() -> str:
    """Core, Professional, ServerStandard and so on."""
    try:
        return platform.win32_edition() or "unknown"
    except (OSError, AttributeError):
        return "unknown"


def list_driver_dlls(_: str) -> str:
    """The full paths of the driver's files in System32, as `where` prints them."""
    folder = os.path.join(os.environ.get("SYSTEMROOT", "C:\\Windows"), "System32")
    names = {name.lower() for name in os.listdir(folder)}
    return "".join(f"{os.path.join(folder, name)}\n" for name in ("nvcuda.dll", "nvml.dll", "nvidia-smi.exe") if name in names)


READERS: dict[str, Callable[[str], str]] = {
    function.__name__: function
    for function in (
        read_file, read_environment, read_pci, list_names, list_dev, list_module_files, list_driver_libraries,
        read_user, read_uname, find_program, read_windows_version, list_driver_dlls, read_container_stack,
        list_settings, read_control_group, read_container_manager, read_root_mount, read_pci_names,
        read_kernel_interface, list_held_packages, read_kernel_parameters,
    )
}  # fmt: skip
