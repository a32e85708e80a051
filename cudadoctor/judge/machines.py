"""One report on evidence that may hold several machines: the one in the worst state is reported, the others are named.

A must-gather of a cluster holds a report of each node. Each is judged by itself, for no fact of one node says anything of another.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cudadoctor.judge.stages import Judgement, report_on, weighed
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.evidence import Evidence
from cudadoctor.model.findings import Verdict
from cudadoctor.model.guard import Guard
from cudadoctor.model.report import Report
from cudadoctor.model.requirements import Requirements

_WORST_FIRST: tuple[Verdict, ...] = ("broken", "degraded", "undecided", "healthy")


def judged(
    machines: Sequence[Evidence], knowledge: Knowledge, requirements: Requirements | None = None, guard: Guard | None = None
) -> tuple[Report, Judgement]:
    """The report, and the judgement that it tells. At least one machine."""
    guard, wanted = guard or Guard(), requirements or Requirements()
    reports = []
    for number, machine in enumerate(machines):
        own = guard.of(number)
        found = weighed(machine, knowledge, wanted, own)
        reports.append((report_on(found, knowledge, wanted, own), found))
    if len(reports) == 1:
        return reports[0]
    worst, judgement = min(reports, key=lambda pair: _WORST_FIRST.index(pair[0].verdict))
    others = [report for report, _ in reports if report is not worst]
    said = (f"The bundle holds {len(reports)} nodes; this is the report on {worst.origin.node}.", *map(_in_short, others))
    return msgspec.structs.replace(worst, notes=(*said, *worst.notes)), judgement


def _in_short(report: Report) -> str:
    """Node gpu-2: broken, gpu-fell-off-bus at 0000:3b:00.0."""
    root = report.diagnosis.root
    found = root.cause if root is not None else ", ".join(finding.cause for finding in report.diagnosis.suspects[:3])
    where = f" at {root.subject.removeprefix('gpu:')}" if root is not None and root.subject.startswith("gpu:") else ""
    likely = "suspected " if root is None and found else ""
    return f"Node {report.origin.node}: {report.verdict}{f', {likely}{found}{where}' if found else ''}."
