"""A page of the manual on a terminal: headings to the left, code indented and never wrapped, tables and lists as wide as the window."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import ClassVar

from rich.console import Console, ConsoleOptions
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
from rich.text import Text

from cudadoctor.model.pattern import lazy
from cudadoctor.report.page import MAX_WIDTH, MIN_WIDTH, Style

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
    console = Console(
        file=io.StringIO(),
        width=max(MIN_WIDTH, min(style.width, MAX_WIDTH)),
        force_terminal=style.color,
        no_color=not style.color,
        color_system="standard" if style.color else None,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    console.print(_Manual(_LINK.sub(r"\1", text), hyperlinks=False), crop=False)
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().split("\n")[:-1]
    # The pages are ASCII, and so is what is drawn after _DRAWN.
    return _GAPS.sub("\n\n", "".join(f"{line.rstrip()}\n" for line in lines).translate(_DRAWN)).lstrip("\n")
