"""Row processes: who holds the GPUs' memory, and whether what holds it is still alive.

NVML's list is joined with the process table. A small, listed, running process (a desktop, a monitor) is healthy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from cudadoctor.checks.base import Check, Line, Rule
from cudadoctor.checks.common import answering_gpus, any_of, plural, rung_quote
from cudadoctor.checks.reading import (
    WINDOWS,
    Quotes,
    broken,
    climbed,
    driver_answers,
    event_line,
    marks_of_container,
    same_address,
    subject_of,
)
from cudadoctor.inventory.devices import cuda_answered, devices_of
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Fact, Facts, Quote
from cudadoctor.model.findings import Clue
from cudadoctor.model.units import size
from cudadoctor.model.values import (
    CONTAINER_MARKS,
    HANGS,
    KERNEL,
    KERNEL_LOG,
    LADDER,
    PROCESSES,
    WSL,
    GpuProcess,
    Nvml,
    NvmlGpu,
    Process,
    Processes,
)

OTHERS, ZOMBIE, HUNG, SHARED = "gpu-memory-held-by-others", "zombie-gpu-process", "driver-hung", "unified-memory-exhausted"
_NO_MEMORY = "returned from _memdescAllocInternal("  # open kernel modules, src/nvidia/src/kernel/gpu/mem_mgr/mem_desc.c
MUCH = 0.10  # of a GPU's memory: so much of others' may stand in a program's way
LITTLE = 0.20  # of a GPU's memory: where more is left, a GPU is shared and nothing is wrong with it
IDLE_LIMIT = 300 << 20  # bytes in use beyond the driver's reserve that an idle GPU does not reach
OUT_OF_MEMORY, OUT_OF_MEMORY_NAME = 2, "CUDA_ERROR_OUT_OF_MEMORY"
UNLISTED = "NVML does not start, so nobody lists the processes on the GPUs"
NOT_FOUND = "[Not Found]"  # NVML names so a process that is not there, or that another PID namespace holds
NODE = "/dev/nvidia"
SHOWN = 3  # processes that are named
CONTEXT_NODE = "/dev/nvidia-uvm"  # held by whoever has a CUDA context; monitors and persistenced do without


class Holder(NamedTuple):
    """A process on one GPU: what NVML says of it, and what the process table does."""

    gpu: NvmlGpu
    pid: int
    listed: GpuProcess | None
    process: Process | None

    @property
    def bytes(self) -> int | None:
        return self.listed.memory_bytes if self.listed is not None else None


def _table(facts: Facts) -> tuple[Fact[Processes], Processes]:
    table = facts[PROCESSES]
    if table.value is None:
        raise PROCESSES.unknown("there is no process table")
    return table, table.value


def _listed(nvml: Nvml, gpu: NvmlGpu) -> list[GpuProcess]:
    """The processes that NVML names for a GPU, each once."""
    found: dict[int, GpuProcess] = {}
    for entry in nvml.processes:
        if entry.gpu == str(gpu.index) or same_address(entry.gpu if ":" in entry.gpu else None, gpu.address):
            known = found.get(entry.pid)
            found[entry.pid] = entry if known is None or (known.memory_bytes or 0) < (entry.memory_bytes or 0) else known
    return list(found.values())


def _open_files(processes: Processes, gpu: NvmlGpu, alone: bool) -> list[Process]:
    """Processes with a CUDA context's files open. Each opens the nodes of all GPUs, so they tell which one only where there is one."""
    holders = [entry for entry in processes.processes if CONTEXT_NODE in entry.devices]
    own = {f"{NODE}{gpu.index}"}
    return [entry for entry in holders if alone or own == {name for name in entry.devices if name[len(NODE) :].isdigit()}]


def holders(nvml: Nvml, processes: Processes, gpus: tuple[NvmlGpu, ...], gpu: NvmlGpu) -> list[Holder]:
    """Everybody on one GPU, NVML's list first."""
    listed = _listed(nvml, gpu)
    found = [Holder(gpu, entry.pid, entry, processes.find(entry.pid)) for entry in listed]
    named = {entry.pid for entry in nvml.processes}
    found += [Holder(gpu, entry.pid, None, entry) for entry in _open_files(processes, gpu, len(gpus) == 1) if entry.pid not in named]
    return found


