"""The command line: parse, call app, render, exit. Nothing is decided here.

Only Click is imported at the top, so that --help answers at once; everything else is imported while child processes already run.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any, NoReturn

import click

from cudadoctor.commands import cli_run, gathering, terminal
from cudadoctor.commands import options as groups
from cudadoctor.commands import setup as cli_setup
from cudadoctor.model import exit_codes

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from cudadoctor.knowledge.load import Knowledge
    from cudadoctor.model.evidence import Evidence
    from cudadoctor.model.judgement import Answer
    from cudadoctor.model.report import Report
    from cudadoctor.model.requirements import Requirements
    from cudadoctor.report.text import Style
    from cudadoctor.within.asking import Judge

FORMATS = ("text", "json")
ROWS = (
    "gpu", "driver", "device-nodes", "container", "nvidia-smi", "nvml", "libcuda", "visible-devices", "toolkit", "cuda-home",
    "python", "numba", "health", "processes", "smoke", "benchmark",
)  # fmt: skip


class RowType(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """A row's id; the rows of extensions are looked up only where the doctor has none of that name."""

    name = "row"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in ROWS and value not in {check.id for check in gathering.knowledge().more_checks}:
            self.fail(f"{value!r} is not a row; `cudadoctor check --list` lists them", param, ctx)
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        return [CompletionItem(row) for row in ROWS if row.startswith(incomplete)]


shown = groups.shown
evidence_options = groups.group(
    click.option(
        "--python",
        metavar="PATH",
        help="Examine this interpreter. Else: VIRTUAL_ENV's, CONDA_PREFIX's, the first on PATH, the doctor's own.",
    ),
    click.option("--replay", metavar="PATH", help="Read a recording or a bundle (nvidia-bug-report.log.gz, sos) instead of this machine."),
    click.option("--record", metavar="PATH", help="Write the evidence of this run as a recording (a folder, or a .tar.gz)."),
    click.option("--no-redact", is_flag=True, help="With --record: keep names, UUIDs and all variables."),
    click.option("--force", is_flag=True, help="With --record: replace what is there."),
    click.option("--log", "log", metavar="FILE", help="Add the text that your program printed ('-' is standard input)."),
    click.option("--timeout", type=groups.Seconds(min=1), default=60.0, show_default=True, help="Seconds for the whole run."),
    click.option("--distro", metavar="NAME", help="Print commands for this distribution, such as ubuntu-24.04."),
    groups.format_options,
    click.option("--strict", is_flag=True, help="Exit 1 when the machine is degraded."),
)

frameworks_option = click.option(
    "--frameworks", is_flag=True, help="Import the GPU frameworks (PyTorch, JAX ...) too and compute with each; --log naming one does so."
)


def _version(context: click.Context, parameter: click.Parameter, asked: bool) -> None:
    if asked and not context.resilient_parsing:
        from cudadoctor.commands import about

        terminal.write(about.text())
        context.exit()


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show versions, for a bug report.")
def cli() -> None:
    """Names the one cause that keeps a GPU program from running, shows the lines that prove it, and prints the fix."""


# ---------------------------------------------------------------- what every judging command does
def _style(options: dict[str, Any]) -> Style:
    return terminal.style(options["color"], options["plain"], options["verbose"])


def _gathered(options: dict[str, Any], requirements: Requirements, judge: Judge) -> tuple[tuple[Evidence, ...], bool]:
    """The evidence, and whether Ctrl-C ended the collection: what is known by then is shown all the same."""
    try:
        return gathering.gather(options, requirements, judge), False
    except KeyboardInterrupt as stop:
        if not hasattr(stop, "evidence") or options.get("watch") is not None:
            raise  # a watch shows its last whole look
        return (stop.evidence,), True


def _judge(options: dict[str, Any], requirements: Requirements, started: float, **wanted: Any) -> tuple[Answer, Knowledge]:
    """`wanted`: what else of the answer is asked for (model/judgement.py)."""
    from cudadoctor.within.asking import Judge

    with closing(Judge(warm=options["replay"] is None)) as judge:
        import msgspec

        from cudadoctor.model.judgement import Question

        options, knowledge = groups.settled(options), gathering.knowledge()
        found = groups.found_policy(options, knowledge)
        requirements = groups.stricter(requirements, found)
        machines, interrupted = _gathered(options, requirements, judge)
        policy = groups.asked_policy(found)
        question = Question(machines=machines, requirements=requirements, policy=policy, today=groups.today(), interrupted=interrupted)
        answer = judge.answer(msgspec.structs.replace(question, **wanted))
    report = answer.report if interrupted else groups.with_remark(answer.report, found)
    if report.origin.kind == "live":
        timing = msgspec.structs.replace(report.timing, total_s=round(time.monotonic() - started, 3))
        report = msgspec.structs.replace(report, timing=timing)
    return msgspec.structs.replace(answer, report=report), knowledge


