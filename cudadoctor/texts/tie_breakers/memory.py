"""Whose memory it is, by what a text says or lists beside a failure: a user who is alone, processes that are gone, a program cut off."""

from __future__ import annotations

from collections.abc import Iterator

from cudadoctor.model.findings import Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.texts.tie_breakers.case import Case, codes, finding, joined, suspects
from cudadoctor.texts.tie_breakers.programs import OTHERS, OWN, ZOMBIE, full_of_nobody

_GONE = lazy(r"^\[Not Found\]$")  # a name that may not be read is written in another way
_HELD = lazy(r"^(\d{4,7})(?: MiB)?$")  # from 1000 MiB on
_RAN_OUT = codes("cuda 2", words=r"(?i)out.of.memory")


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
        OWN, suspects(OWN, words=_RAN_OUT), beside=("alone",), unless=("held", "left-over", "nobody-listed"),
        unless_stated=(OWN, OTHERS, ZOMBIE), basis="suspected",
    ),
    held_by_what_is_gone,
    full_after_the_end,
)  # fmt: skip
