"""Rules of the row `driver` that compare: module with user-space driver, driver branch and flavour with GPU, packages with each other and
the board; a refused module; a driver that hangs.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from cudadoctor.checks import traces
from cudadoctor.checks.base import Rule
from cudadoctor.checks.common import without_places
from cudadoctor.checks.gpu import architecture_of
from cudadoctor.checks.reading import (
    Quotes,
    broken,
    driver_answers,
    driver_is_out,
    elsewhere,
    event_line,
    first_true,
    gpus,
    merged,
    passed,
    seen_to_work,
    statements,
    told,
)
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Fact, Facts, Quote
from cudadoctor.model.findings import Basis, Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import (
    DRIVER_FILES,
    DRIVER_PACKAGES,
    HANGS,
    KERNEL,
    KERNEL_LOG,
    LADDER,
    LIBRARIES,
    LOADED_DRIVER,
    MODULE_FILES,
    NVML,
    PCI,
    SECURE_BOOT,
    SMI,
    TEGRA,
    WSL,
    Package,
    PciBus,
)
from cudadoctor.model.version import LibraryVersion, ModuleVersion, Version

_REFUSED = lazy(
    r"(?:unsigned module|module with (?:unavailable|unsupported)|PKCS#7 signature not signed).{0,200}(?:rejected|trusted key)"
    r"|[Kk]ey was rejected by service|[Rr]equired key not available|unsigned module loading is restricted"
)
_UNVERIFIED = lazy(r"nvidia\S{0,40}: module verification failed")  # alone it only taints the kernel; with Secure Boot on it refuses
_SPEAKER = lazy(r"^(?:\[[ \d.]+\]\s*)?([\w-]+): ")
_NEUTRAL_SPEAKERS = ("Lockdown", "lockdown", "kernel", "modprobe", "insmod", "systemd-modules-load", "module", "PKCS")
_FILE_VERSION = lazy(r"\.so\.(\d{3}\.\d+(?:\.\d+)?)$")
OTHER_RELEASE = 803  # CUDA_ERROR_SYSTEM_DRIVER_MISMATCH
DRIVER_STEPS = ("init", "devices", "context")  # steps of the ladder in which only the driver can hang
ASKED = ("nvidia-smi", "nvml")
REQUIRED, UNSUPPORTED = "open-module-required", "open-module-unsupported-gpu"
CONFLICT, PLATFORM = "driver-packages-conflict", "driver-wrong-platform"
# Packages that carry one driver release in their version; all that are installed must agree. Firmware, settings and kernel packages do not.
_OF_ONE_RELEASE = lazy(
    r"(?:libnvidia-(?:compute|gl|decode|encode|cfg1|extra|fbc1)(?:-\d{3}(?:-server)?)?|nvidia-(?:utils|compute-utils|dkms|kernel-source|driver)"
    r"(?:-\d{3}(?:-server)?(?:-open)?)?|libcuda1|libnvidia-ml1|nvidia-smi|nvidia-kernel-dkms|nvidia-open-kernel-dkms"
    r"|nvidia-driver-(?:cuda|libs|cuda-libs)|xorg-x11-drv-nvidia(?:-\d{3}xx)?(?:-cuda|-libs|-cuda-libs|-kmodsrc)?)$"
)
_RELEASE = lazy(r"(?:^\d{1,2}:)?(\d{3}\.\d{1,3}(?:\.\d{1,2})?)")
_NVIDIAS = lazy(r"cuda-(?:fedora|rhel|amzn|sles|opensuse)\d{1,3}-")  # the files of developer.download.nvidia.com name it so
_BROKEN = ("U", "F", "H")  # second letter of dpkg's state: unpacked, half configured, half installed
_DESKTOP = lazy(
    r"(?:nvidia-(?:driver|dkms|utils|compute-utils|kernel-(?:common|source))-\d{3}|libnvidia-(?:compute|gl|cfg1)-\d{3}|cuda-drivers)"
)


# ---------------------------------------------------------------- Secure Boot
def secure_boot(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """The kernel refused a module for its signature, and NVIDIA's module is not loaded.

    A line that names no module, or only says that a signature was not verified, counts where Secure Boot is known to be on.
    """
    log = facts[KERNEL_LOG]
    events = log.value.events if log.value is not None else ()
    refused = [event for event in events if _REFUSED.search(event.text) or _UNVERIFIED.search(event.text)]
    if not refused or elsewhere(facts, log) is not None or not driver_is_out(facts, log):
        return
    named = [event for event in refused if "nvidia" in event.text.lower() and not _UNVERIFIED.search(event.text)]
    anonymous = [event for event in refused if _names_nothing(event.text) or _UNVERIFIED.search(event.text)]
    if named or (anonymous and facts[SECURE_BOOT].value):
        lines = tuple(event_line(log, event) for event in (named or anonymous)[:3])
        yield Clue(cause="secure-boot-blocks-module", quotes=merged(lines, facts[SECURE_BOOT].some()[:1] if not named else ()))


def _names_nothing(text: str) -> bool:
    """A line that begins with another module's name (vboxdrv: ...) speaks of that module."""
    speaker = _SPEAKER.match(text.rpartition("kernel: ")[2])
    return speaker is None or speaker[1].startswith(_NEUTRAL_SPEAKERS)


