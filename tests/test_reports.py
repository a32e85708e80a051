"""Texts as users paste them: each names its cause, and what is no fault names none.

A report is a folder `fixtures/reports/<cause-id>--<slug>/` with report.txt and case.toml; `healthy--<slug>` holds a text that shows no fault.
case.toml: cause ("none" for a healthy one), origin, source, verdict, note, and where they matter
  accept        other causes that are right as well,
  suspects      causes that an undecided text must leave open, the first of them first,
  also          causes of advice or degradation that must stand beside the verdict,
  fix_contains  patterns that the printed steps must hold, for the distribution that the text shows or ubuntu-24.04,
  fix_begins    the same for the first two steps alone,
  fix_lacks     patterns that they must not hold: what would be wrong here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec
import pytest

from cudadoctor.judge.stages import judge
from cudadoctor.model.recipe import Step
from cudadoctor.model.report import Report
from cudadoctor.sources.pasted import evidence_of
from tests.cases import every
from tests.judging import KNOWLEDGE

FOLDER = Path(__file__).resolve().parent.parent / "fixtures" / "reports"
HEALTHY = "healthy"
DISTRIBUTION = "ubuntu-24.04"
# Neither may fall: a cause named first for every text of a fault, and no blocking cause for a text without one.
TOP_1_ACCURACY = 1.0
FALSE_ALARMS = 0
# A text cannot state these: they follow from what a machine shows, or are the absence of something.
UNSTATED = frozenset(
    {
        "environment-variable-breaks-cuda",
        "preloaded-library-interferes",
        "python-does-not-start",
        "python-environment-detached",
        "python-package-damaged",
        "python-startup-breaks-cuda",
        "python-startup-sets-variable",
    }
)


class Case(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a report's text must lead to."""

    cause: str
    origin: Literal["seed", "recorded", "reproduced", "reconstructed"]
    source: str
    verdict: Literal["healthy", "degraded", "broken", "undecided"]
    note: str
    accept: tuple[str, ...] = ()
    suspects: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    fix_contains: tuple[str, ...] = ()
    fix_begins: tuple[str, ...] = ()
    fix_lacks: tuple[str, ...] = ()


CASES = {
    path.name: msgspec.toml.decode((path / "case.toml").read_text("utf-8"), type=Case) for path in sorted(FOLDER.iterdir()) if path.is_dir()
}
FAULTS = [name for name in CASES if not name.startswith(HEALTHY)]
SOUND = [name for name in CASES if name.startswith(HEALTHY)]


@cache
def judged(name: str) -> Report:
    evidence = evidence_of((FOLDER / name / "report.txt").read_bytes())
    report = judge(evidence, KNOWLEDGE)
    assert report.diagnosis.crashes == ()
    case = CASES[name]
    if report.machine.distribution is None and (case.fix_contains or case.fix_begins or case.fix_lacks):
        report = judge(msgspec.structs.replace(evidence, distro=DISTRIBUTION), KNOWLEDGE)
    return report


def named(report: Report) -> str | None:
    """The cause that a reader sees first: the root, else the likeliest suspect, else the first that stands beside the verdict."""
    diagnosis = report.diagnosis
    found = (diagnosis.root, *diagnosis.suspects, *diagnosis.also)
    return next((finding.cause for finding in found if finding is not None), None)


def blamed(report: Report) -> list[str]:
    """Causes that the report says break something."""
    diagnosis = report.diagnosis
    found = (diagnosis.root, *diagnosis.explains, *diagnosis.also)
    return [finding.cause for finding in found if finding is not None and finding.effect == "blocks"]


@every("name", CASES)
def test_a_case_is_whole(name: str) -> None:
    case = CASES[name]
    prefix = name.split("--")[0]
    assert (prefix == HEALTHY and case.cause == "none") or prefix == case.cause
    assert case.note
    assert case.source
    known = set(KNOWLEDGE.causes) | {"none"}
    assert {case.cause, *case.accept, *case.suspects, *case.also} <= known
    assert not ((case.fix_contains or case.fix_begins or case.fix_lacks) and case.verdict != "broken"), "steps are printed for a root alone"


