"""What a question of a policy is put to, and what comes back. An answer that nobody knows says why.

A user's text (--log) answers nothing here: only what was read from the machine does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec

from cudadoctor.model.facts import Facts, Key, Unknown
from cudadoctor.model.report import Report

T = TypeVar("T")
Value = str | float


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What one thing (a GPU, the machine) answers. `value` None: nobody knows, `why` says why. `share`: the share of a figure's limit."""

    value: Value | None = None
    shown: str = ""
    where: str = ""
    why: str = ""
    share: float | None = None
    is_fault: bool = False  # the thing that was asked about is not there: no comparison holds for it


class View(msgspec.Struct, frozen=True, kw_only=True):
    facts: Facts
    report: Report

    def known(self, key: Key[T]) -> T | Unknown | None:
        """A fact of the machine; what only a user's text states is not known of it."""
        found = self.facts.get(key)
        if isinstance(found, Unknown):
            return found
        return Unknown(key=key.name, why="only a text speaks of it") if found.origin == "text" else found.value

    def value(self, key: Key[T]) -> T | None:
        found = self.known(key)
        return None if isinstance(found, Unknown) else found

    def why(self, key: Key[T], otherwise: str) -> str:
        found = self.known(key)
        return found.why if isinstance(found, Unknown) else otherwise


Answers = Iterable[Answer]
Question = Callable[[View], Answers]
