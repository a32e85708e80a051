"""Joins the stages: evidence becomes a judgement, a judgement becomes a report. Pure.

Flow: Evidence -> Facts -> Clues -> Diagnosis -> Prescription -> Report. Each stage runs in a guard: one that fails becomes a crash
entry, the rest goes on, and the verdict says so.
"""

from __future__ import annotations

from functools import partial

import msgspec

from cudadoctor import __version__, prescribe
from cudadoctor.checks import rows
from cudadoctor.inventory.rungs import Rungs, observe
from cudadoctor.judge import assemble, experiments, open_questions
from cudadoctor.judge.diagnose import Seen, diagnose, rungs_shown_failing
from cudadoctor.judge.verdict import action, exit_code
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model import report
from cudadoctor.model.evidence import Evidence
from cudadoctor.model.experiments import Plan
from cudadoctor.model.facts import Facts
from cudadoctor.model.findings import Conclusion, Diagnosis, Judged
from cudadoctor.model.guard import Guard
from cudadoctor.model.recipe import Prescription
from cudadoctor.model.requirements import Requirements
from cudadoctor.model.values import RungName
from cudadoctor.parsers import error_codes, read, tries
from cudadoctor.prescribe.distribution import is_windows
from cudadoctor.sources import pasted
from cudadoctor.texts import long_texts, statements

