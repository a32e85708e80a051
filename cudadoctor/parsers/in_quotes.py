"""How a message stands in its line: as a program printed it, in a sentence that reports it ("I get `...`"), or only spoken of.

A message in quotation marks, one in an item of a list, and a number without the form in which a program prints it (an Xid) are mentions:
one is reported where its sentence says that somebody met it, the paragraph tells of the writer or the text is not calm, and no explanation
follows. A paragraph that is one quotation and nothing else is reported where no line beside it asks or explains what it means, introduces
it as something else, or heads a manual. All else is printed, unless the sentence asks what it means.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from cudadoctor.knowledge.wording import Discourse
from cudadoctor.model.pattern import lazy
from cudadoctor.parsers.discourse import is_heading, is_prose
from cudadoctor.parsers.nvidia_smi_table import cells, process_line
from cudadoctor.parsers.quoting import LONGEST, MOST
from cudadoctor.parsers.shell import is_prompt

Standing = Literal["printed", "reported"]
_BEFORE = 160  # characters before a message in which its quotation mark is looked for
_NEAR = 400  # characters before a message or its quotation mark that are looked at
_SAID = 80  # characters before the mark that say whose it is
_AFTER = 12  # characters behind the quotation: where the verb of Japanese stands
_PAIRS = {"“": "”", "„": "“”", "«": "»", "‘": "’", "「": "」", "『": "』"}
_SINGLE = lazy(r"(?<![\w'])'(?=\S|$)[^']*$")
_MARKS = "\"'`"
_OPENS = frozenset((*_MARKS, *_PAIRS))
_LITTLE = 2  # lines of prose that need no word of the writer himself
# What a program itself puts before quoted words: an error, or a field of a log in JSON or logfmt.
_OF_PROGRAM = lazy(
    r"(?i)^(?:\[[\w:]{1,20}\]:? )?[\w.]{1,60}(?:Error|Exception): "
    r"|(?<!raise )(?<!throw )(?<!new )(?<!return )(?:\b(?:Runtime|OS|Value)|\bwith (?:an? )?[A-Z]\w{1,40})Error\($"
    r"|(?:error|exception|warning|fatal|failed|failure)\)?\s{0,2}[:=]\s{0,4}[bru]?$"
    r"|\.(?:cc|cpp|cu|go|h|py|rs):\d{1,6}\] $"  # glog and klog: the file's name and line
    r"|\"(?:msg|message|log|error|err|reason|event|stderr|stdout|text)\"\s{0,4}:\s{0,4}$|\b(?:msg|err|error|reason|detail|message|cause|exception)=$"
)
_ANSWERS = lazy(r"`[^`]{2,80}` {0,2}(?:→|->|=>|:) {0,2}$")  # a command in marks of code, and what it printed
_NUMBERED = lazy(r"(?:^|[\s,;(])\d{1,3} = $")  # "79 = GPU has fallen off the bus": what a number stands for
_ARGUMENT = lazy(r"(?:\w\(|[\[{=]|<<)\s{0,4}[bfruL]{0,2}$")  # of a function, of a list, a value: source code
# An item of a list, where it is no error that a program lists; a footnote or a box to tick is nobody's but the writer's.
_LISTED = lazy(
    r"^\s{0,12}(?:\([ \d]{0,2}\)\s|(?:[-*+•;]|\d{1,3}(?:\.\d{1,3}){0,3}[.)]?|\[[ xX]?\]|[QA]\d{0,2}[.:])\s"
    r"(?!\s{0,4}(?:[\w.]{1,60}(?:Error|Exception): |[\w+./-]{2,40} fatal\s{1,4}: "  # nvcc behind the seconds of BuildKit
    r"|(?:installed )?package [\w+.-]{2,80}-\d\S{0,60} |cannot install (?:both|the best) |nothing provides )))"  # libsolv's problems
)
_HEADING = lazy(r"^#{1,6} \S")  # of Markdown
_ITEM = lazy(r"^\s{0,80}(?:(?:[-*+•]|\d{1,2}[.)])\s{1,4})?[*_]{0,3}")  # what may stand before a quotation that is a paragraph
_FENCE = "```"
_GAP = 3  # empty lines between the words that report a message and the message
_SENTENCE = lazy(r"[.!?。！？]\s|[;；]")


class Beside(NamedTuple):
    """The lines nearest to a line that are not empty, and whether empty ones stand between, or none at all."""

    above: str = ""
    below: str = ""
    gap_above: bool = False
    gap_below: bool = False


def beside(lines: Sequence[str], index: int, count: int) -> Beside:
    """What is beside a line of the first `count`."""
    above, gap_above = _nearest(lines[max(0, index - _GAP - 1) : index][::-1])
    below, gap_below = _nearest(lines[index + 1 : min(count, index + _GAP + 2)])
    return Beside(above, below, gap_above, gap_below)


def _nearest(lines: Sequence[str]) -> tuple[str, bool]:
    """The first that is not empty, and whether empty ones stand before it, or none at all does."""
    at = next((at for at, line in enumerate(lines) if line.strip()), None)
    return ("", True) if at is None else (lines[at], at > 0)


class Around(NamedTuple):
    """What a whole text says around its quotations: whether somebody speaks of himself, or says little; how many are paragraphs; whether
    somebody is content, thanks or teaches."""

    own: bool = True
    little: bool = True
    paragraphs: int = 1
    calm: bool = False

    @property
    def tale(self) -> bool:
        return self.own or self.little


class InQuotes:
    def __init__(self, discourse: Discourse) -> None:
        self._others, self._asks, self._supposed, self._own = map(discourse.any_of, ("persons", "asks", "supposed", "own"))
        self._meets = discourse.any_of("meets")
        self._ends_with = lazy(rf"(?:{discourse.any_of('by').pattern})\W{{0,4}}$", re.IGNORECASE)
        self._seeks = discourse.any_of("goes_on", "hypothetical", "denied", "supposed", "repairs", "meets")
        self._calm = discourse.any_of("fine", "general", "thanks", "found")
        self._goes_on = discourse.any_of("goes_on")
        self._guide, self._done = map(discourse.any_of, ("guide", "done"))
        self._hypothetical = discourse.any_of("hypothetical", "denied")
        self._over = lazy(rf"(?:{discourse.any_of('explained').pattern}) (?:{discourse.any_of('meets').pattern})", re.IGNORECASE)
        explained = discourse.any_of("explained").pattern
        self._told = lazy(rf"^\W{{0,3}}(?:\w{{1,20}} ){{1,3}}(?:{explained})", re.IGNORECASE)
        self._explained = lazy(rf"[\"'`”»」』]{{1,3}}\**[,;)]?\s{{0,3}}(?:{explained})", re.IGNORECASE)

    def around(self, lines: Sequence[str]) -> Around:
        """Of a log nobody asks."""
        if len(lines) > MOST:
            return Around()
        written = [line[:LONGEST] for line in dict.fromkeys(lines) if line]
        quoted = {line for line in written if _is_one_quotation(line) and not _prompted(line)}
        told = [line for line in written if is_prose(line) and not is_heading(line) and line not in quoted]
        calm = any(self._calm.search(line) and not self._goes_on.search(line) for line in told)  # not "it installs fine, but"
        return Around(any(map(self._own.search, told)), len(told) <= _LITTLE, len(quoted), calm)

    def standing(
        self, line: str, start: int, end: int, near: Beside, around: Callable[[], Around] = Around, *, named: bool = False
    ) -> Standing | None:
        """How line[start:end] stands there; None where it is only spoken of. In the line above its sentence may begin.

        `named`: somebody's words for a message, as a quotation is, and no form in which a program prints it.
        """
        row = cells(line) if "|" in line else None
        if row is not None and process_line(row) is not None:
            return None  # a program's name, which its user chose
        # A line with one mark of code that another line ends begins output of several lines.
        opens = line.lstrip().startswith("`") and line.count("`") == (len(_FENCE) if line.lstrip().startswith(_FENCE) else 1)
        mark = opened(line, start) if line[start] not in _MARKS and not opens else None
        if mark is not None and line[mark + 1 : mark + 2] == "/":
            mark = None  # a program quotes the path of which it speaks
        item = _LISTED.match(line)
        # A line may hold a thousand messages: of a long one only what is near, behind a mark that no line begins with.
        until = start if mark is None else mark
        before = line[:until] if until <= _NEAR else f"\0{line[until - _NEAR : until]}"
        before = before if before.strip("` ") else ""  # nothing but a fence
        before = before[item.end() if item is not None else 0 :]
        above = "" if item is not None and _LISTED.match(near.above) else near.above
        said = _SENTENCE.split((before if before.strip() else above)[-_SAID:])[-1]
        if self._asks.search(said) or _NUMBERED.search(before[-_AFTER:]):
            return None
        if mark is None and not named and item is None:
            return "printed"
        if mark is not None and (_OF_PROGRAM.search(before) or _ANSWERS.search(before)):
            return "printed"
        ends = () if mark is None else [at for one in _PAIRS.get(line[mark], line[mark]) if (at := line.find(one, end)) >= 0]
        closed = end - 1 if mark is None else min(ends, default=len(line))
        if self._explained.match(line, closed) or self._others.search(said) or _ARGUMENT.search(before):
            return None
        if self._supposed.search(said) and not self._own.search(said):
            return None  # what is done where somebody meets it
        behind = line[closed + 1 : closed + _AFTER]
        met = (self._meets.search(said if behind[:1].isascii() else said + behind) or self._ends_with.search(said)) is not None
        if met and not self._own.search(f"{near.above[-_NEAR:]}\n{line[max(0, start - _NEAR) : end + _NEAR]}"):
            met = not named and not around().calm and (item is None or around().own)
        if not before.strip() and near.gap_above and near.above:
            met = met and self._reaches(said, near, around)
        return "reported" if met or (_is_one_quotation(line) and self._is_paragraph(near, around)) else None

    def _reaches(self, said: str, near: Beside, around: Callable[[], Around]) -> bool:
        """Whether words report what stands below empty lines: no heading, item or quotation, no list of messages, and no sentence of which
        the message is a part.
        """
        if self._over.search(said) or _HEADING.match(near.above) or _is_one_quotation(near.above):
            return False
        if self._own.search(said):
            return True
        introduced = near.above.rstrip().endswith((":", "：")) and not self._guide.search(near.above)
        alone = not (_LISTED.match(near.above) or near.below[:1].islower())
        return alone and (around().tale or introduced) and around().paragraphs <= 1

    def _is_paragraph(self, near: Beside, around: Callable[[], Around]) -> bool:
        """Whether what is beside a quoted line leaves it to itself, or is somebody's own tale; and neither asks nor tells what it means,
        introduces it as no report, or heads a manual."""
        whole = around()
        if not whole.tale or whole.paragraphs > 1:
            return False
        above, below = near.above[-_SAID:], near.below[:_SAID]
        mine, his = (self._own.search(words) is not None for words in (above, below))
        if not ((near.gap_above or mine or _prompted(above) or _HEADING.match(above)) and (near.gap_below or his)):
            return False
        asked = (self._asks.search(above) and not mine) or ((self._asks.search(below) or self._only_asks(below)) and not his)
        told = self._done.search(above) or (whole.own and not whole.calm)
        introduced = above.rstrip().endswith((":", "：")) and (not told or self._hypothetical.search(above))
        part = not (mine or his) and (_LISTED.match(above) or below[:1].islower())
        return not (asked or introduced or part or self._guide.search(above) or self._over.search(above) or self._told.match(below))

    def _only_asks(self, below: str) -> bool:
        """Whether a question follows that seeks no help: what the message amounts to is asked then, not how to be rid of it."""
        question = below.rstrip()
        return question.endswith(("?", "？")) and not self._seeks.search(question.rstrip("?？"))


def opened(line: str, start: int) -> int | None:
    """Where the quotation begins in which a place of the line stands; None where it stands in none."""
    first = max(0, start - _BEFORE)
    left = line[first:start]
    for mark in '"`':
        if left.count(mark) % 2:
            return first + left.rfind(mark)
    single = _SINGLE.search(left)
    if single is not None:
        return first + single.start()
    for mark, ends in _PAIRS.items():
        at = left.rfind(mark)
        if at >= 0 and not any(end in left[at + 1 :] for end in ends):
            return first + at
    return None


def _prompted(line: str) -> bool:
    return is_prompt(line.strip(" `"))


def _is_one_quotation(line: str) -> bool:
    """Whether the line is one quotation and nothing else."""
    item = _ITEM.match(line)
    written = line[item.end() if item is not None else 0 :].rstrip(" .!*_")
    if written.startswith(_FENCE):
        return written.endswith(_FENCE) and written.count(_FENCE) == 2
    ends = _PAIRS.get(written[:1], written[:1])
    inner = written[1:-1]
    return bool(inner) and written[0] in _OPENS and written[-1] in ends and not any(map(inner.count, ends))
