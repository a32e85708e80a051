"""The report on a text as a user pastes it, and what a reader sees first in it."""

from __future__ import annotations

import functools

from cudadoctor.judge.stages import judge
from cudadoctor.model.report import Report
from cudadoctor.sources.pasted import evidence_of
from tests.judging import KNOWLEDGE, cause_of


@functools.lru_cache(maxsize=16)
def report(text: str) -> Report:
    found = judge(evidence_of(text.encode()), KNOWLEDGE)
    assert found.diagnosis.crashes == ()
    return found


def root(text: str) -> str | None:
    return cause_of(report(text))


def suspects(text: str) -> list[str]:
    return [finding.cause for finding in report(text).diagnosis.suspects]


def first(text: str) -> str | None:
    """The root, else the likeliest suspect."""
    return root(text) or next(iter(suspects(text)), None)