def _stranded(holder: Holder, processes: Processes) -> bool:
    """Whether nobody waits for this process any more: it is dead, orphaned, or stopped with nobody left to go on with it."""
    process = holder.process
    if process is None or process.state != "stopped":
        return process is not None and process.state in ("orphaned", "defunct")
    return process.ppid == 1 or (process.ppid is not None and processes.find(process.ppid) is None)


def computing(holder: Holder) -> bool:
    """Whether NVML lists it as a process that computes, or says no kind."""
    return holder.listed is not None and "C" in (holder.listed.kind or "C")


def _quotes(nvml: Fact[Nvml], table: Fact[Processes], holder: Holder) -> Quotes:
    """What both sides say about one process."""
    quotes: list[Quote] = []
    if holder.listed is not None:
        words = f"GPU {holder.gpu.index}: process {holder.pid} {holder.listed.name or ''}".rstrip()
        quotes.append(nvml.line_with(f"process {holder.pid} ", words=words))
    if holder.process is not None:
        words = f"process {holder.pid}, parent {holder.process.ppid}, user {holder.process.user or 'unknown'}, {holder.process.state}"
        quotes.append(table.line_with(f"process {holder.pid},", words=words))
    return tuple(quotes)


def _by_size(found: Iterable[Holder]) -> list[Holder]:
    return sorted(found, key=lambda entry: -(entry.bytes or 0))


def _values(found: list[Holder]) -> dict[str, str]:
    """What a recipe needs; the first holder is the largest."""
    process = found[0].process
    start = process.start_time if process is not None else None
    values = {"pid": str(found[0].pid), "pids": " ".join(str(entry.pid) for entry in found)}
    return values if start is None else {**values, "start_time": f"{start:.2f}"}


