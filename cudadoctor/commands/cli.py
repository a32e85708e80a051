"""The command line: the group of all commands, and the entry point with its last handlers. Nothing is decided here.

Only Click is imported at the top of the commands, so that --help answers at once; everything else is imported while children already run.
"""

from __future__ import annotations

import os
import signal
import sys

import click

from cudadoctor.commands import helping, setup, terminal
from cudadoctor.commands.check import check
from cudadoctor.commands.compare import compare
from cudadoctor.commands.explain import causes, explain
from cudadoctor.commands.fix import fix
from cudadoctor.commands.fleet import fleet
from cudadoctor.commands.guide import guide
from cudadoctor.commands.measuring import bench, smoke
from cudadoctor.commands.record import record
from cudadoctor.commands.run import run
from cudadoctor.model import exit_codes

COMMANDS = (
    check, fix, fleet, smoke, bench, record, explain, causes, guide, setup.schema, run, compare,
    setup.hook, setup.completion, setup.mcp,
)  # fmt: skip
STANDS_ON = ("click", "rich", "msgspec", "psutil", "nvidia-ml-py", "numba", "numba-cuda", "numpy")


def _version(context: click.Context, parameter: click.Parameter, asked: bool) -> None:
    """All that a bug report about the doctor itself needs, without asking the machine for anything else."""
    if not asked or context.resilient_parsing:
        return
    import platform
    from importlib import metadata

    from cudadoctor import __version__

    def version(name: str) -> str:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            return "not installed"

    terminal.write(
        f"cudadoctor, version {__version__}\n"
        f"Python {platform.python_version()} ({platform.python_implementation()}), {sys.executable}\n"
        f"{platform.system()} {platform.release()} {platform.machine()}\n"
        f"{', '.join(f'{name} {version(name)}' for name in STANDS_ON)}\n"
    )
    context.exit()


@click.group(cls=helping.Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show versions, for a bug report.")
def cli() -> None:
    """Names the one cause that keeps a GPU program from running, shows the lines that prove it, and prints the fix."""


for _command in COMMANDS:
    cli.add_command(_command)


def _run() -> None:
    try:
        cli(standalone_mode=False)
    except OSError:  # Click writes the help itself
        terminal.deliver()
        raise
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)


def main() -> None:
    """Entry point: Ctrl-C ends with 130 and leaves no process behind (sources/host.py ends the children)."""
    terminal.open_streams()
    terminal.no_traces()
    for name in ("SIGTERM", "SIGHUP", "SIGQUIT"):  # SIGHUP: the terminal was closed; SIGQUIT: Ctrl-\; Windows has neither
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP, and that stays so
            # What ends this run (a CI job's time limit) also ends its children, as after Ctrl-C.
            signal.signal(number, lambda *_: sys.exit(exit_codes.ENDED))
    if hasattr(signal, "SIGXCPU"):
        # A shell's limit on CPU time ends the programs that are examined, and that is told: the doctor goes on, up to the hard limit.
        signal.signal(signal.SIGXCPU, lambda *_: None)
    if "_CUDADOCTOR_COMPLETE" in os.environ:
        setup.complete_alone()
    try:
        _run()
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
    finally:
        terminal.tell_unwritten()