_OF_EVIDENCE = ("python", "quick", "redacted", "host", "boot_id", "time", "bundle", "node")
_NOTHING = Judged(verdict="undecided", diagnosis=Diagnosis(), values={})


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the evidence and what follows: all that a report, a policy or steps for another cause need."""

    evidence: Evidence
    facts: Facts
    seen: Seen
    judged: Judged
    before: Judged  # what it would be if nothing were expected
    past: tuple[str, ...]  # lines of the kernel log that speak of the past
    numbering: long_texts.Numbering
    remarks: tuple[str, ...]  # what was not read of long texts
    figures: tuple[report.BenchmarkResult, ...]
    plan: Plan | None  # what may be tried here, before anything was


def judge(evidence: Evidence, knowledge: Knowledge, requirements: Requirements | None = None, guard: Guard | None = None) -> report.Report:
    """The report on this evidence. Pure: no file, process or library is touched, and the same evidence gives the same report."""
    wanted, guard = requirements or Requirements(), guard or Guard()
    return report_on(weighed(evidence, knowledge, wanted, guard), knowledge, wanted, guard)


def weighed(evidence: Evidence, knowledge: Knowledge, wanted: Requirements, guard: Guard) -> Judgement:
    """Parse, check, read texts, weigh, decide."""
    shortened = long_texts.Short(evidence)
    looked_for = partial(knowledge.once, "all literals", lambda: read.literals(knowledge) | statements.literals(knowledge))
    codes = partial(error_codes.number_places, knowledge=knowledge)
    shortened = guard.run("parse", "long texts", shortened, long_texts.shortened, evidence, looked_for, codes)
    short, numbering = shortened.evidence, shortened.numbering
    facts = guard.run("parse", "evidence", Facts(()), read.read, short, guard, knowledge)
    outcomes = rows.apply(facts, knowledge, guard)
    clues = [clue for outcome in outcomes for clue in outcome.clues]
    clues.extend(statements.stated(short, facts, knowledge, guard))
    rungs = guard.run("rungs", "observe", Rungs({}, {}), observe, facts, shown_failing=rungs_shown_failing(clues, knowledge))
    present, past = statements.of_kernel_log(short, facts, knowledge, rungs, guard)
    figures = guard.run("assemble", "benchmark", (), assemble.benchmark, facts, knowledge)
    # A machine that was slow in every run is degraded, also where no known cause agrees.
    slow = [result for result in figures if result.verdict == "slow" and len(result.runs) > 1]
    windows = guard.run("prescribe", "shell", False, is_windows, facts, evidence.distro, knowledge)
    seen = Seen(
        clues=(*clues, *present),
        outcomes=outcomes,
        facts=facts,
        rungs=rungs,
        goal=_goal(short, wanted),
        unexplained=guard.run("texts", "dcgm", False, statements.unexplained, facts, knowledge),
        slow=bool(slow),
        why_slow=guard.run("assemble", "slowness", (), open_questions.why_slow, slow, knowledge, windows=windows),
        windows=windows,
    )
    nothing_expected = msgspec.structs.replace(wanted, expected=())
    before = _decided(seen, evidence, numbering, knowledge, nothing_expected, guard)
    plan = guard.run("experiments", "plan", None, experiments.plan, seen, before, evidence, knowledge)
    runs = guard.run("experiments", "read", (), tries.read, evidence)
    if plan is not None and runs:
        seen = msgspec.structs.replace(
            seen, tried=guard.run("experiments", "concluded", Conclusion(), experiments.concluded, plan, runs, facts, knowledge)
        )
        before = _decided(seen, evidence, numbering, knowledge, nothing_expected, guard)
    return Judgement(
        evidence=evidence,
        facts=facts,
        seen=seen,
        judged=_decided(seen, evidence, numbering, knowledge, wanted, guard) if wanted.expected else before,
        before=before,
        past=tuple(dict.fromkeys(quote.text for clue in past for quote in clue.quotes)),
        numbering=numbering,
        remarks=shortened.remarks,
        figures=figures,
        plan=plan if not runs and evidence.origin == "live" else None,
    )


def _decided(
    seen: Seen, evidence: Evidence, numbering: long_texts.Numbering, knowledge: Knowledge, wanted: Requirements, guard: Guard
) -> Judged:
    """The verdict and what it rests on, for all that has failed or was left out so far."""
    cut = evidence.cut_short or (evidence.bundle is not None and bool(evidence.remarks))  # remarked is what was not read of a bundle
    cut = cut or any(item.kind == "text" and item.dropped_bytes for item in evidence.items)
    now = msgspec.structs.replace(seen, crashes=tuple(guard.crashes), partial=bool(guard.left_out) or cut)
    return long_texts.renumbered(guard.run("diagnose", "diagnose", _NOTHING, diagnose, now, knowledge, wanted), numbering)


def report_on(found: Judgement, knowledge: Knowledge, wanted: Requirements, guard: Guard) -> report.Report:
    """The report that says it."""
    failed = guard.failures
    shown = _assembled(found, knowledge, wanted, guard)
    shown = with_failures(shown, found, knowledge, wanted, guard, since=failed)
    return msgspec.structs.replace(shown, notes=(*shown.notes, *found.remarks, *knowledge.left_out))


def with_failures(
    shown: report.Report, found: Judgement, knowledge: Knowledge, wanted: Requirements, guard: Guard, *, since: int
) -> report.Report:
    """The report with what was left out. Where a part failed since then, the verdict is decided again: that is among its grounds."""
    if guard.failures != since:
        shown = _with_verdict(shown, _decided(found.seen, found.evidence, found.numbering, knowledge, wanted, guard), wanted, guard)
    left_out = (f"Left out, for it did not end in time: {part}." for part in guard.left_out)
    return msgspec.structs.replace(shown, notes=tuple(dict.fromkeys((*shown.notes, *left_out))))


def _assembled(found: Judgement, knowledge: Knowledge, wanted: Requirements, guard: Guard) -> report.Report:
    """All parts of the report."""
    evidence, facts, judged = found.evidence, found.facts, found.judged
    root = judged.diagnosis.root
    values = judged.values.get(root.cause, {}) if root is not None else {}
    prescription: Prescription | None = guard.run(
        "prescribe", "prescribe", None, prescribe.prescribe, root, values, facts, knowledge, evidence.distro
    )
    way = guard.run("prescribe", "way", (), prescribe.way, root, values, facts, knowledge, evidence.distro, prescription)
    of_checks = guard.run("assemble", "rows", (), assemble.rows, facts, evidence, knowledge, found.before, found.seen.rungs, wanted, guard)
    of_checks = guard.run("assemble", "expected", of_checks, assemble.without_expected, of_checks, judged, found.before, knowledge)
    of_text = guard.run("assemble", "text", None, assemble.text_row, evidence, knowledge, judged)
    shown = report.Report(
        tool=report.Tool(name="cudadoctor", version=__version__),
        origin=report.ReportOrigin(kind=evidence.origin, **{name: getattr(evidence, name) for name in _OF_EVIDENCE}),
        verdict=judged.verdict,
        exit_code=0,
        action="none",
        machine=guard.run("assemble", "machine", _no_machine(evidence), assemble.machine, facts, evidence, knowledge),
        checks=(*long_texts.renumbered(of_checks, found.numbering), *((of_text,) if of_text is not None else ())),
        diagnosis=judged.diagnosis,
        prescription=prescription if not wanted.interrupted else None,
        way=way if not wanted.interrupted else (),
        requirements=(),
        smoke=guard.run("assemble", "smoke", (), assemble.smoke, facts, lambda text: _planted(text, knowledge)),
        benchmark=found.figures,
        lessons=guard.run("assemble", "lessons", (), assemble.lessons, facts),
        sustained=guard.run("assemble", "sustained", (), assemble.sustained, facts),
        timing=assemble.timing(evidence, knowledge),
        notes=guard.run("assemble", "notes", (), assemble.notes, facts, evidence, judged, found.past, knowledge),
    )
    return _with_verdict(shown, judged, wanted, guard)


def _with_verdict(shown: report.Report, judged: Judged, wanted: Requirements, guard: Guard) -> report.Report:
    crashes = tuple(guard.crashes)
    return msgspec.structs.replace(
        shown,
        verdict=judged.verdict,
        exit_code=exit_code(judged.verdict, wanted, crashed=bool(crashes), met=all(one.met for one in shown.requirements)),
        action=action(judged.verdict, shown.prescription),
        diagnosis=msgspec.structs.replace(judged.diagnosis, crashes=crashes),
    )


def _planted(text: str, knowledge: Knowledge) -> report.Planted:
    """What the doctor says to the words of a failure that a test made on purpose, as to anybody's."""
    found = weighed(pasted.evidence_of(text.encode("utf-8", "surrogateescape")), knowledge, Requirements(), Guard())
    root = found.judged.diagnosis.root
    if root is None:
        return report.Planted(text=text, cause=None, advice=None)
    prescription = prescribe.prescribe(root, found.judged.values[root.cause], found.facts, knowledge, None)
    advice = prescription.steps[0].text if prescription is not None and prescription.steps else None
    return report.Planted(text=text, cause=root.cause, advice=advice)


def _goal(evidence: Evidence, wanted: Requirements) -> RungName | None:
    """The last rung asked for; None for a text without a machine."""
    if evidence.origin == "text":
        return None
    if evidence.bundle is not None:
        return "nvml"  # the last rung that a report of another tool shows: it asks nvidia-smi, and runs no CUDA program
    return "devices" if evidence.quick and not wanted.needs_kernel else "numba-kernel"


def _no_machine(evidence: Evidence) -> report.Machine:
    unknown = dict.fromkeys(("system", "kernel", "distribution", "container", "wsl"))
    driver = report.MachineDriver(module=None, library=None, cuda=None, flavour=None)
    python = report.MachinePython(path=evidence.python, version=None, packages={})
    return report.Machine(**unknown, driver=driver, python=python, gpus=())
