"""Paths in a recording: what systems and programs call their folders stays, every other part becomes a pseudonym.

A list of what is known, not of what is private: sites call their folders after people, groups and projects, wherever they mount them.
Below a home directory the path stays as it is (sensitive.py has its owner), and so does what lies within a package.
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
_WINDOWS = re.compile(r"(?<![\w])([A-Za-z]:(\\{1,2})[^\s\\/:;*?\"<>|]{1,100}\2[^/:;*?\"<>|\r\n\t']{0,600})")
_WINDOWS_SYSTEM = frozenset(("windows", "program files", "program files (x86)", "programdata", "users"))
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
    return _WINDOWS.sub(lambda match: _windows(match[1], match[2], pseudonym), text) if ":\\" in text else text


def _path(path: str, pseudonym: Callable[[str], str]) -> str:
    if path.split("/", 2)[1] in SYSTEM and not _NOT_SYSTEM.match(path):
        return path
    return "/".join(_parts(path.split("/"), pseudonym))


def _windows(path: str, separator: str, pseudonym: Callable[[str], str]) -> str:
    drive, *parts = path.split(separator)
    if parts and parts[0].lower() in _WINDOWS_SYSTEM:
        return path
    return separator.join((drive, *_parts(parts, pseudonym)))


def _parts(parts: list[str], pseudonym: Callable[[str], str]) -> list[str]:
    """Up to where a package or somebody's home begins. A home's owner is a pseudonym by now."""
    found, inside = [], False
    for number, part in enumerate(parts):
        found.append(part if inside or known(part) else pseudonym(part))
        home = number > 0 and parts[number - 1].lower() in ("home", "homes", "users") and _PSEUDONYM.fullmatch(part)
        inside = inside or bool(home) or _OF_PACKAGE.fullmatch(part) is not None
    return found