def _finish(report: Report, knowledge: Knowledge, options: dict[str, Any], body: str | None = None) -> None:
    """`body`: what stands on stdout as text, where it is not the report."""
    if options["form"] != "text":
        groups.write_stdout(report, knowledge, options, _style(options))
    elif not options["quiet"]:
        from cudadoctor.report import text

        terminal.write(text.render(report, knowledge, _style(options)) if body is None else body)
    # Files come last: what cannot be written there is at least on stdout.
    from cudadoctor.report.page import Style

    groups.write_files(report, knowledge, options, Style(width=100, ascii=options["plain"], verbose=options["verbose"]))


def _requirements(options: dict[str, Any], *, kernel: bool = False) -> Requirements:
    from cudadoctor.model.requirements import Requirements

    return Requirements(strict=options["strict"], only=options.get("only", ()), skip=options.get("skip", ()), needs_kernel=kernel)


# ---------------------------------------------------------------- commands
@cli.command()
@click.option("--quick", is_flag=True, help="Stop before anything that imports Numba or launches a kernel.")
@frameworks_option
@click.option("--only", multiple=True, type=RowType(), help="Only this row; may be repeated.")
@click.option("--skip", multiple=True, type=RowType(), help="Not this row; may be repeated.")
@click.option("--list", "list_rows", is_flag=True, help="List the rows and what each looks at.")
@click.option(
    "--watch",
    is_flag=False,
    flag_value=5.0,
    type=groups.Seconds(min=0.5),
    metavar="[SECONDS]",
    help="Look again every 5 s, or so many, until Ctrl-C; a pipe gets a line for each change.",
)
@click.option("--busy", is_flag=True, help="Measure on a GPU too on which another process computes.")
@groups.policy_options
@evidence_options
@shown
def check(**options: Any) -> None:
    """Examine this machine, name the root cause, and end with a smoke test and a mini benchmark."""
    started = time.monotonic()
    if options["list_rows"]:
        from cudadoctor.checks import rows

        terminal.write("".join(f"{row.id:<16} {row.title}: {row.looks_at}\n" for row in rows.of(gathering.knowledge())))
        return
    groups.outputs(options)
    if options["watch"] is not None:
        _watch(options)
    answer, knowledge = _judge(options, _requirements(options), started)
    _finish(answer.report, knowledge, options)
    sys.exit(groups.exit_code(answer.report, options))


def _watch(options: dict[str, Any]) -> NoReturn:
    """Ends with the exit code of the last look."""
    clash = next((name for name in ("replay", "record", "output") if options[name]), None)
    if clash is not None or options["form"] != "text" or options["log"] == "-":
        other = f"--{clash}" if clash is not None else "--log -" if options["log"] == "-" else f"--format {options['form']}"
        raise terminal.usage(f"--watch looks at this machine again and again: it does not go with {other}")
    from cudadoctor.commands import watching
    from cudadoctor.report import text

    def look() -> Report:
        return _judge({**options, "quiet": True}, _requirements(options), time.monotonic())[0].report

    def page(report: Report) -> str:
        return text.render(report, gathering.knowledge(), _style(options))

    last = watching.watch(look, page, every=options["watch"], screen=sys.stdout.isatty())
    sys.exit(exit_codes.INTERRUPTED if last is None else groups.exit_code(last, options))


