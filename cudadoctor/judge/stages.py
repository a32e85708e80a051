"""Joins the stages: `judge` turns evidence into a report and touches nothing.

Flow: Evidence -> Facts -> Clues -> Diagnosis -> Prescription -> Report. Each stage runs in a guard: one that fails becomes a crash
entry, the rest goes on, and the verdict says so.
"""

from __future__ import annotations

import msgspec

from cudadoctor import __version__, prescribe
from cudadoctor.checks import rows
from cudadoctor.inventory.rungs import Rungs, observe
from cudadoctor.judge import assemble, slowness
from cudadoctor.judge.diagnose import diagnose, rungs_shown_failing
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model import exit_codes, report
from cudadoctor.model.diagnosis import Diagnosis, Judged, Verdict
from cudadoctor.model.evidence import Evidence
from cudadoctor.model.facts import Facts
from cudadoctor.model.guard import Guard
from cudadoctor.model.recipe import Action, Prescription
from cudadoctor.model.requirements import Requirements
from cudadoctor.model.values import RungName
from cudadoctor.parsers import read
from cudadoctor.sources import pasted
from cudadoctor.texts import long_texts, statements


def judge(evidence: Evidence, knowledge: Knowledge, requirements: Requirements | None = None, guard: Guard | None = None) -> report.Report:
    """The report on this evidence. Pure: no file, process or library is touched, and the same evidence gives the same report."""
    wanted = requirements or Requirements()
    guard = guard or Guard()
    full, (evidence, numbering) = evidence, guard.run("parse", "long texts", (evidence, {}), long_texts.shortened, evidence)
    facts = guard.run("parse", "evidence", Facts(()), read.read, evidence, guard, knowledge)
    outcomes = rows.apply(facts, knowledge, guard)
    clues = [clue for outcome in outcomes for clue in outcome.clues]
    clues.extend(statements.stated(evidence, facts, knowledge, guard))
    rungs = guard.run("rungs", "observe", Rungs({}, {}), observe, facts, shown_failing=rungs_shown_failing(clues, knowledge))
    present, past = statements.of_kernel_log(evidence, facts, knowledge, rungs, guard)
    goal = _goal(evidence, wanted)
    nothing = Judged(verdict="undecided", diagnosis=Diagnosis(), values={})
    judged = guard.run(
        "diagnose",
        "diagnose",
        nothing,
        diagnose,
        clues + present,
        outcomes,
        facts,
        knowledge,
        rungs,
        goal=goal,
        crashes=tuple(guard.crashes),
        unexplained=guard.run("texts", "dcgm", False, statements.unexplained, facts, knowledge),
    )
    judged = long_texts.renumbered(judged, numbering)
    figures = guard.run("assemble", "benchmark", (), assemble.benchmark, facts, knowledge)
    judged = guard.run("assemble", "slowness", judged, slowness.told, judged, figures, knowledge)
    prescription: Prescription | None = guard.run(
        "prescribe", "prescribe", None, prescribe.prescribe, judged.diagnosis.root, judged.values, facts, knowledge, evidence.distro
    )
    way = guard.run(
        "prescribe", "way", (), prescribe.way, judged.diagnosis.root, judged.values, facts, knowledge, evidence.distro, prescription
    )
    shown = guard.run("assemble", "rows", (), assemble.rows, facts, full, knowledge, judged, rungs, wanted, guard)
    of_text = guard.run("assemble", "text", None, assemble.text_row, full, knowledge, judged)
    machine = guard.run("assemble", "machine", _no_machine(evidence), assemble.machine, facts, evidence, knowledge)
    smoke = guard.run("assemble", "smoke", (), assemble.smoke, facts, lambda text: _planted(text, knowledge))
    past_lines = [quote.text for clue in past for quote in clue.quotes]
    said = guard.run("assemble", "notes", (), assemble.notes, facts, evidence, judged, tuple(dict.fromkeys(past_lines)), knowledge)
    verdict, diagnosis = _as_far_as_seen(judged, guard, cut_short=evidence.cut_short)
    return report.Report(
        tool=report.Tool(name="cudadoctor", version=__version__),
        origin=report.ReportOrigin(
            kind=evidence.origin,
            python=evidence.python,
            quick=evidence.quick,
            redacted=evidence.redacted,
            bundle=evidence.bundle,
            node=evidence.node,
        ),
        verdict=verdict,
        exit_code=exit_code(verdict, diagnosis, wanted),
        action=_action(verdict, prescription),
        machine=machine,
        checks=(*long_texts.renumbered_rows(shown, numbering), *((of_text,) if of_text is not None else ())),
        diagnosis=diagnosis,
        prescription=prescription,
        way=way,
        requirements=(),
        smoke=smoke,
        benchmark=figures,
        lessons=guard.run("assemble", "lessons", (), assemble.lessons, facts),
        timing=assemble.timing(evidence, knowledge),
        notes=(*said, *(f"Left out, for it did not end in time: {part}." for part in guard.left_out), *knowledge.left_out),
    )


