"""Values into shell text, and `sudo` in front of commands that need root. Text only: nothing is run here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from cudadoctor.model.pattern import lazy
from cudadoctor.prescribe import shells

PLACEHOLDER = lazy(r"\{([a-z][a-z0-9_]*)\}")
_OPERATORS = frozenset("|&;<>()`")
_QUOTED = lazy(r"""'[^']{0,1000}'|"(?:\\.|[^"\\]){0,1000}\"""")
_KEYWORDS = frozenset(("for", "if", "while", "case", "[", "{", "!", "until"))

Value = str | tuple[str, ...]
Found = Iterator[tuple[str, "Value | None"]]  # values by the names of their placeholders


class Script(str):
    """Shell text that stands in a command as it is, such as "$(uname -r)". Written here, never read from a machine."""

    __slots__ = ()


def names(template: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(PLACEHOLDER.findall(template)))


def quoted(value: Value) -> str:
    """A value as shell words: a tuple becomes several words, each quoted on its own."""
    if isinstance(value, Script):
        return str(value)
    return shells.sh(value) if isinstance(value, str) else " ".join(map(shells.sh, value))


def plain(value: Value) -> str:
    """A value as it stands in a sentence."""
    return value if isinstance(value, str) else " ".join(value)


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
        return plain(value)

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
    return f"sudo sh -c {shells.sh(line)}"
