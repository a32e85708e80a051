"""What the system keeps from CUDA here: limits of the process and its control group, system calls and /proc that a sandbox withholds, files
that this user may not read, and libraries on a mount that loads none (noexec). The first two show themselves in the row libcuda.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from cudadoctor.checks.base import Rule
from cudadoctor.checks.common import any_of, rung_quote, spoken, variables_of
from cudadoctor.checks.reading import broken, statements, told
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Fact, Facts, Quote
from cudadoctor.model.findings import Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.model.units import size
from cudadoctor.model.values import (
    CGROUP_LIMITS,
    ENVIRONMENT,
    KERNEL_INTERFACE,
    KILLED_FOR_MEMORY,
    KILLED_FOR_MEMORY_AFTER,
    LADDER,
    LIMITS,
    NVML,
    OF_PYTHON,
    PYTHON,
    Ladder,
    Limit,
    Refused,
    RungName,
    RungResult,
)

CEILING = "process-limits"
KERNELS = ("ptx-kernel", "numba-kernel")  # a program that has too little memory is killed there, or crawls
SIGKILL = "SIGKILL"  # as the ladder's end says it
FILTERED = "SIGSYS"  # with which a seccomp filter ends a process
OF_GROUP = "memory of the control group"
REFUSALS = (2, 304, 999)  # CUDA_ERROR_OUT_OF_MEMORY, _OPERATING_SYSTEM, _UNKNOWN
NO_DEVICE, FILES = 100, "open files"  # what cuInit says too where it may open so few (measured: 18, driver 580, H100)
FREE_SHARE = 0.1  # of a GPU's memory: with less left, the GPU itself is full
# CUDA maps the whole address range of all GPUs and of the host at its start: any limit on it that a person would set is too low.
LEAST: dict[str, int] = {
    "address space": 1 << 40,
    "data size": 1 << 30,
    "processes": 64,
    FILES: 32,
    OF_GROUP: 1 << 30,
    "processes of the control group": 32,
}
# What Python's module resource calls them.
_RESOURCES = {"address space": "RLIMIT_AS", "data size": "RLIMIT_DATA", "processes": "RLIMIT_NPROC", FILES: "RLIMIT_NOFILE"}
_BYTES = ("address space", "data size", OF_GROUP)
STACK, LEAST_STACK = "stack size", 256 << 10  # measured: Numba 0.68's import overflows 120 KiB and fits into 128
CPU_TIME, LEAST_SECONDS = "CPU time", 60  # an import of a framework and its first kernel take some
PROCESSES = ("processes", "processes of the control group")
NO_MEMORY = ("cannot map zero-fill pages", "OpenBLAS error: Memory allocation still failed")  # glibc's loader, OpenBLAS
REFUSED = ("Resource temporarily unavailable", "can't start new thread")  # EAGAIN as the C library says it, and as Python does
WITHHELD = "kernel-interface-withheld"
THREADS = "clone3"
FOREIGN = "of another PID namespace"  # as sources/kernel_interface.py says it of /proc
_CODES = {"EPERM": "1", "EACCES": "13", "ENOSYS": "38"}  # of Linux, wherever a recording is read: include/uapi/asm-generic/errno.h
# The last frame of a traceback, and an error without the name of a file behind it.
_OF_SYSTEM = lazy(
    r'File "[^"\n]{1,1000}", line \d{1,7}[^\n]{0,200}\n(?P<frame>(?:(?! {2}File)[^\n]{0,400}\n){1,6}?)'
    r"(?:PermissionError|OSError): \[Errno (?P<code>\d{1,3})\] [^:\n]{1,60}\Z"
)
IOCTL = "ioctl"  # without it cuInit finds no device; other refusals do not end so
UNREADABLE, MOUNT = "file-not-readable", "mount-option-forbids"
_NOT_MAPPED = "failed to map segment"  # what glibc says on a mount with noexec


class Low(NamedTuple):
    """A limit below what CUDA needs."""

    name: str
    words: str
    line: int


def tight(limits: tuple[Limit, ...]) -> Low | None:
    """The first limit that is too low; None where none is."""
    for entry in limits:
        least = LEAST.get(entry.name)
        if least is not None and entry.value < least:
            return Low(entry.name, size(entry.value) if entry.name in _BYTES else str(entry.value), entry.line)
    return None


def _clue(first: Quote, limits: Fact[tuple[Limit, ...]], low: Low, seen: Literal["failed"] | None = "failed") -> Clue:
    values = {"limit": low.name, "amount": low.words}
    return Clue(cause=CEILING, quotes=(first, *limits.line_of(low.line)), seen=seen, values=values)


def _ended_by(facts: Facts, *signals: str) -> list[Quote]:
    """The ladder's lines about tries that one of these signals ended."""
    climb = facts[LADDER]
    crashes = [entry for entry in (climb.value.rungs if climb.value is not None else ()) if entry.status == "crash"]
    return [rung_quote(climb, entry) for entry in crashes if any(signal in (entry.why or "") for signal in signals)]


