"""All that is done with evidence that a stranger may have written: report, policy, steps, the rows of a terminal. Pure.

What is asked and answered are values (model/judgement.py): commands ask in another process (within/), the API asks here.
"""

from __future__ import annotations

import msgspec

from cudadoctor.checks import rows
from cudadoctor.judge import asked_for, machines
from cudadoctor.judge.stages import Judgement, with_failures
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.guard import Guard
from cudadoctor.model.judgement import Answer, Question, RowsKnown, RowsWanted
from cudadoctor.model.recipe import Prescription
from cudadoctor.model.report import Report
from cudadoctor.parsers.read import read


def answered(asked: Question, knowledge: Knowledge, guard: Guard | None = None) -> Answer:
    """The report with what the policy asks, and the steps that were asked for."""
    guard = guard or Guard()
    wanted = msgspec.structs.replace(asked.requirements, interrupted=asked.interrupted)
    if asked.policy is not None and asked.today is not None:
        from cudadoctor import policy

        wanted = msgspec.structs.replace(wanted, expected=policy.expected(asked.policy, asked.today))
    report, found = machines.judged(asked.machines, knowledge, wanted, guard)
    machine = next(number for number, one in enumerate(asked.machines) if one is found.evidence)
    guard = guard.of(machine)
    told = guard.failures
    if asked.policy is not None and asked.today is not None and not asked.interrupted:
        from cudadoctor import policy

        unanswered = policy.unanswered(report, asked.policy)
        report = guard.run("policy", "policy", unanswered, policy.applied, report, found.facts, asked.policy, today=asked.today)
    nothing: dict[str, Prescription | None] = {}
    steps = guard.run("prescribe", "asked for", nothing, _steps, asked, report, found, knowledge)
    return Answer(
        report=with_failures(report, found, knowledge, wanted, guard, since=told),
        machine=machine,
        steps=steps,
        windows=asked.shell and found.seen.windows,
        plan=found.plan if not asked.interrupted else None,
    )


def _steps(asked: Question, report: Report, found: Judgement, knowledge: Knowledge) -> dict[str, Prescription | None]:
    shown = report.diagnosis
    every = (shown.root, *shown.explains, *shown.also, *shown.suspects) if asked.every_step else ()
    causes = dict.fromkeys((*asked.steps_for, *(one.cause for one in every if one is not None)))
    return {cause: asked_for.for_cause(cause, report, found, knowledge) for cause in causes}


def lines(asked: RowsWanted, knowledge: Knowledge, guard: Guard) -> RowsKnown:
    """What rows say as long as not all evidence is there. A row that fails says nothing yet."""
    facts = read(asked.evidence, guard, knowledge)
    wanted = [check for check in rows.of(knowledge) if check.id in asked.rows]
    found = {check.id: guard.run("describe", check.id, None, rows.describe, check, facts, knowledge) for check in wanted}
    return RowsKnown(lines={row: line.summary for row, line in found.items() if line is not None})
