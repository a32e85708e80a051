"""Facts and diagnosis to the rows of a report, each with its status, and the row of the user's text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from cudadoctor.checks.base import Check, Line
from cudadoctor.checks.common import plural
from cudadoctor.checks.rows import describe, of
from cudadoctor.inventory.rungs import LADDER_ORDER, Rungs, below
from cudadoctor.judge.assemble.figures import benchmark
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model import report
from cudadoctor.model.evidence import Evidence
from cudadoctor.model.facts import Fact, Facts, Quote
from cudadoctor.model.findings import LAYERS, Diagnosis, Finding, Judged
from cudadoctor.model.guard import Guard
from cudadoctor.model.requirements import Requirements
from cudadoctor.model.values import HANGS, KERNEL_LOG, LADDER, PYTHON, SMI, RungName

# The rungs whose success or failure a row reports.
ROW_RUNGS: dict[str, tuple[RungName, ...]] = {
    "gpu": ("pci",),
    "driver": ("driver",),
    "device-nodes": ("nodes",),
    "nvml": ("nvml",),
    "libcuda": ("libcuda", "init", "devices", "context", "memory", "ptx-kernel"),
    "toolkit": ("toolkit",),
    "python": ("framework",),
    "numba": ("numba-kernel",),
    "smoke": ("numba-kernel",),
}
OF_DRIVER = ("nvml", "health")
NOT_IN_BUNDLES = (LADDER.name, PYTHON.name)
KERNEL_ROWS = ("numba", "smoke", "benchmark")  # --quick ends before them


def rows(
    facts: Facts, evidence: Evidence, knowledge: Knowledge, judged: Judged, rungs: Rungs, wanted: Requirements, guard: Guard
) -> tuple[report.Row, ...]:
    """Every chosen row with its status, computed after the diagnosis."""
    out = []
    for check in of(knowledge):
        if not wanted.wants(check.id):
            continue
        crashed = Line("this row could not be described: see crashes", because="a part of the doctor failed")
        line = guard.run("describe", check.id, crashed, describe, check, facts, knowledge)
        status, because = _status(check, line, facts, evidence, knowledge, judged, rungs)
        found = _found_in(check, judged, knowledge) if status in ("fail", "warn") else None
        known = line.because is None and line.summary != found
        out.append(
            report.Row(
                id=check.id,
                title=check.title,
                status=status,
                summary=(f"{found}; {line.summary}" if known else found) if found else line.summary,
                because=because,
                evidence=tuple(line.quotes[:4]),
                details=line.details,
            )
        )
    return tuple(out)


def _found_in(check: Check, judged: Judged, knowledge: Knowledge) -> str | None:
    """What a row fails or warns for: what its probes measured may look well, as the temperature of a GPU without its fabric does."""
    found = (*_root(judged.diagnosis), *judged.diagnosis.also)
    named = _rows_of(sorted(found, key=lambda finding: finding.effect != "blocks"), knowledge, check.id)
    return named[0].title if named else None


def _rows_of(findings: Iterable[Finding], knowledge: Knowledge, row: str) -> list[Finding]:
    """Those that belong to this row."""
    return [one for one in findings if one.cause in knowledge.causes and knowledge.causes[one.cause].row == row]


def _root(diagnosis: Diagnosis) -> tuple[Finding, ...]:
    return (diagnosis.root,) if diagnosis.root is not None else ()


def _status(
    check: Check, line: Line, facts: Facts, evidence: Evidence, knowledge: Knowledge, judged: Judged, rungs: Rungs
) -> tuple[report.RowStatus, str | None]:
    diagnosis = judged.diagnosis
    root = diagnosis.root
    own = _rows_of((*_root(diagnosis), *diagnosis.also), knowledge, check.id)
    if any(finding.effect == "blocks" for finding in own):
        return "fail", None
    explained = _rows_of(diagnosis.explains, knowledge, check.id)
    failed = [rung for rung in ROW_RUNGS.get(check.id, ()) if rungs.failed(rung)] or _smi_failed(check, facts)
    if root is not None and root not in own and (explained or _accounts(root, failed, knowledge, judged.at)):
        return "skip", root.cause
    if line.skip is not None and not explained:
        return "skip", line.skip
    not_run = _not_run(check, facts, evidence, judged, rungs)
    if not_run is not None:
        return "skip", not_run
    if own or (check.id == "benchmark" and any(entry.verdict == "slow" for entry in benchmark(facts, knowledge))):
        return "warn", None
    if failed:
        return "fail", None  # seen to fail, and nothing known explains it
    if line.because is not None:
        return "unknown", line.because
    missing = _missing(check, judged, rungs, in_bundle=evidence.bundle is not None)
    suspected = _rows_of(diagnosis.suspects, knowledge, check.id)
    if suspected and not missing:
        return "unknown", f"possible: {suspected[0].title}"
    return ("unknown", f"{', '.join(missing)} not known") if missing else ("pass", None)


def _missing(check: Check, judged: Judged, rungs: Rungs, *, in_bundle: bool) -> list[str]:
    """Facts that a rule of this row needed and nobody knows: such a row does not pass.

    Where the GPU was initialised two things are excepted: the kernel log, because a line of the past could not accuse what works
    now, and the rows of bus and driver, whose causes cannot lie dormant below a rung that works as a missing node can. A bundle holds
    neither ladder nor Python: where NVML answered, that is not held against the rows that speak of the driver.
    """
    works = rungs.worked("init")
    lacking = [fact for entry in judged.diagnosis.undecided if entry.row == check.id for fact in entry.missing]
    if in_bundle and rungs.worked("nvml"):
        below = check.id in ("gpu", "driver")
        return [fact for fact in lacking if not ((below and fact != KERNEL_LOG.name) or (check.id in OF_DRIVER and fact in NOT_IN_BUNDLES))]
    return [fact for fact in lacking if not (works and (fact == KERNEL_LOG.name or (check.id in ("gpu", "driver") and fact != HANGS.name)))]


def _accounts(root: Finding, failed: Sequence[RungName], knowledge: Knowledge, at: RungName | None) -> bool:
    """Whether the root is the reason of a row's failure: it breaks the row's rung, or blocks at one that this rung needs."""
    breaks = {*knowledge.causes[root.cause].breaks, at}
    if root.effect == "blocks" and "nvml" in failed and LAYERS.index(root.layer) <= LAYERS.index("container"):
        return True  # below the libraries NVML and CUDA stand on the same ground
    needed = {rung for one in failed for rung in below(one)} if root.effect == "blocks" else set()
    return bool(breaks & (set(failed) | needed))


def _smi_failed(check: Check, facts: Facts) -> list[RungName]:
    """nvidia-smi is no rung of the ladder, but NVML's own program: absent, or ended with a failure message."""
    if check.id != "nvidia-smi":
        return []
    smi = facts.get(SMI)
    return ["nvml"] if isinstance(smi, Fact) and (smi.value is None or smi.value.failure is not None) else []


