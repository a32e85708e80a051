"""What the worker ladder.py wrote: how far the climb from libcuda to a Numba kernel came, and on which rung it broke.

A rung that began and did not end is itself an answer: the process crashed there, or hung.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from cudadoctor.model.facts import Quote
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import (
    LADDER,
    Changed,
    CudaDevice,
    GpuLoad,
    Guest,
    InstalledFile,
    Ladder,
    LessonResult,
    Measurement,
    NumbaState,
    Opening,
    Refused,
    RungResult,
    SmokeStep,
    Sustained,
    Value,
)
from cudadoctor.model.values.ladder import REPLACING, left_out
from cudadoctor.parsers import limits
from cudadoctor.parsers.base import Output, Text, parser
from cudadoctor.parsers.json_lines import Record, build, ending, every, nothing_read, records, said, stderr_of_crash

OUTPUT_TAIL = 4000  # characters of stderr kept as a crashed rung's output
LIFE_LIMIT_EXIT = 124  # the worker ended itself at the limit it was given
HANGING = ("timed-out", "abandoned")
TITLES = {
    "libcuda": ("libcuda", "dlopen"), "init": ("libcuda (cuInit)", "cuInit"), "devices": ("libcuda (device count)", "cuDeviceGetCount"),
    "context": ("libcuda (context)", "context"), "memory": ("libcuda (memory)", "memory"), "ptx-kernel": ("PTX kernel", "PTX kernel"),
    "numba-kernel": ("Numba kernel", "Numba kernel"),
}  # fmt: skip
_LOADER = ("LD_LIBRARY_PATH", "LD_PRELOAD")
# Variables that lead a rung to its libraries.
_LEADS_TO = {"libcuda": _LOADER, "numba-kernel": (*_LOADER, "CUDA_HOME", "CUDA_PATH", "NUMBAPRO_NVVM", "NUMBAPRO_LIBDEVICE", "PYTHONPATH")}
_LISTS: dict[str, tuple[type[Value], str]] = {
    "openings": (Opening, "opening"), "refused": (Refused, "refused"), "changed": (Changed, "changed"),
    "installed": (InstalledFile, "installed"), "smoke": (SmokeStep, "smoke"), "benchmark": (Measurement, "benchmark"),
    "guests": (Guest, "guest"), "loads": (GpuLoad, "load"), "sustained": (Sustained, "sustained"), "lessons": (LessonResult, "lesson"),
}  # fmt: skip
_OF_START = ("python", "quick", "given", "preloaded", "withheld", "replaced", "beside")
_VARIABLE = lazy(r"[A-Za-z_]\w{0,100}", re.ASCII)
_STEPS = ("begin", "end", "done")  # events
ERROR_MARKS = ("Error", "error", "ERROR")


# ---------------------------------------------------------------- quotes
def telling_line(output: str) -> str:
    """The line of a failing rung's output that says most: the last one that names an error, else the last."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    named = [line for line in lines if any(mark in line for mark in ERROR_MARKS)]
    return (named or lines or [""])[-1]


def _quote_rung(result: RungResult) -> Quote:
    """`cuInit: 100 CUDA_ERROR_NO_DEVICE`, or what the rung printed."""
    title, function = TITLES.get(result.rung, (result.rung, result.rung))
    where = f" on GPU {result.gpu}" if result.gpu is not None else ""
    if result.code is not None and result.status != "pass":
        words = f"{result.code} {result.name or ''}"
    elif result.status == "pass":
        words = "passed"
    elif result.status == "skip":
        words = f"not run: {result.why or 'no reason given'}"
    elif result.status in ("crash", "hang"):
        words = f"{result.status}, {result.why}" + (f": {telling_line(result.output)}" if result.output else "")
    else:
        words = telling_line(result.output) or result.why or "failed"
    return said(title, result.line or None, f"{function}{where}: {words}")


