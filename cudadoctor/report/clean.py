"""Makes text from a machine safe to show: control characters, escapes and bidirectional marks become visible."""

from __future__ import annotations

import re

from cudadoctor.model.pattern import lazy

# C0 and C1 controls but tab and line feed, bidirectional controls, invisible letters, line separators, byte-order mark, interlinear
# marks, tags, lone surrogates.
_UNSAFE = lazy(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
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
    return _UNSAFE.sub(lambda match: "".join(f"\\u{unit:04x}" for unit in _units(match.group())), body)


def _units(letter: str) -> list[int]:
    """The numbers that UTF-16 has for a character."""
    code = letter.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(code[place : place + 2], "big") for place in range(0, len(code), 2)]
