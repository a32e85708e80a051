"""Rules of the row `driver` about what is installed: open or proprietary modules, packages that do not belong together, Jetson's driver."""

from __future__ import annotations

from collections.abc import Iterator

from cudadoctor.checks import traces
from cudadoctor.checks.base import Function, Rule
from cudadoctor.checks.gpu import architecture_of
from cudadoctor.checks.reading import elsewhere, gpus, line_of, merged, seen_to_work, some, statements, told, unknown
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Fact, Facts
from cudadoctor.model.findings import Basis, Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import DRIVER_PACKAGES, LOADED_DRIVER, PCI, TEGRA, WSL, DriverPackages, Package

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
def _wrong_flavour(cause: str, loaded: str, support: str) -> Function:
    """The modules of one flavour are loaded, and this generation of GPUs runs with those of the other only."""

    def rule(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
        bus = facts[PCI]
        if elsewhere(facts, bus) is not None:
            return
        drivers = statements(facts, LOADED_DRIVER) if told(facts, LOADED_DRIVER, bus) is not None else ()
        fact = next((driver for driver in drivers if driver.need().flavour is not None), None)
        if fact is None and bus.origin == "text":
            raise unknown(LOADED_DRIVER, "the text does not show which flavour of the modules is loaded")
        if fact is None or fact.need().flavour != loaded:
            return
        version = fact.need().version
        for gpu in gpus(facts):
            family = architecture_of(gpu, knowledge)
            if family is None or family.open_modules != support or seen_to_work(facts, gpu):
                continue
            if family.last_driver_branch is not None and version.major > family.last_driver_branch:
                continue  # no flavour of this branch drives it
            values = {**gpu.values, "architecture": family.name, "driver": version.text}
            yield Clue(cause=cause, quotes=merged(gpu.quotes[:1], some(fact)[:1]), subject=gpu.subject, values=values)

    rule.__name__ = cause
    return rule


open_required = _wrong_flavour(REQUIRED, "proprietary", "required")
open_unsupported = _wrong_flavour(UNSUPPORTED, "open", "unsupported")


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
            values = {"package": broken[0].name, "state": _BROKEN[broken[0].state[1]]}
            yield Clue(cause=CONFLICT, quotes=merged(*(line_of(listing, entry.line) for entry in broken[:2])), values=values)
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
            quotes = merged(*(line_of(listing, entry.line) for entry in found[:2]), some(board)[:1])
            yield Clue(cause=PLATFORM, quotes=quotes, values={"package": found[0].name})
            return


RULES: tuple[Rule, ...] = (
    Rule("driver", (REQUIRED,), open_required),
    Rule("driver", (UNSUPPORTED,), open_unsupported),
    Rule("driver", (CONFLICT,), packages_conflict),
    Rule("driver", (PLATFORM,), wrong_platform),
)
