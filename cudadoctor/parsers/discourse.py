"""Whether a text tells that its fault is over, somebody else's or none at all, by what its writer says (tables/discourse.toml).

Only prose counts, sentence by sentence: what a program printed says nothing of this. Each passage (words, and the output below them) gets a
score: what the whole text sounds like, whose or of when the words above the output say that it is, and whether it is said to be over.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from cudadoctor.knowledge.wording import Discourse
from cudadoctor.model.pattern import lazy
from cudadoctor.parsers.literals import Literals
from cudadoctor.parsers.quoting import HUNK, MOST, Quoting
from cudadoctor.parsers.shell import is_prompt

if TYPE_CHECKING:
    from cudadoctor.knowledge.load import Knowledge

_LONGEST = 2000  # characters of a paragraph that are looked at
_BEFORE = 24  # characters before a word in which something turns it round
_LEAST = 5  # lines of prose that make a document
_MET = "met"  # of a sentence: the writer himself meets something
_LEAVES_OUT_I = lazy(r"[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]")  # Chinese, Japanese and Korean need no word for who met it
_SENTENCE = lazy(r"(?<=[.!?;])\s|[。！？；]")
_ENOUGH = 2  # of a passage's score: nothing in it counts then
_TITLE = 2  # what the title of a document weighs
_CLOSED = 3  # what weighs that it is over, said first, or below what was shown
_LONGEST_TITLE = 160
_LONGEST_DOCUMENT = 200  # lines of what is more likely written than printed
# What only the log of one run has: a time, a process by its number, a frame of a traceback, a step of BuildKit, an error of pytest, a rank
# of PyTorch, tqdm's bar, a whole version.
_HEADED, _OF_ONE = lazy(r"([A-Z][A-Z_ ]{3,30}): "), 3  # how one program begins its lines; so many are a log
_OF_A_RUN = lazy(
    r"\b\d\d:\d\d:\d\d\b|^\s{0,8}\[ {0,6}\d{1,8}\.\d{3,6}\]|\w\[\d{2,7}\]: |\bpid[ =:]{1,2}\d{2,7}\b|\bFile \"/"
    r"|^#\d{1,4} \d{1,6}\.\d|^E {3,20}\S|^\[rank\d{1,5}\]:|\d%\|[^|\n]{0,80}\| |\b\d{1,4}\.\d{1,4}\.\d"
)
# conventionalcommits.org: what a change is called.
_CHANGE = lazy(r"(?:feat|fix|docs|chore|refactor|tests?|ci|build|perf|style|revert)(?:\([\w /.,-]{1,40}\))?!?: \S")
# docs.github.com: what a change says of the report that it closes.
_CLOSES = lazy(
    r"(?i)^\W{0,4}(?:close[sd]?|fix(?:es|ed)?|resolve[sd]?):? (?:(?:[\w.-]{1,60}/[\w.-]{1,60})?#\d|https://github\.com/[\w.-]{1,60}/[\w.-]{1,60}/issues/\d)"
)
_CALM = ("thanks", "found", "since", "fine")
_OF_TIME = ("over", "goes_on", "in_vain", "past")
_ALSO = {"others": ("persons",)}  # lists whose words belong to another too
_LISTS = (*_CALM, *_OF_TIME, "harms", "hypothetical", "too", "others", "own", "general", "meets", "guide", "asked", "denied", "advises")
# A line that a program printed: a log's date, level or brackets, the process that a launcher names, a ruled table, a traceback, code,
# `name: message` and `Name : value`.
_OUTPUT = lazy(
    r"^\s{4}|^\t|^\s{0,3}(?:\{\"|\[\s{0,8}\d|\d{4}-\d\d-\d\d[T ]|[A-Z][a-z]{2} [ \d]\d \d|[|+]|>>> |\.\.\. )"
    r"|^\s{0,3}(?:File \"|Traceback |\$ |# \S|NVRM: )"
    r"|^(?:import \w[\w.]{0,80}(?: as \w{1,40})?\s{0,4}$|from [\w.]{1,80} import |(?:def|class) \w{1,80}[(:]|@\w|print\()"
    r"|^\s{0,3}(?:\w[\w.]{0,60}(?:Error|Exception|Warning)|[a-z][\w.-]{1,30}(?:\[\d{1,8}\])?|[A-Z\d]{1,20}_[A-Z\d_]{1,60}): \S"
    r"|^\s{0,3}\w[\w ]{2,40}\s{2,40}: "
    r"|^\s{0,3}(?:\([^)\n]{1,60}\) )?\[?(?:(?:DEBUG|INFO|WARN(?:ING)?|ERROR|FATAL|CRITICAL)[ :\[]{1,3})?"
    r"(?:[\d/.-]{4,10}[T ])?\d\d:\d\d:\d\d"
    r"|^\s{0,3}\([^)\n]{1,60}\bpid=\d{1,8}[^)\n]{0,40}\) "
)
# Within a line, the words that are not the writer's: in quotation marks, and a message up to its end; then commands, names, code.
_SAID_BY_OTHERS = r"\"[^\"\n]{1,400}\"|[“„][^“”\n]{1,400}[“”]|«[^«»\n]{1,400}»|\b(?:NVRM|\w{1,60}(?:Error|Exception)): .*"
SAID_BY_OTHERS, _NOT_HIS = lazy(_SAID_BY_OTHERS), lazy(rf"`[^`]{{1,400}}`|{_SAID_BY_OTHERS}")
_CHAT = lazy(r"^\s{0,3}\[?\d\d?:\d\d(?::\d\d)?\]? ?<[@+ ]?[\w^`|-]{1,30}> ")  # what somebody says in a channel, with its time
_ITEM = lazy(r"^\s{1,12}(?:[-*+•]|\d{1,2}[.)]|\[[ xX]\])\s")
_FENCE = "```"
_GAPS = lazy(r"\S {3,}(?=\S)")  # between the columns of a table
_WORDS = lazy(r"[^\W\d_]{2}")
_ENDS = lazy(r"[.!?…。！？]\W{0,3}$")  # of a sentence
_HEADING = lazy(r"^#{1,6} |^[A-Z\d][\w.+/()-]{0,60}(?: [\w.+/()-]{1,60}){0,3}(?<!\.)$")  # of Markdown, or of a form: a few words


def speech_of(knowledge: Knowledge) -> Speech:
    """Made once for all texts."""
    return knowledge.once("speech", lambda: Speech(knowledge.discourse))


class _Place(NamedTuple):
    """A sentence, by its line and its number there."""

    line: int
    sentence: int


class _Passage(NamedTuple):
    """What somebody writes without an empty line in it, and the output below it up to what he writes next."""

    words: range
    lines: range


class _Said(NamedTuple):
    """The lines of prose by index, and for each list the sentences with one of its words."""

    prose: dict[int, str]
    words: dict[str, list[_Place]]

    def among(self, name: str, lines: range) -> bool:
        places = self.words[name]
        first = bisect_left(places, (lines.start, 0))
        return first < len(places) and places[first].line < lines.stop

    def asks(self, lines: Sequence[str]) -> bool:
        """Whether it tells first what works, or since when it does not, then asks, or shows output or a paragraph of its own, and thanks in
        the end: help is sought."""
        told, thanks = max(self.words["fine"][-1:] + self.words["since"][-1:], default=None), self.words["thanks"]
        if told is None or not thanks or self.words["over"]:
            return False
        if any(told < place < thanks[0] for place in self.words["asked"]):
            return True
        between = range(told.line + 1, thanks[0].line)
        return any(lines[at].strip() and (at not in self.prose or not lines[at - 1].strip()) for at in between)

    def introduces(self, name: str, passage: _Passage) -> bool:
        """Whether a word of the list stands in the last sentence above what the passage shows."""
        last = passage.words.stop - 1
        if not passage.words or last not in self.prose:
            return False
        ends = _Place(last, len(_sentences(self.prose[last])) - 1)
        place = bisect_left(self.words[name], ends)
        return self.words[name][place : place + 1] == [ends]

    def shows_own(self, passage: _Passage) -> bool:
        """Whether the sentence that ends in a colon above the output is the writer's own, whoever was spoken of before."""
        shows = bool(passage.words) and self.prose[passage.words.stop - 1].rstrip().endswith((":", "："))
        return shows and self.introduces("own", passage) and not self.introduces("others", passage)


