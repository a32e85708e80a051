"""What a policy can ask of what was run: the smoke test and the figures of the benchmark."""

from __future__ import annotations

from cudadoctor.model import units
from cudadoctor.policy.base import Answer, Answers, Question, View
from cudadoctor.policy.gpus import NO_GPU, devices, nobody


def smoke(view: View) -> Answers:
    """Whether Numba's kernels ran on every GPU, and all were right."""
    report = view.report
    kernels = [result for result in report.smoke if result.step == "numba-kernel"]
    bad = next((result for result in report.smoke if result.status == "fail"), None)
    if bad is not None:
        where = f" on GPU {bad.gpu}" if bad.gpu is not None else ""
        return (Answer(value="off", shown=f"{bad.step} failed{where}: {bad.why or 'no reason given'}"),)
    if not devices(view) and nobody(view).is_fault:
        return (Answer(value="off", shown=NO_GPU),)
    passed = {result.gpu for result in kernels if result.status == "pass"}
    left_out = next((result for result in report.smoke if result.status == "skip"), None)
    if report.origin.quick and not kernels:
        return (Answer(why="--quick runs no kernel"),)
    if not passed or len(passed) < len({result.gpu for result in report.smoke if result.gpu is not None}):
        return (Answer(why=(left_out.why if left_out is not None else None) or "no Numba kernel ran on every GPU"),)
    if left_out is not None:
        return (Answer(why=f"{left_out.step} was left out: {left_out.why or 'no reason given'}"),)
    return (Answer(value="on", shown=f"every kernel was right on {len(passed)} GPU{'s' if len(passed) != 1 else ''}"),)


def figure(name: str) -> Question:
    """One figure of the benchmark on each GPU, in the unit of its kind."""

    def question(view: View) -> Answers:
        found = [entry for entry in view.report.benchmark if entry.name == name]
        if not found:
            without = nobody(view)
            if not devices(view) and without.is_fault:
                yield without
                return
            yield Answer(why="--quick measures nothing" if view.report.origin.quick else f"{name} was not measured")
        many = len(found) > 1
        for entry in found:
            other = f" and GPU {entry.peer}" if entry.peer is not None else ""
            where = f"GPU {entry.gpu}{other}" if many or other else ""
            if entry.value is None:
                yield Answer(where=where, why=entry.why or "not measured")
                continue
            factor = {"ns": 1e-3, "ms": 1e3, "s": 1e6, "TOP/s": 1e3}.get(entry.unit, 1.0)
            share = f", {entry.share:.0%} of {entry.limit:.0f} {entry.unit}" if entry.share is not None and entry.limit else ""
            shown = f"{units.figure(entry.value, entry.unit)}{share}"
            yield Answer(where=where, value=entry.value * factor, shown=shown, share=entry.share)

    return question
