"""Ties about the kernel side: which driver a text's machine has, and whether it fits the GPU that the driver's own line names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from cudadoctor.checks import traces
from cudadoctor.checks.reading import Quotes, event_line, gpus, module_named
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.knowledge.tables import Architecture
from cudadoctor.model.facts import Facts, Key, NotKnown
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
    NAMED_GPUS,
    PCI,
    SECURE_BOOT,
    TEGRA,
)
from cudadoctor.texts.tie_breakers.joining import joined, states, suspects
from cudadoctor.texts.tie_breakers.place import place_of
from cudadoctor.texts.tie_breakers.said import Said, codes, finding, mention, settled, stated, suspected, values_of

NOT_INSTALLED, MISSING, NOT_LOADED = "driver-not-installed", "driver-module-missing-for-kernel", "driver-not-loaded"
TOO_OLD, TOO_NEW, OPEN = "driver-too-old-for-gpu", "driver-too-new-for-gpu", "open-module-unsupported-gpu"
REFUSED, NOUVEAU = "secure-boot-blocks-module", "nouveau-bound"
CONFLICT, PLATFORM = "driver-packages-conflict", "driver-wrong-platform"
VGPU, OFF, NO_GPU = "vgpu-problem", "gpu-powered-off", "no-nvidia-gpu"
YOUNG = 20  # branches after the first of a generation; until then its later cards are unknown
_NOT_FOUND = lazy(r"Module nvidia(?:[-_](?:drm|modeset))? not found")
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
_DESKTOP_DRIVER = lazy(r"\b(?:nvidia-driver-\d{3}|cuda-drivers|nvidia-dkms-\d{3})\b")
_DESKTOP_PACKAGE = lazy(r"(?<![\w-])(?:nvidia-(?:driver|utils|dkms|headless|compute-utils)-\d{3}|cuda-drivers)")
_ID = lazy(r"\b10de:([0-9a-f]{4})\b")
_OF_TEGRA = lazy(r"\d-tegra\b")
_NONE_TO_HAVE = lazy(r"No such device|Unable to load the (?:kernel module|['\"]?nvidia)|No NVIDIA (?:devices|graphics device|GPU)")
_NOUVEAU_HOLDS = lazy(r"\bnouveau [0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d: (?:NVIDIA |bios: |fb: |DRM: |vgaarb: )")
_SWITCHED_OFF = lazy(r"bbswitch: (?:disabling|Succesfully loaded)")
_SWITCHED = lazy(r"(?i)bbswitch|prime-select|supergfx|envycontrol|ACPI|\boff\b")
_NOT_SUPPORTED = lazy(r"not supported by the|driver release")


def _answer(question: Callable[[], Quotes]) -> Quotes | None:
    """The question's lines, None where the text does not say."""
    try:
        return question()
    except NotKnown:
        return None


def _present(facts: Facts, key: Key[Any]) -> bool:
    return facts.there(key) is not None


