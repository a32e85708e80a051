"""Ties of driver and GPU by the words of a text: a branch or a flavour that does not drive the GPU which the text names.

Where lspci, DKMS or a package list show both, the rules of the row `driver` find it. People also write "RTX 5070 Ti with
nvidia-driver-550": that raises a suspicion, and puts it before the general ones that the driver's message has.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from cudadoctor.checks.driver_fit import packages_conflict, same_release
from cudadoctor.checks.gpu import architecture_of
from cudadoctor.checks.reading import Gpu, Quotes
from cudadoctor.inventory.devices import same_address
from cudadoctor.knowledge.tables import Architecture
from cudadoctor.model.findings import Basis, Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import DKMS, DRIVER_PACKAGES, LOADED_DRIVER, NAMED_DRIVERS, SMI, TEGRA, WSL, NamedDriver, NamedDrivers
from cudadoctor.model.version import ModuleVersion
from cudadoctor.texts.tie_breakers.case import Case, finding, joined, suspects
from cudadoctor.texts.tie_breakers.driver import installed, is_young, unfit
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
_NONE_FOUND = lazy(r"No devices were found")
_MODULES = lazy(r"(?:nvidia-(?:dkms|driver|kernel-source)-\d{3}|nvidia-(?:open-)?(?:kernel-)?dkms$|linux-(?:modules|objects)-nvidia-)")
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


def misfit(case: Case) -> Iterator[Clue]:
    """The GPU is not found, or nothing is said of why, and the driver named does not drive the GPU named."""
    if case.settled or _works(case) or _elsewhere(case):
        return
    lines = case.suspected(*COMPLAINTS)
    gpu = _gpu(case)
    if gpu is None or (case.said and not lines):
        return
    family = gpu.architecture
    # Where a text says nothing else and speaks of several branches: the one that does not drive this GPU.
    others = [] if case.said else [one for one in _words(case).drivers if unfit(family, one.branch)]
    driver = _driver(case) or next((_spoken_of(case, one) for one in others), None) or _Driver(None, None, ())
    modules = [entry.name for entry in case.facts.value(DRIVER_PACKAGES) or () if _MODULES.match(entry.name) and entry.state[:1] != "r"]
    # Both shown and a complaint beside them: the driver looked for this GPU and did not take it.
    shown = bool(lines) and gpu.listed and driver.shown
    for cause in _fits(family, driver, case.suspected("gpu-init-failed", words=_NO_DEVICE) or case.suspected(TOO_OLD, words=_UNSUPPORTED)):
        sure = shown and (unfit(family, driver.branch) or (cause == UNSUPPORTED and modules and all("-open" in name for name in modules)))
        basis: Basis = "derived" if sure else "suspected"
        yield finding(cause, lines, driver.quotes, gpu.quotes, basis=basis, values=_values(family, cause))


def one_of_several(case: Case) -> Iterator[Clue]:
    """The driver passed a GPU by, the text speaks of the open flavour, and one of the GPUs that it names is too old for it."""
    lines = case.suspected(UNSUPPORTED, TOO_OLD, words=_PROBE)
    opened = next((entry for entry in _words(case).drivers if entry.is_open), None)
    if not lines or opened is None or case.settled or _elsewhere(case) or any(entry.is_open is False for entry in _words(case).drivers):
        return
    for gpu in gpus_named(case):
        family = case.knowledge.architecture_of(gpu.capability)
        if family is not None and family.open_modules == "unsupported" and unfit(family, opened.branch) is None:
            yield finding(UNSUPPORTED, lines, case.facts[NAMED_DRIVERS].line_of(opened.line), gpu.quotes, basis="suspected")
            return


def _values(family: Architecture, cause: str) -> dict[str, str]:
    """What the recipes of these causes name."""
    branch = family.last_driver_branch if cause == TOO_NEW else family.first_driver_branch
    return {"architecture": family.name, **({"branch": str(branch)} if branch is not None else {})}


def _fits(family: Architecture, driver: _Driver, no_device: Quotes) -> tuple[str, ...]:
    """What does not fit, likeliest first; () where it fits or too little is known."""
    cause = unfit(family, driver.branch)
    if cause is not None:
        return (cause,)
    if family.open_modules == "required" and no_device and driver.is_open is not True:
        return (REQUIRED, TOO_OLD)
    if family.open_modules == "unsupported" and driver.is_open:
        return (UNSUPPORTED,)
    return (TOO_OLD,) if no_device and is_young(family, driver.branch) else ()


def _gpu(case: Case) -> _Family | None:
    """The one architecture of the text's GPUs: from a listing of the bus, products that it names, or a chip's code name."""
    known, words = case.knowledge, case.facts.there(NAMED_DRIVERS)
    chips = [(chip.name, words.line_of(chip.line)) for chip in words.need().chips] if words is not None else []
    for named, listed in (
        ([(architecture_of(gpu, known), gpu.quotes[:1]) for gpu in case.gpus], True),
        ([(known.architecture_of(gpu.capability), gpu.quotes) for gpu in gpus_named(case)], False),
        ([(known.architecture_of_chip(known.chip_by_name(name)), quotes) for name, quotes in chips], False),
    ):
        found = {family.id: _Family(family, quotes, listed) for family, quotes in reversed(named) if family is not None}
        if found:
            return found.popitem()[1] if len(found) == 1 else None
    return None


def _driver(case: Case) -> _Driver | None:
    """The driver that is shown to be installed; else the one branch that the text speaks of."""
    words = _words(case)
    flavours = {entry.is_open for entry in words.drivers if entry.is_open is not None}
    is_open = next(iter(flavours)) if len(flavours) == 1 else None
    loaded = case.facts.value(LOADED_DRIVER)
    if loaded is not None and loaded.flavour is not None:
        is_open = loaded.flavour == "open"
    shown = installed(case)
    if shown is not None:
        return _Driver(shown.branch, is_open, shown.quotes, shown=True)
    branches = {entry.branch for entry in words.drivers if entry.branch is not None}
    if len(branches) > 1 or not words.drivers:
        return None
    return _spoken_of(case, next((entry for entry in words.drivers if entry.branch is not None), words.drivers[0]), is_open)


def _spoken_of(case: Case, entry: NamedDriver, is_open: bool | None = None) -> _Driver:
    return _Driver(entry.branch, is_open, case.line(NAMED_DRIVERS, entry.line))


def _words(case: Case) -> NamedDrivers:
    return case.facts.value(NAMED_DRIVERS) or NamedDrivers()


def _works(case: Case) -> bool:
    """Whether a table shows a GPU: its driver drives it."""
    return next(case.gpus_of_tables(), None) is not None


def _elsewhere(case: Case) -> bool:
    return case.facts.value(WSL) is True or case.facts.value(TEGRA) is True


# ---------------------------------------------------------------- beside the driver
def two_sides(case: Case) -> Iterator[Clue]:
    """A module is loaded, the packages of the user-space side are of another release, and the text complains of a GPU that is not used."""
    loaded, packages = case.facts.there(LOADED_DRIVER), case.facts.there(DRIVER_PACKAGES)
    if loaded is None or packages is None or _works(case) or case.settled:
        return
    for entry in packages.need():
        release = entry.release
        if _USER_SPACE.match(entry.name) and release is not None and not same_release(ModuleVersion(release), loaded.need().version):
            conflicts = packages_conflict(case.facts, case.knowledge)
            mixed = next(({"repository": clue.values["repository"]} for clue in conflicts if "repository" in clue.values), {})
            basis: Basis = "derived" if case.said or case.framework.available is False or mixed else "suspected"
            yield finding(MISMATCH, loaded.some()[:1], packages.line_of(entry.line), basis=basis, values=mixed)
            return


def only_added(case: Case) -> Iterator[Clue]:
    """DKMS knows the driver's source and has built it for no kernel at all."""
    found = case.facts.there(DKMS)
    if found is None or found.origin != "text" or _works(case):
        return
    entries = [entry for entry in found.need() if entry.module.startswith("nvidia") and not entry.module.startswith("nvidia-fs")]
    if entries and all(entry.state == "added" for entry in entries):
        for cause in (DRIVER_MISSING, "driver-build-failed"):
            yield finding(cause, found.line_of(entries[0].line), basis="suspected")


