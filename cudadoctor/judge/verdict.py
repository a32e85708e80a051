"""The verdict, the exit code that says it, and the word for what to do: each is decided here and nowhere else."""

from __future__ import annotations

import msgspec

from cudadoctor.model import exit_codes
from cudadoctor.model.findings import Verdict
from cudadoctor.model.recipe import Action, Prescription
from cudadoctor.model.requirements import Requirements


class Grounds(msgspec.Struct, frozen=True, kw_only=True):
    """What a verdict rests on. What a policy expects is left out of it."""

    blocking: bool  # something stated or derived breaks what was asked for
    degrading: bool
    reached: bool  # the last rung asked for was seen to work on every visible GPU, or only what is expected stands before it
    complaint: bool  # a text states or hints at a failure that the machine does not show
    crashed: bool  # a part of the doctor failed
    partial: bool  # a part of the evidence was not read for want of time
    slow: bool  # figures were slow in each of several runs
    interrupted: bool  # Ctrl-C ended the collection: what follows may follow from what was not asked any more


def verdict(on: Grounds) -> Verdict:
    if on.interrupted:
        return "undecided"
    if on.blocking:
        return "broken"
    if on.crashed or on.partial or on.complaint or not on.reached:
        return "undecided"
    return "degraded" if on.degrading or on.slow else "healthy"


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
