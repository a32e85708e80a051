"""The report as a plugin of node-problem-detector says it: one line of at most 80 bytes, the cause id first; exit codes 0, 1 and 2."""

from __future__ import annotations

from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.report import Report
from cudadoctor.report import words
from cudadoctor.report.clean import one_line

OK, PROBLEM, UNKNOWN = 0, 1, 2
LIMIT = 79  # bytes; with the line break 80, which is what node-problem-detector keeps of a plugin's output


def exit_code(report: Report) -> int:
    """A degraded node still runs pods: it is no problem unless --strict makes it one."""
    if report.verdict == "broken" or words.unmet(report):
        return PROBLEM
    return UNKNOWN if report.verdict == "undecided" else PROBLEM if report.exit_code else OK


def render(report: Report, knowledge: Knowledge) -> str:
    return _cut(one_line(_said(report))) + "\n"


def _said(report: Report) -> str:
    root, unmet = report.diagnosis.root, words.unmet(report)
    if root is not None and (report.verdict == "broken" or not unmet):
        where = f"{root.subject.removeprefix('gpu:')}: " if root.subject.startswith("gpu:") else ""
        return f"{root.cause} {where}{root.title}"
    if unmet:
        return f"requirement-not-met {words.asked(unmet[0])}"
    if report.verdict == "undecided":
        suspects = report.diagnosis.suspects
        return f"undecided {f'perhaps {suspects[0].cause}' if suspects else words.headline(report)}"
    return f"healthy {words.headline(report)}"


def _cut(text: str) -> str:
    """At most LIMIT bytes of UTF-8, no character cut in two."""
    raw = text.encode("utf-8", "replace")
    return text if len(raw) <= LIMIT else raw[: LIMIT - 3].decode("utf-8", "ignore").rstrip() + "..."
