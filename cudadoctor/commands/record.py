"""`cudadoctor record`: the evidence of this machine as a recording, or a program that makes one elsewhere."""

from __future__ import annotations

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
@examining.no_try_option
@click.option("--python", metavar="PATH", help="Examine this interpreter.")
@groups.timeout_option
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