def _planted(text: str, knowledge: Knowledge) -> report.Planted:
    """What the doctor says to the words of a failure that a test made on purpose, as to anybody's."""
    found = judge(pasted.evidence_of(text.encode("utf-8", "surrogateescape")), knowledge)
    root, prescription = found.diagnosis.root, found.prescription
    advice = prescription.steps[0].text if prescription is not None and prescription.steps else None
    return report.Planted(text=text, cause=root.cause if root is not None else None, advice=advice)


def _goal(evidence: Evidence, wanted: Requirements) -> RungName | None:
    """The last rung asked for; None for a text without a machine."""
    if evidence.origin == "text":
        return None
    if evidence.bundle is not None:
        return "nvml"  # the last rung that a report of another tool shows: it asks nvidia-smi, and runs no CUDA program
    return "devices" if evidence.quick and not wanted.needs_kernel else "numba-kernel"


def _as_far_as_seen(judged: Judged, guard: Guard, *, cut_short: bool) -> tuple[Verdict, Diagnosis]:
    """A report of which a part is missing, by a crash after the diagnosis or for want of time, is not called healthy."""
    diagnosis = msgspec.structs.replace(judged.diagnosis, crashes=tuple(guard.crashes))
    if (guard.crashes or guard.left_out or cut_short) and judged.verdict in ("healthy", "degraded"):
        return "undecided", msgspec.structs.replace(
            diagnosis, root=None, also=(*((diagnosis.root,) if diagnosis.root else ()), *diagnosis.also)
        )
    return judged.verdict, diagnosis


def exit_code(verdict: Verdict, diagnosis: Diagnosis, wanted: Requirements) -> int:
    """1 broken, or degraded under --strict; 4 undecided because a part crashed, 3 undecided otherwise; 0 healthy or degraded."""
    if verdict == "broken" or (verdict == "degraded" and wanted.strict):
        return exit_codes.BROKEN
    if verdict == "undecided":
        return exit_codes.CRASHED if diagnosis.crashes else exit_codes.UNDECIDED
    return exit_codes.HEALTHY


def interrupted(found: report.Report) -> report.Report:
    """The report on a collection that Ctrl-C ended. What it names may follow from what was not asked any more: it is possible, no more."""
    diagnosis = found.diagnosis
    possible = tuple(msgspec.structs.replace(one, basis="suspected") for one in ((diagnosis.root,) if diagnosis.root is not None else ()))
    return msgspec.structs.replace(
        found,
        verdict="undecided",
        exit_code=exit_codes.INTERRUPTED,
        action="collect-evidence",
        diagnosis=msgspec.structs.replace(diagnosis, root=None, suspects=(*possible, *diagnosis.suspects)),
        prescription=None,
        way=(),
    )


def _action(verdict: Verdict, prescription: Prescription | None) -> Action:
    if verdict == "undecided":
        return "collect-evidence"
    return prescription.action if prescription is not None else "none"


def _no_machine(evidence: Evidence) -> report.Machine:
    return report.Machine(
        system=None,
        kernel=None,
        distribution=None,
        container=None,
        wsl=None,
        driver=report.MachineDriver(module=None, library=None, cuda=None, flavour=None),
        python=report.MachinePython(path=evidence.python, version=None, packages={}),
        gpus=(),
    )
