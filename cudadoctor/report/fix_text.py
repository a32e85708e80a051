"""What `cudadoctor fix` prints: the steps for one cause. As a script: script.py."""

from __future__ import annotations

from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.recipe import Prescription
from cudadoctor.model.report import Report
from cudadoctor.report import text, words


def render(report: Report, prescription: Prescription | None, knowledge: Knowledge, style: text.Style, *, named: str | None = None) -> str:
    """The verdict in a line, then the steps. `named`: the cause that the user asked about, whatever this machine's is."""
    page = text.Page(style)
    root = report.diagnosis.root
    word, colour = text.VERDICTS[report.verdict]
    if named is not None and (root is None or root.cause != named):
        page.pair(word, colour, f"{root.title} [{root.cause}]" if root is not None else words.standing(named, report.diagnosis))
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
        page.pair(word, colour, f"{root.title} [{root.cause}]")
        page.prose(_no_steps(root.cause, knowledge))
    else:
        page.pair(word, colour, "the cause is not certain, so no steps are given")
        for ask in report.diagnosis.ask:
            page.raw(ask.command, indent=4)
            page.prose(f"tells apart: {', '.join(ask.tells_apart)}", indent=6)
    if named is None or (root is not None and root.cause == named):
        text.way(page, report.way, done=len(prescription.steps) if prescription is not None else 0)
    return page.text()


def _no_steps(cause: str, knowledge: Knowledge) -> str:
    known = knowledge.cause(cause)
    return known.no_software_fix or ("No step of its fix applies to this machine." if known.recipes else "No fix is known for this cause.")
