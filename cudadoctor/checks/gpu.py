"""Row `gpu`: is there an NVIDIA GPU on the PCI bus, and does it still answer there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from cudadoctor.checks.base import Check, Line, Rule
from cudadoctor.checks.reading import (
    Gpu,
    Quotes,
    block_of,
    elsewhere,
    event_line,
    gpus,
    listed,
    merged,
    module_named,
    off_the_bus,
    passed,
    plain_address,
    same_address,
    seen_to_work,
    statements,
    subject_of,
    told,
    told_where_asked,
    works_now,
)
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.knowledge.tables import Architecture, Chip
from cudadoctor.model.facts import Fact, Facts, Quote
from cudadoctor.model.findings import Basis, Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import DEVICE_NODES, KERNEL_LOG, LADDER, MODULES, NVML, PCI, PCI_NAMES, SMI, KernelEvent, PciBus, PciFunction

OFF, OFF_THE_BUS = "gpu-fell-off-bus", 79  # Xid
MOST_ADAPTERS = 4  # of other makers, that a report names
_MOST_VALUES = 3  # of those that nvidia-smi could not read, in a quote
_LOST = lazy(r"fallen off the bus|from D3cold to D0, device inaccessible")
_REFUSED = {
    "gpu-power-cable-missing": lazy(r"does not have the necessary power cables connected"),
    "pci-bar-unassigned": lazy(r"region assigned to your NVIDIA device is invalid|BAR\d is \d+M @ 0x0 \("),
    "gpu-powered-off": lazy(r"bbswitch: Succesfully loaded\. Discrete card \S+ is off"),
}
_NVIDIA_SPEAKS = lazy(r"NVRM|\bnvidia [0-9a-f]{4}:|\bnouveau [0-9a-f]{4}:|\[10de:[0-9a-f]{4}\].{0,100}class 0x03")


def no_gpu(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """The whole bus was listed, holds no NVIDIA GPU, and nothing else shows one."""
    bus = facts[PCI]
    if off_the_bus(facts, bus) is not None or _shown_otherwise(facts, bus) or gpus(facts):
        return
    listings = [fact for fact in statements(facts, PCI) if fact.whole]
    if not listings or any(_may_be_nvidia(function) for fact in listings for function in fact.need().functions):
        raise PCI.unknown("the bus was not listed whole")
    found = _adapters(listings[0])
    makers = dict.fromkeys(maker.name for function in found if (maker := knowledge.maker_of(function.vendor, function.name)) is not None)
    values = {"adapters": listed(_called(function, knowledge) for function in found[:MOST_ADAPTERS]), "makers": ",".join(makers)}
    words = f"{len(listings[0].need().functions)} PCI functions, none of vendor 10de (NVIDIA) with class 03 (display or 3D)"
    none = Quote(source=listings[0].source("PCI bus"), text=words)
    others = (block_of(listings[0], function.line)[:1] for function in found[:MOST_ADAPTERS])
    yield Clue(cause="no-nvidia-gpu", quotes=merged((none,), *others), values=values)


def _adapters(bus: Fact[PciBus]) -> list[PciFunction]:
    return [function for function in bus.need().functions if function.is_adapter]


def _called(function: PciFunction, knowledge: Knowledge) -> str:
    """AMD 1002:744c (amdgpu): the maker in plain words, and what the listing says beside it."""
    maker = knowledge.maker_of(function.vendor, function.name)
    ids = f"{function.vendor}:{function.device}" if function.vendor and function.device else ""
    named = function.name if function.name is not None and maker is not None and maker.name in function.name else None
    words = named or " ".join(part for part in (maker.name if maker is not None else "", function.name or ids) if part)
    return f"{words or 'an adapter'}{f' ({function.driver})' if function.driver is not None else ''}"


def _may_be_nvidia(function: PciFunction) -> bool:
    """A function whose numbers a listing does not give may still be NVIDIA's by its name."""
    return function.vendor is None and "nvidia" in (function.name or "").lower() and (function.class_code or "03").startswith("03")


def _shown_otherwise(facts: Facts, bus: Fact[PciBus]) -> bool:
    """Whether the driver itself, or WSL's device, shows a GPU that the bus does not. A stray /dev/nvidiactl is no GPU."""
    nvml, nodes = told_where_asked(facts, NVML, bus), told_where_asked(facts, DEVICE_NODES, bus)
    ladder, smi = told(facts, LADDER, bus), facts.value(SMI)  # an nvidia-smi that was not run contradicts nobody
    return bool(
        (nvml is not None and nvml.code == 0 and nvml.gpus)
        or passed(ladder, "devices")
        or (smi is not None and smi.gpus)
        or (nodes is not None and nodes.find("/dev/dxg") is not None)
    )


