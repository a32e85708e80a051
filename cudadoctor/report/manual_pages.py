"""The manual's generated pages as Markdown: causes, codes, things, messages that programs print, and the lists of them.

Whatever a text holds, it cannot become markup: prose is escaped character by character, literals and commands stand in fences that are
longer than any run of backticks in them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from re import Pattern
from typing import NamedTuple

from cudadoctor.model import site
from cudadoctor.model.explanation import CauseDocument, CodeMeaning, Topic
from cudadoctor.model.findings import LAYERS
from cudadoctor.model.pattern import lazy
from cudadoctor.model.recipe import Cause, Step
from cudadoctor.report import words
from cudadoctor.report.clean import clean, one_line

# What opens markup or a link anywhere in a line, and what does at its start.
_SPECIAL = lazy(r"([\\`*_\[\]<>&~|$@#!]|:(?=//)|(?<=www)\.)")
_NAMED = lazy(r"(?<![\w`])@\w[\w/-]*")  # GitHub and GitLab write to whoever is called that, behind a backslash and from text alone
_FIRST = lazy(r"^(\d*)([+=:.)-])")
_TICKS = lazy(r"`+")
_CODE_IN_PROSE = lazy(r"`([^`\n]+)`")
_ADDRESS = lazy(r"https://[A-Za-z0-9._~:/?#@!$&'()*+,;=%-]+")
APIS = {"cuda": "CUDA", "cuda-before-10.1": "CUDA runtime before 10.1", "nvml": "NVML", "xid": "Xid", "nvidia-smi": "nvidia-smi, exit code"}


class Entry(NamedTuple):
    """A page in a list: its path from the manual's root, its title, and a few words beside it."""

    path: str
    title: str
    beside: str = ""


# ---------------------------------------------------------------- escaping
def escaped(text: str) -> str:
    """Text that means itself, on one line."""
    return _FIRST.sub(r"\1\\\2", _inner(one_line(text)))


def _inner(text: str) -> str:
    return _in_code(_NAMED, text, lambda rest: _SPECIAL.sub(r"\\\1", rest))


def _in_code(pattern: Pattern[str], text: str, otherwise: Callable[[str], str]) -> str:
    """The text with what the pattern's last group finds as code."""
    parts: list[str] = []
    place = 0
    for match in pattern.finditer(text):
        parts += [otherwise(text[place : match.start()]), code(match.group(pattern.groups))]
        place = match.end()
    return "".join((*parts, otherwise(text[place:])))


def code(text: str) -> str:
    """A literal within a line."""
    inner = one_line(text)
    fence = "`" * (max((len(run) for run in _TICKS.findall(inner)), default=0) + 1)
    pad = " " if inner.startswith("`") or inner.endswith("`") or not inner else ""
    return f"{fence}{pad}{inner}{pad}{fence}"


def block(text: str, indent: int = 0, *, language: str = "sh") -> str:
    """Lines of a shell or of a machine."""
    inner = clean(text)
    fence = "`" * max(3, max((len(run) for run in _TICKS.findall(inner)), default=0) + 1)
    return "\n".join(" " * indent + line for line in (f"{fence}{language}", *inner.split("\n"), fence))


def prose(text: str) -> str:
    """A sentence of ours, in which `commands` stand between backticks."""
    return _FIRST.sub(r"\1\\\2", _in_code(_CODE_IN_PROSE, one_line(text), _inner))


def source(text: str) -> str:
    """An address as a link; anything else as words."""
    plain = one_line(text)
    return f"<{plain}>" if _ADDRESS.fullmatch(plain) else prose(plain)


