"""Which literals cannot stand in a long text: seen from its different words, without a search through the text for each."""

from __future__ import annotations

from functools import lru_cache

_DIGITS = str.maketrans("123456789", "000000000")


def shape(text: str) -> str:
    """The text with every digit as 0: times, steps and process ids then look alike."""
    if text.isascii():
        return text.translate(_DIGITS)
    for digit in "123456789":  # translating is slow where letters of other scripts are
        text = text.replace(digit, "0")
    return text


class Words:
    """The different words of a long text: far fewer letters than the text itself, so most literals are seen there not to stand in it.

    Digits count as alike, for numbers would make most words of a log differ.
    """

    def __init__(self, text: str) -> None:
        self._words = set(shape(text).split())
        self._joined = "\n{}\n".format("\n".join(self._words))
        self._known: dict[str, bool] = {}  # by the literal's shape: many differ in a digit alone

    def may_hold(self, literal: str) -> bool:
        """False where the literal cannot stand in the text: its inner words must be words, its ends the end and beginning of one."""
        if not literal.isprintable():
            return True  # it holds another blank, at which the text was cut
        alike = shape(literal)
        if alike not in self._known:
            self._known[alike] = self._holds(alike)
        return self._known[alike]

    def _holds(self, literal: str) -> bool:
        first, *inner = literal.split(" ")
        if not inner:
            return first in self._joined
        last = inner.pop()
        if not self._words.issuperset(word for word in inner if word):
            return False
        return f"{first}\n" in self._joined and f"\n{last}" in self._joined


@lru_cache(maxsize=2)
def words_of(text: str) -> Words:
    """The words of a text, made once for the parsers and the recognisers that ask one after another."""
    return Words(text)
