"""The rows of the pipeline, in the order in which a person sees them, and the function that applies their rules."""

from __future__ import annotations

from importlib import import_module

from cudadoctor.checks.base import Check, Line, Rule
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Facts, NotKnown
from cudadoctor.model.findings import Outcome
from cudadoctor.model.guard import Guard
from cudadoctor.model.rows import ROWS

CHECKS: tuple[Check, ...] = tuple(import_module(f"cudadoctor.checks.{row.replace('-', '_')}").CHECK for row in ROWS)


def of(knowledge: Knowledge) -> tuple[Check, ...]:
    """All rows: the doctor's own, then those of extensions."""
    return (*CHECKS, *knowledge.more_checks)


def apply(facts: Facts, knowledge: Knowledge, guard: Guard) -> tuple[Outcome, ...]:
    """Every rule of every row, each in its own guard. All rules always run: they are pure and cheap."""
    outcomes = []
    for check in of(knowledge):
        for rule in check.rules:
            crash = Outcome(row=rule.row, causes=rule.causes, crashed=True)
            name = getattr(rule.function, "__name__", "") or ", ".join(rule.causes)
            outcomes.append(guard.run("check", f"{rule.row}: {name}", crash, _outcome, rule, facts, knowledge))
    return tuple(outcomes)


def _outcome(rule: Rule, facts: Facts, knowledge: Knowledge) -> Outcome:
    try:
        return Outcome(row=rule.row, causes=rule.causes, clues=tuple(rule.function(facts, knowledge)))
    except NotKnown as ignorance:
        unknown = ignorance.unknown
        return Outcome(row=rule.row, causes=rule.causes, missing=unknown.key, why=unknown.why)


def describe(check: Check, facts: Facts, knowledge: Knowledge) -> Line:
    """The row's line; a fact that nobody knows makes it unknown and is named."""
    try:
        return check.describe(facts, knowledge)
    except NotKnown as ignorance:
        unknown = ignorance.unknown
        return Line(f"not known: {unknown.key} ({unknown.why})", because=f"{unknown.key}: {unknown.why}")
