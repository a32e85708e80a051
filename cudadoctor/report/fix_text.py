"""What `cudadoctor fix` prints: the steps for one cause as text or as a shell script to review."""

from __future__ import annotations

from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.recipe import Prescription, Step, Who
from cudadoctor.model.report import Report
from cudadoctor.report import text, way, words
from cudadoctor.report.clean import clean, one_line


def render(report: Report, prescription: Prescription | None, knowledge: Knowledge, style: text.Style, *, named: str | None = None) -> str:
    """The verdict in a line, then the steps. `named`: the cause that the user asked about, whatever this machine's is."""
    page = text.Page(style)
    root = report.diagnosis.root
    word, colour = text.VERDICTS[report.verdict]
    if named is not None and (root is None or root.cause != named):
        found = f"{root.title} [{root.cause}]" if root is not None else f"{named} was not found here"
        page.pair(word, colour, found)
        page.gap()
        page.raw(f"Asked for: {knowledge.cause(named).title} [{named}]", style="bold")
        if prescription is not None:
            text.prescription(page, prescription)
        else:
            page.prose(_no_steps(named, knowledge))
    elif prescription is not None:
        page.pair(word, colour, f"{knowledge.cause(prescription.cause).title} [{prescription.cause}]")
        text.prescription(page, prescription, proof=words.proof(report))
    elif report.verdict == "healthy":
        page.pair(word, colour, "nothing is wrong, so there is nothing to fix")
    elif root is not None:
        page.pair(word, colour, f"{root.title} [{root.cause}]")
        page.prose(_no_steps(root.cause, knowledge))
    else:
        page.pair(word, colour, "the cause is not certain, so no steps are given")
        for ask in report.diagnosis.ask:
            page.raw(ask.command, indent=4)
            page.prose(f"tells apart: {', '.join(ask.tells_apart)}", indent=6)
    if named is None or (root is not None and root.cause == named):
        way.legs(page, report.way, done=len(prescription.steps) if prescription is not None else 0)
    return page.text()


def _no_steps(cause: str, knowledge: Knowledge) -> str:
    known = knowledge.cause(cause)
    return known.no_software_fix or ("No step of its fix applies to this machine." if known.recipes else "No fix is known for this cause.")


def script(report: Report, prescription: Prescription | None, *, powershell: bool = False) -> str:
    """The steps as a shell script: words become comments, and every step stops the script when it fails."""
    warning = "# Read this before you run it: each step says what it changes and at what risk."
    lines = [warning, "$ErrorActionPreference = 'Stop'", ""] if powershell else ["#!/bin/sh", warning, "set -eu", ""]
    if prescription is None or not prescription.steps:
        lines.append(
            "# No steps: "
            + ("nothing is wrong." if report.verdict == "healthy" else "the cause is not certain, or no software fix is known.")
        )
    else:
        lines.append(f"# cause: {prescription.cause}, action: {prescription.action}")
        if prescription.no_software_fix is not None:
            lines.append(f"# {one_line(prescription.no_software_fix)}")
        part: Who = "user"
        for number, step in enumerate(prescription.steps, 1):
            if step.who != part:
                part = step.who
                lines.extend(("", *(_HANDED_ON if part == "administrator" else (f"# {text.AFTERWARDS}",))))
            # Without a cure the steps are alternatives to choose from, not a list to run.
            lines.extend(_of_step(number, step, run=prescription.no_software_fix is None))
    return "\n".join(lines) + "\n"


# What needs the administrator is not run by somebody who is not root; on its own it is a script for them.
_HANDED_ON = (f"# {text.ADMINISTRATOR}", '[ "$(id -u)" = 0 ] || { echo "The rest is for the administrator of this machine." >&2; exit 0; }')


def _of_step(number: int, step: Step, *, run: bool) -> list[str]:
    lines = ["", f"# {number}. {one_line(step.text)}", f"# risk: {step.risk}" + (", needs root" if step.needs_root else "")]
    if step.shell and clean(step.shell) != step.shell:
        lines.append(f"# not written as a command, because it holds control characters: {one_line(step.shell)}")
    elif step.shell:
        lines.extend(step.shell.split("\n") if run else (f"# one way: {part}" for part in step.shell.split("\n")))
    for word, command in (("check", step.verify), ("undo", step.undo)):
        lines.extend(f"# {word}: {part}" for part in (clean(command).split("\n") if command else ()))
    return lines
