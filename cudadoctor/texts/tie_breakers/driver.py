"""Ties about the kernel side: which driver a text's machine has, and whether it fits the GPU that the driver's own line names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cudadoctor.checks import traces
from cudadoctor.checks.reading import Quotes, event_line
from cudadoctor.knowledge.tables import Architecture
from cudadoctor.model.facts import Key
from cudadoctor.model.findings import Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import (
    DKMS,
    DRIVER_PACKAGES,
    KERNEL,
    KERNEL_LOG,
    LOADED_DRIVER,
    MODULE_FILES,
    MODULES,
    PCI,
    SECURE_BOOT,
    SMI,
    TEGRA,
)
from cudadoctor.texts.tie_breakers.case import Case, codes, finding, joined, states, suspects, there

NOT_INSTALLED, MISSING, NOT_LOADED = "driver-not-installed", "driver-module-missing-for-kernel", "driver-not-loaded"
TOO_OLD, TOO_NEW, OPEN = "driver-too-old-for-gpu", "driver-too-new-for-gpu", "open-module-unsupported-gpu"
REFUSED, NOUVEAU, CONFLICT = "secure-boot-blocks-module", "nouveau-bound", "driver-packages-conflict"
PLATFORM = "driver-wrong-platform"
VGPU, OFF, NO_GPU = "vgpu-problem", "gpu-powered-off", "no-nvidia-gpu"
_YOUNG = 20  # branches after the first of a generation; until then its later cards are unknown
_NOT_FOUND = lazy(r"Module nvidia(?:[-_](?:drm|modeset))? not found")
_OF_BRANCH = lazy(r"Module nvidia-(?:tesla|legacy)")
_UVM_NOT_FOUND = lazy(r"Module nvidia[-_]uvm not found in directory")
_NO_CONTACT = codes("nvml 9", "nvidia-smi 9", words=r"communicate with the NVIDIA driver|Driver Not Loaded")
_NOT_FOUND_ON_JETSON = ("no-nvidia-gpu", NOT_LOADED, "uvm-unavailable", "libcuda-missing")
_NOT_RUNNING = codes("nvml 9", "cuda 100", words=r"communicate with the NVIDIA driver|Driver Not Loaded|No CUDA GPUs")
# linux-modules-nvidia-535-6.5.0-21-generic of Ubuntu, kmod-nvidia-6.5.6-300.fc39.x86_64 of Fedora
_PREBUILT = lazy(
    r"(?:linux-(?:modules|objects|signatures)-nvidia-\d{3}(?:-(?:server|open)){0,2}|kmod-nvidia)-(?P<kernel>\d{1,2}\.\d{1,3}\.\d{1,4}-\d[\w.-]{0,60})$"
)
_BUILDS_ITSELF = lazy(
    r"^(?:nvidia-(?:dkms|kernel-(?:source|dkms))|akmod-nvidia|dkms-nvidia|nvidia-open-dkms|kmod-nvidia-(?:latest|open)-dkms)"
)
_DESKTOP_PACKAGE = lazy(r"(?<![\w-])(?:nvidia-(?:driver|utils|dkms|headless|compute-utils)-\d{3}|cuda-drivers)")
_ID = lazy(r"\b10de:([0-9a-f]{4})\b")
_OF_TEGRA = lazy(r"\d-tegra\b")
_NONE_TO_HAVE = lazy(r"No such device|Unable to load the (?:kernel module|['\"]?nvidia)|No NVIDIA (?:devices|graphics device|GPU)")
_NOUVEAU_HOLDS = lazy(r"\bnouveau [0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d: (?:NVIDIA |bios: |fb: |DRM: |vgaarb: )")
_SWITCHED_OFF = lazy(r"bbswitch: (?:disabling|Succesfully loaded)")
_SWITCHED = lazy(r"(?i)bbswitch|prime-select|supergfx|envycontrol|ACPI|\boff\b")
_NO_PACKAGE = lazy(r"Unable to find a match:|has no installation candidate")
_NOT_SUPPORTED = lazy(r"not supported by the|driver release")


# ---------------------------------------------------------------- installed, built, loaded
def module_not_found(case: Case) -> Iterator[Clue]:
    """modprobe finds no module: any trace of a driver means that it was not built for this kernel, none at all that there is no driver.

    Where no packages are listed, nvidia-smi is that trace: it comes with the driver, and without a module too.
    """
    lines = case.suspected(MISSING, words=_NOT_FOUND)
    if not lines:
        return
    places = (traces.dkms_entry, traces.any_module_file, traces.package, traces.smi, traces.any_library)
    trace, packages = next(filter(None, map(case.ask, places)), ()), case.facts.there(DRIVER_PACKAGES)
    if trace:
        yield finding(MISSING, lines, trace)
    elif packages is not None and case.ask(traces.package) is not None:
        yield finding(NOT_INSTALLED, lines, packages.some()[:1])
    elif packages is None and case.gpus and not case.marks and not case.in_wsl and (smi := case.no_smi()):
        yield finding(NOT_INSTALLED, lines, smi, case.gpus[0].quotes[:1])


def none_installed(case: Case) -> Iterator[Clue]:
    """libcuda is not found, nor is nvidia-smi, and a list of packages has none of a driver: that is all that is missing."""
    lines, smi = case.stated("libcuda-missing"), case.no_smi()
    packages = case.facts.there(DRIVER_PACKAGES)
    if lines and smi and packages is not None and not case.container and not case.in_wsl and case.ask(traces.package) == ():
        yield finding(NOT_INSTALLED, lines, smi, packages.some()[:1])


def module_of_other_branch(case: Case) -> Iterator[Clue]:
    """Debian's alternatives ask for the module of one branch, and that of another is built."""
    lines, built = case.suspected(CONFLICT, words=_OF_BRANCH), _built_for_this_kernel(case)
    if lines and built:
        yield finding(CONFLICT, lines, built, values={"alternative": case.value_of(CONFLICT, "alternative") or ""})