@every("name", CASES)
def test_what_a_reader_is_told(name: str) -> None:
    report, case = judged(name), CASES[name]
    assert report.verdict == case.verdict, f"root {report.diagnosis.root}, suspects {[one.cause for one in report.diagnosis.suspects]}"
    assert report.exit_code == {"broken": 1, "undecided": 3}.get(report.verdict, 0)
    assert report.diagnosis.ruled_out == (), "what a text does not show is not ruled out"
    assert {*case.also} <= {finding.cause for finding in report.diagnosis.also}
    assert {*case.suspects} <= {finding.cause for finding in report.diagnosis.suspects}
    if name in SOUND:
        assert blamed(report) == []
        assert report.verdict in ("undecided", "healthy")
    else:
        it_names_its_cause(report, case)
        it_quotes_its_text(name, report)
        its_steps(report, case)


def it_names_its_cause(report: Report, case: Case) -> None:
    assert named(report) in (case.cause, *case.accept)
    if report.verdict == "broken":
        assert report.diagnosis.root is not None
        assert report.diagnosis.root.cause in (case.cause, *case.accept)
    if report.verdict == "undecided" and not case.also:
        asked = {cause for ask in report.diagnosis.ask for cause in ask.tells_apart}
        assert asked & {finding.cause for finding in report.diagnosis.suspects}, "nothing says what would settle it"


def it_quotes_its_text(name: str, report: Report) -> None:
    lines = (FOLDER / name / "report.txt").read_bytes().decode()
    diagnosis = report.diagnosis
    for finding in (*((diagnosis.root,) if diagnosis.root else ()), *diagnosis.explains, *diagnosis.also, *diagnosis.suspects):
        assert finding.evidence, f"{finding.cause} shows no line of the text"
        assert all(quote.text.strip() for quote in finding.evidence)
        assert all(quote.last is None or quote.last <= lines.count("\n") + 1 for quote in finding.evidence)


def its_steps(report: Report, case: Case) -> None:
    steps = report.prescription.steps if report.prescription is not None else ()
    printed, first = words_of(steps), words_of(steps[:2])
    for pattern in case.fix_contains:
        assert re.search(pattern, printed), f"{pattern} is not in:\n{printed}"
    for pattern in case.fix_begins:
        assert re.search(pattern, first), f"{pattern} does not come first:\n{printed}"
    for pattern in case.fix_lacks:
        assert not re.search(pattern, printed), f"{pattern} is wrong here:\n{printed}"


def words_of(steps: Iterable[Step]) -> str:
    return "\n".join(part for step in steps for part in (step.text, step.shell or "", step.verify or ""))


def test_every_cause_that_a_text_can_state_has_a_report() -> None:
    lacking = set(KNOWLEDGE.causes) - {case.cause for case in CASES.values()} - UNSTATED
    assert not lacking, f"add fixtures/reports/<cause>--<slug>/ with report.txt and case.toml for {sorted(lacking)}"


def test_accuracy(capsys: pytest.CaptureFixture[str]) -> None:
    """One number: how many texts of a fault name its cause first."""
    right = [name for name in FAULTS if named(judged(name)) in (CASES[name].cause, *CASES[name].accept)]
    exact = [name for name in FAULTS if named(judged(name)) == CASES[name].cause]
    accuracy = len(right) / len(FAULTS)
    with capsys.disabled():
        print(f"\nreports: top-1 accuracy {accuracy:.3f} ({len(right)} of {len(FAULTS)}; {len(exact)} without the accepted alternatives)")
    assert accuracy >= TOP_1_ACCURACY, sorted(set(FAULTS) - set(right))


def test_false_alarms(capsys: pytest.CaptureFixture[str]) -> None:
    """One number: how many texts without a fault are blamed for one."""
    alarms = [name for name in SOUND if blamed(judged(name))]
    with capsys.disabled():
        print(f"\nreports: false alarms {len(alarms)} of {len(SOUND)}")
    assert len(alarms) <= FALSE_ALARMS, alarms


@every("name", CASES, share=6)
def test_line_ends_do_not_matter(name: str) -> None:
    """The same verdict with CRLF."""
    body = (FOLDER / name / "report.txt").read_bytes().replace(b"\r\n", b"\n")
    windows = judge(evidence_of(body.replace(b"\n", b"\r\n")), KNOWLEDGE)
    assert (windows.verdict, named(windows)) == (judged(name).verdict, named(judged(name)))
