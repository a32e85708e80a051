"""The report on evidence as commands get it, with what a policy asks and expects."""

from __future__ import annotations

import datetime as dt
import functools
import os
from pathlib import Path

import msgspec

from cudadoctor.judge.stages import judge
from cudadoctor.knowledge.load import load
from cudadoctor.model.evidence import Evidence
from cudadoctor.model.findings import Judged
from cudadoctor.model.judgement import Question
from cudadoctor.model.report import Report
from cudadoctor.model.requirements import Policy, Requirements
from cudadoctor.within.judging import answered
from tests.command_line import evidence_of

KNOWLEDGE = load()


SHARED = os.environ.get("JUDGED_HOSTS")  # the folder in which the workers of one run share reports (conftest.py)


@functools.cache
def report_of(name: str) -> Report:
    """The report on a recorded host; judged once, for many look at it."""
    if SHARED is None:
        return judge(evidence_of(name), KNOWLEDGE)
    kept = Path(SHARED, name)
    if not kept.exists():
        new = kept.with_suffix(f".{os.getpid()}")
        new.write_bytes(msgspec.msgpack.encode(judge(evidence_of(name), KNOWLEDGE)))
        new.replace(kept)
    return msgspec.msgpack.decode(kept.read_bytes(), type=Report)


def cause_of(found: Report | Judged) -> str | None:
    """The root's."""
    root = found.diagnosis.root
    return root.cause if root is not None else None


def with_policy(evidence: Evidence, policy: Policy, today: dt.date, requirements: Requirements | None = None) -> Report:
    asked = Question(machines=(evidence,), requirements=requirements or Requirements(), policy=policy, today=today)
    return answered(asked, KNOWLEDGE).report