def _built_for_this_kernel(case: Case) -> Quotes:
    """DKMS or a module file for the running kernel; modinfo without a path speaks of the running kernel by itself."""
    kernel, dkms, files = case.facts.value(KERNEL), case.facts.there(DKMS), case.facts.there(MODULE_FILES)
    release = kernel.release if kernel is not None else ""
    if dkms is not None:
        for entry in dkms.need():
            if entry.module.startswith("nvidia") and release and entry.kernel == release and entry.state.startswith("installed"):
                return dkms.line_of(entry.line)
    if files is not None:
        for file in files.need():
            named = file.kernel is None and file.version is not None
            if traces.is_driver_module(file) and (named or (release and file.kernel == release)):
                return files.lines_with(file.path, file.version.text if file.version is not None else file.path)[:1]
    return ()


def built_for_other_kernels(case: Case) -> Iterator[Clue]:
    """No contact with the driver, or no device nodes, and all modules that the text shows are for other kernels than the running one."""
    lines = case.suspected(NOT_LOADED, words=_NOT_RUNNING) or case.stated("device-nodes-missing")
    kernel = case.facts.there(KERNEL)
    if not lines or kernel is None or case.first(LOADED_DRIVER):
        return
    gone, release = case.says("kernel-gone"), kernel.need().release
    if gone:
        yield finding(MISSING, lines, kernel.some()[:1], gone, kernel=release)
        return
    if case.module("nvidia") or case.ask(traces.dkms_entry):
        return
    files = [(fact, file) for fact in case.facts.all(MODULE_FILES) for file in fact.value or () if traces.is_driver_module(file)]
    built = [*((file.kernel or "", fact.lines_with(file.path)[:1]) for fact, file in files), *_kernels_of_packages(case)]
    if built and not any(release.startswith(one) for one, _ in built):  # where a folder names none, it may be this one
        yield finding(MISSING, lines, kernel.some()[:1], built[0][1], kernel=release)


def _kernels_of_packages(case: Case) -> Iterator[tuple[str, Quotes]]:
    """The kernels that prebuilt modules are for, by the names of their packages. A package that builds them itself is for any."""
    for fact in case.facts.all(DRIVER_PACKAGES):
        packages = fact.value or ()
        if any(_BUILDS_ITSELF.search(package.name) for package in packages):
            return
        for package in packages:
            named = _PREBUILT.match(package.name)
            if named is not None and traces.is_driver_package(package):
                yield named["kernel"], fact.line_of(package.line)


def none_on_the_bus(case: Case) -> Iterator[Clue]:
    """A complaint that no GPU or no driver is found, and a look for NVIDIA's devices on the bus that found none.

    The kernel saw one when it started: it left the bus since. In a laptop it may be switched off; a listing may show another machine's.
    """
    lines = case.suspected(NO_GPU, NOT_INSTALLED) or case.stated("libcuda-missing")
    listed = any(fact.value is not None and fact.value.nvidia_gpus for fact in case.facts.all(PCI))
    shown = case.says("none-listed-there") or (() if listed else case.says("none-listed"))
    if not lines or not shown or case.in_wsl or case.says("windows") or case.says("mac"):
        return
    seen = case.says("seen-at-boot")
    if seen:
        yield finding("gpu-fell-off-bus", shown, seen, lines)
    elif not case.suspected(OFF, words=_SWITCHED) and not case.says("laptop") and not case.first(TEGRA):
        yield finding(NO_GPU, shown, lines)