# ---------------------------------------------------------------- gpu-memory-held-by-others
def _held(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """Living compute processes hold a good part of a GPU, or any part of one that ran out of memory."""
    nvml, gpus = answering_gpus(facts, UNLISTED)
    for gpu in gpus:
        if cuda_answered(facts) and any(device.index == gpu.index and device.number is None for device in devices_of(facts)):
            continue  # CUDA shows other GPUs and not this one: what is on it stands in nobody's way here
        failure = _out_of_memory(facts, gpu, len(gpus) == 1)
        if failure is not None or _listed(nvml.need(), gpu):
            yield from _held_on(facts, nvml, gpus, gpu, failure)


def _held_on(facts: Facts, nvml: Fact[Nvml], gpus: tuple[NvmlGpu, ...], gpu: NvmlGpu, failure: Quote | None) -> Iterator[Clue]:
    table, listed = _table(facts)
    alive = [entry for entry in holders(nvml.need(), listed, gpus, gpu) if computing(entry) and not _stranded(entry, listed)]
    untold = any(entry.bytes is None for entry in alive) and _shares_are_untold(facts)
    alive = _by_size(entry for entry in alive if entry.bytes is not None or not untold)
    said = (failure,) if failure is not None else ()
    # Where no share is shown, what is in use counts.
    figures, used = [entry.bytes for entry in alive if entry.bytes is not None], _part(gpu.memory_used_bytes, gpu)
    held = _part(sum(figures), gpu) if figures else used
    if alive and (failure is not None or (held >= MUCH and 1 - max(held, used) < LITTLE)):
        quotes = (*said, *(quote for entry in alive[:2] for quote in _quotes(nvml, table, entry)))
        yield Clue(cause=OTHERS, quotes=quotes, subject=subject_of(gpu.address), values=_values(alive))
    elif failure is not None and (untold or not _listed(nvml.need(), gpu)) and used >= MUCH:
        # A container's or WSL's table does not show the host's processes; the memory that they hold is counted all the same.
        wsl = facts[WSL]
        if wsl.value or _shares_are_untold(facts) or marks_of_container(facts, wsl):
            yield Clue(cause=OTHERS, quotes=(*said, _in_use(nvml, gpu)), subject=subject_of(gpu.address))


def _in_use(nvml: Fact[Nvml], gpu: NvmlGpu) -> Quote:
    """NVML's line about the memory of a GPU."""
    return nvml.line_with(f"GPU {gpu.index} ", "in use", words=f"GPU {gpu.index}: {size(gpu.memory_used_bytes or 0)} in use")


def _shares_are_untold(facts: Facts) -> bool:
    """Under WDDM Windows hands out the memory itself and tells nobody's share of it: of a desktop's programs none is to blame."""
    kernel = facts[KERNEL]
    return kernel.value is not None and kernel.value.system == WINDOWS


def _part(amount: int | None, gpu: NvmlGpu) -> float:
    """So much of the GPU's memory, as a part of the whole."""
    return (amount or 0) / gpu.memory_total_bytes if gpu.memory_total_bytes else 0.0


def _out_of_memory(facts: Facts, gpu: NvmlGpu, alone: bool) -> Quote | None:
    """The ladder's line where it ran out of memory on this GPU."""
    climb = facts.there(LADDER)
    if climb is None:
        return None
    for result in broken(climb.value, "context", "memory", "ptx-kernel", "numba-kernel"):
        full = result.code == OUT_OF_MEMORY or OUT_OF_MEMORY_NAME in result.output
        # CUDA numbers the visible devices, NVML all of them: the address joins the two.
        if full and (alone or same_address(climb.need().address(result.gpu), gpu.address)):
            return rung_quote(climb, result)
    return None


# ---------------------------------------------------------------- zombie-gpu-process
def _released(facts: Facts, gpu: NvmlGpu) -> bool:
    """Whether the memory that NVML saw in use was free again when our own context was made: its holder was just ending."""
    free = next((device.memory_free_bytes for device in climbed(facts).devices if same_address(device.address, gpu.address)), None)
    if free is None or gpu.memory_used_bytes is None or gpu.memory_total_bytes is None or gpu.memory_reserved_bytes is None:
        return False
    return gpu.memory_total_bytes - gpu.memory_reserved_bytes - free < gpu.memory_used_bytes


def _left_over(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """A holder that nobody waits for: defunct, orphaned, or stopped with its parent gone."""
    nvml, gpus = answering_gpus(facts, UNLISTED)
    table, listed = _table(facts)
    for gpu in gpus:
        dead = _by_size(entry for entry in holders(nvml.need(), listed, gpus, gpu) if _stranded(entry, listed))
        if dead and not _released(facts, gpu):
            quotes = tuple(quote for entry in dead[:2] for quote in _quotes(nvml, table, entry))
            yield Clue(cause=ZOMBIE, quotes=quotes, subject=subject_of(gpu.address), values=_values(dead))


def _nobody(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """Memory is in use and nobody holds it, on a system that could list its holders."""
    nvml, gpus = answering_gpus(facts, UNLISTED)
    for gpu in gpus:
        used = gpu.memory_used_bytes
        # Without the reserve's figure the driver's own share is counted as used; with MIG each slice keeps some.
        if used is None or gpu.memory_reserved_bytes is None or used <= IDLE_LIMIT or gpu.mig_mode == "enabled":
            continue
        if any(entry.name != NOT_FOUND for entry in _listed(nvml.need(), gpu)) or _released(facts, gpu):
            continue
        table, wsl = facts[PROCESSES], facts[WSL]
        if wsl.value or _shares_are_untold(facts):
            return
        if marks_of_container(facts, wsl):
            raise CONTAINER_MARKS.unknown("a container may not see who holds the memory")
        if table.value is None or not table.value.complete:
            raise PROCESSES.unknown("other users' open files could not be read")
        if any(CONTEXT_NODE in entry.devices for entry in table.value.processes):
            continue
        shown = _in_use(nvml, gpu)
        quotes = (shown, Quote(source=shown.source, text=f"GPU {gpu.index}: no living process is listed"), *table.some()[:1])
        yield Clue(cause=ZOMBIE, quotes=quotes, subject=subject_of(gpu.address))


# ---------------------------------------------------------------- driver-hung
def _waiting_for_the_driver(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """Processes in uninterruptible sleep in the driver while a probe of it got no answer. Alone such a sleep is any wait for a disk; where
    nobody may read the kernel's stack of a process, the driver's files that it holds speak for the driver.
    """
    hangs = facts[HANGS]
    entries = hangs.value.entries if hangs.value is not None else ()
    if all(entry.item == "nvidia-smi" for entry in entries) and (not entries or driver_answers(facts)):
        return  # for a moment every program waits in a driver that answers
    table = facts[PROCESSES]
    asleep = [entry for entry in (table.value.processes if table.value is not None else ()) if entry.state == "uninterruptible"]
    waiting = [entry for entry in asleep if (entry.in_driver if entry.in_driver is not None else entry.devices)]
    if waiting:
        shown = (table.line_with(f"process {entry.pid},", words=f"process {entry.pid}, uninterruptible") for entry in waiting[:SHOWN])
        more = (Quote(source=table.quotes[0].source, text=f"{len(waiting)} processes wait in the driver"),) if len(waiting) > SHOWN else ()
        yield Clue(cause=HUNG, quotes=(*hangs.some()[:1], *shown, *more), values={"pid": str(waiting[0].pid)})


# ---------------------------------------------------------------- unified-memory-exhausted
def _shared_memory_gone(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """The driver got no memory, for a GPU that has none of its own: NVML has no figure for it, since the host's memory is its memory."""
    _, gpus = answering_gpus(facts, UNLISTED)
    if not any(gpu.memory_total_bytes is None and gpu.errors.get("memory") == "Not Supported" for gpu in gpus):
        return
    log = facts[KERNEL_LOG]
    events = log.value.events if log.value is not None else ()
    failed = [event for event in events if _NO_MEMORY in event.text and not log.need().past(event.line, None)]
    if failed:
        yield Clue(cause=SHARED, quotes=(event_line(log, failed[-1]),))


# ---------------------------------------------------------------- the row's line
def _describe(facts: Facts, knowledge: Knowledge) -> Line:
    nvml, gpus = answering_gpus(facts, UNLISTED)
    said, quotes = [], []
    for gpu in gpus:
        listed = _listed(nvml.need(), gpu)
        known = gpu.memory_used_bytes is not None and gpu.memory_total_bytes is not None
        used = f"{size(gpu.memory_used_bytes or 0)} of {size(gpu.memory_total_bytes or 0)}" if known else ""
        if not listed:
            said.append(f"GPU {gpu.index}: no process listed" + (f", {used} in use" if used else ""))
            continue
        names = ", ".join(f"{entry.name or 'process'} ({entry.pid})" for entry in listed[:3])
        more = f" and {len(listed) - 3} more" if len(listed) > 3 else ""
        verb = "holds" if len(listed) == 1 else "hold"
        said.append(f"GPU {gpu.index}: {plural(len(listed), 'process', 'processes')} {verb} {used or 'memory'}: {names}{more}")
        quotes += [nvml.line_with(f"process {entry.pid} ", words=f"process {entry.pid}") for entry in listed[:3]]
    return Line("; ".join(said) or "NVML lists no GPU", tuple(quotes) or nvml.some()[:1])


CHECK = Check(
    id="processes",
    title="Processes",
    looks_at="who holds the GPUs' memory: NVML's lists, open /dev/nvidia* files, orphaned and defunct processes",
    items=("nvml", "processes", "ladder", "kernel-log", "cgroup", "dockerenv"),
    rules=(
        Rule("processes", (OTHERS,), _held),
        Rule("processes", (ZOMBIE,), any_of(_left_over, _nobody)),
        Rule("driver", (HUNG,), _waiting_for_the_driver),
        Rule("processes", (SHARED,), _shared_memory_gone),
    ),
    describe=_describe,
)
