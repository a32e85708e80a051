"""What a text itself shows to be over: below a failure something was changed, and a GPU was then seen to compute.

Who pastes a session ends it with what counts, so the last outcome is the state. Words are in [outcomes] of tables/conditions.toml.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping

from cudadoctor.model.facts import Quote
from cudadoctor.parsers.attempts import ELSEWHERE, typed
from cudadoctor.parsers.base import Text

_LONGEST = 400  # characters of a line that are looked at
_Place = tuple[str | None, str | None]  # the host, and what runs commands in a container or on another node


class Recovery:
    """`works`: the index of the last line on which something is seen to work; None where there is none, or it ends badly."""

    def __init__(self, text: Text, outcomes: Mapping[str, re.Pattern[str]], *seen: re.Pattern[str]) -> None:
        """`seen`: what a program prints for that; `outcomes`: what else counts ([outcomes] of tables/conditions.toml)."""
        self._lines = [line[:_LONGEST] for line in text.plain_lines]
        self._entries = typed(text)
        self._starts = [entry.index for entry in self._entries]
        self._typed = frozenset(self._starts)
        works = next((at for at in reversed(range(len(self._lines))) if at not in self._typed and self._says(at, *seen)), None)
        told = ((at, outcomes["changes" if at in self._typed else "told-changes"]) for at in range(works or 0))
        self._changes = [at for at, pattern in told if self._says(at, pattern)]
        self.works = works if works is not None and self._changes and self._ends_well(works, outcomes) else None

    def _says(self, at: int, *patterns: re.Pattern[str]) -> bool:
        return any(pattern.search(self._lines[at]) for pattern in patterns)

    def _ends_well(self, works: int, outcomes: Mapping[str, re.Pattern[str]]) -> bool:
        """Whether a GPU is named since the last change, none is done without, and what computes does not end badly."""
        since = range(self._changes[-1], len(self._lines))
        end = next((start for start in self._starts if start > works), len(self._lines))
        badly = any(self._says(at, outcomes["ends-badly"]) for at in range(works + 1, end))
        named = (at for at in since if at not in self._typed and self._says(at, outcomes["names-gpu"]))
        without = any(self._says(at, outcomes["without-gpu"]) for at in since)
        return not without and not badly and not all(self._says(at, outcomes["denies"]) for at in named)

    def shown(self, quotes: Iterable[Quote]) -> int:
        """The index of the last line that shows these words, and none that was typed."""
        words = [quote.text.strip().split("\n")[-1][:_LONGEST] for quote in quotes if quote.first is not None]
        printed = (at for at in reversed(range(len(self._lines))) if at not in self._typed)
        return next((at for at in printed if any(said in self._lines[at] for said in words if said)), 0)

    def ends(self, at: int, *, of_host: bool) -> bool:
        """Whether what the line of this index shows was over at the end: on the same host, and under the same engine of containers but
        where it is a fault of the host."""
        if self.works is None or at >= self.works or bisect_right(self._changes, at) == len(self._changes):
            return False
        here, there = self._place(at), self._place(self.works)
        return here is None or here == there or (of_host and there is not None and here == (there[0], None))

    def _place(self, at: int) -> _Place | None:
        above = bisect_right(self._starts, at) - 1
        if above < 0:
            return None
        elsewhere = ELSEWHERE.search(self._entries[above].command or "")
        return self._entries[above].host, elsewhere[0] if elsewhere is not None else None
