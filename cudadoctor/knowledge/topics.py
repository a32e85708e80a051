"""The rows of tables/topics.toml as typed values: what `cudadoctor explain` says beside the numbers of the other tables."""

from __future__ import annotations

from cudadoctor.knowledge.decoding import part_of
from cudadoctor.knowledge.quick import QuickRows
from cudadoctor.knowledge.tables import Sourced, Table


class TopicKind(Sourced, frozen=True, kw_only=True):
    """A kind of thing that can be asked for. `example`: a question that leads to one."""

    id: str
    name: str
    meaning: str
    example: str


class Pitfall(Sourced, frozen=True, kw_only=True):
    """What usually goes wrong with things of these kinds. `when`: only where this condition holds of the thing."""

    topics: tuple[str, ...]
    when: str | None = None
    text: str
    causes: tuple[str, ...] = ()


class Advice(Sourced, frozen=True, kw_only=True):
    """What to do about a code that no cause stands for."""

    api: str
    when: str | None = None
    text: str


class Topics(Table, frozen=True, kw_only=True):
    topic: tuple[TopicKind, ...]
    pitfall: tuple[Pitfall, ...]
    advice: tuple[Advice, ...]


class TopicTables(QuickRows):
    """The part of Knowledge that reads them."""

    def causes_naming(self, cause_id: str) -> tuple[str, ...]:
        """The ids of other causes in whose files this one is named; no file is decoded for it."""
        named = (file for file, text in self._texts.items() if file.startswith("causes/") and f'"{cause_id}"' in text)
        return tuple(name for file in named if (name := file.removeprefix("causes/").removesuffix(".toml")) != cause_id)

    topics = part_of("topics", Topics, lambda table: table.topic)
    _pitfalls = part_of("topics", Topics, lambda table: table.pitfall)
    _advice = part_of("topics", Topics, lambda table: table.advice)

    def topic(self, kind: str) -> TopicKind:
        """KeyError where there is none."""
        return {row.id: row for row in self.topics}[kind]

    def pitfalls(self, kind: str, conditions: frozenset[str]) -> tuple[Pitfall, ...]:
        """What goes wrong with a thing of this kind of which these conditions hold."""
        return tuple(row for row in self._pitfalls if kind in row.topics and (row.when is None or row.when in conditions))

    def advice(self, api: str, *, success: bool) -> str | None:
        """What to do about a code of this API that no cause stands for."""
        rows = [row for row in self._advice if row.api == api and row.when in (None, "success" if success else None)]
        return min(rows, key=lambda row: row.when is None).text if rows else None
