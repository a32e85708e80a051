"""A word for each shell: as it is where every character of it is known to mean nothing there, else quoted, else none. Text only.

sh          one kind of quotes takes everything that can be printed; fish takes \\' and \\\\ within them for an escape
PowerShell  five characters are single quotes: ' and the curly ones of typography. Each is doubled within them. Up to 7.2 it does not
            escape what it hands on to a program: a double quote in a word, or a backslash at the end of one with blanks, is the end of it
cmd         between double quotes stand letters, digits and a few signs; what holds another one has no safe form
"""

from __future__ import annotations

import shlex

from cudadoctor.model.pattern import lazy

_PLAIN_IN_POWERSHELL = lazy(r"[A-Za-z0-9_.:\\/=+][A-Za-z0-9_.:\\/=+-]{0,4000}|-{1,2}[A-Za-z][A-Za-z0-9_.:\\/=+-]{0,4000}")
_QUOTES_OF_POWERSHELL = lazy("(['\u2018\u2019\u201a\u201b])")
_DOUBLED = lazy("(['\u2018\u2019\u201a\u201b])\\1")
_ESCAPES_IN_FISH = lazy(r"\\(?=[\\'])")
# \w: letters of any script. A backslash at the end would take the closing quote along.
_WITHIN_QUOTES_OF_CMD = lazy(r"[\w .:\\/=+,@~#'\[\]{}-]{0,4000}(?<!\\)")


def printable(word: str) -> bool:
    """Whether a word may stand in a command at all: on one line, with nothing that a terminal obeys."""
    return bool(word) and word.isprintable()


def sh(word: str) -> str:
    return _ESCAPES_IN_FISH.sub(r"'\\\\'", shlex.quote(word))


def reaches_program(word: str) -> bool:
    """Whether PowerShell hands the word on as one."""
    return '"' not in word and not (" " in word and word.endswith("\\"))


def powershell(word: str) -> str:
    if _PLAIN_IN_POWERSHELL.fullmatch(word):
        return word
    return f"'{_QUOTES_OF_POWERSHELL.sub(lambda quote: quote[1] * 2, word)}'"


def cmd(word: str, before: str = "") -> str | None:
    """The word between double quotes, behind what stands `before` it; None where cmd would change the word."""
    return f'{before}"{word}"' if _WITHIN_QUOTES_OF_CMD.fullmatch(word) else None


def unquoted(words: str) -> str:
    """What stands between PowerShell's single quotes, as it is meant."""
    return _DOUBLED.sub(lambda quote: quote[1], words)
