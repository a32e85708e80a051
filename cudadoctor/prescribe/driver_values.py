"""The values of recipes about the driver: its packages, the kernel's headers, libraries and tools, repositories."""

from __future__ import annotations

import re
from collections.abc import Iterable

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import HELD_PACKAGES, KERNEL, LOADED_DRIVER, PCI, SMI
from cudadoctor.prescribe.case import Case
from cudadoctor.prescribe.dialect import words_of
from cudadoctor.prescribe.families import UBUNTU_DRIVER, debian_libraries, debian_names, resolved, suse_group, suse_parts
from cudadoctor.prescribe.kernel_module import built_check, module_check, of_debian, running
from cudadoctor.prescribe.places import by_run_installer
from cudadoctor.prescribe.shells import Found, Script, Value

_MANAGERS = {"debian": "apt", "ubuntu": "apt", "fedora": "dnf", "rhel": "dnf", "suse": "zypper", "arch": "pacman"}
FABRIC_IN_ONE_WORD = 580  # the first branch


# Where the release is not known here the command asks for it.
_OF_DEBIAN, _OF_FEDORA = Script('"linux-headers-$(uname -r)"'), Script('"kernel-devel-$(uname -r)"')
_OF_PROXMOX = Script('"proxmox-headers-$(uname -r)"')
_HEADERS_OF_RUNNING: dict[str, Value] = {
    "ubuntu": _OF_DEBIAN,
    "debian": _OF_DEBIAN,
    "fedora": _OF_FEDORA,
    "rhel": _OF_FEDORA,
    "arch": Script('"$(cat "/usr/lib/modules/$(uname -r)/pkgbase")-headers"'),
    "suse": ("kernel-default-devel",),
}


def driver(case: Case) -> Found:
    yield "driver_words", case.driver.words
    yield "driver_packages", (*case.driver.packages, *_beside_on_arch(case))
    yield "module_check", Script(module_check(case))
    yield "built_check", Script(built_check(case))
    later = case.system.family == "fedora" and case.driver.origin == "archive"  # there the module is built after its package is installed
    yield "driver_check", Script(f"rpm -q {' '.join(case.driver.packages)}" if later else built_check(case))
    yield "module_name", _module_name(case)
    yield "debian_alternative", _debian_alternative(case)
    other = case.value("alternative")  # of Debian's, which another branch than the installed one holds
    yield "other_alternative", other
    yield "left_packages", tuple(one.name for one in case.packages if one.name.startswith(f"nvidia-{other}-")) if other else None
    yield "nvidia_on_fedora", _nvidia_on_fedora(case)
    yield "driver_stream", case.driver.stream
    yield "ubuntu_driver", ubuntu_driver(case)
    yield "mhwd_class", _mhwd_class(case)
    yield "layered_swap", _layered_swap(case)
    yield "ubuntu_tools", tuple(name for name in case.driver.packages if name.startswith("nvidia-utils-")) or None
    # Debian's and Ubuntu's package of that compiler, which DKMS calls by its name; to the .run installer it has to be told.
    compiler = case.value("kernel_gcc") if case.system.family in ("debian", "ubuntu") and not by_run_installer(case) else None
    yield "gcc_package", f"gcc-{compiler}" if compiler is not None else None
    yield from _repositories(case)
    kernel = case.get(KERNEL)
    release = running(case)
    rows = [row for row in map(case.knowledge.capability, case.gpus.capabilities) if row is not None]
    made_for = "aarch64" if any(row.tegra or row.beside_arm for row in rows) else "x86_64"
    machine = (kernel.machine if kernel is not None else None) or made_for
    arm = machine in ("aarch64", "arm64")
    yield "repository_machine", "sbsa" if arm else machine
    yield "run_machine", "aarch64" if arm else "x86_64"
    yield "kernel", release or Script('"$(uname -r)"')
    if release is None or case.knowledge.placeholder_forms["kernel"].fullmatch(release):
        running_ones = _OF_PROXMOX if case.system.id == "proxmox" else _HEADERS_OF_RUNNING.get(case.system.family or "")
        yield "kernel_headers", running_ones if release is None else _headers(case, release)
    of_kernel = _kernel_devel(release or "").partition("-devel-")[0] if case.system.family in ("fedora", "rhel") else None
    yield "newest_kernel", (of_kernel, f"{of_kernel}-devel") if of_kernel is not None else None
    loaded = case.get(LOADED_DRIVER)
    yield "module_version", loaded.version.text if loaded is not None else case.value("module", "module_version")
    yield "library_version", case.value("library", "library_version")
    version = loaded_version(case)
    yield "driver_version", version
    yield "flatpak_extension", f"org.freedesktop.Platform.GL.nvidia-{version.replace('.', '-')}" if version is not None else None


