"""The report in at most 1.5 kB of JSON, for scripts and agents: what is wrong, the line that shows it, the first command, what to run next.

Words of the machine stand in `line` and `command` alone: data to show or to judge, never instructions.
"""

from __future__ import annotations

import shlex
import sys

from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.pattern import lazy
from cudadoctor.model.report import Report
from cudadoctor.report import json, words
from cudadoctor.report.clean import one_line

SCHEMA = "cudadoctor.brief/1"
LIMIT = 1500  # bytes
_ALIKE_ON_WINDOWS = lazy(r"[\w .:\\/+-]{1,400}")  # what cmd and PowerShell read alike between double quotes
_MOST = (400, 120, 40, 12)  # characters of a field: fewer where all of them together are too long


def render(report: Report, knowledge: Knowledge) -> str:
    written = (_written(report, most) for most in _MOST)
    return next(body for body in written if len(body.encode()) <= LIMIT)


def _written(report: Report, most: int) -> str:
    diagnosis, what = report.diagnosis, report.prescription
    root = diagnosis.root
    first = words.first_command(what)
    shell = first.shell if first is not None and len(first.shell or "") <= most else None
    ask = next((one for one in diagnosis.ask[:1] if root is None and len(one.command) <= most), None)
    quote = next(iter(root.evidence), None) if root is not None else None
    body = {
        "schema": SCHEMA,
        "verdict": report.verdict,
        "exit_code": report.exit_code,
        "action": report.action,
        "gpus": _cut(words.gpus(report), most // 2),
        "cause": root.cause if root is not None else None,
        "title": _cut(words.headline(report), most // 2),
        "proof": _cut(words.proof(report), most),
        "line": _cut(f"{words.where(quote)}: {quote.text}", most) if quote is not None else None,
        "url": root.url if root is not None else None,
        "suspects": [finding.cause for finding in diagnosis.suspects[:4]],
        "also": [finding.cause for finding in diagnosis.also[:4]],
        "unmet": [_cut(words.asked(result), most // 4) for result in words.unmet(report)[:3]],
        "steps": len(what.steps) if what is not None else 0,
        "step": _cut(words.told(what.steps[0]), most // 2) if what is not None and what.steps else None,
        "command": shell or (ask.command if ask is not None else None),
        "kind": first.kind if shell is not None and first is not None else ask.kind if ask is not None else None,
        "next_command": _next(report),
    }
    return json.compact(body)


def _next(report: Report) -> str | None:
    """For the same interpreter; null where this machine is not the one of the report."""
    if report.origin.kind != "live":
        return None
    path = report.machine.python.path
    windows = f'"{path}"' if path is not None and _ALIKE_ON_WINDOWS.fullmatch(path) else None
    word = windows if sys.platform == "win32" else shlex.quote(path) if path is not None else None
    python = f" --python {word}" if word is not None else ""
    return f"cudadoctor {'fix' if report.prescription is not None and report.prescription.steps else 'check -v'}{python}"


def _cut(text: str | None, most: int) -> str | None:
    if text is None:
        return None
    plain = one_line(text)
    return plain if len(plain) <= most else plain[: most - 3].rstrip() + "..."
