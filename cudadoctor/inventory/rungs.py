"""The ladder from the PCI bus to a Numba kernel: which rung needs which, and which were seen to work or to fail."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

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
    Nvml,
    NvmlGpu,
    PythonEnvironment,
    RungName,
)
from cudadoctor.model.version import PackageVersion

Seen = Literal["worked", "failed"]
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
    looks: dict[RungName, tuple[Seen, tuple[Quote, ...]]] = {}
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


Looks = dict[RungName, tuple[Seen, tuple[Quote, ...]]]


def _bus_speaks(facts: Facts) -> bool:
    """Whether a GPU of this machine would stand on the PCI bus with nodes under /dev/nvidia* (not in WSL, not on Jetson)."""
    for key in (WSL, TEGRA):
        found = facts.get(key)
        if not isinstance(found, Unknown) and found.value:
            return False
    return True


def _pci(facts: Facts) -> Looks:
    found = facts.get(PCI)
    if isinstance(found, Unknown) or found.value is None or not _bus_speaks(facts):
        return {}
    if found.value.nvidia_gpus:
        return {"pci": ("worked", found.quotes)}
    return {"pci": ("failed", found.quotes)} if found.whole else {}


def _driver(facts: Facts) -> Looks:
    if not _bus_speaks(facts):
        return {}
    loaded = facts.get(LOADED_DRIVER)
    bus = facts.get(PCI)
    gpus = [gpu for gpu in bus.value.nvidia_gpus if gpu.driver_known] if not isinstance(bus, Unknown) and bus.value is not None else []
    if gpus:  # a module that is loaded and drives no GPU is no working driver
        return {"driver": ("worked" if any(gpu.driver == "nvidia" for gpu in gpus) else "failed", bus.quotes)}  # type: ignore[union-attr]
    if not isinstance(loaded, Unknown) and loaded.value is not None:
        return {"driver": ("worked", loaded.quotes)}
    return {}


def _nodes(facts: Facts) -> Looks:
    found, kernel = facts.get(DEVICE_NODES), facts.get(KERNEL)
    if isinstance(found, Unknown) or not _bus_speaks(facts):
        return {}
    if not isinstance(kernel, Unknown) and kernel.value is not None and kernel.value.system == "Windows":
        return {}  # it reaches the GPU without device files
    paths = {node.path for node in found.value.nodes} if found.value is not None else set()
    complete = {"/dev/nvidiactl", "/dev/nvidia-uvm"} <= paths and any(
        path[11:].isdigit() for path in paths if path.startswith("/dev/nvidia")
    )
    if complete:
        return {"nodes": ("worked", found.quotes)}
    return {"nodes": ("failed", found.quotes)} if found.whole else {}


def _nvml(facts: Facts) -> Looks:
    found = facts.get(NVML)
    if isinstance(found, Unknown):
        hangs = facts.get(HANGS)
        if isinstance(hangs, Unknown) or hangs.value is None or all(entry.item != "nvml" for entry in hangs.value.entries):
            return _nvml_behind_dcgm(facts)
        return {"nvml": ("failed", hangs.quotes)}
    if found.value is None or found.value.code != 0:
        return {"nvml": ("failed", found.quotes)}
    usable = [gpu for gpu in found.value.gpus if gpu.handle_error is None]
    if isinstance(facts.get(BUNDLE), Unknown):
        return {"nvml": ("worked", found.quotes)} if usable else {}
    return _nvml_of_bundle(found, usable, facts)


def _nvml_of_bundle(found: Fact[Nvml], usable: Iterable[NvmlGpu], facts: Facts) -> Looks:
    """NVML speaks for the GPUs that it lists, and no ladder for the others: one of the bus that is missing was not seen to work. Where it
    lists none of them, the driver started none."""
    bus = facts.get(PCI)
    known = {gpu.address for gpu in bus.value.nvidia_gpus} if not isinstance(bus, Unknown) and bus.value is not None else set()
    answering = {gpu.address for gpu in usable}
    if answering and known <= answering:
        return {"nvml": ("worked", found.quotes)}
    return {"init": ("failed", found.quotes)} if known and not answering else {}


def _nvml_behind_dcgm(facts: Facts) -> Looks:
    """DCGM asks NVML for its GPUs: where one of its tests passed, NVML answered it."""
    found = facts.get(DCGM)
    if isinstance(found, Unknown) or found.value is None or not found.value.passed:
        return {}
    return {"nvml": ("worked", found.quotes)}


def _toolkit(facts: Facts) -> Looks:
    python, toolkits = facts.get(PYTHON), facts.get(TOOLKITS)
    if isinstance(python, Unknown) or isinstance(toolkits, Unknown) or python.value is None or toolkits.value is None:
        return {}
    if python.value.package("numba") is None:
        return {}
    entries = [toolkits.value.component(name) for name in needed_parts(python.value)]
    if any(entry is None for entry in entries):
        return {}  # not recorded by this worker
    complete = all(entry is not None and entry.path is not None for entry in entries)
    return {"toolkit": ("worked" if complete else "failed", toolkits.quotes)}


def _failed_on_a_gpu(facts: Facts) -> frozenset[RungName]:
    """The rungs that are climbed on each GPU by itself and broke on one."""
    found = facts.get(LADDER)
    if isinstance(found, Unknown) or found.value is None:
        return frozenset()
    return frozenset(entry.rung for entry in found.value.rungs if entry.gpu is not None and entry.status not in ("pass", "skip"))


def _ladder(facts: Facts) -> Looks:
    found = facts.get(LADDER)
    if isinstance(found, Unknown) or found.value is None:
        return {}
    looks: Looks = {}
    for rung in LADDER_ORDER:
        results = [entry for entry in found.value.result(rung) if entry.status != "skip"]
        if results:
            good = all(entry.status == "pass" for entry in results)
            looks[rung] = ("worked" if good else "failed", found.quotes)
    return looks


def _frameworks(facts: Facts) -> Looks:
    """Those that the user asked for. One that gave no answer in time says nothing: an import may wait for a slow disk."""
    found = facts.get(FRAMEWORK_RUNS)
    if isinstance(found, Unknown) or found.value is None:
        return {}
    if any(run.status in ("fail", "crash") for run in found.value.runs):
        return {"framework": ("failed", found.quotes)}
    good = bool(found.value.runs) and all(run.status == "pass" for run in found.value.runs)
    return {"framework": ("worked", found.quotes)} if good else {}