def _causes(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """For a shell that completes."""
    return [cause for cause in gathering.knowledge().causes if cause.startswith(incomplete)]


@cli.command()
@click.argument("cause", required=False, shell_complete=_causes)
@click.option("--suggest", is_flag=True, help="Print the steps; this is what `fix` does anyway. Nothing is changed.")
@click.option("--script", is_flag=True, help="Print the steps as a shell script to review.")
@click.option("--quick", is_flag=True, help="Stop before anything that imports Numba or launches a kernel.")
@frameworks_option
@evidence_options
@shown
def fix(cause: str | None, suggest: bool, script: bool, **options: Any) -> None:
    """Print the steps that cure the root cause (or CAUSE) on this machine. Changes nothing."""
    started = time.monotonic()
    knowledge = gathering.knowledge()
    if cause is not None and cause not in knowledge.causes:
        from cudadoctor.commands.explaining import nearest

        raise terminal.usage(f"{cause!r} is not a cause; `cudadoctor causes` lists them{nearest(cause, knowledge.causes)}")
    groups.outputs(options)
    answer, knowledge = _judge(options, _requirements(options), started, steps_for=(cause,) if cause is not None else (), shell=script)
    from cudadoctor.judge import fixing

    report = answer.report
    prescription = report.prescription if cause is None else answer.steps.get(cause)
    body = (
        fixing.script(report, prescription, powershell=answer.windows)
        if script
        else fixing.render(report, prescription, knowledge, _style(options), named=cause)
    )
    _finish(report, knowledge, options, body)
    sys.exit(fixing.exit_code(report, prescription, named=cause is not None))


@cli.command()
@click.option("--memory", default="256MiB", show_default=True, metavar="SIZE", help="Device memory to test: a size or a share as 90%.")
@click.option("--duration", type=groups.Seconds(min=0), default=0.0, metavar="SECONDS", help="Keep each GPU under load for so long.")
@groups.policy_options
@evidence_options
@shown
def smoke(memory: str, duration: float, **options: Any) -> None:
    """Climb the ladder on every visible GPU and test its arithmetic, memory and streams. Exits 0 only when all of it was right."""
    started = time.monotonic()
    groups.outputs(options)
    from cudadoctor.commands import smoking

    options = {**options, **smoking.on_gpus(memory, duration, verbose=options["verbose"], timeout=options["timeout"])}
    answer, knowledge = _judge(options, _requirements(options, kernel=True), started)

    report = smoking.required(answer.report)
    _finish(report, knowledge, options, smoking.render(report, knowledge, _style(options)))
    sys.exit(groups.exit_code(report, options))


@cli.command()
@click.option("--save", metavar="FILE", help="Keep the figures of this run, for --against.")
@click.option("--against", metavar="FILE", help="Compare with figures that --save kept.")
@groups.policy_options
@evidence_options
@shown
def bench(save: str | None, against: str | None, **options: Any) -> None:
    """Measure every visible GPU beside what its link, memory and clocks can do: copies, arithmetic, launches, copies between GPUs."""
    started = time.monotonic()
    groups.outputs(options)
    from cudadoctor.commands import benching

    saved = benching.read_saved(against) if against is not None else None
    answer, knowledge = _judge({**options, "on_gpus": ("bench",)}, _requirements(options), started)
    report = benching.compared(answer.report, saved, knowledge, strict=options["strict"])
    if save is not None:
        benching.save(report, save)
    _finish(report, knowledge, options, benching.render(report, knowledge, _style(options), against=against))
    sys.exit(groups.exit_code(report, options))


@cli.command()
@click.option("-o", "--output", "target", metavar="PATH", help="A folder, or a file that ends in .tar.gz.")
@click.option("--script", is_flag=True, help="Print a program that records a machine where only Python 3.6 or later is; see its --help.")
@click.option("--quick", is_flag=True, help="Stop before anything that imports Numba or launches a kernel.")
@click.option("--frameworks", is_flag=True, help="Import the GPU frameworks (PyTorch, JAX ...) too and compute with each.")
@click.option("--no-redact", is_flag=True, help="Keep names, UUIDs and all variables.")
@click.option("--force", is_flag=True, help="Replace what is there.")
@click.option("--python", metavar="PATH", help="Examine this interpreter.")
@click.option("--timeout", type=groups.Seconds(min=1), default=60.0, show_default=True, help="Seconds for the whole run.")
@shown
@click.pass_context
def record(context: click.Context, /, target: str | None, script: bool, no_redact: bool, force: bool, **options: Any) -> None:
    """Write the evidence of this machine as a recording that `check --replay` reads anywhere."""
    from cudadoctor.model.requirements import Requirements

    if script:
        _print_script(context)
        return
    if target is None:
        raise terminal.usage("-o names the recording: a folder, or a file that ends in .tar.gz")
    terminal.check_target(target, force=force)
    evidence = gathering.live({**options, "distro": None}, Requirements())
    said = gathering.write_recording(evidence, target, keep=no_redact, force=force)
    if not options["quiet"]:
        terminal.write(said)


def _print_script(context: click.Context) -> None:
    """The program is the same whatever it will be asked for, so what it takes itself has no effect here."""
    own = {
        "target": "-o",
        "quick": "--quick",
        "frameworks": "--frameworks",
        "no_redact": "--no-redact",
        "force": "--force",
        "python": "--python",
        "timeout": "--timeout",
    }
    given = [option for name, option in own.items() if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE]
    if given:
        are = "is an option" if len(given) == 1 else "are options"
        raise terminal.usage(f"--script prints the program; {', '.join(given)} {are} of the program itself: give it to that when it runs")
    from cudadoctor.sources import collecting

    terminal.write(collecting.script(gathering.knowledge().more_probes))


def _judges(what: str, ends: ExitStack) -> Callable[[], Judge]:
    """Gives the child that judges. Where it is seen at once that there is a text it starts now; the page of a code needs none."""

    def start() -> Judge:
        from cudadoctor.within.asking import Judge

        return ends.enter_context(closing(Judge()))

    early = start() if what == "-" or len(what.split()) > 3 or os.path.exists(what) else None
    return lambda: early or start()


@cli.command()
@click.argument("what", shell_complete=_causes)
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", show_default=True)
@click.option("--distro", metavar="NAME", help="Print commands for this distribution, such as ubuntu-24.04.")
@shown
def explain(what: str, form: str, distro: str | None, **options: Any) -> None:
    """Explain a code, a cause, a thing or a text.

    WHAT is `-`, a cause id, a code (`cuda 100`, `Xid 79`), an environment variable, a GPU (`GK208M`, `10de:1292`, `sm_90`), a version
    (`driver 470`, `cuda 12.4`, `ptx 8.5`, `gcc 13`, `numba 0.60`), a file, or the text itself.
    """
    with ExitStack() as ends:
        judge = _judges(what, ends)
        from cudadoctor.commands import explaining

        knowledge, style = gathering.knowledge(), _style(options)
        try:
            body, code = explaining.answer(what, knowledge, judge, form=form, style=style, distro=distro, stdin=sys.stdin.buffer)
        except explaining.NotUnderstoodError as error:
            raise terminal.usage(str(error)) from error
    if form == "json":
        terminal.write_json(body, options["plain"])
    elif not options["quiet"]:
        terminal.write(body)
    sys.exit(code)


@cli.command()
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", show_default=True)
@click.option("--pages", metavar="DIR", help="Write a Markdown page for each cause, and an index, into this folder.")
@shown
def causes(form: str, pages: str | None, **options: Any) -> None:
    """List the causes that cudadoctor can name, or write their pages."""
    from cudadoctor.commands import explaining

    try:
        body = explaining.listing(gathering.knowledge(), form) if pages is None else explaining.write_files(pages, gathering.knowledge())
    except OSError as error:
        raise terminal.usage(f"--pages {pages}: {error.strerror}") from error
    if form == "json" and pages is None:
        terminal.write_json(body, options["plain"])
    elif not options["quiet"]:
        terminal.write(body)


@cli.command()
@shown
def schema(**options: Any) -> None:
    """Print the JSON Schema of the report."""
    from cudadoctor.report import json

    terminal.write_json(json.schema(), options["plain"])


for _command in (*cli_run.COMMANDS, *cli_setup.COMMANDS):
    cli.add_command(_command)


def _terminated(*_: object) -> NoReturn:
    """What ends this run (a CI job's time limit) also ends its children, as after Ctrl-C."""
    sys.exit(128 + signal.SIGTERM)


def main() -> None:
    """Entry point: Ctrl-C ends with 130 and leaves no process behind (sources/host.py ends the children)."""
    terminal.open_streams()
    terminal.no_traces()
    for name in ("SIGTERM", "SIGHUP"):  # SIGHUP: the terminal was closed; Windows has none
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP, and that stays so
            signal.signal(number, _terminated)
    if "_CUDADOCTOR_COMPLETE" in os.environ:
        cli_setup.complete_alone()
    try:
        cli(standalone_mode=False)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except terminal.FullError as error:
        terminal.say(f"Error: {error}\n")
        sys.exit(exit_codes.USAGE)
    except click.ClickException as error:
        terminal.show(error)
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, click.exceptions.Abort):
        terminal.say("interrupted\n")
        # Python remembers a KeyboardInterrupt that went through an exec() (namedtuple has one), and would end by the signal in spite of it.
        exec("")  # noqa: S102 - nothing is executed
        sys.exit(exit_codes.INTERRUPTED)
    except Exception as error:
        terminal.say(terminal.own_fault(error))
        sys.exit(exit_codes.CRASHED)