class Speech:
    def __init__(self, discourse: Discourse) -> None:
        lists = {name: (name, *_ALSO.get(name, ())) for name in _LISTS}
        self._patterns = {name: discourse.any_of(*parts) for name, parts in lists.items()}
        self._lists: dict[str, set[str]] = {}  # by literal, those that hold it
        for name, parts in lists.items():
            for word in (word for part in parts for word in discourse.words[part]):
                self._lists.setdefault(word.strip("*"), set()).add(name)
        self._literals = Literals(self._lists)
        self._programs = discourse.any_of("names")
        self.quoting = Quoting(discourse)
        self._over_at_once = lazy(rf"\W{{0,6}}(?:\w{{1,20}}: )?\W{{0,3}}(?:{discourse.any_of('over').pattern})\W", re.IGNORECASE)
        closed = rf"[(\[（【](?:{discourse.any_of('over').pattern})\w{{0,3}}[)\]）】]"
        self._closed, self._closed_at_end = lazy(closed, re.IGNORECASE), lazy(rf"{closed}$", re.IGNORECASE)
        self._offers = lazy(rf"\W{{0,6}}(?:{discourse.any_of('offers').pattern})\W", re.IGNORECASE)
        self._forms = discourse.any_of("forms")
        self._added = lazy(rf"\W{{0,6}}(?:{discourse.any_of('added').pattern})\W", re.IGNORECASE)

    def lines_of(self, lines: Sequence[str]) -> frozenset[int]:
        """Indexes (from 0) of the lines that tell of what is over, of what others have, or of what is so in general."""
        said = self._said(lines, _answers(lines))
        if said is None or not any(line.strip() for line in lines):
            return frozenset()
        titled = self._titled(lines)
        if titled == _CLOSED and said.words["goes_on"][-1:] > said.words["over"][-1:]:
            titled = 0  # not for somebody further below
        added = any(self._added.match(said.prose[place.line]) for place in said.words["over"])
        code = self.quoting.lines_of(lines) if any(map(HUNK.match, lines)) else frozenset()  # whose "+" is no trace of a shell
        offered = self._is_offer(said)
        if not (titled or added or code or offered or said.words["own"] or said.words["thanks"]):
            return frozenset()
        # How much the text as a whole sounds like one without a fault of now.
        whole = sum(bool(said.words[kind]) for kind in (*_CALM, "general")) - 2 * bool(said.words["too"] and not offered) + titled
        whole -= said.asks(lines)
        whole += _TITLE * bool(code) + _CLOSED * offered
        return frozenset(
            index
            for passage in _passages(lines, said)
            if whole + _local(passage, lines, said, code) + self._time(passage, said) >= _ENOUGH
            for index in passage.lines
        )

    def _is_offer(self, said: _Said) -> bool:
        """Whether a change of a program is offered, and nobody says that it did harm, or no good."""
        if any(map(_CLOSES.match, said.prose.values())):
            return True
        against = {place for name in ("harms", "denied", "in_vain", "asked") for place in said.words[name]}
        return any(
            _Place(index, number) not in against
            for index, line in said.prose.items()
            for number, sentence in enumerate(_sentences(line))
            if self._offers.match(sentence)
        )

    def _titled(self, lines: Sequence[str]) -> int:
        """Whether the first line is the title of a document."""
        first = next(line for line in lines if line.strip())
        if _CHANGE.match(first):
            return _TITLE
        level = len(first) - len(first.lstrip("#"))
        if level and sum(line.startswith("#" * level + " ") for line in lines) > 1:
            return 0  # a section of a form
        title = first.lstrip("# ").rstrip()
        long = len(title) > _LONGEST_TITLE
        if self._closed.match(title) or (not long and self._closed_at_end.search(title)):
            return _CLOSED
        if long or title.endswith((*".:?!。：？！",)) or not is_prose(title):
            return 0
        names, *more = self._names(title)
        return _TITLE if names & {"guide", "general"} and "own" not in names and not more else 0

    def title_of_report(self, lines: Sequence[str]) -> int | None:
        """The index of the first line, where that is the title of a report: a heading, no question, and below it somebody tells what he
        met himself, or fills in a form for it, and not that it is over."""
        first = next((at for at, line in enumerate(lines) if line.strip()), None)
        if first is None or lines[first : first + 2][1:] not in ([], [""]) or len(lines[first]) > _LONGEST_TITLE or self._titled(lines):
            return None
        if not lines[first].startswith("#") or lines[first].rstrip().endswith(("?", "？")):
            return None
        said = self._said(lines[first + 1 :])
        reports = said is not None and (said.words[_MET] or self._is_form(lines)) and not said.words["over"]
        return first if reports else None

    def _is_form(self, lines: Sequence[str]) -> bool:
        """Whether a heading is one of the form in which a fault is reported."""
        return any(line.startswith("#") and self._forms.search(line) for line in lines)

    def _time(self, passage: _Passage, said: _Said) -> int:
        """How sure it is that what a passage shows was over when the text was written."""
        over = said.words["over"]
        if not over or said.words["goes_on"][-1:] > over[-1:]:
            return 0
        first = min(said.prose)
        return _CLOSED if over[-1].line >= passage.words.start or self._over_at_once.match(said.prose[first]) else 1

    def tells(self, lines: Sequence[str]) -> bool:
        """Whether anybody speaks of a machine of his own, or reports a fault in a form for it; short words need not."""
        said = self._said(lines, _answers(lines))
        if said is None or said.words["own"] or self._is_form(lines):
            return True
        return sum(1 for _ in _told_lines(lines, said)) < _LEAST

    def cites(self, lines: Sequence[str], messages: Collection[int]) -> bool:
        """Whether it is a document: nobody speaks of a machine of his own, and nothing is of the log of one run. A message that stands in
        it, in a block of its own even, is only cited there. `messages`: the indexes of their lines, which are no words of the document.
        """
        if self._is_form(lines):
            return False
        said = self._said(lines, _answers(lines)) if len(lines) <= _LONGEST_DOCUMENT else None
        if said is None or any(said.words[name] for name in ("own", "too", "in_vain", _MET)) or _is_session(lines, messages):
            return False
        shown = {*messages, *_fenced(lines)}
        told = _told_lines(lines, said._replace(prose={at: line for at, line in said.prose.items() if at not in shown}))
        forms = {re.sub(r"\d+", "0", line) for line in told}  # of a log many are alike
        headed = Counter(found[1] for line in lines if (found := _HEADED.match(line)) is not None)
        return len(forms) >= _LEAST and not any(map(_OF_A_RUN.search, lines)) and max(headed.values(), default=0) < _OF_ONE

    def asks_nothing_of_now(self, lines: Sequence[str]) -> bool:
        """Whether the writer plans, teaches or is curious, and meets nothing himself."""
        said = self._said(lines, _answers(lines))
        return said is not None and bool(said.words["general"]) and not any(said.words[name] for name in (_MET, "goes_on", "too"))

    def quiet(self, lines: Sequence[str], after: int) -> bool:
        """Whether nobody asks on, or says that it goes on, behind the line of this number (from 1)."""
        said = self._said(lines[after:])
        return said is not None and not (said.words["goes_on"] or said.words["asked"] or said.words["too"])

    def _said(self, lines: Sequence[str], answers: frozenset[int] = frozenset()) -> _Said | None:
        """None of a log."""
        if len(lines) > MOST:
            return None
        written = ((index, line[:_LONGEST]) for index, line in enumerate(lines) if line)
        prose = {index: _NOT_HIS.sub(" ", line) for index, line in written if index not in answers and is_prose(line)}
        known = {line: self._names(line) for line in set(prose.values())}
        words: dict[str, list[_Place]] = {name: [] for name in (*_LISTS, _MET)}
        for index, line in prose.items():
            for number, names in enumerate(known[line]):
                for name in names:
                    words[name].append(_Place(index, number))
        return _Said(prose, words)

    def _names(self, line: str) -> list[set[str]]:
        """The lists that speak in each sentence of a line."""
        return [self._heard(sentence) for sentence in _sentences(line)]

    def _heard(self, sentence: str) -> set[str]:
        sentence = self._programs.sub(" ", sentence)
        maybe = {name for literal in self._literals.places(sentence.lower()).among(self._lists) for name in self._lists[literal]}
        found = {name for name in maybe if self._patterns[name].search(sentence)}
        if "goes_on" in found:
            found.difference_update(_CALM)
        if {"asked", "fine", "since"} & found:  # what was well then is so no longer, and what began then goes on
            found -= {"past"}
        if {"own", "past"} <= found:  # what the writer did: "I had followed a blog"
            found -= {"general"}
        if self._patterns["advises"].search(sentence):
            found.discard("others")  # whose advice it was, not whose machine
        if "over" in found:
            found -= {"too"} if self._closes(sentence) else {"over"}
            if "over" not in found and self._patterns["denied"].search(sentence):
                found.add("goes_on")
        if "asked" in found:
            found -= {"thanks", "found"}  # in advance; what is to be found
        own = "own" in found or (_LEAVES_OUT_I.search(sentence) is not None and "hypothetical" not in found)
        return found | {_MET} if own and "meets" in found else found

    def _closes(self, sentence: str) -> bool:
        """Whether it says that it is over; what may, must or does not end, what came back, and what was met next, is not."""
        found = self._patterns["over"].search(sentence)
        if found is None or sentence[found.end() : found.end() + 1] in ("?", "？"):
            return False
        if any(self._patterns[more].search(sentence, found.start()) for more in ("goes_on", "meets")):
            return False
        before = sentence[max(0, found.start() - _BEFORE) : found.start()]
        return not any(self._patterns[turns].search(before) for turns in ("hypothetical", "denied"))


