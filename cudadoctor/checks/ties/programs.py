"""What the program itself did wrong: impossible launches, a fork after CUDA was started, and whose memory ran out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from cudadoctor.checks.reading import Quotes, line_of, some
from cudadoctor.checks.ties.said import Said, finding, mention, stated, suspected
from cudadoctor.model.facts import Fact, Facts, Key
from cudadoctor.model.findings import Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import CONTAINER_MARKS, SETTING, SMI, SMI_CSV, WSL, Smi, SmiCsv, SmiGpu

if TYPE_CHECKING:
    from cudadoctor.knowledge.load import Knowledge

OWN, OTHERS, ZOMBIE = "program-out-of-memory", "gpu-memory-held-by-others", "zombie-gpu-process"
LAUNCH, FORKED, TIMEOUT = "program-launch-config", "program-forked-after-init", "program-launch-timeout"
_LAUNCH_CALL = lazy(r"\bcu(?:da)?LaunchKernel|cuLaunch\w*|cuFuncSet(?:BlockShape|SharedSize)|kernel launch|failed to launch", re.ASCII)
_STARTING_CALL = lazy(r"cuInit|GetDeviceCount|THCGeneral|cuda_init|initialization failure")
_WAITING_CALL = lazy(r"Synchronize|Memcpy|StreamQuery|EventQuery|kernel launch|kernel call")
_OUT_OF_MEMORY = lazy(r"(?i)out.of.memory|cudaErrorMemoryAllocation|_STATUS_ALLOC_FAILED|\b2\b")
# PyTorch's allocator says how much it wanted; without that it was CUDA itself that found no room, most often for the context.
_PLAIN = lazy(r"(?:RuntimeError|AcceleratorError): CUDA error: out of memory")
_ALLOC_STATUS = lazy(r"_STATUS_ALLOC_FAILED")
_PYTHON = lazy(r"(?i)python|jupyter|torchrun|/bin/|\.\.\.")  # may be the failed program itself, seen while it ran
_NUMBER = lazy(r"^(\d{1,8})(?: MiB)?$")
IDLE = 600  # MiB in use, the driver's own reserve with it, that an idle GPU does not reach
NEARLY_ALL = 0.9  # of the memory free: nobody else is there
MUCH = 0.3  # of a GPU's memory


def _is_stated(said: Said, *causes: str) -> bool:
    return any(stated(said, cause) for cause in causes)


def _true(facts: Facts, key: Key[Any]) -> bool:
    found = facts.get(key)
    return isinstance(found, Fact) and bool(found.value)


# ---------------------------------------------------------------- launches and forks
def impossible_launch(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """An invalid argument (code 1) of the call that starts a kernel: its sizes are impossible."""
    lines = suspected(said, LAUNCH, _LAUNCH_CALL)
    if lines:
        yield finding(LAUNCH, lines)


def forked(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """Code 3 in a child process that was made by fork. Of a call that comes after the start of CUDA any word of children is enough."""
    lines = suspected(said, FORKED)
    child = mention(facts, "fork") or (mention(facts, "children") if lines and not _STARTING_CALL.search(lines[0].text) else ())
    if lines and child and not mention(facts, "spawn"):
        yield finding(FORKED, lines, child)


def late_unknown_error(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """An unknown error (999) of a call that waits for kernels: CUDA had started well, so the kernel, not the driver's start, failed."""
    lines = suspected(said, "uvm-unavailable", _WAITING_CALL)
    if not lines:
        return
    reset = mention(facts, "display-reset")
    if reset:
        yield finding(TIMEOUT, lines, reset)
        return
    for cause in (TIMEOUT, "program-memory-fault"):
        yield finding(cause, lines, basis="suspected")