# ---------------------------------------------------------------- two versions of the driver
class Side(NamedTuple):
    """A user-space driver library that did not start, and the lines that show its version."""

    version: LibraryVersion
    path: str | None
    quotes: Quotes


def version_mismatch(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """The loaded module and a library that does not start are of different versions.

    A library that started was accepted by this module, whatever the numbers look like. A cuda-compat library differs on purpose.
    """
    module = facts[LOADED_DRIVER]
    if module.value is None or elsewhere(facts, module) is not None:
        return
    loaded = module.value.version

    def other(side: Callable[[Facts], Side | None]) -> Side | None:
        found = side(facts)
        return found if found is not None and not same_release(loaded, found.version) else None

    side = first_true(*(partial(other, place) for place in (_libcuda_side, _nvml_side, _smi_side)))
    if side and not libcuda_fits(facts):
        values = {"library": side.version.text, **({"path": side.path} if side.path is not None else {})}
        yield Clue(cause="driver-version-mismatch", quotes=merged(module.some()[:1], side.quotes), values=values)


def libcuda_fits(facts: Facts) -> bool | None:
    """Whether the libcuda that programs load is of the loaded module's release: then no upgrade left two of them. Where nobody told its
    release, NVML's library stands for it, if the module took that one and neither the file's name nor cuInit says otherwise. None: not
    known.
    """
    climb, module, nvml = facts.value(LADDER), facts.value(LOADED_DRIVER), facts.value(NVML)
    if climb is None or module is None:
        return None
    if climb.library is not None:
        return same_release(module.version, climb.library)
    named = _by_file_name(facts, climb.library_path)
    if named is not None and not same_release(module.version, named.version):
        return False
    differs = any(result.code == OTHER_RELEASE for result in broken(climb, "init"))
    return True if nvml is not None and nvml.code == 0 and not differs else None


def misled(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """A variable leads NVML's programs alone to a library of another driver."""
    nvml = facts.there(NVML)
    if nvml is None or nvml.value is None or nvml.value.code == 0 or not libcuda_fits(facts):
        return
    folder = (nvml.value.path or "").rpartition("/")[0]
    values, shown = without_places(facts, "LD_LIBRARY_PATH", lambda place: bool(folder) and place.rstrip("/") == folder)
    if values:
        yield Clue(cause="library-path-conflict", quotes=merged(shown, nvml.some()[:1]), values={**values, "place": folder})


def same_release(one: Version, other: Version) -> bool:
    """Whether two version texts may name one release: nvidia-smi prints 550.54 for 550.54.15."""
    shared = min(len(one.numbers), len(other.numbers))
    return shared < 2 or one.numbers[:shared] == other.numbers[:shared]


def _libcuda_side(facts: Facts) -> Side | None:
    fact = facts[LADDER]
    ladder = fact.value
    if ladder is None or not passed(ladder, "libcuda") or passed(ladder, "init") or not traces.of_the_driver(ladder.library_path or ""):
        return None
    if ladder.library is not None:
        return Side(ladder.library, ladder.library_path, fact.lines_with(ladder.library.text)[:1])
    return _by_file_name(facts, ladder.library_path)


def _by_file_name(facts: Facts, path: str | None) -> Side | None:
    """The version that the loaded file's name, or the name of what it links to, carries."""
    if path is None:
        return None
    own = _FILE_VERSION.search(path)
    if own is not None:
        return Side(LibraryVersion(own[1]), path, facts[LADDER].lines_with(path)[:1])
    for key in (DRIVER_FILES, LIBRARIES):
        listing = facts[key]
        for file in listing.value.files if listing.value is not None else ():
            version = _FILE_VERSION.search(file.target or "")
            if file.path == path and version is not None:
                return Side(LibraryVersion(version[1]), path, listing.line_of(file.line))
    return None


def _nvml_side(facts: Facts) -> Side | None:
    fact = facts[NVML]
    library = fact.value.library if fact.value is not None and fact.value.code != 0 else None
    return None if library is None else Side(library, None, fact.lines_with(library.text)[:1])


def _smi_side(facts: Facts) -> Side | None:
    fact = facts[SMI]
    library = fact.value.library if fact.value is not None and fact.value.failure is not None and not fact.value.gpus else None
    return None if library is None else Side(library, None, fact.lines_with(library.text)[:2])


# ---------------------------------------------------------------- branch and GPU
def _misfit(cause: str, limit: str, beyond: Callable[[int, int], bool], facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """The driver's branch came after the last one that drives this GPU, or before the first, and the GPU does not work.

    `limit`: the architecture's field with that branch.
    """
    bus = facts[PCI]
    if elsewhere(facts, bus) is not None:
        return
    for gpu in gpus(facts):
        family = architecture_of(gpu, knowledge)
        if family is None:
            continue
        driver, branch = traces.installed_branch(facts, bus), getattr(family, limit)
        if driver is None and bus.origin == "text":
            raise LOADED_DRIVER.unknown("the text shows no driver")
        if driver is not None and branch is not None and beyond(driver.branch, branch) and not seen_to_work(facts, gpu):
            yield Clue(cause=cause, quotes=merged(gpu.quotes[:1], driver.quotes), subject=gpu.subject)


too_new = partial(_misfit, "driver-too-new-for-gpu", "last_driver_branch", operator.gt)
too_old = partial(_misfit, "driver-too-old-for-gpu", "first_driver_branch", operator.lt)


# ---------------------------------------------------------------- no answer
def hangs(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """nvidia-smi, NVML or cuInit gave no answer within its limit. The one rule that rests on a time-out."""
    fact = facts[HANGS]
    for entry in fact.value.entries if fact.value is not None else ():
        if entry.item == "nvidia-smi" and driver_answers(facts):
            continue
        if (entry.item in ASKED or entry.step in DRIVER_STEPS) and not _no_driver_here(facts):
            place = f" in step {entry.step}" if entry.step is not None else ""
            stuck = ", and it could not be ended" if entry.uninterruptible else ""
            quote = Quote(source=entry.what, text=f"no answer within {round(entry.seconds, 1):g} s{place}{stuck}")
            yield Clue(cause="driver-hung", quotes=(quote,))
            return
    silent = [name for name in (*ASKED, "ladder") if fact.value is None or name not in fact.value.asked]
    if silent:
        raise HANGS.unknown(f"{', '.join(silent)}: not asked")


def _no_driver_here(facts: Facts) -> bool:
    """Whether a machine has neither an NVIDIA GPU on the bus nor the module: what is slow there is the machine."""
    bus = facts.there(PCI)
    if bus is None or bus.origin == "text" or elsewhere(facts, bus) is not None:
        return False
    return not gpus(facts) and driver_is_out(facts, bus)


# ---------------------------------------------------------------- open or proprietary
def _wrong_flavour(cause: str, loaded: str, support: str, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """The modules of one flavour are loaded or would be, and this generation of GPUs runs with those of the other only.

    The open module takes itself out of memory again where it finds no GPU for it: then the file on disk tells.
    """
    bus = facts[PCI]
    if elsewhere(facts, bus) is not None:
        return
    driver = next(_flavours(facts, bus), None)
    if driver is None and bus.origin == "text":
        raise LOADED_DRIVER.unknown("the text does not show which flavour of the modules is loaded")
    flavour, version, quotes = driver or (None, None, ())
    for gpu in gpus(facts) if flavour == loaded else ():
        family = architecture_of(gpu, knowledge)
        if family is None or family.open_modules != support or seen_to_work(facts, gpu):
            continue
        if family.last_driver_branch is None or version is None or version.major <= family.last_driver_branch:
            yield Clue(cause=cause, quotes=merged(gpu.quotes[:1], quotes), subject=gpu.subject)  # else no flavour of this branch drives it


def _flavours(facts: Facts, bus: Fact[PciBus]) -> Iterator[tuple[str, ModuleVersion | None, Quotes]]:
    """What is loaded; where nothing is, the module that the running kernel would load."""
    if told(facts, LOADED_DRIVER, bus) is not None:
        for fact in statements(facts, LOADED_DRIVER):
            if (flavour := fact.need().flavour) is not None:
                yield flavour, fact.need().version, fact.some()[:1]
        return
    if told(facts, MODULE_FILES, bus) is None:
        return
    kernel, files = told(facts, KERNEL, bus), traces.modules_on_disk(facts)
    version = next((file.version for _, file in files if file.version is not None), None)
    for found, file in files:
        if file.flavour is not None and (file.kernel is None or kernel is None or file.kernel == kernel.release):
            yield file.flavour, file.version or version, found.some()[:1]


open_required = partial(_wrong_flavour, REQUIRED, "proprietary", "required")
open_unsupported = partial(_wrong_flavour, UNSUPPORTED, "open", "unsupported")


# ---------------------------------------------------------------- packages
def packages_conflict(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """A driver package is half installed, or packages of the user-space driver are of different releases."""
    fact = facts[DRIVER_PACKAGES]
    if told(facts, WSL, fact) or told(facts, TEGRA, fact):
        return
    for listing in statements(facts, DRIVER_PACKAGES):
        packages = [entry for entry in listing.need() if traces.is_driver_package(entry)]
        broken = [entry for entry in packages if entry.state[1:2] in _BROKEN]
        if broken:
            yield Clue(cause=CONFLICT, quotes=merged(*(listing.line_of(entry.line) for entry in broken[:2])))
            return
        yield from _two_releases(listing, packages)


def _two_releases(listing: Fact[tuple[Package, ...]], packages: list[Package]) -> Iterator[Clue]:
    """Each release by its first package. Kernel modules of other kernels keep the release that they were built from and do not count."""
    releases: dict[str, Package] = {}
    for entry in packages:
        number = _RELEASE.match(entry.version)
        if number is not None and _OF_ONE_RELEASE.match(entry.name):
            releases.setdefault(number[1], entry)
    if len(releases) > 1:
        entries = list(releases.values())[:2]
        mixed = _of_nvidia(entries)
        values = {"repository": mixed} if mixed is not None else {}
        # A text tells of packages and not of whether they work: the list alone is no complaint, unless no update will make them agree.
        basis: Basis = "suspected" if listing.origin == "text" and mixed is None else "derived"
        yield Clue(cause=CONFLICT, quotes=merged(*(listing.line_of(entry.line) for entry in entries)), basis=basis, values=values)


def _of_nvidia(entries: list[Package]) -> str | None:
    """NVIDIA's own repository, where the other package came from another one: each goes on to its own releases."""
    others = {entry.repository for entry in entries} - {None, "commandline", "System"}
    return next((name for name in others if name is not None and _NVIDIAS.match(name)), None) if len(others) > 1 else None


def wrong_platform(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """A Jetson board, and packages of the driver for desktops and servers on it."""
    board = facts[TEGRA]
    if not board.value:
        return
    for listing in statements(facts, DRIVER_PACKAGES):
        found = [entry for entry in listing.need() if _DESKTOP.match(entry.name) and traces.is_driver_package(entry)]
        if found:
            yield Clue(cause=PLATFORM, quotes=merged(*(listing.line_of(entry.line) for entry in found[:2]), board.some()[:1]))
            return


RULES: tuple[Rule, ...] = (
    Rule("driver", ("secure-boot-blocks-module",), secure_boot),
    Rule("driver", ("driver-version-mismatch",), version_mismatch),
    Rule("driver", ("driver-too-new-for-gpu",), too_new),
    Rule("driver", ("driver-too-old-for-gpu",), too_old),
    Rule("driver", ("driver-hung",), hangs),
    Rule("driver", (REQUIRED,), open_required),
    Rule("driver", (UNSUPPORTED,), open_unsupported),
    Rule("driver", (CONFLICT,), packages_conflict),
    Rule("driver", (PLATFORM,), wrong_platform),
)
