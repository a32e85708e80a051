"""What a team demands of its machines and what it allows: requirements and expected findings, put beside a report.

    grammar.py    a requirement's text -> a typed value, or an error with the column
    questions.py  the closed list of what can be required
    gpus.py, software.py   what the machine answers

`applied` adds to a report what was asked, found and missing. The verdict stays the machine's; a requirement that is not met, or that
nobody can answer, makes the exit code 1.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable

import msgspec

from cudadoctor.model.facts import Facts
from cudadoctor.model.guard import Guard
from cudadoctor.model.report import Report, RequirementResult
from cudadoctor.model.requirements import Ignore, Policy, Requirement
from cudadoctor.policy import comparing
from cudadoctor.policy.base import Answer, View
from cudadoctor.policy.grammar import RequirementError, parsed
from cudadoctor.policy.questions import ALONE, KERNELS, KINDS, QUESTIONS

__all__ = ["RequirementError", "applied", "expected", "needs_kernels", "requirement", "requirements", "unanswered"]

NOT_MET = 1  # the exit code
UNANSWERED = "the part that answers demands failed"


def requirement(text: str) -> Requirement:
    """The requirement that a text states; RequirementError says what is wrong with it, and where."""
    return parsed(text, KINDS, ALONE)


def requirements(texts: Iterable[str]) -> tuple[Requirement, ...]:
    return tuple(requirement(text) for text in texts)


def needs_kernels(asked: Iterable[Requirement]) -> bool:
    """Whether one of them is answered by what is run on a GPU, which --quick leaves out."""
    return any(one.name in KERNELS for one in asked)


def expected(policy: Policy, today: dt.date) -> tuple[Ignore, ...]:
    """What the policy still allows today."""
    return tuple(one for one in policy.ignores if one.until is None or one.until >= today)


def applied(report: Report, facts: Facts, policy: Policy, *, today: dt.date) -> Report:
    """The report, in which what is expected does not count, with what the policy asked. Entries that are past their day are named."""
    valid = {one.cause for one in expected(policy, today)}
    diagnosis = report.diagnosis
    found = {one.cause for one in (diagnosis.root, *diagnosis.explains, *diagnosis.also, *diagnosis.suspects) if one is not None}
    over = [one for one in policy.ignores if one.cause in found - valid]
    late = tuple(f"{one.cause} was expected until {one.until}: it counts again." for one in over)
    view = View(facts=facts, report=report)
    results = tuple(_result(one, view) for one in policy.requirements)
    code = report.exit_code if all(result.met for result in results) else NOT_MET
    notes = (f"The policy of {policy.source} counts.",) if policy.source is not None else ()
    return msgspec.structs.replace(report, requirements=results, exit_code=code, notes=(*notes, *report.notes, *late))


def unanswered(report: Report, policy: Policy) -> Report:
    """The report where what the policy asks could not be looked at: no demand is met."""
    results = tuple(RequirementResult(text=one.text, met=None, found=None, why=UNANSWERED) for one in policy.requirements)
    return msgspec.structs.replace(report, requirements=results, exit_code=NOT_MET if results else report.exit_code)


def _result(one: Requirement, view: View) -> RequirementResult:
    """One answer decides where it is known not to be met; where none is, one unknown leaves it open."""
    guard = Guard()
    nothing: list[tuple[Answer, bool | None]] = []
    known = guard.run(
        "policy", one.name, nothing, lambda: [(answer, comparing.holds(one, answer)) for answer in QUESTIONS[one.name].ask(view)]
    )
    unmet = [answer for answer, met in known if met is False]
    unknown = [answer for answer, met in known if met is None]
    met = False if unmet else None if unknown or not known else True
    shown = [answer for answer, held in known if held is not None and answer.shown]
    why = None
    if unmet:
        why = f"asked for {one.text}, found {_said(unmet)}"
    elif met is None:
        reasons = (answer.why or f"{answer.shown}: no limit is known that it could be a share of" for answer in unknown)
        why = ", ".join(dict.fromkeys(reasons)) or ", ".join(crash.error for crash in guard.crashes) or "nobody answered"
    return RequirementResult(text=one.text, met=met, found=_said(shown) or None, why=why)


def _said(answers: Iterable[Answer]) -> str:
    """`145.0 GiB` of one GPU; `GPU 0 145.0 GiB, GPU 1 80.0 GiB` of several."""
    return ", ".join(dict.fromkeys(f"{answer.where}: {answer.shown}" if answer.where else answer.shown for answer in answers))
