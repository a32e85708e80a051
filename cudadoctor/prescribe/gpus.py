"""Which GPUs a fix is for: their architectures, from facts first, else from the lines that a finding quotes. What they ask of a driver,
what a choice of driver is, and the words for both; families.py knows the packages and chooses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from cudadoctor.knowledge.load import Knowledge
from cudadoctor.knowledge.tables import Architecture, Chip
from cudadoctor.model.facts import Facts
from cudadoctor.model.findings import Finding
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import DISPLAY_ADAPTERS, DRIVER_PACKAGES, ENVIRONMENT, KERNEL, LADDER, NAMED_GPUS, NVML, PCI
from cudadoctor.model.version import ComputeCapability

# Chips that are sold for computing alone: A100 and A30, H100 and H200, B200, B300. No screen hangs on them.
_COMPUTE_ONLY = frozenset(ComputeCapability(text) for text in ("8.0", "9.0", "10.0", "10.3", "10.7"))
_CLOUD_KERNEL = lazy(r"-(?:aws|azure|gcp|gke|oracle|kvm|ibm|nvidia|nvidia-64k|cloud-(?:amd64|arm64))$|\.amzn\d+")
_SERVER_PACKAGE = lazy(r"nvidia-headless-|nvidia-(?:driver|utils|dkms|compute-utils)-\d+-server|nvidia-fabricmanager")
_PCI_ID = lazy(r"10de[:\]\[ ]{1,3}([0-9a-f]{4})\b", re.IGNORECASE)
_CHIP = lazy(r"\b(G[A-Z]\d{2,3}\w{0,4}|A[DG]\d{3}\w{0,3}|TU\d{3}\w{0,3})\s+\[")


class Gpus(msgspec.Struct, frozen=True, kw_only=True):
    """The architectures of all GPUs, and their compute capabilities where known. Empty: nobody knows."""

    architectures: tuple[Architecture, ...] = ()
    capabilities: tuple[ComputeCapability, ...] = ()
    addresses: tuple[str, ...] = ()

    @property
    def lowest_capability(self) -> ComputeCapability | None:
        return min(self.capabilities, default=None)


def gpus_of(root: Finding, values: Mapping[str, str], facts: Facts, knowledge: Knowledge) -> Gpus:
    """What is known of this machine's GPUs. A finding about one GPU does not narrow this: the driver is for all of them.

    `gpu_sm` of the values: the architecture of the GPU that a message refuses; 61 is 6.1.
    """
    adapters = (one.device for one in facts.value(DISPLAY_ADAPTERS) or () if one.is_nvidia and one.device is not None)
    known = [*_answered(facts, knowledge), *_on_bus(facts, knowledge)] or [_by_id(device, knowledge) for device in adapters]
    number = values.get("gpu_sm")
    refused = (ComputeCapability(f"{number[:-1]}.{number[-1]}"),) if number is not None else _named(facts, knowledge)
    found = known or list(_quoted(root, knowledge)) or list(_of_capabilities(refused, knowledge))
    by_first_driver = sorted((row for row, _ in found if row is not None), key=lambda row: row.first_driver_branch or 0)
    latest = {row.id: row for row in by_first_driver}  # of an A100 and an RTX 3080 the one that needs the later driver
    architectures = {row.id: latest[row.id] for row, _ in found if row is not None}
    capabilities = tuple(sorted({capability for _, capability in found if capability is not None}, key=lambda entry: entry.numbers))
    bus = facts.value(PCI)
    addresses = tuple(function.address for function in bus.nvidia_gpus) if bus is not None else ()
    return Gpus(architectures=tuple(architectures.values()), capabilities=capabilities, addresses=addresses)


Pair = tuple["Architecture | None", "ComputeCapability | None"]


def _answered(facts: Facts, knowledge: Knowledge) -> Iterator[Pair]:
    """What NVML and the driver themselves say, the best evidence."""
    nvml, ladder = facts.value(NVML), facts.value(LADDER)
    gpus, devices = nvml.gpus if nvml is not None else (), ladder.devices if ladder is not None else ()
    return _of_capabilities((*(gpu.compute_capability for gpu in gpus), *(one.compute_capability for one in devices)), knowledge)


def _on_bus(facts: Facts, knowledge: Knowledge) -> Iterator[Pair]:
    """By PCI device id, else by the chip's name."""
    bus = facts.value(PCI)
    for function in bus.functions if bus is not None else ():
        if function.device is not None and function.is_nvidia_gpu:
            yield _by_id(function.device, knowledge)
        elif function.name is not None and "NVIDIA" in (function.name.upper() + " NVIDIA" if function.vendor in (None, "10de") else ""):
            yield _by_name(function.name, knowledge)


