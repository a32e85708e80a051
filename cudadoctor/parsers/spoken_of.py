"""Lines that speak of a message and show none: source code that holds its words, a list of changes, a question of a FAQ, a wish.

Only such lines count as their own words give away. A line of source code below `File "...", line 12` is part of a traceback, and stays.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from functools import cache

from cudadoctor.model.pattern import lazy
from cudadoctor.parsers import quoting
from cudadoctor.parsers.base import Text
from cudadoctor.parsers.literals import Literals

_LONGEST = 400  # characters; a longer line is a paragraph, which may show a message and speak of another
_FRAME = 'File "'
_QUOTED = "[\"'`*]{1,3}"
_ITEM = ("- ", "* ", "+ ", "• ")
_RELEASE = lazy(r"#{0,4} ?\[?v?\d{1,3}\.\d{1,3}(?:\.\d{1,4})?\]? {0,2}(?:\(|[-–] ?)?\d{4}-\d\d-\d\d")
_FEWEST = 3  # items of a list of changes
# What speaks, and words of which one stands in every such line: most lines are seen by these alone.
_SPEAKS: tuple[tuple[tuple[str, ...], re.Pattern[str]], ...] = (
    # source code: the words are an argument, a value, or what something is compared with
    (("raise ",), lazy(r"\braise [\w.]{1,60}\(\s{0,4}[frbu]{0,2}[\"']")),
    (("throw ",), lazy(r"\bthrow (?:new )?[\w:.]{1,60}\(\s{0,4}\"")),
    (("return ",), lazy(r"\breturn [frbu]{0,2}[\"'][^\"'\n]{6}")),
    (("printf(",), lazy(r"\bf?printf\([^\"\n]{0,20}\"")),
    (("if ",), lazy(r"\bif [frbu]{0,2}[\"'][^\"'\n]{6,200}[\"'] (?:not )?in \w")),
    (
        ('("', "('", '["', "['", '{"', "{'"),
        lazy(r"^\s{0,24}[(\[{]\s{0,4}(?:\"[^\"\n]{6,200}\"|'[^'\n]{6,200}'),\s{0,4}[\"'][\w-]{2,60}[\"']\s{0,4}[)\]}],?\s{0,4}$"),
    ),
    # a table of numbers with their messages
    ((': "', ": '"), lazy(r"^\s{0,24}(?:\w{2,40} ?= ?)?\{?\s?\d{1,3}: (?:\"[^\"\n]{2,80}\"|'[^'\n]{2,80}'), \d{1,3}: [\"']")),
    # a list of changes
    (
        _ITEM,
        lazy(
            r"^\s{0,8}[-*+•] {1,3}"
            r"(?:Fix(?:e[sd])?|Handles?|Avoids?|Prevents?|Don't|Do not|Better|Catch(?:es)?|Suppress(?:es)?|Improved?):? "
        ),
    ),
    (("(#",), lazy(r"^\s{0,8}[-*+•] {1,3}[^\n]{10,300} \(#\d{2,6}\)\s{0,4}$")),
    (("no longer ",), lazy(r"\b(?:is|are) no longer (?:passed|built|raised|printed|shown)\b")),
    ((" no longer ",), lazy(rf"^\s{{0,8}}[-*+•] {{1,3}}[^\n]{{4,300}}{_QUOTED} no longer (?:crash|fail|stop|abort|break|kill)")),
    # documentation and advice
    (
        ("**",),
        lazy(
            r"^\s{0,8}(?:[-*+•] {1,3})?\*\*`[^`\n]{8,200}`\*\*[^\n]{0,60} (?:-|–|—) "
            r"(?:(?:you|see|run|re-?start|reboot|update|upgrade|install|check|make sure|set|add|use|remove|enable|disable)\b)"
        ),
    ),
    # what anybody may meet
    (
        (" can ", " may ", " could ", " might ", " will "),
        lazy(r"\b(?:people|users|everybody|somebody|anyone) (?:can|may|could|might|will)\b[^\n]{0,80}\b(?:read|see|get|find|meet)s? \""),
    ),
    (
        ("omebody ", "omeone ", "nybody ", "nyone ", "sers ", " user ", "eople ", "veryone "),
        lazy(
            r"(?i)\b(?:when|if) (?:somebody|someone|anybody|anyone|users|a user|people|everyone) "
            r"(?:runs?|starts?|opens?|installs?|uses?|tr(?:y|ies))\b"
            r"[^\n]{0,80}\b(?:they|he|she|it) (?:will )?(?:only )?(?:sees?|gets?|reads?|finds?) [\"'`]"
        ),
    ),
    # a list of messages, each in a condition, with what to do
    (
        _ITEM,
        lazy(
            r"^\s{0,8}[-*+•] {1,3}(?:If|When) [`\"']?[\w.-]{2,30}[`\"']? (?:prints?|says?|shows?|reports?|complains about|fails with)"
            r" (?:\"[^\"\n]{6,200}\"|`[^`\n]{6,200}`), "
        ),
    ),
    (("Q: ",), lazy(r"^\W{0,6}Q: ")),
    (_ITEM, lazy(r"^\s{0,8}[-*+•] {1,3}(?:\"[^\"\n]{8,200}\"|`[^`\n]{8,200}`) {1,3}(?:->|→|=>) ")),
    # a list of messages with what to do about each
    (
        (". `", '. "', ") `", ') "', *_ITEM),
        lazy(
            r"^\s{0,8}(?:[-*+•]|\d{1,2}[.)]) {1,3}(?:\"[^\"\n]{6,200}\"|`[^`\n]{6,200}`)[^\n:`\"]{0,40}: (?:please )?"
            r"(?:check|drain|restart|reboot|reset|run|use|install|reinstall|see|set|unset|call|update|upgrade|ask|try|remove|replace)\b"
            r"(?! (?:does|did|didn|do|helps?|fixes|fails?|only)\b)"
        ),
    ),
    (
        ("**`",),
        lazy(
            r"(?i)^\s{0,8}(?:[-*+•] {1,3})?\*\*`[^`\n]{6,300}`\*\* {0,2}(?:[-–—:]|->|→|=>) "
            r"(?:the|there|this|look|check|see|make sure|install|run|if|you|your|means|usually)\b"
        ),
    ),
    # a list of messages with the names that a program gives them
    (('("',), lazy(r"\b\w{4,40} \(\"[^\"\n]{6,160}\"\),? (?:and |or )?\w{4,40} \(\"[^\"\n]{6,160}\"\)")),
    (
        ("ocumentation", "docs", "Docs", "anual", "uide", "eadme", "README", "FAQ", "faq"),
        lazy(
            r"(?i)\b(?:documentation|docs|manual|readme|guide|faq)\b[^\n]{0,100}\b(?:says?|mentions?|lists|describes|explains)\b[^\n]{0,80}[\"'`]"
        ),
    ),
    (("ould be ",), lazy(r"(?i)\bwould be (?:great|nice|good|helpful|useful) if\b")),
    (("<!--",), lazy(r"^\s{0,8}<!--[^\n]{0,300}-->\s{0,4}$")),
    (
        ("XID ", "Xid "),
        lazy(r"\b(?:[Ii]s|[Dd]oes|[Aa]re) [^.?\n]{0,40}\bX[Ii][Dd] \d{1,3}[\"'`]{0,2} (?:always|generally|usually|necessarily)\b"),
    ),
    # what was, what may be, what is not there, and what a test does not try
    (("No `", "No '", 'No "'), lazy(r"^\s{0,8}(?:[-*+•] {1,3})?No [`'\"][A-Za-z]")),
    (
        ("olved", "OLVED", "ixed", "IXED"),
        lazy(r"^\W{0,6}(?:(?:[Uu]pdate|UPDATE|[Ee]dit|EDIT)\W{1,4})?(?:[Ss]olved|SOLVED|[Rr]esolved|[Ff]ixed|FIXED)[!.] [^\n]{8}"),
    ),
    (("SKIPPED ",), lazy(r"\bSKIPPED (?:\(|\[\d{1,4}\] )")),
    (
        (" normal", " harmless", " expected", "be ignored"),
        lazy(rf"{_QUOTED} (?:is|are) (?:normal|harmless|expected)\b|{_QUOTED} can (?:safely )?be ignored"),
    ),
    (
        (" gone", " solved", " resolved"),
        lazy(
            rf"{_QUOTED} (?:was|were|is|are) (?:gone|solved|resolved)\b"
            rf"|{_QUOTED} (?:error|message|problem|from|of|since|after)\b[^.;,\"'`\n]{{0,30}} "
            r"(?:was|were|is|are) (?:now )?(?:gone|solved|resolved)\b"
            r"(?![^\n]{0,120}\b(?:but|until|again|returns?|back (?:again|after)|for (?:a|some)|comes?|came)\b)"
        ),
    ),
    (
        (" solved ", " fixed ", " cured ", " resolved "),
        lazy(
            rf"\b(?:had|got|saw) (?:the |a |an )?{_QUOTED}[^\"`\n]{{6,200}}{_QUOTED}[^.\n]{{0,80}}"
            r"\b(?:solved|fixed|cured|resolved) (?:that|it|this)\b"
            r"(?![^\n]{0,120}\b(?:but|until|again|returns?|back|for (?:a|some)|comes?|came|only|now)\b)"
        ),
    ),
    (
        (" went away", " disappeared", " has gone", " vanished", " was fixed", " is fixed"),
        lazy(rf"{_QUOTED} [^.\n]{{0,60}}\b(?:went away|disappeared|has gone|vanished|(?:was|is) fixed)\b"),
    ),
)


def lines_of(text: Text) -> frozenset[int]:
    """Indexes (from 0) of the lines that only speak of what they quote."""
    lines, found = text.lines, set[int]()
    places = _literals().places(text.joined)
    for words, speaks in _SPEAKS:
        known: dict[str, bool] = {}  # logs repeat themselves
        for index in {text.line_at(at) - 1 for word in words for at in places.of(word)} - found:
            line = lines[index]
            if line not in known:
                known[line] = len(line) <= _LONGEST and speaks.search(line) is not None
            if known[line] and not (index and _FRAME in lines[index - 1]):
                found.add(index)
    return frozenset(found) | frozenset(_changes(lines, found)) | quoting.lines_of(lines)


@cache
def _literals() -> Literals:
    return Literals(word for words, _ in _SPEAKS for word in words)


def _changes(lines: Sequence[str], speaking: Collection[int]) -> Iterator[int]:
    """The items of a list of changes: it stands below a release with its day, or half of its items speak by their own words."""
    start: int | None = None
    for index in range(len(lines) + 1):
        if index < len(lines) and lines[index].startswith(_ITEM):
            start = index if start is None else start
        elif start is not None:
            items, start = range(start, index), None
            released = any(_RELEASE.match(line) for line in lines[max(0, items[0] - 3) : items[0]])
            if len(items) >= _FEWEST and (released or 2 * sum(item in speaking for item in items) >= len(items)):
                yield from items
