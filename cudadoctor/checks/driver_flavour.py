"""Rules of the row `driver` about what is installed: open or proprietary modules, packages that do not belong together, Jetson's driver."""

from __future__ import annotations

from collections.abc import Iterator

from cudadoctor.checks import traces
from cudadoctor.checks.base import Rule
from cudadoctor.checks.gpu import architecture_of
from cudadoctor.checks.reading import Gpu, Quotes, elsewhere, gpus, line_of, merged, some, statements, told, unknown, works_now
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Fact, Facts
from cudadoctor.model.findings import Basis, Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import DRIVER_PACKAGES, LOADED_DRIVER, PCI, TEGRA, WSL, DriverPackages, LoadedDriver, Package

REQUIRED, UNSUPPORTED = "open-module-required", "open-module-unsupported-gpu"
CONFLICT, PLATFORM = "driver-packages-conflict", "driver-wrong-platform"
# Packages that carry one driver release in their version; all that are installed must agree. Firmware, settings and kernel packages do not.
_OF_ONE_RELEASE = lazy(
    r"(?:libnvidia-(?:compute|gl|decode|encode|cfg1|extra|fbc1)(?:-\d{3}(?:-server)?)?|nvidia-(?:utils|compute-utils|dkms|kernel-source|driver)"
    r"(?:-\d{3}(?:-server)?(?:-open)?)?|libcuda1|libnvidia-ml1|nvidia-smi|nvidia-kernel-dkms|nvidia-open-kernel-dkms"
    r"|nvidia-driver-(?:cuda|libs|cuda-libs)|xorg-x11-drv-nvidia(?:-\d{3}xx)?(?:-cuda|-libs|-cuda-libs|-kmodsrc)?)$"
)
_RELEASE = lazy(r"(?:^\d{1,2}:)?(\d{3}\.\d{1,3}(?:\.\d{1,2})?)")
_BROKEN = {"U": "unpacked, not configured", "F": "half configured", "H": "half installed"}  # second letter of dpkg's state
_DESKTOP = lazy(
    r"(?:nvidia-(?:driver|dkms|utils|compute-utils|kernel-(?:common|source))-\d{3}|libnvidia-(?:compute|gl|cfg1)-\d{3}|cuda-drivers)"
)


# ---------------------------------------------------------------- open or proprietary
def _flavour(facts: Facts) -> tuple[Fact[LoadedDriver], str] | None:
    """The loaded module's flavour, from whichever source says it."""
    for fact in statements(facts, LOADED_DRIVER):
        if fact.value is not None and fact.value.flavour is not None:
            return fact, fact.value.flavour
    return None


def _unused(facts: Facts, gpu: Gpu) -> bool:
    """Whether the driver is not seen to work on this GPU; a text tells of the time when it did not."""
    return facts[PCI].origin == "text" or not works_now(facts, gpu.address)


def open_required(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """The proprietary modules are loaded, and this generation of GPUs runs with the open ones only."""
    yield from _wrong_flavour(facts, knowledge, REQUIRED, "proprietary", "required")


def open_unsupported(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """The open modules are loaded, and this generation of GPUs runs with the proprietary ones only."""
    yield from _wrong_flavour(facts, knowledge, UNSUPPORTED, "open", "unsupported")


def _wrong_flavour(facts: Facts, knowledge: Knowledge, cause: str, loaded: str, support: str) -> Iterator[Clue]:
    bus = facts[PCI]
    if elsewhere(facts, bus) is not None:
        return
    flavour = _flavour(facts) if told(facts, LOADED_DRIVER, bus) is not None else None
    if flavour is None and bus.origin == "text":
        raise unknown(LOADED_DRIVER, "the text does not show which flavour of the modules is loaded")
    if flavour is None or flavour[1] != loaded:
        return
    fact = flavour[0]
    branch = fact.need().version.major
    for gpu in gpus(facts):
        family = architecture_of(gpu, knowledge)
        if family is None or family.open_modules != support or not _unused(facts, gpu):
            continue
        if family.last_driver_branch is not None and branch > family.last_driver_branch:
            continue  # no flavour of this branch drives it
        values = {"address": gpu.address, "device": gpu.device or "", "architecture": family.name, "driver": fact.need().version.text}
        yield Clue(cause=cause, quotes=merged(gpu.quotes[:1], some(fact)[:1]), subject=gpu.subject, values=values)


# ---------------------------------------------------------------- packages
def packages_conflict(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """A driver package is half installed, or packages of the user-space driver are of different releases."""
    fact = facts[DRIVER_PACKAGES]
    if told(facts, WSL, fact) or told(facts, TEGRA, fact):
        return
    for listing in statements(facts, DRIVER_PACKAGES):
        packages = [entry for entry in listing.need().packages if traces.is_driver_package(entry)]
        broken = [entry for entry in packages if len(entry.state) > 1 and entry.state[1] in _BROKEN]
        if broken:
            lines = tuple(quote for entry in broken[:2] for quote in line_of(listing, entry.line))
            values = {"package": broken[0].name, "state": _BROKEN[broken[0].state[1]]}
            yield Clue(cause=CONFLICT, quotes=merged(lines), values=values)
            return
        yield from _two_releases(listing, packages)


def _two_releases(listing: Fact[DriverPackages], packages: list[Package]) -> Iterator[Clue]:
    """Each release by its first package. Kernel modules of other kernels keep the release that they were built from and do not count."""
    releases: dict[str, Package] = {}
    for entry in packages:
        number = _RELEASE.match(entry.version)
        if number is not None and _OF_ONE_RELEASE.match(entry.name):
            releases.setdefault(number[1], entry)
    if len(releases) > 1:
        entries = list(releases.values())[:2]
        values = {"package": entries[0].name, "other": entries[1].name}
        # A text tells of packages and not of whether they work: the list alone is no complaint.
        basis: Basis = "suspected" if listing.origin == "text" else "derived"
        yield Clue(cause=CONFLICT, quotes=merged(*(line_of(listing, entry.line) for entry in entries)), basis=basis, values=values)


def wrong_platform(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """A Jetson board, and packages of the driver for desktops and servers on it."""
    board = facts[TEGRA]
    if not board.value:
        return
    for listing in statements(facts, DRIVER_PACKAGES):
        found = [entry for entry in listing.need().packages if _DESKTOP.match(entry.name) and traces.is_driver_package(entry)]
        if found:
            lines: Quotes = merged(*(line_of(listing, entry.line) for entry in found[:2]))
            yield Clue(cause=PLATFORM, quotes=merged(lines, some(board)[:1]), values={"package": found[0].name})
            return


RULES: tuple[Rule, ...] = (
    Rule("driver", (REQUIRED,), open_required),
    Rule("driver", (UNSUPPORTED,), open_unsupported),
    Rule("driver", (CONFLICT,), packages_conflict),
    Rule("driver", (PLATFORM,), wrong_platform),
)
