"""The report as a person reads it: the verdict, the one cause with its lines and its fix, then what stands beside it.

Colour only repeats what the words say, so a black-and-white terminal, a screen reader and a pipe get the same content. Commands
stand on lines of their own and are never wrapped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.cells import cell_len

from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Quote
from cudadoctor.model.findings import Finding
from cudadoctor.model.pattern import lazy
from cudadoctor.model.recipe import Leg, Prescription, Who
from cudadoctor.model.report import BenchmarkResult, Report
from cudadoctor.report import words
from cudadoctor.report.clean import clean, one_line
from cudadoctor.report.page import PlainPage
from cudadoctor.report.page import Style as Style  # callers find it here

MAX_RULED_OUT = 6  # causes named in the line of what was ruled out
VERDICTS = {
    "healthy": ("HEALTHY", "bold green"),
    "degraded": ("DEGRADED", "bold yellow"),
    "broken": ("BROKEN", "bold red"),
    "undecided": ("UNDECIDED", "bold magenta"),
}
_TAB = 8  # columns
_WORD = lazy(r"\s*\S+\s*")
STATUS_STYLE = {"pass": "green", "warn": "yellow", "fail": "red", "unknown": "magenta", "skip": "dim"}


class Page(PlainPage):
    """The same, which knows how wide a letter is."""

    def prose(self, text: str, style: str = "", indent: int = 0, hang: int = 0) -> None:
        """A machine's words never begin a line of ours."""
        for number, line in enumerate(_wrapped(one_line(text), self._width - indent - hang)):
            self._lines.append(" " * (indent + (hang if number else 0)) + self.drawn(line, style))

    def raw(self, text: str, style: str = "", indent: int = 0) -> None:
        self._lines += [self.drawn(_without_tabs(" " * indent + line), style) for line in clean(text).split("\n")]

    def pair(self, label: str, style: str, text: str) -> None:
        words = clean(text).replace("\n", " ").replace("\t", " ")
        self._lines.append(self.drawn(f"{clean(label)}  {words}", style))


def _wrapped(text: str, width: int) -> Iterator[str]:
    """Lines of whole words. A word that is wider than a line goes on in the next."""
    line, room = "", width
    for word in _WORD.findall(text):
        if cell_len(word.rstrip()) > room and line:
            yield line.rstrip()
            line, room = "", width
        bare = word.rstrip()
        if cell_len(bare) > width:
            *cut, last = _pieces(bare, width)
            yield from cut
            word = last + word[len(bare) :]
        line, room = line + word, room - cell_len(word)
    yield line.rstrip()


def _pieces(word: str, width: int) -> Iterator[str]:
    """A word in pieces that each fit a line; a letter that is wider than that stands alone."""
    start = columns = 0
    for place, letter in enumerate(word):
        wide = cell_len(letter)
        if columns + wide > width and place > start:
            yield word[start:place]
            start, columns = place, 0
        columns += wide
    yield word[start:]


def _without_tabs(line: str) -> str:
    first, *others = line.split("\t")
    for part in others:
        first += " " * (_TAB - cell_len(first) % _TAB) + part
    return first


def render(report: Report, knowledge: Knowledge, style: Style) -> str:
    page = Page(style)
    _head(page, report)
    _asked(page, report)
    root = report.diagnosis.root
    if root is not None:
        _cause(page, root, knowledge)
    if report.prescription is not None:
        prescription(page, report.prescription, proof=words.proof(report))
    if report.verdict == "undecided" or (report.verdict == "degraded" and root is None):
        _open_questions(page, report)
    _beside(page, report)
    _figures(page, report, knowledge)
    _rows(page, report)
    _tail(page, report)
    return page.text()


