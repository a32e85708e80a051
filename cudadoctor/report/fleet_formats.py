"""The formats of many machines' picture: one table, as formats.py has it for one machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from cudadoctor.report.formats import by

if TYPE_CHECKING:
    from cudadoctor.knowledge.load import Knowledge
    from cudadoctor.model.fleet import Fleet, Node


class Seen(NamedTuple):
    """What a format may need. `nodes`: each once; `heat`: by figure a byte for each GPU, in percent of the usual, 255 for none."""

    fleet: Fleet
    nodes: Sequence[Node]
    heat: Callable[[], Mapping[str, bytes]]


FORMATS: dict[str, Callable[[Seen, Knowledge], str]] = {
    "json": lambda seen, knowledge: str(by("json")(seen.fleet)),
    "html": by("fleet_html"),
    "junit": by("fleet_junit"),
    "prometheus": by("fleet_prometheus"),
}
