"""What the program itself did wrong: impossible launches, a fork after CUDA was started, and whose memory ran out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest
from operator import itemgetter

from cudadoctor.checks.reading import Quotes
from cudadoctor.model.findings import Basis, Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import PROCESSES, SMI, Process, SmiCsv
from cudadoctor.texts.tie_breakers.case import Case, Listed, codes, finding, joined, suspects
from cudadoctor.texts.tie_breakers.taken_back import LOST

OWN, OTHERS, ZOMBIE = "program-out-of-memory", "gpu-memory-held-by-others", "zombie-gpu-process"
SHARED = "unified-memory-exhausted"
FAULT = "program-memory-fault"
LAUNCH, FORKED, TIMEOUT = "program-launch-config", "program-forked-after-init", "program-launch-timeout"
_LAUNCH_CALL = lazy(r"\bcu(?:da)?LaunchKernel|cuLaunch\w*|cuFuncSet(?:BlockShape|SharedSize)|kernel launch|failed to launch", re.ASCII)
_STARTING_CALL = lazy(r"cuInit|GetDeviceCount|THCGeneral|cuda_init|initialization failure|init failure")
_WAITING_CALL = lazy(r"Synchronize|Memcpy|StreamQuery|EventQuery|kernel launch|kernel call")
_BAD_ADDRESS = codes("cuda 700", "cuda 716", words=r"(?i)invalid __|illegal|misaligned|out of bounds")
_SCREEN = lazy(r"(?i)screen|display driver|黑屏")
_SECONDS = lazy(r"\bafter (?:\w{1,8} ){0,2}~?(?P<seconds>\d{1,2}(?:\.\d{1,3})?) ?s(?:ec\w{0,5})?\b")
SHORTEST_WATCH, LONGEST_WATCH = 1.5, 15.0  # seconds that a watchdog lets a kernel run, with what the failure itself takes
_OUT_OF_MEMORY = codes("cuda 2", words=r"(?i)out.of.memory|_STATUS_ALLOC_FAILED")
# PyTorch's allocator says how much it wanted; without that it was CUDA itself that found no room, most often for the context.
_PLAIN = lazy(r"(?:RuntimeError|AcceleratorError): CUDA error: out of memory")
_PYTHON = lazy(r"(?i)python|jupyter|torchrun|/bin/|\.\.\.")  # may be the failed program itself, seen while it ran
_NUMBER = lazy(r"^(\d{1,8})(?: MiB)?$")
_SERVICE = lazy(r"/(?:usr|opt|s?bin)/")
_GONE = lazy(r"^\[Not Found\]$")  # a name that may not be read is written in another way
_HELD = lazy(r"^(\d{4,7})(?: MiB)?$")  # from 1000 MiB on
_RAN_OUT = codes("cuda 2", words=r"(?i)out.of.memory")
MIB = 1 << 20
IDLE = 600  # MiB in use, the driver's own reserve with it, that an idle GPU does not reach
NEARLY_ALL = 0.9  # of the memory free: nobody else is there
MUCH = 0.3  # of a GPU's memory


# ---------------------------------------------------------------- forks and watchdogs
def forked(case: Case) -> Iterator[Clue]:
    """Code 3 in a child process that was made by fork. Of a call that comes after the start of CUDA any word of children is enough."""
    lines = case.suspected(FORKED)
    child = case.says("fork") or (case.says("children") if lines and not _STARTING_CALL.search(lines[0].text) else ())
    if lines and child and not case.says("spawn"):
        yield finding(FORKED, lines, child)
    elif lines and _STARTING_CALL.search(lines[0].text) and not case.says("children"):
        yield finding("uvm-unavailable", lines, basis="suspected")  # the first call of all, and nobody speaks of children


def _launch_failed(case: Case) -> Quotes:
    """719, and no bad address."""
    return () if case.stated(FAULT, words=_BAD_ADDRESS) else case.stated(FAULT, words=codes("cuda 719"))


def _after_a_while(case: Case) -> Quotes:
    """The same after as many seconds as a watchdog lets a kernel run, with what the failure itself takes."""
    seconds = [float(found["seconds"]) for quote in _launch_failed(case) if (found := _SECONDS.search(quote.text)) is not None]
    return _launch_failed(case) if seconds and SHORTEST_WATCH <= seconds[0] <= LONGEST_WATCH else ()


def _black_screen(case: Case) -> Quotes:
    return tuple(quote for quote in case.says("display-reset") if _SCREEN.search(quote.text))


# ---------------------------------------------------------------- whose memory
def whose_memory(case: Case) -> Iterator[Clue]:
    """Out of memory without figures: who else is on the GPU, by what nvidia-smi shows in the same text."""
    lines = case.suspected(OWN, words=_OUT_OF_MEMORY)
    if not lines or case.stated(OWN, OTHERS, ZOMBIE):
        return
    yield from _by_lists(case, lines)
    yield from _by_table(case, lines)
    if _PLAIN.search(lines[0].text):
        yield finding(OTHERS, lines, basis="suspected")


def _mebibytes(value: str) -> int | None:
    found = _NUMBER.match(value)
    return int(found[1]) if found is not None else None


def _by_lists(case: Case, lines: Quotes) -> Iterator[Clue]:
    """The answers to `nvidia-smi --query-gpu` and `--query-compute-apps`: asked for when the program has ended."""
    for fact in case.lists():
        pids, sizes = fact.need().column("pid") or (), fact.need().column("used_gpu_memory", "used_memory") or ()
        held = [(size, pid) for pid, shown in zip(pids, sizes, strict=False) if pid.isdecimal() and (size := _mebibytes(shown)) is not None]
        if held:
            size, pid = max(held, key=itemgetter(0))
            yield _held(case, lines, pid, size, fact.lines_with(pid)[:1])
            return
    for fact in case.lists():
        used, total = _memory(fact.need())
        if used is None or not total:
            continue
        if _is_idle(used, total):
            yield finding(OWN, lines, fact.lines_with(str(used))[:1])
        elif case.nobody_computes() and not case.marks and not case.wsl:
            yield finding(ZOMBIE, fact.lines_with(str(used))[:1], lines, memory=f"{used} MiB", state="not listed")
        return


def _held(case: Case, lines: Quotes, pid: str, size: int, shown: Quotes) -> Clue:
    """What a process of another means, and one that is looked for and gone. In a container the numbers are the host's and say nothing."""
    asked = case.says("gone") if not case.container and not case.in_wsl else ()
    if gone := tuple(quote for quote in asked if re.search(rf"\b{pid}\b", quote.text)):
        return finding(ZOMBIE, shown, gone, lines, memory=f"{size} MiB", state="not found")
    return finding(OTHERS, lines, shown, pid=pid, memory=f"{size} MiB")


