"""Processes in a user's text: tables of ps with any columns, and who holds a device node by fuser -v and lsof.

The columns are those of the table's own header, or of the command that is typed above it, for people filter headers away with grep.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import PROCESSES, Process, Processes
from cudadoctor.parsers.base import Output, Text, parser
from cudadoctor.parsers.shell import root_command

State = Literal["running", "stopped", "orphaned", "defunct", "uninterruptible", "unknown"]

_LONGEST = 2000  # characters of a line of such a table
_QUOTES = 12
_HEADER = lazy(r"^\s{0,8}(?=.{0,80}\bPID\b)(?:[A-Z%][A-Z%0-9_]{0,11}\s{1,40}){1,16}(?:CMD|COMMAND|ARGS)$")
_TYPED = (
    (lazy(r"\bps -?a(?:u|xu|ux)\w{0,4}\b|\bps aux"), "USER PID %CPU %MEM VSZ RSS TTY STAT START TIME COMMAND"),
    (lazy(r"\bps -(?:ef|Af)\w{0,3}\b"), "UID PID PPID C STIME TTY TIME CMD"),
)
_FUSER = lazy(
    r"^(?:(?P<node>/dev/nvidia[\w-]{1,20}):)?\s{1,40}(?P<user>[a-z_][\w.-]{0,31})\s{1,20}(?P<pid>\d{1,8})"
    r" [cefFrmo.]{3,8}\s{1,10}(?P<command>\S.{0,80})$"
)
_LSOF = lazy(
    r"^(?P<command>\S{1,32})\s{1,20}(?P<pid>\d{1,8})\s(?:.{1,60}\s)?(?P<user>[a-z_][\w.-]{0,31})\s.{1,80}(?P<node>/dev/nvidia[\w-]{1,20})$"
)
_DATE = lazy(r"\b[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}\b")  # ps -o lstart
_USER = lazy(r"^\s{0,16}(?:\([^()\n]{1,40}\) ?)?\[?(?P<user>[\w.-]{1,64})@")
_WHO_AM_I = ("whoami", "id -un")
_LETTERS: dict[str, State] = {"T": "stopped", "t": "stopped", "Z": "defunct", "X": "defunct", "D": "uninterruptible"}


def parse(text: Text) -> Output:
    """One fact with every process that a table lists; what two tables say of one is joined."""
    found: dict[int, Process] = {}
    columns: tuple[str, ...] = ()
    node = who = asked = me = None
    for number, line in enumerate(text.plain_lines, 1):
        if len(line) > _LONGEST:
            continue
        typed = root_command(line)
        user = _USER.match(line) if typed is not None else None
        who = user["user"] if user is not None else who
        if typed is not None or not line.strip():
            columns = next((tuple(names.split()) for form, names in _TYPED if form.search(typed)), ()) if typed else ()
            node, asked = None, typed
        elif asked in _WHO_AM_I:
            me, asked = line.strip(), None
        elif _HEADER.match(line):
            columns = tuple(line.split())
        elif (held := _FUSER.match(line) or _LSOF.match(line)) is not None and (node := held["node"] or node) is not None:
            devices = (node,)
            _join(found, Process(pid=int(held["pid"]), user=held["user"], command=held["command"], devices=devices, line=number))
        elif columns and (process := _row(line, columns, number, who)) is not None:
            _join(found, process)
    found = {
        pid: msgspec.structs.replace(one, own=True) if me is not None and one.own is None and one.user == me else one
        for pid, one in found.items()
    }
    if found:
        quotes = [text.quote(process.line) for process in found.values()]
        value = Processes(processes=tuple(found.values()), provider="ps", complete=False)
        yield text.fact(PROCESSES, value, *quotes[:_QUOTES], whole=False)


def _row(line: str, columns: Sequence[str], number: int, who: str | None) -> Process | None:
    """`who`: the user of the last prompt, whose own the process may be."""
    date = _DATE.search(line) if "STARTED" in columns else None
    if date is not None:
        line = line.replace(date[0], "a-date", 1)
    elif "STARTED" in columns:  # as `ps -o start` prints it, of one word or two: what stands behind it is read as one
        columns = (*columns[: columns.index("STARTED")], "COMMAND")
    cells = line.split(None, len(columns) - 1)
    row = dict(zip(columns, cells, strict=False))
    if len(cells) < len(columns) or not row["PID"].isdecimal():
        return None
    parent = row.get("PPID", "")
    ppid = int(parent) if parent.isdecimal() and len(parent) < 9 else None
    letter = row.get("STAT", row.get("S", ""))[:1]
    state = _LETTERS.get(letter) or ("orphaned" if ppid == 1 else "running" if letter else "unknown")
    if "<defunct>" in cells[-1]:
        state = "defunct"
    user = row.get("USER", row.get("UID", row.get("EUSER", row.get("RUSER"))))
    own = True if who is not None and user == who else None
    return Process(pid=int(row["PID"]), ppid=ppid, user=user, own=own, state=state, command=cells[-1], line=number)


def _join(found: dict[int, Process], process: Process) -> None:
    """ps knows parent and state, fuser and lsof what is held."""
    before = found.get(process.pid, process)
    newer = process if process.state != "unknown" else before
    found[process.pid] = msgspec.structs.replace(
        newer,
        ppid=process.ppid if process.ppid is not None else before.ppid,
        user=process.user or before.user,
        devices=tuple(dict.fromkeys((*before.devices, *process.devices))),
    )


PARSER = parser("process_table", parse, PROCESSES, wakes=("PID ", "ps -ef", "ps aux", "ps -aux", "ps -Af", "F...", "/dev/nvidia"))
