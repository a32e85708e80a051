"""Whose memory it is, by what a text says or lists beside a failure: a user who is alone, processes that are gone, a program cut off."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cudadoctor.checks.reading import Quotes
from cudadoctor.model.facts import Facts
from cudadoctor.model.findings import Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import SMI, SMI_CSV, Smi
from cudadoctor.texts.tie_breakers.place import Place
from cudadoctor.texts.tie_breakers.programs import MUCH, OTHERS, OWN, ZOMBIE
from cudadoctor.texts.tie_breakers.said import Said, codes, finding, settled, stated, suspected

if TYPE_CHECKING:
    from cudadoctor.knowledge.load import Knowledge

_GONE = lazy(r"^\[Not Found\]$")  # a name that may not be read is written in another way
_HELD = lazy(r"^(\d{4,7})(?: MiB)?$")  # from 1000 MiB on
_RAN_OUT = codes("cuda 2", words=r"(?i)out.of.memory")


def _on_a_host(place: Place) -> bool:
    """Whether all processes of the machine are seen: a container, WSL and Windows show none of them, or not all."""
    return not (place.container or place.in_wsl or place.said("windows") or place.said("notebook"))


def alone_on_the_card(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """Out of memory without figures, and the text says that nobody else uses the card: the program's own need comes first."""
    place = Place(facts)
    alone, lines = place.said("alone"), suspected(said, OWN, _RAN_OUT)
    others = place.said("held") or place.said("left-over") or place.said("nobody-listed")
    if alone and lines and not others and not stated(said, OWN, OTHERS, ZOMBIE):
        yield finding(OWN, lines, alone, basis="suspected")


def held_by_what_is_gone(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """Memory ran out, and nvidia-smi lists a process with much memory whose program it does not find any more."""
    lines = stated(said, OTHERS) or suspected(said, OTHERS, _RAN_OUT)
    if not lines or not _on_a_host(Place(facts)):
        return
    for fact in facts.all(SMI_CSV):
        table = fact.need() if fact.value is not None else None
        names = table.column("process_name", "name") if table is not None else None
        sizes = table.column("used_gpu_memory", "used_memory") if table is not None else None
        for name, size in zip(names or (), sizes or (), strict=False):
            if _GONE.match(name) and (held := _HELD.match(size)) is not None:
                yield finding(ZOMBIE, fact.lines_with(size)[:1], lines, memory=f"{held[1]} MiB", state="not found")
                return


def full_after_the_end(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """A program was cut off, and a table shows a GPU with much memory in use and no process at all."""
    place = Place(facts)
    ended = place.said("cut-off")
    if not ended or settled(said) or not _on_a_host(place):
        return
    shown = _full_of_nobody(facts)
    if shown:
        yield finding(ZOMBIE, shown, ended, basis="suspected")


def _full_of_nobody(facts: Facts) -> Quotes:
    """The row of a GPU whose memory is in use in a table whose list of processes is shown and empty."""
    for fact in facts.all(SMI):
        table = fact.value
        for gpu in table.gpus if isinstance(table, Smi) and table.process_list and not table.processes else ():
            used, total = gpu.memory_used_bytes or 0, gpu.memory_total_bytes or 0
            if total and used > MUCH * total:
                return fact.line_of(gpu.line)
    return ()


TIES = (alone_on_the_card, held_by_what_is_gone, full_after_the_end)
