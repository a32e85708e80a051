"""`cudadoctor fix`: the steps that cure the root cause, or a cause that the user names. Nothing is changed."""

from __future__ import annotations

import sys
import time
from typing import Any

import click

from cudadoctor.commands import examining, gathering, terminal
from cudadoctor.commands import options as groups


@click.command()
@click.argument("cause", required=False, shell_complete=examining.causes_of)
@click.option("--suggest", is_flag=True, help="Print the steps; this is what `fix` does anyway. Nothing is changed.")
@click.option("--script", is_flag=True, help="Print the steps as a shell script to review.")
@examining.quick_option
@examining.frameworks_option
@examining.evidence_options
@groups.shown
def fix(cause: str | None, suggest: bool, script: bool, **options: Any) -> None:
    """Print the steps that cure the root cause (or CAUSE) on this machine. Changes nothing."""
    started = time.monotonic()
    knowledge = gathering.knowledge()
    if cause is not None and cause not in knowledge.causes:
        from cudadoctor.commands.explaining import nearest

        raise terminal.usage(f"{cause!r} is not a cause; `cudadoctor causes` lists them{nearest(cause, knowledge.causes)}")
    groups.outputs(options)
    named = (cause,) if cause is not None else ()
    answer, knowledge = examining.judge(options, examining.requirements(options), started, steps_for=named, shell=script)
    from cudadoctor.judge.asked_for import exit_code
    from cudadoctor.report import fix_text
    from cudadoctor.report import script as as_script

    report = answer.report
    prescription = report.prescription if cause is None else answer.steps.get(cause)
    body = (
        as_script.render(report, prescription, powershell=answer.windows)
        if script
        else fix_text.render(report, prescription, knowledge, examining.style(options), named=cause)
    )
    examining.finish(report, knowledge, options, body)
    sys.exit(exit_code(report, prescription, named=cause is not None))
