"""What of a kernel log may be blamed for now. A log is history: a line counts where it is of this boot, later than the last load of the
driver and the last reset of its GPU, and where nothing that the machine shows at present speaks against it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from cudadoctor.checks.driver_fit import libcuda_fits
from cudadoctor.checks.reading import event_line, plain_address, same_address, subject_of
from cudadoctor.inventory.rungs import Rungs
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Fact, Facts
from cudadoctor.model.findings import Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import KERNEL_LOG, KILLED_FOR_MEMORY, KILLED_FOR_MEMORY_AFTER, LADDER, NVML, KernelEvent, KernelLog, RungName

CEILING, MISMATCH = "process-limits", "driver-version-mismatch"
FAULT, WRONG = "program-memory-fault", "gpu-computes-wrong"
OF_PROGRAMS = (13, 31)  # Xids of a program that reads or writes where it may not, and rarely of a GPU that fails
DIFFERENT = 3  # programs that meet the same fault in the same place
_PROCESS = lazy(r"\bpid='?(?P<pid>\d{1,10})'?(?:, name=(?P<name>[^,\s]{1,64}))?")
_PLACE = lazy(r"\(GPC \d{1,2}, TPC \d{1,2}(?:, SM \d{1,2})?\)")


# ---------------------------------------------------------------- the machine's own log
def split(clues: Iterable[Clue], facts: Facts, knowledge: Knowledge, rungs: Rungs) -> tuple[list[Clue], list[Clue]]:
    """What the kernel log states, divided into what may hold now and what is past."""
    now: list[Clue] = []
    past: list[Clue] = []
    found = facts.there(KERNEL_LOG)
    log = found.value if found is not None and found.origin != "text" else None
    for clue in clues:
        cause = knowledge.causes.get(clue.cause)
        if cause is None:
            continue
        placed = _placed(clue, log) if log is not None else clue
        over = log is not None and _before(placed, log)
        if over or _ended(placed, cause.layer, facts, rungs, cause.breaks):
            past.append(placed)
        elif _counted_now(placed, facts) or any(rungs.failed(rung) for rung in cause.breaks):
            now.append(placed)
        else:  # nobody saw whether what it breaks works now
            now.append(msgspec.structs.replace(placed, basis="suspected"))
    return now, past


def _placed(clue: Clue, log: KernelLog) -> Clue:
    """The clue about the GPU that its lines name, where they all name one."""
    lines = {quote.first for quote in clue.quotes}
    named = {event.address for event in log.events if event.line in lines}
    if clue.subject != "machine" or len(named) != 1:
        return clue
    return msgspec.structs.replace(clue, subject=subject_of(named.pop()))


def _before(clue: Clue, log: KernelLog) -> bool:
    address = clue.subject.removeprefix("gpu:") if clue.subject.startswith("gpu:") else None
    lines = [quote.last for quote in clue.quotes if quote.last is not None]
    return bool(lines) and log.past(max(lines), address)


def _ended(clue: Clue, layer: str, facts: Facts, rungs: Rungs, breaks: Sequence[RungName]) -> bool:
    """Whether what a line tells of is over: a program's own fault, or one that counters and kernels that ran speak against."""
    if layer == "program":
        return True  # this machine's present state is asked here
    counted = _counted_now(clue, facts)
    if counted is not None:
        return not counted
    return _computed(clue.subject.removeprefix("gpu:"), facts) or all(rungs.worked(rung) for rung in breaks)


def _counted_now(clue: Clue, facts: Facts) -> bool | None:
    """Whether it holds at present: by NVML's counters, the kernel's for this control group, the libraries' versions. None: not known."""
    if clue.cause == CEILING:  # a log tells of every group's processes, the counter of this group's during this check
        before, after = facts.value(KILLED_FOR_MEMORY), facts.value(KILLED_FOR_MEMORY_AFTER)
        return after > before if before is not None and after is not None else None
    if clue.cause == MISMATCH and libcuda_fits(facts):
        return False  # a program that brought a library of its own, in a container say
    address, found = clue.subject.removeprefix("gpu:"), facts.there(NVML)
    gpus = found.need().gpus if found is not None and found.origin != "text" else ()
    gpu = next((gpu for gpu in gpus if gpu.handle_error is None and same_address(gpu.address, address)), None)
    if gpu is None:
        return None
    if clue.cause == "ecc-uncorrectable":
        return None if gpu.ecc_uncorrected_volatile is None else gpu.ecc_uncorrected_volatile > 0
    if clue.cause == "row-remap-needed":
        known = [state for state in (gpu.remap_pending, gpu.remap_failed, gpu.retired_pages_pending) if state is not None]
        return any(known) if known else None
    return None


def _computed(address: str, facts: Facts) -> bool:
    """Whether the driver's own kernel ran on this GPU and computed rightly."""
    found = facts.there(LADDER)
    if found is None or found.origin == "text":
        return False
    places = {device.index for device in found.need().devices if same_address(device.address, address)}
    return any(entry.status == "pass" and entry.gpu in places for entry in found.need().result("ptx-kernel"))


# ---------------------------------------------------------------- a user's text
def weighed(said: Sequence[Clue], earlier: Sequence[Clue], bygone: frozenset[int], log: KernelLog | None) -> list[Clue]:
    """A text's clues. Where it states nothing of the present, what the past states is a suspicion. Where several programs met the same
    fault in the same place of one GPU, the GPU is suspected beside them."""
    clues = list(said)
    if bygone and not any(clue.basis == "stated" for clue in clues):
        over = (clue for clue in earlier if clue.quotes[-1].first is not None and clue.quotes[-1].first - 1 in bygone)
        clues += [msgspec.structs.replace(clue, basis="suspected") for clue in over]
    shared = list(_shared_faults(log.events, bygone)) if log is not None else []
    if not shared:
        return clues
    doubted = [msgspec.structs.replace(clue, basis="suspected") if clue.cause == FAULT else clue for clue in clues]
    source = next((clue.quotes[0].source for clue in clues if clue.quotes), "text")
    quoting = Fact(key=KERNEL_LOG.name, value=log, quotes=())
    suspects = []
    for events in shared:
        quotes = tuple(msgspec.structs.replace(event_line(quoting, event), source=source) for event in (events[0], events[-1]))
        address = plain_address(events[0].address or "")
        suspects.append(Clue(cause=WRONG, quotes=quotes, basis="suspected", subject=f"gpu:{address}", text=True))
    return [*suspects, *doubted]


def _shared_faults(events: Iterable[KernelEvent], bygone: frozenset[int]) -> Iterator[list[KernelEvent]]:
    """Faults of different programs on one GPU: in the same unit of it, or of programs with different names."""
    by_gpu: dict[str, list[tuple[KernelEvent, str, str | None, str | None]]] = {}
    for event in events:
        process = _PROCESS.search(event.text) if event.xid in OF_PROGRAMS and event.line - 1 not in bygone else None
        if process is not None and event.address is not None:
            place = _PLACE.search(event.text)
            by_gpu.setdefault(event.address, []).append((event, process["pid"], process["name"], place[0] if place else None))
    for seen in by_gpu.values():
        names = {name for _, _, name, _ in seen if name is not None}
        units = {unit for *_, unit in seen if unit is not None}
        shared = next((unit for unit in sorted(units) if len({pid for _, pid, _, at in seen if at == unit}) >= DIFFERENT), None)
        if shared is not None:
            yield [event for event, *_, at in seen if at == shared]
        elif len(names) >= DIFFERENT:
            yield [event for event, *_ in seen]