def _not_run(check: Check, facts: Facts, evidence: Evidence, judged: Judged, rungs: Rungs) -> str | None:
    """Why a row's probe was not run: --quick, the row whose rung broke before it, or the root cause."""
    ladder = facts.value(LADDER)
    if check.id not in KERNEL_ROWS or ladder is None:
        return None
    if ladder.benchmark if check.id == "benchmark" else ladder.result("numba-kernel"):
        return None
    broken = next((rung for rung in LADDER_ORDER[3:-1] if rungs.failed(rung)), None)
    if broken is not None:
        return judged.diagnosis.root.cause if judged.diagnosis.root is not None and judged.verdict == "broken" else "libcuda"
    return "--quick" if evidence.quick else None


def without_expected(shown: Sequence[report.Row], judged: Judged, before: Judged, knowledge: Knowledge) -> tuple[report.Row, ...]:
    """Rows beside what a policy expects: one that only expected findings hold back is skipped because of them.

    `before`: the judgement by which the rows were described, without what is expected.
    """
    if judged is before:
        return tuple(shown)
    return tuple(_as_expected(row, judged.diagnosis, before.diagnosis.root, knowledge) for row in shown)


def _as_expected(row: report.Row, diagnosis: Diagnosis, root: Finding | None, knowledge: Knowledge) -> report.Row:
    if row.status not in ("fail", "warn"):
        return row
    aside = [finding for finding in diagnosis.also if finding.ignored is not None]
    every = (*_root(diagnosis), *diagnosis.explains, *diagnosis.also, *diagnosis.suspects)
    if _rows_of([finding for finding in every if finding.ignored is None and finding.effect != "advises"], knowledge, row.id):
        return row
    own = _rows_of(aside, knowledge, row.id)
    # A row may also fail at a rung that the expected root broke, without a finding of its own.
    expected_root = root is not None and any(finding.cause == root.cause and finding.subject == root.subject for finding in aside)
    by = own[0].ignored if own else aside[0].ignored if expected_root and diagnosis.root is None and row.status == "fail" else None
    return row if by is None else msgspec.structs.replace(row, status="skip", because=f"expected: {by.cause}")


def said(finding: Finding) -> str:
    """What a text states; where it only hints at a cause, its own words."""
    return finding.title if finding.basis != "suspected" else finding.evidence[0].text.strip()


def text_row(evidence: Evidence, knowledge: Knowledge, judged: Judged) -> report.Row | None:
    """The 17th row: what the user's program said."""
    item = evidence.get("text")
    if item is None:
        return None
    diagnosis = judged.diagnosis
    past = (judged.not_now,) if judged.not_now is not None else ()
    everything = (*_root(diagnosis), *diagnosis.explains, *past, *diagnosis.also, *diagnosis.suspects)
    spoken = [finding for finding in everything if any(quote.source == "text" for quote in finding.evidence)]
    quotes: tuple[Quote, ...] = tuple(quote for finding in spoken for quote in finding.evidence if quote.source == "text")[:4]
    status: report.RowStatus = "unknown"
    if spoken:
        sure = any(finding.basis != "suspected" for finding in spoken)
        status = "fail" if sure and judged.verdict == "broken" else "warn"
        summary = f"{said(spoken[0])}: not so at present" if past and spoken[0] == past[0] else spoken[0].title
    else:
        summary = f"{plural(len((item.stdout or '').splitlines()), 'line')}, none of which names a known cause"
    because = None if spoken else "not understood"
    return report.Row(id="text", title="What the program said", status=status, summary=summary, because=because, evidence=quotes)
