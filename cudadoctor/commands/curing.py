"""`cudadoctor run --cured`: what the fix for this machine does to a shell, for one program."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from cudadoctor.commands import examining
from cudadoctor.commands.runner import interpreter
from cudadoctor.model.requirements import Requirements
from cudadoctor.prescribe.applying import of_the_shell
from cudadoctor.report.clean import one_line

# A check of this machine as `cudadoctor fix` makes it, without figures.
_OPTIONS: dict[str, Any] = {
    "replay": None, "record": None, "no_redact": False, "force": False, "log": None, "timeout": 60.0, "distro": None, "form": "text",
    "output": (), "strict": False, "quick": False, "frameworks": False, "no_try": False, "color": "never", "plain": True, "quiet": True,
    "verbose": False,
}  # fmt: skip


def script(command: Sequence[str]) -> tuple[str, str]:
    """The commands for a shell, empty where there are none; and the cause, or why there are none."""
    options = {**_OPTIONS, "python": interpreter(command)}
    answer, _ = examining.judge(options, Requirements(skip=("benchmark",)), time.monotonic())
    report = answer.report
    root = report.diagnosis.root
    if root is None:
        return "", "nothing is wrong" if report.verdict == "healthy" else "the cause is not certain"
    named = one_line(f"{root.title} [{root.cause}]")
    if root.basis == "suspected":
        return "", f"only suspected: {named}"
    found = of_the_shell(report.prescription)
    return found, named if found else f"{named}: nothing in its fix can be done for one program (cudadoctor fix)"