def _beside_on_arch(case: Case) -> tuple[str, ...]:
    """The same branch's libraries of 32 bits and for OpenCL, where those of the branch to be replaced are installed."""
    utils = next((name for name in case.driver.packages if name.endswith("xx-utils")), None)
    if utils is None:
        return ()
    names = {package.name for package in case.packages}
    opencl = f"opencl-{utils.removesuffix('-utils')}"
    return tuple(new for old, new in (("lib32-nvidia-utils", f"lib32-{utils}"), ("opencl-nvidia", opencl)) if old in names)


def _mhwd_class(case: Case) -> str:
    """The class by which Manjaro's tool looks for the GPU: 0302 of one without a display."""
    bus = case.get(PCI)
    classes = {(gpu.class_code or "")[:4] for gpu in bus.nvidia_gpus} if bus is not None else set()
    return "0302" if classes == {"0302"} else "0300"


def _layered_swap(case: Case) -> Script | None:
    """The layered packages of RPM Fusion's driver that leave, and those that come: rpm-ostree changes both in one transaction."""
    if case.system.image != "rpm-ostree" or case.driver.origin != "archive":
        return None
    here = [package.name for package in case.packages if _LAYERED.fullmatch(package.name) and package.name not in case.driver.packages]
    return Script(" ".join((*dict.fromkeys(here), *(f"--install {name}" for name in case.driver.packages)))) if here else None


def _older_of_debian(case: Case, names: Iterable[str]) -> str | None:
    """What its module and its folder among the alternatives are called, where one of these packages is of an older branch."""
    form = case.forms["packages"]["older-of-debian"]
    return next((found["name"] for name in names if (found := form.fullmatch(name)) is not None), None)


def _module_name(case: Case) -> str:
    older = _older_of_debian(case, (package.name for package in case.packages))
    return f"nvidia-{older or 'current'}" if of_debian(case) else "nvidia"


def _debian_alternative(case: Case) -> str | None:
    """The folder of an older branch in Debian's alternatives, where the usual branch is installed too.

    Source: nvidia-alternative.postinst and nvidia-tesla-470-alternative.postinst.
    """
    older = _older_of_debian(case, case.driver.packages) if case.system.family == "debian" else None
    usual = any(case.forms["packages"]["usual-of-debian"].fullmatch(package.name) for package in case.packages)
    return f"/usr/lib/nvidia/{older}" if older is not None and usual else None


def _nvidia_on_fedora(case: Case) -> tuple[str, ...] | None:
    """What came from NVIDIA's repository: the packages with the module have names that no other repository gives them."""
    names, forms = [package.name for package in case.packages], case.forms["packages"]
    if case.system.family != "fedora" or not any(map(forms["module-of-nvidia"].fullmatch, names)):
        return None
    return tuple(filter(forms["of-nvidia-on-fedora"].fullmatch, names))


def loaded_version(case: Case) -> str | None:
    """The version of the driver that runs, where it has the form of one."""
    stated = case.module.text if case.module is not None else case.value("driver_version", "module", "module_version")
    return stated if stated is not None and case.knowledge.placeholder_forms["driver_version"].fullmatch(stated) else None


def _repositories(case: Case) -> Found:
    system = case.system
    unknown = Script('rhel"$(rpm -E %rhel)"') if system.family == "rhel" and system.version is None else None
    origin = case.driver.stream if case.driver.origin == "nvidia" else None
    yield "nvidia_repository", origin or ("wsl-ubuntu" if system.wsl and system.family == "ubuntu" else system.repository) or unknown
    if system.family == "suse":
        yield "suse_repository", f"https://download.nvidia.com/{_suse_folder(system.id or '', system.version)}"


def _suse_folder(name: str, version: str | None) -> str:
    if name == "sles" and version is not None:
        major, _, pack = version.partition(".")
        return f"suse/sle{major}sp{pack}" if pack and major == "15" else f"suse/sle{major}"
    if "tumbleweed" in name or "micro" in name:
        return "opensuse/tumbleweed"
    return f"opensuse/leap/{version or '$releasever'}"


