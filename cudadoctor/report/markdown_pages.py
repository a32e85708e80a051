"""The pages of the causes as Markdown: one for each cause, and the list of them.

Whatever a text holds, it cannot become markup: prose is escaped character by character, literals and commands stand in fences that are
longer than any run of backticks in them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cudadoctor.model.explanation import CauseDocument
from cudadoctor.model.findings import LAYERS
from cudadoctor.model.pattern import lazy
from cudadoctor.model.recipe import Cause, Step
from cudadoctor.report import words
from cudadoctor.report.clean import clean, one_line

# What opens markup or a link anywhere in a line, and what does at its start.
_SPECIAL = lazy(r"([\\`*_\[\]<>&~|$@#!]|:(?=//)|(?<=www)\.)")
_FIRST = lazy(r"^(\d*)([+=:.)-])")
_TICKS = lazy(r"`+")
_CODE_IN_PROSE = lazy(r"`([^`\n]+)`")
_ADDRESS = lazy(r"https://[A-Za-z0-9._~:/?#@!$&'()*+,;=%-]+")


# ---------------------------------------------------------------- escaping
def escaped(text: str) -> str:
    """Text that means itself, on one line."""
    return _FIRST.sub(r"\1\\\2", _inner(one_line(text)))


def _inner(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)


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
    parts: list[str] = []
    place = 0
    plain = one_line(text)
    for match in _CODE_IN_PROSE.finditer(plain):
        parts += [_inner(plain[place : match.start()]), code(match.group(1))]
        place = match.end()
    return _FIRST.sub(r"\1\\\2", "".join((*parts, _inner(plain[place:]))))


def source(text: str) -> str:
    """An address as a link; anything else as words."""
    plain = one_line(text)
    return f"<{plain}>" if _ADDRESS.fullmatch(plain) else prose(plain)


# ---------------------------------------------------------------- pages
def page(document: CauseDocument) -> str:
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
