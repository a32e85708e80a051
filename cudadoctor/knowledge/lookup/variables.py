"""Environment variables: CUDA's, the container runtime's, Numba's and others'."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

from cudadoctor.knowledge.lookup.pages import facts, topic
from cudadoctor.model.explanation import Fact, Topic, Trouble

if TYPE_CHECKING:
    from cudadoctor.knowledge.load import Knowledge
    from cudadoctor.knowledge.numba_rows import NumbaEnv
    from cudadoctor.knowledge.tables import EnvVar

V = TypeVar("V", "EnvVar", "NumbaEnv")
VISIBLE = "CUDA_VISIBLE_DEVICES"


def read(name: str, knowledge: Knowledge) -> Topic | None:
    """The page of a variable, whose name may be written in any case."""
    row = _named(name, knowledge.env_vars)
    if row is not None:
        rules = knowledge.visible_devices_rules if row.name == VISIBLE else ()
        lines = facts(("concerns", row.group), ("values", row.values), ("where it is not set", row.default))
        measured = tuple(Fact(name=rule.input, value=f"{rule.effect} ({rule.certainty})") for rule in rules)
        return _page(row, knowledge, knowledge.sources_of("env_vars", (row, *rules)), (*lines, *measured))
    numba = _named(name, knowledge.numba_env)
    if numba is None:
        return None
    lines = facts(("concerns", "Numba"), ("read by", numba.applies))
    return _page(numba, knowledge, knowledge.sources_of("numba_support", (numba,)), lines)


def _named(name: str, rows: Iterable[V]) -> V | None:
    return next((row for row in rows if row.name.upper() == name.upper()), None)


def _page(row: EnvVar | NumbaEnv, knowledge: Knowledge, sources: list[str], lines: tuple[Fact, ...]) -> Topic:
    trouble = Trouble(text=row.pitfall or "Set to a value that was meant for another machine or another run.", causes=row.causes)
    return topic(
        "variable", row.name, row.name, knowledge, meaning=row.meaning, facts=lines, sources=sources,
        troubles=(trouble,) if row.pitfall or row.causes else (),
    )  # fmt: skip