def _headers(case: Case, release: str) -> tuple[str, ...]:
    family = case.system.family
    if family in ("fedora", "rhel"):
        devel = _kernel_devel(release)
        extra = (devel.replace("-devel-", "-modules-extra-"),) if ".amzn2023" in release else ()  # drm, which the module asks for
        return (devel, *extra)
    if family == "suse":
        flavour = release.rsplit("-", 1)[-1]
        return (f"kernel-{flavour if flavour in ('azure', 'rt', 'longterm') else 'default'}-devel",)
    if family == "arch":
        number = re.match(r"(\d{1,4})\.(\d{1,4})\..{0,60}MANJARO", release)
        if number is not None:
            return (f"linux{number[1]}{number[2]}-headers",)
        flavour = next((name for name in ("cachyos", "lts", "zen", "hardened", "rt") if f"-{name}" in release), "")
        return (f"linux-{flavour}-headers",) if flavour else ("linux-headers",)
    if release.endswith("-pve"):
        return _of_proxmox(release)
    # Debian's kernels of every day have a package that follows them, so that the next kernel finds its headers.
    follows = re.search(r"(?:cloud-)?(?:amd64|arm64)$", release) if family == "debian" else None
    return (f"linux-headers-{release}", *((f"linux-headers-{follows[0]}",) if follows else ()))


def _of_proxmox(release: str) -> tuple[str, ...]:
    """Proxmox has its kernels under a name of its own, since 6.5 another one, and a package that follows them.

    Source: https://pve.proxmox.com/wiki/NVIDIA_vGPU_on_Proxmox_VE (proxmox-default-headers), the packages proxmox-headers-6.14.11-4-pve
    and pve-headers-6.2.16-20-pve of http://download.proxmox.com/debian/pve
    """
    number = re.match(r"(\d{1,3})\.(\d{1,3})\.", release)
    new = number is not None and (int(number[1]), int(number[2])) >= (6, 5)
    return (f"proxmox-headers-{release}", "proxmox-default-headers") if new else (f"pve-headers-{release}",)


def _kernel_devel(release: str) -> str:
    """`uname -r` ends in the variant (+64k, +rt, +debug), and the package begins with it.

    Amazon's kernels after 6.1 have a name for each branch.
    Source: https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/ (Pre-installation Actions: kernel-64k-devel), and AWS's
    installation scripts of NVIDIA's driver for Amazon Linux 2023: kernel6.12-devel-$(uname -r)
    """
    own, _, variant = release.partition("+")
    branch = re.match(r"\d{1,2}\.\d{1,3}", release)
    if ".amzn2023" in release and branch is not None and branch[0] != "6.1":
        return f"kernel{branch[0]}-devel-{release}"
    variant = "uek" if "uek" in own else variant
    return f"kernel-{variant}-devel-{own}" if variant else f"kernel-devel-{own}"


def _branch_here(case: Case) -> tuple[int | None, str]:
    """The branch whose libraries belong to this machine, and Ubuntu's suffix of it (-server)."""
    loaded = case.get(LOADED_DRIVER)
    names = [package.name for package in case.packages]
    if loaded is not None:
        branch = loaded.version.major
        server = any(name.endswith(f"-{branch}-server") or f"-{branch}-server-" in name for name in names)
        return branch, "-server" if server else ""
    named = (re.match(r"nvidia-(?:driver|headless|utils|dkms)-(\d+)(-server)?", name) for name in names)
    found = next((match for match in named if match), None)
    return (int(found[1]), found[2] or "") if found else (case.driver.branch, "")


_WITHOUT_PACKAGES = {
    "nixos": (
        "hardware.graphics.enable = true and hardware.nvidia bring it; programs find it in /run/opengl-driver/lib",
        "nvidia-smi, which hardware.nvidia puts on PATH",
    ),
    "windows": ("nvcuda.dll, which NVIDIA's driver brings", "nvidia-smi.exe in C:\\Windows\\System32"),
}


_SUSE_LIBRARY = lazy(r"(?:lib)?nvidia-(?!.{0,60}kmp)[a-z-]{2,40}-G0\d")