def _sentences(line: str) -> list[str]:
    return [sentence for sentence in _SENTENCE.split(line) if sentence.strip()]


def _told_lines(lines: Sequence[str], said: _Said) -> Iterator[str]:
    """The lines of prose that are no headings of a form, nor values that stand right below one."""
    for index, line in said.prose.items():
        if not _HEADING.match(line) and (_ENDS.search(line) or not index or not _HEADING.match(lines[index - 1])):
            yield line


def _fenced(lines: Sequence[str]) -> frozenset[int]:
    """Indexes of the lines between two fences of Markdown, and of the fences."""
    fences = [index for index, line in enumerate(lines) if line.lstrip().startswith(_FENCE) and line.count(_FENCE) == 1]
    return frozenset(index for opens, closes in zip(fences[::2], fences[1::2], strict=False) for index in range(opens, closes + 1))


def _answers(lines: Sequence[str]) -> frozenset[int]:
    """What stands right below a prompt is no prose, and what is set off by an indentation and an empty line."""
    found = set()
    below = set_off = False
    for index, line in enumerate(lines):
        written = line.strip()
        set_off = (set_off or not index or not lines[index - 1].strip()) and line[:2] == "  "
        below = bool(written) and (below or is_prompt(line))
        if below or (set_off and _ITEM.match(line) is None):
            found.add(index)
    return frozenset(found)


