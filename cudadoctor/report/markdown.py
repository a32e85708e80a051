"""The report as Markdown, as GitHub shows it in the summary of a job. Words of a machine are escaped or stand in code: they stay text."""

from __future__ import annotations

from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model import units
from cudadoctor.model.findings import Finding
from cudadoctor.model.recipe import Prescription
from cudadoctor.model.report import Report
from cudadoctor.report import words
from cudadoctor.report.clean import clean
from cudadoctor.report.manual_pages import block, code, escaped, prose

SIGNS = {"healthy": "✅", "degraded": "⚠️", "broken": "❌", "undecided": "❔"}
STATUS = {"pass": "✅ pass", "warn": "⚠️ warn", "fail": "❌ fail", "unknown": "❔ unknown", "skip": "skip"}
MET = {True: "✅ met", False: "❌ not met", None: "❔ not known"}


def render(report: Report, knowledge: Knowledge) -> str:
    lines = [f"## {SIGNS[report.verdict]} cudadoctor: {report.verdict}", "", f"**{escaped(words.headline(report))}**", ""]
    lines += _requirements(report)
    root = report.diagnosis.root
    if root is not None:
        lines += [
            prose(knowledge.cause(root.cause).why),
            "",
            *_evidence(root),
            *([f"Page of this cause: <{root.url}>", ""] if root.url else []),
        ]
    if report.prescription is not None:
        lines += _fix(report.prescription, words.proof(report))
    if report.verdict == "undecided":
        lines += _open(report)
    lines += _beside(report)
    beside = (*words.experiments(report), *report.notes)
    lines += [f"* {escaped(note)}" for note in beside]
    lines += [""] if beside else []
    lines += _machine(report) + _figures(report) + _rows(report)
    lines.append(
        f"verdict {report.verdict}, action {report.action}, exit code {report.exit_code}, cudadoctor {escaped(report.tool.version)}"
    )
    return "\n".join(lines) + "\n"


def _table(*columns: str) -> list[str]:
    return [f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"]


def _cell(text: str) -> str:
    """A cell holds code as escaped text: a bar inside backticks would end it."""
    return escaped(text) or " "


def _requirements(report: Report) -> list[str]:
    if not report.requirements:
        return []
    lines = _table("required", "", "found")
    for result in report.requirements:
        lines.append(f"| {_cell(result.text)} | {MET[result.met]} | {_cell(result.said)} |")
    return [*lines, ""]


def _evidence(finding: Finding) -> list[str]:
    lines = []
    for quote in finding.evidence:
        lines += [f"{escaped(words.where(quote))}:", "", block(quote.text, language="text"), ""]
    return lines


def _fix(prescription: Prescription, proof: str | None) -> list[str]:
    lines = ["### Fix" if prescription.steps else "### No software fix is known", ""]
    lines += [prose(proof), ""] if proof is not None else []
    if prescription.no_software_fix is not None:
        lines += [prose(prescription.no_software_fix), ""]
    for number, step in enumerate(prescription.steps, 1):
        who = " (administrator)" if step.who == "administrator" else ""
        lines += [f"{number}. {prose(words.told(step))}{who}", ""]
        for label, command in (("", step.shell), ("Verify:", step.verify), ("Undo:", step.undo)):
            if command:
                lines += [*([f"   {label}", ""] if label else []), block(command, 3), ""]
    return lines


def _open(report: Report) -> list[str]:
    diagnosis = report.diagnosis
    lines = [f"* possible: {escaped(finding.title)} {code(finding.cause)}" for finding in diagnosis.suspects]
    lines += [f"* a part failed: {escaped(f'{crash.stage}, {crash.name}: {crash.error}')}" for crash in diagnosis.crashes]
    lines += [f"* {code(ask.command)}: {prose(ask.why)}" for ask in diagnosis.ask]
    return ["### What would settle it", "", *lines, ""] if lines else []


def _beside(report: Report) -> list[str]:
    diagnosis = report.diagnosis
    lines = [f"* explained by it: {escaped(finding.title)} {code(finding.cause)}" for finding in diagnosis.explains]
    for finding in diagnosis.also:
        note = words.expected(finding) or finding.effect
        lines.append(f"* also: {escaped(finding.title)} {code(finding.cause)} ({escaped(note)})")
    return [*lines, ""] if lines else []


def _machine(report: Report) -> list[str]:
    machine = report.machine
    known = {
        "system": machine.distribution, "kernel": machine.kernel, "driver": machine.driver.version,
        "CUDA of the driver": machine.driver.cuda,
        "Python": " ".join(part for part in (machine.python.version, machine.python.path) if part),
    }  # fmt: skip
    lines = [f"| {name} | {_cell(text)} |" for name, text in known.items() if text]
    for gpu in machine.gpus:
        memory = f", {units.size(gpu.memory_bytes)}" if gpu.memory_bytes else ""
        hidden = ", not visible to CUDA" if gpu.visible is False else ""
        lines.append(f"| GPU | {_cell(f'{gpu.name or gpu.address or gpu.uuid}{memory}{hidden}')} |")
    return [*_table("machine", ""), *lines, ""] if lines else []


def _figures(report: Report) -> list[str]:
    lines = _table("benchmark", "GPU", "value", "share of the limit")
    for figure in report.benchmark:
        value = units.figure(figure.value, figure.unit) if figure.value is not None else f"not measured: {figure.why}"
        share = f"{figure.share:.0%} of {units.figure(figure.limit, figure.unit)}" if figure.share is not None and figure.limit else ""
        gpus = f"{figure.gpu} and {figure.peer}" if figure.peer is not None else str(figure.gpu)
        lines.append(f"| {_cell(figure.name)} | {gpus} | {_cell(value)} | {_cell(share)} |")
    return [*lines, ""] if report.benchmark else []


def _rows(report: Report) -> list[str]:
    lines = _table("row", "status", "found")
    for row in report.checks:
        lines.append(f"| {_cell(row.id)} | {STATUS[row.status]} | {_cell(clean(row.summary) + words.because(row))} |")
    return ["<details><summary>All rows</summary>", "", *lines, "", "</details>", ""]
