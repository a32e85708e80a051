"""What colours a text or steers a terminal, and the text without it. Standard library only."""

from __future__ import annotations

from cudadoctor.model.pattern import lazy

# What steers a terminal (ECMA-48), and colours as tools write them where they may not: cat -v, rsyslog, JSON, a shell's source.
_CODES = lazy(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[ -/]*[0-~]")
_WRITTEN_CODES = lazy(r"(?:\^\[|\\(?:x1[bB]|u001[bB]|033|e)|#033)\[[0-9;]{0,20}[mK]")
_WRITTEN = ("^[[", "\\x1b[", "\\x1B[", "\\u001b[", "\\u001B[", "\\033[", "\\e[", "#033[")


def without_codes(text: str) -> str:
    """The text without what colours it or steers a terminal."""
    if "\x1b" in text or "\x9b" in text:
        text = _CODES.sub("", text)
    return _WRITTEN_CODES.sub("", text) if any(mark in text for mark in _WRITTEN) else text