def _named(facts: Facts, knowledge: Knowledge) -> Iterator[ComputeCapability | None]:
    """The GPUs that a text names by their products or capabilities."""
    for gpu in facts.value(NAMED_GPUS) or ():
        yield gpu.capability or (knowledge.capability_of_product(gpu.name) if gpu.name is not None else None)


def _of_capabilities(capabilities: Iterable[ComputeCapability | None], knowledge: Knowledge) -> Iterator[Pair]:
    return ((knowledge.architecture_of(capability), capability) for capability in capabilities if capability is not None)


def _quoted(root: Finding, knowledge: Knowledge) -> Iterator[Pair]:
    """Ids and chip names in the lines that the finding rests on."""
    for quote in root.evidence:
        for found in _PCI_ID.finditer(quote.text):
            yield _by_id(found[1], knowledge)
        for found in _CHIP.finditer(quote.text):
            yield _by_name(found[1], knowledge)


def _by_id(device: str, knowledge: Knowledge) -> Pair:
    return _of_chip(knowledge.chip(device), knowledge)


def _by_name(name: str, knowledge: Knowledge) -> Pair:
    return _of_chip(knowledge.chip_by_name(re.sub(r"^.*?NVIDIA Corporation\s+", "", name)), knowledge)


def _of_chip(chip: Chip | None, knowledge: Knowledge) -> Pair:
    return (None, None) if chip is None else (knowledge.architecture_of_chip(chip), chip.compute_capability)


# ---------------------------------------------------------------- a server or a desktop
def is_headless(gpus: Gpus, facts: Facts, stated: bool | None) -> bool:
    """Whether the machine computes without a screen. Where nothing says so it counts as a desktop, whose driver serves both."""
    if stated is not None:
        return stated
    environment, kernel = facts.value(ENVIRONMENT), facts.value(KERNEL)
    variables = environment.variables if environment is not None else {}
    shown = (variables.get(name, "") for name in ("WAYLAND_DISPLAY", "DISPLAY"))
    if any(display and not display.startswith("localhost:") for display in shown):  # an ssh session's is another machine's
        return False
    if any(_SERVER_PACKAGE.match(package.name) for package in facts.value(DRIVER_PACKAGES) or ()):
        return True
    if kernel is not None and _CLOUD_KERNEL.search(kernel.release) is not None:
        return True
    return bool(gpus.capabilities) and all(capability in _COMPUTE_ONLY for capability in gpus.capabilities)


# ---------------------------------------------------------------- what they ask of a driver
class Need(msgspec.Struct, frozen=True, kw_only=True):
    """What the GPUs ask of a driver. `low` and `high` are branches; `flavour` None: the GPUs are not known."""

    low: int | None = None
    high: int | None = None
    flavour: str | None = None  # open (supported or required) | proprietary
    refused: bool = False  # the other flavour is installed, and the GPU does not take it
    conflict: bool = False  # no driver serves all of these GPUs
    keep: int | None = None  # the branch that is here, of which nothing but the kind of its kernel modules is wrong

    def fits(self, branch: int) -> bool:
        within = (self.low is None or branch >= self.low) and (self.high is None or branch <= self.high)
        return within and self.keep in (None, branch)


class Driver(msgspec.Struct, frozen=True, kw_only=True):
    """The choice. `origin` says by which steps it is installed; None: no package is known to fit, `words` says what to do.

    archive    the distribution's packages           aur      Arch's user repository
    stream     a module stream of NVIDIA's for RHEL   lock     NVIDIA's packages, held at a branch
    parts      the same, without what a screen needs  nvidia   NVIDIA's repository for Debian
    tool       Ubuntu's or Manjaro's own choice       image    a system image with the driver in it
    nixos      lines of configuration.nix             pinned   NVIDIA's repository for Debian and Ubuntu, held at a branch
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
    lows = [low for row in rows if (low := row.common_driver_branch or row.first_driver_branch) is not None]
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


def _low(need: Need) -> int | None:
    """The oldest branch that has these modules for this GPU."""
    return max(need.low, OPEN_FROM) if need.low is not None and need.flavour == "open" else need.low


def branch_words(need: Need, knowledge: Knowledge) -> str:
    if need.high is not None:
        return f"branch {need.high}, the last that drives this GPU"
    if need.low is not None:
        return f"branch {_low(need)} or newer, up to {knowledge.newest_branch}"
    return f"a current branch (the newest is {knowledge.newest_branch})"


def said_of(need: Need, knowledge: Knowledge) -> str:
    """What the GPU asks for, in brackets; nothing where it is not known."""
    return f" ({branch_words(need, knowledge)}{flavour_words(need)})" if need.flavour is not None else ""


def said(packages: tuple[str, ...], branch: int | None, need: Need, extra: str = "") -> str:
    """The chosen packages, their branch and what speaks for them."""
    number = f"branch {branch}" if branch is not None else f"branch {_low(need)} or newer" if need.low is not None else "the current branch"
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