# ---------------------------------------------------------------- several GPUs
def not_in_the_table(case: Case) -> Iterator[Clue]:
    """The table of nvidia-smi lists GPUs and lacks one that the bus has, and the table's driver does not drive that one."""
    tables = [fact for fact in case.facts.all(SMI) if fact.value is not None and fact.value.gpus]
    table = tables[0].need() if len(tables) == 1 and not case.settled else None
    if table is None or table.module is None or any(gpu.address is None for gpu in table.gpus):
        return
    for gpu in case.gpus:
        if not any(same_address(row.address or "", gpu.address) for row in table.gpus) and gpu.driver in (None, "nvidia"):
            yield from _passed_by(case, gpu, table.module.major, tables[0].some()[:1], "derived")


def one_of_the_bus(case: Case) -> Iterator[Clue]:
    """No device is found, and the driver that is shown is too old or too new for one of several GPUs on the bus."""
    lines, driver = case.suspected(TOO_OLD, words=_NONE_FOUND), installed(case)
    if lines and driver is not None and not case.settled and len(case.gpus) > 1:
        for gpu in case.gpus:
            yield from _passed_by(case, gpu, driver.branch, (*lines, *driver.quotes[:1]), "suspected")


def _passed_by(case: Case, gpu: Gpu, branch: int | None, shown: Quotes, basis: Basis) -> Iterator[Clue]:
    family = architecture_of(gpu, case.knowledge)
    cause = unfit(family, branch) if family is not None else None
    if family is not None and cause is not None:
        yield finding(cause, gpu.quotes[:1], shown, basis=basis, values=_values(family, cause))


TIES = (
    *(two_sides, only_added),
    # The kernel found no room for a large window, and the driver then refused the GPU.
    joined(BAR, suspects(BAR), beside=(suspects(*COMPLAINTS, words=_REFUSED),)),
    *(one_of_several, misfit, not_in_the_table, one_of_the_bus),
)
