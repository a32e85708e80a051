"""What the commands share that examine a machine: their options, the evidence gathered and judged, the report written."""

from __future__ import annotations

import os
import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from cudadoctor.commands import gathering, terminal
from cudadoctor.commands import options as groups
from cudadoctor.model import exit_codes

if TYPE_CHECKING:
    from cudadoctor.knowledge.load import Knowledge
    from cudadoctor.model.evidence import Evidence
    from cudadoctor.model.judgement import Answer
    from cudadoctor.model.report import Report
    from cudadoctor.model.requirements import Requirements
    from cudadoctor.report.screen import Commands
    from cudadoctor.report.text import Style
    from cudadoctor.within.asking import Judge

_LEAST_MEMORY = 300 << 20  # bytes; measured on an H100: with 300 MB a kernel ran, with 220 MB the kernel's process was killed
_LEAST_OF_ALL = 96 << 20  # bytes; measured: the processes of a check hold 90 MB before the first of them loads CUDA
BESIDE_LOAD = 60.0  # seconds that all else may take where a load of some length was asked for
quick_option = click.option("--quick", is_flag=True, help="Stop before anything that imports Numba or launches a kernel.")
evidence_options = groups.group(
    click.option(
        "--python",
        metavar="PATH",
        help="Examine this interpreter. Else: VIRTUAL_ENV's, CONDA_PREFIX's, the first on PATH, the doctor's own.",
    ),
    click.option("--replay", metavar="PATH", help="Read a recording or a bundle (nvidia-bug-report.log.gz, sos) instead of this machine."),
    click.option("--record", metavar="PATH", help="Write the evidence of this run as a recording (a folder, or a .tar.gz)."),
    click.option("--no-redact", is_flag=True, help="With --record: keep names, UUIDs and all variables."),
    click.option("--force", is_flag=True, help="With --record: replace what is there."),
    click.option("--log", "log", metavar="FILE", help="Add the text that your program printed ('-' is standard input)."),
    groups.timeout_option,
    groups.distro_option,
    groups.format_options,
    heading="Evidence",
)

report_options = groups.group(groups.policy_options, evidence_options, groups.shown)
no_try_option = click.option("--no-try", is_flag=True, help="Do not rerun a failing step with one thing changed, which proves the cause.")
frameworks_option = click.option(
    "--frameworks", is_flag=True, help="Import the GPU frameworks (PyTorch, JAX ...) too and compute with each; --log naming one does so."
)


causes_of = groups.completing(lambda: gathering.knowledge().causes)


def limit_beside(load: float, timeout: float) -> float:
    """Seconds for the whole run where a load of so many seconds was asked for."""
    return max(timeout, load + BESIDE_LOAD) if load else timeout


def style(options: dict[str, Any]) -> Style:
    return terminal.style(options["color"], options["plain"], options["verbose"])


def _meant(options: dict[str, Any]) -> None:
    """What cannot be meant: rows that are both asked for and left out, an interpreter or a folder that is not there."""
    groups.outputs(options)
    both = [row for row in options.get("only") or () if row in (options.get("skip") or ())]
    if both:
        raise terminal.usage(f"--only and --skip both name {both[0]}")
    python = options["python"]
    if python == "":
        raise terminal.usage("--python names no interpreter: the word after it is empty")
    if python is not None and options["replay"] is None and os.path.dirname(python) and not os.path.lexists(python):
        raise terminal.usage(f"--python: there is no {python}")


def _mind_little_memory() -> None:
    """Before the kernel ends the examination, and no word of it is written. Where it surely would, nothing is begun."""
    from cudadoctor.sources import readers

    try:
        lines = readers.read_control_group("/proc/self/cgroup").split("\n")
    except OSError:
        return
    limits = [line.rpartition(":") for line in lines if ".limit_in_bytes:" in line or "memory.max:" in line]
    file, _, least = min((one for one in limits if one[2].isdigit()), key=lambda one: int(one[2]), default=("", "", ""))
    if not least or int(least) >= _LEAST_MEMORY:
        return
    said = f"The control group of this shell, job or container may use {int(least) >> 20} MiB of memory ({file}). CUDA programs take more"
    if int(least) < _LEAST_OF_ALL:
        terminal.say(f"{said}, and so does this examination: nothing was examined. Whoever set the limit can raise it.\n")
        sys.exit(exit_codes.UNDECIDED)
    terminal.say(
        f"{said}, and so may this examination: if it ends without a report, the kernel ended it for this limit. Whoever set it can "
        "raise it.\n"
    )


def _gathered(options: dict[str, Any], requirements: Requirements, judge: Judge) -> tuple[tuple[Evidence, ...], bool]:
    """The evidence, and whether Ctrl-C ended the collection: what is known by then is shown all the same."""
    try:
        return gathering.gather(options, requirements, judge), False
    except KeyboardInterrupt as stop:
        if not hasattr(stop, "evidence") or options.get("watch") is not None:
            raise  # a watch shows its last whole look
        return (stop.evidence,), True


