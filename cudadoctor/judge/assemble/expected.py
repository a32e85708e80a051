"""Rows beside what a policy expects: one that only expected findings hold back is skipped because of them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.diagnosis import Diagnosis, Judged
from cudadoctor.model.findings import Finding
from cudadoctor.model.report import Row


def without_expected(rows: Sequence[Row], judged: Judged, before: Judged, knowledge: Knowledge) -> tuple[Row, ...]:
    """`before`: the judgement by which the rows were described, without what is expected."""
    if judged is before:
        return tuple(rows)
    return tuple(_row(row, judged.diagnosis, before.diagnosis.root, knowledge) for row in rows)


def _row(row: Row, diagnosis: Diagnosis, root: Finding | None, knowledge: Knowledge) -> Row:
    if row.status not in ("fail", "warn"):
        return row
    aside = [finding for finding in diagnosis.also if finding.ignored is not None]
    every = (*((diagnosis.root,) if diagnosis.root is not None else ()), *diagnosis.explains, *diagnosis.also, *diagnosis.suspects)
    counted = [finding for finding in every if finding.ignored is None and finding.effect != "advises"]
    if any(knowledge.causes[finding.cause].row == row.id for finding in counted if finding.cause in knowledge.causes):
        return row
    own = [finding for finding in aside if finding.cause in knowledge.causes and knowledge.causes[finding.cause].row == row.id]
    # A row may also fail at a rung that the expected root broke, without a finding of its own.
    expected_root = root is not None and any(finding.cause == root.cause and finding.subject == root.subject for finding in aside)
    by = own[0].ignored if own else aside[0].ignored if expected_root and diagnosis.root is None and row.status == "fail" else None
    return row if by is None else msgspec.structs.replace(row, status="skip", because=f"expected: {by.cause}")
