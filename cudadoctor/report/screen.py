"""The report on one screen, which `check` prints: what is wrong, what shows it, and next to the prompt the first command to run.

Everything else is behind -v and `cudadoctor fix`. What must be there always is: verdict, machine, the lines that show it, first step and
command; the rest goes where the screen is too small, the least telling first. A pipe gets the screen of 24 lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size

from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Quote
from cudadoctor.model.report import BenchmarkResult, Report
from cudadoctor.report import words
from cudadoctor.report.clean import clean, one_line
from cudadoctor.report.page import Style
from cudadoctor.report.text import VERDICTS, Page

_PROMPT = 1  # line that the shell writes below
# Statuses that are named: of a text, and where room is scarce; of a machine.
_NAMED = (("fail", "warn"), ("fail", "warn", "unknown", "skip"))
_COLOUR = re.compile(r"\x1b\[[0-9;]{0,20}m")
_SENTENCE = re.compile(r"(?<=[.!?]) +(?=[A-Z0-9`/])")
# Columns of the figures, in their order: the row of tables/benchmark.toml, and its head.
_COLUMNS = (("h2d_pinned", "to GPU"), ("d2h_pinned", "to host"), ("d2d", "memory"), ("fp32", "FP32"), ("launch_latency", "launch"))


class Block(NamedTuple):
    """Lines that stand together. `rank`: 0 stays; of the others the highest makes room first, by its `short` form if it has one.

    `then`: the rank of that short form.
    """

    text: str
    rank: int = 0
    short: str = ""
    then: int = 0


class Commands(NamedTuple):
    """What prints more of the same: the whole report, all steps, a message for the administrator; and what carries the steps out."""

    whole: str = "cudadoctor check -v"
    steps: str = "cudadoctor fix"
    for_admin: str = "cudadoctor fix --for-admin"
    apply: str = ""
    doctor: str = "cudadoctor"  # how the program is started
    given: str = ""  # what the commands that show more have to be given


def fits(whole: str, style: Style) -> bool:
    """Whether a text stands on the screen above the prompt."""
    return _height([Block(whole)], style.width) <= style.height - _PROMPT


def top(page: str, style: Style) -> str:
    """As many of its first lines as the screen has room for: of a view that is drawn in place nobody can scroll back."""
    lines = page.splitlines(keepends=True)
    while lines and _height([Block("".join(lines))], style.width) > max(style.height - _PROMPT, 1):
        lines.pop()
    return "".join(lines)


def render(report: Report, knowledge: Knowledge, style: Style, commands: Commands = Commands()) -> str:  # noqa: B008 - it is a constant
    blocks = [block for block in _blocks(report, knowledge, style, commands) if block.text]
    room = style.height - _PROMPT
    while _height(blocks, style.width) > room and any(block.rank for block in blocks):
        last = max(range(len(blocks)), key=lambda number: (blocks[number].rank, number))
        blocks[last : last + 1] = [Block(blocks[last].short, blocks[last].then)] if blocks[last].short else []
    return "".join(block.text for block in blocks)


def _height(blocks: Sequence[Block], width: int) -> int:
    """The lines that a terminal of this width shows."""
    lines = "".join(block.text for block in blocks).split("\n")[:-1]
    return sum(max(1, -(-cell_len(_COLOUR.sub("", line)) // width)) for line in lines)


def _prose(style: Style, text: str, colour: str = "", indent: int = 0) -> str:
    page = Page(style)
    page.prose(text, style=colour, indent=indent, hang=2 if indent else 0)
    return page.text()


def _raw(style: Style, text: str, colour: str = "", indent: int = 0) -> str:
    page = Page(style)
    page.raw(text, style=colour, indent=indent)
    return page.text()


def _shortened(style: Style, text: str, rank: int, before: str = "", then: int = 0) -> Block:
    """All of it, or its first sentence."""
    return Block(before + _prose(style, text), rank, before + _prose(style, _SENTENCE.split(one_line(text), maxsplit=1)[0]), then)


def _blocks(report: Report, knowledge: Knowledge, style: Style, commands: Commands) -> Iterator[Block]:
    root = report.diagnosis.root
    yield Block(_head(report, style), 1, _head(report, style, brief=True))
    yield from _required(report, style)
    if report.verdict == "healthy":
        yield Block(_figures(report, style))
        yield from _beside(report, style)
        yield Block(_rows(report, style, f"; all rows: {commands.whole}"))
        return
    if root is not None:
        yield _shortened(style, knowledge.cause(root.cause).why, 8, before="\n", then=1)
    quotes = root.evidence if root is not None else _of_open(report)
    yield Block("\n" if quotes else "", 3)
    for number, quote in enumerate(quotes[:3]):
        yield Block(_quote(quote, style), (0, 2, 7)[number])  # a comparison needs two
    yield from _beside(report, style)
    figures = _figures(report, style)
    yield Block("\n" + figures if figures else "", 6)
    yield Block("\n", 3)
    yield Block(_rows(report, style), 8, _rows(report, style, brief=True), 3)
    yield Block("\n")
    yield from _suspects(report, style)
    yield from (_first_step(report, style, commands) if root is not None else _ask(report, style, commands))


# ---------------------------------------------------------------- what is wrong
def _head(report: Report, style: Style, *, brief: bool = False) -> str:
    """Verdict and machine; `brief`: without the interpreter, whose path may take three lines."""
    word, colour = VERDICTS[report.verdict]
    machine = report.machine
    driver = machine.driver.version
    parts = (
        f"node {report.origin.node}" if report.origin.node else "", words.gpus(report) if report.verdict != "healthy" else "",
        machine.distribution or "", f"driver {driver}" if driver else "",
        f"Python {machine.python.path}" if machine.python.path and not brief else "",
    )  # fmt: skip
    concerned = report.diagnosis.root.subject if report.diagnosis.root is not None else ""
    at = f"; concerns the GPU at {concerned[4:]}" if concerned.startswith("gpu:") else ""
    page = Page(style)
    page.headline(word, colour, words.headline(report))
    page.prose((" | ".join(part for part in parts if part) or "no machine was seen") + at, style="dim")
    return page.text()


def _required(report: Report, style: Style) -> Iterator[Block]:
    """What a policy demands: what is not met, each with what was found; what is, in one line."""
    unmet, count = words.unmet(report), len(report.requirements)
    if unmet:
        yield Block(_raw(style, f"Required: {len(unmet)} of {count} not met", "bold"))
        for number, result in enumerate(unmet[:5]):
            yield Block(_prose(style, words.asked(result), "red" if result.met is False else "magenta", indent=2), number and 2 + number)
    elif count:
        yield Block(_prose(style, f"Required, and met: {', '.join(result.text for result in report.requirements)}", "green"), 4)


def _quote(quote: Quote, style: Style) -> str:
    """Where it stands and its words, on one line where both fit; a long line of a machine is cut, -v shows the whole."""
    text, width = one_line(" ".join(line.strip() for line in clean(quote.text).split("\n"))), max(style.width, 40)
    together = f"{words.where(quote)}: {text}"
    if cell_len(together) + 2 <= width:
        return _raw(style, together, indent=2)
    return _raw(style, f"{words.where(quote)}:", "dim", indent=2) + _raw(style, _cut(text, 2 * width - 6), indent=6)


def _cut(text: str, columns: int) -> str:
    return text if cell_len(text) <= columns else set_cell_size(text, columns - 3).rstrip() + "..."


def _of_open(report: Report) -> Sequence[Quote]:
    """What failed, where no cause is certain."""
    failed = next((row.evidence for row in report.checks if row.status == "fail" and row.evidence), ())
    return failed or next((finding.evidence for finding in report.diagnosis.suspects), ())


def _suspects(report: Report, style: Style) -> Iterator[Block]:
    for crash in report.diagnosis.crashes[:1]:
        yield Block(_prose(style, f"A part of cudadoctor failed; the rest holds: {crash.stage}, {crash.name}: {crash.error}"))
    if report.diagnosis.suspects:
        yield Block(_raw(style, "Possible causes, likeliest first", "bold"))
    for number, finding in enumerate(report.diagnosis.suspects[:4]):
        yield Block(_prose(style, f"- {finding.named}", indent=2), number and 2 + number)


# ---------------------------------------------------------------- beside it
def _beside(report: Report, style: Style) -> Iterator[Block]:
    for number, finding in enumerate(report.diagnosis.also[:3]):
        said = f"Also: {finding.named}{finding.at} ({words.expected(finding) or finding.effect})"
        yield Block(_prose(style, said, indent=2), 5 + number)
    for line in words.experiments(report):
        yield Block(_prose(style, line, indent=2), 7)
    more = f" ({len(report.notes) - 1} more: -v)" if len(report.notes) > 1 else ""
    for note in report.notes[:1]:
        said = _cut(one_line(f"Note: {' '.join(note.split())}"), 2 * max(style.width, 40) - 10 - len(more))
        yield Block(_prose(style, said + more, indent=2), 9)


def _figures(report: Report, style: Style) -> str:
    """One line a GPU, of the figures that are asked for first."""
    by_gpu: dict[int, dict[str, BenchmarkResult]] = {}
    for result in report.benchmark:
        if result.peer is None and result.value is not None:
            by_gpu.setdefault(result.gpu, {})[result.name] = result
    shown = [(name, head) for name, head in _COLUMNS if any(name in figures for figures in by_gpu.values())]
    if not shown:
        return ""
    table = [("GPU", *(head for _, head in shown))]
    table += [(str(gpu), *(_cell(figures.get(name)) for name, _ in shown)) for gpu, figures in sorted(by_gpu.items())]
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    lines = ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
    if max(map(len, lines)) + 2 > style.width:  # a narrow terminal gets a paragraph for each GPU
        told = (", ".join(f"{head} {cell}" for head, cell in zip(table[0][1:], row[1:], strict=True)) for row in table[1:])
        return "".join(_prose(style, f"GPU {row[0]}: {words}", indent=2) for row, words in zip(table[1:], told, strict=True))
    return "".join(_raw(style, line, indent=2) for line in lines)


def _cell(result: BenchmarkResult | None) -> str:
    if result is None or result.value is None:
        return "-"
    share = f" {result.share:.0%}" if result.share is not None else ""
    return f"{result.value:.0f} {result.unit}{share}{' slow' if result.verdict == 'slow' else ''}"


def _rows(report: Report, style: Style, more: str = "", *, brief: bool = False) -> str:
    """All rows in one line: how many pass, and the others by name; `brief`: of these, what is wrong."""
    by_status: dict[str, list[str]] = {}
    for row in report.checks:
        by_status.setdefault(row.status, []).append(row.id)
    seen = report.origin.kind != "text"  # of a text nobody expects that it speaks of every row
    named = [f"{status}: {', '.join(by_status[status])}" for status in _NAMED[seen and not brief] if status in by_status]
    took = f" in {report.timing.total_s:.1f} s" if report.timing.total_s is not None else ""
    passed = [f"{len(by_status.get('pass', ()))} of {len(report.checks)} rows pass"] if seen else []
    demanded = " (a requirement is not met)" if words.unmet(report) and report.verdict != "broken" else ""
    demanded = " (--strict)" if words.degraded_fails(report) else demanded
    ended = f"exit code {report.exit_code}{demanded}, action {report.action}{took}{more}"
    return _prose(style, "; ".join([*passed, *named, ended]), "dim")


# ---------------------------------------------------------------- what to do first
def _first_step(report: Report, style: Style, commands: Commands) -> Iterator[Block]:
    """The first step in words, how to see and do all of them, and its command last."""
    proof, what, root = words.proof(report), report.prescription, report.diagnosis.root
    if proof is not None:
        yield Block(_prose(style, proof))
    if what is None or not what.steps:
        yield _shortened(style, (what.no_software_fix if what is not None else None) or "No step of a fix is known for this machine.", 4)
        yield Block(_more(style, f"{commands.doctor} explain {root.cause}" if root is not None else "", commands))
        return
    if what.no_software_fix is not None:
        yield _shortened(style, what.no_software_fix, 4)
    step, count = words.first_step(what), len(what.steps)
    runs = words.first_command(what) is not None
    kind = f" ({words.KINDS[step.kind]})" if runs and step.kind is not None else ""
    head = "Instead" if what.no_software_fix is not None else "Fix"
    place = f", step {what.steps.index(step) + 1} of {count}" if count > 1 else ""
    yield _shortened(style, f"{head}{place}: {words.told(step)}{kind}", 4)
    if runs and step.verify and "\n" not in step.verify:
        yield Block(_raw(style, f"Verify: {step.verify}", "dim"), 3)
    if runs and step.shell is not None:
        applies = f"; do them: {commands.apply}" if commands.apply else ""
        rows = f"; all rows: {commands.whole}" if commands.steps != commands.whole else ""
        yield Block(_prose(style, f"All steps: {commands.steps}{commands.given}{applies}{rows}", "dim"), 1)
        yield Block("\n" + _raw(style, step.shell, "cyan", indent=4))
    else:
        yield Block(_more(style, commands.for_admin if step.who == "administrator" else commands.steps, commands))


def _more(style: Style, command: str, commands: Commands) -> str:
    """A command, next to the prompt; before it how to see everything, where that is another one."""
    word = "All rows" if " check" in commands.whole else "More"
    if command != commands.whole:
        before = f"{word}: {commands.whole}{commands.given}"
    else:
        before = f"All of it{commands.given}:" if commands.given else ""
    return (_prose(style, before, "dim") if before else "") + "\n" + _raw(style, command, "cyan", indent=4)


def _ask(report: Report, style: Style, commands: Commands) -> Iterator[Block]:
    """The first command that would settle it."""
    asks = report.diagnosis.ask
    if asks:
        kind = f" ({words.KINDS[asks[0].kind]})" if asks[0].kind != "reads" else ""
        yield _shortened(style, f"What would settle it: {words.settles(asks[0])}{kind}", 4)
    yield Block(_more(style, asks[0].command if asks else commands.whole, commands))
