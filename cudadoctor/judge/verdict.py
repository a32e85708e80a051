"""The verdict, the exit code that says it, and the word for what to do: each is decided here and nowhere else."""

from __future__ import annotations

from cudadoctor.model import exit_codes
from cudadoctor.model.findings import Verdict
from cudadoctor.model.recipe import Action, Prescription
from cudadoctor.model.requirements import Requirements


def verdict(*, interrupted: bool, blocking: bool, open_: bool, degrading: bool) -> Verdict:
    """What a policy expects is left out of all of these.

    `interrupted`: Ctrl-C ended the collection: what follows may follow from what was not asked any more. `blocking`: something stated or
    derived breaks what was asked for. `open_`: the last rung asked for was not seen to work on every visible GPU, a text complains of what
    the machine does not show, a part of the doctor failed, or evidence was not read for want of time.
    """
    if interrupted:
        return "undecided"
    if blocking:
        return "broken"
    return "undecided" if open_ else "degraded" if degrading else "healthy"


def exit_code(verdict: Verdict, wanted: Requirements, *, crashed: bool, met: bool = True) -> int:
    """1 broken, degraded under --strict, or a demand is not `met`; 4 undecided because a part crashed, else 3; 0 healthy or degraded."""
    if wanted.interrupted:
        return exit_codes.INTERRUPTED
    if verdict == "broken" or (verdict == "degraded" and wanted.strict) or not met:
        return exit_codes.BROKEN
    if verdict == "undecided":
        return exit_codes.CRASHED if crashed else exit_codes.UNDECIDED
    return exit_codes.HEALTHY


def action(verdict: Verdict, prescription: Prescription | None) -> Action:
    if verdict == "undecided":
        return "collect-evidence"
    return prescription.action if prescription is not None else "none"
