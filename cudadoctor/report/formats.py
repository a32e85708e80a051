"""The formats of a report: one explicit table. Each is one module with `render`; it is imported when its format is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from cudadoctor.knowledge.load import Knowledge
    from cudadoctor.model.report import Report
    from cudadoctor.report.page import Style

Render = Callable[["Report", "Knowledge", "Style"], str]


class Format(NamedTuple):
    """`only_stdout`: it is one answer to one reader, so no file of it makes sense. `exit_code`: its readers agreed on other ones."""

    render: Render
    is_json: bool = False
    only_stdout: bool = False
    exit_code: Callable[[Report], int] | None = None


def _text(report: Report, knowledge: Knowledge, style: Style) -> str:
    from cudadoctor.report import text

    return text.render(report, knowledge, style)


def _json(report: Report, knowledge: Knowledge, style: Style) -> str:
    from cudadoctor.report import json

    return json.render(report)


def _machine(name: str) -> Render:
    """A format for programs: it looks the same wherever it is written, so its module needs no style."""

    def render(report: Report, knowledge: Knowledge, style: Style) -> str:
        from importlib import import_module

        return str(import_module(f"cudadoctor.report.{name}").render(report, knowledge))

    return render


def _nagios_exit(report: Report) -> int:
    from cudadoctor.report import nagios

    return nagios.exit_code(report)


def _npd_exit(report: Report) -> int:
    from cudadoctor.report import npd

    return npd.exit_code(report)


FORMATS: dict[str, Format] = {
    "text": Format(_text),
    "json": Format(_json, is_json=True),
    "brief": Format(_machine("brief"), is_json=True),
    "junit": Format(_machine("junit")),
    "html": Format(_machine("html")),
    "markdown": Format(_machine("markdown")),
    "github": Format(_machine("github")),
    "gitlab": Format(_machine("gitlab"), is_json=True),
    "prometheus": Format(_machine("prometheus")),
    "nagios": Format(_machine("nagios"), only_stdout=True, exit_code=_nagios_exit),
    "npd": Format(_machine("npd"), only_stdout=True, exit_code=_npd_exit),
}
