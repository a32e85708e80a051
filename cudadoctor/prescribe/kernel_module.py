"""How NVIDIA's kernel module comes to this machine: built here (DKMS, akmods), or ready-made for one kernel by the distribution.

Source: https://wiki.archlinux.org/title/NVIDIA (nvidia-open is for the kernel `linux`, nvidia-lts-open for `linux-lts`, all others take
nvidia-open-dkms), https://wiki.manjaro.org/index.php/Configure_Graphics_Cards (linuxNN-nvidia), https://github.com/CachyOS/linux-cachyos
(linux-cachyos-nvidia-open is a part of the kernel's PKGBUILD),
https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/ (Precompiled Streams: kmod-nvidia-<driver>-<kernel>),
https://elrepo.org/wiki/doku.php?id=kmod-nvidia (one package for all kernels of a minor release)
"""

from __future__ import annotations

import re

from cudadoctor.inventory import module_packages
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import DKMS, KEEPING_FILES, KEEPING_OUT, KERNEL, LOADED_DRIVER, MODULE_FILES, PCI, SETTING, DkmsEntry, Package
from cudadoctor.model.version import LibraryVersion
from cudadoctor.prescribe.case import Case, Condition
from cudadoctor.prescribe.families import resolved
from cudadoctor.prescribe.shells import Found, Script, Value

_TO_VFIO = lazy(r"\bvfio-pci(?:\.ids=| ids=)(?P<ids>(?:[0-9a-f]{4}:[0-9a-f]{4},?){1,16})")
_OF_MODPROBE = lazy(r"not found in directory /(?:usr/)?lib/modules/(?P<release>[\w.+~-]{3,100})")
_RELEASE_OF_RPM = lazy(r"\d{1,4}(?P<dist>\.el\d\w{0,12})")


def running(case: Case) -> str | None:
    """The running kernel's release: also as modprobe names the folder that it looks into."""
    kernel = case.get(KERNEL)
    named = _OF_MODPROBE.search(case.words)
    return kernel.release if kernel is not None else case.value("kernel", "release") or (named["release"] if named else None)


def _lies_ready_made(case: Case) -> bool:
    """Ubuntu's own modules lie beside the kernel's, those that are built here below updates/."""
    return any(_READY_ON_DISK.search(file.path) for found in case.each(MODULE_FILES) for file in found)


def _has_builder(case: Case) -> bool:
    return any(case.forms["packages"]["builder"].search(package.name) for package in case.packages)


def _ready_made(case: Case) -> tuple[Package, re.Match[str]] | None:
    """The installed package that holds a ready-made module. None where the module is built here, or nothing says."""
    form = case.forms["packages"].get(f"ready-made-{case.system.family}")
    entries = case.get(DKMS)
    if form is None or entries or _has_builder(case):
        return None
    named = ((package, found) for package in case.packages if (found := form.match(package.name)) is not None)
    release = running(case) or ""
    return next((one for one in named if case.system.family != "suse" or module_packages.fits(one[0].name, release) is False), None)


def _without_builder(case: Case) -> bool:
    """There is no dkms, and no package that would bring it. Fedora has akmods for it, and SUSE's packages link their modules."""
    missing = case.absent(DKMS) or "no-dkms" in case.setting.words
    return missing and case.system.family not in ("fedora", "suse") and not _has_builder(case)


def _for_running_kernel(case: Case) -> Value | None:
    """The package with the module for the running kernel, named after the one that is here for another kernel. ELRepo's has no kernel in
    its name: its newest is made for the newest minor release, and goes with the libraries."""
    found, release = _ready_made(case), running(case)
    if found is None or release is None:
        return None
    package, name = found
    if case.system.family == "ubuntu":
        return f"{name[0]}-{release}"
    if case.system.family == "rhel" and name["elrepo"]:
        return tuple(one.name for one in case.packages if case.forms["packages"]["of-elrepo"].fullmatch(one.name))
    if case.system.family == "rhel":
        return f"{name[0]}.*-{release.partition('.el')[0]}*"
    other = module_packages.for_kernel(package.name, release)
    return other if other != package.name else None


