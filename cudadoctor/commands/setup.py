"""The commands `hook`, `completion` and `schema`: texts that one sets up once, for a runner, a shell or a program that reads
the report. They are printed, never installed. And `mcp`, which serves coding agents (serving.py; it needs the extra `mcp`)."""

from __future__ import annotations

import os
import signal
from typing import Any

import click

from cudadoctor.commands import helping, terminal
from cudadoctor.commands import options as groups

HOOKS = {
    "github-runner": "sh", "gitlab-runner": "sh", "slurm-prolog": "sh", "slurm-healthcheck": "sh",
    "kubernetes-job": "yaml", "kubernetes-daemonset": "yaml", "kubernetes-preflight": "yaml", "node-problem-detector": "json",
}  # fmt: skip
SHELLS = ("bash", "zsh", "fish", "powershell")


@helping.command(
    "Share and automate",
    "Print what a cluster or CI needs to look at its GPUs.",
    ("cudadoctor hook slurm-prolog > prolog.sh", "Prolog= of slurm.conf"),
    ("cudadoctor hook kubernetes-daemonset > gpu.yaml", "a pod on each GPU node"),
)
@click.argument("name", metavar="NAME", type=click.Choice(tuple(HOOKS)))
@groups.shown
def hook(name: str, **_: Any) -> None:
    """Print what keeps jobs away from a broken GPU or looks at all of them: scripts of CI runners and Slurm, manifests of Kubernetes.

    NAME is github-runner, gitlab-runner, slurm-prolog, slurm-healthcheck, kubernetes-job, kubernetes-daemonset, kubernetes-preflight or
    node-problem-detector (its configuration of a plugin). The first lines of each say how to set it up.
    """
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hooks", f"{name}.{HOOKS[name]}")
    with open(path, encoding="utf-8") as file:
        terminal.write(file.read())


@helping.command(
    "Share and automate",
    "Print what completes commands in your shell.",
    ('eval "$(cudadoctor completion bash)"', "in ~/.bashrc"),
)
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


@helping.command(
    "Share and automate",
    "Print the JSON Schema of the report.",
    ("cudadoctor schema", "of check --format json"),
    ("cudadoctor schema fleet", "of fleet --format json"),
)
@click.argument("of", type=click.Choice(("report", "fleet")), default="report")
@groups.shown
def schema(of: str, **options: Any) -> None:
    """Print the JSON Schema of one machine's report, or of the picture of many."""
    from cudadoctor.model.fleet import Fleet
    from cudadoctor.model.report import Report
    from cudadoctor.report import json

    terminal.write_json(json.schema(Fleet if of == "fleet" else Report), options["plain"])


@helping.command(
    "Share and automate",
    "Serve coding agents over standard input and output (MCP).",
    ("cudadoctor mcp", "started by the agent"),
)
@click.option("--python", metavar="PATH", help="Interpreter that the user's programs run in; no tool can name one.")
def mcp(python: str | None) -> None:
    """Serve coding agents: an MCP server on standard input and output with tools that only read."""
    try:
        from cudadoctor.commands import serving
    except ModuleNotFoundError as error:
        raise terminal.usage(
            f"the MCP server needs the extra `mcp` ({error.name} is not installed): pip install '.[mcp]' in its folder"
        ) from error
    serving.interpreter = python
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # asyncio would wait for the thread that reads standard input
    serving.server.run("stdio")


# One word a line: PowerShell has taken the quotes away. The last is the one to complete, empty where it is still to be begun.
_POWERSHELL = """\
Register-ArgumentCompleter -Native -CommandName %(prog_name)s -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $before = @($commandAst.CommandElements | Where-Object { $_.Extent.EndOffset -lt $cursorPosition } | ForEach-Object { $_.ToString() })
    $env:COMP_WORDS = ($before + $wordToComplete) -join "`n"
    $env:%(complete_var)s = "powershell_complete"
    try {
        & %(prog_name)s | ForEach-Object {
            $kind, $value, $help = $_ -split "`t", 3
            if (-not $help) { $help = $value }
            [System.Management.Automation.CompletionResult]::new($value, $value, "ParameterValue", $help)
        }
    } finally { Remove-Item Env:COMP_WORDS, Env:%(complete_var)s }
}
"""


def complete_alone() -> None:
    """Click asks `bash` for its version, and takes the first one on PATH; all since 2010 will do. PowerShell is ours."""
    from click.shell_completion import BashComplete, CompletionItem, ShellComplete, add_completion_class

    class Bash(BashComplete):
        @staticmethod
        def _check_version() -> None:
            pass

    class PowerShell(ShellComplete):
        name = "powershell"
        source_template = _POWERSHELL

        def get_completion_args(self) -> tuple[list[str], str]:
            *before, begun = os.environ.get("COMP_WORDS", "").split("\n")
            return before[1:], begun

        def format_completion(self, item: CompletionItem) -> str:
            return f"{item.type}\t{item.value}\t{' '.join((item.help or '').split())}"

    add_completion_class(Bash)
    add_completion_class(PowerShell)
    os.environ.setdefault("COMP_WORDS", "cudadoctor")  # a shell sets both; whoever has the variable alone gets the commands
    os.environ.setdefault("COMP_CWORD", "1")
