"""Limits of the process: /proc/self/limits, `ulimit -a`, a limit that a user typed, and the control group's memory.max and pids.max.

In a user's text also those of a systemd unit, of a container's start, and what a shell answers about one limit.

Only finite limits are kept. The soft limit counts: it is the one that the kernel applies.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from cudadoctor.model.facts import Key
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import CGROUP_LIMITS, KILLED_FOR_MEMORY, KILLED_FOR_MEMORY_AFTER, LIMITS, Limit
from cudadoctor.parsers.base import Output, Parser, Text, parser

# What a limit is called: here, by a shell's flag, by systemd and by the engines; /proc says it in small letters.
_NAMES = {
    spelling: name
    for name, flag, short in (
        ("address space", "v", "as"),
        ("locked memory", "l", "memlock"),
        ("processes", "u", "nproc"),
        ("open files", "n", "nofile"),
        ("CPU time", "t", "cpu"),
        ("data size", "d", "data"),
        ("stack size", "s", "stack"),
    )
    for spelling in (name.lower(), flag, short, short.upper())
}
_NAMES |= {**dict.fromkeys(("h_vmem", "s_vmem", "vmem"), "address space"), "pids": "processes of the control group"}
_BYTES = ("address space", "data size", "locked memory", "stack size")  # which a shell counts in kbytes
_AMOUNT = r"(?P<value>\d{1,20}|unlimited)"
_PROC = lazy(rf"^\s{{0,16}}Max (?P<name>[a-z ]{{4,24}}?)\s{{2,30}}{_AMOUNT}\s{{1,30}}(?:\d{{1,20}}|unlimited)\b")
_SHELL = lazy(rf"^\s{{0,16}}[a-z][a-z ]{{4,40}}?\s{{1,40}}\((?:(?P<unit>[a-z0-9-]{{3,12}}), )?-(?P<name>[a-zA-Z])\) {_AMOUNT}\s*$")
_ZSH = lazy(rf"^\s{{0,16}}-(?P<name>[a-zA-Z]): [a-z][a-z ]{{3,40}}?(?: \((?P<unit>[a-z0-9-]{{3,12}})\))?\s{{1,40}}{_AMOUNT}\s*$")
_TYPED = lazy(rf"\bulimit (?:-[SH]{{1,2}} ?)?-?[SH]{{0,2}}(?P<name>[vluntds]) {_AMOUNT}\b")
_BATCH = lazy(r"\b(?P<name>h_vmem|s_vmem|vmem)=(?P<value>\d{1,8})(?P<unit>[kKmMgG])?[bB]?\b")
_UNIT_FILE = lazy(r"\bLimit(?P<name>AS|MEMLOCK|NPROC|NOFILE|CPU|DATA|STACK)=(?:(?P<value>\d{1,20})(?P<unit>[KMGT])?|infinity)(?![\d:])")
_PIDS = lazy(r"--(?P<name>pids)-limit[= ](?:0{1,9}\b|(?P<value>\d{1,9})\b)")
_ENGINE = lazy(r"--ulimit[= ][\"']?(?P<name>as|memlock|nproc|nofile|cpu|data|stack)=(?P<value>\d{1,20})\b")
# Each with a word of its lines. Without a value there is no limit.
_OUTPUT = (("Max ", _PROC), ("-", _SHELL), ("-", _ZSH))
_OF_PASTE = (*_OUTPUT, ("ulimit", _TYPED), ("_vmem=", _BATCH), ("Limit", _UNIT_FILE), ("--pids-limit", _PIDS), ("--ulimit", _ENGINE))
_REFUSED = ": cannot modify limit: "  # a shell, below the command that asks for another one
# A question and its answer on the next line. With several files each gives a line, in their order.
_ASKS_FLAG = lazy(r"^ulimit -[SH]?(?P<flag>[vluntds])$")
_ASKS_FILES = lazy(r"^(?:sudo )?cat (?P<files>/sys/fs/cgroup/\S{1,200}(?: /sys/fs/cgroup/\S{1,200}){0,8})$")
_OF_FILES = {
    "memory.max": "memory of the control group",
    "memory.limit_in_bytes": "memory of the control group",
    "pids.max": "processes of the control group",
}
_USUAL = {"stack size": 8 << 20}  # bytes that every process has, which nobody calls a limit
_NO_LIMIT = 1 << 60  # bytes: version 1 of control groups writes a number near 2**63 where there is none
_UNITS = {"kbytes": 1 << 10, "kb": 1 << 10, "k": 1 << 10, "mbytes": 1 << 20, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "blocks": 512}


def parse(text: Text) -> Output:
    """One fact with the finite limits. The last statement about a limit counts."""
    said = zip(text.plain_lines, (*text.plain_lines[1:], ""), strict=True)
    shown = ((number, line) for number, (line, below) in enumerate(said, 1) if len(line) <= 400 and _REFUSED not in below)
    lines = ((number, _entry(line, typed=text.pasted)) for number, line in shown)
    stated = [(number, *entry) for number, entry in lines if entry is not None]
    found: dict[str, Limit] = {}
    for number, name, value in sorted((*stated, *_answers(text)), key=lambda entry: entry[0]):
        found.pop(name, None)
        if value is not None:
            found[name] = Limit(name=name, value=value, line=number)
    if found or (stated and text.whole):
        none = text.absent(f"{text.source}: no limit on memory, processes or files")
        quotes = [text.quote(entry.line) for entry in found.values()] or [none]
        yield text.fact(LIMITS, tuple(found.values()), *quotes)


def of_proc(text: str) -> Iterator[Limit]:
    """Those in /proc/PID/limits."""
    for number, line in enumerate(text.split("\n"), 1):
        name, value = _entry(line, typed=False) or ("", None)
        if value is not None:
            yield Limit(name=name, value=value, line=number)


def _entry(line: str, *, typed: bool) -> tuple[str, int | None] | None:
    """The limit that a line states; None as its value: there is no limit."""
    for hint, form in _OF_PASTE if typed else _OUTPUT:
        found = form.search(line) if hint in line else None
        if found is None or (form is _TYPED and found["value"] == "unlimited" and line[: found.start()].endswith("(")):
            continue  # no such line, or what is lifted for a subshell alone
        name, value = _NAMES.get(found["name"].strip()), found["value"] or ""
        unit = "kbytes" if form is _TYPED and name in _BYTES else (found.groupdict().get("unit") or "").lower()
        amount = int(value) * _UNITS.get(unit, 1) if value.isdecimal() else None
        return None if name is None else (name, amount if amount is None or amount < _USUAL.get(name, _NO_LIMIT) else None)
    return None


def _answers(text: Text) -> Iterator[tuple[int, str, int | None]]:
    """What the lines below a typed question say of a limit, with the question's line: `ulimit -v`, `cat /sys/fs/cgroup/pids.max`."""
    for number, asked, below in (*text.asked("ulimit -", _ASKS_FLAG), *text.asked("cat /sys/", _ASKS_FILES)):
        told = asked.groupdict()
        names = [_NAMES[told["flag"]]] if "flag" in told else [_OF_FILES.get(path.rpartition("/")[2]) for path in told["files"].split()]
        unit = 1 << 10 if "flag" in told and names[0] in _BYTES else 1
        for name, answer in zip(names, map(str.strip, below), strict=False):
            if not answer.isdecimal() and answer not in ("max", "unlimited"):
                break
            if name is not None and len(answer) <= 20:
                yield number, name, int(answer) * unit if answer.isdecimal() else None