def judge(options: dict[str, Any], *, kernel: bool = False, **wanted: Any) -> tuple[Answer, Knowledge]:
    """`kernel`: one has to run; `wanted`: what else of the answer is asked for (model/judgement.py)."""
    started = time.monotonic()
    _meant(options)
    live = options["replay"] is None
    if live:
        from cudadoctor.sources import interpreters, keeping

        _mind_little_memory()
        keeping.start_ahead()
        interpreters.look_ahead(options["python"], imports=not options.get("quick", False))
        import cudadoctor.sources.host  # noqa: F401 - while the places of variables are listed, for which the child that judges waits
    import msgspec

    from cudadoctor.model.requirements import Requirements

    only, skip = options.get("only", ()), options.get("skip", ())
    requirements = Requirements(strict=options["strict"], only=only, skip=skip, needs_kernel=kernel)
    with gathering.judging(warm=live) as child:
        options = groups.settled(options)
        found = groups.found_policy(options)
        if found is not None and found.strict:
            requirements = msgspec.structs.replace(requirements, strict=True)
        machines, interrupted = _gathered(options, requirements, child)
        # What only the answer needs comes when the children run.
        from cudadoctor.model.judgement import Question

        knowledge = gathering.knowledge()
        policy = groups.asked_policy(found)
        question = Question(machines=machines, requirements=requirements, policy=policy, today=groups.today(), interrupted=interrupted)
        answer = child.answer(msgspec.structs.replace(question, **wanted))
        if answer.plan is not None and not options.get("no_try", True):
            left = options["timeout"] - (time.monotonic() - started)
            machines = (tried(answer, machines[answer.machine], knowledge, timeout=left),)
            answer = child.answer(msgspec.structs.replace(question, machines=machines, **wanted))
    if options["record"] and not interrupted:
        try:
            gathering.write_recording(machines[0], options["record"], keep=options["no_redact"], force=options["force"])
        except click.UsageError as error:
            terminal.unwritten(error.message)
    report = answer.report
    if found is not None and found.refused is not None and not interrupted:
        report = msgspec.structs.replace(report, notes=(found.refused, *report.notes))
    if report.origin.kind == "live":
        timing = msgspec.structs.replace(report.timing, total_s=round(time.monotonic() - started, 3))
        report = msgspec.structs.replace(report, timing=timing)
    return msgspec.structs.replace(answer, report=report), knowledge


def finish(report: Report, knowledge: Knowledge, options: dict[str, Any], body: str | None = None) -> None:
    """`body`: what stands on stdout as text, where it is not the report."""
    from cudadoctor.report.page import Style

    try:
        if options["form"] != "text":
            groups.write_stdout(report, knowledge, options, style(options))
        elif not options["quiet"]:
            terminal.write(shown_text(report, knowledge, options) if body is None else body)
    finally:  # where stdout is full, the files are what is left of the run
        groups.write_files(report, knowledge, options, Style(width=100, ascii=options["plain"], verbose=options["verbose"]))


def shown_text(report: Report, knowledge: Knowledge, options: dict[str, Any]) -> str:
    """One screen; with -v all of it."""
    from cudadoctor.report import screen, text

    if options["verbose"]:
        return text.render(report, knowledge, style(options))
    return screen.render(report, knowledge, style(options), again(report, options))


def again(report: Report, options: dict[str, Any]) -> Commands:
    """The commands that look at the same again, with the same options."""
    from cudadoctor.prescribe import shells
    from cudadoctor.report.screen import Commands

    given = {name: options[name] for name in ("python", "replay", "log", "distro") if options[name] is not None and options[name] != "-"}
    same = "".join(f" --{name} {shells.typed(value)}" for name, value in given.items())
    applies = report.origin.kind == "live" and not given.keys() & {"log", "distro"}
    doctor = terminal.called()
    whole, steps, for_admin, apply = (f"{doctor} {name}{same}" for name in ("check -v", "fix", "fix --for-admin", "fix --apply"))
    return Commands(whole, steps, for_admin, apply if applies else "", doctor)


# ---------------------------------------------------------------- experiments
def tried(answer: Answer, evidence: Evidence, knowledge: Knowledge, *, timeout: float) -> Evidence:
    """The evidence with what the experiments came to. Ctrl-C ends them, and what is known by then stays."""
    from cudadoctor.judge.experiments import next_try
    from cudadoctor.model.evidence import Item
    from cudadoctor.model.experiments import SAME, Ran
    from cudadoctor.parsers import tries
    from cudadoctor.sources.experiments import Laboratory

    assert answer.plan is not None
    items: list[Item] = []
    runs: list[Ran] = []
    try:
        laboratory = Laboratory(
            evidence, knowledge.experiments, toolkits=answer.plan.toolkits, timeout=timeout, startup=answer.plan.startup
        )
        with closing(laboratory):
            while (wanted := next_try(answer.plan, runs)) is not None:
                if any(run.helped(answer.plan.failure) for run in runs):
                    laboratory.narrow()
                # One that there is no time for would be ended half way, and say nothing.
                longest = max((item.seconds for item in items), default=0.0)
                item = laboratory.carry_out(wanted, least=longest if wanted.change != SAME else 0.0)  # which fails soon
                if item is None:
                    break
                items.append(item)
                runs += filter(None, [tries.ran(item)])
    except KeyboardInterrupt:
        return evidence.completed(tuple(items), ("The experiments were interrupted.",))
    return evidence.completed(tuple(items))


def completed(evidence: Evidence, *, timeout: float) -> Evidence:
    """Evidence of a live machine with the experiments that it calls for: for a command that judges nothing itself."""
    from cudadoctor.model.judgement import Question

    with gathering.judging() as judge:
        answer = judge.answer(Question(machines=(evidence,)))
    return evidence if answer.plan is None else tried(answer, evidence, gathering.knowledge(), timeout=timeout)
