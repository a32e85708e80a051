"""Makes text from a machine safe to show: control characters, escapes and bidirectional marks become visible."""

from __future__ import annotations

import re
from collections.abc import Mapping

from cudadoctor.model.pattern import lazy

# C0 and C1 controls but tab and line feed, bidirectional controls, line separators, interlinear marks, lone surrogates; and all that
# Unicode lets a reader leave out (Default_Ignorable_Code_Point): a text may hide in it. One that makes an emoji of a sign may stand alone.
_UNSAFE = lazy(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0e"
    "\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]|(?<=\ufe0f)\ufe0f"
)


def _escape(match: re.Match[str]) -> str:
    number = ord(match.group())
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def clean(text: str) -> str:
    """The text with every character that could steer a terminal or reorder a line written as an escape."""
    return _UNSAFE.sub(_escape, text)


def one_line(text: str) -> str:
    """The same on one line."""
    return clean(text).replace("\n", " ").replace("\t", " ").strip()


def clean_json(body: str) -> str:
    """The same of JSON, in which these characters stand inside strings: there an escape means the character itself."""
    return _UNSAFE.sub(escaped, body)


def escaped(match: re.Match[str]) -> str:
    """A character as JSON's escapes, one for each of its numbers in UTF-16."""
    code = match.group().encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{int.from_bytes(code[place : place + 2], 'big'):04x}" for place in range(0, len(code), 2))


# ---------------------------------------------------------------- links of a terminal (OSC 8)
_NAMED = lazy(r"\[([a-z][a-z0-9-]{3,60})\]")


def linked(text: str, addresses: Mapping[str, str]) -> str:
    """The text with each `[cause-id]` as a link to its page. It went through the gate before: what is added here is ours alone."""

    def link(match: re.Match[str]) -> str:
        address = addresses.get(match[1])
        return match.group() if address is None else f"[\x1b]8;;{address}\x1b\\{match[1]}\x1b]8;;\x1b\\]"

    return _NAMED.sub(link, text)


# ---------------------------------------------------------------- the last gate before a stream
_COLOUR = r"\x1b\[[0-9;]{0,20}m"
_PART = lazy(rf"({_COLOUR})")
# A line of a job's log that begins so, or holds the other anywhere, is a command to GitHub, Azure or TeamCity. Nobody knows here whether
# it becomes one: a container, ssh and srun hand no variable on that says so.
_COMMAND = lazy(rf"(?m)^((?:[^\S\n]|{_COLOUR})*):(?=:)")
_GROUP = lazy(r"(?m)^(?=(?:---|\+\+\+|~~~) )")  # and so of Buildkite's
_MARKED = lazy(r"#(?=#(?:\[|vso\[|teamcity\[|section\[))", re.IGNORECASE)


def gated(text: str, *, json: bool = False, commands: bool = False, colours: bool = True) -> str:
    """What may reach a stream or a file: nothing that steers a terminal but our own colours, and nothing that is a command in a job's log.

    `colours`: the text was drawn by us, and may have some. `json`: escapes as JSON has them.
    `commands`: lines that begin with :: are meant as such.
    """
    if json:
        text = clean_json(text)
    else:
        parts = enumerate(_PART.split(text)) if colours else [(0, text)]
        text = "".join(part if number % 2 else clean(part) for number, part in parts)
    text = _MARKED.sub(r"\\u0023" if json else "# ", text)
    return text if json or commands else _GROUP.sub(" ", _COMMAND.sub(r"\1: ", text))
