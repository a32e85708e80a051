"""Paths in a recording: what systems and programs call their folders stays, every other part becomes a pseudonym.

A list of what is known, not of what is private: sites call their folders after people, groups and projects, wherever they mount them.
Within a package all of it stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from cudadoctor.sources.vocabulary import OF_PATHS, PATTERNS, SYSTEM

_WORD = re.compile(r"[^\W\d_]+|\d+")
_WINDOWS_SYSTEM = frozenset(("windows", "program files", "program files (x86)", "programdata"))


def known(part: str) -> bool:
    """Whether a part of a path is what systems and programs call their folders and files: every word of it, and numbers."""
    if len(part) <= 1 or PATTERNS.LIBRARY.fullmatch(part):
        return True
    bare = PATTERNS.HIDDEN.sub("", part).lower()
    return all(word.isdigit() or len(word) == 1 or word in OF_PATHS for word in _WORD.findall(bare))


def in_list(value: str, pseudonym: Callable[[str], str]) -> str:
    """A list of places, parted by colons, of which the relative ones have pseudonyms: nothing else shows that they are paths."""
    return PATTERNS.RELATIVE.sub(lambda match: relative(match[0], pseudonym), value)


def path(whole: str, pseudonym: Callable[[str], str]) -> str:
    """With a pseudonym in place of each part that nobody knows."""
    if whole.split("/", 2)[1] in SYSTEM and not PATTERNS.NOT_SYSTEM.match(whole):
        return whole
    return "/".join(_parts(whole.split("/"), pseudonym))


def relative(whole: str, pseudonym: Callable[[str], str]) -> str:
    """The same of a path from the folder in which somebody was; of a package's own, as tracebacks name it, all stays."""
    first, *more = whole.split("/")
    return whole if more and PATTERNS.SOFTWARE.fullmatch(first) else "/".join(_parts([first, *more], pseudonym))


def of_windows(whole: str, separator: str, pseudonym: Callable[[str], str]) -> str:
    """The same of what stands behind a drive or a share."""
    empty, *parts = whole.split(separator)
    return whole if parts[0].lower() in _WINDOWS_SYSTEM else separator.join((empty, *_parts(parts, pseudonym)))


def _parts(parts: list[str], pseudonym: Callable[[str], str]) -> list[str]:
    """Up to where a package begins, which has files of its own."""
    found, inside = [], False
    for part in parts:
        inside = inside or PATTERNS.PACKAGED.fullmatch(part) is not None
        found.append(part if inside or known(part) else _called(part, pseudonym))
    return found


def _called(part: str, pseudonym: Callable[[str], str]) -> str:
    """The pseudonym with the ending of a kind of file, which says what it is."""
    stem, dot, ending = part.rpartition(".")
    return pseudonym(stem) + dot + ending if stem and known(ending) else pseudonym(part)
