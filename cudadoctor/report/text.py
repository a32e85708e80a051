"""The report as a person reads it: the verdict, the one cause with its lines and its fix, then what stands beside it.

Colour only repeats what the words say, so a black-and-white terminal, a screen reader and a pipe get the same content. Commands
stand on lines of their own and are never wrapped.
"""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Quote
from cudadoctor.model.findings import Finding
from cudadoctor.model.recipe import Prescription, Step, Who
from cudadoctor.model.report import BenchmarkResult, Report, Row
from cudadoctor.report.clean import clean, one_line
from cudadoctor.report.page import Style as Style  # callers find it here

MAX_RULED_OUT = 6  # causes named in the line of what was ruled out
MAX_WIDTH = 100  # columns of prose; commands and quoted lines keep their own length
VERDICTS = {
    "healthy": ("HEALTHY", "bold green"),
    "degraded": ("DEGRADED", "bold yellow"),
    "broken": ("BROKEN", "bold red"),
    "undecided": ("UNDECIDED", "bold magenta"),
}
STATUS_STYLE = {"pass": "green", "warn": "yellow", "fail": "red", "unknown": "magenta", "skip": "dim"}
RISKS = {"safe": "safe", "reboot": "needs a reboot", "destructive": "destructive: ends something that runs, or is hard to take back"}
FIGURES = {
    "h2d_pinned": "host to device, pinned",
    "d2h_pinned": "device to host, pinned",
    "h2d_pageable": "host to device, pageable",
    "d2h_pageable": "device to host, pageable",
    "d2d": "device memory (read + written)",
    "launch_latency": "kernel launch",
}


class Page:
    """Lines of output. Prose wraps at the width; `raw` lines never do."""

    def __init__(self, style: Style) -> None:
        self.style = style
        self.console = Console(
            file=io.StringIO(),
            width=max(40, min(style.width, MAX_WIDTH)),
            force_terminal=style.color,
            no_color=not style.color,
            color_system="standard" if style.color else None,
            highlight=False,
            markup=False,
            emoji=False,
            legacy_windows=False,
        )

    def prose(self, text: str, style: str = "", indent: int = 0, hang: int = 0) -> None:
        """A paragraph. Lines after the first stand `hang` columns deeper: a machine's words never begin a line of ours."""
        words = Text(one_line(text), style=style)
        for number, line in enumerate(words.wrap(self.console, self.console.width - indent - hang)):
            self.console.print(Text(" " * (indent + (hang if number else 0))) + line, soft_wrap=True)

    def raw(self, text: str, style: str = "", indent: int = 0) -> None:
        for line in clean(text).split("\n"):
            self.console.print(Text(" " * indent + line, style=style), soft_wrap=True)

    def pair(self, label: str, label_style: str, text: str) -> None:
        line = Text(clean(label), style=label_style)
        line.append("  ")
        line.append(clean(text).replace("\n", " ").replace("\t", " "), style="")
        self.console.print(line, soft_wrap=True)

    def gap(self) -> None:
        self.console.print()

    def text(self) -> str:
        assert isinstance(self.console.file, io.StringIO)
        out = self.console.file.getvalue()
        if self.style.ascii:
            out = out.encode("ascii", "backslashreplace").decode()
        return "".join(f"{line.rstrip()}\n" for line in out.split("\n")[:-1])


def render(report: Report, knowledge: Knowledge, style: Style) -> str:
    """The whole report."""
    page = Page(style)
    _head(page, report)
    root = report.diagnosis.root
    if root is not None:
        _cause(page, root, knowledge)
    if report.prescription is not None:
        prescription(page, report.prescription)
    if report.verdict == "undecided":
        _open_questions(page, report)
    _beside(page, report)
    _figures(page, report)
    _rows(page, report)
    _tail(page, report)
    return page.text()


# ---------------------------------------------------------------- blocks
def _head(page: Page, report: Report) -> None:
    word, colour = VERDICTS[report.verdict]
    root = report.diagnosis.root
    if root is not None:
        said = f"{root.title} [{root.cause}]"
    elif report.verdict == "healthy":
        said = _healthy_line(report)
    else:
        said = _undecided_line(report)
    page.pair(word, colour, said)
    subject = root.subject if root is not None else "machine"
    machine = report.machine
    parts = [
        f"node {report.origin.node}" if report.origin.node else "",
        machine.distribution or "",
        f"kernel {machine.kernel}" if machine.kernel else "",
        f"driver {machine.driver.module or machine.driver.library}" if machine.driver.module or machine.driver.library else "",
        f"Python {machine.python.version or ''} {machine.python.path}".replace("  ", " ") if machine.python.path else "",
    ]
    page.raw(one_line(" | ".join(part for part in parts if part)) or "a text, no machine", style="dim")
    if subject.startswith("gpu:"):
        page.raw(one_line(f"concerns the GPU at {subject[4:]}"), style="dim")


