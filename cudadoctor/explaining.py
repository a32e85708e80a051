"""What `cudadoctor explain` answers: first that fits of `-`, a cause id, a code or name, a file, a text."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterable

import msgspec

from cudadoctor import explain, prescribe
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.evidence import Evidence
from cudadoctor.model.explanation import CodeMeaning, Explanation
from cudadoctor.model.facts import Facts
from cudadoctor.model.findings import Finding
from cudadoctor.model.recipe import Prescription
from cudadoctor.report import json, text
from cudadoctor.sources import pasted

ARCHIVES = (".tar.gz", ".tgz")
RECORDING = "recording.json"
_HEAD_END = re.compile(r"[;(]|\.(?:\s|$)")  # where the first words of a step end


class NotUnderstoodError(Exception):
    """What was asked is none of these; the message names the nearest."""


def answer(
    what: str, knowledge: Knowledge, *, form: str, style: text.Style, distro: str | None, stdin: Callable[[], bytes]
) -> tuple[str, int]:
    """The output and the exit code."""
    if what == "-":
        return _text(pasted.evidence_of(stdin()), knowledge, form, style, distro)
    if os.sep not in what:
        found = explain.explain_code(what, knowledge)
        if found is not None:
            return (json.render(found) if form == "json" else _page(found, knowledge, style, distro)), 0
    if _is_path(what):
        return _text(_of_file(what), knowledge, form, style, distro)
    if what.strip() and any(letter.isspace() for letter in what):
        return _text(pasted.evidence_of(os.fsencode(what)), knowledge, form, style, distro)
    raise NotUnderstoodError(f"{what!r} is no cause, code, file or text{nearest(what, _names(knowledge))}")


def _is_path(what: str) -> bool:
    """What exists; else what has a separator, unless its blanks show that it is a sentence in which a path occurs."""
    if os.path.exists(what):
        return True
    if os.sep not in what or "\n" in what:
        return False
    if any(letter.isspace() for letter in what):
        return ": " not in what and os.path.isdir(os.path.dirname(what))
    return True


def _of_file(path: str) -> Evidence:
    """A file's text. A recording is refused with the command that reads it."""
    folder = os.path.dirname(path) or os.curdir if os.path.basename(path) == RECORDING else path
    if os.path.exists(os.path.join(folder, RECORDING)) or path.endswith(ARCHIVES):
        raise NotUnderstoodError(f"{path} is a recording: use `cudadoctor check --replay {folder}`")
    if os.path.isdir(path):
        raise NotUnderstoodError(f"{path} is a folder; name a file with the text of a failure")
    try:
        item = pasted.read_item(path)
    except pasted.TextError as error:
        raise NotUnderstoodError(str(error)) from error
    return Evidence(items=(item,), origin="text", platform="unknown")


def _names(knowledge: Knowledge) -> list[str]:
    """Everything that can be asked by name."""
    cuda = (name for error in knowledge.cuda_errors for name in (error.driver_name, error.runtime_name) if name)
    return [*knowledge.causes, *cuda, *(error.name for error in knowledge.nvml_errors)]


def nearest(what: str, names: Iterable[str]) -> str:
    """The names that look most like it in any case, as the end of a sentence."""
    by_lower = {name.lower(): name for name in names}
    near = difflib.get_close_matches(what.lower(), by_lower, n=3)
    return f". Nearest: {', '.join(by_lower[name] for name in near)}" if near else ""


def _text(evidence: Evidence, knowledge: Knowledge, form: str, style: text.Style, distro: str | None) -> tuple[str, int]:
    from cudadoctor import app  # with all parsers and checks, which a code's page does not need

    report = app.judge(msgspec.structs.replace(evidence, distro=distro), knowledge)
    return (json.render(report) if form == "json" else text.render(report, knowledge, style)), report.exit_code


def _steps(cause_id: str, knowledge: Knowledge, distro: str | None) -> Prescription | None:
    """What is known of the fix without a machine."""
    cause = knowledge.cause(cause_id)
    finding = Finding(
        cause=cause.id, layer=cause.layer, title=cause.title, subject="machine", effect=cause.effect, basis="suspected", evidence=()
    )
    return prescribe.prescribe(finding, {}, Facts(()), knowledge, distro)


def _in_short(steps: Prescription) -> str:
    """The first words of each step, in one sentence."""
    heads = [_HEAD_END.split(step.text, maxsplit=1)[0].strip() for step in steps.steps]
    return "; ".join([heads[0], *(head[:1].lower() + head[1:] for head in heads[1:])]) + "."


def _page(found: Explanation, knowledge: Knowledge, style: text.Style, distro: str | None) -> str:
    page = text.Page(style)
    if found.kind == "cause":
        _cause(page, found.query, knowledge, distro)
        return page.text()
    for number, match in enumerate(found.matches):
        if number:
            page.gap()
        _code(page, match, knowledge, distro)
    return page.text()


def _code(page: text.Page, match: CodeMeaning, knowledge: Knowledge, distro: str | None) -> None:
    names = " ".join(name for name in (match.name, *match.aliases) if name)
    page.raw(f"{match.api} {match.number} {names}".strip(), style="bold")
    page.prose(match.meaning, indent=2)
    for cause_id in match.causes:
        known = knowledge.causes.get(cause_id)
        page.prose(f"- {known.title if known else cause_id} [{cause_id}]", indent=2)
        if known is None:
            continue
        page.raw("see whether it is this:", style="dim", indent=6)
        page.raw(known.tell_apart, style="cyan", indent=8)
        steps = _steps(cause_id, knowledge, distro)
        if steps is None:
            page.prose(f"fix: {known.no_software_fix or 'none is known'}", indent=6)
        else:
            page.prose(f"fix: {_in_short(steps)}", indent=6)
            page.raw(f"all steps for this machine: cudadoctor fix {cause_id}", style="dim", indent=6)


def _cause(page: text.Page, cause_id: str, knowledge: Knowledge, distro: str | None) -> None:
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
    steps = _steps(cause_id, knowledge, distro)
    for step in steps.steps if steps is not None else ():
        page.prose(f"- {step.text}", indent=2)
    if steps is not None:
        page.raw(f"for this machine, with its commands: cudadoctor fix {cause.id}", indent=2)
