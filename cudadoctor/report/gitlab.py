"""The report as GitLab's code-quality JSON: a list of issues, each with a fingerprint that stays the same from run to run."""

from __future__ import annotations

import hashlib
from typing import Any

from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.findings import Finding
from cudadoctor.model.report import Report
from cudadoctor.report import json, words
from cudadoctor.report.clean import one_line

PATH = ".gitlab-ci.yml"  # an issue has to stand in a file of the project: the one that asked for this runner
SEVERITY = {"blocks": "blocker", "degrades": "major", "advises": "info"}


def render(report: Report, knowledge: Knowledge) -> str:
    diagnosis = report.diagnosis
    issues = [_finding(finding) for finding in ((diagnosis.root,) if diagnosis.root is not None else ())]
    issues += [_finding(finding) for finding in diagnosis.also]
    issues += [_finding(finding, "major") for finding in diagnosis.suspects]
    if report.verdict == "undecided" and not diagnosis.suspects:
        issues.append(_issue("undecided", words.headline(report), "major", "undecided"))
    issues += [_issue("requirement", words.asked(one), "critical", f"requirement {one.text}") for one in words.unmet(report)]
    once = {issue["fingerprint"]: issue for issue in reversed(issues)}
    return json.indented(list(reversed(once.values())))


def _finding(finding: Finding, severity: str | None = None) -> dict[str, Any]:
    where = f" ({finding.subject.partition(':')[2]})" if ":" in finding.subject else ""
    note = words.expected(finding)
    said = f"{finding.title}{where}" + (f"; {note}" if note else "")
    grade = "info" if finding.ignored is not None else severity or SEVERITY[finding.effect]
    return _issue(finding.cause, said, grade, f"{finding.cause} {finding.subject}")


def _issue(name: str, description: str, severity: str, identity: str) -> dict[str, Any]:
    return {
        "description": one_line(description),
        "check_name": name,
        "fingerprint": hashlib.sha256(f"cudadoctor {identity}".encode("utf-8", "replace")).hexdigest(),
        "severity": severity,
        "location": {"path": PATH, "lines": {"begin": 1}},
    }
