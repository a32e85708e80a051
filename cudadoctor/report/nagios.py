"""The report as a Nagios plugin says it: one line, performance data behind a bar, and exit codes of its own."""

from __future__ import annotations

from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.pattern import lazy
from cudadoctor.model.report import BenchmarkResult, Report
from cudadoctor.report import words
from cudadoctor.report.clean import one_line

OK, WARNING, CRITICAL, UNKNOWN = 0, 1, 2, 3
_STATES = {OK: "OK", WARNING: "WARNING", CRITICAL: "CRITICAL", UNKNOWN: "UNKNOWN"}
_UNITS = {"ns": ("us", 1e-3), "us": ("us", 1.0), "ms": ("ms", 1.0), "s": ("s", 1.0)}  # those that Nagios knows; rates have none
_NOT_IN_LABEL = lazy(r"[^A-Za-z0-9_]")


def exit_code(report: Report) -> int:
    """CRITICAL: broken, or a requirement not met. WARNING: degraded. UNKNOWN: undecided, or nobody can answer a requirement."""
    if report.verdict == "broken" or any(result.met is False for result in report.requirements):
        return CRITICAL
    if report.verdict == "undecided" or words.unmet(report):
        return UNKNOWN
    if report.verdict == "degraded":
        return CRITICAL if report.exit_code else WARNING  # --strict: a degraded machine fails
    return CRITICAL if report.exit_code else OK  # `smoke`: a kernel did not run


def render(report: Report, knowledge: Knowledge) -> str:
    said = [words.headline(report)] if report.verdict != "healthy" or not words.unmet(report) else []
    said += [words.asked(result) for result in words.unmet(report)]
    if report.verdict == "undecided" and report.diagnosis.suspects:
        said.append("possible: " + ", ".join(finding.cause for finding in report.diagnosis.suspects[:3]))
    text = one_line("; ".join(said)).replace("|", "/")  # the bar begins the performance data
    return f"CUDADOCTOR {_STATES[exit_code(report)]} - {text} | {' '.join(_data(report))}\n"


def _data(report: Report) -> list[str]:
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
