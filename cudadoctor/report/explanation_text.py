"""What `cudadoctor explain` prints of codes, things and causes, as a person reads it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from cudadoctor.model.explanation import CauseDocument, CodeMeaning, Topic
from cudadoctor.report.clean import one_line
from cudadoctor.report.page import PlainPage, Style

MAX_SOURCES = 6  # of one page; -v shows all
MAX_MESSAGES = 6


class InShort(msgspec.Struct, frozen=True, kw_only=True):
    """A cause in a few lines. `fix`: the first words of its steps; `curable`: `cudadoctor fix` has steps for it."""

    title: str
    tell_apart: str
    fix: str
    curable: bool


def of_codes(matches: Iterable[CodeMeaning], causes: Mapping[str, InShort], style: Style) -> str:
    """A code's meanings, one below the other. `causes`: those with a file, by id."""
    page = PlainPage(style)
    for number, match in enumerate(matches):
        if number:
            page.gap()
        names = " ".join(name for name in (match.name, *match.aliases) if name)
        page.raw(f"{match.api} {match.number} {names}".strip(), "bold")
        page.prose(match.meaning, indent=2)
        if match.number_before_10_1 is not None:
            page.prose(f"Before CUDA 10.1 the runtime's number for it was {match.number_before_10_1}.", indent=2)
        if match.messages:
            said = [f'"{message}"' for message in match.messages]
            page.prose(f"Programs print: {_few(said, MAX_MESSAGES, style)}", indent=2)
        if match.advice:
            page.prose(f"What to do: {match.advice}", indent=2)
        if match.causes:
            page.prose("Its cause:" if match.certain else "Usual causes, likeliest first, and how to tell them apart:", indent=2)
        _causes(page, match.causes, causes)
        _sources(page, match.sources)
    return page.text()


def of_topics(topics: Iterable[Topic], causes: Mapping[str, InShort], style: Style) -> str:
    page = PlainPage(style)
    for number, topic in enumerate(topics):
        if number:
            page.gap()
        page.raw(topic.title, "bold")
        page.prose(topic.meaning, indent=2)
        if topic.facts:
            page.gap()
        for fact in topic.facts:
            page.prose(f"{fact.name}: {fact.value}", indent=2, hang=4)
        if topic.troubles:
            page.heading("What usually goes wrong", indent=2)
        for trouble in topic.troubles:
            named = f" [{', '.join(trouble.causes)}]" if trouble.causes else ""
            page.prose(f"* {trouble.text}{named}", indent=2, hang=2)
        if topic.causes:
            page.heading("Its causes, and how to tell them apart", indent=2)
        _causes(page, topic.causes, causes)
        _sources(page, topic.sources)
    return page.text()


def _causes(page: PlainPage, wanted: Iterable[str], causes: Mapping[str, InShort]) -> None:
    for cause_id in wanted:
        known = causes.get(cause_id)
        page.prose(f"- {known.title if known is not None else cause_id} [{cause_id}]", indent=2)
        if known is None:
            continue
        page.raw("see whether it is this:", "dim", indent=6)
        page.raw(known.tell_apart, "cyan", indent=8)
        page.prose(f"fix: {known.fix}", indent=6)
        if known.curable:
            page.raw(f"all steps for this machine: cudadoctor fix {cause_id}", "dim", indent=6)


def _few(words: Sequence[str], most: int, style: Style) -> str:
    """The first of them, and how many more there are."""
    shown = words if style.verbose else words[:most]
    more = f"; and {len(words) - len(shown)} more (-v names them)" if len(shown) < len(words) else ""
    return "; ".join(shown) + more


def _sources(page: PlainPage, sources: tuple[str, ...]) -> None:
    if sources:
        page.prose(f"Source: {_few(sources, MAX_SOURCES, page.style)}", indent=2, hang=2)


# ---------------------------------------------------------------- a cause
def of_cause(document: CauseDocument, style: Style) -> str:
    """Everything that a cause's page says; report/manual_pages.py writes the same for a reader of files."""
    page, cause = PlainPage(style), document.page
    page.raw(one_line(f"{cause.title} [{cause.id}]"), "bold")
    page.prose(cause.why)
    page.raw(f"layer {cause.layer}, row {cause.row}, {cause.effect} unless the machine shows otherwise")
    page.raw(f"breaks: {', '.join(cause.breaks)}")
    page.heading("See whether it is this")
    page.raw(cause.tell_apart, "cyan", indent=4)
    for head, others in (
        ("Yields to (where one of these is found too, it is the consequence)", cause.yields_to),
        ("Takes precedence over", document.yielded_by),
    ):
        page.listed(head, [f"{document.titles.get(other, other)} [{other}]" for other in others], "- ")
    for head, literals in (("Messages that state it", cause.messages), ("Messages that may mean it", cause.hints)):
        if literals:
            page.heading(head)
        for literal in literals:
            page.raw(literal, indent=4)
    if cause.codes:
        page.heading("Codes that may mean it")
        page.prose(", ".join(cause.codes), indent=2)
    if cause.no_software_fix:
        page.gap()
        page.prose(cause.no_software_fix)
    for fix in document.fixes:
        page.heading("Fix" + (f" on {', '.join(fix.systems)}" if fix.systems else ""))
        for number, step in enumerate(fix.steps, 1):
            page.step(number, step)
    if document.fixes:
        page.raw(f"for this machine, with its values: cudadoctor fix {cause.id}", indent=2)
    page.listed("Sources", cause.sources, "- ")
    return page.text()