# ---------------------------------------------------------------- whose memory
def whose_memory(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """Out of memory without figures: who else is on the GPU, by what nvidia-smi shows in the same text."""
    lines = suspected(said, OWN, _OUT_OF_MEMORY)
    if not lines or _is_stated(said, OWN, OTHERS, ZOMBIE):
        return
    yield from _by_lists(facts, lines)
    yield from _by_table(facts, lines)
    if _PLAIN.search(lines[0].text):
        yield finding(OTHERS, lines, basis="suspected")


def alloc_failed(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """cuBLAS and cuDNN could not have the memory for their handle: memory is suspected before the library is."""
    lines = next((clue.quotes[:1] for clue in said for quote in clue.quotes if _ALLOC_STATUS.search(quote.text)), ())
    if lines:
        yield finding(OWN, lines, basis="suspected")


def _mebibytes(value: str) -> int | None:
    found = _NUMBER.match(value)
    return int(found[1]) if found is not None else None


def _by_lists(facts: Facts, lines: Quotes) -> Iterator[Clue]:
    """The answers to `nvidia-smi --query-gpu` and `--query-compute-apps`: asked for when the program has ended."""
    lists = [fact for fact in facts.all(SMI_CSV) if fact.value is not None]
    for fact in lists:
        held = [(pid, size) for pid, size in _processes(fact.need()) if size is not None]
        if held:
            pid, size = max(held, key=lambda entry: entry[1])
            yield finding(OTHERS, lines, some(fact)[:1], pid=pid, memory=f"{size} MiB")
            return
    for fact in lists:
        used, total = _memory(fact.need())
        if used is None or not total:
            continue
        if used <= max(IDLE, (1 - NEARLY_ALL) * total):
            yield finding(OWN, lines, some(fact)[:1])
        elif _nobody_listed(lists) and not any(_true(facts, key) for key in (CONTAINER_MARKS, WSL)):
            yield finding(ZOMBIE, some(fact)[:1], lines, memory=f"{used} MiB", state="not listed")
        return


def _processes(table: SmiCsv) -> list[tuple[str, int | None]]:
    pids = table.column("pid")
    sizes = table.column("used_gpu_memory", "used_memory")
    if pids is None or sizes is None:
        return []
    return [(pid, _mebibytes(size)) for pid, size in zip(pids, sizes, strict=True) if pid.isdecimal()]


def _memory(table: SmiCsv) -> tuple[int | None, int | None]:
    """What is in use and what there is, of the fullest GPU of the list."""
    used, free, total = (table.column(f"memory.{name}") for name in ("used", "free", "total"))
    best: tuple[int | None, int | None] = (None, None)
    for index, whole in enumerate(total or ()):
        size = _mebibytes(whole)
        taken = _mebibytes(used[index]) if used is not None else None
        if taken is None and free is not None and size is not None and (left := _mebibytes(free[index])) is not None:
            taken = size - left
        if taken is not None and size and (best[0] is None or taken > best[0]):
            best = (taken, size)
    return best


def _nobody_listed(lists: Sequence[Fact[SmiCsv]]) -> bool:
    return any(fact.need().column("pid") == () and fact.need().closed for fact in lists)


def _idle(gpu: SmiGpu) -> bool:
    used, total = gpu.memory_used_bytes, gpu.memory_total_bytes
    return used is not None and bool(total) and used <= max(IDLE << 20, (1 - NEARLY_ALL) * (total or 0))


def _by_table(facts: Facts, lines: Quotes) -> Iterator[Clue]:
    """A table with a process that is not the one that failed: listed before it ran, or of another program."""
    for fact in facts.all(SMI):
        table = fact.value
        first = fact.quotes[0].first if fact.quotes else None
        if not isinstance(table, Smi) or table.module is None or first is None:
            continue
        earlier = lines[0].first is not None and first < lines[0].first
        total = max((gpu.memory_total_bytes or 0 for gpu in table.gpus), default=0)
        if total and all(_idle(gpu) for gpu in table.gpus):
            yield finding(OWN, lines, line_of(fact, table.gpus[0].line))
            return
        for entry in table.processes:
            size = entry.memory_bytes or 0
            if "C" in (entry.kind or "C") and size > MUCH * total > 0 and (earlier or not _PYTHON.search(entry.name or "python")):
                shown = next((quote for quote in fact.quotes if str(entry.pid) in quote.text), fact.quotes[0])
                yield finding(OTHERS, lines, (shown,), pid=str(entry.pid), memory=f"{size >> 20} MiB")
                return


def nobody_is_listed(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """The user speaks of memory that ran out, and shows a table with much memory in use and no process, outside any container."""
    asked = mention(facts, "out-of-memory")
    if not asked or any(_true(facts, key) for key in (CONTAINER_MARKS, WSL)) or _is_stated(said, OWN, OTHERS, ZOMBIE):
        return
    setting = facts.get(SETTING)
    words = setting.value.words if isinstance(setting, Fact) and setting.value is not None else {}
    if {"container", "wsl", "notebook", "windows"} & set(words):
        return
    for fact in facts.all(SMI):
        table = fact.value
        for gpu in table.gpus if isinstance(table, Smi) and table.module is not None and not table.processes else ():
            used, total = gpu.memory_used_bytes or 0, gpu.memory_total_bytes or 0
            if total and used > MUCH * total:
                yield finding(ZOMBIE, line_of(fact, gpu.line), asked, memory=f"{used >> 20} MiB", state="not listed")
                return


TIES = (impossible_launch, forked, late_unknown_error, whose_memory, alloc_failed, nobody_is_listed)
