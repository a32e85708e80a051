"""What a parser is: a pure function from one text to facts, with the lines that show each."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import accumulate
from typing import Any, TypeVar

import msgspec

from cudadoctor.model.evidence import LONGEST_LINE, Item, Origin
from cudadoctor.model.facts import Fact, Key, Quote, Unknown
from cudadoctor.model.pattern import lazy
from cudadoctor.model.terminal_codes import without_codes
from cudadoctor.parsers.shell import is_prompt, root_command

T = TypeVar("T")

_QUOTED = lazy(r"^ ?(?:> ?){1,4}")
LONG = 64 << 10  # characters from which a text counts as long
BEFORE = 100  # characters shown before the words that matter in a long line
_LISTED = ("- ", "* ", "+ ", "**", " - ", " * ", "• ")
_NAMED_VALUE = lazy(
    r"^ ?(?:[-*+\u2022] {1,3})?(?P<bold>\*\*)?(?P<name>[A-Za-z][\w /().+-]{0,40}?)(?:\*\*)? ?: ?(?:\*\*)? {0,3}(?P<value>\S.{0,400})$"
)
_OF_A_MACHINE = lazy(r"`?v?\d|`?(?:NVIDIA|GeForce|RTX|GTX|Tesla|Quadro|True|False|None)\b")  # a version, a GPU, an answer
QUOTE_LENGTH = 300  # characters of one quoted line


class Text:
    """One text to parse: lines, numbered from 1 by `quote`; of what a program printed without ANSI codes and carriage returns."""

    def __init__(self, text: str, *, source: str, origin: Origin = "live", whole: bool = True, item: Item | None = None) -> None:
        # What colours a program's words is no part of them; a file's name or a variable's value is all that it holds.
        self.printed = origin == "text" or item is None or item.kind in ("command", "text")
        text = without_codes(text) if self.printed else text
        self.text = _capped(text) if origin == "text" and len(text) > LONGEST_LINE else text
        self.source = source
        self.origin = origin
        self.item = item
        self.whole = whole and not self.pasted  # what this text does not show is known to be absent

    @property
    def pasted(self) -> bool:
        """Whether this is a user's text with anything around, not the output of one known command."""
        return self.origin == "text" or (self.item is not None and self.item.kind == "text")

    @cached_property
    def lines(self) -> list[str]:
        text = self.text.replace("\r\n", "\n").replace("\r", "\n") if self.printed else self.text
        return [line.rstrip() for line in text.split("\n")]

    @cached_property
    def plain_lines(self) -> list[str]:
        """The lines without the signs of quotation that mail and bug trackers put before them, and without the signs of Markdown around a
        named value in a list: `- **PyTorch:** 2.9.1` says `PyTorch: 2.9.1`."""
        lines = self.lines
        if ">" in self.text:
            lines = [_QUOTED.sub("", line) if line.startswith((">", " >")) else line for line in lines]
        return [_without_signs(line) if line.startswith(_LISTED) else line for line in lines] if self.pasted else lines

    @cached_property
    def joined(self) -> str:
        """The lines as one string, for searches; `line_at` gives the line of a place in it."""
        return "\n".join(self.lines)

    @cached_property
    def _starts(self) -> list[int]:
        return list(accumulate((len(line) + 1 for line in self.lines[:-1]), initial=0))

    def line_at(self, offset: int) -> int:
        """The number, from 1, of the line that holds this place of `joined`."""
        return bisect_right(self._starts, offset)

    def rows(self, form: re.Pattern[str]) -> Iterator[tuple[int, re.Match[str]]]:
        """The lines that are of this form, with their numbers."""
        return ((number, found) for number, line in enumerate(self.lines, 1) if (found := form.match(line)) is not None)

    def asked(self, hint: str, form: re.Pattern[str]) -> Iterator[tuple[int, re.Match[str], list[str]]]:
        """Commands of this form that were typed in a paste: the line's number, and the lines below it up to the next prompt or question."""
        lines = self.plain_lines if self.pasted else []
        typed = ((number, form.match(root_command(line) or "")) for number, line in enumerate(lines, 1) if hint in line)
        asked = {number: found for number, found in typed if found is not None}
        stops = sorted({*self._prompts, *(number - 1 for number in asked)}) if asked else []
        for number, found in asked.items():
            place = bisect_left(stops, number)
            yield number, found, lines[number : stops[place] if place < len(stops) else len(lines)]

    @cached_property
    def _prompts(self) -> list[int]:
        """Indexes of the plain lines that are prompts."""
        return [index for index, line in enumerate(self.plain_lines) if is_prompt(line)]

    def lines_with(self, words: Iterable[str]) -> Iterator[tuple[int, str]]:
        """The lines that hold one of these words, with their numbers; of equal ones the first, for logs repeat themselves."""
        seen: set[str] = set()
        for number, line in enumerate(self.plain_lines, 1):
            if line not in seen and any(word in line for word in words):
                seen.add(line)
                yield number, line

    def quote(self, first: int, last: int | None = None, *, about: str = "") -> Quote:
        """Lines `first` to `last`, counted from 1. Of a long line, the part that holds `about`."""
        last = first if last is None else last
        chosen = (_part(line, about) for line in self.lines[first - 1 : last])
        return Quote(source=self.source, first=first, last=last, text="\n".join(chosen))

    def absent(self, words: str) -> Quote:
        """Something that is not there, said in words ("/dev/nvidia-uvm: no such file")."""
        return Quote(source=self.source, text=words)

    def fact(self, key: Key[T], value: T | None, *quotes: Quote, whole: bool | None = None) -> Fact[T]:
        return Fact(key=key.name, value=value, quotes=quotes, origin=self.origin, whole=self.whole if whole is None else whole)