# ---------------------------------------------------------------- causes
def of_cause(document: CauseDocument) -> str:
    cause = document.page
    lines = [f"# {escaped(cause.title)}", "", prose(cause.why), ""]
    lines += [
        f"* id: {code(cause.id)}",
        f"* layer: {escaped(cause.layer)}",
        f"* row of `cudadoctor check`: {code(cause.row)}",
        f"* effect: {cause.effect}, unless the machine shows otherwise",
        f"* breaks: {', '.join(code(rung) for rung in cause.breaks)}",
    ]
    lines += ["", "## See whether it is this", "", block(cause.tell_apart)]
    lines += ["", "## Fix", ""]
    if cause.no_software_fix:
        lines += [prose(cause.no_software_fix), ""]
    for fix in document.fixes:
        lines += [f"### On {escaped(', '.join(fix.systems))}", ""] if fix.systems else []
        for number, step in enumerate(fix.steps, 1):
            lines += _step(number, step)
    if document.fixes:
        lines += [f"For one machine, with its values: {code(f'cudadoctor fix {cause.id}')}"]
    lines += _named("Yields to (where one of these is found too, it is the consequence)", cause.yields_to, document)
    lines += _named("Takes precedence over", document.yielded_by, document)
    lines += _literals("Messages that state it", cause.messages)
    lines += _literals("Messages that may mean it", cause.hints)
    if cause.codes:
        links = ", ".join(f"[{code(one)}](../codes/{one.lower().replace(' ', '-')}.md)" for one in cause.codes)
        lines += ["", "## Codes that may mean it", "", links]
    if cause.sources:
        lines += ["", "## Sources", "", *(f"* {source(text)}" for text in cause.sources), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _named(head: str, causes: tuple[str, ...], document: CauseDocument) -> list[str]:
    if not causes:
        return []
    return ["", f"## {head}", "", *(f"* [{escaped(document.titles.get(one, one))}]({one}.md)" for one in causes)]


def _literals(head: str, literals: tuple[str, ...]) -> list[str]:
    return ["", f"## {head}", "", *(f"* {code(literal)}" for literal in literals)] if literals else []


def _step(number: int, step: Step) -> Iterable[str]:
    yield f"{number}. {prose(words.told(step))}"
    if step.shell and step.kind:
        yield from ("", block(step.shell, 4), "", f"    ({escaped(words.KINDS[step.kind])})")
    for head, shell in (("Verify:", step.verify), ("Undo:", step.undo)):
        if shell:
            yield from ("", f"    {escaped(head)}", "", block(shell, 4))
    yield ""


def index(causes: Mapping[str, Cause]) -> str:
    """The page that leads to the others: by layer as the ladder climbs, then by id."""
    ordered = sorted(causes.values(), key=lambda cause: (LAYERS.index(cause.layer), cause.id))
    rows = [f"| [{code(cause.id)}]({cause.id}.md) | {escaped(cause.title)} | {cause.layer} | {cause.effect} |" for cause in ordered]
    why = (
        "Every diagnosis names one of these first. `effect` is what it does where nothing else was seen: it blocks, degrades, or is advice."
    )
    return "\n".join(("# Causes", "", why, "", "| cause | what it is | layer | effect |", "|---|---|---|---|", *rows)) + "\n"


# ---------------------------------------------------------------- codes and things
def called(match: CodeMeaning) -> str:
    """A code as its page's title: "CUDA 100, CUDA_ERROR_NO_DEVICE"."""
    return f"{APIS[match.api]} {match.number}{f', {match.name}' if match.name else ''}"


def of_codes(matches: Sequence[CodeMeaning], causes: Mapping[str, Cause]) -> str:
    """The page of one code; a number that meant something else before CUDA 10.1 has both meanings, one below the other."""
    lines: list[str] = []
    for number, match in enumerate(matches):
        sign = "###" if number else "##"
        lines += [f"{sign[1:]} {escaped(called(match))}", "", prose(match.meaning), ""]
        lines += [f"Also called {', '.join(code(alias) for alias in match.aliases)}.", ""] if match.aliases else []
        lines += [f"{sign} Programs print", "", *(f"* {code(said)}" for said in match.messages), ""] if match.messages else []
        lines += [f"{sign} What to do", "", prose(match.advice), ""] if match.advice else []
        head = "Its cause" if match.certain else "Usual causes, likeliest first"
        lines += [*_likely(f"{sign} {head}", match.causes, match.tell_apart, causes), *_sources(sign, match.sources)]
    return "\n".join(lines).rstrip("\n") + "\n"


def of_topics(topics: Iterable[Topic], causes: Mapping[str, Cause]) -> str:
    """The page of a variable, an architecture or a compute capability."""
    lines: list[str] = []
    for topic in topics:
        lines += [f"# {escaped(topic.title)}", "", prose(topic.meaning), ""]
        lines += [*(f"* {escaped(fact.name)}: {prose(fact.value)}" for fact in topic.facts), ""] if topic.facts else []
        if topic.troubles:
            lines += ["## What usually goes wrong", ""]
            lines += [f"* {prose(trouble.text)}{_links(trouble.causes, causes)}" for trouble in topic.troubles]
            lines += [""]
        lines += _likely("## Its causes, and how to tell them apart", topic.causes, topic.tell_apart, causes)
        lines += _sources("##", topic.sources)
    return "\n".join(lines).rstrip("\n") + "\n"


def _links(named: Iterable[str], causes: Mapping[str, Cause]) -> str:
    links = [f"[{code(cause)}](../causes/{cause}.md)" for cause in named if cause in causes]
    return f" ({', '.join(links)})" if links else ""


def _likely(head: str, named: Sequence[str], tell_apart: Mapping[str, str | None], causes: Mapping[str, Cause]) -> Iterator[str]:
    known = [cause for cause in named if cause in causes]
    if not known:
        return
    yield from (head, "")
    for cause in known:
        yield from (f"* [{escaped(causes[cause].title)}](../causes/{cause}.md). See whether it is this:", "")
        yield from (block(tell_apart.get(cause) or causes[cause].tell_apart, 2), "")


def _sources(sign: str, sources: Sequence[str]) -> list[str]:
    return [f"{sign} Sources", "", *(f"* {source(text)}" for text in sources), ""] if sources else []


# ---------------------------------------------------------------- lists
def listing(title: str, why: str, entries: Iterable[Entry]) -> str:
    """The page that leads to those of a folder."""
    rows = (f"* [{escaped(one.title)}]({one.path.rpartition('/')[2]}){f': {prose(one.beside)}' if one.beside else ''}" for one in entries)
    return "\n".join((f"# {escaped(title)}", "", prose(why), "", *rows)) + "\n"


def messages(causes: Mapping[str, Cause]) -> str:
    """Every message that states a cause or raises suspicion of it, by the program that prints it: the index to search."""
    by_program: dict[str, dict[str, str]] = {}
    for cause in causes.values():
        for match in cause.match:
            for message in match.examples or match.literals:
                by_program.setdefault(match.program or "any program", {}).setdefault(message, cause.id)
    lines = ["# Messages that programs print", "", "The cause that each of them speaks of, by the program that prints it.", ""]
    for program, found in sorted(by_program.items(), key=lambda pair: pair[0].lower()):
        lines += [f"## {escaped(program)}", ""]
        lines += [f"* {code(message)}: [{escaped(causes[cause].title)}](causes/{cause}.md)" for message, cause in sorted(found.items())]
        lines += [""]
    return "\n".join(lines).rstrip("\n") + "\n"


def llms(parts: Mapping[str, Sequence[Entry]]) -> str:
    """llms.txt: what this is in a sentence, and the Markdown twin of every page."""
    lines = [
        "# cudadoctor",
        "",
        "> Names the one cause that keeps a GPU program from running, shows the lines that prove it, and prints the fix.",
        "",
    ]
    for head, entries in parts.items():
        rows = (f"- [{one.title}]({site.ADDRESS}{one.path}){f': {one.beside}' if one.beside else ''}" for one in entries)
        lines += [f"## {head}", "", *rows, ""]
    return "\n".join(lines).rstrip("\n") + "\n"
