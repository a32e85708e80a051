"""Which driver packages fit these GPUs on this distribution. Names come from the tables; this module only chooses.

The newest production branch that drives every GPU is taken: a branch of short life (NVIDIA's new features) only where no other does.
Open kernel modules are taken where every GPU supports them (Turing and later), and never for older GPUs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from cudadoctor.prescribe.distribution import Distribution

if TYPE_CHECKING:
    from cudadoctor.knowledge.load import Knowledge
    from cudadoctor.knowledge.tables import Architecture, Branch, UbuntuPackage

OPEN_FOR_ALL_FROM = 550  # before it the open modules refuse GeForce cards unless a module option says otherwise
_UBUNTU = re.compile(r"nvidia-driver-(?P<branch>\d+)(?P<server>-server)?(?P<open>-open)?$")
_DEBIAN = re.compile(r"(?P<package>[a-z0-9.+-]+)(?: \d[\w.]*)? \((?P<releases>[^);]*)")
_SUSE_GROUP = re.compile(r"G0\d")
_OLDEST_STREAM = 418  # the oldest branch among the module streams of NVIDIA's RHEL repositories
ELSEWHERE = (
    "NVIDIA's own repository (https://developer.download.nvidia.com/compute/cuda/repos/) "
    "or installer (https://www.nvidia.com/drivers) has it"
)


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """What the GPUs ask of a driver. `low` and `high` are branches; `flavour` None: the GPUs are not known."""

    low: int | None = None
    high: int | None = None
    flavour: str | None = None  # open (supported or required) | proprietary
    conflict: bool = False  # no driver serves all of these GPUs

    def fits(self, branch: int) -> bool:
        return (self.low is None or branch >= self.low) and (self.high is None or branch <= self.high)


class Driver(msgspec.Struct, frozen=True, kw_only=True):
    """The choice. `packages` empty: no package of this distribution is known to fit, `words` says what to do."""

    words: str
    branch: int | None = None
    packages: tuple[str, ...] = ()
    origin: str | None = None  # archive | aur | stream
    stream: str | None = None


def need_of(architectures: Iterable[Architecture], minimum: int | None = None, maximum: int | None = None) -> Need:
    """What these GPUs ask for together; `minimum` and `maximum` come from elsewhere (a toolkit, NVIDIA's own message)."""
    rows = tuple(architectures)
    lows = [row.first_driver_branch for row in rows if row.first_driver_branch is not None]
    highs = [row.last_driver_branch for row in rows if row.last_driver_branch is not None]
    low = max([*lows, *((minimum,) if minimum else ())], default=None)
    high = min([*highs, *((maximum,) if maximum else ())], default=None)
    closed = any(row.open_modules == "unsupported" for row in rows)
    required = any(row.open_modules == "required" for row in rows)
    flavour = None if not rows and maximum is None else "proprietary" if closed or (not rows and maximum is not None) else "open"
    return Need(low=low, high=high, flavour=flavour, conflict=(closed and required) or (low or 0) > (high or 10**6))


def choose(need: Need, system: Distribution, knowledge: Knowledge) -> Driver:
    """The driver for this distribution, or the words that say what to install where no package is known."""
    if need.conflict:
        return Driver(words="no single driver serves all of these GPUs; " + _in_words(need, knowledge))
    if need.flavour is None or system.family is None:
        return Driver(words=_in_words(need, knowledge))
    chosen = {
        "ubuntu": _ubuntu, "debian": _debian, "fedora": _fedora, "rhel": _rhel, "arch": _arch, "suse": _suse,
    }[system.family](need, system, knowledge)  # fmt: skip
    return chosen or Driver(words=_not_packaged(need, system, knowledge))


# ---------------------------------------------------------------- words
def _flavour_words(need: Need) -> str:
    return {"open": ", with the open kernel modules", "proprietary": ", with the proprietary kernel modules"}.get(need.flavour or "", "")


def _branch_words(need: Need, knowledge: Knowledge) -> str:
    if need.high is not None:
        return f"branch {need.high}, the last that drives this GPU"
    if need.low is not None:
        return f"branch {need.low} or newer (the newest is {knowledge.newest_branch})"
    return f"a current branch (the newest is {knowledge.newest_branch})"


def _in_words(need: Need, knowledge: Knowledge) -> str:
    number = str(need.high) if need.high is not None else "NNN"
    open_ = "-open" if need.flavour == "open" else ""
    xx = f"-{need.high}xx" if need.high is not None else ""
    if need.flavour is None and need.low is None and need.high is None:
        return (
            "NVIDIA's driver of the branch that fits this GPU "
            "(Debian and Ubuntu: nvidia-driver or nvidia-driver-NNN, which `ubuntu-drivers list` names; "
            "Fedora and RHEL: akmod-nvidia with xorg-x11-drv-nvidia-cuda, or the module stream nvidia-driver)"
        )
    return (
        f"NVIDIA's driver, {_branch_words(need, knowledge)}{_flavour_words(need)} "
        f"(Debian and Ubuntu: nvidia-driver-{number}{open_} or nvidia-driver; "
        f"Fedora and RHEL: akmod-nvidia{xx} with xorg-x11-drv-nvidia{xx}-cuda, or the module stream nvidia-driver:{_stream(need)})"
    )


def _not_packaged(need: Need, system: Distribution, knowledge: Knowledge) -> str:
    where = " ".join(part for part in (system.id, system.version) if part) or "this distribution"
    return f"NVIDIA's driver, {_branch_words(need, knowledge)}{_flavour_words(need)}; no package for it is known in {where}; {ELSEWHERE}"


def _said(packages: tuple[str, ...], branch: int | None, need: Need, extra: str = "") -> str:
    number = f"branch {branch}" if branch is not None else "the current branch"
    last = ", the last that drives this GPU" if branch is not None and branch == need.high else ""
    return f"{' '.join(packages)} ({number}{last}{_flavour_words(need)}){extra}"


# ---------------------------------------------------------------- by family
def _ubuntu(need: Need, system: Distribution, knowledge: Knowledge) -> Driver | None:
    ranked: list[tuple[bool, int, bool, str]] = []
    for row in knowledge.ubuntu_packages(system.codename or ""):
        found = _UBUNTU.match(row.package)
        if found is None or not need.fits(int(found["branch"])) or bool(found["open"]) != (need.flavour == "open"):
            continue
        ranked.append((row.support != "NFB", int(found["branch"]), not found["server"], row.package))
    if not ranked:
        return None
    _, branch, _, package = max(ranked)
    wanted = need.high is None or branch == need.high
    extra = "" if wanted else f"; branch {need.high} is not packaged in Ubuntu {system.version or system.codename}"
    row = next(row for row in knowledge.ubuntu_packages(system.codename or "") if row.package == package)
    return Driver(words=_said((package,), branch, need, extra + _component(row)), branch=branch, packages=(package,), origin="archive")


def _component(row: UbuntuPackage) -> str:
    return "; it is in the component multiverse" if row.component == "multiverse" else ""


def resolved(package: str, codename: str | None, knowledge: Knowledge) -> str:
    """What one really gets: Ubuntu's old package names only pull a newer branch."""
    rows = (row for row in knowledge.ubuntu_transitional if row.release == codename and row.package == package)
    return next((row.ends_at for row in rows), package)


def _debian(need: Need, system: Distribution, knowledge: Knowledge) -> Driver | None:
    listed = [(row.branch, name) for row in knowledge.branches for name in _debian_names(row, system.codename)]
    drivers = [(branch, name) for branch, name in listed if name.endswith("driver") and need.fits(branch)]
    if not drivers:
        return None
    branch, package = max(drivers, key=lambda entry: (entry[0], entry[1] == "nvidia-driver"))
    wants_open = need.flavour == "open" and branch >= OPEN_FOR_ALL_FROM
    modules = ("nvidia-open-kernel-dkms",) if wants_open and (branch, "nvidia-open-kernel-dkms") in listed else ()
    packages = (package, *modules)
    flavour = need if modules or need.flavour != "open" else msgspec.structs.replace(need, flavour=None)
    words = _said(packages, branch, flavour, "; components contrib and non-free")
    return Driver(words=words, branch=branch, packages=packages, origin="archive")


def _debian_names(row: Branch, codename: str | None) -> Iterable[str]:
    for entry in row.debian:
        found = _DEBIAN.match(entry)
        if found is not None and codename in [word.strip() for word in found["releases"].split(",")]:
            yield found["package"]


def _fedora(need: Need, system: Distribution, knowledge: Knowledge) -> Driver | None:
    current = next((row for row in knowledge.branches if any("current" in name for name in row.fedora_rpmfusion)), None)
    rows = [row for row in knowledge.branches if row.fedora_rpmfusion and need.fits(row.branch)]
    row = max(rows, key=lambda row: row.branch, default=None)
    if need.high is None and current is not None and need.fits(current.branch):
        row = current
    if row is None:
        return None
    packages = tuple(name.split(" ")[0] for name in row.fedora_rpmfusion)
    return Driver(words=_said(packages, row.branch, need, ", from RPM Fusion"), branch=row.branch, packages=packages, origin="archive")


def _stream(need: Need) -> str:
    if need.high is not None:
        return f"{need.high}-dkms"
    return "open-dkms" if need.flavour == "open" else "latest-dkms"


def _rhel(need: Need, system: Distribution, knowledge: Knowledge) -> Driver | None:
    if need.high is not None and need.high < _OLDEST_STREAM:
        return None
    if system.major is not None and int(system.major) >= 10:  # RHEL 10 has no module streams
        if need.high is not None:
            return None
        packages = ("nvidia-open",) if need.flavour == "open" else ("cuda-drivers",)
        return Driver(words=_said(packages, None, need, ", from NVIDIA's repository"), packages=packages, origin="archive")
    stream = f"nvidia-driver:{_stream(need)}"
    return Driver(words=_said((stream,), need.high, need, ", from NVIDIA's repository"), branch=need.high, origin="stream", stream=stream)


def _arch(need: Need, system: Distribution, knowledge: Knowledge) -> Driver | None:
    if need.high is None and need.flavour == "open":
        packages: tuple[str, ...] = ("nvidia-open-dkms", "nvidia-utils")
        return Driver(words=_said(packages, None, need), packages=packages, origin="archive")
    rows = [row for row in knowledge.branches if row.arch_aur and need.fits(row.branch)]
    row = max(rows, key=lambda row: row.branch, default=None)
    if row is None:
        return None
    return Driver(words=_said(row.arch_aur, row.branch, need, ", from the AUR"), branch=row.branch, packages=row.arch_aur, origin="aur")


def _suse(need: Need, system: Distribution, knowledge: Knowledge) -> Driver | None:
    rows = [row for row in knowledge.branches if row.opensuse and need.fits(row.branch)]
    row = max(rows, key=lambda row: row.branch, default=None)
    group = _SUSE_GROUP.search(" ".join(row.opensuse)) if row is not None else None
    if row is None or group is None:
        return None
    packages = suse_driver(group[0], open_modules=need.flavour == "open")
    words = _said(packages, row.branch, need, ", from the NVIDIA repository for openSUSE")
    return Driver(words=words, branch=row.branch, packages=packages, origin="archive")


def suse_driver(group: str, *, open_modules: bool) -> tuple[str, ...]:
    """Kernel modules and tools of one of SUSE's groups (G06: branches 550 to 580)."""
    if group in ("G04", "G05"):
        return (f"x11-video-nvidia{group}", f"nvidia-compute{group}")
    kernel = f"nvidia-open-driver-{group}-signed-kmp-meta" if open_modules else f"nvidia-driver-{group}-kmp-meta"
    return (kernel, f"nvidia-compute-utils-{group}")


def suse_group(branch: int | None) -> str:
    """The group that a branch belongs to; the newest where the branch is not known."""
    if branch is None or branch >= 590:
        return "G07"
    return "G06" if branch >= 500 else "G05" if branch >= 470 else "G04"
