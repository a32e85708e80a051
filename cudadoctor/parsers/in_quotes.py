"""Whether a message that stands in a sentence is reported there: "I get `...`", and not "what does `...` mean?".

A message in quotation marks counts where the words beside it say that somebody met it, and no explanation follows. One without them is
what a program printed, unless the sentence asks what it means.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from cudadoctor.knowledge.wording import Lexicon
from cudadoctor.model.pattern import lazy

_BEFORE = 160  # characters before a message in which its quotation mark is looked for
_SAID = 80  # characters before the mark that say whose it is
_AFTER = 12  # characters behind the quotation: where the verb of Japanese stands
_PAIRS = {"“": "”", "„": "“”", "«": "»", "‘": "’", "「": "」", "『": "』"}
_SINGLE = lazy(r"(?<![\w'])'(?=\S|$)[^']*$")
_MARKS = "\"'`"
# What a program itself puts before quoted words: an error, or a field of a log in JSON or logfmt.
_OF_PROGRAM = lazy(
    r"(?i)^(?:\[[\w:]{1,20}\]:? )?[\w.]{1,60}(?:Error|Exception): "
    r"|(?:error|exception|warning|fatal|failed|failure)\)?\s{0,2}[:=]\s{0,4}[bru]?$"
    r"|\"(?:msg|message|log|error|err|reason|event|stderr|stdout|text)\"\s{0,4}:\s{0,4}$|\b(?:msg|err|error|reason)=$"
)
_SENTENCE = lazy(r"[.!?。！？]\s|[;；]")


class InQuotes:
    """The lexicon's words made ready."""

    def __init__(self, lexicon: Lexicon) -> None:
        words = lexicon.words
        self._meets, self._others, self._asks = (_any(words[name]) for name in ("meets", "others", "asks"))
        self._explained = re.compile(rf"[\"'`”»」』]{{1,3}}\**[,;)]?\s{{0,3}}(?:{_any(words['explained']).pattern})", re.IGNORECASE)

    def reported(self, line: str, start: int, end: int, previous: str) -> bool:
        """Whether line[start:end] is there as something that happened. `previous`: the line above, where the sentence may have begun."""
        mark = opened(line, start) if line[start] not in _MARKS else None
        if mark is not None and line[mark + 1 : mark + 2] == "/":
            mark = None  # a program quotes the path of which it speaks
        before = line[: start if mark is None else mark]
        said = _SENTENCE.split(before[-_SAID:] if before.strip() else previous[-_SAID:])[-1]
        if self._asks.search(said):
            return False
        if mark is None or _OF_PROGRAM.search(before):
            return True
        closed = _closed(line, end, line[mark])
        if self._explained.match(line, closed) or self._others.search(said):
            return False
        behind = line[closed + 1 : closed + _AFTER]
        return self._meets.search(said if behind[:1].isascii() else said + behind) is not None


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


def _closed(line: str, end: int, mark: str) -> int:
    """Where the quotation ends, which goes on behind the message."""
    places = (line.find(one, end) for one in _PAIRS.get(mark, mark))
    return min((at for at in places if at >= 0), default=len(line))


def _any(words: Iterable[str]) -> re.Pattern[str]:
    """A word that ends in * may go on; one of a script without blanks stands anywhere."""
    return re.compile("|".join(_one(word) for word in words), re.IGNORECASE)


def _one(word: str) -> str:
    plain = re.escape(word.rstrip("*"))
    before = r"(?<!\w)" if word[0].isalnum() and word[0] < "\u3000" else ""
    after = r"(?!\w)" if word[-1].isalnum() and word[-1] < "\u3000" else ""
    return f"{before}{plain}{after}"
