"""A text that a user gives: an error message, a log, a whole bug report. It becomes one item of evidence of kind `text`."""

from __future__ import annotations

from cudadoctor.model.evidence import Evidence, Item

TEXT_LIMIT = 32 << 20  # bytes read of one text; the end is kept, because that is where a program fails


class TextError(Exception):
    """The text cannot be read; the message says why."""


def item_of(content: bytes) -> Item:
    """The text as evidence. Bytes that are not UTF-8 are tried as UTF-16 (Windows redirection) and then replaced."""
    dropped = max(0, len(content) - TEXT_LIMIT)
    content = content[-TEXT_LIMIT:] if dropped else content
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        text = content.decode("utf-16", "replace")
    else:
        text = content.decode("utf-8-sig", "replace")
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
