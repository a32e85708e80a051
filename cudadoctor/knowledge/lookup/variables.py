"""Environment variables: CUDA's, the container runtime's, Numba's and others'."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudadoctor.knowledge.lookup.pages import facts, topic
from cudadoctor.model.explanation import Fact, Topic, Trouble

if TYPE_CHECKING:
    from cudadoctor.knowledge.load import Knowledge
    from cudadoctor.knowledge.numba_rows import NumbaEnv
    from cudadoctor.knowledge.tables import EnvVar

VISIBLE = "CUDA_VISIBLE_DEVICES"


def read(name: str, knowledge: Knowledge) -> Topic | None:
    """The page of a variable, whose name may be written in any case."""
    upper = name.upper()
    row = next((row for row in knowledge.env_vars if row.name.upper() == upper), None)
    if row is not None:
        return _general(row, knowledge)
    numba = next((row for row in knowledge.numba_env if row.name.upper() == upper), None)
    return None if numba is None else _of_numba(numba, knowledge)


def names(knowledge: Knowledge) -> list[str]:
    return [*(row.name for row in knowledge.env_vars), *(row.name for row in knowledge.numba_env)]


def _general(row: EnvVar, knowledge: Knowledge) -> Topic:
    rules = knowledge.visible_devices_rules if row.name == VISIBLE else ()
    lines = facts(("concerns", row.group), ("values", row.values), ("where it is not set", row.default))
    measured = tuple(Fact(name=rule.input, value=f"{rule.effect} ({rule.certainty})") for rule in rules)
    return _page(row, knowledge, knowledge.sources_of("env_vars", (row, *rules)), (*lines, *measured))


def _of_numba(row: NumbaEnv, knowledge: Knowledge) -> Topic:
    return _page(row, knowledge, knowledge.sources("numba_support", row.source), facts(("concerns", "Numba"), ("read by", row.applies)))


def _page(row: EnvVar | NumbaEnv, knowledge: Knowledge, sources: tuple[str, ...] | list[str], lines: tuple[Fact, ...]) -> Topic:
    troubles = (Trouble(text=row.pitfall or "Set to a value that was meant for another machine or another run.", causes=row.causes),)
    return topic(
        "variable",
        row.name,
        row.name,
        knowledge,
        meaning=row.meaning,
        facts=lines,
        sources=sources,
        troubles=troubles if row.pitfall or row.causes else (),
    )
