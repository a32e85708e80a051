"""Which lines of a text may be one sentence: those that a terminal or a mail program wrapped, that a kernel module or an X driver prints in
pieces, and the cells of DCGM's table, which cuts its messages in the middle of a word."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec

from cudadoctor.model.pattern import lazy

WRAP_WIDTHS = (79, 80)
# Frames of tables and rulers fill 79 columns and are not wrapped; a joined line would only glue table rows together.
_FRAME = ("+", "|", "=", "-", "#", "*")
_TAG = lazy(r"(?:NVRM|NVIDIA-SMI|nvidia-modeset): {1,12}|\((?:EE|WW|II)\) NVIDIA(?:\([\w-]{1,20}\))?: {1,12}")
_SHORTEST = 20  # characters of a line that a sentence goes on behind
_ENDS = (".", ";", "!", "?", ">", "|", "}", "]", "\\")
_IN_A_ROW = 3  # lines of one sentence
_MOST = 1000  # sentences of a driver at each end of a long text
_CELL = lazy(r"\|[^|]{0,80}\| (?P<cell>[^|]{20,120})\|$")
_MORE = lazy(r"\|\s{4,80}\| (?P<cell>[^|]{1,120})\|$")
_ROWS = 40


class Joined(msgspec.Struct, frozen=True, kw_only=True):
    """Lines as one. `first`: the number of the first; `ends`: where all but the last end; `begins`: where all but the first begin.

    `overlaps`: the next lines stand in an entry of their own too, so only what begins in the first counts.
    """

    first: int
    text: str
    ends: tuple[int, ...]
    begins: tuple[int, ...]
    overlaps: bool = True


def joined_lines(raw: Sequence[str], entries: Sequence[str], *, whole: bool) -> Iterator[Joined]:
    """`raw`: the lines, without signs of quotation; `entries`: the same without prefixes.

    `whole`: look for sentences broken anywhere too, for a short text.
    """
    of_driver = [] if whole else [index for index, entry in enumerate(entries) if _TAG.match(entry)]
    tagged = {*of_driver[:_MOST], *of_driver[-_MOST:]}  # bounds the work on a long log that a driver filled
    for index, (line, following) in enumerate(pairwise(raw)):
        if len(line) in WRAP_WIDTHS and following and not line.startswith(_FRAME):
            for glue in ("", " ") if len(line) < max(WRAP_WIDTHS) else ("",):
                yield _one(index, [entries[index], following], glue)
        if whole or index in tagged:
            pieces = _sentence(raw, entries, index)
            if len(pieces) > 1:
                yield _one(index, pieces, " ")
        if line.startswith("|") and _MORE.match(following):
            cells = _cells(raw, index)
            if len(cells) > 1:
                yield msgspec.structs.replace(_one(index, cells, ""), overlaps=False)


def _one(index: int, pieces: Sequence[str], glue: str) -> Joined:
    ends, begins, at = [], [], 0
    for piece in pieces[:-1]:
        ends.append(at + len(piece))
        at += len(piece) + len(glue)
        begins.append(at)
    return Joined(first=index + 1, text=glue.join(pieces), ends=tuple(ends), begins=tuple(begins))


def _sentence(raw: Sequence[str], entries: Sequence[str], index: int) -> list[str]:
    """The line and those that go on with its sentence; pieces with the same tag of a driver go on whatever their prefixes."""
    tag, _ = _tagged(entries[index])
    pieces = [entries[index]]
    for at in range(index + 1, min(len(raw), index + _IN_A_ROW)):
        before, line = pieces[-1], entries[at]
        if len(before) < _SHORTEST or before.endswith(_ENDS) or before.startswith(_FRAME):
            break
        other, said = _tagged(line)
        if other != tag or (not tag and line != raw[at]):
            break  # a line with a prefix of its own is a message of its own
        line = said.strip()
        if not line or not (line[0].isalnum() or line[0] in "'\"(/"):
            break
        pieces.append(line)
    return pieces


def _tagged(line: str) -> tuple[str, str]:
    found = _TAG.match(line)
    return (found[0].rstrip(), line[found.end() :]) if found is not None else ("", line)


def _cells(raw: Sequence[str], index: int) -> list[str]:
    """The cells of a table's row and of the rows below it whose first cell is empty."""
    first = _CELL.match(raw[index])
    if first is None or _MORE.match(raw[index]) is not None:
        return []
    cells = [first["cell"]]
    for line in raw[index + 1 : index + _ROWS]:
        more = _MORE.match(line)
        if more is None:
            break
        cells.append(more["cell"])
    widths = [len(cell) for cell in cells]
    return [cell[:45] if width >= 45 else cell.rstrip() for cell, width in zip(cells, widths, strict=True)]
