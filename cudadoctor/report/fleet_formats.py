"""The formats of many machines' picture: one table, as formats.py has it for one machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from cudadoctor.knowledge.load import Knowledge
    from cudadoctor.model.fleet import Fleet, Node


class Seen(NamedTuple):
    """What a format may need. `nodes`: each once; `heat`: by figure a byte for each GPU, in percent of the usual, 255 for none."""

    fleet: Fleet
    nodes: Sequence[Node]
    heat: Callable[[], Mapping[str, bytes]]


Render = Callable[[Seen, "Knowledge"], str]


def _json(seen: Seen, knowledge: Knowledge) -> str:
    from cudadoctor.report import json

    return json.render(seen.fleet)


def _module(name: str) -> Render:
    def render(seen: Seen, knowledge: Knowledge) -> str:
        return str(import_module(f"cudadoctor.report.{name}").render(seen, knowledge))

    return render


FORMATS: dict[str, Render] = {
    "json": _json,
    "html": _module("fleet_html"),
    "junit": _module("fleet_junit"),
    "prometheus": _module("fleet_prometheus"),
}
