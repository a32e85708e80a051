"""A page of the manual on a terminal: headings to the left, code indented and never wrapped, tables and lists as wide as the window."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import msgspec
from rich.console import Console, ConsoleOptions
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
from rich.text import Text

from cudadoctor.model.pattern import lazy
from cudadoctor.report.page import Style
from cudadoctor.report.text import Page

_LINK = lazy(r"\[([^\]\n]{1,300})\]\([^)\n]{1,300}\)")
_GAPS = lazy(r"\n{3,}")
_DRAWN = str.maketrans("\u2022\u2500", "*-")  # the same in a terminal of ASCII


class _Heading(Heading):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        yield Text("")
        yield Text(self.text.plain, style="bold")


class _Code(CodeBlock):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        for line in str(self.text).rstrip("\n").split("\n"):
            yield Text(f"    {line}".rstrip(), style="cyan", no_wrap=True, overflow="ignore")


class _Manual(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _Heading,
        "fence": _Code,
        "code_block": _Code,
    }


def render(text: str, style: Style) -> str:
    """A page's Markdown; a link is the name of the page that it leads to, as `cudadoctor guide` takes it."""
    page = Page(msgspec.structs.replace(style, ascii=False))  # the pages are ASCII, and so is what is drawn after _DRAWN
    page.console.print(_Manual(_LINK.sub(r"\1", text), hyperlinks=False), crop=False)
    return _GAPS.sub("\n\n", page.text().translate(_DRAWN)).lstrip("\n")