# ---------------------------------------------------------------- branch and GPU, by the driver's own line
def _architecture(device: str | None, case: Case) -> Architecture | None:
    return case.knowledge.architecture_of_chip(case.knowledge.chip(device.lower()) if device is not None else None)


def unfit(family: Architecture, branch: int | None) -> str | None:
    """Whether a branch came before the first one that drives this architecture, or after the last."""
    first, last = family.first_driver_branch, family.last_driver_branch
    if branch is not None and last is not None and branch > last:
        return TOO_NEW
    return TOO_OLD if branch is not None and first is not None and branch < first else None


def is_young(family: Architecture, branch: int | None) -> bool:
    """Whether cards that came late in this generation are newer than such a branch."""
    first = family.first_driver_branch
    return branch is not None and first is not None and branch < first + _YOUNG


def not_supported(case: Case) -> Iterator[Clue]:
    """The driver refuses a PCI id: newer than its branch, older, or known to it (then a virtual machine or a power switch is behind it)."""
    lines = case.suspected(TOO_OLD, words=_NOT_SUPPORTED)
    device, release = case.value_of(TOO_OLD, "device"), case.value_of(TOO_OLD, "release")
    family = _architecture(device, case)
    if not lines or release is None or not release[:3].isdigit() or device is None:
        return
    branch = int(release.split(".")[0])
    values = {"device": device.lower(), "driver": release, "branch": str(branch)}
    if family is None or (cause := unfit(family, branch)) is not None:
        named = {"architecture": family.name} if family is not None else {}
        yield finding(TOO_OLD if family is None else cause or "", lines, values={**values, **named})
    elif is_young(family, branch):
        for cause in (TOO_OLD, VGPU, OFF):
            yield finding(cause, lines, basis="suspected")
    elif case.says("virtual-machine"):
        yield finding(VGPU, lines, case.says("virtual-machine"), values=values)
    elif case.says("laptop"):
        yield finding(OFF, lines, case.says("laptop"))
    else:
        for cause in (OFF, VGPU, TOO_OLD):
            yield finding(cause, lines, basis="suspected")


def beyond_the_open_flavour(case: Case) -> Iterator[Clue]:
    """The open modules refuse an old GPU, and their branch has dropped it as well: no flavour helps."""
    lines = case.stated(OPEN)
    family = _architecture(case.value_of(OPEN, "device"), case)
    if not lines or family is None or family.last_driver_branch is None:
        return
    driver = installed(case)
    if driver is not None and driver.branch > family.last_driver_branch:
        values = {"architecture": family.name, "driver": driver.version, "branch": str(family.last_driver_branch)}
        yield finding(TOO_NEW, lines, driver.quotes, values=values)


def installed(case: Case) -> traces.Installed | None:
    """The driver that the text shows to be loaded or installed; None where it shows none, or does not say enough."""
    keys: tuple[Key[Any], ...] = (LOADED_DRIVER, MODULE_FILES, DKMS, DRIVER_PACKAGES)
    shown = next(filter(None, map(case.facts.there, keys)), None)
    return case.ask(traces.installed_branch, shown) if shown is not None else None


_LOADED = there(LOADED_DRIVER)


def _desktop_typed(case: Case) -> Quotes:
    return tuple(quote for quote in case.says("linux-driver") if _DESKTOP_PACKAGE.search(quote.text))


def _held_by_nouveau(case: Case) -> Quotes:
    log = case.facts.there(KERNEL_LOG)
    held = next((event for event in log.need().events if _NOUVEAU_HOLDS.search(event.text)), None) if log is not None else None
    return () if log is None or held is None or log.need().past(held.line, held.address) else (event_line(log, held),)


def _not_answering(case: Case) -> Quotes:
    return next((gpu.quotes[:1] for gpu in case.gpus if gpu.revision == "ff"), ())


def _all_for_guests(case: Case) -> Quotes:
    ids = {found for quote in case.says("ids-for-guests") for found in _ID.findall(quote.text.partition("vfio-pci")[2])}
    theirs = (gpu.device is not None and gpu.device.lower() in ids and gpu.driver in (None, "vfio-pci") for gpu in case.gpus)
    return case.gpus[0].quotes[:1] if case.gpus and all(theirs) else ()


