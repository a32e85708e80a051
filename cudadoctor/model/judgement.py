"""What a command wants to know of its evidence, and the answer: values, so that another process can be asked (within/)."""

from __future__ import annotations

import datetime as dt

import msgspec

from cudadoctor.model.evidence import Evidence
from cudadoctor.model.experiments import Plan
from cudadoctor.model.recipe import Prescription
from cudadoctor.model.report import Report
from cudadoctor.model.requirements import Policy, Requirements


class Question(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A report on machines, of which one is as good as any where there is but one."""

    machines: tuple[Evidence, ...]
    requirements: Requirements = Requirements()
    policy: Policy | None = None
    today: dt.date | None = None  # with a policy: the day that decides what is still expected
    interrupted: bool = False  # Ctrl-C ended the collection
    steps_for: tuple[str, ...] = ()  # causes of which the steps are wanted, whatever was found
    every_step: bool = False  # and those of all that was found
    shell: bool = False  # whether the steps are for PowerShell is wanted


class Answer(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    report: Report
    machine: int  # which of the machines it is about
    steps: dict[str, Prescription | None] = {}
    windows: bool = False  # whether they are for PowerShell
    plan: Plan | None = None  # what may be tried here; None where nothing is, or it was


class RowsWanted(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The lines of these rows, from what has arrived by now."""

    evidence: Evidence
    rows: tuple[str, ...]


class RowsKnown(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    lines: dict[str, str]


Asked = Question | RowsWanted
Told = Answer | RowsKnown


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What a child is given to do. `too_long`: parts of the work that are left out (model/guard.py). `seconds`: of CPU time."""

    asked: Asked
    too_long: frozenset[str]
    seconds: float
