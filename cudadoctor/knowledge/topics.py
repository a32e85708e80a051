"""The rows of tables/topics.toml as typed values: what `cudadoctor explain` says beside the numbers of the other tables."""

from __future__ import annotations

from cudadoctor.knowledge.decoding import part_of
from cudadoctor.knowledge.quick import QuickRows
from cudadoctor.knowledge.tables import Row, Source, Table


class TopicKind(Row, frozen=True, kw_only=True):
    """A kind of thing that can be asked for. `example`: a question that leads to one."""

    id: str
    name: str
    meaning: str
    example: str
    source: Source


class Pitfall(Row, frozen=True, kw_only=True):
    """What usually goes wrong with things of these kinds. `when`: only where this condition holds of the thing."""

    topics: tuple[str, ...]
    when: str | None = None
    text: str
    causes: tuple[str, ...] = ()
    source: Source


class Advice(Row, frozen=True, kw_only=True):
    """What to do about a code that no cause stands for."""

    api: str
    when: str | None = None
    text: str
    source: Source


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

    @property
    def _topics(self) -> Topics:
        return self._table("topics", Topics)

    topics = part_of("topics", Topics, lambda table: table.topic)

    def topic(self, kind: str) -> TopicKind:
        """KeyError where there is none."""
        found = next((row for row in self.topics if row.id == kind), None)
        if found is None:
            raise KeyError(kind)
        return found

    def pitfalls(self, kind: str, conditions: frozenset[str]) -> tuple[Pitfall, ...]:
        """What goes wrong with a thing of this kind of which these conditions hold."""
        return tuple(row for row in self._topics.pitfall if kind in row.topics and (row.when is None or row.when in conditions))

    def advice(self, api: str, *, success: bool) -> str | None:
        """What to do about a code of this API that no cause stands for."""
        rows = [row for row in self._topics.advice if row.api == api and row.when in (None, "success" if success else None)]
        return min(rows, key=lambda row: row.when is None).text if rows else None
