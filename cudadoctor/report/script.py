"""`cudadoctor fix --script`: the steps as a shell script to review, which asks before each step that changes something.

Words become comments. What is for the calling shell alone stands as a comment too: a script cannot do it for that shell.
"""

from __future__ import annotations

from collections.abc import Iterator

from cudadoctor.model.recipe import Prescription, Step, Who
from cudadoctor.model.report import Report
from cudadoctor.report import text, words
from cudadoctor.report.clean import clean, one_line

_WARNING = "# Read this before you run it. It asks before each step that changes something."
_SH = (
    "#!/bin/sh",
    _WARNING,
    "set -eu",
    "agreed() {",
    "    printf '%s Run it? [y/N] ' \"$1\" > /dev/tty",
    '    read -r answer < /dev/tty && [ "$answer" = y ]',
    "}",
)
_POWERSHELL = (_WARNING, "$ErrorActionPreference = 'Stop'")
# What needs the administrator is not run by somebody who is not root; on its own it is a script for them.
_HANDED_ON = (f"# {text.ADMINISTRATOR}", '[ "$(id -u)" = 0 ] || { echo "The rest is for the administrator of this machine." >&2; exit 0; }')


def render(report: Report, prescription: Prescription | None, *, powershell: bool = False) -> str:
    """The script. Every step that fails stops it."""
    lines = [*(_POWERSHELL if powershell else _SH), ""]
    if prescription is None or not prescription.steps:
        why = "nothing is wrong." if report.verdict == "healthy" else "the cause is not certain, or no software fix is known."
        return "\n".join((*lines, f"# No steps: {why}")) + "\n"
    lines.append(f"# cause: {prescription.cause}, action: {prescription.action}")
    if prescription.no_software_fix is not None:
        lines.append(f"# {one_line(prescription.no_software_fix)}")
    part: Who = "user"
    for number, step in enumerate(prescription.steps, 1):
        if step.who != part:
            part = step.who
            lines.extend(("", *(_HANDED_ON if part == "administrator" else (f"# {text.AFTERWARDS}",))))
        # Without a cure the steps are alternatives to choose from, not a list to run.
        lines.extend(_of_step(number, step, run=prescription.no_software_fix is None, powershell=powershell))
    return "\n".join(lines) + "\n"


def _of_step(number: int, step: Step, *, run: bool, powershell: bool) -> Iterator[str]:
    yield from ("", f"# {number}. {one_line(words.told(step))}")
    if step.shell and clean(step.shell) != step.shell:
        yield f"# not written as a command, because it holds control characters: {one_line(step.shell)}"
    elif step.shell and powershell and not step.shell.isascii():
        # Windows PowerShell 5.1 reads a file without a mark in the ANSI code page, where a letter's bytes may be a quote.
        yield f"# not written as a command, because it holds letters beyond ASCII: type {one_line(step.shell)}"
    elif step.shell and step.kind:
        yield f"# {words.KINDS[step.kind]}"
        yield from _commands(number, step, step.shell.split("\n"), run=run, powershell=powershell)
    for head, command in (("Verify", step.verify), ("Undo", step.undo)):
        yield from (f"# {head}: {part}" for part in (clean(command).split("\n") if command else ()))


def _commands(number: int, step: Step, shell: list[str], *, run: bool, powershell: bool) -> Iterator[str]:
    if not run or step.kind == "session":
        yield from (f"# {'In your shell' if run else 'One way'}: {line}" for line in shell)
    elif step.kind == "reads" and step.mode == "do":
        yield from shell
    else:
        question = f"Step {number} {words.KINDS[step.kind or 'system']}."
        yield f"if ((Read-Host '{question} Run it? [y/N]') -eq 'y') {{" if powershell else f"if agreed '{question}'; then"
        yield from shell
        yield "}" if powershell else "fi"
