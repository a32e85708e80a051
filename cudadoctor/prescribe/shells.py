"""Values into shell text. A word for each shell: as it is where each character is known to mean nothing there, else quoted, else none.

sh          one kind of quotes takes everything that can be printed; fish takes \\' and \\\\ within them for an escape
PowerShell  five characters are single quotes: ' and the curly ones of typography. Each is doubled within them. Up to 7.2 it does not
            escape what it hands on to a program: a double quote in a word, or a backslash at the end of one with blanks, is the end of it;
            and of a batch file (conda) cmd reads the line once more
cmd         between double quotes stand letters, digits and a few signs; what holds another one has no safe form

And `sudo` in front of commands that need root. Text only: nothing is run here.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping

from cudadoctor.model.pattern import lazy

_PLAIN_IN_POWERSHELL = lazy(r"[A-Za-z0-9_.:\\/=+][A-Za-z0-9_.:\\/=+-]{0,4000}|-{1,2}[A-Za-z][A-Za-z0-9_.:\\/=+-]{0,4000}")
_QUOTES_OF_POWERSHELL = lazy("(['\u2018\u2019\u201a\u201b])")
_READ_AGAIN = lazy(r"[&|<>^]")
_BOUND = lazy(r"[a-z][a-z0-9-]{0,60}<=?\d[\d.]{0,20}")  # numpy<2.5 names a file to read at worst
_DOUBLED = lazy("(['\u2018\u2019\u201a\u201b])\\1")
_ESCAPES_IN_FISH = lazy(r"\\(?=[\\'])")
# \w: letters of any script. A backslash at the end would take the closing quote along.
_WITHIN_QUOTES_OF_CMD = lazy(r"[\w .:\\/=+,@~#'\[\]{}-]{0,4000}(?<!\\)")
ON_WINDOWS: bool = sys.platform == "win32"
PLACEHOLDER = lazy(r"\{([a-z][a-z0-9_]*)\}")
_OPERATORS = frozenset("|&;<>()`")
_QUOTED = lazy(r"""'[^']{0,1000}'|"(?:\\.|[^"\\]){0,1000}\"""")
_KEYWORDS = frozenset(("for", "if", "while", "case", "[", "{", "!", "until"))

Value = str | tuple[str, ...]
Found = Iterator[tuple[str, "Value | None"]]  # values by the names of their placeholders


def printable(word: str) -> bool:
    """Whether a word may stand in a command at all: on one line, with nothing that a terminal obeys."""
    return bool(word) and word.isprintable()


def sh(word: str) -> str:
    return _ESCAPES_IN_FISH.sub(r"'\\\\'", shlex.quote(word))


def reaches_program(word: str) -> bool:
    """Whether PowerShell hands the word on as one."""
    return '"' not in word and not (" " in word and word.endswith("\\"))


def reaches_batch_file(word: str) -> bool:
    """Whether it also passes cmd, which reads the line again where the program is a .bat or .cmd, and sees quotes only around blanks."""
    return "%" not in word and (" " in word or not _READ_AGAIN.search(word) or _BOUND.fullmatch(word) is not None)


def powershell(word: str) -> str:
    if _PLAIN_IN_POWERSHELL.fullmatch(word):
        return word
    return f"'{_QUOTES_OF_POWERSHELL.sub(lambda quote: quote[1] * 2, word)}'"


def cmd(word: str, before: str = "") -> str | None:
    """The word between double quotes, behind what stands `before` it; None where cmd would change the word."""
    return f'{before}"{word}"' if _WITHIN_QUOTES_OF_CMD.fullmatch(word) else None


def typed(word: str) -> str:
    """A word of a line that the reader is to type. On Windows nobody knows into which shell: what cmd and PowerShell do not read alike
    becomes the word NAME."""
    if not ON_WINDOWS:
        return sh(word)
    return word if _PLAIN_IN_POWERSHELL.fullmatch(word) else cmd(word) or "NAME"


def unquoted(words: str) -> str:
    """What stands between PowerShell's single quotes, as it is meant."""
    return _DOUBLED.sub(lambda quote: quote[1], words)


# ---------------------------------------------------------------- templates
class Script(str):
    """Shell text that stands in a command as it is, such as "$(uname -r)". Written here, never read from a machine."""

    __slots__ = ()


def names(template: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(PLACEHOLDER.findall(template)))


def each(value: Value) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else value


def quoted(value: Value, quote: Callable[[str], str] = sh) -> str:
    """A value as shell words: a tuple becomes several words, each quoted on its own."""
    return str(value) if isinstance(value, Script) else " ".join(map(quote, each(value)))


def fill_shell(template: str, values: Mapping[str, Value]) -> str | None:
    """The command with its values quoted. None where a value is missing."""
    if any(name not in values for name in names(template)):
        return None
    return PLACEHOLDER.sub(lambda found: quoted(values[found[1]]), template)


def fill_words(template: str, values: Mapping[str, Value], words: Mapping[str, str]) -> str:
    """The sentence with its values; a missing one is named in words."""

    def put(found: re.Match[str]) -> str:
        value = values.get(found[1])
        if value is None or isinstance(value, Script):
            return words.get(found[1], "(not known)")
        in_code = template[: found.start()].count("`") % 2
        return (" " if in_code else ", ").join(each(value))

    return PLACEHOLDER.sub(put, template)


def is_plain(line: str) -> bool:
    """Whether a line is one command without operators or keywords, so that `sudo` in front covers all of it."""
    bare = _QUOTED.sub("", line)
    return bool(bare.split()) and bare.split()[0] not in _KEYWORDS and not _OPERATORS & set(bare) and "'" not in bare and '"' not in bare


_WRITTEN = lazy(r"(?P<words>(?:printf|echo)\b.{0,1000}?) > (?P<file>/[\w./:-]{1,200})$")


def with_sudo(script: str) -> str:
    """Each line run as root: plain commands behind `sudo`, words into a file through `sudo tee`, other lines as a whole by `sudo sh`."""
    return "\n".join(_with_sudo(line) for line in script.split("\n"))


def _with_sudo(line: str) -> str:
    if is_plain(line):
        return f"sudo {line}"
    written = _WRITTEN.fullmatch(line)
    if written is not None and is_plain(written["words"]):
        return f"{written['words']} | sudo tee {written['file']} > /dev/null"
    if "'" in line and not set('"$`\\!') & set(line):
        return f'sudo sh -c "{line}"'  # easier to read than single quotes within single quotes
    return f"sudo sh -c {sh(line)}"
