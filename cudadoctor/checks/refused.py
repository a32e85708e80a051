"""What the kernel keeps from programs here: files that this user may not read, and libraries on a mount that loads none (noexec)."""

from __future__ import annotations

from collections.abc import Iterator

from cudadoctor.checks.base import Rule
from cudadoctor.checks.common import broken, rung_quote, spoken
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Facts
from cudadoctor.model.findings import Clue
from cudadoctor.model.values import LADDER, PYTHON, Refused, RungName

UNREADABLE, MOUNT = "file-not-readable", "mount-option-forbids"
_NOT_MAPPED = "failed to map segment"  # what glibc says on a mount with noexec


def unreadable(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """A rung failed that needs a place which may not be read."""
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
        for place in places if failed else ():
            if place.why == "unreadable":
                quotes = (spoken(place.path, place.line, f"{place.path}: this user may not read it"), rung_quote(climb, failed[0]))
                yield Clue(cause=UNREADABLE, quotes=quotes, from_rung=rung, values={"path": place.path})
                return


def not_executable(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """A library could not be mapped, and it lies on a mount with noexec."""
    python = facts.value(PYTHON)
    if python is None or not python.refused:
        return
    climb = facts[LADDER]
    failed = [result for result in broken(climb.value, "numba-kernel") if _NOT_MAPPED in (result.output or "")]
    for place in python.refused if failed else ():
        if place.why == "noexec":
            quotes = (rung_quote(climb, failed[0]), spoken(place.path, place.line, f"{place.path}: mounted with the option noexec"))
            values = {"place": place.path, "option": "noexec", "opposite": "exec"}
            yield Clue(cause=MOUNT, quotes=quotes, from_rung="numba-kernel", values=values)
            return


RULES = (Rule("python", (UNREADABLE,), unreadable), Rule("device-nodes", (MOUNT,), not_executable))
