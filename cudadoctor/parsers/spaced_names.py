"""Variables whose name was given a blank: `SET NAME = 1` in cmd makes one that is called "NAME ", which no program reads.

In an environment such a name stands as it is. In a pasted text it is the command that would make it (cmd), or that fails (export). An
assignment in PowerShell or in a program's own language may have blanks, so only these two commands are read.
"""

from __future__ import annotations

from collections.abc import Iterator

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import SPACED_NAMES, SpacedName
from cudadoctor.parsers.base import Output, Parser, Text
from cudadoctor.parsers.shell import root_command

_HELD = lazy(r"^(?P<before>[ \t]{0,8})(?P<name>[A-Za-z_][A-Za-z0-9_]{0,200})(?P<after>[ \t]{0,8})=")
_TYPED = lazy(r"^(?P<command>[sS][eE][tT]|export)[ \t]{1,8}\"?(?P<name>[A-Za-z_][A-Za-z0-9_]{0,80})[ \t]{1,8}=(?![=~])")
_CMD = lazy(r"^[A-Za-z]:\\[^>|]{0,200}>")  # cmd's prompt, which has no blank behind it
_MOST = 20


def parse(text: Text) -> Output:
    """One fact with all such names. That an environment has none is said too."""
    found = tuple(_typed(text) if text.pasted else _held(text))[:_MOST]
    if found:
        yield text.fact(SPACED_NAMES, found, *(text.quote(entry.line) for entry in found))
    elif not text.pasted:
        yield text.fact(SPACED_NAMES, None, text.absent("no variable has a blank in its name"))


def _held(text: Text) -> Iterator[SpacedName]:
    for number, line in enumerate(text.lines, 1):
        found = _HELD.match(line) if "=" in line else None
        if found is not None and (found["before"] or found["after"]):
            yield SpacedName(name=found["name"], command=None, line=number)


def _typed(text: Text) -> Iterator[SpacedName]:
    for number, line in enumerate(text.plain_lines, 1):
        if "=" not in line:
            continue
        typed = root_command(line)
        found = _TYPED.match(_CMD.sub("", typed if typed is not None else line).strip())
        if found is not None:
            yield SpacedName(name=found["name"], command=found["command"].lower(), line=number)


PARSER = Parser(
    name="spaced_names",
    reads=("environment",),
    keys=(SPACED_NAMES.name,),
    parse=parse,
    wakes=("NUMBA_", "CUDA_", "NVIDIA_", "LD_LIBRARY_PATH", "TORCH_", "XLA_", "NCCL_"),
)
