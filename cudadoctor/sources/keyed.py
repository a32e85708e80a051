"""Secrets that are known by the name that stands before them, such as `password`.

One table of names, whatever joins a name to its value: password=x, "api_key": "x", --token x, setenv DB_PW x, <secret>x</secret>.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import lru_cache

from cudadoctor.sources.vocabulary import PATTERNS, USERS, WORDS

# What opens a value, and how such a value goes on.
_QUOTED = {"'": "IN_QUOTE", '"': "IN_QUOTES", "\\": "ESCAPED", ">": "IN_ELEMENT"}
_WORDS_FOR_ONE = ("pass", "pw", "pwd", "PW")  # of the short ones: what people say of a password
_SIGNS = "()[]{}<>,.;:'\"\\"
_HEAD = 400  # characters of a value of a whole line, which tell whether it is one: each of many names may have the same line behind it
LONGEST = 200  # characters of a line that are looked at before a name


def is_name(word: str) -> bool:
    """Whether a word is the name of a secret."""
    return PATTERNS.NAMED.fullmatch(word) is not None


def spans(text: str, look: Callable[[], None]) -> Iterator[tuple[int, int]]:
    """Where the secrets that follow a name stand. `look` is called at each, and may end the search."""
    end = 0
    for name in PATTERNS.NAMED.finditer(text):
        look()
        value = _joined(text, name) or _behind_blank(text, name) if name.start() >= end else None
        if value is not None:
            if value.end() - value.start() == _HEAD:  # of a value of a whole line
                value = PATTERNS.LINE.match(text, value.start()) or value
            start, end = value.start(), value.start() + len(value.group().rstrip("()[]{},;'\""))
            yield start, end
            more = PATTERNS.NEXT.match(text, end) if text[start - 2 : start] in ("['", '["') else None
            while more is not None:
                start, end = more.span("value")
                yield start, end
                more = PATTERNS.NEXT.match(text, end)


@lru_cache(maxsize=1)
def _stops(text: str) -> list[int]:
    """Looked for once in each text: from each of many names the way to the next may be long."""
    return [*(stop.start() for stop in PATTERNS.STOP.finditer(text)), len(text)]


def _joined(text: str, name: re.Match[str]) -> re.Match[str] | None:
    sign = PATTERNS.SIGN.match(text, name.end())
    value = sign and _value(text, name, sign)
    if sign is None or value is None:
        return None
    # "PASS: test_3 in 2 s": a short word by itself, with a colon, names a secret where nothing else follows.
    bare = name["short"] is not None and text[name.start() - 1 : name.start()] not in ("_", "-", "'", '"') and "=" not in sign.group()
    last = value.group().endswith((")", "]")) or PATTERNS.ENDS_LINE.match(text, value.end()) is not None
    return None if bare and not last else value


def _behind_blank(text: str, name: re.Match[str]) -> re.Match[str] | None:
    blank = PATTERNS.BLANK.match(text, name.end())
    value = blank and _value(text, name, blank)
    if blank is None or value is None:
        return None
    first = max(text.rfind("\n", max(0, name.start() - LONGEST), name.start()) + 1, name.start() - LONGEST)
    before = text[first : name.start()]
    if PATTERNS.TOLD.search(before):
        return value if value.group()[0] != "-" else None
    said = before.endswith(("(", "_")) or (blank["is"] is not None and name["short"] in _WORDS_FOR_ONE)
    if name["short"] in _WORDS_FOR_ONE[1:] and not said:
        return PATTERNS.MIXED.match(text, value.start())
    if (name["short"] is not None and not said) or blank["listed"] or PATTERNS.VERSION.match(value.group()):
        return None
    alone = PATTERNS.ALONE.fullmatch(before) and PATTERNS.ENDS_LINE.match(text, value.end()) and value.group().lower() not in WORDS | USERS
    return value if alone else PATTERNS.SPOKEN.match(text, value.start())


def _value(text: str, name: re.Match[str], before: re.Match[str]) -> re.Match[str] | None:
    """The value that begins here; None where it says nothing: a word of a message, a number or a mark where tokens are counted."""
    if name["counted"] is not None and (text.startswith(("<", "[", "{", "("), before.end()) or "[" in before.group()):
        return None
    opened = "\\" if before["escape"] and before["quote"] else before["quote"] or before.group()[-1:]
    value = getattr(PATTERNS, _QUOTED[opened]).match(text, before.end()) if opened in _QUOTED else None
    if value is None and name["line"] is not None and not before["quote"]:
        value = PATTERNS.LINE.match(text, before.end(), before.end() + _HEAD)
    stops = _stops(text)
    value = value or PATTERNS.REST.match(text, before.end(), stops[bisect_left(stops, before.end())])
    bare = value.group().strip(_SIGNS) if value is not None else ""
    counted = name["counted"] is not None and PATTERNS.COUNT.fullmatch(bare) is not None
    return None if len(bare) < 3 or counted or PATTERNS.NO_VALUE.fullmatch(bare) is not None else value
