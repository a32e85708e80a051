"""The functions for programs and notebooks: check, explain, require. Each returns a Report, which is the published JSON as typed values.

    import cudadoctor
    cudadoctor.require("gpus>=1", "driver>=535")     # raises RequirementNotMet, whose message is the diagnosis and the fix
    report = cudadoctor.check()
    report.verdict, report.diagnosis.root
    cudadoctor.explain("CUDA_ERROR_NO_DEVICE").action

Nothing here imports a GPU library into the calling process: children ask, as on the command line, and one judges within limits of time
and memory.
"""

from __future__ import annotations

import datetime as dt
import html
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING

import msgspec

from cudadoctor.model import report as model
from cudadoctor.model.requirements import Requirements
from cudadoctor.policy.grammar import RequirementError as RequirementError  # what a wrong requirement raises

if TYPE_CHECKING:
    from cudadoctor.knowledge.load import Knowledge
    from cudadoctor.model.evidence import Evidence

_COLOURS = {"healthy": "#1a7f37", "degraded": "#9a6700", "broken": "#cf222e", "undecided": "#8250df"}


class Report(model.Report, frozen=True, kw_only=True):
    """What a run found. `str()` is the whole report in words; a notebook shows the same."""

    def __str__(self) -> str:
        from cudadoctor.commands import terminal
        from cudadoctor.report import text

        return terminal.gated(text.render(self, _knowledge(), text.Style(width=100)))

    def __repr__(self) -> str:
        from cudadoctor.commands import terminal

        return terminal.gated(super().__repr__())

    def _repr_html_(self) -> str:
        first, _, rest = str(self).partition("\n")
        head = f'<strong style="color:{_COLOURS[self.verdict]}">{html.escape(first)}</strong>'
        body = f'<pre style="white-space:pre-wrap">{html.escape(rest)}</pre>'
        return f'<div role="region" aria-label="cudadoctor report">{head}{body}</div>'


class RequirementNotMet(Exception):
    """A requirement is not met, or nobody can answer it. The message is the diagnosis and the fix; `report` holds all of it."""

    def __init__(self, report: Report) -> None:
        super().__init__(_message(report))
        self.report = report


def check(
    *,
    python: str | None = None,
    replay: str | None = None,
    quick: bool = False,
    log: str | None = None,
    require: Sequence[str] = (),
    policy: str | None = None,
    strict: bool = False,
    frameworks: bool = False,
    timeout: float = 60.0,
    distro: str | None = None,
) -> Report:
    """Examine this machine, or a recording of one, as `cudadoctor check` does.

    `python`: the interpreter to examine, the calling one where it is not given. `log`: the text that a program printed. `policy`: a file
    with requirements and expected findings; none is looked for. Raises ValueError for options that mean nothing (RequirementError with
    the column of a wrong requirement) and OSError for files that cannot be read.
    """
    from cudadoctor.commands.policy_file import PolicyError, gathered
    from cudadoctor.model.judgement import Question
    from cudadoctor.within.asking import Judge

    started, knowledge = time.monotonic(), _knowledge()
    try:
        found = gathered(policy, require, knowledge.causes, search=False)
    except PolicyError as error:
        if isinstance(error.__cause__, RequirementError):
            raise error.__cause__ from None
        raise ValueError(str(error)) from error
    wanted = Requirements(strict=strict or found.strict)
    today = dt.datetime.now(tz=dt.timezone.utc).date()
    with closing(Judge(warm=replay is None)) as judge:
        machines = _replayed(replay, distro) if replay is not None else (_live(python, quick, frameworks, timeout, distro),)
        if log is not None:
            from cudadoctor.sources import pasted

            machines = tuple(machine.completed((pasted.output_of(_bytes(log)),)) for machine in machines)
        report = judge.answer(Question(machines=machines, requirements=wanted, policy=found.policy, today=today)).report
    if report.origin.kind == "live":
        report = msgspec.structs.replace(
            report, timing=msgspec.structs.replace(report.timing, total_s=round(time.monotonic() - started, 3))
        )
    return _of(report)


def explain(text: str, *, distro: str | None = None) -> Report:
    """The diagnosis of a text that a program or a tool printed, as `cudadoctor explain -` gives it."""
    from cudadoctor.model.judgement import Question
    from cudadoctor.sources import pasted
    from cudadoctor.within.asking import Judge

    evidence = msgspec.structs.replace(pasted.evidence_of(_bytes(text)), distro=distro)
    with closing(Judge()) as judge:
        return _of(judge.answer(Question(machines=(evidence,))).report)


def require(*requirements: str, python: str | None = None, replay: str | None = None, timeout: float = 60.0) -> Report:
    """The report where all requirements are met ("gpus>=1" where none is given); else RequirementNotMet.

    Kernels run only if a requirement asks for them (`smoke`, a figure of the benchmark): else this takes about a second.
    """
    from cudadoctor import policy

    asked = requirements or ("gpus>=1",)
    report = check(python=python, replay=replay, require=asked, quick=not policy.needs_kernels(policy.requirements(asked)), timeout=timeout)
    if not all(result.met for result in report.requirements):
        raise RequirementNotMet(report)
    return report


# ---------------------------------------------------------------- how
def _knowledge() -> Knowledge:
    from cudadoctor import installed

    return installed.knowledge()


def _bytes(text: str) -> bytes:
    """A text as its program wrote it; what stands for no letter and for no byte is left out."""
    return text.encode("utf-8", "surrogateescape" if all(not "\ud800" <= sign < "\udc80" for sign in text) else "ignore")


def _of(report: model.Report) -> Report:
    return Report(**{name: getattr(report, name) for name in report.__struct_fields__})


def _replayed(path: str, distro: str | None) -> tuple[Evidence, ...]:
    from cudadoctor.sources import bundles, recording

    try:
        machines = bundles.replayed(path)
    except (recording.RecordingError, bundles.BundleError) as error:
        raise ValueError(str(error)) from error
    return tuple(msgspec.structs.replace(machine, distro=distro or machine.distro) for machine in machines)


def _live(python: str | None, quick: bool, frameworks: bool, timeout: float, distro: str | None) -> Evidence:
    from cudadoctor.model.frameworks import NAMES
    from cudadoctor.sources.host import Plan, collect
    from cudadoctor.sources.probes import PROBES

    if sys.platform not in PROBES:
        raise OSError("a live check needs Linux, WSL or Windows; explain and replay work everywhere")
    plan = Plan(
        python=python or sys.executable,
        quick=quick,
        timeout=timeout,
        distro=distro,
        frameworks=NAMES if frameworks and not quick else (),
        more=_knowledge().more_probes,
    )
    return collect(plan, None)


def diagnosis(report: Report) -> str:
    """Verdict, cause, what shows it, and the fix, as plain text."""
    from cudadoctor.commands import terminal
    from cudadoctor.report import words
    from cudadoctor.report.clean import one_line

    lines = [one_line(f"{report.verdict}: {words.headline(report)}")]
    root = report.diagnosis.root
    if root is not None:
        lines += [one_line(_knowledge().cause(root.cause).why), *words.quoted(root.evidence)]
    lines += [one_line(f"possible: {finding.named}") for finding in report.diagnosis.suspects]
    return terminal.gated("\n".join((*lines, *words.fix(report))))


def _message(report: Report) -> str:
    """What is not met, then the diagnosis and the fix."""
    from cudadoctor.commands import terminal
    from cudadoctor.report import words

    return "\n".join([*(terminal.gated(words.asked(result)) for result in words.unmet(report)), "", diagnosis(report)])