def parse_group(text: Text) -> Output:
    """The tightest limit of each kind among this control group and those around it, and the kills in all of them."""
    yield from _kills(text, KILLED_FOR_MEMORY)
    tightest: dict[str, Limit] = {}
    for number, line in enumerate(text.lines, 1):
        path, _, value = line.rpartition(":")
        name = _OF_FILES.get(path.rpartition("/")[2])
        limit = int(value) if value.isdecimal() and len(value) <= 20 else _NO_LIMIT
        if name is not None and limit < (tightest[name].value if name in tightest else _NO_LIMIT):
            tightest[name] = Limit(name=name, value=limit, line=number)
    quotes = [text.quote(entry.line) for entry in tightest.values()] or [text.absent(f"{text.source}: no limit on memory or processes")]
    yield text.fact(CGROUP_LIMITS, tuple(tightest.values()), *quotes)


def _kills(text: Text, key: Key[int]) -> Output:
    counted = [(number, line.rpartition("oom_kill ")[2]) for number, line in enumerate(text.lines, 1) if ":oom_kill " in line]
    kills = [(int(value), number) for number, value in counted if value.isdecimal() and len(value) < 20]
    if kills:
        most = max(kills, key=lambda kill: kill[0])  # a group counts the kills in the groups within it
        yield text.fact(key, most[0], text.quote(most[1]))


_kills_after = partial(_kills, key=KILLED_FOR_MEMORY_AFTER)  # once the ladder has ended
_WAKES = (
    "ulimit", "Max address space", "virtual memory ", "_vmem=", "address space (", "LimitAS=", "LimitMEMLOCK=", "LimitNPROC=",
    "LimitNOFILE=", "LimitCPU=", "LimitDATA=", "LimitSTACK=", "--pids-limit", "/sys/fs/cgroup/",
)  # fmt: skip
PARSERS = (
    parser("limits", parse, LIMITS, reads=("limits",), wakes=_WAKES),
    Parser(
        name="control_group",
        reads=("control-group",),
        keys=(CGROUP_LIMITS.name, KILLED_FOR_MEMORY.name),
        parse=parse_group,
        absent=(CGROUP_LIMITS.name,),
    ),
    parser("control_group_after", _kills_after, KILLED_FOR_MEMORY_AFTER, reads=("control-group-after",)),
)
