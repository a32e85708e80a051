"""Ties of driver and GPU by the words of a text: a branch or a flavour that does not drive the GPU which the text names.

Where lspci, DKMS or a package list show both, the rules of the row `driver` find it. People also write "RTX 5070 Ti with
nvidia-driver-550": that raises a suspicion, and puts it before the general ones that the driver's message has.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from cudadoctor.checks.driver_fit import packages_conflict, same_release
from cudadoctor.checks.gpu import architecture_of
from cudadoctor.checks.reading import Quotes, gpus
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.knowledge.tables import Architecture
from cudadoctor.model.facts import Facts, NotKnown
from cudadoctor.model.findings import Basis, Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import (
    DKMS,
    DRIVER_PACKAGES,
    FRAMEWORKS,
    LOADED_DRIVER,
    NAMED_DRIVERS,
    TEGRA,
    WSL,
    NamedDrivers,
)
from cudadoctor.model.version import ModuleVersion
from cudadoctor.texts.tie_breakers.driver import YOUNG, installed
from cudadoctor.texts.tie_breakers.said import Said, finding, gpus_of_tables, settled, suspected
from cudadoctor.texts.tie_breakers.toolkit import gpus_named

TOO_OLD, TOO_NEW = "driver-too-old-for-gpu", "driver-too-new-for-gpu"
REQUIRED, UNSUPPORTED = "open-module-required", "open-module-unsupported-gpu"
COMPLAINTS = ("gpu-init-failed", "driver-not-loaded", TOO_OLD, TOO_NEW, "nouveau-bound", UNSUPPORTED, REQUIRED)
MISMATCH, DRIVER_MISSING = "driver-version-mismatch", "driver-module-missing-for-kernel"
BAR = "pci-bar-unassigned"
_NO_DEVICE = lazy(r"(?i)no devices? (?:were |was )?found|supported by the \d|NVIDIA devices were initialized|find any screens|open kernel")
_UNSUPPORTED = lazy(r"supported by the \d")
_REFUSED = lazy(r"were initialized|RmInitAdapter|rm_init_adapter|No devices were found|probe routine failed")
_PROBE = lazy(r"probe routine (?:failed|was not called)|nvidia: probe of|probe with driver nvidia failed")
_MODULES = lazy(r"(?:nvidia-(?:dkms|driver|kernel-source)-\d{3}|nvidia-(?:open-)?(?:kernel-)?dkms$|linux-(?:modules|objects)-nvidia-)")
_RELEASE = lazy(r"(?:^|:)(\d{3}\.\d{1,3}(?:\.\d{1,2})?)")
_USER_SPACE = lazy(
    r"(?:lib)?nvidia-(?:compute-utils|utils|compute)(?:-\d{3})?(?:-server)?$|libcuda1$|libnvidia-ml1?$|xorg-x11-drv-nvidia-cuda$|nvidia-driver-cuda(?:-libs)?$"
)


class _Driver(NamedTuple):
    branch: int | None
    is_open: bool | None
    quotes: Quotes
    shown: bool = False  # by a listing or the driver itself; else the text merely speaks of it


class _Family(NamedTuple):
    architecture: Architecture
    quotes: Quotes
    listed: bool = False  # by a listing of the bus


def misfit(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """The GPU is not found, or nothing is said of why, and the driver named does not drive the GPU named."""
    if settled(said) or _works(facts) or _elsewhere(facts):
        return
    lines = next((found for found in (suspected(said, cause) for cause in COMPLAINTS) if found), ())
    gpu = _gpu(facts, knowledge)
    if gpu is None or (said and not lines):
        return
    family = gpu.architecture
    driver = _driver(facts) or (None if said else _unfit(family, facts)) or _Driver(None, None, ())
    # Both shown and a complaint beside them: the driver looked for this GPU and did not take it.
    shown = bool(lines) and gpu.listed and driver.shown
    for cause in _fits(family, driver, suspected(said, "gpu-init-failed", _NO_DEVICE) or suspected(said, TOO_OLD, _UNSUPPORTED)):
        sure = shown and (outside(family, driver.branch) or (cause == UNSUPPORTED and _open_packages(facts)))
        basis: Basis = "derived" if sure else "suspected"
        yield finding(cause, lines, driver.quotes, gpu.quotes, basis=basis, values=_values(family, cause))


def _open_packages(facts: Facts) -> bool:
    """Whether the modules that are installed as packages are the open ones, and these alone."""
    modules = [entry.name for entry in facts.value(DRIVER_PACKAGES) or () if _MODULES.match(entry.name) and entry.state[:1] != "r"]
    return bool(modules) and all("-open" in name for name in modules)


def one_of_several(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """The driver passed a GPU by, the text speaks of the open flavour, and one of the GPUs that it names is too old for it."""
    lines = next((found for cause in (UNSUPPORTED, TOO_OLD) if (found := suspected(said, cause, _PROBE))), ())
    opened = next((entry for entry in _words(facts).drivers if entry.is_open), None)
    if not lines or opened is None or settled(said) or _elsewhere(facts) or any(entry.is_open is False for entry in _words(facts).drivers):
        return
    for gpu in gpus_named(facts, knowledge):
        family = knowledge.architecture_of(gpu.capability)
        if family is not None and family.open_modules == "unsupported" and not outside(family, opened.branch):
            yield finding(UNSUPPORTED, lines, facts[NAMED_DRIVERS].line_of(opened.line), gpu.quotes, basis="suspected")
            return


def outside(family: Architecture, branch: int | None) -> bool:
    """Whether a branch came before the first one that drives this architecture, or after the last."""
    first, last = family.first_driver_branch, family.last_driver_branch
    return branch is not None and ((last is not None and branch > last) or (first is not None and branch < first))


def _values(family: Architecture, cause: str) -> dict[str, str]:
    """What the recipes of these causes name."""
    branch = family.last_driver_branch if cause == TOO_NEW else family.first_driver_branch
    return {"architecture": family.name, **({"branch": str(branch)} if branch is not None else {})}


def _fits(family: Architecture, driver: _Driver, no_device: Quotes) -> tuple[str, ...]:
    """What does not fit, likeliest first; () where it fits or too little is known."""
    first, last, branch = family.first_driver_branch, family.last_driver_branch, driver.branch
    if branch is not None and last is not None and branch > last:
        return (TOO_NEW,)
    if branch is not None and first is not None and branch < first:
        return (TOO_OLD,)
    if family.open_modules == "required" and no_device and driver.is_open is not True:
        return (REQUIRED, TOO_OLD)
    if family.open_modules == "unsupported" and driver.is_open:
        return (UNSUPPORTED,)
    young = branch is not None and first is not None and branch < first + YOUNG
    return (TOO_OLD,) if young and no_device else ()


def _gpu(facts: Facts, knowledge: Knowledge) -> _Family | None:
    """The one architecture of the text's GPUs: from a listing of the bus, products that it names, or a chip's code name."""
    found: dict[str, _Family] = {}
    try:
        listed = gpus(facts)
    except NotKnown:
        listed = ()
    for gpu in listed:
        family = architecture_of(gpu, knowledge)
        if family is not None:
            found.setdefault(family.id, _Family(family, gpu.quotes[:1], listed=True))
    for named in gpus_named(facts, knowledge) if not found else ():
        family = knowledge.architecture_of(named.capability)
        if family is not None:
            found.setdefault(family.id, _Family(family, named.quotes))
    for chip in _words(facts).chips if not found else ():
        family = knowledge.architecture_of_chip(knowledge.chip_by_name(chip.name))
        if family is not None:
            found.setdefault(family.id, _Family(family, facts[NAMED_DRIVERS].line_of(chip.line)))
    return next(iter(found.values())) if len(found) == 1 else None


def _driver(facts: Facts) -> _Driver | None:
    """The driver that is shown to be installed; else the one branch that the text speaks of."""
    words = _words(facts)
    flavours = {entry.is_open for entry in words.drivers if entry.is_open is not None}
    is_open = next(iter(flavours)) if len(flavours) == 1 else None
    loaded = facts.value(LOADED_DRIVER)
    if loaded is not None and loaded.flavour is not None:
        is_open = loaded.flavour == "open"
    shown = installed(facts)
    if shown is not None:
        return _Driver(shown.branch, is_open, shown.quotes, shown=True)
    branches = {entry.branch for entry in words.drivers if entry.branch is not None}
    if len(branches) > 1 or not words.drivers:
        return None
    fact = facts[NAMED_DRIVERS]
    entry = next((entry for entry in words.drivers if entry.branch is not None), words.drivers[0])
    return _Driver(entry.branch, is_open, fact.line_of(entry.line)[:1])


def _unfit(family: Architecture, facts: Facts) -> _Driver | None:
    """Where a text speaks of several branches: the one that does not drive this GPU."""
    for entry in _words(facts).drivers:
        if outside(family, entry.branch):
            return _Driver(entry.branch, None, facts[NAMED_DRIVERS].line_of(entry.line)[:1])
    return None


def _words(facts: Facts) -> NamedDrivers:
    return facts.value(NAMED_DRIVERS) or NamedDrivers()


def _works(facts: Facts) -> bool:
    """Whether a table shows a GPU: its driver drives it."""
    return next(gpus_of_tables(facts), None) is not None


def _elsewhere(facts: Facts) -> bool:
    return facts.value(WSL) is True or facts.value(TEGRA) is True


# ---------------------------------------------------------------- beside the driver
def two_sides(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """A module is loaded, the packages of the user-space side are of another release, and the text complains of a GPU that is not used."""
    loaded, packages, framework = facts.there(LOADED_DRIVER), facts.there(DRIVER_PACKAGES), facts.value(FRAMEWORKS)
    if loaded is None or packages is None or _works(facts) or settled(said):
        return
    for entry in packages.need():
        release = _RELEASE.search(entry.version)
        if _USER_SPACE.match(entry.name) and release is not None and not same_release(ModuleVersion(release[1]), loaded.need().version):
            refused = framework is not None and framework.available is False
            mixed = next((clue.values["repository"] for clue in packages_conflict(facts, knowledge) if "repository" in clue.values), None)
            basis: Basis = "derived" if said or refused or mixed is not None else "suspected"
            values = {"repository": mixed} if mixed is not None else {}
            yield finding(MISMATCH, loaded.some()[:1], packages.line_of(entry.line), basis=basis, values=values)
            return


def only_added(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """DKMS knows the driver's source and has built it for no kernel at all."""
    found = facts.there(DKMS)
    if found is None or found.origin != "text" or _works(facts):
        return
    entries = [entry for entry in found.need() if entry.module.startswith("nvidia") and not entry.module.startswith("nvidia-fs")]
    if entries and all(entry.state == "added" for entry in entries):
        for cause in (DRIVER_MISSING, "driver-build-failed"):
            yield finding(cause, found.line_of(entries[0].line), basis="suspected")


def no_room(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """The kernel found no room for a large window, and the driver then refused the GPU."""
    room = suspected(said, BAR)
    refused = next((found for cause in COMPLAINTS if (found := suspected(said, cause, _REFUSED))), ())
    if room and refused:
        yield finding(BAR, room, refused)


TIES = (two_sides, only_added, no_room, one_of_several, misfit)
