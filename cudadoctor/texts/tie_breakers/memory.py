"""Whose memory it is, by what a text says or lists beside a failure: a user who is alone, processes that are gone, a program cut off."""

from __future__ import annotations

from collections.abc import Iterator

from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Facts
from cudadoctor.model.findings import Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.texts.tie_breakers.joining import joined, suspects
from cudadoctor.texts.tie_breakers.place import Place, place_of
from cudadoctor.texts.tie_breakers.programs import OTHERS, OWN, ZOMBIE, full_of_nobody
from cudadoctor.texts.tie_breakers.said import Said, codes, finding, lists, settled, stated, suspected

_GONE = lazy(r"^\[Not Found\]$")  # a name that may not be read is written in another way
_HELD = lazy(r"^(\d{4,7})(?: MiB)?$")  # from 1000 MiB on
_RAN_OUT = codes("cuda 2", words=r"(?i)out.of.memory")


def _on_a_host(place: Place) -> bool:
    """Whether all processes of the machine are seen: a container, WSL and Windows show none of them, or not all."""
    return not (place.container or place.in_wsl or place.said("windows") or place.said("notebook"))


def held_by_what_is_gone(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """Memory ran out, and nvidia-smi lists a process with much memory whose program it does not find any more."""
    lines = stated(said, OTHERS) or suspected(said, OTHERS, _RAN_OUT)
    if not lines or not _on_a_host(place_of(facts)):
        return
    for fact in lists(facts):
        names, sizes = fact.need().column("process_name", "name"), fact.need().column("used_gpu_memory", "used_memory")
        for name, size in zip(names or (), sizes or (), strict=False):
            if _GONE.match(name) and (held := _HELD.match(size)) is not None:
                yield finding(ZOMBIE, fact.lines_with(size)[:1], lines, memory=f"{held[1]} MiB", state="not found")
                return


def full_after_the_end(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """A program was cut off, and a table shows a GPU with much memory in use and no process at all."""
    place = place_of(facts)
    ended = place.said("cut-off")
    if not ended or settled(said) or not _on_a_host(place):
        return
    shown = full_of_nobody(facts)
    if shown is not None:
        yield finding(ZOMBIE, shown.table.line_of(shown.gpu.line), ended, basis="suspected")


TIES = (
    # Out of memory without figures, and the text says that nobody else uses the card: the program's own need comes first.
    joined(
        OWN, suspects(OWN, _RAN_OUT), beside=("alone",), unless=("held", "left-over", "nobody-listed"),
        unless_stated=(OWN, OTHERS, ZOMBIE), basis="suspected",
    ),
    held_by_what_is_gone,
    full_after_the_end,
)  # fmt: skip