def killed(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """The ladder was killed, and in the same seconds the kernel counted a process that it killed for its control group's memory."""
    ended = _ended_by(facts, SIGKILL)
    if not ended or facts[KILLED_FOR_MEMORY_AFTER].need() <= facts[KILLED_FOR_MEMORY].need():
        return
    group = facts[CGROUP_LIMITS]
    memory = next((entry for entry in group.need() if entry.name == OF_GROUP), None)
    shown = group.line_of(memory.line) if memory is not None else ()
    values = {"limit": OF_GROUP, "amount": size(memory.value)} if memory is not None else {"limit": OF_GROUP}
    yield Clue(cause=CEILING, quotes=(ended[0], *facts[KILLED_FOR_MEMORY_AFTER].quotes[:1], *shown), seen="failed", values=values)


def out_of_time(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """The ladder was killed, and its process may use so little CPU time that it can hardly have got further."""
    ended = _ended_by(facts, SIGKILL, "SIGXCPU")
    for entry in facts[LIMITS].need() if ended else ():
        if entry.name == CPU_TIME and entry.value < LEAST_SECONDS:
            yield _clue(ended[0], facts[LIMITS], Low(CPU_TIME, f"{entry.value} s", entry.line))
            return


def overflowed(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """A step ended with a segmentation fault, as it does where the stack is full, and its process may have very little of it."""
    ended = _ended_by(facts, "SIGSEGV")
    for entry in facts.value(LIMITS) or () if ended else ():
        if entry.name == STACK and entry.value < LEAST_STACK:
            yield _clue(ended[0], facts[LIMITS], Low(STACK, size(entry.value), entry.line))
            return


def refused(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """No further process or thread could be started, and few are allowed."""
    why = {LADDER.name: facts.why_unknown(LADDER), NVML.name: facts.why_unknown(NVML)}
    said = [Quote(source=key, text=text) for key, text in why.items() if text is not None and any(words in text for words in REFUSED)]
    for fact in (facts.there(LIMITS), facts.there(CGROUP_LIMITS)) if said else ():
        low = tight(fact.need()) if fact is not None else None
        if fact is not None and low is not None and low.name in PROCESSES:
            yield _clue(said[0], fact, low)
            return


def starved(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """A kernel's step was killed or did not end, in a control group with less memory than such a program takes."""
    climb = facts[LADDER]
    steps = [entry for entry in climb.value.rungs if entry.rung in KERNELS] if climb.value is not None else []
    ended = [entry for entry in steps if entry.status == "hang" or (entry.status == "crash" and SIGKILL in (entry.why or ""))]
    group = facts[CGROUP_LIMITS] if ended else None  # not known: then it may be that
    low = tight(group.value) if group is not None and group.value is not None else None
    if group is not None and low is not None and low.name == OF_GROUP:
        yield _clue(rung_quote(climb, ended[0]), group, low)


def limited(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """CUDA's start failed as it does where the system refuses memory, threads or files, and a limit is too low for it."""
    climb = facts[LADDER]
    stopped = broken(climb.value, "init", "context", "memory")
    in_driver = [one for one in stopped if one.code in (*REFUSALS, NO_DEVICE) or one.status == "crash"]
    failed = in_driver + [one for one in broken(climb.value, "numba-kernel") if any(words in one.output for words in NO_MEMORY)]
    if not failed or _gpu_is_full(facts):
        return
    own = tight(climb.value.limits) if climb.value is not None else None
    if own is not None and (own.name == FILES or failed[0].code != NO_DEVICE):
        yield _of_interpreter(facts, rung_quote(climb, failed[0]), own)
        return
    ceilings = (fact for key in (LIMITS, CGROUP_LIMITS) for fact in (facts[key], *statements(facts, key)) if fact.value is not None)
    for found in ceilings:  # one by one: a limit that is found needs no other to be known
        low = tight(found.need())
        if low is not None and (low.name == FILES or failed[0].code != NO_DEVICE):
            yield _clue(rung_quote(climb, failed[0]), found, low, seen=None)
            return


def _of_interpreter(facts: Facts, first: Quote, low: Low) -> Clue:
    """A limit of the examined Python's process. Where the shell has a higher one, what Python runs at its start has lowered it, or what
    starts it.
    """
    values = {"limit": low.name, "amount": low.words}
    shown = [Quote(source="/proc/self/limits of the examined Python", first=low.line, last=low.line, text=f"{low.name}: {low.words}")]
    shell, python = facts.value(LIMITS), facts.value(PYTHON)
    if shell is not None and tight(shell) is None:
        hooks = python.hooks if python is not None else ()
        hook = next((hook for hook in hooks if f"{_RESOURCES.get(low.name)}," in hook.text), None)
        values.update({"own": "yes", **({"path": hook.path} if hook is not None else {})})
        shown += [spoken(hook.path, hook.line, hook.text)] if hook is not None else []
    return Clue(cause=CEILING, quotes=(first, *shown), values=values)


def _gpu_is_full(facts: Facts) -> bool:
    """Whether the memory that is missing is the GPU's own."""
    nvml = told(facts, NVML, facts[LADDER])
    for gpu in nvml.gpus if nvml is not None and nvml.code == 0 else ():
        used, total = gpu.memory_used_bytes, gpu.memory_total_bytes
        if used is not None and total and total - used < FREE_SHARE * total:
            return True
    return False


# ---------------------------------------------------------------- system calls and /proc
def withheld(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """CUDA's start failed as it does where a part of the kernel's interface is missing, and a part of it is."""
    failure = _failure(facts)
    fact = facts[KERNEL_INTERFACE] if failure is not None else None
    if failure is None or fact is None or fact.value is None:
        return
    shown, code = failure
    of_driver = [entry for entry in fact.value if entry.name not in OF_PYTHON]
    others = [entry for entry in of_driver if entry.name != THREADS]
    threads_alone = bool(of_driver) and not others
    refused = others if _few_processes(facts) or (threads_alone and _preloads(facts)) else of_driver
    names = [entry.name for entry in refused]
    if refused and (code != NO_DEVICE or IOCTL in names):
        values = {"call": ", ".join(names)}
        if names[0].startswith("/proc"):
            values["namespace" if refused[0].answer == FOREIGN else "proc"] = "yes"
        quotes = tuple(quote for entry in refused[:3] for quote in fact.line_of(entry.line))
        yield Clue(cause=WITHHELD, quotes=(shown, *quotes), from_rung="init", seen="failed", values=values)


def withheld_from_python(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """Numba's rung ended with an error of the system that names no file, and a system call in its last frame is answered so here."""
    climb = facts[LADDER]
    for result in broken(climb.value, "numba-kernel"):
        said = _OF_SYSTEM.search(result.output)
        fact = facts[KERNEL_INTERFACE] if said is not None else None
        for entry in (fact.value if fact is not None else None) or ():
            if said is not None and fact is not None and said["code"] == _CODES.get(entry.answer) and entry.name in said["frame"]:
                quotes = (rung_quote(climb, result), *fact.line_of(entry.line))
                yield Clue(cause=WITHHELD, quotes=quotes, from_rung="numba-kernel", seen="failed", values={"call": entry.name})
                return


def _failure(facts: Facts) -> tuple[Quote, int | None] | None:
    """cuInit's refusal and its code, its end by a filter, or the words of an interpreter that could start no thread."""
    silent = facts.why_unknown(LADDER)
    if silent is not None and any(words in silent for words in REFUSED):
        return Quote(source=LADDER.name, text=silent), None
    climb = facts[LADDER]
    ended = (*REFUSALS, NO_DEVICE)
    failed = [result for result in broken(climb.value, "init") if result.code in ended or FILTERED in (result.why or "")]
    return (rung_quote(climb, failed[0]), failed[0].code) if failed else None


def _few_processes(facts: Facts) -> bool:
    """Whether a limit says why no thread can be started (checks/withheld.py)."""
    low = [tight(limits) for limits in (facts.value(LIMITS), facts.value(CGROUP_LIMITS)) if limits is not None]
    return any(entry is not None and entry.name in PROCESSES for entry in low)


def _preloads(facts: Facts) -> bool:
    """Whether a library stands between programs and the C library, which may refuse a thread as well as the kernel does."""
    return bool(variables_of(facts[ENVIRONMENT]).get("LD_PRELOAD"))


# ---------------------------------------------------------------- files
def _in_the_way(facts: Facts, why: Literal["unreadable", "noexec"]) -> Iterator[tuple[Refused, Fact[Ladder], RungResult]]:
    """The places that are closed so, each with the rung that failed and needs it."""
    python = facts.value(PYTHON)
    climb = facts[LADDER] if python is not None and python.refused else facts.there(LADDER)
    if climb is None:
        return
    needed: tuple[tuple[RungName, tuple[Refused, ...]], ...] = (
        ("libcuda", climb.value.refused if climb.value is not None else ()),
        ("numba-kernel", python.refused if python is not None else ()),
    )
    for rung, places in needed:
        failed = broken(climb.value, rung)
        yield from ((place, climb, failed[0]) for place in places if failed and place.why == why)


def unreadable(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """A rung failed that needs a place which may not be read."""
    for place, climb, failed in _in_the_way(facts, "unreadable"):
        quotes = (spoken(place.path, place.line, f"{place.path}: this user may not read it"), rung_quote(climb, failed))
        yield Clue(cause=UNREADABLE, quotes=quotes, from_rung=failed.rung, values={"path": place.path})
        return


def not_executable(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """A library could not be mapped, and it lies on a mount with noexec."""
    for place, climb, failed in _in_the_way(facts, "noexec"):
        if _NOT_MAPPED in failed.output:
            quotes = (rung_quote(climb, failed), spoken(place.path, place.line, f"{place.path}: mounted with the option noexec"))
            values = {"place": place.path, "option": "noexec", "opposite": "exec"}
            yield Clue(cause=MOUNT, quotes=quotes, from_rung=failed.rung, values=values)
            return


RULES = (
    Rule("libcuda", (CEILING,), any_of(limited, killed, out_of_time, overflowed, refused, starved)),
    Rule("libcuda", (WITHHELD,), any_of(withheld, withheld_from_python)),
)
OF_FILES = (Rule("python", (UNREADABLE,), unreadable), Rule("device-nodes", (MOUNT,), not_executable))
