"""Whether a text tells that its fault is over, or somebody else's, by what its writer says around the output (tables/discourse.toml).

Only prose counts: what a program printed says nothing of this. Where the writer asks on, or has the same fault too, it is none of both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from cudadoctor.knowledge.wording import Discourse
from cudadoctor.model.pattern import lazy
from cudadoctor.parsers.literals import Literals
from cudadoctor.parsers.quoting import LONGEST, MOST, Quoting
from cudadoctor.parsers.shell import is_prompt

if TYPE_CHECKING:
    from cudadoctor.knowledge.load import Knowledge

_BEFORE = 24  # characters before a word in which something turns it round
_LEAST = 5  # lines of prose that make a document
_LISTS = ("over", "hypothetical", "goes_on", "too", "others", "fine", "own", "found", "thanks", "since")
# A line that a program printed: a log's date or brackets, a ruled table, a traceback, code, `name: message` and `Name : value`.
_OUTPUT = lazy(
    r"^\s{4}|^\t|^\s{0,3}(?:\[\s{0,8}\d|\d{4}-\d\d-\d\d[T ]|[A-Z][a-z]{2} [ \d]\d \d|[|+]|>>> |\.\.\. |File \"|Traceback |\$ |# \S|NVRM: )"
    r"|^\s{0,3}(?:\w[\w.]{0,60}(?:Error|Exception|Warning)|[a-z][\w.-]{1,30}(?:\[\d{1,8}\])?|[A-Z\d]{1,20}_[A-Z\d_]{1,60}): \S"
    r"|^\s{0,3}\w[\w ]{2,40}\s{2,40}: "
)
# Within a line, the words that are not the writer's: in quotation marks, and a message up to the end of its line.
_NOT_HIS = lazy(r"`[^`]{1,400}`|\"[^\"]{1,400}\"|“[^”]{1,400}”|\b(?:NVRM|\w{1,60}(?:Error|Exception)): .*")
_CHAT = lazy(r"^\s{0,3}\[?\d\d?:\d\d(?::\d\d)?\]? ?<[@+ ]?[\w^`|-]{1,30}> ")  # what somebody says in a channel, with its time
_WORDS = lazy(r"[^\W\d_]{2}")
_ENDS = lazy(r"[.!?…。！？]\W{0,3}$")  # of a sentence
_HEADING = lazy(r"^#{1,6} |^[A-Z\d][\w.+/()-]{0,60}(?: [\w.+/()-]{1,60}){0,3}(?<!\.)$")  # of Markdown, or of a form: a few words


def speech_of(knowledge: Knowledge) -> Speech:
    """Made once for all texts."""
    return knowledge.once("speech", lambda: Speech(knowledge.discourse))


class _Said(NamedTuple):
    """The lines of prose by index, and for each list the lines with one of its words."""

    prose: dict[int, str]
    words: dict[str, list[int]]

    def behind(self, name: str, index: int) -> bool:
        """Whether a word of the list stands below a line."""
        return self.words[name][-1:] > [index]


class Speech:
    def __init__(self, discourse: Discourse) -> None:
        self._patterns = {name: discourse.any_of(name) for name in _LISTS}
        self._lists: dict[str, set[str]] = {}  # by literal, those that hold it
        for name in _LISTS:
            for word in discourse.words[name]:
                self._lists.setdefault(word.strip("*"), set()).add(name)
        self._literals = Literals(self._lists)
        self.quoting = Quoting(discourse)
        self._over_at_once = lazy(rf"\W{{0,6}}(?:\w{{1,20}}: )?\W{{0,3}}(?:{discourse.any_of('over').pattern})\W", re.IGNORECASE)
        self._added = lazy(rf"\W{{0,6}}(?:{discourse.any_of('added').pattern})\W", re.IGNORECASE)

    def lines_of(self, lines: Sequence[str]) -> frozenset[int]:
        """Indexes (from 0) of the lines that tell of what is over, or of what others have."""
        said = self._said(lines)
        if said is None or said.words["too"]:
            return frozenset()
        return frozenset(self._past(said)) | frozenset(_of_others(lines, said))

    def tells(self, lines: Sequence[str]) -> bool:
        """Whether anybody speaks of a machine of his own; short words need not."""
        said = self._said(lines)
        return said is None or bool(said.words["own"]) or sum(1 for _ in _told_lines(lines, said)) < _LEAST

    def quiet(self, lines: Sequence[str], after: int) -> bool:
        """Whether nobody asks on, or says that it goes on, behind the line of this number (from 1)."""
        said = self._said(lines[after:])
        return said is not None and not said.words["goes_on"] and not said.words["too"]

    def _said(self, lines: Sequence[str]) -> _Said | None:
        """None of a log."""
        if len(lines) > MOST:
            return None
        written = ((index, line[:LONGEST]) for index, line in enumerate(lines) if line)
        prose = {index: _NOT_HIS.sub(" ", line) for index, line in written if is_prose(line)}
        known = {line: self._names(line) for line in set(prose.values())}
        return _Said(prose, {name: [index for index, line in prose.items() if name in known[line]] for name in _LISTS})

    def _names(self, line: str) -> set[str]:
        maybe = {name for literal in self._literals.places(line.lower()).among(self._lists) for name in self._lists[literal]}
        return {name for name in maybe if self._patterns[name].search(line)}

    def _past(self, said: _Said) -> range:
        """All up to the words that say that it is over, where somebody speaks of himself or thanks: no program does."""
        over = [index for index in said.words["over"] if self._closes(said.prose[index])]
        if not (said.words["own"] or said.words["thanks"] or any(self._added.match(said.prose[index]) for index in over)):
            return range(0)
        last = over[-1] if over else _told(said)
        if last is None or said.behind("goes_on", last):
            return range(0)
        return range(last + 1 if last != self._headed(said) else MOST)

    def _headed(self, said: _Said) -> int | None:
        """The text's first line of prose where it begins by saying that it is over: it speaks of all that follows."""
        first = min(said.prose, default=None)
        return first if first is not None and self._over_at_once.match(said.prose[first]) else None

    def _closes(self, line: str) -> bool:
        """Whether the line says that it is over; what may, must or does not end, and what came back, is not."""
        found = self._patterns["over"].search(line)
        if found is None or self._patterns["goes_on"].search(line, found.start()):
            return False
        return self._patterns["hypothetical"].search(line[max(0, found.start() - _BEFORE) : found.start()]) is None


