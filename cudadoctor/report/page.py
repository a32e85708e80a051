"""A page of plain text, written without the library that draws reports: `cudadoctor explain CODE` answers at once.

Commands and lines of machines are never wrapped; prose is. Colour only repeats what the words say.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec

from cudadoctor.model.recipe import Step
from cudadoctor.report import words
from cudadoctor.report.clean import clean, one_line

T = TypeVar("T")
MAX_WIDTH = 100  # columns of prose
MIN_WIDTH = 40
_COLOURS = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "magenta": 35, "cyan": 36}  # the numbers of ECMA-48
_RESET = "\x1b[0m"


class Style(msgspec.Struct, frozen=True, kw_only=True):
    """How to write: `width` in columns, `height` in lines, colour, plain ASCII, all rows; `terminal`: where no line may be longer."""

    width: int = 80
    height: int = 24
    color: bool = False
    ascii: bool = False
    verbose: bool = False
    terminal: bool = False


class PlainPage:
    """Lines of output."""

    def __init__(self, style: Style) -> None:
        self.style = style
        self._width = max(MIN_WIDTH, min(style.width, MAX_WIDTH))
        self._lines: list[str] = []

    def prose(self, text: str, style: str = "", indent: int = 0, hang: int = 0) -> None:
        """A paragraph, without a style here. Lines after the first stand `hang` columns deeper."""
        self._lines += textwrap.wrap(
            one_line(text),
            self._width,
            initial_indent=" " * indent,
            subsequent_indent=" " * (indent + hang),
            break_long_words=False,
            break_on_hyphens=False,
        )

    def headline(self, word: str, style: str, text: str) -> None:
        """A word in a style and what it stands for: one line, of whole words on a terminal."""
        said = one_line(f"{word}  {text}")
        lines = textwrap.wrap(said, self._width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        first, *more = lines if self.style.terminal else [said]
        self._lines += [self.drawn(word, style) + first[len(word) :], *more]

    def raw(self, text: str, style: str = "", indent: int = 0) -> None:
        self._lines += [self.drawn(f"{' ' * indent}{line}", style) for line in clean(text).split("\n")]

    def drawn(self, text: str, style: str) -> str:
        """In a style such as "bold red", where there are colours."""
        if not (text and style and self.style.color):
            return text
        return f"\x1b[{';'.join(str(_COLOURS[word]) for word in style.split())}m{text}{_RESET}"

    def gap(self) -> None:
        self._lines.append("")

    def heading(self, text: str, indent: int = 0) -> None:
        self.gap()
        self.raw(text, "bold", indent=indent)

    def notes(self, notes: Iterable[str]) -> None:
        for note in notes:
            self.prose(f"Note: {note}", hang=2)

    def listed(self, head: str, entries: Sequence[str], mark: str = "", most: int | None = None) -> None:
        """What stands under a heading, where there is any. Beyond `most` entries only -v shows them."""
        if entries:
            self.heading(head)
        for entry in self.first(entries, most):
            self.prose(f"{mark}{entry}", indent=2, hang=2)
        self.left(entries, most)

    def first(self, entries: Sequence[T], most: int | None) -> Sequence[T]:
        return entries if self.style.verbose else entries[:most]

    def left(self, entries: Sequence[object], most: int | None) -> None:
        """How many entries are not shown."""
        if most is not None and len(entries) > most and not self.style.verbose:
            self.raw(f"and {len(entries) - most} more (-v)", "dim", indent=2)

    def step(self, number: int, step: Step) -> None:
        """Words, then the command on lines of its own, its risk, how to check and how to undo it."""
        self.prose(f"{number}. {words.told(step)}", indent=2, hang=3)
        if step.shell:
            self.raw(step.shell, "cyan", indent=6)
        if step.kind and step.shell:
            self.raw(f"({words.KINDS[step.kind]})", "dim", indent=6)
        for head, command in (("Verify", step.verify), ("Undo", step.undo)):
            if command:
                self.raw(words.labelled(head, command), indent=6)

    def text(self) -> str:
        out = "".join(f"{line.rstrip()}\n" for line in self._lines)
        return out.encode("ascii", "backslashreplace").decode() if self.style.ascii else out
