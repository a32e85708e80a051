"""Expected findings: a cause that the policy allows moves to `also` with its reason and date, and so does what it explains.

What is left decides the verdict. A kernel that did not run because of an expected fault is not counted against the machine, and the
report says so; whoever needs the kernel requires `smoke`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import msgspec

from cudadoctor import prescribe
from cudadoctor.judge.stages import exit_code
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.diagnosis import Diagnosis, Verdict
from cudadoctor.model.evidence import Evidence
from cudadoctor.model.findings import Finding, Ignored
from cudadoctor.model.guard import Guard
from cudadoctor.model.recipe import Prescription
from cudadoctor.model.report import Report, Row
from cudadoctor.model.requirements import Ignore, Requirements
from cudadoctor.parsers.read import read


def applied(
    report: Report, evidence: Evidence, knowledge: Knowledge, ignores: Sequence[Ignore], wanted: Requirements, *, today: dt.date
) -> Report:
    """The report without what is expected today. Entries that are past their day are named."""
    over = [one for one in ignores if one.until is not None and one.until < today]
    valid = {one.cause: one for one in ignores if one not in over}
    found = {finding.cause for finding in _all(report.diagnosis)}
    late = tuple(f"{one.cause} was expected until {one.until}: it counts again." for one in over if one.cause in found - set(valid))
    if not found & set(valid):
        return msgspec.structs.replace(report, notes=(*report.notes, *late))
    changed = _without(report, evidence, knowledge, valid)
    changed = msgspec.structs.replace(changed, checks=tuple(_row(row, changed.diagnosis, knowledge, report) for row in changed.checks))
    return msgspec.structs.replace(changed, exit_code=exit_code(changed.verdict, changed.diagnosis, wanted), notes=(*changed.notes, *late))


def _all(diagnosis: Diagnosis) -> tuple[Finding, ...]:
    root = (diagnosis.root,) if diagnosis.root is not None else ()
    return (*root, *diagnosis.explains, *diagnosis.also, *diagnosis.suspects)


def _marked(finding: Finding, by: Ignore) -> Finding:
    """The finding with the reason why it does not count."""
    until = by.until.isoformat() if by.until is not None else None
    return msgspec.structs.replace(finding, ignored=Ignored(cause=by.cause, reason=by.reason, until=until))


def _without(report: Report, evidence: Evidence, knowledge: Knowledge, valid: dict[str, Ignore]) -> Report:
    """The report in which expected findings stand aside, with the verdict on what is left."""
    old = report.diagnosis
    root, explains = old.root, old.explains
    aside: list[Finding] = []
    if root is not None and root.cause in valid:
        by = valid[root.cause]
        aside += [_marked(finding, valid.get(finding.cause, by)) for finding in (root, *explains)]
        root, explains = None, ()
    aside += [_marked(finding, valid[finding.cause]) for finding in (*explains, *old.also, *old.suspects) if finding.cause in valid]
    kept = [finding for finding in old.also if finding.cause not in valid]
    suspects = tuple(finding for finding in old.suspects if finding.cause not in valid)
    diagnosis = msgspec.structs.replace(
        old, root=root, explains=tuple(finding for finding in explains if finding.cause not in valid), suspects=suspects,
        also=(*kept, *aside), ask=old.ask if suspects or not old.suspects else (),
    )  # fmt: skip
    if root is old.root and suspects == old.suspects:
        return msgspec.structs.replace(report, diagnosis=diagnosis)
    return _judged_anew(report, diagnosis, kept, evidence, knowledge)


def _judged_anew(report: Report, diagnosis: Diagnosis, kept: Sequence[Finding], evidence: Evidence, knowledge: Knowledge) -> Report:
    """The verdict on what is left once the root, or every suspect, is expected."""
    blocking = next((finding for finding in kept if finding.effect == "blocks"), None)
    degrading = next((finding for finding in kept if finding.effect == "degrades"), None)
    verdict: Verdict
    if report.verdict == "undecided":
        # A suspicion that is expected leaves nothing open where the goal was reached.
        settled = not diagnosis.suspects and not diagnosis.crashes and bool(report.diagnosis.suspects) and _reached(report)
        verdict = "undecided" if not settled else "degraded" if degrading is not None else "healthy"
    elif diagnosis.crashes:
        verdict = "broken" if blocking is not None else "undecided"
    else:
        verdict = "broken" if blocking is not None else "degraded" if degrading is not None else "healthy"
    root = blocking if verdict == "broken" else degrading if verdict == "degraded" else None
    left = tuple(finding for finding in diagnosis.also if finding is not root)
    prescription = _prescribed(root, evidence, knowledge)
    unreached = () if _reached(report) or verdict in ("broken", "undecided") else (f"{_goal(report)} because of what is expected.",)
    return msgspec.structs.replace(
        report,
        verdict=verdict,
        diagnosis=msgspec.structs.replace(diagnosis, root=root, also=left),
        prescription=prescription,
        way=(),
        action="collect-evidence" if verdict == "undecided" else prescription.action if prescription is not None else "none",
        notes=(*unreached, *report.notes),
    )


def _reached(report: Report) -> bool:
    """Whether the goal was reached for all that the report shows."""
    if report.verdict in ("healthy", "degraded"):
        return True
    if report.origin.quick:
        return any(row.id == "libcuda" and row.status == "pass" for row in report.checks)
    kernels = [result.status for result in report.smoke if result.step == "numba-kernel"]
    return bool(kernels) and all(status == "pass" for status in kernels)


def _goal(report: Report) -> str:
    return "CUDA did not answer" if report.origin.quick else "No Numba kernel was seen to be right"


def _prescribed(root: Finding | None, evidence: Evidence, knowledge: Knowledge) -> Prescription | None:
    if root is None:
        return None
    nothing: Prescription | None = None
    facts = read(evidence, Guard(), knowledge)
    return Guard().run("prescribe", "prescribe", nothing, prescribe.prescribe, root, {}, facts, knowledge, evidence.distro)


def _row(row: Row, diagnosis: Diagnosis, knowledge: Knowledge, before: Report) -> Row:
    """A row that only expected findings hold back is skipped because of them."""
    if row.status not in ("fail", "warn"):
        return row
    aside = [finding for finding in diagnosis.also if finding.ignored is not None]
    counted = [finding for finding in _all(diagnosis) if finding.ignored is None and finding.effect != "advises"]
    if any(knowledge.causes[finding.cause].row == row.id for finding in counted if finding.cause in knowledge.causes):
        return row
    own = [finding for finding in aside if finding.cause in knowledge.causes and knowledge.causes[finding.cause].row == row.id]
    # A row may also fail at a rung that the expected root broke, without a finding of its own.
    root = before.diagnosis.root
    expected_root = root is not None and any(finding.cause == root.cause and finding.subject == root.subject for finding in aside)
    by = own[0].ignored if own else aside[0].ignored if expected_root and diagnosis.root is None and row.status == "fail" else None
    return row if by is None else msgspec.structs.replace(row, status="skip", because=f"expected: {by.cause}")