def _without_signs(line: str) -> str:
    found = _NAMED_VALUE.match(line)
    if found is None or not (found["bold"] or _OF_A_MACHINE.match(found["value"])):
        return line
    value: str = found["value"]
    return f"{found['name']}: {value[1:-1] if value.startswith('`') and value.endswith('`') and value.count('`') == 2 else value}"


def _capped(text: str) -> str:
    """A user's text with both ends of each line that is too long: what fails is said there."""
    half = LONGEST_LINE // 2
    lines = text.split("\n")
    if all(len(line) <= LONGEST_LINE for line in lines):
        return text
    return "\n".join(line if len(line) <= LONGEST_LINE else f"{line[:half]} ... {line[-half:]}" for line in lines)


def _part(line: str, about: str) -> str:
    """What is shown of a line: its beginning, or where the words stand that matter."""
    at = line.find(about) if about and len(line) > QUOTE_LENGTH else 0
    start = max(0, at - BEFORE) if at + len(about) > QUOTE_LENGTH else 0
    return f"{'... ' if start else ''}{line[start : start + QUOTE_LENGTH]}"


Output = Iterable["Fact[Any] | Unknown"]


def first_line(key: Key[T], value_of: Callable[[str], T | None], *, whole: bool | None = None) -> Callable[[Text], Output]:
    """A parser's function for texts of which one line is enough: the first that gives a value."""

    def parse(text: Text) -> Output:
        values = ((number, value_of(line)) for number, line in enumerate(text.plain_lines, 1))
        for number, value in values:
            if value is not None:
                yield text.fact(key, value, text.quote(number), whole=whole)
                return

    return parse


class Parser(msgspec.Struct, frozen=True, kw_only=True):
    """One parser.

    `reads`: the ids of the evidence items it understands (sources/probes.py). `keys`: the facts it may state.
    `wakes`: literals, any of which must stand in a pasted text before it is tried there; empty: never tried on pasted text.
    Without `reads` it sees pasted texts alone.
    `absent`: keys that are known to be absent when the item itself is absent (ENOENT, command not found).
    """

    name: str
    reads: tuple[str, ...] = ()
    keys: tuple[str, ...]
    parse: Callable[[Text], Output]
    wakes: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    reads_stderr: bool = False  # stderr is appended to stdout before parsing


def parser(
    name: str,
    parse: Callable[[Text], Output],
    *keys: Key[Any],
    reads: tuple[str, ...] = (),
    wakes: tuple[str, ...] = (),
    absent: bool = False,
    reads_stderr: bool = False,
) -> Parser:
    """A parser of these facts. `absent`: where the item itself is absent all of them are."""
    names = tuple(key.name for key in keys)
    none = names if absent else ()
    return Parser(name=name, reads=reads, keys=names, parse=parse, wakes=wakes, absent=none, reads_stderr=reads_stderr)