# ---------------------------------------------------------------- installed, built, loaded
def module_not_found(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """modprobe finds no module: any trace of a driver means that it was not built for this kernel, none at all that there is no driver."""
    lines = suspected(said, MISSING, _NOT_FOUND)
    if not lines:
        return
    places = (traces.dkms_entry, traces.any_module_file, traces.package, traces.smi, traces.any_library)
    answers = [_answer(lambda place=place: place(facts)) for place in places]  # type: ignore[misc]
    trace = next((found for found in answers if found), ())
    if trace:
        yield finding(MISSING, lines, trace)
    elif answers[2] is not None and _present(facts, DRIVER_PACKAGES):
        yield finding(NOT_INSTALLED, lines, facts[DRIVER_PACKAGES].some()[:1])


def desktop_driver_on_jetson(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """Packages of the driver for desktops and servers do not go together on a Jetson: they do not belong there at all."""
    lines, named = stated(said, CONFLICT, words=_DESKTOP_DRIVER), facts.there(NAMED_GPUS)
    boards = [named.line_of(gpu.line) for gpu in named.need() if "Jetson" in (gpu.name or "")] if named is not None else []
    if lines and boards:
        yield finding(PLATFORM, lines, boards[0])


def desktop_packages_on_jetson(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """A Jetson whose GPU is not found, and the driver for desktops and servers in a listing of packages for ARM or a typed command."""
    place = place_of(facts)
    typed = tuple(quote for quote in place.said("linux-driver") if _DESKTOP_PACKAGE.search(quote.text))
    board, listed = place.said("jetson"), place.said("desktop-package") or typed
    lines = next((found for cause in _NOT_FOUND_ON_JETSON if (found := suspected(said, cause))), ())
    if lines and board and listed and not place.said("jetson-thor") and not settled(said):
        yield finding(PLATFORM, lines, board, listed)


def module_there_but_not_loaded(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """No contact with the driver, although its module for the running kernel exists."""
    lines = suspected(said, NOT_LOADED, _NO_CONTACT)
    if not lines or _present(facts, LOADED_DRIVER) or _answer(lambda: module_named(facts, "nvidia")):
        return
    built = _built_for_this_kernel(facts)
    if built:
        yield finding(NOT_LOADED, lines, built)


def _built_for_this_kernel(facts: Facts) -> Quotes:
    """DKMS or a module file for the running kernel; modinfo without a path speaks of the running kernel by itself."""
    kernel, dkms, files = facts.value(KERNEL), facts.there(DKMS), facts.there(MODULE_FILES)
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


def built_for_other_kernels(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """No contact with the driver, or no device nodes, and all modules that the text shows are for other kernels than the running one."""
    lines = suspected(said, NOT_LOADED, _NOT_RUNNING) or stated(said, "device-nodes-missing")
    kernel = facts.there(KERNEL)
    if not lines or kernel is None or _present(facts, LOADED_DRIVER):
        return
    gone, release = place_of(facts).said("kernel-gone"), kernel.need().release
    if gone:
        yield finding(MISSING, lines, kernel.some()[:1], gone, kernel=release)
        return
    if _answer(lambda: module_named(facts, "nvidia")) or _answer(lambda: traces.dkms_entry(facts)):
        return
    built = [*_kernels_of_files(facts), *_kernels_of_packages(facts)]
    if built and not any(_same_kernel(one, release) for one, _ in built):
        yield finding(MISSING, lines, kernel.some()[:1], built[0][1], kernel=release)


def _kernels_of_files(facts: Facts) -> Iterator[tuple[str, Quotes]]:
    """The kernels for which the text shows a file of NVIDIA's module."""
    for fact in facts.all(MODULE_FILES):
        for file in fact.value or ():
            if traces.is_driver_module(file):
                yield file.kernel or "", fact.lines_with(file.path)[:1]


def _kernels_of_packages(facts: Facts) -> Iterator[tuple[str, Quotes]]:
    """The kernels that prebuilt modules are for, by the names of their packages. A package that builds them itself is for any."""
    for fact in facts.all(DRIVER_PACKAGES):
        packages = fact.value or ()
        if any(_BUILDS_ITSELF.search(package.name) for package in packages):
            return
        for package in packages:
            named = _PREBUILT.match(package.name)
            if named is not None and traces.is_driver_package(package):
                yield named["kernel"], fact.line_of(package.line)


def _same_kernel(one: str, release: str) -> bool:
    """Whether a kernel that a package or a folder names is this one; where it names none it may be."""
    return not one or release.startswith(one)


def secure_boot_on(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """No contact with a driver that is installed, on a machine whose firmware checks signatures."""
    lines, found = suspected(said, REFUSED), facts.there(SECURE_BOOT)
    if not lines or found is None or not found.value or stated(said, NOUVEAU):
        return
    installed = _built_for_this_kernel(facts)
    yield finding(REFUSED, lines, found.some()[:1], installed, basis="derived" if installed else "suspected")


def uvm_out(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """An unknown error of CUDA, and the row of module nvidia lists the modules that use it: nvidia_uvm is not one of them."""
    lines, found = suspected(said, "uvm-unavailable"), facts.there(MODULES)
    if not lines or found is None:
        return
    nvidia = found.need().find("nvidia")
    if nvidia is not None and nvidia.used_by and "nvidia_uvm" not in nvidia.used_by and found.need().find("nvidia_uvm") is None:
        yield finding("uvm-unavailable", lines, found.line_of(nvidia.line))


def nouveau_in_the_way(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """NVIDIA's module found no device that it may have, and the kernel's lines before it show nouveau on a GPU."""
    lines, log = suspected(said, NOUVEAU, _NONE_TO_HAVE), facts.there(KERNEL_LOG)
    if not lines or log is None or _present(facts, LOADED_DRIVER):
        return
    held = next((event for event in log.need().events if _NOUVEAU_HOLDS.search(event.text)), None)
    if held is not None and not log.need().past(held.line, held.address):
        yield finding(NOUVEAU, lines, (event_line(log, held),), driver="nouveau")


def switched_off(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """bbswitch switched the GPU off, and a listing of the bus shows that it does not answer any more (revision ff)."""
    lines = suspected(said, OFF, _SWITCHED_OFF)
    listed = [gpu for gpu in gpus(facts) if gpu.revision == "ff"] if lines and _present(facts, PCI) else []
    if listed:
        yield finding(OFF, lines, listed[0].quotes[:1])


def ids_for_guests(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """The driver for guests is told to take an id which every NVIDIA GPU of the bus has, and the host's driver has none."""
    place, lines = place_of(facts), suspected(said, "vfio-bound")
    shown = place.said("ids-for-guests")
    if not lines or not shown or settled(said) or not _present(facts, PCI):
        return
    ids = set(_ID.findall(shown[0].text.partition("vfio-pci")[2]))
    listed = gpus(facts)
    if listed and all(gpu.device is not None and gpu.device.lower() in ids and gpu.driver in (None, "vfio-pci") for gpu in listed):
        yield finding("vfio-bound", lines, shown, listed[0].quotes[:1])


def unloaded(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """No contact with the driver, and the text says that its modules were taken out by hand."""
    lines, shown = suspected(said, NOT_LOADED, _NO_CONTACT), place_of(facts).said("unloaded")
    if lines and shown and not settled(said) and not _present(facts, LOADED_DRIVER):
        yield finding(NOT_LOADED, lines, shown, basis="suspected")


def none_on_the_bus(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """A complaint that no GPU or no driver is found, and a look for NVIDIA's devices on the bus that found none.

    The kernel saw one when it started: it left the bus since. In a laptop it may be switched off; a listing may show another machine's.
    """
    place = place_of(facts)
    lines = suspected(said, NO_GPU) or suspected(said, NOT_INSTALLED) or stated(said, "libcuda-missing")
    shown = place.said("none-listed-there") or (() if _gpu_listed(facts) else place.said("none-listed"))
    if not lines or not shown or place.in_wsl or place.said("windows") or place.said("mac"):
        return
    seen = place.said("seen-at-boot")
    if seen:
        yield finding("gpu-fell-off-bus", shown, seen, lines)
    elif not suspected(said, OFF, _SWITCHED) and not mention(facts, "laptop") and not _present(facts, TEGRA):
        yield finding(NO_GPU, shown, lines)


def _gpu_listed(facts: Facts) -> bool:
    return any(fact.value is not None and fact.value.nvidia_gpus for fact in facts.all(PCI))


# ---------------------------------------------------------------- branch and GPU, by the driver's own line
def _architecture(device: str | None, knowledge: Knowledge) -> Architecture | None:
    return knowledge.architecture_of_chip(knowledge.chip(device.lower()) if device is not None else None)


def _branch(text: str | None) -> int | None:
    return int(text.split(".")[0]) if text is not None and text[:3].isdigit() else None


def not_supported(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """The driver refuses a PCI id: newer than its branch, older, or known to it (then a virtual machine or a power switch is behind it)."""
    lines = suspected(said, TOO_OLD, _NOT_SUPPORTED)
    device, release = values_of(said, TOO_OLD, "device"), values_of(said, TOO_OLD, "release")
    branch, family = _branch(release), _architecture(device, knowledge)
    if not lines or branch is None or device is None:
        return
    values = {"device": device.lower(), "driver": release or "", "branch": str(branch)}
    if family is None or (family.first_driver_branch is not None and branch < family.first_driver_branch):
        yield finding(TOO_OLD, lines, values={**values, **({"architecture": family.name} if family is not None else {})})
    elif family.last_driver_branch is not None and branch > family.last_driver_branch:
        yield finding(TOO_NEW, lines, values={**values, "architecture": family.name})
    elif family.first_driver_branch is not None and branch < family.first_driver_branch + YOUNG:
        # Cards that came late in this generation are newer than such a branch.
        for cause in (TOO_OLD, VGPU, OFF):
            yield finding(cause, lines, basis="suspected")
    elif mention(facts, "virtual-machine"):
        yield finding(VGPU, lines, mention(facts, "virtual-machine"), values=values)
    elif mention(facts, "laptop"):
        yield finding(OFF, lines, mention(facts, "laptop"))
    else:
        for cause in (OFF, VGPU, TOO_OLD):
            yield finding(cause, lines, basis="suspected")


def beyond_the_open_flavour(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """The open modules refuse an old GPU, and their branch has dropped it as well: no flavour helps."""
    lines = stated(said, OPEN)
    family = _architecture(values_of(said, OPEN, "device"), knowledge)
    if not lines or family is None or family.last_driver_branch is None:
        return
    driver = installed(facts)
    if driver is not None and driver.branch > family.last_driver_branch:
        values = {"architecture": family.name, "driver": driver.version, "branch": str(family.last_driver_branch)}
        yield finding(TOO_NEW, lines, driver.quotes, values=values)


def installed(facts: Facts) -> traces.Installed | None:
    """The driver that the text shows to be loaded or installed; None where it shows none, or does not say enough."""
    keys: tuple[Key[Any], ...] = (LOADED_DRIVER, MODULE_FILES, DKMS, DRIVER_PACKAGES)
    shown = next((found for found in map(facts.there, keys) if found is not None), None)
    try:
        return traces.installed_branch(facts, shown) if shown is not None else None
    except NotKnown:
        return None


TIES = (
    module_not_found,
    desktop_driver_on_jetson,
    desktop_packages_on_jetson,
    # The module of the driver for desktops and servers is built for a Jetson's kernel, which has its own.
    joined(PLATFORM, states("driver-build-failed", words=_OF_TEGRA)),
    secure_boot_on,
    built_for_other_kernels,
    module_there_but_not_loaded,
    nouveau_in_the_way,
    switched_off,
    ids_for_guests,
    # The driver's library is not found, and Windows drives the display with its own basic driver.
    joined(NOT_INSTALLED, states("libcuda-missing"), suspects(NOT_INSTALLED), beside=("basic-adapter",)),
    unloaded,
    none_on_the_bus,
    uvm_out,
    not_supported,
    beyond_the_open_flavour,
)
