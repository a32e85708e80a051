"""What `cudadoctor run` says below a program's own output, as a person reads it: which GPUs, how much of them, or why none."""

from __future__ import annotations

from collections.abc import Sequence

from cudadoctor.model.units import size
from cudadoctor.model.use import GpuUse, Outcome, Reason
from cudadoctor.report.clean import one_line
from cudadoctor.report.page import PlainPage, Style

_BLOCKS, _ASCII = "▁▂▃▄▅▆▇█", "_.:-=+*#"
MOST_REASONS = 3


def render(outcome: Outcome, style: Style) -> str:
    """The line on the GPUs, each that was used, then the cause of a failure or of idle GPUs."""
    page = PlainPage(style)
    page.raw(f"cudadoctor: {_headline(outcome)}", "bold")
    for gpu in outcome.gpus:
        _gpu(page, gpu)
    for note in outcome.notes:
        page.prose(note, indent=2)
    if outcome.failure is not None:
        page.heading(f"Why it failed: {outcome.failure.title} [{outcome.failure.cause}]")
        _reason(page, outcome.failure)
    for number, reason in enumerate(outcome.not_used if style.verbose else outcome.not_used[:MOST_REASONS]):
        page.heading(f"{'Why' if not number else 'Also'}: {reason.title} [{reason.cause}]")
        _reason(page, reason)
    return page.text()


def _headline(outcome: Outcome) -> str:
    because = f": {outcome.why_unknown}" if outcome.why_unknown else ""
    if outcome.used == "no":
        return f"the program never used a GPU{because}"
    if outcome.used == "unknown":
        return f"whether the program used a GPU is not known{because}"
    if not outcome.gpus:
        return f"the program used a GPU; how much is not known{because}"
    count = len(outcome.gpus)
    seconds = max(gpu.last_s for gpu in outcome.gpus) - min(gpu.first_s for gpu in outcome.gpus)
    name = f"{count} GPUs" if count > 1 else "a GPU"
    return f"the program used {name} for {seconds:.1f} of {outcome.seconds:.1f} s"


def _gpu(page: PlainPage, gpu: GpuUse) -> None:
    memory = f"peak memory {size(gpu.peak_bytes)}" if gpu.peak_bytes is not None else "its memory is not shown"
    if gpu.peak_bytes is not None and gpu.memory_bytes:
        memory += f" of {size(gpu.memory_bytes)}"
    busy = "utilisation not shown"
    if gpu.mean_percent is not None:
        busy = f"busy {gpu.mean_percent:.0f} % on average, {gpu.peak_percent} % at most"
    name = f"GPU {gpu.index} {gpu.name}" if gpu.name else f"GPU {gpu.index}"
    page.prose(f"{name}: {memory}; {busy}", indent=2, hang=2)
    seen = [value for value in gpu.course if value is not None]
    if len(seen) > 1:
        page.raw(f"  {course(gpu.course, ascii_only=page.style.ascii)}  each column {gpu.course_s:g} s", "dim", indent=2)
    if gpu.basis == "growth":
        words = "NVML does not show this program's processes here: the memory is what the GPU's use grew by meanwhile."
        page.prose(words, indent=4)
    if gpu.others:
        page.prose(f"{gpu.others} other process{'es' if gpu.others > 1 else ''} computed there too; utilisation counts all.", indent=4)
    for process in gpu.processes:
        page.raw(one_line(f"process {process.pid}: {process.command}"), "dim", indent=4)


def _reason(page: PlainPage, reason: Reason) -> None:
    page.prose(reason.why, indent=2)
    for line in reason.lines:
        page.raw(line, indent=2)
    if reason.steps:
        page.raw("Fix:", "bold", indent=2)
        for line in reason.steps:
            (page.raw if line.startswith("    ") else page.prose)(line, indent=2)


def course(values: Sequence[int | None], *, ascii_only: bool) -> str:
    """Utilisation over time in one line; a blank where nothing was seen."""
    signs = _ASCII if ascii_only else _BLOCKS
    return "".join(" " if value is None else signs[min(len(signs) - 1, value * len(signs) // 100)] for value in values).rstrip()
