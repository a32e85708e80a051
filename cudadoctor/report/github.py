"""The report as GitHub workflow commands: annotations that stand beside the job, one line each.

    ::error title=TITLE::MESSAGE

In a message %, CR and LF are escaped, in a property : and , too. GitHub shows ten errors and ten warnings of a step, so the gravest come
first.
"""

from __future__ import annotations

from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.report import Report
from cudadoctor.report import words
from cudadoctor.report.clean import clean, one_line

SHOWN = 10  # annotations of one kind that GitHub shows of a step
QUOTES = 3  # quotes in the message of the cause


def render(report: Report, knowledge: Knowledge) -> str:
    lines = []
    root = report.diagnosis.root
    if root is not None:
        level = "error" if report.verdict == "broken" or words.degraded_fails(report) else "warning"
        said = [knowledge.cause(root.cause).why, "", *words.quoted(root.evidence[:QUOTES])]
        if report.prescription is not None:
            said += ["", "Fix:", *words.fix(report)]
        said += [f"Page of this cause: {root.url}"] if root.url else []
        lines.append(command(level, f"cudadoctor: {root.title} [{root.cause}]", "\n".join(said)))
    elif report.verdict in ("undecided", "degraded"):
        asks = [f"{ask.command}: {ask.why}" for ask in report.diagnosis.ask]
        said = [words.headline(report), *(f"possible: {one.title} [{one.cause}]" for one in report.diagnosis.suspects), *asks]
        lines.append(command("error" if report.exit_code else "warning", f"cudadoctor: {report.verdict}", "\n".join(said)))
    unmet = words.unmet(report)
    lines += [command("error", f"cudadoctor: {words.MET[one.met]}: {one.text}", one.why or words.asked(one)) for one in unmet[: SHOWN - 1]]
    for finding in report.diagnosis.also[:SHOWN]:
        level = "notice" if finding.ignored is not None or finding.effect == "advises" else "warning"
        note = words.expected(finding)
        said = [*([note] if note else []), *words.quoted(finding.evidence[:1])]
        lines.append(command(level, f"cudadoctor: {finding.title} [{finding.cause}]", "\n".join(said)))
    if report.verdict == "healthy":
        lines.append(command("notice", "cudadoctor: healthy", words.headline(report)))
    return "".join(f"{line}\n" for line in lines)


def command(level: str, title: str, message: str) -> str:
    return f"::{level} title={_property(one_line(title))}::{_data(clean(message))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
