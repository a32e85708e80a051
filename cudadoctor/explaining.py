"""What `cudadoctor explain` answers: first that fits of `-`, a cause id, a code or name, a file, a text."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable

from cudadoctor import app, explain
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.evidence import Evidence
from cudadoctor.model.explanation import Explanation
from cudadoctor.report import json, text
from cudadoctor.sources import pasted


class NotUnderstoodError(Exception):
    """What was asked is none of these; the message names the nearest."""


def answer(
    what: str, knowledge: Knowledge, *, form: str, style: text.Style, distro: str | None, stdin: Callable[[], bytes]
) -> tuple[str, int]:
    """The output and the exit code."""
    if what == "-":
        return _text(pasted.evidence_of(stdin()), knowledge, form, style, distro)
    is_path = os.sep in what
    if not is_path:
        found = explain.explain_code(what, knowledge)
        if found is not None:
            return (json.render(found) if form == "json" else _page(found, knowledge, style)), 0
    if os.path.isdir(what) or what.endswith((".tar.gz", ".tgz")):
        raise NotUnderstoodError(f"{what} looks like a recording: use `cudadoctor check --replay {what}`")
    if os.path.exists(what) or is_path:
        try:
            item = pasted.read_item(what)
        except pasted.TextError as error:
            raise NotUnderstoodError(str(error)) from error
        return _text(Evidence(items=(item,), origin="text", platform="unknown"), knowledge, form, style, distro)
    if " " in what or "\n" in what:
        return _text(pasted.evidence_of(what.encode()), knowledge, form, style, distro)
    names = [*knowledge.causes, *(name for error in knowledge.cuda_errors for name in (error.driver_name, error.runtime_name) if name)]
    near = difflib.get_close_matches(what, names, n=3)
    raise NotUnderstoodError(f"{what!r} is no cause, code, file or text" + (f". Nearest: {', '.join(near)}" if near else ""))


def _text(evidence: Evidence, knowledge: Knowledge, form: str, style: text.Style, distro: str | None) -> tuple[str, int]:
    import msgspec

    report = app.judge(msgspec.structs.replace(evidence, distro=distro), knowledge)
    return (json.render(report) if form == "json" else text.render(report, knowledge, style)), report.exit_code


def _page(found: Explanation, knowledge: Knowledge, style: text.Style) -> str:
    page = text.Page(style)
    if found.kind == "cause":
        _cause(page, found.query, knowledge)
        return page.text()
    for number, match in enumerate(found.matches):
        if number:
            page.gap()
        page.raw(f"{match.api} {match.number if match.number is not None else ''} {match.name or ''}".strip(), style="bold")
        page.prose(match.meaning, indent=2)
        for cause_id in match.causes:
            known = knowledge.causes.get(cause_id)
            page.prose(f"- {known.title if known else cause_id} [{cause_id}]", indent=2)
            if known is not None:
                page.raw("see whether it is this:", style="dim", indent=6)
                page.raw(known.tell_apart, style="cyan", indent=8)
                page.raw(f"fix: cudadoctor fix {cause_id}", style="dim", indent=6)
    return page.text()


def _cause(page: text.Page, cause_id: str, knowledge: Knowledge) -> None:
    cause = knowledge.cause(cause_id)
    page.raw(f"{cause.title} [{cause.id}]", style="bold")
    page.prose(cause.why)
    page.raw(f"layer {cause.layer}, row {cause.row}, {cause.effect} unless the machine shows otherwise", style="dim")
    page.gap()
    page.raw("See whether it is this", style="bold")
    page.raw(cause.tell_apart, style="cyan", indent=4)
    page.gap()
    page.raw("Fix", style="bold")
    if cause.no_software_fix:
        page.prose(cause.no_software_fix, indent=2)
    for recipe_id in cause.recipes:
        for step in knowledge.recipes[recipe_id].steps:
            page.prose(f"- {step.text}", indent=2)
    page.raw(f"for this machine: cudadoctor fix {cause.id}", indent=2)