def _waits_for_restart(case: Case) -> bool:
    """Arch has one kernel of each kind, and its ready-made module fits that one: where none is found, an older kernel runs still."""
    found, release = _ready_made(case), running(case)
    if found is None or release is None or case.system.family != "arch":
        return False
    if _waits(found, release):
        return True
    if found[1]["arch"] is None:
        return False
    return "-lts" in release if found[1]["flavour"] else re.search(r"[.-]arch\d", release) is not None


def _waits(found: tuple[Package, re.Match[str]] | None, release: str | None) -> bool:
    """CachyOS gives the module's package its kernel's version: where the running kernel has another, the module is the next start's."""
    if found is None or release is None or "cachyos" not in found[1].re.groupindex or found[1]["cachyos"] is None:
        return False
    same_kind = module_packages.for_kernel(found[0].name, release) in (found[0].name, None)
    return same_kind and not release.startswith(f"{found[0].version}-")


def _for_other_kernel_on_disk(case: Case) -> bool:
    """The module lies ready for the kernel that is started next: Arch has one of each kind."""
    return _waits_for_restart(case) and any(file.kernel not in (None, running(case)) for file in case.get(MODULE_FILES) or ())


def _signed_kmp_here(case: Case) -> bool:
    return case.system.family == "suse" and any("-signed-" in package.name for package in case.packages)


def _loads_now(case: Case) -> bool:
    """Not where nouveau has the GPU until the next start, nor on Arch, which replaces the kernel in the same breath.

    RPM Fusion's nvidia-fallback.service loads nouveau at a start without NVIDIA's module, once akmods has ended.
    """
    bus = case.get(PCI)
    drivers = [gpu.driver for gpu in bus.nvidia_gpus if gpu.driver_known] if bus is not None else []
    built = "akmods-building" not in case.setting.words
    fell_back = built and not drivers and any(package.name.startswith("akmod-nvidia") for package in case.packages)
    return (
        not fell_back
        and not {"nouveau", "nova", "nova_core"} & set(drivers)
        and case.system.family != "arch"
        and not _signed_kmp_here(case)
    )


def _stays(case: Case) -> bool:
    """The module on disk is the one that is loaded: a restart loads it again, and the user may have seen that."""
    found = case.get(LOADED_DRIVER)
    loaded = found.version.text if found is not None else case.value("module", "module_version")
    return loaded is not None and (_on_disk(case) == {loaded} or "restarted" in case.setting.words)


def _built(case: Case) -> tuple[DkmsEntry, ...]:
    return tuple(entry for entry in case.get(DKMS) or () if entry.state.startswith("installed"))


def _headers_served(case: Case) -> bool:
    """The module that is loaded was built here, for the kernel that runs: its headers are there."""
    built = any(entry.kernel == running(case) for entry in _built(case))
    return built or (_has_builder(case) and case.get(LOADED_DRIVER) is not None)


def _on_disk(case: Case) -> set[str]:
    """The versions of the module for the running kernel: as modinfo says, else DKMS, else the package that holds or builds it."""
    files = {file.version.text for found in case.each(MODULE_FILES) for file in found if file.version is not None}
    built = {entry.version for entry in _built(case) if running(case) in (entry.kernel, None)}
    forms = [case.forms["packages"][name] for name in ("holds-module", "builder")]
    held = (_VERSION.search(package.version) for package in case.packages if any(form.search(package.name) for form in forms))
    return files or built or {found[0] for found in held if found is not None}


def _left_behind(case: Case) -> str | None:
    """The package of the module, built here or ready-made, where an upgrade stopped before it: it is older than the libraries."""
    libraries, here = _VERSION.match(case.value("library", "library_version") or ""), _on_disk(case)
    if libraries is None or libraries[0] in here:
        return None
    form = case.forms["packages"]["module-of-nvidia"]
    built = ((one.name, _VERSION.search(one.version)) for one in case.packages if form.fullmatch(one.name))
    wanted = LibraryVersion(libraries[0])
    older = next((name for name, found in built if found is not None and LibraryVersion(found[0]) < wanted), None)
    is_older = bool(here) and all(LibraryVersion(version) < wanted for version in here)
    return older or (_upgraded_by(case) if is_older and _ready_made(case) is not None else None)