def _memory(table: SmiCsv) -> tuple[int | None, int | None]:
    """What is in use and what there is, of the fullest GPU of the list."""
    columns = (table.column(f"memory.{name}") for name in ("used", "free", "total"))
    found = []
    for row in zip_longest(*(column or () for column in columns), fillvalue=""):
        used, free, total = map(_mebibytes, row)
        if used is None and free is not None and total is not None:
            used = total - free
        if used is not None and total:
            found.append((used, total))
    return max(found, key=itemgetter(0), default=(None, None))


def _is_idle(used: float, total: float) -> bool:
    """Both in MiB."""
    return used <= max(IDLE, (1 - NEARLY_ALL) * total)


def _by_table(case: Case, lines: Quotes) -> Iterator[Clue]:
    """A table with a process that is not the one that failed: listed before it ran, or of another program."""
    for fact in case.facts.all(SMI):
        table, first = fact.value, fact.quotes[0].first if fact.quotes else None
        if table is None or table.module is None or first is None:
            continue
        earlier = lines[0].first is not None and first < lines[0].first
        total = max((gpu.memory_total_bytes or 0 for gpu in table.gpus), default=0)
        sizes = [(gpu.memory_used_bytes, gpu.memory_total_bytes) for gpu in table.gpus]
        if total and all(used is not None and whole and _is_idle(used / MIB, whole / MIB) for used, whole in sizes):
            yield finding(OWN, lines, fact.line_of(table.gpus[0].line))
            return
        for entry in table.processes:
            size = entry.memory_bytes or 0
            if "C" in (entry.kind or "C") and size > MUCH * total > 0 and (earlier or not _PYTHON.search(entry.name or "python")):
                shown = next((quote for quote in fact.quotes if str(entry.pid) in quote.text), fact.quotes[0])
                yield _held(case, lines, str(entry.pid), size // MIB, (shown,))
                return


def nobody_is_listed(case: Case) -> Iterator[Clue]:
    """Memory ran out, by a code or by the user's word, and a table shows memory in use and no process, outside any container."""
    code = case.suspected(ZOMBIE, words=_OUT_OF_MEMORY)
    lines = code or case.says("out-of-memory")
    if not lines or case.container or case.in_wsl or (not code and case.stated(OWN, OTHERS, ZOMBIE)):
        return
    if not code and (case.says("notebook") or case.says("windows")):
        return
    full = full_of_nobody(case, least=IDLE << 20 if code else None)
    if full is not None:
        number = {"gpu": str(full.gpu.index)} if full.gpu.index is not None else {}
        values = {"memory": f"{(full.gpu.memory_used_bytes or 0) >> 20} MiB", "state": "not listed", **number}
        yield finding(ZOMBIE, full.table.line_of(full.gpu.line), lines, values=values)


def full_of_nobody(case: Case, least: int | None = None) -> Listed | None:
    """A GPU whose memory is in use in a table whose list of processes is shown and empty. `least`: bytes; else a part of all there is."""
    for listed in case.gpus_of_tables():
        table, used, total = listed.table.need(), listed.gpu.memory_used_bytes or 0, listed.gpu.memory_total_bytes or 0
        if table.process_list and not table.processes and total and used > (MUCH * total if least is None else least):
            return listed
    return None


def left_over(case: Case) -> Iterator[Clue]:
    """Memory ran out, and of those that hold a GPU ps shows one that is dead, or that lost its parent: the user's own is a left-over.

    In a container 1 is a parent like others, and so it is for a service, which is started by its full path.
    """
    lines, table = case.suspected(ZOMBIE) or case.stated(OTHERS) or case.says("out-of-memory"), case.facts.there(PROCESSES)
    if not lines or table is None or case.container:
        return
    listed = {entry.pid for fact in case.facts.all(SMI) if fact.value is not None for entry in fact.value.processes}
    listed |= {int(pid) for fact in case.lists() for pid in fact.need().column("pid") or () if pid.isdecimal()}
    found: dict[Basis, list[Process]] = {"derived": [], "suspected": []}
    for process in table.need().processes:
        alone = process.state == "orphaned" and not _SERVICE.match(process.command or "")
        if (alone or process.state == "defunct") and (process.devices or process.pid in listed):
            worker = case.knowledge.conditions["texts"]["worker"].match(process.command or "") is not None
            sure = process.state == "defunct" or ((process.own or worker) and process.pid in listed)
            found["derived" if sure else "suspected"].append(process)
    for basis, left in found.items():
        for process in left[:1]:
            values = {"pid": str(process.pid), "pids": " ".join(str(one.pid) for one in left)}
            shown = tuple(quote for one in left[:2] for quote in table.line_of(one.line))
            yield finding(ZOMBIE, shown, lines, basis=basis, values={**values, "command": process.command or "", "state": process.state})


def _on_a_host(case: Case) -> bool:
    """Whether all processes of the machine are seen: a container, WSL and Windows show none of them, or not all."""
    return not (case.container or case.in_wsl or case.says("windows") or case.says("notebook"))


def held_by_what_is_gone(case: Case) -> Iterator[Clue]:
    """Memory ran out, and nvidia-smi lists a process with much memory whose program it does not find any more."""
    lines = case.stated(OTHERS) or case.suspected(OTHERS, words=_RAN_OUT)
    if not lines or not _on_a_host(case):
        return
    for fact in case.lists():
        names, sizes = fact.need().column("process_name", "name"), fact.need().column("used_gpu_memory", "used_memory")
        for name, size in zip(names or (), sizes or (), strict=False):
            if _GONE.match(name) and (held := _HELD.match(size)) is not None:
                yield finding(ZOMBIE, fact.lines_with(size)[:1], lines, memory=f"{held[1]} MiB", state="not found")
                return


def full_after_the_end(case: Case) -> Iterator[Clue]:
    """A program was cut off, and a table shows a GPU with much memory in use and no process at all."""
    ended = case.says("cut-off")
    if not ended or case.settled or not _on_a_host(case):
        return
    shown = full_of_nobody(case)
    if shown is not None:
        yield finding(ZOMBIE, shown.table.line_of(shown.gpu.line), ended, basis="suspected")


TIES = (
    # Out of memory without figures, and the text says that nobody else uses the card: the program's own need comes first.
    joined(
        OWN,
        suspects(OWN, words=_RAN_OUT),
        beside=("alone",),
        unless=("held", "left-over", "nobody-listed"),
        unless_stated=(OWN, OTHERS, ZOMBIE),
        basis="suspected",
    ),
    # The same where CPU and GPU share one memory: the driver counts what the page cache holds as used.
    joined(SHARED, suspects(OWN, words=_RAN_OUT), beside=("shared-memory-gpu",), unless_stated=(OWN, OTHERS, ZOMBIE), basis="suspected"),
    *(held_by_what_is_gone, full_after_the_end, left_over, nobody_is_listed),
    # An invalid argument (code 1) of the call that starts a kernel: its sizes are impossible.
    joined(LAUNCH, suspects(LAUNCH, words=_LAUNCH_CALL)),
    forked,
    # An unknown error (999) of a call that waits for kernels: CUDA had started well, so the kernel, not the driver's start, failed.
    joined(TIMEOUT, suspects("uvm-unavailable", words=_WAITING_CALL), beside=("display-reset",)),
    joined((TIMEOUT, FAULT), suspects("uvm-unavailable", words=_WAITING_CALL), unless=("display-reset",), basis="suspected"),
    # The same of a program that may have run until the machine slept: a log of the kernel shows each sleep of weeks.
    joined("suspend-loses-gpu-memory", suspects(FAULT, words=codes(*LOST)), beside=("suspend",), basis="suspected"),
    joined(TIMEOUT, _after_a_while, beside=("watched",)),
    joined(TIMEOUT, _launch_failed, beside=(_black_screen,)),
    whose_memory,
)
