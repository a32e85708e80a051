"""Paths in a recording: what systems and programs call their folders stays, every other part becomes a pseudonym.

A list of what is known, not of what is private: sites call their folders after people, groups and projects, wherever they mount them.
Behind a home directory's owner (sensitive.py has him) the path stays from the first part on that is known, and within a package all of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from cudadoctor.sources.common_names import OF_PATHS, SYSTEM, USERS, WORDS

_ALL = OF_PATHS | WORDS | USERS
# Below these of the system's own folders are others' too.
_NOT_SYSTEM = re.compile(
    r"/(?:var/(?:tmp|home|www|spool)|opt/(?:home|users|data)|workspaces?|content|kaggle|app|dev/shm|root/[^/]+|usr/(?:home|people)|run/media)/"
)
# Below these a package has its own files.
_OF_PACKAGE = re.compile(r"(?:site|dist)-packages|include|nvvm|targets|extras|__pycache__|pkgs|\.dist-info|egg-info", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]+|\d+")
_PSEUDONYM = re.compile(r"(?:user|host|group|account|serial|dir)-[0-9a-f]{6}|<redacted>")
_LIBRARY = re.compile(r"lib[\w.+-]{1,80}\.(?:so|a|dylib)(?:[.\d]{0,20})")
# A path of at least two parts. What stands before it is no part of a word, of an address or of a tag.
_PATH = re.compile(r"(?:(?<![\w./<~@%+-])|(?<=-[ILBF]))(/(?!/)[^\s/:;'\"`,()\[\]{}<>|\\]{1,200}/[^\s:;'\"`,()\[\]{}<>|\\]{0,1000})")
# Of a drive, and of another machine's share.
_WINDOWS = re.compile(
    r"((?<!\w)[A-Za-z]:(?=\\)|(?<![^\s\"'=(])\\{2,4}(?!wsl)[\w.$-]{1,200})((\\{1,2})[^\s\\/:;*?\"<>|]{1,100}(?:\3[^/:;*?\"<>|\r\n\t']{0,600})?)"
)
_RELATIVE = re.compile(r"(?:^|(?<=[:;]))(?![A-Za-z]:\\)[^/\\~:;$<][^:;]*")  # an entry of a list of places
_WINDOWS_SYSTEM = frozenset(("windows", "program files", "program files (x86)", "programdata"))
_HOMES = frozenset(("home", "homes", "users", "documents and settings"))
_TILDE = re.compile(r"(?<![\w/~.])~([A-Za-z_][\w.-]{1,40})(?=/|\s|$|['\",:;)])")


def known(part: str) -> bool:
    """Whether a part of a path is what systems and programs call their folders and files: every word of it, and numbers."""
    if len(part) <= 1 or _LIBRARY.fullmatch(part):
        return True
    bare = _PSEUDONYM.sub("", part).lower()
    return all(word.isdigit() or len(word) == 1 or word in _ALL for word in _WORD.findall(bare))


def replaced(text: str, pseudonym: Callable[[str], str], user: Callable[[str], str]) -> str:
    """The text with a pseudonym in place of each part of a path that nobody knows."""
    text = _TILDE.sub(lambda match: match[0] if known(match[1]) else f"~{user(match[1])}", text)
    text = _PATH.sub(lambda match: _path(match[1], pseudonym), text) if "/" in text else text
    return _WINDOWS.sub(lambda match: match[1] + _windows(match[2], match[3], pseudonym), text) if "\\" in text else text


def in_list(value: str, pseudonym: Callable[[str], str]) -> str:
    """A list of places, parted by colons, of which the relative ones have pseudonyms: nothing else shows that they are paths."""
    return _RELATIVE.sub(lambda match: "/".join(_parts(match[0].split("/"), pseudonym)), value)


def _path(path: str, pseudonym: Callable[[str], str]) -> str:
    if path.split("/", 2)[1] in SYSTEM and not _NOT_SYSTEM.match(path):
        return path
    return "/".join(_parts(path.split("/"), pseudonym))


def _windows(path: str, separator: str, pseudonym: Callable[[str], str]) -> str:
    empty, *parts = path.split(separator)
    return path if parts[0].lower() in _WINDOWS_SYSTEM else separator.join((empty, *_parts(parts, pseudonym)))


def _parts(parts: list[str], pseudonym: Callable[[str], str]) -> list[str]:
    """Up to where a package begins, or behind somebody's home the first part that is known or hidden: sites sort homes by groups."""
    found, home, inside = [], False, False
    for before, part in zip(("", *parts), parts):
        owner = _PSEUDONYM.fullmatch(part) is not None
        home = home or (owner and before.lower() in _HOMES)
        inside = inside or _OF_PACKAGE.fullmatch(part) is not None or (home and not owner and (part[:1] == "." or known(part)))
        found.append(part if inside or known(part) else pseudonym(part))
    return found
