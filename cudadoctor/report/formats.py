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


def _junit(report: Report, knowledge: Knowledge, style: Style) -> str:
    from cudadoctor.report import junit

    return junit.render(report, knowledge)


def _html(report: Report, knowledge: Knowledge, style: Style) -> str:
    from cudadoctor.report import html

    return html.render(report, knowledge)


def _markdown(report: Report, knowledge: Knowledge, style: Style) -> str:
    from cudadoctor.report import markdown

    return markdown.render(report, knowledge)


def _github(report: Report, knowledge: Knowledge, style: Style) -> str:
    from cudadoctor.report import github

    return github.render(report, knowledge)


def _gitlab(report: Report, knowledge: Knowledge, style: Style) -> str:
    from cudadoctor.report import gitlab

    return gitlab.render(report, knowledge)


def _prometheus(report: Report, knowledge: Knowledge, style: Style) -> str:
    from cudadoctor.report import prometheus

    return prometheus.render(report, knowledge)


def _nagios(report: Report, knowledge: Knowledge, style: Style) -> str:
    from cudadoctor.report import nagios

    return nagios.render(report, knowledge)


def _nagios_exit(report: Report) -> int:
    from cudadoctor.report import nagios

    return nagios.exit_code(report)


def _npd(report: Report, knowledge: Knowledge, style: Style) -> str:
    from cudadoctor.report import npd

    return npd.render(report, knowledge)


def _npd_exit(report: Report) -> int:
    from cudadoctor.report import npd

    return npd.exit_code(report)


FORMATS: dict[str, Format] = {
    "text": Format(_text),
    "json": Format(_json, is_json=True),
    "junit": Format(_junit),
    "html": Format(_html),
    "markdown": Format(_markdown),
    "github": Format(_github),
    "gitlab": Format(_gitlab, is_json=True),
    "prometheus": Format(_prometheus),
    "nagios": Format(_nagios, only_stdout=True, exit_code=_nagios_exit),
    "npd": Format(_npd, only_stdout=True, exit_code=_npd_exit),
}