def _without_uvm(case: Case) -> Quotes:
    found = case.facts.there(MODULES)
    nvidia = found.need().find("nvidia") if found is not None else None
    if found is None or nvidia is None or not nvidia.used_by or "nvidia_uvm" in nvidia.used_by or found.need().find("nvidia_uvm"):
        return ()
    return found.line_of(nvidia.line)


def _answers(case: Case) -> Quotes:
    """nvidia-smi answers somewhere in the text."""
    return next((fact.some()[:1] for fact in case.facts.all(SMI) if fact.value is not None and fact.value.gpus), ())


TIES = (
    module_not_found,
    module_of_other_branch,
    # A Jetson whose GPU is not found, and the driver for desktops and servers in a listing of packages for ARM or a typed command.
    joined(
        PLATFORM,
        suspects(*_NOT_FOUND_ON_JETSON),
        beside=("jetson", ("desktop-package", _desktop_typed)),
        unless=("jetson-thor",),
        unsettled=True,
    ),
    # The module of the driver for desktops and servers is built for a Jetson's kernel, which has its own.
    joined(PLATFORM, states("driver-build-failed", words=_OF_TEGRA)),
    # No contact with a driver that is installed, on a machine whose firmware checks signatures.
    joined(REFUSED, suspects(REFUSED), beside=(there(SECURE_BOOT), _built_for_this_kernel), unless_stated=(NOUVEAU,)),
    joined(
        REFUSED,
        suspects(REFUSED),
        beside=(there(SECURE_BOOT),),
        unless=(_built_for_this_kernel,),
        unless_stated=(NOUVEAU,),
        basis="suspected",
    ),
    # Somebody says that his firmware checks signatures.
    joined(REFUSED, suspects(REFUSED), beside=("secure-boot-on",), unless=(there(SECURE_BOOT),), unsettled=True, basis="suspected"),
    # The package manager knows no package of the driver, and nothing of one is shown: its repository is not set up.
    joined(
        NOT_INSTALLED,
        suspects(NOT_INSTALLED, words=_NO_PACKAGE),
        unless=(*(there(key) for key in (LOADED_DRIVER, DKMS, DRIVER_PACKAGES, MODULE_FILES)), _answers),
        unsettled=True,
    ),
    built_for_other_kernels,
    # No contact with the driver, although its module for the running kernel exists.
    joined(
        NOT_LOADED,
        suspects(NOT_LOADED, words=_NO_CONTACT),
        beside=(_built_for_this_kernel,),
        unless=(_LOADED, lambda case: case.module("nvidia"), lambda case: case.module("nouveau")),
    ),
    # The same beside a list in which nouveau is loaded and nvidia is not.
    joined(
        NOUVEAU,
        suspects(NOT_LOADED, words=_NO_CONTACT),
        beside=(lambda case: case.module("nouveau"),),
        only_if=(_built_for_this_kernel,),
        unless=(_LOADED, lambda case: case.module("nvidia")),
        driver="nouveau",
    ),
    # NVIDIA's module found no device that it may have, and the kernel's lines before it show nouveau on a GPU.
    joined(NOUVEAU, suspects(NOUVEAU, words=_NONE_TO_HAVE), beside=(_held_by_nouveau,), unless=(_LOADED,), driver="nouveau"),
    # bbswitch switched the GPU off, and a listing of the bus shows that it does not answer any more (revision ff).
    joined(OFF, suspects(OFF, words=_SWITCHED_OFF), beside=(_not_answering,)),
    # The driver for guests is told to take an id which every NVIDIA GPU of the bus has, and the host's driver has none. No guest is shown.
    joined("vfio-bound", suspects("vfio-bound"), beside=("ids-for-guests", _all_for_guests), unless=("guest-works",), unsettled=True),
    # The driver's library is not found, and Windows drives the display with its own basic driver.
    joined(NOT_INSTALLED, states("libcuda-missing"), suspects(NOT_INSTALLED), beside=("basic-adapter",)),
    none_on_the_bus,
    none_installed,
    # A notebook of Google's that was given no GPU.
    joined(NO_GPU, states("libcuda-missing", NOT_INSTALLED), beside=("colab",)),
    # The second module is not found where the first one is loaded: a new kernel took the running one's folder away since the start.
    joined(
        MISSING,
        states("uvm-unavailable", words=_UVM_NOT_FOUND),
        beside=(lambda case: case.module("nvidia"),),
        unless=(lambda case: case.module("nvidia_uvm"),),
    ),
    # An unknown error of CUDA, and the row of module nvidia lists the modules that use it: nvidia_uvm is not one of them.
    joined("uvm-unavailable", suspects("uvm-unavailable"), beside=(_without_uvm,)),
    not_supported,
    beyond_the_open_flavour,
)