def spoken_line(record: Record) -> Quote | None:
    fields = record.fields
    if record.event == "opening":
        return said(str(fields.get("path")), record.line, f"open {fields.get('path')}: {fields.get('errno_name') or 'opened'}")
    if record.event == "smoke" and fields.get("status") == "fail":
        why = telling_line(str(fields.get("why") or "failed"))
        return said("smoke test", record.line, f"GPU {fields.get('gpu')}: {fields.get('step')}: {why}")
    if record.event == "numba":
        kind = "its simulator" if fields.get("simulator") is True else str(fields.get("implementation") or "unknown target")
        return said("Numba", record.line, f"Numba {fields.get('version')}, {kind}")
    if record.event == "guest":
        pids = ", ".join(str(pid) for pid in fields.get("pids") or ()) or "not shown"
        words = f"GPU {fields.get('gpu')}: computed on by PID {pids}, at work {fields.get('percent')} % of the time"
        return said("NVML", record.line, words)
    if record.event == "error":
        return said("ladder", record.line, f"{fields.get('step')}: {fields.get('error')}")
    return None


# ---------------------------------------------------------------- the steps
def last_of(entries: Iterable[Record], *events: str) -> Record | None:
    return next((entry for entry in reversed(list(entries)) if entry.event in events), None)


def _open_begin(entries: Iterable[Record]) -> Record | None:
    """The step that had begun when the worker fell silent. One that is followed by other steps lost its end on the way."""
    last = last_of(entries, *_STEPS)
    return last if last is not None and last.event == "begin" else None


def open_step(stdout: str) -> str | None:
    """The name of the step that had begun and did not end."""
    begin = _open_begin(records(stdout))
    step = begin.fields.get("step") if begin is not None else None
    return step if isinstance(step, str) else None


def unfinished(text: Text, entries: list[Record]) -> RungResult | None:
    """The rung at which the process crashed or hung."""
    begin, item = _open_begin(entries), text.item
    if begin is None or (item is not None and item.status == "ok" and item.dropped_bytes > 0):
        return None
    hung = item is not None and (item.status in HANGING or item.exit == LIFE_LIMIT_EXIT)
    fields = {"rung": begin.fields.get("step"), "gpu": begin.fields.get("gpu")}
    why, output = ending(text), stderr_of_crash(text, OUTPUT_TAIL)
    seconds = item.seconds if item is not None and hung else None
    return build(RungResult, fields, status="hang" if hung else "crash", why=why, output=output, seconds=seconds, line=begin.line)


def ended_between(text: Text, entries: list[Record]) -> RungResult | None:
    """A climb that a signal ended between two rungs, or while it measured: the rung that was next did not begin."""
    last, item = last_of(entries, *_STEPS), text.item
    if last is None or last.event != "end" or last.fields.get("status") != "pass":
        return None
    if item is None or not item.signal or item.status in HANGING or item.dropped_bytes:
        return None
    following = dict(zip(TITLES, list(TITLES)[1:], strict=False)).get(str(last.fields.get("step")))
    fields = {"rung": following, "gpu": last.fields.get("gpu")}
    return build(RungResult, fields, status="crash", why=f"{ending(text)} before it began") if following else None


def rungs_of(entries: list[Record]) -> list[RungResult]:
    ends = (entry for entry in entries if entry.event == "end" and entry.fields.get("status") in ("pass", "fail", "skip"))
    made = (build(RungResult, {**entry.fields, "rung": entry.fields.get("step")}, line=entry.line) for entry in ends)
    return [result for result in made if result is not None]


def _devices(entries: list[Record]) -> tuple[CudaDevice, ...]:
    """The visible devices, with the free memory that the context rung saw."""
    ends = [entry.fields for entry in reversed(entries) if entry.event == "end"]
    seen = ((fields.get("gpu"), fields.get("memory_free_bytes")) for fields in ends)
    free = {gpu: memory for gpu, memory in seen if isinstance(gpu, int) and isinstance(memory, int)}  # the first of each
    listed = next((found for fields in ends if fields.get("step") == "devices" and isinstance(found := fields.get("devices"), list)), [])
    devices = (build(CudaDevice, fields) for fields in listed if isinstance(fields, dict))
    found = {device.index: device for device in devices if device is not None}
    return tuple(
        msgspec.structs.replace(device, memory_free_bytes=free.get(index, device.memory_free_bytes)) for index, device in found.items()
    )


