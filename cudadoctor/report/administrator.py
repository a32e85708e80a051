"""`cudadoctor fix --for-admin`: the fault as a message to whoever administers the machine, ready to be sent."""

from __future__ import annotations

from collections.abc import Iterator

from cudadoctor.model.recipe import Prescription
from cudadoctor.model.report import Report
from cudadoctor.report import words
from cudadoctor.report.clean import clean, one_line


def render(report: Report, prescription: Prescription | None) -> str:
    """What is wrong, the proof, the commands, the restart that they need. One sentence where nobody has to do anything."""
    if report.diagnosis.root is None or prescription is None:
        return f"There is nothing to ask the administrator for: {one_line(words.headline(report))}.\n"
    return "\n".join(_lines(report, prescription)) + "\n"


def _lines(report: Report, prescription: Prescription) -> Iterator[str]:
    root = report.diagnosis.root
    assert root is not None
    machine = report.machine
    what = ", ".join(filter(None, (words.gpus(report), machine.distribution, machine.kernel and f"kernel {machine.kernel}")))
    yield one_line(f"GPU problem: {root.title} [{root.cause}]")
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
        yield from (f"   {head}: {one_line(command)}" for head, command in (("Verify", step.verify), ("Undo", step.undo)) if command)
    yield ""
    restart = any(step.kind == "restart" and step.mode == "do" for step in asked)
    yield "It needs a restart: plan for the programs that run there." if restart else "It needs no restart of the machine."
    yield f"More about it: cudadoctor explain {root.cause}"
