"""The ladder from the PCI bus to a Numba kernel: which rung needs which, and which were seen to work or to fail."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from cudadoctor.model.facts import Fact, Facts, Quote, Unknown
from cudadoctor.model.values import (
    BUNDLE,
    DCGM,
    DEVICE_NODES,
    FRAMEWORK_RUNS,
    HANGS,
    KERNEL,
    LADDER,
    LOADED_DRIVER,
    NVML,
    PCI,
    PYTHON,
    TEGRA,
    TOOLKITS,
    WSL,
    PythonEnvironment,
    RungName,
)
from cudadoctor.model.version import PackageVersion

Seen = Literal["worked", "failed"]
Looks = dict[RungName, tuple[Seen, tuple[Quote, ...]]]
LADDER_ORDER: tuple[RungName, ...] = (
    "pci", "driver", "nodes", "libcuda", "init", "devices", "context", "memory", "ptx-kernel", "numba-kernel",
)  # fmt: skip
ORDER: tuple[RungName, ...] = (*LADDER_ORDER, "nvml", "toolkit", "framework", "program", "speed")
NEEDS: dict[RungName, tuple[RungName, ...]] = {
    **{rung: (LADDER_ORDER[place - 1],) if place else () for place, rung in enumerate(LADDER_ORDER)},
    "numba-kernel": ("ptx-kernel", "toolkit"),
    "nvml": ("nodes",),
    "framework": ("memory",),
    "program": ("memory",),
    "speed": ("memory",),
    "toolkit": (),
}
# What a working rung proves. A module stays loaded when its GPU is gone, nodes outlive the module that they were made for, and
# libcuda.so.1 loads without either: these prove nothing below them. A driver that answers proves it all.
_PROVES: dict[RungName, tuple[RungName, ...]] = {
    **NEEDS,
    "driver": (),
    "nodes": (),
    "libcuda": (),
    "init": ("pci", "driver", "nodes", "libcuda"),
    "nvml": ("pci", "driver", "nodes"),
}

LISTED: tuple[RungName, ...] = ("pci", "driver", "nodes")


# From 0.21 on numba-cuda compiles without cudart. (0.30.4 was seen to ask cuda-bindings for the runtime's version all the same:
# where that is missing the failing kernel says so itself.)
NO_CUDART_SINCE = PackageVersion("0.21")


def needed_parts(python: PythonEnvironment) -> tuple[str, ...]:
    """The parts without which the Numba of this interpreter compiles no kernel."""
    target = python.package("numba-cuda")
    if target is None:
        return ("nvvm", "libdevice", "cudart")
    return ("nvvm", "libdevice", "nvrtc") if target.version >= NO_CUDART_SINCE else ("nvvm", "libdevice", "nvrtc", "cudart")


def below(rung: RungName, graph: dict[RungName, tuple[RungName, ...]] = NEEDS) -> frozenset[RungName]:
    """All rungs that this one needs, itself left out."""
    found: set[RungName] = set()
    todo = list(graph[rung])
    while todo:
        one = todo.pop()
        if one not in found:
            found.add(one)
            todo.extend(graph[one])
    return frozenset(found)


class Rungs(msgspec.Struct, frozen=True):
    """What was seen of each rung. A rung that is not in `seen` was not looked at."""

    seen: dict[RungName, Seen]
    quotes: dict[RungName, tuple[Quote, ...]]

    def worked(self, rung: RungName) -> bool:
        return self.seen.get(rung) == "worked"

    def failed(self, rung: RungName) -> bool:
        return self.seen.get(rung) == "failed"

    def first_failed(self) -> RungName | None:
        return next((rung for rung in ORDER if self.failed(rung)), None)


def observe(facts: Facts, *, shown_failing: Iterable[RungName] = ()) -> Rungs:
    """The rungs as the facts show them. `shown_failing`: rungs that a failing rung's own output says are broken."""
    looks: Looks = {}
    for look in (_pci, _driver, _nodes, _nvml, _toolkit, _ladder, _frameworks):
        looks.update(look(facts))
    for rung in shown_failing:
        status, quotes = looks.get(rung, ("failed", ()))
        # What a listing shows is there, whatever cuInit says of it; all else a failing rung knows better.
        looks[rung] = (status if rung in LISTED else "failed", quotes)
    # A rung seen to work clears every rung it needs: no missing file or node can block a kernel whose result was checked.
    # What failed on one GPU is not cleared by a kernel on another.
    own = _failed_on_a_gpu(facts)
    for rung in ORDER:
        if looks.get(rung, ("", ()))[0] == "worked":
            for needed in below(rung, _PROVES) - own:
                looks[needed] = ("worked", looks[needed][1] if needed in looks else ())
    return Rungs({rung: seen for rung, (seen, _) in looks.items()}, {rung: quotes for rung, (_, quotes) in looks.items()})


