"""The formats of a report, and of many machines' picture: two explicit tables. Each is one module, imported when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from cudadoctor.model.fleet import Fleet, Node
    from cudadoctor.model.report import Report


class Format(NamedTuple):
    """`only_stdout`: it is one answer to one reader, so no file of it makes sense. `exit_code`: its readers agreed on other ones."""

    render: Callable[..., str]  # of a report, what is known, and the style
    is_json: bool = False
    only_stdout: bool = False
    exit_code: Callable[[Report], int] | None = None


def by(module: str, takes: int = 2, function: str = "render") -> Callable[..., Any]:
    """A function of a format's module, which is imported when it is called. `takes`: how many of report, knowledge and style."""

    def call(*given: Any) -> Any:
        return getattr(import_module(f"cudadoctor.report.{module}"), function)(*given[:takes])

    return call


FORMATS: dict[str, Format] = {
    "text": Format(by("text", takes=3)),
    "json": Format(by("json", takes=1), is_json=True),
    "brief": Format(by("brief"), is_json=True),
    "junit": Format(by("junit")),
    "html": Format(by("html")),
    "markdown": Format(by("markdown")),
    "github": Format(by("pipelines", function="github")),
    "gitlab": Format(by("pipelines", function="gitlab"), is_json=True),
    "prometheus": Format(by("prometheus")),
    "nagios": Format(by("monitors", function="nagios"), only_stdout=True, exit_code=by("monitors", 1, "nagios_exit_code")),
    "npd": Format(by("monitors", function="npd"), only_stdout=True, exit_code=by("monitors", 1, "npd_exit_code")),
}


class Seen(NamedTuple):
    """What a format may need. `nodes`: each once; `heat`: by figure a byte for each GPU, in percent of the usual, 255 for none."""

    fleet: Fleet
    nodes: Sequence[Node]
    heat: Callable[[], Mapping[str, bytes]]


OF_FLEETS: dict[str, Callable[..., str]] = {  # of what was seen, and what is known
    "json": lambda seen, knowledge: str(by("json")(seen.fleet)),
    "html": by("html", function="render_fleet"),
    "junit": by("junit", function="render_fleet"),
    "prometheus": by("prometheus", function="render_fleet"),
}