# ---------------------------------------------------------------- blocks
def _head(page: Page, report: Report) -> None:
    word, colour = VERDICTS[report.verdict]
    root = report.diagnosis.root
    page.pair(word, colour, words.headline(report))
    subject = root.subject if root is not None else "machine"
    machine = report.machine
    parts = [
        f"node {report.origin.node}" if report.origin.node else "",
        words.gpus(report),
        machine.distribution or "",
        f"kernel {machine.kernel}" if machine.kernel else "",
        f"driver {machine.driver.version}" if machine.driver.version else "",
        f"Python {machine.python.version or ''} {machine.python.path}".replace("  ", " ") if machine.python.path else "",
    ]
    page.raw(one_line(" | ".join(part for part in parts if part)) or "a text, no machine", style="dim")
    if subject.startswith("gpu:"):
        page.raw(one_line(f"concerns the GPU at {subject[4:]}"), style="dim")


def _asked(page: Page, report: Report) -> None:
    """What a policy demands: asked, found and missing, the unmet first."""
    if not report.requirements:
        return
    unmet = words.unmet(report)
    page.heading(f"Required: {len(unmet)} of {len(report.requirements)} not met" if unmet else "Required, and met")
    width = min(32, max(len(one_line(result.text)) for result in report.requirements))
    for result in (*unmet, *(result for result in report.requirements if result.met)):
        said = f"{words.MET[result.met]:<9}  {one_line(result.text):<{width}}  {one_line(result.said)}"
        page.raw(said, style="green" if result.met else "red" if result.met is False else "magenta", indent=2)


def _quotes(page: Page, quotes: Sequence[Quote], indent: int = 2) -> None:
    for quote in quotes:
        page.raw(f"{words.where(quote)}:", style="dim", indent=indent)
        page.raw(quote.text, indent=indent + 4)


def _cause(page: Page, root: Finding, knowledge: Knowledge) -> None:
    page.gap()
    page.prose(knowledge.cause(root.cause).why)
    page.heading("What shows it")
    _quotes(page, root.evidence)
    if page.style.verbose and root.url is not None:
        page.raw(f"Page of this cause: {root.url}", style="dim")


ADMINISTRATOR = "Send this to the administrator of this machine:"
AFTERWARDS = "Afterwards:"


def prescription(page: Page, what: Prescription, proof: str | None = None) -> None:
    """The steps. Those that need somebody else stand together under a heading of their own, as a message to forward."""
    page.heading("Fix" if what.steps else "No software fix is known")
    if proof is not None:
        page.prose(proof, indent=2)
    if what.no_software_fix is not None:
        page.prose(f"{what.no_software_fix} What can be done without:", indent=2)
    if what.steps and what.steps[0].who == "administrator":
        page.prose("This needs root, so there is nothing that you can do alone.", indent=2)
    part: Who = "user"
    for number, step in enumerate(what.steps, 1):
        if step.who != part:
            part = step.who
            page.heading(ADMINISTRATOR if part == "administrator" else AFTERWARDS)
            if part == "administrator":
                page.raw(f"cause: {what.cause} (more: cudadoctor explain {what.cause})", style="dim", indent=2)
        page.step(number, step)


# ---------------------------------------------------------------- the rest of the way to a running kernel
STAGES = {"gpu": "GPU", "driver": "driver", "cuda": "CUDA", "toolkit": "toolkit", "python": "Python", "numba": "Numba", "check": "check"}
STATES = {"fits": "", "by-the-fix": "by the steps above: ", "to-do": "to do: ", "later": "not known yet: "}
_STAGE = max(map(len, STAGES.values()))


def way(page: Page, legs: Sequence[Leg], done: int) -> None:
    """One line a stage, and the steps of what is left to do. `done`: steps that were printed before; the numbers go on."""
    if not legs:
        return
    page.heading("The rest of the way to a running kernel")
    if all(leg.state in ("fits", "by-the-fix") for leg in legs):
        page.prose("With that done, driver, CUDA, toolkit and Numba fit each other: nothing else is left to install.", indent=2)
        return
    number = done
    for leg in legs:
        page.prose(f"{STAGES[leg.stage]:<{_STAGE}}  {STATES[leg.state]}{leg.text}", indent=2, hang=_STAGE + 2)
        for step in leg.steps:
            number += 1
            page.step(number, step)


