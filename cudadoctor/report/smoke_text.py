"""What `cudadoctor smoke` prints: every step on every visible GPU, and what a timer measures there."""

from __future__ import annotations

from collections.abc import Sequence

from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.report import Planted, Report
from cudadoctor.model.values import LessonResult
from cudadoctor.report import text


def passed(report: Report) -> bool:
    """Whether a Numba kernel ran and was right on every visible GPU, and no step failed or was left out."""
    visible = [gpu for gpu in report.machine.gpus if gpu.visible]
    tried = {result.gpu for result in report.smoke if result.gpu is not None}
    kernels = {result.gpu for result in report.smoke if result.step == "numba-kernel" and result.status == "pass"}
    every = len(kernels) >= len(visible) and tried <= kernels  # slices of one GPU share its entry among the visible ones
    return bool(visible) and every and all(result.status == "pass" for result in report.smoke)


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
        if result.said:
            page.prose(result.said, style="dim", indent=21)
        if result.planted is not None:
            page.prose(planted(result.planted), style="dim", indent=21)
    if report.lessons:
        lesson(page, report.lessons)
    if passed(report):
        page.raw(f"Every kernel ran on {count} GPU{'s' if count != 1 else ''} and its result was right.", style="bold green")
    return page.text()


def planted(failure: Planted) -> str:
    """What the failure that a step made on purpose is called, and what would cure it."""
    named = f"diagnosed as {failure.cause}" if failure.cause else "not diagnosed"
    return f"made on purpose, and {named}: {' '.join(failure.text.split())}. {failure.advice or ''}".rstrip()


def lesson(page: text.Page, rows: Sequence[LessonResult]) -> None:
    """What each way to take the time says, for growing arrays, and from where on the GPU is the faster one."""
    page.heading("What a timer measures (microseconds)")
    for gpu in sorted({row.gpu for row in rows}):
        for step in dict.fromkeys(row.step for row in rows):
            chosen = [row for row in rows if (row.gpu, row.step) == (gpu, step)]
            if not chosen:
                continue
            heads = f"{'Python':>11}{'compiled, CPU':>15}{'NumPy':>11}{'GPU + copies':>14}{'kernel':>10}{'launch':>8}{'NumPy / GPU':>13}"
            page.raw(f"  GPU {gpu}: {step:<10}{heads}")
            for row in chosen:
                ratio = row.cpu_us / row.gpu_us if row.gpu_us > 0 else 0.0
                figures = f"{_maybe(row.python_us):>11}{_maybe(row.compiled_us):>15}{row.cpu_us:>11.1f}{row.gpu_us:>14.1f}"
                page.raw(f"  {row.elements:>12,}    {figures}{row.kernel_us:>10.1f}{row.launch_us:>8.1f}{ratio:>12.2f}x")
            page.prose(f"The first call took {chosen[0].first_us / 1000:.0f} ms with its compilation. {break_even(chosen)}", indent=2)
    page.prose(
        "GPU + copies takes the arrays there and back; kernel is the computation alone, by events. The launch call returns before the "
        "kernel has run: a timer without synchronize measures that column. A function under @jit(target_backend='cuda') or "
        "@jit(target='cuda') is no kernel: where Numba accepts it, it runs compiled on the CPU; @cuda.jit makes a kernel.",
        indent=2,
        style="dim",
    )


def _maybe(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def break_even(rows: Sequence[LessonResult]) -> str:
    """From which size on the GPU with its copies is faster than NumPy."""
    slower = [row for row in rows if row.gpu_us >= row.cpu_us]
    if not slower:
        return f"Already at {rows[0].elements:,} elements the GPU is faster, copies included."
    if len(slower) == len(rows) or slower[-1].elements == rows[-1].elements:
        return f"Up to {rows[-1].elements:,} elements the CPU is faster: copying takes longer than computing."
    after = next(row for row in rows if row.elements > slower[-1].elements)
    between = (slower[-1].elements * after.elements) ** 0.5
    return f"Below about {between:,.0f} elements the CPU is faster: copying takes longer than computing."