def _undecided_line(report: Report) -> str:
    if report.diagnosis.crashes:
        return "a part of cudadoctor failed, and nothing that it saw explains a fault"
    if report.diagnosis.suspects:
        return "the cause is not certain yet"
    if any(row.id == "text" and row.status == "warn" for row in report.checks):
        return "what the text says is not so at present"
    failed = [row.id for row in report.checks if row.status == "fail"]
    if report.origin.kind == "text" and not failed:
        return "the text shows no failure that is known"
    return f"{' and '.join(failed)} failed, and nothing that was seen explains it" if failed else "too little could be seen for a verdict"


def _healthy_line(report: Report) -> str:
    if report.origin.kind == "text":
        return "the text shows that a GPU computed, and no failure that is known"
    if report.origin.bundle is not None:
        return f"{_named(report)}: NVML answers, and the report of {report.origin.bundle} shows no failure that is known"
    ran = "CUDA answers" if report.origin.quick else "a Numba kernel ran and its results were right"
    return f"{_named(report)}: {ran}"


def _named(report: Report) -> str:
    """The GPUs that a program sees; in a bundle, where none looked, those that there are."""
    gpus = [gpu for gpu in report.machine.gpus if gpu.visible or report.origin.bundle is not None]
    names = ", ".join(dict.fromkeys(gpu.name or "GPU" for gpu in gpus))
    return f"{len(gpus)} GPUs ({names})" if len(gpus) > 1 else names or "the GPU"


def _quotes(page: Page, quotes: Sequence[Quote], indent: int = 2) -> None:
    for quote in quotes:
        where = (
            ""
            if quote.first is None
            else f", line {quote.first}"
            if quote.first == quote.last
            else f", lines {quote.first} to {quote.last}"
        )
        page.raw(f"{one_line(quote.source)}{where}:", style="dim", indent=indent)
        page.raw(quote.text, indent=indent + 4)


def _cause(page: Page, root: Finding, knowledge: Knowledge) -> None:
    page.gap()
    page.prose(knowledge.cause(root.cause).why)
    page.gap()
    page.raw("What shows it", style="bold")
    _quotes(page, root.evidence)


ADMINISTRATOR = "Send this to the administrator of this machine:"
AFTERWARDS = "Afterwards:"


def prescription(page: Page, what: Prescription) -> None:
    """The steps: words, then the command on lines of its own, its risk, how to check and how to undo it.

    Those that need somebody else stand together under a heading of their own, as a message to forward.
    """
    page.gap()
    page.raw("Fix" if what.steps else "No software fix is known", style="bold")
    if what.no_software_fix is not None:
        page.prose(f"{what.no_software_fix} What can be done without:", indent=2)
    if what.steps and what.steps[0].who == "administrator":
        page.prose("This needs root, so there is nothing that you can do alone.", indent=2)
    part: Who = "user"
    for number, step in enumerate(what.steps, 1):
        if step.who != part:
            part = step.who
            _part(page, what, ADMINISTRATOR if part == "administrator" else AFTERWARDS)
        step_lines(page, number, step)


def _part(page: Page, what: Prescription, heading: str) -> None:
    page.gap()
    page.raw(heading, style="bold")
    if heading == ADMINISTRATOR:
        page.raw(f"cause: {what.cause} (more: cudadoctor explain {what.cause})", style="dim", indent=2)


def step_lines(page: Page, number: int, step: Step) -> None:
    page.prose(f"{number}. {step.text}", indent=2, hang=3)
    if step.shell:
        page.raw(step.shell, style="cyan", indent=6)
        page.raw(f"({RISKS[step.risk]})", style="dim", indent=6)
    if step.verify:
        page.raw("check that it worked:", style="dim", indent=6)
        page.raw(step.verify, indent=6)
    if step.undo:
        page.raw("to undo:", style="dim", indent=6)
        page.raw(step.undo, indent=6)


