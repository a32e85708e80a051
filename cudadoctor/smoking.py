"""What `cudadoctor smoke` prints and requires: every kernel on every visible GPU, or a failure."""

from __future__ import annotations

import msgspec

from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.report import Report
from cudadoctor.report import text


def passed(report: Report) -> bool:
    """Whether a Numba kernel ran and was right on every visible GPU, and no step failed or was left out."""
    visible = [gpu for gpu in report.machine.gpus if gpu.visible]
    tried = {result.gpu for result in report.smoke if result.gpu is not None}
    kernels = {result.gpu for result in report.smoke if result.step == "numba-kernel" and result.status == "pass"}
    every = len(kernels) >= len(visible) and tried <= kernels  # slices of one GPU share its entry among the visible ones
    return bool(visible) and every and all(result.status == "pass" for result in report.smoke)


def required(report: Report) -> Report:
    """The report with an exit code that is 0 only if the smoke test passed."""
    return report if passed(report) or report.exit_code != 0 else msgspec.structs.replace(report, exit_code=1)


def render(report: Report, knowledge: Knowledge, style: text.Style) -> str:
    """Each step with its time; where the exit code is not 0 the whole diagnosis too."""
    if not passed(report) or report.exit_code != 0:
        return steps(report, style) + text.render(report, knowledge, style)
    return steps(report, style)


def steps(report: Report, style: text.Style) -> str:
    page = text.Page(style)
    # CUDA numbers GPUs in its own order, the report lists them by address: a name stands here where all have the same.
    names = {gpu.name or "" for gpu in report.machine.gpus if gpu.visible}
    name = names.pop() if len(names) == 1 else ""
    count = len({result.gpu for result in report.smoke if result.gpu is not None})
    for result in report.smoke:
        where = f"GPU {result.gpu} {name}".rstrip() if result.gpu is not None else "all GPUs"
        took = f"{result.seconds * 1000:8.1f} ms" if result.seconds is not None else " " * 11
        why = f"  {result.why}" if result.why and result.status != "pass" else ""
        page.pair(f"{result.status:<5}", text.STATUS_STYLE[result.status], f"{took}  {where}: {result.step}{why}")
    if passed(report):
        page.raw(f"Every kernel ran on {count} GPU{'s' if count != 1 else ''} and its result was right.", style="bold green")
    return page.text()