def _upgraded_by(case: Case) -> str | None:
    """The package that upgrades bring along with a ready-made module. Ubuntu's has a kernel in its name, and one without it asks for it."""
    ready = _ready_made(case)
    form = case.forms["packages"].get(f"newest-ready-made-{case.system.family}")
    if form is None:
        return ready[0].name if ready is not None and case.system.family == "arch" else None
    return next((package.name for package in case.packages if form.fullmatch(package.name)), None)


def _signed_for_cloud(case: Case) -> Found:
    """Ubuntu's own modules for the kernels of a cloud, with the driver that goes with them, and the package that builds them here."""
    kernel = _OF_CLOUD.search(running(case) or "")
    series = {found["series"] for one in case.packages if (found := _DKMS_OF_UBUNTU.fullmatch(one.name)) is not None}
    if case.system.family != "ubuntu" or kernel is None or len(series) != 1:
        return
    here = series.pop()
    newest = resolved(f"nvidia-driver-{here}", case.system.codename, case.knowledge).removeprefix("nvidia-driver-")
    tops = [f"{top}-{newest}" for top in ("nvidia-driver", "nvidia-headless") if any(one.name == f"{top}-{here}" for one in case.packages)]
    yield "signed_modules", (f"linux-modules-nvidia-{newest}-{kernel['flavour']}", *(tops if newest != here else ()))
    yield "own_build_leaves", tuple(f"nvidia-dkms-{name}-" for name in dict.fromkeys((here, newest)))  # apt removes what ends in a minus


def guest_ids(case: Case) -> str | None:
    """The numbers of all functions of a GPU that is meant for a guest, where vfio-pci is told those of another card."""
    setting, bus = case.facts.get(SETTING), case.get(PCI)
    told = next((found for quote in getattr(setting, "quotes", ()) if (found := _TO_VFIO.search(quote.text)) is not None), None)
    if told is None or bus is None or not case.told_by_text or len({gpu.address[:-2] for gpu in bus.nvidia_gpus}) != 1:
        return None
    slot = bus.nvidia_gpus[0].address[:-2]
    own = [f"{one.vendor}:{one.device}" for one in bus.functions if one.address.startswith(slot) and one.vendor and one.device]
    return ",".join(dict.fromkeys(own)) if not set(own) & set(told["ids"].split(",")) else None


def values(case: Case) -> Found:
    found = _ready_made(case)
    yield "prebuilt_module", _for_running_kernel(case)
    yield (
        "dkms_module",
        next((f"{entry.module}/{entry.version}" for entry in case.get(DKMS) or () if entry.module.startswith("nvidia")), _BUILT),
    )
    older = (entry.kernel for entry in reversed(_built(case)) if entry.kernel not in (None, running(case)))
    yield "built_kernel", next(older, None)
    yield "vfio_ids", guest_ids(case)
    yield "older_module", _left_behind(case)
    yield from _signed_for_cloud(case)
    yield "keeping_files", case.get(KEEPING_FILES)
    parameter = case.get(KEEPING_OUT)  # of the kernel, which keeps nvidia out; and what is left of it without
    option, _, modules = (parameter or "").partition("=")
    others = [module for module in modules.split(",") if not module.startswith(("nvidia", "10de:"))]
    if not case.found_here and any(module not in _OF_GPUS for module in others):
        parameter = None  # a stranger's machine would be told to do without what a text or a recording lists
    kept = ",".join(others)
    kept = f"{option}={kept}" if kept else ""
    yield "kernel_parameter", parameter
    yield "kept_parameter", kept or None
    yield "parameter_edit", f"s|{re.escape(parameter)}|{kept}|" if parameter is not None else None
    names = [package.name for package in case.packages]
    if case.system.family == "arch":
        yield "arch_modules", tuple(filter(case.forms["packages"]["arch"].fullmatch, names))
    if case.system.family == "suse":
        yield "suse_update", Script("dup" if "tumbleweed" in (case.system.id or "") else "update")
        yield "module_packages", tuple(filter(case.forms["packages"]["suse"].fullmatch, names)) or case.driver.packages
    if found is None:
        return
    package, name = found
    yield "ready_made", package.name
    if case.system.family == "arch" and name["arch"] is not None:
        yield "dkms_package", "nvidia-open-dkms" if name["arch"] == "nvidia-open" or name["open"] else None
    yield "module_kernel", _kernel_of_module(case, package, name) if case.system.family == "rhel" else None