def _look(rung: RungName, worked: bool, fact: Fact[Any]) -> Looks:
    return {rung: ("worked" if worked else "failed", fact.quotes)}


def _bus_speaks(facts: Facts) -> bool:
    """Whether a GPU of this machine would stand on the PCI bus with nodes under /dev/nvidia* (not in WSL, not on Jetson)."""
    return not facts.value(WSL) and not facts.value(TEGRA)


def _pci(facts: Facts) -> Looks:
    bus = facts.there(PCI)
    if bus is None or not _bus_speaks(facts):
        return {}
    shown = bool(bus.need().nvidia_gpus)
    return _look("pci", shown, bus) if shown or bus.whole else {}


def _driver(facts: Facts) -> Looks:
    if not _bus_speaks(facts):
        return {}
    bus, loaded = facts.there(PCI), facts.there(LOADED_DRIVER)
    drivers = [gpu.driver for gpu in bus.need().nvidia_gpus if gpu.driver_known] if bus is not None else []
    if bus is not None and drivers:  # a module that is loaded and drives no GPU is no working driver
        return _look("driver", "nvidia" in drivers, bus)
    return _look("driver", True, loaded) if loaded is not None else {}


def _nodes(facts: Facts) -> Looks:
    found, kernel = facts.get(DEVICE_NODES), facts.value(KERNEL)
    windows = kernel is not None and kernel.system == "Windows"  # it reaches the GPU without device files
    if isinstance(found, Unknown) or windows or not _bus_speaks(facts):
        return {}
    paths = {node.path for node in found.value.nodes} if found.value is not None else set()
    of_gpus = [path for path in paths if path.startswith("/dev/nvidia") and path[11:].isdigit()]
    complete = {"/dev/nvidiactl", "/dev/nvidia-uvm"} <= paths and bool(of_gpus)
    return _look("nodes", complete, found) if complete or found.whole else {}


def _nvml(facts: Facts) -> Looks:
    found = facts.get(NVML)
    if isinstance(found, Unknown):
        hangs, diag = facts.there(HANGS), facts.there(DCGM)
        if hangs is not None and any(entry.item == "nvml" for entry in hangs.need().entries):
            return _look("nvml", False, hangs)
        # DCGM asks NVML for its GPUs: where one of its tests passed, NVML answered it.
        return _look("nvml", True, diag) if diag is not None and diag.need().passed else {}
    if found.value is None or found.value.code != 0:
        return _look("nvml", False, found)
    answering = {gpu.address for gpu in found.value.gpus if gpu.handle_error is None}
    if facts.why_unknown(BUNDLE) is not None:
        return _look("nvml", True, found) if answering else {}
    # In a bundle NVML speaks for the GPUs that it lists, and no ladder for the others: one of the bus that is missing, or of which it could
    # tell nothing, was not seen to work. Where it lists none of the bus, the driver started none.
    bus = facts.value(PCI)
    known = {gpu.address for gpu in bus.nvidia_gpus} if bus is not None else set()
    if answering and known <= answering and len(answering) == len(found.value.gpus):
        return _look("nvml", True, found)
    return _look("init", False, found) if known and not answering else {}


def _toolkit(facts: Facts) -> Looks:
    python, toolkits = facts.value(PYTHON), facts.there(TOOLKITS)
    if python is None or toolkits is None or python.package("numba") is None:
        return {}
    entries = [toolkits.need().component(name) for name in needed_parts(python)]
    parts = [entry for entry in entries if entry is not None]
    if len(parts) < len(entries):
        return {}  # not recorded by this worker
    return _look("toolkit", all(part.path is not None for part in parts), toolkits)


def _failed_on_a_gpu(facts: Facts) -> frozenset[RungName]:
    """The rungs that are climbed on each GPU by itself and broke on one."""
    ladder = facts.value(LADDER)
    rungs = ladder.rungs if ladder is not None else ()
    return frozenset(entry.rung for entry in rungs if entry.gpu is not None and entry.status not in ("pass", "skip"))


def _ladder(facts: Facts) -> Looks:
    climb = facts.there(LADDER)
    if climb is None:
        return {}
    states = {rung: {entry.status for entry in climb.need().result(rung)} - {"skip"} for rung in LADDER_ORDER}
    return {rung: ("worked" if seen == {"pass"} else "failed", climb.quotes) for rung, seen in states.items() if seen}


def _frameworks(facts: Facts) -> Looks:
    """Those that the user asked for. One that gave no answer in time says nothing: an import may wait for a slow disk."""
    found = facts.there(FRAMEWORK_RUNS)
    states = {run.status for run in found.need().runs} if found is not None else set()
    if found is None or not (states & {"fail", "crash"} or states == {"pass"}):
        return {}
    return _look("framework", states == {"pass"}, found)
