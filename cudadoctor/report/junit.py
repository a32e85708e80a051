"""The report as JUnit XML: one test case for each row, and one for each requirement.

A row that failed is a failure; one that nobody could look at is skipped, for a requirement is the way to demand it. A requirement that is
not met, or that nobody can answer, is a failure.
"""

from __future__ import annotations

from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.findings import Finding
from cudadoctor.model.report import Report, RequirementResult, Row
from cudadoctor.report import junit_xml, words


def render(report: Report, knowledge: Knowledge) -> str:
    suites = {"cudadoctor.rows": [_row(row, report, knowledge) for row in report.checks]}
    if report.requirements:
        suites["cudadoctor.requirements"] = [_requirement(result) for result in report.requirements]
    root = report.diagnosis.root
    properties = {
        "verdict": report.verdict, "cause": root.cause if root is not None else "", "action": report.action,
        "url": (root.url or "") if root is not None else "",
        "exit_code": str(report.exit_code), "version": report.tool.version,
    }  # fmt: skip
    return junit_xml.document(suites, properties, report.timing.total_s or 0)


def _row(row: Row, report: Report, knowledge: Knowledge) -> str:
    head = junit_xml.head("rows", row.id, report.timing.rows.get(row.id) or 0)
    own = _findings(row, report, knowledge)
    failed = row.status == "fail" or (row.status == "warn" and words.degraded_fails(report) and _is_root(own, report))
    if failed:
        first = own[0] if own else None
        message = f"{first.title} [{first.cause}]" if first is not None else row.summary
        body = [row.summary, *words.quoted(row.evidence)]
        prescription = report.prescription
        if _is_root(own, report) and prescription is not None:
            body += ["", "Fix:", *words.fix(report)]
        body += [f"Page of this cause: {first.url}"] if first is not None and first.url else []
        return junit_xml.not_passed(head, "failure", message, body, kind=first.cause if first is not None else row.id)
    if row.status in ("skip", "unknown"):
        why = f"{row.summary} (because: {row.because})" if row.because and row.because not in row.summary else row.summary
        return junit_xml.not_passed(head, "skipped", why)
    return junit_xml.passed(head, [row.summary, *words.quoted(row.evidence)])


def _findings(row: Row, report: Report, knowledge: Knowledge) -> list[Finding]:
    """The findings that a row shows, the root first."""
    diagnosis = report.diagnosis
    every = (*((diagnosis.root,) if diagnosis.root is not None else ()), *diagnosis.also, *diagnosis.suspects)
    counted = [finding for finding in every if finding.ignored is None and finding.effect != "advises"]
    return [finding for finding in counted if finding.cause in knowledge.causes and knowledge.cause(finding.cause).row == row.id]


def _is_root(findings: list[Finding], report: Report) -> bool:
    return report.diagnosis.root is not None and report.diagnosis.root in findings


def _requirement(result: RequirementResult) -> str:
    head, asked = junit_xml.head("requirements", result.text), words.asked(result)
    if result.met:
        return junit_xml.passed(head, [asked])
    return junit_xml.not_passed(head, "failure", result.why or asked, [asked], kind="requirement")
