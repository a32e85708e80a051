"""--help: every command in a group, no summary cut, options below headings, examples that are commands of ours; and what completes them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click

from cudadoctor.commands.cli import cli
from cudadoctor.commands.helping import GROUPS, Command
from tests.cases import every
from tests.command_line import run

PROGRAM = str(Path(sys.executable).with_name("cudadoctor"))
COMMANDS = {name: command for name, command in cli.commands.items() if isinstance(command, Command)}


def test_every_command_stands_in_a_group_with_its_whole_summary() -> None:
    assert set(COMMANDS) == set(cli.commands)
    assert {command.group for command in COMMANDS.values()} == set(GROUPS)
    out = run("--help").out
    for name, command in COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(command.short_help or '')}$", out, re.MULTILINE), name
    assert all(len(line) <= 80 for line in out.splitlines())


@every("name", sorted(COMMANDS))
def test_examples_are_commands_of_ours_and_stand_last(name: str) -> None:
    command = COMMANDS[name]
    assert command.examples
    out = run(name, "--help").out
    assert out.splitlines()[-len(command.examples) - 1] == "Examples:"
    assert all(len(line) <= 80 for line in out.rpartition("Examples:")[2].splitlines())
    flags = {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}
    for line, _ in command.examples:
        own = line[line.index("cudadoctor") :].strip('")')
        words = shlex.split(own.partition(" > ")[0])
        assert words[:2] == ["cudadoctor", name]
        used = words[2 : words.index("--")] if "--" in words else words[2:]
        assert {word.partition("=")[0] for word in used if word.startswith("-") and len(word) > 1} <= flags, line


@every("name", sorted(COMMANDS))
def test_every_option_stands_below_one_heading(name: str) -> None:
    """No option is lost in the sorting, and none stands twice."""
    out = run(name, "--help").out
    for parameter in COMMANDS[name].params:
        if isinstance(parameter, click.Option):
            assert len(re.findall(rf"^  (?:-\w, )?{re.escape(parameter.opts[-1])}(?![\w-])", out, re.MULTILINE)) == 1, parameter.opts
    if name in ("check", "smoke", "bench", "fix"):
        assert [head for head in re.findall(r"^(\w+):$", out, re.MULTILINE) if head in ("Evidence", "Output")] == ["Evidence", "Output"]


# ---------------------------------------------------------------- PowerShell
def completed(*words: str) -> list[list[str]]:
    """What the program answers to the words that the script hands over."""
    variables = {**os.environ, "COMP_WORDS": "\n".join(("cudadoctor", *words)), "_CUDADOCTOR_COMPLETE": "powershell_complete"}
    done = subprocess.run([PROGRAM], env=variables, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    return [line.split("\t") for line in done.stdout.splitlines()]


def test_powershell_is_told_commands_options_rows_and_causes() -> None:
    assert [value for _, value, _ in completed("che")] == ["check"]
    assert ["plain", "--quick", "Stop before anything that imports Numba or launches a kernel."] in completed("check", "--q")
    assert [value for _, value, _ in completed("check", "--only", "nv")] == ["nvidia-smi", "nvml"]
    assert "nouveau-bound" in [value for _, value, _ in completed("fix", "nouv")]
    assert len(completed("")) == len(COMMANDS)


def test_the_script_of_powershell_names_the_program_and_its_variable() -> None:
    """Not run in a PowerShell: none is at hand. The words that it hands over are those of the test above."""
    out = run("completion", "powershell").out
    assert "Register-ArgumentCompleter -Native -CommandName cudadoctor" in out
    assert '$env:_CUDADOCTOR_COMPLETE = "powershell_complete"' in out
    assert out.count("{") == out.count("}")
    assert out.isascii()
