"""The report as plugins of monitors say it, each with exit codes of its own.

Nagios: one line, performance data behind a bar. node-problem-detector: one line of at most 80 bytes, the cause id first.
"""

from __future__ import annotations

from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.pattern import lazy
from cudadoctor.model.report import BenchmarkResult, Report
from cudadoctor.report import words
from cudadoctor.report.clean import one_line

OK, WARNING, CRITICAL, UNKNOWN = 0, 1, 2, 3  # of Nagios
_STATES = {OK: "OK", WARNING: "WARNING", CRITICAL: "CRITICAL", UNKNOWN: "UNKNOWN"}
_UNITS = {"ns": ("us", 1e-3), "us": ("us", 1.0), "ms": ("ms", 1.0), "s": ("s", 1.0)}  # those that Nagios knows; rates have none
_NOT_IN_LABEL = lazy(r"[^A-Za-z0-9_]")
NPD_OK, NPD_PROBLEM, NPD_UNKNOWN = 0, 1, 2
LIMIT = 79  # bytes; with the line break 80, which is what node-problem-detector keeps of a plugin's output


# ---------------------------------------------------------------- Nagios
def nagios_exit_code(report: Report) -> int:
    """CRITICAL: broken, or a requirement not met. WARNING: degraded. UNKNOWN: undecided, or nobody can answer a requirement."""
    if report.verdict == "broken" or any(result.met is False for result in report.requirements):
        return CRITICAL
    if report.verdict == "undecided" or words.unmet(report):
        return UNKNOWN
    if report.verdict == "degraded":
        return CRITICAL if report.exit_code else WARNING  # --strict: a degraded machine fails
    return CRITICAL if report.exit_code else OK  # `smoke`: a kernel did not run


def nagios(report: Report, knowledge: Knowledge) -> str:
    said = [words.headline(report)] if report.verdict != "healthy" or not words.unmet(report) else []
    said += [words.asked(result) for result in words.unmet(report)]
    if report.verdict == "undecided" and report.diagnosis.suspects:
        said.append("possible: " + ", ".join(finding.cause for finding in report.diagnosis.suspects[:3]))
    text = one_line("; ".join(said)).replace("|", "/")  # the bar begins the performance data
    return f"CUDADOCTOR {_STATES[nagios_exit_code(report)]} - {text} | {' '.join(_performance(report))}\n"


def _performance(report: Report) -> list[str]:
    """'label'=value[unit];[warning];[critical];[minimum];[maximum]."""
    out = [f"gpus={sum(gpu.visible is True for gpu in report.machine.gpus)};;;0"]
    if report.timing.total_s is not None:
        out.append(f"time={report.timing.total_s:.3f}s;;;0")
    return out + [_figure(figure) for figure in report.benchmark if figure.value is not None]


def _figure(figure: BenchmarkResult) -> str:
    unit, factor = _UNITS.get(figure.unit, ("", 1.0))
    name = figure.name if unit else f"{figure.name}_{figure.unit.replace('/s', 'ps')}"
    other = f"_gpu{figure.peer}" if figure.peer is not None else ""
    label = f"gpu{figure.gpu}{other}_{_NOT_IN_LABEL.sub('_', name)}"
    most = f"{figure.limit:.6g}" if figure.limit is not None and not unit else ""
    return f"{label}={(figure.value or 0.0) * factor:.6g}{unit};;;0;{most}".rstrip(";")


# ---------------------------------------------------------------- node-problem-detector
def npd_exit_code(report: Report) -> int:
    """A degraded node still runs pods: it is no problem unless --strict makes it one."""
    if report.verdict == "broken" or words.unmet(report):
        return NPD_PROBLEM
    return NPD_UNKNOWN if report.verdict == "undecided" else NPD_PROBLEM if report.exit_code else NPD_OK


def npd(report: Report, knowledge: Knowledge) -> str:
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
