"""`cudadoctor run`: a program runs as it would without the doctor; then whether it used a GPU, and why not.

Only Click is imported at the top: the user's program starts as soon as its command line is read.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from cudadoctor.commands import gathering, helping, terminal

if TYPE_CHECKING:
    from cudadoctor.model.use import Outcome


@helping.command(
    "Diagnose",
    "Run a program, and say whether it used a GPU.",
    ("cudadoctor run -- python train.py", "as it is"),
    ("cudadoctor run --cured -- python train.py", "with what the fix does to a shell"),
    ("cudadoctor run --require-gpu -- pytest", "exit code 1 where no GPU was used"),
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option("--require-gpu", is_flag=True, help="Exit 1 where the program ended with 0 and was not seen to use a GPU.")
@click.option("--cured", is_flag=True, help="Check first, and start COMMAND with what the fix does to a shell (unset, export, ulimit).")
@click.option("--output", metavar="FILE", help="Write what was seen as JSON into this file.")
@click.option(
    "--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="Colour of what follows the program's output."
)
@click.option("--ascii", "plain", is_flag=True, help="Write plain ASCII.")
@click.option("--quiet", is_flag=True, help="Say nothing after the program's output; the exit code speaks.")
@click.option("-v", "--verbose", is_flag=True, help="Say all reasons why no GPU was used, not the likeliest alone.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(
    command: tuple[str, ...], require_gpu: bool, cured: bool, output: str | None, color: str, plain: bool, quiet: bool, verbose: bool
) -> None:
    """Run COMMAND as it is, then say on stderr whether it and its children really used a GPU.

    Input, output, signals and exit code are the program's own. Where it used no GPU the likely reason follows; where it failed, the cause
    that its own words name, and the fix. Put `--` before a command with options: `cudadoctor run -- python train.py --epochs 3`.
    """
    from cudadoctor.commands.runner import Run
    from cudadoctor.sources import passing

    if command[0].startswith("--"):
        raise terminal.usage(f"{command[0]} is no option of `run`; the program comes first: cudadoctor run -- PROGRAM [OPTIONS]")
    if output is not None:
        terminal.outputs((f"json={output}",), ("json",))
    try:
        started = _cured(command) if cured else command
        running = Run(command, gathering.knowledge, started=started)
        outcome, ended = running.outcome(require_gpu=require_gpu, explained=not quiet or output is not None)
    except passing.NotStartedError as error:
        terminal.say(f"cudadoctor: {error}\n")
        sys.exit(error.code)
    if not quiet:
        if ended.tail and not ended.tail.endswith(b"\n"):
            terminal.say("\n")
        from cudadoctor.report import run_text

        terminal.say(run_text.render(outcome, terminal.style(color, plain, verbose, sys.stderr)), drawn=True)
    if output is not None:
        _write(outcome, output)
    sys.stderr.flush()
    passing.end_alike(ended)
    sys.exit(outcome.exit_code)


def _cured(command: tuple[str, ...]) -> tuple[str, ...]:
    """The command behind a shell that was given the session steps of the fix for what is wrong here."""
    from cudadoctor.sources import applying

    script, why = session_steps(command)
    if not script:
        terminal.say(f"cudadoctor: {why}; the program runs as it is\n")
        return command
    terminal.say("".join(f"cudadoctor: {line}\n" for line in (why, *script.split("\n"))))
    limits = [line for line in script.split("\n") if line.startswith("ulimit ")]
    variables = applying.after("\n".join(line for line in script.split("\n") if line not in limits))
    if variables is None:
        terminal.say("cudadoctor: the shell did not carry that out; the program runs as it is\n")
        return command
    os.environ.clear()  # for what is said of the program too
    os.environ.update(variables)
    if not limits:
        return command
    return ("/bin/sh", "-c", "\n".join((*limits, 'exec "$@"')), command[0], *command)  # a limit is a process's own


def session_steps(command: tuple[str, ...]) -> tuple[str, str]:
    """The commands for a shell, empty where there are none; and the cause, or why there are none."""
    from cudadoctor.commands import examining
    from cudadoctor.commands.fix import fix
    from cudadoctor.commands.runner import interpreter
    from cudadoctor.model import exit_codes
    from cudadoctor.prescribe import applying as planning
    from cudadoctor.report.clean import one_line

    options = fix.make_context("fix", ["--quiet"]).params  # a check of this machine as `cudadoctor fix` makes it, without figures
    answer, knowledge = examining.judge({**options, "python": interpreter(command), "skip": ("benchmark",)})
    report = answer.report
    if report.exit_code == exit_codes.INTERRUPTED:
        raise KeyboardInterrupt
    root, why = report.diagnosis.root, planning.refusal(report, knowledge.own_causes())
    if root is None or why is not None:
        return "", one_line(why or "")
    named = one_line(root.named)
    found = planning.of_the_shell(report.prescription)
    return found, named if found else f"{named}: nothing in its fix can be done for one program (cudadoctor fix)"


def _write(outcome: Outcome, path: str) -> None:
    from cudadoctor.report import json
    from cudadoctor.sources import writing

    try:
        writing.text(path, terminal.gated(json.render(outcome), json=True))
    except OSError as error:
        terminal.say(f"cudadoctor: --output {path}: {error.strerror}\n")
