"""The report as JUnit XML: one test case for each row, and one for each requirement.

A row that failed is a failure; one that nobody could look at is skipped, for a requirement is the way to demand it. A requirement that is
not met, or that nobody can answer, is a failure.
"""

from __future__ import annotations

from html import escape

from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.findings import Finding
from cudadoctor.model.pattern import lazy
from cudadoctor.model.report import Report, RequirementResult, Row
from cudadoctor.report import words
from cudadoctor.report.clean import clean, one_line

_NOT_XML = lazy("[\ufffe\uffff]")  # what XML 1.0 refuses and `clean` leaves


def render(report: Report, knowledge: Knowledge) -> str:
    rows = [_row(row, report, knowledge) for row in report.checks]
    asked = [_requirement(result) for result in report.requirements]
    suites = [_suite("cudadoctor.rows", rows, report)] + ([_suite("cudadoctor.requirements", asked, None)] if asked else [])
    cases = rows + asked
    attributes = f'name="cudadoctor" {_counts(cases)} time="{report.timing.total_s or 0:.3f}"'
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + f"<testsuites {attributes}>\n" + "".join(suites) + "</testsuites>\n"


def _counts(cases: list[str]) -> str:
    failures, skipped = (sum(f"<{tag} " in case for case in cases) for tag in ("failure", "skipped"))
    return f'tests="{len(cases)}" failures="{failures}" errors="0" skipped="{skipped}"'


def _suite(name: str, cases: list[str], report: Report | None) -> str:
    properties = ""
    if report is not None:
        root = report.diagnosis.root
        known = {
            "verdict": report.verdict, "cause": root.cause if root is not None else "", "action": report.action,
            "url": (root.url or "") if root is not None else "",
            "exit_code": str(report.exit_code), "version": report.tool.version,
        }  # fmt: skip
        entries = "".join(f'      <property name="{key}" value="{_attribute(value)}"/>\n' for key, value in known.items())
        properties = f"    <properties>\n{entries}    </properties>\n"
    return f'  <testsuite name="{name}" {_counts(cases)}>\n{properties}{"".join(cases)}  </testsuite>\n'


def _row(row: Row, report: Report, knowledge: Knowledge) -> str:
    seconds = report.timing.rows.get(row.id)
    head = f'classname="cudadoctor.rows" name="{_attribute(row.id)}" time="{seconds or 0:.3f}"'
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
        return _case(head, f'<failure type="{_attribute(first.cause if first is not None else row.id)}"', message, body)
    if row.status in ("skip", "unknown"):
        why = f"{row.summary} (because: {row.because})" if row.because and row.because not in row.summary else row.summary
        return _case(head, "<skipped", why, [])
    said = [row.summary, *words.quoted(row.evidence)]
    return f"    <testcase {head}>\n      <system-out>{_body(said)}</system-out>\n    </testcase>\n"


def _findings(row: Row, report: Report, knowledge: Knowledge) -> list[Finding]:
    """The findings that a row shows, the root first."""
    diagnosis = report.diagnosis
    every = (*((diagnosis.root,) if diagnosis.root is not None else ()), *diagnosis.also, *diagnosis.suspects)
    counted = [finding for finding in every if finding.ignored is None and finding.effect != "advises"]
    return [finding for finding in counted if finding.cause in knowledge.causes and knowledge.cause(finding.cause).row == row.id]


def _is_root(findings: list[Finding], report: Report) -> bool:
    return report.diagnosis.root is not None and report.diagnosis.root in findings


def _requirement(result: RequirementResult) -> str:
    head = f'classname="cudadoctor.requirements" name="{_attribute(result.text)}" time="0"'
    if result.met:
        return f"    <testcase {head}>\n      <system-out>{_body([words.asked(result)])}</system-out>\n    </testcase>\n"
    return _case(head, '<failure type="requirement"', result.why or words.asked(result), [words.asked(result)])


def _case(head: str, tag: str, message: str, body: list[str]) -> str:
    name = tag.split()[0][1:]
    inner = f'{tag} message="{_attribute(message)}">{_body(body)}</{name}>' if body else f'{tag} message="{_attribute(message)}"/>'
    return f"    <testcase {head}>\n      {inner}\n    </testcase>\n"


def _attribute(text: str) -> str:
    return _xml(one_line(text))


def _body(lines: list[str]) -> str:
    return _xml(clean("\n".join(lines)))


def _xml(text: str) -> str:
    return escape(_NOT_XML.sub(lambda match: f"\\u{ord(match.group()):04x}", text), quote=True)
