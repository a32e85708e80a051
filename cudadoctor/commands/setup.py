"""The commands `hook`, `completion` and `schema`: texts that one sets up once, for a runner, a shell or a program that reads
the report. They are printed, never installed."""

from __future__ import annotations

import os
from typing import Any

import click

from cudadoctor.commands import options as groups
from cudadoctor.commands import terminal

HOOKS = ("github-runner", "gitlab-runner", "slurm-prolog")
SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("name", type=click.Choice(HOOKS))
@groups.shown
def hook(name: str, **_: Any) -> None:
    """Print a script that keeps jobs away from a broken GPU: for a CI runner or Slurm. Its first lines say how to set it up."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hooks", f"{name}.sh")
    with open(path, encoding="utf-8") as file:
        terminal.write(file.read())


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@groups.shown
@click.pass_context
def completion(context: click.Context, /, shell: str, **_: Any) -> None:
    """Print what makes SHELL complete commands, options, rows and causes: eval "$(cudadoctor completion bash)"."""
    from click.shell_completion import get_completion_class

    complete_alone()
    kind = get_completion_class(shell)
    root = context.find_root()
    assert kind is not None
    terminal.write(kind(root.command, {}, "cudadoctor", "_CUDADOCTOR_COMPLETE").source() + "\n")


@click.command()
@groups.shown
def schema(**options: Any) -> None:
    """Print the JSON Schema of the report."""
    from cudadoctor.report import json

    terminal.write_json(json.schema(), options["plain"])


def complete_alone() -> None:
    """Click asks `bash` for its version, and takes the first one on PATH; every bash of the last fifteen years will do."""
    from click.shell_completion import BashComplete, add_completion_class

    class Bash(BashComplete):
        @staticmethod
        def _check_version() -> None:
            pass

    add_completion_class(Bash)