def lists_of(entries: list[Record]) -> dict[str, tuple[Value, ...]]:
    """The lists of a Ladder that an event fills, one value a line."""
    return {name: every(kind, event, entries) for name, (kind, event) in _LISTS.items()}


def _heading(entries: list[Record]) -> dict[str, Any]:
    """Fields of the whole climb, from the lines that carry them."""
    fields: dict[str, Any] = {}
    for entry in entries:
        step = entry.fields.get("step") if entry.event == "end" else None
        if entry.event == "start":
            fields |= {name: entry.fields.get(name) for name in _OF_START}
            fields |= {name: _names_of_variables(fields[name]) for name in ("withheld", "replaced")}
        elif step == "libcuda":
            # The version in its file's name. On WSL and Jetson that is libcuda.so.1.1, whatever the driver: NVML knows it there.
            named = entry.fields.get("library")
            driver = None if isinstance(named, str) and not named.partition(".")[0][2:] else named
            fields.update(library_path=entry.fields.get("path"), library=driver)
        elif step == "devices":
            fields.update(cuda=entry.fields.get("cuda"))
    return fields


def _names_of_variables(said: object) -> list[str]:
    """What a recording may say is typed by its reader."""
    return [name for name in said if isinstance(name, str) and _VARIABLE.fullmatch(name)] if isinstance(said, list) else []


def _not_the_users(result: RungResult, heading: dict[str, Any]) -> RungResult:
    """A failure without places in which the user's program finds its libraries says nothing of that program; nor does success, where it
    loads another library of the driver's."""
    withheld, replaced = (heading.get(kind, ()) for kind in ("withheld", "replaced"))
    why = None
    if result.status != "pass":
        why = left_out(withheld, _LEADS_TO.get(result.rung, ()))
    elif result.rung == "numba-kernel" and replaced:
        why = f"it ran, and {replaced[0]} makes other programs load {REPLACING}"
    return result if why is None else msgspec.structs.replace(result, status="skip", why=why)


def parse(text: Text) -> Output:
    """Facts of one climb."""
    entries = list(records(text))
    if not any(entry.event in ("start", "begin", "end") for entry in entries):
        yield from nothing_read(text, "the ladder", LADDER)
        return
    rungs = rungs_of(entries)
    broken_off = unfinished(text, entries) or ended_between(text, entries)
    if broken_off is not None:
        rungs.append(broken_off)
    heading = _heading(entries)
    rungs = [_not_the_users(result, heading) for result in rungs]
    states = every(NumbaState, "numba", entries)  # said when Numba was imported, and again with its components
    ladder = build(
        Ladder,
        heading,
        rungs=tuple(rungs),
        devices=_devices(entries),
        limits=tuple(limit for entry in entries if entry.event == "limits" for limit in limits.of_proc(str(entry.fields.get("text")))),
        numba=states[-1] if states else None,
        **lists_of(entries),
    )
    quotes = [_quote_rung(result) for result in rungs]
    spoken = [entry for entry in entries if entry.event != "numba" or (states and entry.line == states[-1].line)]
    quotes += [quote for quote in map(spoken_line, spoken) if quote is not None]
    if not quotes:
        quotes.append(said("ladder", 1, "started, and no step began"))
    whole = text.whole and not any(entry.event == "error" for entry in entries)
    yield text.fact(LADDER, ladder, *quotes, whole=whole)


def merge(ladder: Ladder, own: Ladder) -> Ladder:
    """The climb of the examined interpreter, its Numba rung taken from the doctor's own Python if there was no Numba to climb with."""
    skipped = ladder.result("numba-kernel")
    no_numba = bool(skipped) and all(entry.status == "skip" and "numba" in (entry.why or "").lower() for entry in skipped)
    climbed = own.result("numba-kernel")
    if not no_numba or not climbed:
        return ladder
    state = own.numba
    if state is not None and state.python is None:
        state = msgspec.structs.replace(state, python=own.python)
    others = tuple(entry for entry in ladder.rungs if entry.rung != "numba-kernel")
    return msgspec.structs.replace(ladder, rungs=others + climbed, numba=state, smoke=own.smoke or ladder.smoke)


PARSER = parser("worker_ladder", parse, LADDER, reads=("ladder", "ladder-own"))
