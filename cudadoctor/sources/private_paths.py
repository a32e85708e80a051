"""Paths in a recording: what systems and programs call their folders stays, every other part becomes a pseudonym.

A list of what is known, not of what is private: sites call their folders after people, groups and projects, wherever they mount them.
Behind a home directory's owner (sensitive.py has him) the path stays from the first part on that is known, and within a package all of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from cudadoctor.sources.vocabulary import OF_PATHS, PATTERNS, SYSTEM

_WORD = re.compile(r"[^\W\d_]+|\d+")
_WINDOWS_SYSTEM = frozenset(("windows", "program files", "program files (x86)", "programdata"))
_HOMES = frozenset(("home", "homes", "users", "documents and settings"))


def known(part: str) -> bool:
    """Whether a part of a path is what systems and programs call their folders and files: every word of it, and numbers."""
    if len(part) <= 1 or PATTERNS.LIBRARY.fullmatch(part):
        return True
    bare = PATTERNS.HIDDEN.sub("", part).lower()
    return all(word.isdigit() or len(word) == 1 or word in OF_PATHS for word in _WORD.findall(bare))


def in_list(value: str, pseudonym: Callable[[str], str]) -> str:
    """A list of places, parted by colons, of which the relative ones have pseudonyms: nothing else shows that they are paths."""
    return PATTERNS.RELATIVE.sub(lambda match: "/".join(_parts(match[0].split("/"), pseudonym)), value)


def path(whole: str, pseudonym: Callable[[str], str]) -> str:
    """With a pseudonym in place of each part that nobody knows."""
    if whole.split("/", 2)[1] in SYSTEM and not PATTERNS.NOT_SYSTEM.match(whole):
        return whole
    return "/".join(_parts(whole.split("/"), pseudonym))


def of_windows(whole: str, separator: str, pseudonym: Callable[[str], str]) -> str:
    """The same of what stands behind a drive or a share."""
    empty, *parts = whole.split(separator)
    return whole if parts[0].lower() in _WINDOWS_SYSTEM else separator.join((empty, *_parts(parts, pseudonym)))


def _parts(parts: list[str], pseudonym: Callable[[str], str]) -> list[str]:
    """Up to where a package begins, or behind somebody's home the first part that is known or hidden: sites sort homes by groups."""
    found, home, inside = [], False, False
    for before, part in zip(("", *parts), parts):
        owner = PATTERNS.HIDDEN.fullmatch(part) is not None
        home = home or (owner and before.lower() in _HOMES)
        inside = inside or PATTERNS.PACKAGED.fullmatch(part) is not None or (home and not owner and (part[:1] == "." or known(part)))
        found.append(part if inside or known(part) else pseudonym(part))
    return found
