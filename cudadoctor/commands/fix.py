"""`cudadoctor fix`: the steps that cure the root cause, or a cause that the user names; `--apply` carries them out."""

from __future__ import annotations

import sys
from typing import Any

import click

from cudadoctor.commands import examining, gathering, helping, terminal
from cudadoctor.commands import options as groups

KINDS = ("reads", "environment", "system")


@helping.command(
    "Cure",
    "Print the steps that cure it, or carry them out.",
    ("cudadoctor fix", "the steps for this machine"),
    ("cudadoctor fix --apply", "carry them out, asking before each"),
    ("cudadoctor fix --undo", "take that back"),
    ("cudadoctor fix --for-admin", "a message for the administrator"),
)
@click.argument("words", metavar="[CAUSE]", nargs=-1, shell_complete=examining.causes_of)
@click.option("--suggest", is_flag=True, help="Print the steps; this is what `fix` does anyway. Nothing is changed.")
@click.option("--script", is_flag=True, help="Print the steps as a shell script to review.")
@click.option("--for-admin", is_flag=True, help="Print a message for the administrator: the fault, its proof, the commands that need root.")
@click.option("--apply", "apply_", is_flag=True, help="Carry the steps out, asking before each; verify each, and check again at the end.")
@click.option("--undo", is_flag=True, help="Take back what the last --apply changed.")
@click.option("--yes", type=click.Choice(KINDS), multiple=True, help="With --apply or --undo: agree to steps of this kind (repeatable).")
@click.option("--dry-run", is_flag=True, help="With --apply or --undo: say what would be run.")
@examining.no_try_option
@examining.quick_option
@examining.frameworks_option
@examining.evidence_options
@groups.shown
def fix(words: tuple[str, ...], suggest: bool, **options: Any) -> None:
    """Print the steps that cure the root cause (or CAUSE) on this machine. Changes nothing without --apply."""
    cause = "-".join(words) if words else None  # a blank where a - was meant
    _one_thing(cause, options)
    if options["undo"]:
        from cudadoctor.commands import applying

        sys.exit(applying.taken_back(options))
    knowledge = gathering.knowledge()
    if cause is not None and cause not in knowledge.causes:
        raise terminal.usage(f"{cause!r} is not a cause; `cudadoctor causes` lists them{terminal.nearest(cause, knowledge.causes)}")
    named = (cause,) if cause is not None else ()
    answer, knowledge = examining.judge(options, steps_for=named, shell=options["script"])
    from cudadoctor.judge.asked_for import exit_code
    from cudadoctor.report import fixing

    report = answer.report
    if options["apply_"]:
        from cudadoctor.commands import applying

        sys.exit(applying.carried_out(report, options))
    prescription = report.prescription if cause is None else answer.steps.get(cause)
    if options["script"]:
        body = fixing.as_script(report, prescription, powershell=answer.windows)
    elif options["for_admin"]:
        body = fixing.for_administrator(report, prescription)
    else:
        body = fixing.as_text(report, prescription, knowledge, examining.style(options), named=cause)
    examining.finish(report, knowledge, options, body)
    sys.exit(exit_code(report, prescription, named=cause is not None))


def _one_thing(cause: str | None, options: dict[str, Any]) -> None:
    """Options that do not go together: steps are carried out only for what was found here, in this very run."""
    acting = options["apply_"] or options["undo"]
    given = [f"--{name}" for name in ("distro", "replay", "log") if options[name] is not None] + ([cause] if cause is not None else [])
    if acting and given:
        raise terminal.usage(f"--apply and --undo go without {given[0]}: they act on what is found on this machine in this very run")
    if acting and (options["form"] != "text" or options["output"] or options["script"]):
        raise terminal.usage("--apply and --undo speak to a person: they go without --format, --output and --script")
    if options["apply_"] and options["undo"]:
        raise terminal.usage("--apply and --undo: one of the two")
    if not acting and (options["yes"] or options["dry_run"]):
        raise terminal.usage("--yes and --dry-run go with --apply or --undo")
    if acting and sys.platform == "win32":
        raise terminal.usage("on Windows the steps are printed: --apply is for Linux and WSL")