# ---------------------------------------------------------------- beside it
def _open_questions(page: Page, report: Report) -> None:
    diagnosis = report.diagnosis
    failed = [row for row in report.checks if row.status == "fail" and row.evidence]
    if failed:
        page.heading("What failed")
        _quotes(page, failed[0].evidence)
    if diagnosis.crashes:
        page.heading("A part of cudadoctor failed; the rest of this report holds")
        for crash in diagnosis.crashes:
            page.raw(one_line(f"{crash.stage}, {crash.name}: {crash.error}"), indent=2)
    if diagnosis.suspects:
        page.heading("Possible causes, likeliest first")
        for finding in diagnosis.suspects:
            page.prose(f"- {finding.named}", indent=2)
        page.raw("What they rest on", style="bold")
        _quotes(page, diagnosis.suspects[0].evidence)
    if diagnosis.ask:
        page.heading("What would settle it")
        for ask in diagnosis.ask:
            page.raw(ask.command, style="cyan", indent=4)
            page.prose("; ".join(dict.fromkeys((words.settles(ask), ask.why))), style="dim", indent=6)


def _beside(page: Page, report: Report) -> None:
    diagnosis = report.diagnosis
    if diagnosis.explains:
        page.gap()
        page.prose("Consequences, nothing to do: " + "; ".join(f"{finding.named}" for finding in diagnosis.explains))
    if diagnosis.also:
        page.heading("Also found, independent of it" if diagnosis.root else "Also found")
        for finding in diagnosis.also:
            page.prose(f"- {finding.named}{finding.at} ({words.expected(finding) or finding.effect})", indent=2)
            _quotes(page, finding.evidence[:1], indent=6)
    for line in words.experiments(report):
        page.prose(line, hang=2)
    if report.notes:
        page.gap()
        page.notes(report.notes)


def figure(result: BenchmarkResult, knowledge: Knowledge) -> str:
    """One figure in words: value, share of the limit, and what the limit is."""
    name = words.figure(result.name, knowledge)
    if result.peer is not None:
        name += f", GPU {result.gpu} to GPU {result.peer}"
    if result.value is None:
        return f"{name}: not measured ({result.why or 'no reason recorded'})"
    said = f"{name}: {result.value:.1f} {result.unit}"
    if result.share is not None and result.limit is not None:
        said += f", {result.share:.0%} of {result.limit:.0f} {result.unit} ({result.limit_from})"
    if result.verdict == "slow":
        said += ": slow"
    return said


def _figures(page: Page, report: Report, knowledge: Knowledge) -> None:
    if not report.benchmark:
        return
    page.heading("Benchmark")
    many = len({result.gpu for result in report.benchmark}) > 1
    for result in report.benchmark:
        page.raw((f"GPU {result.gpu}: " if many else "") + one_line(figure(result, knowledge)), indent=2)


def _rows(page: Page, report: Report) -> None:
    shown = report.diagnosis
    if report.origin.kind == "text" and not (page.style.verbose or shown.root or shown.suspects or shown.also):
        return  # a text that says nothing: the rows would only say it once more
    page.gap()
    passed = [row for row in report.checks if row.status == "pass"]
    # A text has no machine: the rows that nobody could look at are one line, not one line each.
    unseen = [row for row in report.checks if row.status == "unknown" and row.id != "text"] if report.origin.kind == "text" else []
    short = [] if page.style.verbose else [*passed, *unseen]
    for row in report.checks:
        if row not in short:
            seconds = report.timing.rows.get(row.id)
            took = f"  [{seconds:.2f} s]" if page.style.verbose and seconds is not None else ""
            said = f"{row.id:<16} {one_line(row.summary)}{words.because(row)}"
            page.pair(f"{row.status:<8}", STATUS_STYLE[row.status], said + took)
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
