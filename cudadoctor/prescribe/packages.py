"""What GPUs ask of a driver, what a choice of driver is, and the words for both. families.py knows the packages and chooses."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from cudadoctor.knowledge.load import Knowledge
from cudadoctor.knowledge.tables import Architecture


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """What the GPUs ask of a driver. `low` and `high` are branches; `flavour` None: the GPUs are not known."""

    low: int | None = None
    high: int | None = None
    flavour: str | None = None  # open (supported or required) | proprietary
    conflict: bool = False  # no driver serves all of these GPUs

    def fits(self, branch: int) -> bool:
        return (self.low is None or branch >= self.low) and (self.high is None or branch <= self.high)


class Driver(msgspec.Struct, frozen=True, kw_only=True):
    """The choice. `origin` says by which steps it is installed; None: no package is known to fit, `words` says what to do.

    archive    the distribution's packages           aur      Arch's user repository
    stream     a module stream of NVIDIA's for RHEL   lock     NVIDIA's packages, held at a branch
    parts      the same, without what a screen needs  nvidia   NVIDIA's repository for Debian
    tool       Ubuntu's or Manjaro's own choice       image    a system image with the driver in it
    nixos      lines of configuration.nix
    """

    words: str
    branch: int | None = None
    packages: tuple[str, ...] = ()
    origin: str | None = None
    stream: str | None = None

    @property
    def chosen(self) -> bool:
        """Whether a command installs it."""
        return self.origin is not None


# The first branch with open kernel modules, whatever branch first drove the GPU.
# Source: https://developer.nvidia.com/blog/nvidia-releases-open-source-gpu-kernel-modules/
OPEN_FROM = 515


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


# ---------------------------------------------------------------- words
def flavour_words(need: Need) -> str:
    return {"open": ", with the open kernel modules", "proprietary": ", with the proprietary kernel modules"}.get(need.flavour or "", "")


def branch_words(need: Need, knowledge: Knowledge) -> str:
    if need.high is not None:
        return f"branch {need.high}, the last that drives this GPU"
    if need.low is not None:
        low = max(need.low, OPEN_FROM) if need.flavour == "open" else need.low  # the words say which modules
        return f"branch {low} or newer (the newest is {knowledge.newest_branch})"
    return f"a current branch (the newest is {knowledge.newest_branch})"


def said_of(need: Need, knowledge: Knowledge) -> str:
    """What the GPU asks for, in brackets; nothing where it is not known."""
    return f" ({branch_words(need, knowledge)}{flavour_words(need)})" if need.flavour is not None else ""


def said(packages: tuple[str, ...], branch: int | None, need: Need, extra: str = "") -> str:
    """The chosen packages, their branch and what speaks for them."""
    number = f"branch {branch}" if branch is not None else f"branch {need.low} or newer" if need.low is not None else "the current branch"
    last = ", the last that drives this GPU" if branch is not None and branch == need.high else ""
    return f"{' '.join(packages)} ({number}{last}{flavour_words(need)}){extra}"


def in_words(need: Need, knowledge: Knowledge) -> str:
    """For a machine of which the distribution is not known."""
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
        f"NVIDIA's driver, {branch_words(need, knowledge)}{flavour_words(need)} "
        f"(Debian and Ubuntu: nvidia-driver-{number}{open_} or nvidia-driver; "
        f"Fedora and RHEL: akmod-nvidia{xx} with xorg-x11-drv-nvidia{xx}-cuda, or the module stream nvidia-driver:{stream_of(need)})"
    )


def by_generation(names: str) -> str:
    """For a GPU that is not known: which branch each generation asks for, before the family's own names."""
    return (
        "NVIDIA's driver of the branch that fits this GPU, which `lspci -nn -d 10de:` names (Turing and newer: a current one with open "
        f"kernel modules; Maxwell, Pascal and Volta: 580; Kepler: 470; Fermi: 390). {names}"
    )


def stream_of(need: Need) -> str:
    if need.high is not None:
        return f"{need.high}-{'open' if need.flavour == 'open' else 'dkms'}"
    return "open-dkms" if need.flavour == "open" else "latest-dkms"
