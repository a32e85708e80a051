"""Whether a text tells that its fault is over, or somebody else's, by what its writer says around the output (tables/discourse.toml).

Only prose counts: what a program printed says nothing of this. Where the writer asks on, or has the same fault too, it is none of both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from cudadoctor.knowledge.wording import Discourse
from cudadoctor.model.pattern import lazy
from cudadoctor.parsers.shell import is_prompt

if TYPE_CHECKING:
    from cudadoctor.knowledge.load import Knowledge

_LONGEST = 400  # characters of a line that are looked at
_MOST = 5000  # lines of a text that somebody wrote; a longer one is a log
_FEW = 3  # lines of prose behind the words that say it is over
_BEFORE = 24  # characters before a word in which something turns it round
_LEAST = 5  # lines of prose that make a document
_KINDS = ("found", "thanks", "since")
# A line that a program printed: a log's date or brackets, a ruled table, a traceback, code, `name: message` and `Name : value`.
_OUTPUT = lazy(
    r"^\s{4}|^\t|^\s{0,3}(?:\[\s{0,8}\d|\d{4}-\d\d-\d\d[T ]|[A-Z][a-z]{2} [ \d]\d \d|[|+]|>>> |\.\.\. |File \"|Traceback |\$ |# \S|NVRM: )"
    r"|^\s{0,3}(?:\w[\w.]{0,60}(?:Error|Exception|Warning)|[a-z][\w.-]{1,30}(?:\[\d{1,8}\])?): \S|^\s{0,3}\w[\w ]{2,40}\s{2,40}: "
)
_WORDS = lazy(r"[^\W\d_]{2}")


def speech_of(knowledge: Knowledge) -> Speech:
    """Made once for all texts."""
    return knowledge.once("speech", lambda: Speech(knowledge.discourse))


class Speech:
    """The words made ready for texts."""

    def __init__(self, discourse: Discourse) -> None:
        self._over, self._turned, self._goes_on, self.too, self._others, self._fine = map(
            discourse.any_of, ("over", "hypothetical", "goes_on", "too", "others", "fine")
        )
        self._weak = {kind: discourse.any_of(kind) for kind in _KINDS}
        self._own = discourse.any_of("own")

    def lines_of(self, lines: Sequence[str]) -> frozenset[int]:
        """Indexes (from 0) of the lines that tell of what is over, or of what others have."""
        if len(lines) > _MOST:
            return frozenset()
        prose = {index: line[:_LONGEST] for index, line in enumerate(lines) if is_prose(line[:_LONGEST])}
        if any(self.too.search(line) for line in prose.values()):
            return frozenset()
        return frozenset(self._past(lines, prose)) | frozenset(self._of_others(lines, prose))

    def tells(self, lines: Sequence[str]) -> bool:
        """Whether anybody speaks of a machine of his own; short words need not."""
        prose = [line[:_LONGEST] for line in lines if is_prose(line[:_LONGEST])]
        return len(prose) < _LEAST or any(map(self._own.search, prose))

    def quiet(self, lines: Sequence[str], after: int) -> bool:
        """Whether nobody asks on, or says that it goes on, behind the line of this number (from 1)."""
        return not any(
            self._goes_on.search(line[:_LONGEST]) or self.too.search(line[:_LONGEST]) for line in lines[after:] if is_prose(line[:_LONGEST])
        )

    def _past(self, lines: Sequence[str], prose: dict[int, str]) -> range:
        """All up to the words that say that it is over."""
        over = [index for index, line in prose.items() if self._closes(line)]
        last = over[-1] if over else self._told(prose)
        if last is None:
            return range(0)
        rest = [line for index, line in prose.items() if index > last]
        if len(rest) > _FEW or any(map(self._goes_on.search, rest)):
            return range(0)
        return range(last + 1)

    def _closes(self, line: str) -> bool:
        """Whether the line says that it is over; what may, must or does not end, and what came back, is not."""
        found = self._over.search(line)
        if found is None or self._goes_on.search(line, found.start()):
            return False
        return self._turned.search(line[max(0, found.start() - _BEFORE) : found.start()]) is None

    def _told(self, prose: dict[int, str]) -> int | None:
        """The last line of those that name what it was and thank, or say how it has been since."""
        said = {index: line for index, line in prose.items() if self._goes_on.search(line) is None}
        at = {kind: max((index for index, line in said.items() if words.search(line)), default=None) for kind, words in self._weak.items()}
        known = [index for index in at.values() if index is not None]
        return max(known) if at["found"] is not None and len(known) > 1 else None

    def _of_others(self, lines: Sequence[str], prose: dict[int, str]) -> Iterator[int]:
        """Output below words that say whose it is, where the writer's own machine is said to be well."""
        if not any(self._fine.search(line) for line in prose.values()):
            return
        theirs = shown = False
        for index, line in enumerate(lines):
            if index in prose:
                theirs = self._others.search(prose[index]) is not None or (theirs and not shown and self._own.search(prose[index]) is None)
                shown = False
            elif line.strip():
                shown = True
            if theirs:
                yield index


def is_prose(line: str) -> bool:
    """Whether somebody wrote the line: words, and no form that programs give their output."""
    return len(_WORDS.findall(line)) > 1 and _OUTPUT.match(line) is None and not is_prompt(line)