def _told_lines(lines: Sequence[str], said: _Said) -> Iterator[str]:
    """The lines of prose that are no headings of a form, nor values that stand right below one."""
    for index, line in said.prose.items():
        if not _HEADING.match(line) and (_ENDS.search(line) or not index or not _HEADING.match(lines[index - 1])):
            yield line


def _told(said: _Said) -> int | None:
    """The last line of those that name what it was and thank, or say how it has been since."""
    open_ = set(said.words["goes_on"])
    at = {kind: [index for index in said.words[kind] if index not in open_] for kind in ("found", "thanks", "since")}
    return max(index for where in at.values() for index in where) if at["found"] and (at["thanks"] or at["since"]) else None


def _of_others(lines: Sequence[str], said: _Said) -> Iterator[int]:
    """Output below words that say whose it is, where the writer's own machine is said to be well."""
    if not said.words["fine"]:
        return
    others, own = set(said.words["others"]), set(said.words["own"])
    theirs = shown = False
    for index, line in enumerate(lines):
        if index in said.prose:
            theirs = index in others or (theirs and not shown and index not in own)
            shown = False
        elif line.strip():
            shown = True
        if theirs:
            yield index


def is_heading(line: str) -> bool:
    """Whether a line is a heading of Markdown, or a few words in a form."""
    return _HEADING.match(line) is not None


def is_prose(line: str) -> bool:
    """Whether somebody wrote the line: words, and no form that programs give their output."""
    output = _OUTPUT.match(line) is not None and _CHAT.match(line) is None
    return len(_WORDS.findall(line)) > 1 and not output and not is_prompt(line)
