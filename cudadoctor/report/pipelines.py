"""The report for the pages of a pipeline.

GitHub: workflow commands, annotations that stand beside the job, one line each: `::error title=TITLE::MESSAGE`. In a message %, CR and LF
are escaped, in a property : and , too. It shows ten errors and ten warnings of a step, so the gravest come first.
GitLab: code-quality JSON, a list of issues, each with a fingerprint that stays the same from run to run.
"""

from __future__ import annotations

import hashlib
from typing import Any

from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.findings import Finding
from cudadoctor.model.report import Report
from cudadoctor.report import json, words
from cudadoctor.report.clean import clean, one_line

SHOWN = 10  # annotations of one kind that GitHub shows of a step
QUOTES = 3  # quotes in the message of the cause
PATH = ".gitlab-ci.yml"  # an issue has to stand in a file of the project: the one that asked for this runner
SEVERITY = {"blocks": "blocker", "degrades": "major", "advises": "info"}


# ---------------------------------------------------------------- GitHub
def github(report: Report, knowledge: Knowledge) -> str:
    lines = []
    root = report.diagnosis.root
    if root is not None:
        level = "error" if report.verdict == "broken" or words.degraded_fails(report) else "warning"
        said = [knowledge.cause(root.cause).why, "", *words.quoted(root.evidence[:QUOTES]), *words.fix(report)]
        said += [f"Page of this cause: {root.url}"] if root.url else []
        lines.append(command(level, f"cudadoctor: {root.named}", "\n".join(said)))
    elif report.verdict in ("undecided", "degraded"):
        asks = [f"{ask.command}: {ask.why}" for ask in report.diagnosis.ask]
        said = [words.headline(report), *(f"possible: {one.named}" for one in report.diagnosis.suspects), *asks]
        lines.append(command("error" if report.exit_code else "warning", f"cudadoctor: {report.verdict}", "\n".join(said)))
    unmet = words.unmet(report)
    lines += [command("error", f"cudadoctor: {words.MET[one.met]}: {one.text}", one.why or words.asked(one)) for one in unmet[: SHOWN - 1]]
    for finding in report.diagnosis.also[:SHOWN]:
        level = "notice" if finding.ignored is not None or finding.effect == "advises" else "warning"
        note = words.expected(finding)
        said = [*([note] if note else []), *words.quoted(finding.evidence[:1])]
        lines.append(command(level, f"cudadoctor: {finding.named}", "\n".join(said)))
    if report.verdict == "healthy":
        lines.append(command("notice", "cudadoctor: healthy", words.headline(report)))
    return "".join(f"{line}\n" for line in lines)


def command(level: str, title: str, message: str) -> str:
    return f"::{level} title={_escaped(one_line(title)).replace(':', '%3A').replace(',', '%2C')}::{_escaped(clean(message))}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


# ---------------------------------------------------------------- GitLab
def gitlab(report: Report, knowledge: Knowledge) -> str:
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
