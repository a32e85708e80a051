"""Steps for a cause that the user names, whatever this machine's is."""

from __future__ import annotations

from cudadoctor import prescribe
from cudadoctor.judge.stages import Judgement
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model import exit_codes
from cudadoctor.model.findings import Finding
from cudadoctor.model.recipe import Prescription
from cudadoctor.model.report import Report


def for_cause(cause: str, report: Report, judgement: Judgement, knowledge: Knowledge) -> Prescription | None:
    """The steps for a cause of the user's choice, with this machine's values."""
    diagnosis = report.diagnosis
    if diagnosis.root is not None and diagnosis.root.cause == cause:
        return report.prescription
    known = knowledge.cause(cause)
    found = next((finding for finding in (*diagnosis.explains, *diagnosis.also, *diagnosis.suspects) if finding.cause == cause), None)
    finding = found or Finding(
        cause=cause, layer=known.layer, title=known.title, subject="machine", effect=known.effect, basis="suspected", evidence=()
    )
    values = judgement.judged.values.get(cause, {})
    return prescribe.prescribe(finding, values, judgement.facts, knowledge, judgement.evidence.distro)


def exit_code(report: Report, prescription: Prescription | None, *, named: bool) -> int:
    """0 where the steps cure it, or where there is nothing to cure; `named`: the user asked about a cause, whatever the verdict is."""
    if report.exit_code == exit_codes.INTERRUPTED:
        return exit_codes.INTERRUPTED
    cures = prescription is not None and prescription.steps and prescription.no_software_fix is None
    return exit_codes.HEALTHY if cures or (report.verdict == "healthy" and not named) else exit_codes.UNDECIDED
