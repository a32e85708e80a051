"""The manual's generated pages as Markdown, beside those of the causes: codes, things, messages that programs print, and the lists of them.

Escaping is that of markdown_pages.py: no text of a table can become markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from cudadoctor.model import site
from cudadoctor.model.explanation import CodeMeaning, Topic
from cudadoctor.model.recipe import Cause
from cudadoctor.report.markdown_pages import block, code, escaped, prose, source

APIS = {"cuda": "CUDA", "cuda-before-10.1": "CUDA runtime before 10.1", "nvml": "NVML", "xid": "Xid", "nvidia-smi": "nvidia-smi, exit code"}


class Entry(NamedTuple):
    """A page in a list: its path from the manual's root, its title, and a few words beside it."""

    path: str
    title: str
    beside: str = ""


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
        lines += [*_causes(f"{sign} {head}", match.causes, match.tell_apart, causes), *_sources(sign, match.sources)]
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
        lines += _causes("## Its causes, and how to tell them apart", topic.causes, topic.tell_apart, causes)
        lines += _sources("##", topic.sources)
    return "\n".join(lines).rstrip("\n") + "\n"


def _links(named: Iterable[str], causes: Mapping[str, Cause]) -> str:
    links = [f"[{code(cause)}](../causes/{cause}.md)" for cause in named if cause in causes]
    return f" ({', '.join(links)})" if links else ""


def _causes(head: str, named: Sequence[str], tell_apart: Mapping[str, str | None], causes: Mapping[str, Cause]) -> Iterator[str]:
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