def unreadable(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """The GPU's configuration space reads as all ones: the listing shows revision ff."""
    bus = facts[PCI]
    for gpu in gpus(facts):
        if gpu.revision == "ff" and not (seen_to_work(facts, gpu) or _answers_below(facts, gpu)):
            # bbswitch switches a laptop's GPU off on purpose; revision ff is then no fault of the hardware.
            switched_off = told(facts, MODULES, bus) is not None and module_named(facts, "bbswitch")
            basis: Basis = "suspected" if switched_off else "derived"
            yield Clue(cause=OFF, quotes=gpu.quotes, subject=gpu.subject, basis=basis, text=bus.origin == "text")


def _answers_below(facts: Facts, gpu: Gpu) -> bool:
    """Whether nvidia-smi lists it further down in the same text: a laptop's GPU was asleep, and wakes when it is asked."""
    listed = max((quote.last or 0 for quote in gpu.quotes), default=0)
    answers = [fact for fact in facts.all(SMI) if fact.value is not None and fact.origin == "text" == facts[PCI].origin]
    return any(
        same_address(row.address or "", gpu.address) and min((quote.first or 0 for quote in fact.quotes), default=0) > listed
        for fact in answers
        for row in fact.need().gpus
        if not row.errors
    )


def hardly_read(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """nvidia-smi lists the GPU, and could read hardly anything of it. Single values fail now and then, also of what has a process."""
    for fact in facts.all(SMI):
        for row in fact.value.gpus if fact.value is not None else ():
            if row.hardly_read:
                words = Quote(source=fact.source("nvidia-smi"), text=f"GPU {row.index}: {', '.join(row.errors[:_MOST_VALUES])}")
                subject = subject_of(row.address)
                yield Clue(cause=OFF, quotes=merged((words,), block_of(fact, row.line)[:1]), subject=subject, basis="suspected")


def logged_off_the_bus(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """This boot's kernel log says that the GPU left the bus, and it is not seen to work now.

    What a pasted text says of the past is left to the signs: nobody can ask that machine what works now.
    """
    for address, lost in logged(facts, _LOST, OFF_THE_BUS):
        yield Clue(cause=OFF, quotes=lost[:2], subject=subject_of(address))


def refused_at_start(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """This boot's kernel log names a reason that lies before the driver: a power plug, a memory window, a GPU that is switched off."""
    for cause, words in _REFUSED.items():
        for address, said in logged(facts, words):
            yield Clue(cause=cause, quotes=said[:2], subject=subject_of(address))


def logged(facts: Facts, words: re.Pattern[str], xid: int | None = None) -> Iterator[tuple[str | None, Quotes]]:
    """The lines of this boot's kernel log that hold these words or this Xid, for each GPU that is not seen to work now."""
    log = facts[KERNEL_LOG]
    if log.value is None or log.origin == "text":
        return
    for address, events in by_address(log.value.events).items():
        stated = (event for event in events if words.search(event.text) or (xid is not None and event.xid == xid))
        said = [event for event in stated if not log.value.past(event.line, address)]
        if said and not works_now(facts, address):
            yield address, tuple(event_line(log, event) for event in said)


@lru_cache(maxsize=4)  # each GPU's rules ask
def by_address(events: tuple[KernelEvent, ...]) -> dict[str | None, list[KernelEvent]]:
    """The log's lines by the GPU that they name, None for those that name none."""
    grouped: dict[str | None, list[KernelEvent]] = {}
    for event in events:
        grouped.setdefault(plain_address(event.address) if event.address is not None else None, []).append(event)
    return grouped


def gone_since_boot(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """This boot's kernel log speaks of an NVIDIA GPU at an address that the bus does not hold any more."""
    log, bus = facts[KERNEL_LOG], facts[PCI]
    if log.value is None or log.origin == "text" or elsewhere(facts) is not None:
        return
    for address, events in by_address(log.value.events).items():
        spoken = [event for event in events if _NVIDIA_SPEAKS.search(event.text)]
        if address is None or not spoken or _on_the_bus(facts, address) or works_now(facts, address):
            continue
        gone = Quote(source=bus.source("PCI bus"), text=f"{address}: not on the bus")
        yield Clue(cause=OFF, quotes=(event_line(log, spoken[0]), gone), subject=subject_of(address))


def _on_the_bus(facts: Facts, address: str) -> bool:
    listings = statements(facts, PCI)
    if any(same_address(address, function.address) for fact in listings for function in fact.need().functions):
        return True
    if not any(fact.whole for fact in listings):
        raise PCI.unknown("the bus was not listed whole")
    return False


def reported_lost(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """NVML counts the GPU and says that it is lost."""
    fact = facts[NVML]
    for gpu in fact.value.gpus if fact.value is not None else ():
        if gpu.handle_error is not None and "gpu is lost" in gpu.handle_error.lower():
            yield Clue(cause=OFF, quotes=fact.lines_with("GPU is lost", gpu.handle_error)[:1], subject=subject_of(gpu.address))


# ---------------------------------------------------------------- the line
def describe(facts: Facts, knowledge: Knowledge) -> Line:
    place = off_the_bus(facts, facts[PCI])
    if place == "WSL":
        return Line("WSL shows no PCI GPU: Windows lends it through /dev/dxg", skip="WSL")
    if place is not None:
        return Line(f"{place}: the GPU is part of the chip, not on the PCI bus", skip=place)
    found = gpus(facts)
    if not found:
        bus = facts[PCI]
        if not bus.whole:
            raise PCI.unknown("the bus was not listed whole")
        others = listed(_called(function, knowledge) for function in _adapters(bus)[:MOST_ADAPTERS])
        return Line(f"no NVIDIA GPU among {len(bus.need().functions)} PCI functions" + (f", but {others}" if others else ""), bus.some())
    grouped: dict[str, list[Gpu]] = {}
    names = facts.value(PCI_NAMES) or {}  # the products, as this machine's pci.ids calls them
    for gpu in found:
        grouped.setdefault(kind_of(gpu, knowledge, names.get(gpu.device or "")), []).append(gpu)
    words = "; ".join(f"{kind} at {listed(gpu.address for gpu in group)}" for kind, group in grouped.items())
    head = "1 NVIDIA GPU" if len(found) == 1 else f"{len(found)} NVIDIA GPUs"
    return Line(f"{head}: {words}", merged(*(gpu.quotes for gpu in found[:4])))


def kind_of(gpu: Gpu, knowledge: Knowledge, named: str | None) -> str:
    """H200 SXM 141GB, 10de:2335 (Hopper, 9.0)."""
    name = f"10de:{gpu.device}" if gpu.device is not None else gpu.name or "of unknown type"
    name = f"{named}, {name}" if named is not None else name
    chip, family = chip_of(gpu, knowledge), architecture_of(gpu, knowledge)
    words = [family.name] if family is not None else []
    if chip is not None and chip.compute_capability is not None:
        words.append(chip.compute_capability.text)
    return f"{name} ({', '.join(words)})" if words else name


def chip_of(gpu: Gpu, knowledge: Knowledge) -> Chip | None:
    """By the PCI device id; where a listing gives names only, by the chip's name."""
    if gpu.device is not None:
        return knowledge.chip(gpu.device)
    return knowledge.chip_by_name(gpu.name) if gpu.name is not None else None


def architecture_of(gpu: Gpu, knowledge: Knowledge) -> Architecture | None:
    """None for a GPU newer than the tables, and for one from before CUDA."""
    return knowledge.architecture_of_chip(chip_of(gpu, knowledge))


CHECK = Check(
    id="gpu",
    title="GPU on the PCI bus",
    looks_at="/sys/bus/pci/devices, lspci, lshw, or Windows' inventory: vendor 10de, class 03; the kernel log and NVML for a lost one",
    items=("pci", "lspci", "lshw", "pnp-devices", "proc-version", "tegra", "nvml", "ladder", "nvidia-smi", "dev", "kernel-log", "modules"),
    rules=(
        Rule("gpu", ("no-nvidia-gpu",), no_gpu),
        Rule("health", tuple(_REFUSED), refused_at_start),
        Rule("health", (OFF,), unreadable),
        Rule("health", (OFF,), hardly_read),
        Rule("health", (OFF,), logged_off_the_bus),
        Rule("health", (OFF,), gone_since_boot),
        Rule("health", (OFF,), reported_lost),
    ),
    describe=describe,
)