def _open_questions(page: Page, report: Report) -> None:
    diagnosis = report.diagnosis
    failed = [row for row in report.checks if row.status == "fail" and row.evidence]
    if failed:
        page.gap()
        page.raw("What failed", style="bold")
        _quotes(page, failed[0].evidence)
    if diagnosis.crashes:
        page.gap()
        page.raw("A part of cudadoctor failed; the rest of this report holds", style="bold")
        for crash in diagnosis.crashes:
            page.raw(one_line(f"{crash.stage}, {crash.name}: {crash.error}"), indent=2)
    if diagnosis.suspects:
        page.gap()
        page.raw("Possible causes, likeliest first", style="bold")
        for finding in diagnosis.suspects:
            page.prose(f"- {finding.title} [{finding.cause}]", indent=2)
        page.raw("What they rest on", style="bold")
        _quotes(page, diagnosis.suspects[0].evidence)
    if diagnosis.ask:
        page.gap()
        page.raw("What would settle it", style="bold")
        for ask in diagnosis.ask:
            page.raw(ask.command, style="cyan", indent=4)
            page.prose((f"tells apart: {', '.join(ask.tells_apart)}. " if ask.tells_apart else "") + ask.why, style="dim", indent=6)


def _beside(page: Page, report: Report) -> None:
    diagnosis = report.diagnosis
    if diagnosis.explains:
        page.gap()
        page.prose("This explains as well: " + "; ".join(f"{finding.title} [{finding.cause}]" for finding in diagnosis.explains))
    if diagnosis.also:
        page.gap()
        page.raw("Also found, independent of it" if diagnosis.root else "Also found", style="bold")
        for finding in diagnosis.also:
            page.prose(f"- {finding.title} [{finding.cause}] ({finding.effect})", indent=2)
            _quotes(page, finding.evidence[:1], indent=6)
    if report.notes:
        page.gap()
        for note in report.notes:
            page.prose(f"Note: {note}", hang=2)


def figure(result: BenchmarkResult) -> str:
    """One figure in words: value, share of the limit, and what the limit is."""
    name = FIGURES.get(result.name, result.name)
    if result.value is None:
        return f"{name}: not measured ({result.why or 'no reason recorded'})"
    words = f"{name}: {result.value:.1f} {result.unit}"
    if result.share is not None and result.limit is not None:
        words += f", {result.share:.0%} of {result.limit:.0f} {result.unit} ({result.limit_from})"
    if result.verdict == "slow":
        words += ": slow"
    return words


def _figures(page: Page, report: Report) -> None:
    if not report.benchmark:
        return
    page.gap()
    page.raw("Benchmark", style="bold")
    many = len({result.gpu for result in report.benchmark}) > 1
    for result in report.benchmark:
        page.raw((f"GPU {result.gpu}: " if many else "") + one_line(figure(result)), indent=2)


def row_line(row: Row) -> str:
    told = not row.because or row.because in row.summary or row.summary.startswith("not known")
    because = "" if told else f" (because: {row.because})"
    return f"{row.id:<16} {one_line(row.summary)}{because}"


def _rows(page: Page, report: Report) -> None:
    page.gap()
    passed = [row for row in report.checks if row.status == "pass"]
    # A text has no machine: the rows that nobody could look at are one line, not one line each.
    unseen = [row for row in report.checks if row.status == "unknown" and row.id != "text"] if report.origin.kind == "text" else []
    short = [] if page.style.verbose else [*passed, *unseen]
    for row in report.checks:
        if row not in short:
            seconds = report.timing.rows.get(row.id)
            took = f"  [{seconds:.2f} s]" if page.style.verbose and seconds is not None else ""
            page.pair(f"{row.status:<8}", STATUS_STYLE[row.status], row_line(row) + took)
            for detail in row.details:
                page.prose(detail, indent=4, hang=2)
    if passed and not page.style.verbose:
        page.prose(f"{len(passed)} of {len(report.checks)} rows pass: {', '.join(row.id for row in passed)}.", style="dim")
    if unseen and not page.style.verbose:
        page.prose(f"The text does not say enough about: {', '.join(row.id for row in unseen)}.", style="dim")


def _tail(page: Page, report: Report) -> None:
    ruled_out = report.diagnosis.ruled_out
    if ruled_out:
        # The last ones are the root's neighbours on the ladder: what else might have given this failure.
        shown = ruled_out if page.style.verbose else ruled_out[-MAX_RULED_OUT:]
        more = f", and {len(ruled_out) - len(shown)} more (-v lists them)" if len(shown) < len(ruled_out) else ""
        page.prose(f"Looked at and ruled out: {', '.join(shown)}{more}.", style="dim")
    took = f" in {report.timing.total_s:.1f} s" if report.timing.total_s is not None else ""
    page.raw(f"verdict {report.verdict}, action {report.action}, exit code {report.exit_code}{took}", style="dim")
