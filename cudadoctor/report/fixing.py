"""What `cudadoctor fix` prints: the steps for one cause as text, as a message to whoever administers the machine (`--for-admin`), or as a
shell script to review (`--script`), which asks before each step that changes something.

In a script words become comments. What is for the calling shell alone stands as a comment too: a script cannot do it for that shell.
"""

from __future__ import annotations

from collections.abc import Iterator

from cudadoctor.knowledge.load import Knowledge
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


def as_text(report: Report, prescription: Prescription | None, knowledge: Knowledge, style: text.Style, *, named: str | None = None) -> str:
    """The verdict in a line, then the steps. `named`: the cause that the user asked about, whatever this machine's is."""
    page = text.Page(style)
    root = report.diagnosis.root
    word, colour = text.VERDICTS[report.verdict]
    if named is not None and (root is None or root.cause != named):
        page.pair(word, colour, root.named if root is not None else words.standing(named, report.diagnosis))
        page.heading(f"Asked for: {knowledge.cause(named).title} [{named}]")
        if root is not None:
            page.prose(f"{words.standing(named, report.diagnosis)}.")
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
        page.pair(word, colour, root.named)
        page.prose(_no_steps(root.cause, knowledge))
    else:
        page.pair(word, colour, "the cause is not certain, so no steps are given")
        for ask in report.diagnosis.ask:
            page.raw(ask.command, indent=4)
            page.prose(words.settles(ask), indent=6)
    if named is None or (root is not None and root.cause == named):
        text.way(page, report.way, done=len(prescription.steps) if prescription is not None else 0)
    return page.text()


def _no_steps(cause: str, knowledge: Knowledge) -> str:
    known = knowledge.cause(cause)
    return known.no_software_fix or ("No step of its fix applies to this machine." if known.recipes else "No fix is known for this cause.")


# ---------------------------------------------------------------- for the administrator
def for_administrator(report: Report, prescription: Prescription | None) -> str:
    """What is wrong, the proof, the commands, the restart that they need. One sentence where nobody has to do anything."""
    if report.diagnosis.root is None or prescription is None:
        return f"There is nothing to ask the administrator for: {one_line(words.headline(report))}.\n"
    return "\n".join(_asked_of_them(report, prescription)) + "\n"


def _asked_of_them(report: Report, prescription: Prescription) -> Iterator[str]:
    root = report.diagnosis.root
    assert root is not None
    machine = report.machine
    what = ", ".join(filter(None, (words.gpus(report), machine.distribution, machine.kernel and f"kernel {machine.kernel}")))
    yield one_line(f"GPU problem: {root.named}")
    yield one_line(f"Machine: {what}" if what else "Machine: not known")
    yield ""
    yield "What shows it:"
    yield from (f"  {line}" for line in words.quoted(root.evidence))
    shown = words.proof(report)
    if shown is not None:
        yield one_line(shown)
    asked = [step for step in prescription.steps if step.who == "administrator" or step.needs_root or step.kind == "restart"]
    yield ""
    if not asked:
        yield "Nothing in the fix needs root: the user can do it alone (cudadoctor fix)."
        return
    yield "Please do as root:"
    for number, step in enumerate(asked, 1):
        yield one_line(f"{number}. {words.told(step)}")
        yield from (f"     {line}" for line in clean(step.shell or "").split("\n") if line)
        beside = (("Verify", step.verify), ("Undo", step.undo))
        yield from (f"   {head}: {one_line(words.typed(command))}" for head, command in beside if command)
    yield ""
    restart = any(step.kind == "restart" and step.mode == "do" for step in asked)
    yield "It needs a restart: plan for the programs that run there." if restart else "It needs no restart of the machine."
    yield f"More about it: cudadoctor explain {root.cause}"


# ---------------------------------------------------------------- as a script
def as_script(report: Report, prescription: Prescription | None, *, powershell: bool = False) -> str:
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
