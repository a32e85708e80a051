"""Where a command's evidence comes from: this machine, a recording or a bundle, with the text that the user pasted.

What the options ask for becomes one plan; what cannot be read is a usage error that names its option. Nothing is imported before it is
needed, so that the children of a live run start at once.
"""

from __future__ import annotations

import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

from cudadoctor.commands import terminal
from cudadoctor.model import exit_codes

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudadoctor.knowledge.load import Knowledge
    from cudadoctor.model.evidence import Evidence, Item
    from cudadoctor.model.requirements import Requirements
    from cudadoctor.within.asking import Judge


def knowledge() -> Knowledge:
    from cudadoctor import installed

    return installed.knowledge()


def judging(*, warm: bool = False) -> closing[Judge]:
    """The child that judges, until the end of the block."""
    from cudadoctor.within.asking import started

    return closing(started(warm=warm))


def _warm() -> None:
    """Import and decode what rendering needs while the children work; the parent would only wait."""
    import threading

    def imports() -> None:
        import cudadoctor.model.judgement
        import cudadoctor.report.screen  # noqa: F401

        knowledge()

    try:
        threading.Thread(target=imports, daemon=True).start()
    except RuntimeError:
        pass  # no thread is to be had: it is imported when it is needed


def _extra(log: str | None) -> tuple[tuple[Any, ...], tuple[str, ...]]:
    """The user's text as evidence, and what should be said of it."""
    if log is None:
        return (), ()
    from cudadoctor.sources import inputs, pasted

    try:
        content = inputs.of_stream(sys.stdin.buffer, "standard input") if log == "-" else inputs.of_path(log)
    except inputs.InputError as error:
        raise terminal.usage(f"--log {error}") from error
    if not pasted.is_text(content.body):
        raise terminal.usage(f"--log {log} holds no text: give what your program printed")
    text = pasted.evidence_of(content, printed=True)
    return text.items, text.remarks


def gather(options: dict[str, Any], requirements: Requirements, judge: Judge | None = None) -> tuple[Evidence, ...]:
    """The evidence that the options ask for, of one machine; of several where a bundle holds them. `judge` says meanwhile what rows say."""
    if options["record"]:
        terminal.check_target(options["record"], force=options["force"])
    extra, remarks = _extra(options["log"])
    machines = _replayed(options) if options["replay"] is not None else (live(options, requirements, extra, judge),)
    if extra:
        machines = tuple(machine.completed(extra, remarks) for machine in machines)
    if options["record"] and len(machines) > 1:
        raise terminal.usage(f"--record: {options['replay']} holds {len(machines)} machines; name the bug report of one")
    return machines


def _replayed(options: dict[str, Any]) -> tuple[Evidence, ...]:
    import msgspec

    from cudadoctor.sources import bundles, recording

    try:
        machines = bundles.replayed(options["replay"])
    except (recording.RecordingError, bundles.BundleError) as error:
        raise terminal.usage(f"--replay {error}") from error
    return tuple(msgspec.structs.replace(machine, distro=options["distro"] or machine.distro) for machine in machines)


def frameworks(options: dict[str, Any], extra: tuple[Any, ...]) -> tuple[str, ...]:
    """The frameworks to import: all where the user asked for it, else those that the user's text names."""
    if options.get("frameworks") and options.get("quick"):
        raise terminal.usage("--frameworks imports them, which --quick leaves out: give one of the two")
    if not options.get("frameworks") and not extra:
        return ()
    from cudadoctor.model.frameworks import NAMES, named_in

    return NAMES if options.get("frameworks") else named_in("\n".join(item.stdout or "" for item in extra))


def live(options: dict[str, Any], requirements: Requirements, extra: tuple[Any, ...] = (), judge: Judge | None = None) -> Evidence:
    """The evidence of this machine. Ends with 3 on a system that the doctor cannot examine."""
    from cudadoctor.sources.probes import PROBES

    if sys.platform not in PROBES:
        terminal.say(
            "This machine cannot be examined: that needs Linux, WSL or Windows. Texts are read here (`cudadoctor explain -`), and so are "
            "reports and recordings (`--replay`, `cudadoctor compare`).\n"
        )
        sys.exit(exit_codes.UNDECIDED)
    from cudadoctor import installed
    from cudadoctor.sources.host import Plan, collect

    watcher = None
    if judge is not None and sys.stderr.isatty() and not options["quiet"]:
        from cudadoctor.commands.progress import Progress

        color = terminal.coloured(options["color"], sys.stderr)

        def rows() -> dict[str, tuple[str, ...]]:
            return {row.id: row.items for row in _rows() if requirements.wants(row.id)}

        watcher = Progress(sys.stderr, color=color, rows=rows, judge=judge, on_gpus=options.get("on_gpus", ()))
    plan = Plan(
        python=options["python"],
        quick=options.get("quick", False),
        timeout=options["timeout"],
        benchmark=requirements.wants("benchmark"),
        leave_out=_unread(requirements),
        distro=options["distro"],
        frameworks=frameworks(options, extra),
        busy=bool(options.get("busy") or options.get("on_gpus")),
        on_gpus=options.get("on_gpus", {}),
        more=knowledge().more_probes if installed.is_extended() else (),
    )
    try:
        return collect(plan, watcher if watcher is not None or judge is None else _rehearsal(judge), _warm if judge is not None else None)
    finally:
        if watcher is not None:
            watcher.update(final=True)


def _rehearsal(judge: Judge) -> Callable[[Item], None]:
    """Has the judge look at what is there before all is: where there is a driver when the examined Python is listed, for the driver answers
    later; else when NVML says that there is none."""
    from cudadoctor.model.evidence import Evidence

    items: list[Item] = []

    def arrived(item: Item) -> None:
        items.append(item)
        driver = any("nvidiactl" in (one.stdout or "") for one in items if one.id == "dev")
        if item.id == ("python-env" if driver else "nvml"):
            judge.rehearse(Evidence(items=tuple(items)))

    return arrived


def _rows() -> tuple[Any, ...]:
    from cudadoctor.checks import rows

    return rows.of(knowledge())


def _unread(requirements: Requirements) -> frozenset[str]:
    """Evidence that no chosen row reads."""
    if not requirements.only and not requirements.skip:
        return frozenset()
    checks = _rows()
    read = {item for check in checks if requirements.wants(check.id) for item in check.items}
    return frozenset({item for check in checks for item in check.items} - read)


def write_recording(evidence: Evidence, target: str, *, keep: bool, force: bool) -> str:
    """Write a recording, redacted unless `keep`, and say what it holds; a usage error where it cannot be written."""
    from cudadoctor.report.clean import clean
    from cudadoctor.sources import recording, redact

    taken = None if keep else redact.redacted(evidence)
    try:
        recording.write(evidence if taken is None else taken.evidence, target, force=force)
    except (OSError, recording.RecordingError) as error:
        raise terminal.usage(f"the recording could not be written: {error}") from error
    said = [f"{len(evidence.items)} pieces of evidence written to {clean(target)}, {'not redacted' if taken is None else 'redacted'}"]
    return "".join(f"{line}\n" for line in (*said, *(redact.account(taken) if taken is not None else ())))
