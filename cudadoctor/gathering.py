"""Where a command's evidence comes from: this machine, a recording or a bundle, with the text that the user pasted.

What the options ask for becomes one plan; what cannot be read is a usage error that names its option. Nothing is imported before it is
needed, so that the children of a live run start at once.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from cudadoctor import exit_codes, terminal

if TYPE_CHECKING:
    from cudadoctor.knowledge.load import Knowledge
    from cudadoctor.model.evidence import Evidence
    from cudadoctor.model.requirements import Requirements


def knowledge() -> Knowledge:
    """What is known apart from any machine."""
    from cudadoctor import installed

    return installed.knowledge()


def _warm() -> None:
    """Import and decode what judging and rendering need while the children work; the parent would only wait.

    A judgement of nothing compiles every pattern and decodes every table that a real one reads.
    """
    import threading

    def imports() -> None:
        import cudadoctor.report.text  # noqa: F401
        from cudadoctor.app import judge
        from cudadoctor.model.evidence import Evidence

        judge(Evidence(items=()), knowledge())

    threading.Thread(target=imports, daemon=True).start()


def _extra(log: str | None) -> tuple[Any, ...]:
    if log is None:
        return ()
    from cudadoctor.sources import pasted

    try:
        return (pasted.item_of(sys.stdin.buffer.read()) if log == "-" else pasted.read_item(log),)
    except pasted.TextError as error:
        raise terminal.usage(f"--log {error}") from error


def gather(options: dict[str, Any], requirements: Requirements) -> tuple[Evidence, ...]:
    """The evidence that the options ask for, of one machine; of several where a bundle holds them."""
    if options["record"]:
        terminal.check_target(options["record"])
    extra = _extra(options["log"])
    machines = _replayed(options) if options["replay"] is not None else (live(options, requirements, extra),)
    if extra:
        from cudadoctor import nodes

        machines = nodes.completed(machines, extra)
    if options["record"]:
        if len(machines) > 1:
            raise terminal.usage(f"--record: {options['replay']} holds {len(machines)} machines; name the bug report of one")
        write_recording(machines[0], options["record"], keep=options["no_redact"])
    return machines


def _replayed(options: dict[str, Any]) -> tuple[Evidence, ...]:
    """A recording, or the bundle of another tool."""
    import msgspec

    from cudadoctor.sources import bundles, recording

    try:
        machines = bundles.replayed(options["replay"])
    except (recording.RecordingError, bundles.BundleError) as error:
        raise terminal.usage(f"--replay {error}") from error
    return tuple(msgspec.structs.replace(machine, distro=options["distro"] or machine.distro) for machine in machines)


def frameworks(options: dict[str, Any], extra: tuple[Any, ...]) -> tuple[str, ...]:
    """The frameworks to import: all where the user asked for it, else those that the user's text names."""
    from cudadoctor.model.frameworks import NAMES, named_in

    if options.get("frameworks") and options.get("quick"):
        raise terminal.usage("--frameworks imports them, which --quick leaves out: give one of the two")
    return NAMES if options.get("frameworks") else named_in("\n".join(item.stdout or "" for item in extra))


def live(options: dict[str, Any], requirements: Requirements, extra: tuple[Any, ...] = ()) -> Evidence:
    """The evidence of this machine. Ends with 3 on a system that the doctor cannot examine."""
    from cudadoctor.sources.platforms import known

    if not known(sys.platform):
        click.echo(
            "This machine cannot be examined: that needs Linux, WSL or Windows. Texts are read here (`cudadoctor explain -`), and so are "
            "reports and recordings (`--replay`, `cudadoctor compare`).",
            err=True,
        )
        sys.exit(exit_codes.UNDECIDED)
    from cudadoctor.sources.host import Plan, collect

    watcher = None
    if sys.stderr.isatty() and not options["quiet"]:
        from cudadoctor.progress import Progress

        color = terminal.coloured(options["color"], sys.stderr)
        watcher = Progress(sys.stderr, color=color, knowledge=knowledge, wants=requirements.wants, on_gpus=options.get("on_gpus", ()))
    plan = Plan(
        python=options["python"],
        quick=options.get("quick", False),
        timeout=options["timeout"],
        benchmark=requirements.wants("benchmark"),
        leave_out=_unread(requirements),
        distro=options["distro"],
        frameworks=frameworks(options, extra),
        busy=bool(options.get("busy") or options.get("on_gpus")),
        on_gpus=options.get("on_gpus", ()),
        smoke=options.get("smoke_arguments", ()),
        more=knowledge().more_probes,
    )
    if options.get("judged", True):
        _warm()
    try:
        return collect(plan, watcher)
    finally:
        if watcher is not None:
            watcher.close()


def _unread(requirements: Requirements) -> frozenset[str]:
    """Evidence that no chosen row reads."""
    if not requirements.only and not requirements.skip:
        return frozenset()
    from cudadoctor.checks import rows

    checks = rows.of(knowledge())
    read = {item for check in checks if requirements.wants(check.id) for item in check.items}
    return frozenset({item for check in checks for item in check.items} - read)


def write_recording(evidence: Evidence, target: str, *, keep: bool) -> str:
    """Write a recording, redacted unless `keep`, and say what it holds; a usage error where it cannot be written."""
    from cudadoctor.report.clean import clean
    from cudadoctor.sources import recording, redact

    taken = None if keep else redact.redacted(evidence)
    try:
        recording.write(evidence if taken is None else taken.evidence, target)
    except (OSError, recording.RecordingError) as error:
        raise terminal.usage(f"the recording could not be written: {error}") from error
    said = [f"{len(evidence.items)} pieces of evidence written to {clean(target)}, {'not redacted' if taken is None else 'redacted'}"]
    return "".join(f"{line}\n" for line in (*said, *(redact.account(taken) if taken is not None else ())))