def _kernel_of_module(case: Case, package: Package, name: re.Match[str]) -> str | None:
    """The kernel that the ready-made module is for, as its name says, else the folder in which it lies."""
    if name["elrepo"]:
        return next((file.kernel for file in case.get(MODULE_FILES) or () if file.kernel not in (None, running(case))), None)
    dist, release = _RELEASE_OF_RPM.search(package.version.rpartition("-")[2]), running(case)
    if dist is None or release is None:
        return None
    return f"{name['kernel']}{dist['dist']}.{release.rpartition('.')[2]}"  # the end is the machine's architecture


_BUILT = Script("\"$(dkms status | grep -o '^nvidia[^,]*' | head -n 1)\"")  # NAME/VERSION
_OF_GPUS = ("nouveau", "nova", "nova_core", "rivafb", "rivatv")
_LICENCES = {"open-modules": "'Dual MIT/GPL'", "proprietary-modules": "NVIDIA"}  # of the kernel modules that a cause asks for
_READY_ON_DISK = lazy(r"/kernel/nvidia-\d{3}(?:srv)?(?:-open)?/")
_OF_CLOUD = lazy(r"-(?P<flavour>aws|azure|gcp|oracle)$")
_DKMS_OF_UBUNTU = lazy(r"nvidia-dkms-(?P<series>\d{3}(?:-server)?(?:-open)?)")
_VERSION = lazy(r"\d{3}(?:\.\d{1,4}){1,2}")


# ---------------------------------------------------------------- whether it is there
def of_debian(case: Case) -> bool:
    """Debian's own packages, which call the module by its branch, or nvidia-current."""
    return case.system.family == "debian" and not case.system.from_nvidia and case.driver.origin != "nvidia"


def module_check(case: Case, release: str | None = None) -> str:
    """DKMS knows the module by all of its names, and for kernels that do not run yet. `release`: how its version begins."""
    begins = "^nvidia" if release is None else rf"^nvidia.*[/ ]{release}"
    if case.system.family == "arch" and any(name.endswith("-dkms") for name in case.driver.packages):
        return f"dkms status | grep '{begins}.*installed'"
    if of_debian(case):
        return f"dkms status -k \"$(uname -r)\" | grep '{begins}.*installed'"
    return "modinfo -F version nvidia" + (f" | grep '^{release}'" if release is not None else "")


def built_check(case: Case) -> str:
    """What fails as long as the module of before is there: of another branch, or of the same one and the other kind."""
    chosen = case.driver
    licence = _LICENCES.get(case.cause.driver or "")
    if licence is not None and not of_debian(case):
        return f"modinfo -F license nvidia | grep -x {licence}"
    exact = chosen.branch is not None and str(chosen.branch) in " ".join((*chosen.packages, chosen.stream or ""))
    check = module_check(case, rf"{chosen.branch}\." if exact else None)
    here = {version.partition(".")[0] for version in _on_disk(case)} if not exact else set()
    old = sorted(branch for branch in here if branch.isdecimal() and not case.need.fits(int(branch)))
    kept = "|".join(rf"\b{branch}\." for branch in old)
    return f"{check} | grep -vE '{kept}'" if old else check


def _no_driver_at_all(case: Case) -> bool:
    """No file of the module, and no package of a driver, is known to be on this machine, and both were looked for."""
    looked = case.told(MODULE_FILES) and not case.told_by_text
    return looked and not case.get(MODULE_FILES) and not _on_disk(case) and not _built(case) and _ready_made(case) is None


CONDITIONS: dict[str, Condition] = {
    "signed-kmp-here": _signed_kmp_here,
    "module-built-here": lambda case: _ready_made(case) is None and not _without_builder(case) and not _lies_ready_made(case),
    "module-waits-for-restart": _waits_for_restart,
    "dkms-listed": lambda case: any(entry.module for entry in case.get(DKMS) or ()),  # so whoever installed the module gave it to DKMS
    "module-of-next-start": lambda case: _waits(_ready_made(case), running(case)) or _for_other_kernel_on_disk(case),
    "module-stays": _stays,
    "headers-served": _headers_served,
    "module-loads-now": _loads_now,
    "no-driver-at-all": _no_driver_at_all,
}
