"""Whether an answer meets a requirement: true, false, or unknown.

Versions are compared as far as the requirement writes them: 580.159.04 equals 580, and is not newer than 580. A pre-release of 0.62 is
older than 0.62.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cudadoctor.model.requirements import Requirement
from cudadoctor.model.version import numbers
from cudadoctor.policy.base import Answer

if TYPE_CHECKING:
    from packaging.version import Version

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt, "<": operator.lt,
}  # fmt: skip


def holds(wanted: Requirement, answer: Answer) -> bool | None:
    """Whether the requirement is met by this answer; None where nobody knows."""
    if answer.is_fault:
        return False
    if answer.value is None or (wanted.share and answer.share is None):
        return None
    if wanted.kind == "switch" and answer.value not in ("on", "off"):
        return (wanted.words == "on") == (wanted.operator == "==")  # a name alone: the thing is there
    if wanted.kind in ("switch", "words"):
        return _words(wanted, str(answer.value))
    if wanted.kind == "version":
        return _versions(wanted, str(answer.value))
    found = answer.share if wanted.share else answer.value
    return _COMPARE[wanted.operator](found, wanted.number)


def _words(wanted: Requirement, found: str) -> bool:
    asked = (wanted.words or "").lower()
    if wanted.operator == "~":
        return asked in found.lower()
    return (found.lower() == asked) == (wanted.operator == "==")


def _versions(wanted: Requirement, found: str) -> bool:
    asked = wanted.words or ""
    width = len(numbers(asked))
    if wanted.operator in (">=", "<"):
        whole = _pep440(found), _pep440(asked)
        if whole[0] is not None and whole[1] is not None:
            return _COMPARE[wanted.operator](whole[0], whole[1])
    return _COMPARE[wanted.operator](_release(found, width), _release(asked, width))


def _pep440(text: str) -> Version | None:
    from packaging.version import Version  # slow to import, and few policies ask for a version

    try:
        return Version(Version(text).public)
    except ValueError:  # it is no version, or a number in it has thousands of digits
        return None


def _release(text: str, width: int) -> tuple[int, ...]:
    """The first numbers of a version, with zeros where it has fewer."""
    parsed = _pep440(text)
    found = parsed.release if parsed is not None else numbers(text)
    return (*found, *([0] * width))[:width]