def _passages(lines: Sequence[str], said: _Said) -> Iterator[_Passage]:
    starts = [0, *(index for index in said.prose if index and index - 1 not in said.prose)]
    for start, end in pairwise([*starts, len(lines)]):
        words = next((index for index in range(start, end) if index not in said.prose), end)
        yield _Passage(range(start, words), range(start, end))


def _local(passage: _Passage, lines: Sequence[str], said: _Said, code: frozenset[int]) -> int:
    """Whether the words above output say whose it is, or of when; without them a fault that is told or typed is the writer's own."""
    output = [lines[index] for index in passage.lines if index not in said.prose and index not in code and lines[index].strip()]
    typed, met = any(map(is_prompt, output)), said.among(_MET, passage.words)
    his = said.among("others", passage.words) and not said.shows_own(passage)
    if (his and not (typed and met)) or said.introduces("past", passage):
        return 1
    if typed or met:
        return -1
    return int(not output and bool(said.words["general"]))


def _is_session(lines: Sequence[str], messages: Collection[int]) -> bool:
    """Whether something stands right below a command that is typed, or what was printed in the next part of a form; a guide shows commands
    alone, or goes on in words."""
    asked = apart = False
    for at, line in enumerate(lines):
        if is_prompt(line):
            asked, apart = True, False
        elif asked and _is_frame(line):
            apart = True
        elif asked:
            if not apart or at in messages or not (is_prose(line) or line.rstrip().endswith(":")):
                return True
            asked = False
    return False


def _is_frame(line: str) -> bool:
    """What may stand between a command and its output: nothing, a fence, a heading."""
    return not line.strip() or line.startswith(_FENCE) or is_heading(line)


def is_heading(line: str) -> bool:
    """Whether a line is a heading of Markdown, or a few words in a form."""
    return _HEADING.match(line) is not None


def is_prose(line: str) -> bool:
    """Whether somebody wrote the line: words, and no form that programs give their output."""
    output = _OUTPUT.match(line) is not None and _CHAT.match(line) is None
    is_row = len(_GAPS.findall(line)) > 1
    return len(_WORDS.findall(line)) > 1 and not (output or is_row) and not is_prompt(line)
