"""The rows of tables/topics.toml as typed values: what `cudadoctor explain` says beside the numbers of the other tables."""

from __future__ import annotations

from cudadoctor.knowledge.tables import Sourced


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
