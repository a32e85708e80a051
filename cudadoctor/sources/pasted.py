"""A text that a user gives: an error message, a log, a whole bug report. It becomes one item of evidence of kind `text`."""

from __future__ import annotations

import re
from itertools import islice

import msgspec

from cudadoctor.model.evidence import LONGEST_LINE, OUTPUT, Evidence, Item
from cudadoctor.sources.decoding import LONG, decoded, without
from cudadoctor.sources.inputs import HEAD, TEXT, Content

MOST_LINES = 2 << 20  # of a text: each takes a hundred bytes of memory and more, however short it is
_LINE_END = re.compile(rb"\r\n?|\n")
_ASTRAL = re.compile(rb"[\xf0-\xf4][\x80-\xbf]{3}")  # emoji in UTF-8: a single one makes a text four times as large in memory
_HOLE = re.compile(rb"\0{16}")  # what stands where a crash took the content of a file
_TEXT = bytes({0, 7, 8, 9, 10, 12, 13, 27, *range(32, 256)} - {127})  # all but control characters that no log has


def output_of(content: bytes | Content) -> Item:
    """What a program printed, as evidence: all of it is the program's, and nobody speaks in it."""
    return msgspec.structs.replace(_item(_last_lines(content)), what=OUTPUT)


def _last_lines(content: bytes | Content) -> Content:
    """As many lines of it as are read: the last, as of a text that is too long. A program that draws its progress writes a million."""
    content = Content(content) if isinstance(content, bytes) else content
    body = content.body
    if content.left_out is None and _has_long_line(body):
        content = content._replace(
            left_out=f"Of a very long line of the text only the first and the last {LONGEST_LINE >> 11} KiB were read."
        )
    if content.left_out is None and _HOLE.search(body):
        content = content._replace(left_out="A part of the text is lost: a run of zero bytes stands there.")
    more = body.count(b"\n") + body.count(b"\r") - body.count(b"\r\n") - MOST_LINES
    if more <= 0:
        return content
    start = next(islice(_LINE_END.finditer(body), more - 1, None)).end()
    said = f"Only the last {MOST_LINES} lines of the text were read."
    return Content(body[start:], content.left_out or said, content.lines_before + more)


def _has_long_line(body: bytes) -> bool:
    """Whether a line is longer than what is read of one: it then covers a whole block of half that length."""
    half = LONGEST_LINE // 2
    blocks = (
        start for start in range(0, len(body) - half, half) if not any(body.find(end, start, start + half) >= 0 for end in (b"\n", b"\r"))
    )
    ends = ((_LINE_END.search(body, start), max(body.rfind(b"\n", 0, start), body.rfind(b"\r", 0, start))) for start in blocks)
    return any((end.start() if end is not None else len(body)) - before > LONGEST_LINE for end, before in ends)


def _item(content: Content) -> Item:
    dropped = max(0, len(content.body) - TEXT, 1 if content.left_out else 0)
    body = content.body[-TEXT:]
    text = decoded(without(_ASTRAL, body) if len(body) > LONG else body)
    wide = text.count("\x00") * 3 > len(text)  # every second letter of UTF-16; elsewhere they part the words of /proc/PID/cmdline
    text = text.replace("\x00", "" if wide else " ")
    before = content.lines_before
    return Item(id="text", kind="text", what="text", status="ok", stdout=text, dropped_bytes=dropped, lines_before=before, origin="text")


def evidence_of(content: bytes | Content, *, printed: bool = False) -> Evidence:
    """Evidence that is nothing but this text. `printed`: by a program."""
    content = _last_lines(content)
    remarks = (content.left_out,) if content.left_out is not None else ()
    return Evidence(items=(output_of(content) if printed else _item(content),), origin="text", platform="unknown", remarks=remarks)


def is_text(content: bytes) -> bool:
    """Whether a program wrote it for people. Letters of any code page count; runs of zero bytes stand in logs that a crash broke off."""
    head = content[:HEAD]
    return len(head.translate(None, _TEXT)) * 20 <= len(head)
