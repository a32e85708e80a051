"""`cudadoctor check`: examine this machine and name the root cause; with --watch again and again while somebody repairs it."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import click

from cudadoctor.commands import examining, gathering, helping, terminal
from cudadoctor.commands import options as groups
from cudadoctor.model import exit_codes
from cudadoctor.model.rows import ROWS

if TYPE_CHECKING:
    from cudadoctor.model.report import Report

_TICK = 0.25  # seconds between looks at the size of the window
_LONGEST_SLEEP = 3600.0  # seconds: time.sleep takes no more than some hundred years


def _rows(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Ids of rows; those of extensions are looked up only where the doctor has none of that name."""
    for value in values:
        if value not in ROWS and value not in {check.id for check in gathering.knowledge().more_checks}:
            raise click.BadParameter(f"{value!r} is not a row; `cudadoctor check --list` lists them{terminal.nearest(value, ROWS)}")
    return values


def _row_option(name: str, words: str) -> Callable[[groups.F], groups.F]:
    complete = groups.completing(lambda: ROWS)
    return click.option(name, multiple=True, metavar="ROW", callback=_rows, shell_complete=complete, help=f"{words}; may be repeated.")


@helping.command(
    "Diagnose",
    "Examine this machine and name the root cause.",
    ("cudadoctor check", "everything, with real kernels"),
    ("cudadoctor check --quick", "without kernels, in a second"),
    ("cudadoctor check --log error.txt", "with what your program printed"),
    ("cudadoctor check --require 'gpus>=2'", "exit code 1 where a demand is not met"),
)
@examining.quick_option
@examining.frameworks_option
@_row_option("--only", "Only this row")
@_row_option("--skip", "Not this row")
@click.option("--list", "list_rows", is_flag=True, help="List the rows and what each looks at.")
@click.option(
    "--watch",
    is_flag=False,
    flag_value=5.0,
    type=groups.Seconds(min=0.5),
    metavar="[SECONDS]",
    help="Look again every 5 s, or so many, until Ctrl-C; a pipe gets a line for each change.",
)
@examining.no_try_option
@click.option("--busy", is_flag=True, help="Measure on a GPU too on which another process computes.")
@examining.report_options
def check(**options: Any) -> None:
    """Examine this machine, name the root cause, and end with a smoke test and a mini benchmark."""
    if options["list_rows"]:
        from cudadoctor.checks import rows

        terminal.write("".join(f"{row.id:<16} {row.title}: {row.looks_at}\n" for row in rows.of(gathering.knowledge())))
        return
    if options["watch"] is not None:
        _watch(options)
    answer, knowledge = examining.judge(options)
    examining.finish(answer.report, knowledge, options)
    sys.exit(groups.exit_code(answer.report, options))


def _watch(options: dict[str, Any]) -> NoReturn:
    """Ends with the exit code of the last look."""
    clash = next((name for name in ("replay", "record", "output") if options[name]), None)
    if clash is not None or options["form"] != "text" or options["log"] == "-":
        other = f"--{clash}" if clash is not None else "--log -" if options["log"] == "-" else f"--format {options['form']}"
        raise terminal.usage(f"--watch looks at this machine again and again: it does not go with {other}")

    def look() -> Report:
        return examining.judge({**options, "quiet": True, "no_try": True})[0].report

    def page(report: Report) -> str:
        import msgspec

        from cudadoctor.report import screen

        style = examining.style(options)  # asked each time: a window changes its size
        style = msgspec.structs.replace(style, height=style.height - 3)
        return screen.top(screen.render(report, gathering.knowledge(), style, examining.again(report, options)), style)

    last = looks(look, page, every=options["watch"], screen=sys.stdout.isatty())
    sys.exit(exit_codes.INTERRUPTED if last is None else groups.exit_code(last, options))


def looks(look: Callable[[], Report], page: Callable[[Report], str], *, every: float, screen: bool) -> Report | None:
    """The last report, when Ctrl-C ends it; None where none was finished. `page`: the report as text. `screen`: stdout is a terminal."""
    from cudadoctor.report.clean import one_line
    from cudadoctor.report.words import headline

    last: Report | None = None
    shown = ""
    if screen:
        terminal.screen("Looking at this machine. Ctrl-C ends.\n")
    try:
        while True:
            report = look()
            now = time.strftime("%H:%M:%S")
            line = one_line(f"{report.verdict}: {headline(report)}")
            if not screen and line != shown:
                terminal.write(f"{now} {line}\n")
            last, shown = report, line
            end, size, left = time.monotonic() + every, None, every
            while left > 0:
                if screen and size != (size := shutil.get_terminal_size()):  # a window of another size is drawn anew
                    terminal.screen(f"{page(report)}\nLooked at {now}; again in {every:g} s. Ctrl-C ends.\n")
                time.sleep(min(left, _TICK if screen else _LONGEST_SLEEP))
                left = end - time.monotonic()
    except KeyboardInterrupt:
        if screen:
            terminal.write("\n")  # the terminal has written ^C where the prompt will stand
        return last
