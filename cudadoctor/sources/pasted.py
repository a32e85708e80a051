"""A text that a user gives: an error message, a log, a whole bug report. It becomes one item of evidence of kind `text`."""

from __future__ import annotations

from cudadoctor.model.evidence import Evidence, Item
from cudadoctor.sources.decoding import decoded

TEXT_LIMIT = 32 << 20  # bytes read of one text; the end is kept, because that is where a program fails


class TextError(Exception):
    """The text cannot be read; the message says why."""


def item_of(content: bytes) -> Item:
    """The text as evidence."""
    dropped = max(0, len(content) - TEXT_LIMIT)
    content = content[-TEXT_LIMIT:] if dropped else content
    text = decoded(content)
    return Item(id="text", kind="text", what="text", status="ok", stdout=text.replace("\x00", ""), dropped_bytes=dropped, origin="text")


def read_item(path: str) -> Item:
    """A file's text as evidence; TextError where it cannot be read."""
    try:
        with open(path, "rb") as stream:
            stream.seek(0, 2)
            size = stream.tell()
            stream.seek(max(0, size - TEXT_LIMIT - 1))
            content = stream.read()
    except OSError as error:
        raise TextError(f"{path}: {error.strerror}") from error
    return item_of(content)


def evidence_of(content: bytes) -> Evidence:
    """Evidence that is nothing but this text."""
    return Evidence(items=(item_of(content),), origin="text", platform="unknown")
