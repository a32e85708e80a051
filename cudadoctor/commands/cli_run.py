"""The commands `run` and `compare`: parse, call runner and comparing, print, exit. Nothing is decided here.

As in cli.py only Click is imported at the top: the user's program starts as soon as its command line is read.
"""

from __future__ import annotations

import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from cudadoctor.commands import gathering, terminal
from cudadoctor.commands import options as groups

if TYPE_CHECKING:
    from cudadoctor.fleet.comparing import Compared
    from cudadoctor.model.evidence import Evidence
    from cudadoctor.model.use import Outcome


# ---------------------------------------------------------------- run
@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--require-gpu", is_flag=True, help="Exit 1 where the program ended with 0 and was not seen to use a GPU.")
@click.option("--output", metavar="FILE", help="Write what was seen as JSON into this file.")
@click.option(
    "--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="Colour of what follows the program's output."
)
@click.option("--ascii", "plain", is_flag=True, help="Write plain ASCII.")
@click.option("--quiet", is_flag=True, help="Say nothing after the program's output; the exit code speaks.")
@click.option("-v", "--verbose", is_flag=True, help="Say all reasons why no GPU was used, not the likeliest alone.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(command: tuple[str, ...], require_gpu: bool, output: str | None, color: str, plain: bool, quiet: bool, verbose: bool) -> None:
    """Run COMMAND as it is, then say on stderr whether it and its children really used a GPU.

    Input, output, signals and exit code are the program's own. Where it used no GPU the likely reason follows; where it failed, the cause
    that its own words name, and the fix. Put `--` before a command with options: `cudadoctor run -- python train.py --epochs 3`.
    """
    from cudadoctor.commands.runner import Run
    from cudadoctor.sources import passing

    if output is not None:
        terminal.outputs((f"json={output}",), ("json",))
    try:
        outcome, ended = Run(command, gathering.knowledge).outcome(require_gpu=require_gpu, explained=not quiet or output is not None)
    except passing.NotStartedError as error:
        terminal.say(f"cudadoctor: {error}\n")
        sys.exit(error.code)
    if not quiet:
        if ended.tail and not ended.tail.endswith(b"\n"):
            terminal.say("\n")
        _say(outcome, color, plain, verbose=verbose)
    if output is not None:
        _write(outcome, output)
    sys.stderr.flush()
    passing.end_alike(ended)
    sys.exit(outcome.exit_code)


def _say(outcome: Outcome, color: str, plain: bool, *, verbose: bool) -> None:
    from cudadoctor.report import run_text

    terminal.say(run_text.render(outcome, terminal.style(color, plain, verbose, sys.stderr)), drawn=True)


def _write(outcome: Outcome, path: str) -> None:
    from cudadoctor.report import json

    try:
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(json.render(outcome))
    except OSError as error:
        terminal.say(f"cudadoctor: --output {path}: {error.strerror}\n")


# ---------------------------------------------------------------- compare
@click.command()
@click.argument("a")
@click.argument("b")
@click.option("--format", "form", type=click.Choice(("text", "json")), default="text", show_default=True)
@click.option("--quick", is_flag=True, help="For `-`: stop before anything that imports Numba or launches a kernel.")
@click.option("--python", metavar="PATH", help="For `-`: examine this interpreter.")
@click.option("--timeout", type=groups.Seconds(min=1), default=60.0, show_default=True, help="For `-`: seconds for the whole run.")
@groups.shown
def compare(a: str, b: str, form: str, **options: Any) -> None:
    """Say what differs between A and B: before and after an upgrade, inside and outside a container, a good node and a bad one.

    A and B are reports (`check --format json`), recordings or bundles; `-` is this machine now. Exits 0 when nothing that matters differs,
    1 when something does.
    """
    if a == b == "-":
        raise terminal.usage("this machine now is one side: give a report or a recording as the other")
    from cudadoctor.fleet import comparing

    comparison = comparing.compare(_side(a, options), _side(b, options), gathering.knowledge())
    if form == "json":
        from cudadoctor.report import json

        terminal.write_json(json.render(comparison), options["plain"])
    elif not options["quiet"]:
        from cudadoctor.report import comparison_text

        style = terminal.style(options["color"], options["plain"], options["verbose"])
        terminal.write(comparison_text.render(comparison, style))
    sys.exit(0 if comparison.equal else 1)


def _side(what: str, options: dict[str, Any]) -> Compared:
    """The report of a file, of a recording or of this machine."""
    from cudadoctor.fleet.comparing import Compared
    from cudadoctor.model.judgement import Question
    from cudadoctor.sources import bundles, recording, saved_reports
    from cudadoctor.within.asking import Judge

    with closing(Judge(warm=what == "-")) as judge:
        if what == "-":
            from cudadoctor.model.requirements import Requirements

            machines: tuple[Evidence, ...] = (gathering.live({**options, "distro": None}, Requirements(), judge=judge),)
        else:
            try:
                saved = saved_reports.read(what)
                if saved is not None:
                    return Compared(name=what, report=saved)
                machines = bundles.replayed(what)
            except (saved_reports.SavedReportError, recording.RecordingError, bundles.BundleError) as error:
                raise terminal.usage(str(error)) from error
        answer = judge.answer(Question(machines=machines))
    return Compared(name="this machine now" if what == "-" else what, report=answer.report, evidence=machines[answer.machine])


COMMANDS: tuple[click.Command, ...] = (run, compare)
