"""Makes text from a machine safe to show: control characters, escapes and bidirectional marks become visible."""

from __future__ import annotations

import re

# C0 and C1 controls but tab and line feed, bidirectional controls, zero-width and line separators, byte-order mark, lone surrogates.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


def clean(text: str) -> str:
    """The text with every character that could steer a terminal or reorder a line written as an escape."""
    return _UNSAFE.sub(lambda match: f"\\x{ord(match.group()):02x}" if ord(match.group()) < 256 else f"\\u{ord(match.group()):04x}", text)


def one_line(text: str) -> str:
    """The same on one line."""
    return clean(text).replace("\n", " ").replace("\t", " ").strip()