def libraries(case: Case) -> Found:
    branch, server = _branch_here(case)
    family = case.system.family
    library: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    if family == "ubuntu" and branch is not None:
        end = f"{branch}{server}"
        if all(package.name != f"libnvidia-compute-{end}" for package in case.packages):
            package = resolved(f"nvidia-driver-{end}", case.system.codename, case.knowledge)
            end = package.removeprefix("nvidia-driver-").removesuffix("-open")
        library, tools = (f"libnvidia-compute-{end}",), (f"nvidia-utils-{end}",)
    elif family == "debian":
        library, tools = _debian_parts(case, branch)
    elif family == "fedora":
        legacy = _of_rpm_fusion(case, branch)
        library, tools = (f"xorg-x11-drv-nvidia{legacy}-cuda-libs",), (f"xorg-x11-drv-nvidia{legacy}-cuda",)
    elif family == "rhel":
        library, tools = ("nvidia-driver-cuda-libs",), ("nvidia-driver-cuda",)
    elif family == "arch":
        library = tools = (f"nvidia-{branch}xx-utils",) if branch in (390, 470, 580) and case.driver.origin == "aur" else ("nvidia-utils",)
    elif family == "suse":
        library, tools = suse_parts(suse_group(branch))
    elif family in _WITHOUT_PACKAGES:
        yield from zip(("library_words", "smi_words"), _WITHOUT_PACKAGES[family], strict=True)
        return
    if case.absent(SMI):
        library = tuple(dict.fromkeys((*library, *tools)))
    yield "library_packages", library
    loaded = loaded_version(case)
    if family == "suse" and loaded is not None:
        here = [package.name for package in case.packages if _SUSE_LIBRARY.fullmatch(package.name)]  # they go together
        here.sort(key=lambda name: "-compute-" not in name)
        yield "matching_libraries", tuple(f"{name}={loaded}" for name in dict.fromkeys(here or (*library, *tools)))
    yield "smi_packages", tools
    number = "NNN" if branch is None else str(branch)
    anywhere = "the package for it (Ubuntu: {}; Debian: {}; Fedora: xorg-x11-drv-nvidia-cuda{}; Arch: nvidia-utils)"
    of_library = words_of(anywhere.format(f"libnvidia-compute-{number}", "libcuda1", "-libs"), case.system)
    yield "library_words", " ".join(library) or of_library
    yield "smi_words", " ".join(tools) or words_of(anywhere.format(f"nvidia-utils-{number}", "nvidia-smi", ""), case.system)


def _of_rpm_fusion(case: Case, branch: int | None) -> str:
    """The ending of an old branch's packages: of those that are installed, else of the branch. 580 was the current one before."""
    named = (re.match(r"(?:akmod-nvidia|xorg-x11-drv-nvidia)(-\d{3}xx)?(?![\w])", package.name) for package in case.packages)
    found = next((match for match in named if match), None)
    if found is not None:
        return found[1] or ""
    own = next((name for name in case.driver.packages if name.startswith("akmod-nvidia-")), "")
    return f"-{branch}xx" if branch in (340, 390, 470) or own == f"akmod-nvidia-{branch}xx" else ""


