"""Measures how the time of a regular expression grows with the text: every repeat of it is pumped, and its own words are repeated.

    python -m tests.pumping [WHERE ...]     all expressions, or those whose place begins so; prints those that grow faster than linear

A text is a beginning that leads to a repeat, the repeat's own letters many times, and a letter that fits nothing; or all of that again and
again. What costs most at SIZE characters is measured at twice and four times as many.
"""

from __future__ import annotations

import re
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tests.patterns import Found, every

try:
    from re import _constants as constants
    from re import _parser as parser
except ImportError:  # Python 3.10
    import sre_constants as constants
    import sre_parse as parser

SIZE = 8000  # characters
CHEAP = 0.3e-6  # seconds a character, below which nothing is measured further
PATIENCE = 4.0  # seconds for one measurement
LONG = 0.1  # seconds, beyond which one run tells enough
MOST_TEXTS = 400  # of one expression
STEEPEST = 1.3  # exponent of the growth: 1 is linear, 2 is quadratic
END = "\x00"
WORDS = (
    " ", "\t", "a", "1", "-", "|", '"', "'", "/", ".", "a.", "a-", "1.", ": ", "=", "a ", "1 ", " \n", "a\n", "()", "[]", "\\", '\\"', "<",
    "x=", "a=b ", "1:", "ab1 ", "0x1 ", "\"'", ". ", "..", "--", "a/", "/a", ",", "a,", ", ", "A", "A_", "_", "A1", "1,", "%", " .", " -",
)  # fmt: skip
_LETTERS = {
    constants.CATEGORY_DIGIT: "1", constants.CATEGORY_SPACE: " ", constants.CATEGORY_WORD: "a", constants.CATEGORY_NOT_SPACE: "a",
    constants.CATEGORY_NOT_DIGIT: "a", constants.CATEGORY_NOT_WORD: " ",
}  # fmt: skip
_REPEATS = tuple(getattr(constants, name) for name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT") if hasattr(constants, name))
_ATOMIC = getattr(constants, "ATOMIC_GROUP", None)


class Growth(NamedTuple):
    """The text that costs an expression most: seconds at SIZE characters, and the exponent with which they grow."""

    unit: tuple[str, str]
    seconds: float
    exponent: float


# ---------------------------------------------------------------- texts
def _letters(items: Any) -> list[str]:
    """Letters of a set, or some that an excluding set leaves."""
    found, excluded = [], False
    for kind, value in items:
        if kind is constants.NEGATE:
            excluded = True
        elif kind is constants.LITERAL:
            found.append(chr(value))
        elif kind is constants.RANGE:
            found += [chr(value[0]), chr(value[1])]
        elif kind is constants.CATEGORY:
            found.append(_LETTERS.get(value, "a"))
    if excluded:
        found = [letter for letter in "a 1-.\"'/:(,=|\t~" if letter not in found]
    return found or ["a"]


def _shortest(tree: Any, pick: int) -> str:
    """A short text that the expression takes; `pick`: which letter of a set, which of several ways."""
    text = ""
    for kind, value in tree:
        if kind is constants.LITERAL:
            text += chr(value)
        elif kind is constants.NOT_LITERAL:
            text += "a" if value != ord("a") else "b"
        elif kind is constants.ANY:
            text += "a"
        elif kind is constants.IN:
            letters = _letters(value)
            text += letters[pick % len(letters)]
        elif kind is constants.BRANCH:
            text += _shortest(value[1][pick % len(value[1])], pick)
        elif kind is constants.SUBPATTERN:
            text += _shortest(value[3], pick)
        elif kind in _REPEATS:
            text += _shortest(value[2], pick) * value[0]
        elif kind is _ATOMIC:
            text += _shortest(value, pick)
    return text


def _pumps(tree: Any, before: str, pick: int) -> Iterator[tuple[str, str]]:
    """For each long repeat: what leads to it, and what it repeats."""
    for kind, value in tree:
        if kind in _REPEATS:
            if value[1] >= 16:
                for letters in {_shortest(value[2], one) for one in range(5)} - {""}:
                    yield before, letters
            yield from _pumps(value[2], before, pick)
        elif kind is constants.SUBPATTERN:
            yield from _pumps(value[3], before, pick)
        elif kind is constants.BRANCH:
            for way in value[1]:
                yield from _pumps(way, before, pick)
        elif kind in (constants.ASSERT, constants.ASSERT_NOT):
            yield from _pumps(value[1], before, pick)
        elif kind is _ATOMIC:
            yield from _pumps(value, before, pick)
        before += _shortest([(kind, value)], pick)


def _literals(tree: Any) -> set[str]:
    found, run = set[str](), ""
    for kind, value in tree:
        if kind is constants.LITERAL:
            run += chr(value)
            continue
        found, run = found | {run}, ""
        inner = []
        if kind in _REPEATS:
            inner = [value[2]]
        elif kind is constants.SUBPATTERN:
            inner = [value[3]]
        elif kind is constants.BRANCH:
            inner = value[1]
        elif kind is _ATOMIC:
            inner = [value]
        for part in inner:
            found |= _literals(part)
    return (found | {run}) - {""}


def _units(expression: str, flags: int) -> Iterator[tuple[str, str]]:
    """(what stands once, what is repeated)."""
    tree = parser.parse(expression, flags)
    for pick in range(3):
        for before, letters in _pumps(tree, "", pick):
            yield before, letters
            yield "", before + letters
            yield "", before + letters * 8
            if before:
                yield before * (SIZE // 2 // len(before)), letters
    for word in (*WORDS, *sorted(_literals(tree), key=len)[:40]):
        yield "", word
        yield "", f"{word} "


def _text(unit: tuple[str, str], times: int) -> str:
    once, again = unit
    once = once * times if len(once) > SIZE // 4 else once
    return once + again * max(1, (times * SIZE - len(once)) // len(again)) + END


# ---------------------------------------------------------------- times
class _Out(Exception):
    pass


def _ring(*_: object) -> None:
    raise _Out


def _seconds(compiled: re.Pattern[str], text: str, limit: float) -> float:
    """The shortest of two runs, where it is short: somebody else may have had the processor. Infinite beyond the limit."""
    best = float("inf")
    for _ in range(2):
        before = signal.signal(signal.SIGALRM, _ring)
        signal.setitimer(signal.ITIMER_REAL, limit)
        started = time.process_time()
        try:
            for _match in compiled.finditer(text):
                pass
            best = min(best, time.process_time() - started)
        except _Out:
            break
        else:
            if best > LONG:
                break
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
    return best


def growth(found: Found) -> Growth | None:
    """How the costliest text grows; None where none costs anything worth a measurement."""
    import math

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = re.compile(found.pattern, found.flags)
        units = list(dict.fromkeys(_units(found.pattern, found.flags)))[:MOST_TEXTS]
    worst: tuple[float, tuple[str, str]] | None = None
    for unit in units:
        text = _text(unit, 1)
        seconds = _seconds(compiled, text, PATIENCE)
        if worst is None or seconds / len(text) > worst[0]:
            worst = seconds / len(text), unit
        if seconds == float("inf"):
            return Growth(unit, seconds, float("inf"))
    if worst is None or worst[0] < CHEAP:
        return None
    once, four = (_seconds(compiled, _text(worst[1], times), 10 * PATIENCE) for times in (1, 4))
    return Growth(worst[1], once, math.log(four / once, 4))


def steep(found: Found, measure: Callable[[Found], Growth | None] = growth) -> str | None:
    """What is wrong with an expression, in a sentence. A steep one is measured twice before it is blamed."""
    for _ in range(2):
        found_growth = measure(found)
        if found_growth is None or found_growth.exponent <= STEEPEST:
            return None
    return f"{found.where}: exponent {found_growth.exponent:.2f}, {found_growth.seconds:.2g} s at {SIZE} characters of {found_growth.unit!r}: {found.pattern[:300]!r}"


def main() -> None:
    asked = tuple(sys.argv[1:])
    for one in every():
        said = steep(one) if not asked or one.where.startswith(asked) else None
        if said is not None:
            print(said, flush=True)


if __name__ == "__main__":
    main()
