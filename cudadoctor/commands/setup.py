"""The commands `hook`, `completion` and `schema`: texts that one sets up once, for a runner, a shell or a program that reads the report.
They are printed, never installed. `record`: the evidence of this machine as a recording, or a program that makes one elsewhere. And `mcp`,
which serves coding agents (serving.py; it needs the extra `mcp`).
"""

from __future__ import annotations

import os
from typing import Any

import click

from cudadoctor.commands import examining, gathering, helping, terminal
from cudadoctor.commands import options as groups


@helping.command(
    "Share and automate",
    "Write this machine's evidence, redacted, for somebody else.",
    ("cudadoctor record -o gpu.tar.gz", "check --replay gpu.tar.gz reads it"),
    ("cudadoctor record --script > collect.py", "for a machine without the doctor"),
)
@click.option("-o", "--output", "target", metavar="PATH", help="A folder, or a file that ends in .tar.gz.")
@click.option("--script", is_flag=True, help="Print a program that records a machine where only Python 3.6 or later is; see its --help.")
@examining.quick_option
@click.option("--frameworks", is_flag=True, help="Import the GPU frameworks (PyTorch, JAX ...) too and compute with each.")
@click.option("--no-redact", is_flag=True, help="Keep names, UUIDs and all variables.")
@click.option("--force", is_flag=True, help="Replace what is there.")
@click.option("--no-try", is_flag=True, help="Do not rerun a failing step with one thing changed, which proves the cause.")
@click.option("--python", metavar="PATH", help="Examine this interpreter.")
@click.option("--timeout", type=groups.Seconds(min=1), default=60.0, show_default=True, help="Seconds for the whole run.")
@groups.shown
@click.pass_context
def record(context: click.Context, /, target: str | None, script: bool, no_redact: bool, force: bool, no_try: bool, **options: Any) -> None:
    """Write the evidence of this machine as a recording that `check --replay` reads anywhere."""
    from cudadoctor.model.requirements import Requirements

    if script:
        _print_script(context)
        return
    if target is None:
        raise terminal.usage("-o names the recording: a folder, or a file that ends in .tar.gz")
    terminal.check_target(target, force=force)
    evidence = gathering.live({**options, "distro": None}, Requirements())
    if not no_try:
        evidence = examining.completed(evidence, timeout=options["timeout"])
    said = gathering.write_recording(evidence, target, keep=no_redact, force=force)
    if not options["quiet"]:
        terminal.write(said)


def _print_script(context: click.Context) -> None:
    """The program is the same whatever it will be asked for, so what it takes itself has no effect here."""
    own = ("target", "quick", "frameworks", "no_redact", "force", "no_try", "python", "timeout")
    typed = [name for name in own if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE]
    given = ["-o" if name == "target" else f"--{name.replace('_', '-')}" for name in typed]
    if given:
        are = "is an option" if len(given) == 1 else "are options"
        raise terminal.usage(f"--script prints the program; {', '.join(given)} {are} of the program itself: give it to that when it runs")
    from cudadoctor.sources import collecting

    terminal.write(collecting.script(gathering.knowledge().more_probes))


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
@click.argument("name", type=click.Choice(tuple(HOOKS)))
@groups.shown
def hook(name: str, **_: Any) -> None:
    """Print what keeps jobs away from a broken GPU or looks at all of them: scripts of CI runners and Slurm, manifests of Kubernetes.

    The first lines of each say how to set it up. node-problem-detector's is its configuration of a plugin.
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