def _debian_parts(case: Case, branch: int | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The packages of the branch that is installed, where this release has that branch; else those of the usual driver."""
    row = case.knowledge.branch(branch) if branch is not None else None
    drivers = [name for name in (debian_names(row, case.system.codename) if row is not None else ()) if name.endswith("-driver")]
    usual = "nvidia-driver" in drivers or not drivers
    library, tool = debian_libraries("nvidia-driver" if usual else drivers[0])
    prefix = library.removesuffix("cuda1") if not usual else "libnvidia-"
    # Branch 340 has its compiler inside libcuda.
    compiler = (f"{prefix}ptxjitcompiler1",) if "340xx" not in prefix else ()
    return (library, f"{prefix}ml1", *compiler), (tool,)


_LAYERED = lazy(r"(?:akmod-nvidia|xorg-x11-drv-nvidia(?:-\d{3}xx)?-cuda)(?:-\d{3}xx)?")  # what is asked for by name
_NAME = lazy(r"[a-z0-9][\w.+:-]*")


def linux_driver(case: Case) -> Found:
    forms = case.forms["packages"]
    found = [package for package in case.packages if forms["linux-driver"].match(package.name) and _NAME.fullmatch(package.name)]
    yield "linux_driver_packages", tuple(dict.fromkeys(package.name for package in found))
    foreign = [package for package in found if package.repository is not None and package.repository == case.value("repository")]
    # RPM Fusion's: the part that computing needs, of the branch that is here.
    yield "cuda_of_module", next((f"{package.name}-cuda" for package in found if forms["rpm-fusion"].fullmatch(package.name)), None)
    yield "packages_of_repository", tuple(dict.fromkeys(package.name for package in foreign)) or None
    yield from _held(case)


def _held(case: Case) -> Found:
    """What the package manager keeps at its version: by its locks, and by lines of its configuration."""
    manager = _MANAGERS.get(case.system.family or "")
    kept = case.get(HELD_PACKAGES) or ()
    # dpkg's first letter is what was asked for: h, the package stays at its version.
    names = [one.name for one in case.packages if one.state.startswith("h")] + [one.name for one in kept if one.by == manager]
    forms = case.forms["packages"]
    # Fabric Manager follows the driver that is loaded, which stays where it is kept.
    kinds = ("fabric-manager",) if case.root.cause == "fabric-manager-not-running" else ("linux-driver", "fabric-manager", "held")
    own = [name for name in names if any(forms[kind].match(name.lstrip("*")) for kind in kinds)]
    names = [name for name in own if not (manager == "apt" and "*" in name)]  # apt would take it for every package of such a name
    yield "held_packages", tuple(dict.fromkeys(filter(case.knowledge.placeholder_forms["held_packages"].fullmatch, names)))
    yield "pin_file", next((one.path for one in kept if one.by == "pin" and manager == "apt"), None)
    yield "excluding_file", next((one.path for one in kept if one.by == "exclude" and manager == "dnf"), None)


def fabric_manager(case: Case) -> Found:
    """Fabric Manager's package, which must have the loaded driver's own version; in Ubuntu's archive, which keeps the newest version alone,
    with the driver for servers that it depends on.

    NVIDIA's packages for RHEL and its like are called nvidia-fabric-manager up to branch 575 and nvidia-fabricmanager from 580 on; Ubuntu's
    archive and NVIDIA's for Debian and Ubuntu put the branch behind the name (nvidia-fabricmanager-580).
    Source: https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/, https://packages.ubuntu.com/source/resolute/fabric-manager-580
    """
    version = loaded_version(case) or _installed_version(case)
    if version is None:
        return
    yield "driver_version", version
    branch = version.split(".")[0]
    if case.system.family in ("debian", "ubuntu"):
        installed = next((one.name for one in case.packages if one.name.startswith("nvidia-fabricmanager")), None)
        name = installed if installed == "nvidia-fabricmanager" else f"nvidia-fabricmanager-{branch}"
        yield "fabric_manager", f"{name}={version}*"  # apt adds the archive's own revision
        yield "fabric_manager_words", f"{name}, version {version}"
        servers = _drivers_for_servers(case, branch) if case.system.family == "ubuntu" and not case.system.from_nvidia else ()
        yield "fabric_and_driver", (*servers, name) if servers else None
    elif case.system.family in ("fedora", "rhel", "suse"):
        name = "nvidia-fabricmanager" if int(branch) >= FABRIC_IN_ONE_WORD else "nvidia-fabric-manager"
        sign = "=" if case.system.family == "suse" else "-"
        yield "fabric_manager", f"{name}{sign}{version}"
        yield "fabric_manager_words", f"{name}, version {version}"
    else:
        yield "fabric_manager_words", f"version {version}"


def _installed_version(case: Case) -> str | None:
    """The version that all packages of the driver share, which is the loaded one's unless they were updated since."""
    found = {one.release for one in case.packages if case.forms["packages"]["linux-driver"].match(one.name) and one.release is not None}
    return found.pop() if len(found) == 1 else None


_OF_UBUNTU = lazy(r"(?P<part>nvidia-(?:driver|headless|utils))-(?P<branch>\d{3})(?:-server)?(?P<open>-open)?")


def _drivers_for_servers(case: Case, branch: str) -> tuple[str, ...]:
    """The installed packages of Ubuntu's driver, by the names that the driver for servers gives them."""
    found = (_OF_UBUNTU.fullmatch(package.name) for package in case.packages)
    names = [f"{one['part']}-{branch}-server{one['open'] or ''}" for one in found if one is not None and one["branch"] == branch]
    return tuple(dict.fromkeys(names))


def docker(case: Case) -> Found:
    """Of the relatives of RHEL that Docker's repository does not serve."""
    yield "docker_package", {"amzn": "docker", "azurelinux": "moby-engine"}.get(case.system.id or "")


def ubuntu_driver(case: Case) -> Value | None:
    """What `ubuntu-drivers install` asks for: nvidia:580-open of the package nvidia-driver-580-open, on a server --gpgpu and the branch."""
    found = UBUNTU_DRIVER.match(next(iter(case.driver.packages), "")) if case.system.id == "ubuntu" else None
    if found is None:
        return None
    branch = f"nvidia:{found['branch']}{found['server'] or ''}{found['open'] or ''}"
    return Script(f"--gpgpu {branch}") if found["headless"] else branch
