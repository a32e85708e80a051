"""A text of which no message is known: its words, weighed, say what to look at first. A suspicion, never a root.

tables/wording.toml holds words and pairs of words with the causes that they point at, learnt from texts with an established cause. They
order the suspects of a text too, where a message leaves several causes open.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from cudadoctor.judge import open_questions
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.diagnosis import Judged
from cudadoctor.model.evidence import Evidence
from cudadoctor.model.facts import Quote
from cudadoctor.model.findings import Finding
from cudadoctor.model.pattern import lazy
from cudadoctor.parsers.base import Text

MOST_LINES = 3000  # read at each end of a text
LONGEST = 1000  # characters read of a line
SUSPECTS, QUOTES = 3, 2
LEAST = 1.0  # weight, over the root of the number of known cues: below it the words point nowhere
CLEAR, AHEAD = 1.5, 2.0  # weight, and times the first suspect's, from which another suspect comes first
NEAR = 0.6  # of the first suspect's weight: those that are named beside it
FEW = 14  # known cues; a text with less of them points nowhere
ENOUGH = 16  # known cues around a message that may order its causes
_WORD = lazy(r"[a-z][a-z0-9_]+|(?<!\d)\d{1,3}(?!\d)")
_OF_GPUS = lazy(r"(?i)nvidia|cuda|\bgpus?\b|nvml|nouveau|geforce|numba|\bxid\b|cudnn|\bnvcc\b")
_TROUBLE = lazy(
    r"(?i)error|fail|fatal|exception|traceback|warning|cannot|can'?t\b|could ?n[o']t|unable|not (?:found|available|work|support|detect|see)"
    r"|(?:is|was|are|does|do|did|wo)n'?t\b|no (?:such|devices?|gpu)|missing|crash|\bhang|\bstuck|killed|abort|refused|denied|invalid"
    r"|illegal|mismatch|incompatible|unsupported|timed? ?out|\blost\b|wrong|\bnan\b|garbage|problem|issue|trouble|broken|slow|\bfault"
    r"|differ"
)


def cues(line: str) -> Iterator[str]:
    """The words of a line, and each two that stand side by side."""
    words = _WORD.findall(line[:LONGEST].lower())
    yield from words
    yield from map(" ".join, itertools.pairwise(words))


def ends(lines: Sequence[str]) -> Iterable[tuple[int, str]]:
    """The lines that are read, numbered from 1: of a long text its beginning and its end."""
    numbered = list(enumerate(lines, 1))
    return numbered if len(numbered) <= 2 * MOST_LINES else numbered[:MOST_LINES] + numbered[-MOST_LINES:]


class Weighed(msgspec.Struct, frozen=True, kw_only=True):
    """What the words of a text point at. `causes`: cause -> weight; `lines`: cause -> line number -> weight of the cues in it."""

    causes: dict[str, float]
    lines: dict[str, dict[int, float]]
    known: int  # cues

    def first(self, causes: Iterable[str]) -> list[str]:
        """In the order of their weights; the order given where these are equal."""
        return sorted(causes, key=lambda cause: -self.causes.get(cause, 0.0))


def weighed(text: Text, knowledge: Knowledge, without: frozenset[int] = frozenset()) -> Weighed:
    """Each cue counts once, in the line where it first stands. `without`: numbers of lines that are passed over."""
    weights, seen = knowledge.wording, set[str]()
    causes: dict[str, float] = {}
    lines: dict[str, dict[int, float]] = {}
    for number, line in ends(text.lines):
        for cue in cues(line) if number not in without else ():
            if cue in seen or cue not in weights:
                continue
            seen.add(cue)
            for cause, weight in weights[cue]:
                causes[cause] = causes.get(cause, 0.0) + weight
                at = lines.setdefault(cause, {})
                at[number] = at.get(number, 0.0) + weight
    root = max(1, len(seen)) ** 0.5
    return Weighed(causes={cause: weight / root for cause, weight in causes.items()}, lines=lines, known=len(seen))


def told(judged: Judged, evidence: Evidence, knowledge: Knowledge) -> Judged:
    """The judgement of a text: undecided stays undecided, but says what its words point at."""
    item = evidence.get("text")
    if evidence.origin != "text" or judged.verdict != "undecided" or judged.diagnosis.crashes or item is None or not item.stdout:
        return judged
    text = Text(item.stdout, source=item.source, origin=item.origin)
    if judged.diagnosis.suspects:
        return _ordered(judged, text, knowledge)
    if judged.past:
        return judged  # the last attempt of the text is well
    speaks = _OF_GPUS.search(text.text) is not None and _TROUBLE.search(text.text) is not None
    return _suspected(judged, text, knowledge) if speaks else judged


def _ordered(judged: Judged, text: Text, knowledge: Knowledge) -> Judged:
    """The suspects with the one first that the words around them point at clearly: a message itself has its order from the tables."""
    suspects = judged.diagnosis.suspects
    quoted = (range(quote.first or 0, (quote.last or 0) + 1) for finding in suspects for quote in finding.evidence)
    found = weighed(text, knowledge, frozenset(itertools.chain.from_iterable(quoted)))
    best = found.first(finding.cause for finding in suspects)[0]
    least = max(CLEAR, AHEAD * found.causes.get(suspects[0].cause, 0.0))
    if best == suspects[0].cause or found.known < ENOUGH or found.causes.get(best, 0.0) < least:
        return judged
    if _shows_more(suspects[0], next(finding for finding in suspects if finding.cause == best)):
        return judged
    ahead = [finding for finding in suspects if finding.cause == best]
    behind = [finding for finding in suspects if finding.cause != best]
    return msgspec.structs.replace(judged, diagnosis=msgspec.structs.replace(judged.diagnosis, suspects=(*ahead, *behind)))


def _shows_more(one: Finding, other: Finding) -> bool:
    """Whether a suspect quotes all that the other does and a line beside it: more than the message that both share speaks for it."""
    return {quote.text for quote in one.evidence} > {quote.text for quote in other.evidence}


def _suspected(judged: Judged, text: Text, knowledge: Knowledge) -> Judged:
    found = weighed(text, knowledge)
    if found.known < FEW:
        return judged
    likely = found.first(cause for cause in found.causes if cause in knowledge.causes)[:SUSPECTS]
    least = max(LEAST, NEAR * found.causes[likely[0]]) if likely else 0.0
    named = [knowledge.cause(cause) for cause in likely if found.causes[cause] >= least]
    if not named:
        return judged
    suspects = tuple(
        Finding(
            cause=cause.id,
            layer=cause.layer,
            title=cause.title,
            subject="machine",
            effect=cause.effect,
            basis="suspected",
            evidence=_quotes(text, found.lines[cause.id]),
        )
        for cause in named
    )
    asked = open_questions.telling_apart([(cause, "No message of the text is known; its words point there.") for cause in named])
    return msgspec.structs.replace(judged, diagnosis=msgspec.structs.replace(judged.diagnosis, suspects=suspects, ask=asked, by_words=True))


def _quotes(text: Text, lines: dict[int, float]) -> tuple[Quote, ...]:
    """The lines whose words weigh most, as they follow each other in the text."""
    heaviest = sorted(lines, key=lambda number: -lines[number])[:QUOTES]
    return tuple(text.quote(number) for number in sorted(heaviest))
