"""A text made ready for the recognisers: logger prefixes taken off, sentences that go on in the next lines read as one as well.

ANSI codes and carriage returns are gone already (`Text.lines`). Lines that may belong together (parsers/joining.py) are looked at twice:
as they stand, and joined; so a wrong guess adds a second look and hides nothing.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, islice
from weakref import WeakKeyDictionary

import msgspec

from cudadoctor.model.pattern import lazy
from cudadoctor.parsers.base import LONG, Text
from cudadoctor.parsers.in_quotes import Around, Beside, InQuotes, Standing, beside
from cudadoctor.parsers.joining import Joined, joined_lines
from cudadoctor.parsers.kernel_log import entry_message
from cudadoctor.parsers.literals import Literals, Places, each

REACH = 1000  # characters looked at on each side of a hit; bounds the work on a text that is one long line
WINDOW = 4000  # characters above a hit, and below it, that a pattern sees
MANY = 250  # places of one literal that are judged at each end of a text
WINDOWS = 1 << 17  # characters that all windows of one literal and pattern have together
_FEW = 8  # places whose windows are looked at however large they are
_PREFIX = lazy(
    r"""(?:
      \d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d[\d.,]*(?:Z|\ ?[+-]\d\d:?\d\d)?:?\ +   # 2026-11-21T10:00:00.123Z
    | [A-Z][a-z]{2}\ [ \d]\d\ \d\d:\d\d:\d\d\ +(?=[\w.-]{1,64}\ kernel:)            # Nov 21 10:00:00 host kernel:
    | [\w.-]{1,64}\ kernel:\ +
    | [A-Z][a-z]{2}\ [ \d]\d\ \d\d:\d\d:\d\d\ [\w.-]{1,64}\ [\w./@-]{1,64}(?:\[\d{1,10}\])?:\ +   # Nov 21 10:00:00 host dockerd[12]:
    | [IWEF]\d{4}\ \d\d:\d\d:\d\d\.\d{6}\ +\d+\ [\w./-]{1,80}:\d{1,6}\]\ +"? # E1121 10:00:00.123456    12 file.go:34] of klog
    | \[pod/[\w./-]{1,200}\]\ +                                                    # [pod/name/container] of kubectl logs --prefix
    | kern\ {1,3}:\w{1,8}\ {1,3}:\ +                                                # kern  :warn  : of dmesg -x
    | \[[A-Z][a-z]{2}\d\d\ \d\d:\d\d\]\ +                                             # [Nov21 10:00] of dmesg -H
    | \[\ {0,8}\d{1,12}\.\d{1,9}\]\ +                                               # [   12.345678] of dmesg
    | \[[A-Z][a-z]{2}\ [A-Z][a-z]{2}\ +\d{1,2}\ \d\d:\d\d:\d\d\ \d{4}\]\ +          # [Sat Nov 21 10:00:00 2026] of dmesg -T
    | \[(?:rank)?\d{1,6}(?:,\d{1,6})?\](?:<std(?:err|out)>)?:\ *                    # [rank0]: and [1,0]<stderr>: of MPI
    | \d{1,5}(?:\.\d\d\.\d{3})?\.\d{3}\ (?:[IWED]\ )?(?=\s{2}|[A-Za-z])                 # 12.345 of BuildKit, 0.17.512.848 E of llama.cpp
    | std(?:err|out)\ [FP]\ +                                                       # container logs
    | [\w.-]{1,64}\ +\|\ +                                                          # service  | of docker compose
    | ==>\ [a-z][a-z\d-]{1,40}(?:\.[\w-]{1,40})?:\                                  # ==> amazon-ebs.jammy: of Packer, not ==> WARNING:
    | \([\w ]{0,32}pid=\d{1,10}[^)\n]{0,64}\)\ +                                    # (worker pid=12) of Ray
    | [A-Z]{4,8}\ \d\d-\d\d\ \d\d:\d\d:\d\d\ +(?=\[[\w./-]{1,80}:\d)                # ERROR 01-17 10:46:41 of vLLM
    | E\ {2,}                                                                       # E    of pytest
    | -\ \*\*Exception\ Message:\*\*\ +                                               # of the report that ComfyUI writes
    | >\ ?                                                                          # quoted mail
    )""",
    re.VERBOSE,
)
_PREFIXES_IN_A_ROW = 4
# Quotes, dashes and blanks of typography, as the program wrote them; characters that are not to be seen are dropped.
_TYPOGRAPHY = {
    **dict.fromkeys(map(ord, "\u2018\u2019\u201a\u201b\u2032"), "'"),
    **dict.fromkeys(map(ord, "\u201c\u201d\u201e\u201f\u2033"), '"'),
    **dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2212"), "-"),
    **dict.fromkeys(map(ord, "\u00a0\u2007\u202f\u3000"), " "),
    **dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff"), None),
}
_ESCAPED = (('\\"', '"'), ("&quot;", '"'), ("&#39;", "'"), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&"))


class Hit(msgspec.Struct, frozen=True):
    """A place in a text: line numbers from 1 (several where the hit crosses lines), and offsets into the prepared line."""

    entry: int
    first: int
    last: int
    start: int
    end: int


def _plain(text: str) -> str:
    """The text as the program wrote it, without what a word processor, a web page or a JSON log made of its quotes and blanks."""
    if not text.isascii():
        text = text.translate(_TYPOGRAPHY)
    for written, meant in _ESCAPED:
        text = text.replace(written, meant) if written in text else text
    return text


class Lines:
    """The prepared text. `text` holds one entry a line: first the lines themselves, then those that may belong together, joined."""

    def __init__(self, text: Text) -> None:
        raw = text.lines
        meant = _plain(text.text)
        plain = raw if meant == text.text else Text(meant, source="").lines
        self._count = len(raw)
        entries = [without_prefix(line) if line else line for line in plain]
        self._joined: list[Joined] = list(joined_lines(text.plain_lines, entries, whole=len(text.text) < LONG))
        entries.extend(joined.text for joined in self._joined)
        self.entries = entries
        self.text = "\n".join(entries)
        self.in_quotes: InQuotes | None = None  # of a user's text: what only speaks of a message is no hit
        self.printed: set[int] = set()  # numbers of the lines with a hit that a program printed, as far as they were asked for
        self._said = [entry for entry, line in zip(entries, plain, strict=False) if entry == line]  # what a logger marked nobody said
        self._standings: dict[tuple[str, int, int, Beside], Standing | None] = {}  # a text may say the same a thousand times
        self._places: Places | None = None
        self._starts = list(accumulate((len(entry) + 1 for entry in entries[:-1]), initial=0))

    def entry_at(self, at: int) -> tuple[int, int]:
        """The entry that holds a place of the text, and where the entry begins."""
        entry = bisect_right(self._starts, at) - 1
        return entry, self._starts[entry]

    def hit(self, start: int, end: int, *, named: bool = False) -> Hit | None:
        """The place of text[start:end]. None where a joined entry shows again what one of its lines shows by itself, and where a user's
        text only speaks of it. `named`: no program prints it so.
        """
        hit = self.place(start, end)
        return hit if hit is None or self.in_quotes is None or self._reported(hit, self.in_quotes, named=named) else None

    def place(self, start: int, end: int) -> Hit | None:
        """The same, reported or only spoken of."""
        entry, offset = self.entry_at(start)
        if entry < self._count:
            return Hit(entry, entry + 1, entry + 1, start - offset, end - offset)
        joined = self._joined[entry - self._count]
        first, last = bisect_right(joined.ends, start - offset), bisect_left(joined.begins, end - offset)
        if first >= last or (joined.overlaps and first):
            return None
        return Hit(entry, joined.first + first, joined.first + last, start - offset, end - offset)

    def _reported(self, hit: Hit, in_quotes: InQuotes, *, named: bool = False) -> bool:
        near = beside(self.entries, hit.entry, self._count) if hit.entry < self._count else Beside()
        asked = (self.entries[hit.entry], hit.start, hit.end, near)
        if asked not in self._standings:
            self._standings[asked] = in_quotes.standing(*asked, lambda: self._around, named=named)
        standing = self._standings[asked]
        if standing == "printed":
            self.printed.update(range(hit.first, hit.last + 1))
        return standing is not None

    @cached_property
    def _around(self) -> Around:
        """What the text says around its quotations."""
        return self.in_quotes.around(self._said) if self.in_quotes is not None else Around()

    def stands(self, hit: Hit, words: str) -> bool:
        """Whether what a pattern found on the hit's line, or from there on, is there as something that happened."""
        at = self.entries[hit.entry].find(words.partition("\n")[0]) if self.in_quotes is not None else -1
        return at < 0 or self.in_quotes is None or self._reported(Hit(hit.entry, hit.first, hit.last, at, at + len(words)), self.in_quotes)

    def look_for(self, literals: Literals) -> None:
        """Find all of these in one pass; `all` and `ends` then know where each stands."""
        if self._places is None:
            self._places = literals.places(self.text)

    def at(self, literal: str) -> Sequence[int]:
        return each(literal, self.text) if self._places is None else self._places.of(literal)

    def present(self, literals: Collection[str]) -> list[str]:
        return [literal for literal in literals if literal in self.text] if self._places is None else self._places.among(literals)

    def _hits(self, literal: str, places: Iterable[int]) -> Iterator[Hit]:
        return (hit for hit in (self.hit(at, at + len(literal)) for at in places) if hit is not None)

    def all(self, literal: str) -> Iterator[Hit]:
        return self._hits(literal, self.at(literal))

    def ends(self, literal: str) -> Iterator[Hit]:
        """The first places of a literal and the last, MANY of each at most: bounds the work on a text that holds little else."""
        places = self.at(literal)
        yield from self._hits(literal, places[:MANY])
        last = islice(self._hits(literal, reversed(places[MANY:])), MANY)  # joined entries, which show lines again, are no hits
        yield from reversed(list(last))

    def line(self, hit: Hit) -> str:
        """The hit's prepared line, cut to REACH characters on each side."""
        return self.entries[hit.entry][max(0, hit.start - REACH) : hit.end + REACH]

    def sentences(self, hit: Hit) -> Iterator[Joined]:
        """The hit's line with those that may belong to it, where it is no joined entry itself."""
        yield from self._sentences.get(hit.first, ()) if hit.entry < self._count else ()

    @cached_property
    def _sentences(self) -> dict[int, list[Joined]]:
        """By the number of each line in them."""
        found: dict[int, list[Joined]] = {}
        for joined in self._joined:
            for number in range(joined.first, joined.first + len(joined.ends) + 1):
                found.setdefault(number, []).append(joined)
        return found

    def before(self, hit: Hit) -> str:
        """What stands on the hit's line before it, and on the line above where its sentence may have begun there."""
        own = self.entries[hit.entry][max(0, hit.start - REACH) : hit.start]
        if hit.entry < self._count and any(joined.first < hit.first for joined in self._sentences.get(hit.first, ())):
            return f"{self.entries[hit.first - 2][-REACH:]} {own}"
        return own

    def says_on(self, hit: Hit, form: re.Pattern[str]) -> bool:
        """Whether the hit's line, or one below it, has this form: a window reaches back."""
        end = self._starts[self._count] if self._count < len(self._starts) else len(self.text)
        return form.search(self.text, self._starts[hit.first - 1], end) is not None

    def previous(self, hit: Hit, count: int) -> str:
        return "\n".join(line[:REACH] for line in self.entries[max(0, hit.first - 1 - count) : hit.first - 1])

    def window(self, hit: Hit, size: int) -> tuple[str, int]:
        """The hit's line with `size` - 1 lines on each side (1: the line alone), and the number of the first."""
        reach = max(size, 1) - 1
        above = _nearest(reversed(self.entries[max(0, hit.first - 1 - reach) : hit.first - 1]))
        below = _nearest(self.entries[hit.last : min(self._count, hit.last + reach)])
        return "\n".join([*reversed(above), self.line(hit), *below]), hit.first - len(above)

    def some_ends(self, literal: str, size: int) -> Sequence[Hit]:
        """As `ends`, and so few from both ends that their windows are no more than WINDOWS characters: of hits that stand close one sees
        what the next sees.
        """
        hits = list(self.ends(literal))
        if size > 1 and len(hits) > _FEW:
            most = max(_FEW, WINDOWS // len(self.window(hits[len(hits) // 2], size)[0]))
            return hits if len(hits) <= most else [*hits[: most // 2], *hits[-(most // 2) :]]
        return hits


def _nearest(lines: Iterable[str]) -> list[str]:
    """The beginnings of the first lines, as far as they are WINDOW characters together."""
    found: list[str] = []
    left = WINDOW
    for line in lines:
        left -= min(len(line), REACH)
        if left < 0:
            break
        found.append(line[:REACH])
    return found


_PREPARED: WeakKeyDictionary[Text, Lines] = WeakKeyDictionary()


def prepared(text: Text) -> Lines:
    """The prepared form of a text, made once however many recognisers ask."""
    found = _PREPARED.get(text)
    if found is None:
        found = _PREPARED[text] = Lines(text)
    return found


def without_prefix(line: str) -> str:
    """The line without what a logger put before it."""
    line = entry_message(line) or line
    at = 0
    for _ in range(_PREFIXES_IN_A_ROW):
        match = _PREFIX.match(line, at)
        if match is None:
            break
        at = match.end()
    return line[at:] if at else line
