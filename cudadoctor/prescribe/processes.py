"""Steps that speak of one process: whether it may be ended and by whom, and what a command compares before it ends one."""

from __future__ import annotations

import re

from cudadoctor.model.values import PROCESSES
from cudadoctor.prescribe.case import Case, Condition
from cudadoctor.prescribe.shells import Found


def _reachable(case: Case) -> bool:
    return case.pid is not None and case.process is not None and not case.process.namespaced


def _mine(case: Case) -> bool:
    return case.is_root or (case.process is not None and case.process.own is True)


def _defunct(case: Case) -> bool:
    return _reachable(case) and case.process is not None and case.process.state == "defunct"


def _service(case: Case) -> bool:
    return _reachable(case) and case.process is not None and case.process.service is True


def _may_end(case: Case) -> bool:
    return _reachable(case) and _mine(case) and not _defunct(case) and not _service(case)


def _owner_unknown(case: Case) -> bool:
    return case.process is not None and case.process.own is None and case.process.user is None


def _stopped_by_text(case: Case) -> bool:
    """Somebody stopped it (Ctrl-Z), and the text's table has no column of users: the kernel refuses whoever may not end it."""
    return _reachable(case) and _owner_unknown(case) and case.process is not None and case.process.state == "stopped"


def _of_ps(case: Case) -> bool:
    """A text's table is what is known of processes: it shows those that were asked for, and not all say when they began."""
    listed = case.get(PROCESSES)
    return listed is not None and listed.provider == "ps"


def _of_ollama(case: Case) -> bool:
    command = case.process.command if case.process is not None else None
    return re.match(r"(?:\S{0,200}/)?ollama(?: |$)", command or "") is not None


def _started(case: Case) -> float | None:
    """When it began, as the table of processes or the finding says."""
    if case.process is not None and case.process.start_time is not None:
        return case.process.start_time
    stated = (case.value("start_time") if case.value("pid") == str(case.pid) else None) or ""
    return float(stated) if re.fullmatch(r"\d{1,12}(\.\d+)?", stated) else None


CONDITIONS: dict[str, Condition] = {
    "process-known": lambda case: case.pid is not None,
    "process-may-be-ended": lambda case: _may_end(case) and _started(case) is not None,
    # There is no moment of its start that a command could compare. On the machine itself such a process is only looked at.
    "process-mine-by-text": lambda case: (_may_end(case) or _stopped_by_text(case)) and _started(case) is None and _of_ps(case),
    "process-defunct": lambda case: _defunct(case) and _mine(case),
    "process-of-other-user": lambda case: _reachable(case) and not _mine(case) and not _owner_unknown(case),
    # A list of all processes has it in another namespace, or not at all.
    "process-elsewhere": lambda case: (
        case.pid is not None and case.get(PROCESSES) is not None and not _of_ps(case) and not _reachable(case)
    ),
    "process-of-ollama": _of_ollama,
    "process-of-service": lambda case: _service(case) and _mine(case),
}


def values(case: Case) -> Found:
    if case.pid is None:
        return
    yield "pid", str(case.pid)
    process = case.process
    yield from _start("start", _started(case))
    yield "owner", (process.user if process is not None else None) or case.value("user")
    if process is not None and process.ppid is not None and process.ppid > 1:
        table = case.get(PROCESSES)
        parent = table.find(process.ppid) if table is not None else None
        yield "parent", str(process.ppid)
        yield from _start("parent_start", parent.start_time if parent is not None else None)


def _start(name: str, start: float | None) -> Found:
    """Two seconds of grace on both sides: ps and the process table round differently."""
    if start is not None and start == start and 0 < start < 10**11:
        yield f"{name}_low", str(int(start) - 2)
        yield f"{name}_high", str(int(start) + 2)
