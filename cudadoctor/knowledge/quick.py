"""Single rows of the large tables of codes, found in the file's text: a page about one code need not decode a thousand others.

A row is the same value as the whole table gives; tests compare them for every code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec
import tomli

from cudadoctor.knowledge.codes import CudaError, OldRuntimeError, Xid
from cudadoctor.knowledge.tables import Row, Source, Sourced, Table

T = TypeVar("T")
R = TypeVar("R", bound=Row)
_NAME = re.compile(r"\w+")


class QuickRows:
    """The part of Knowledge that reads rows in this way."""

    _texts: dict[str, str]

    def once(self, name: str, make: Callable[[], T]) -> T:
        raise NotImplementedError

    def one_cuda_error(self, key: int | str) -> CudaError | None:
        """By number, or by the driver's or the runtime's name in any case."""
        line = f"code = {key}" if isinstance(key, int) else rf'(?:driver|runtime)_name = "{_word(key)}"'
        return self._row("cuda_errors", line, CudaError)

    def one_xid(self, key: int | str) -> Xid | None:
        """By number, or by one of its names in any case."""
        line = f"number = {key}" if isinstance(key, int) else rf'name = "(?:[^"\n]* / )?{_word(key)}(?: / [^"\n]*)?"'
        return self._row("xid", line, Xid)

    def old_numbers(self) -> tuple[OldRuntimeError, ...]:
        """The runtime's numbers before CUDA 10.1."""
        return self.once("old numbers", self._old_numbers)

    def _old_numbers(self) -> tuple[OldRuntimeError, ...]:
        text = self._text("cuda_errors")
        start = text.index("\nold_runtime = [")
        raw = tomli.loads(text[start : text.index("\n]\n", start) + 2])
        return msgspec.convert(raw["old_runtime"], tuple[OldRuntimeError, ...])

    def _row(self, table: str, line: str, kind: type[R]) -> R | None:
        """The row of which this is a line."""
        text = self._text(table)
        match = re.search(rf"^{line}$", text, re.MULTILINE | re.IGNORECASE)
        if match is None:
            return None
        raw = _decoded(text, text.rindex("\n[[", 0, match.start()) + 1)
        return msgspec.convert(next(iter(raw.values()))[0], kind)

    # ------------------------------------------------------------ the head of a file
    def sources(self, table: str, source: Source | None, rows: str = "") -> tuple[str, ...]:
        """The texts behind the `source` of a row of this table ("chips").

        Rows of a compact list have none of their own: the file's `<rows>_source` holds for all of them.
        """
        head = self._head(table)
        if source is None:
            source = str(head.meta.get(f"{rows}_source") or head.meta["source"])
        keys = (source,) if isinstance(source, str) else source
        return tuple(head.sources.get(key, key) for key in keys)

    def sources_of(self, table: str, rows: Iterable[Sourced]) -> list[str]:
        """The texts behind several rows."""
        return [text for row in rows for text in self.sources(table, row.source)]

    def read_on(self, table: str) -> str:
        """The day on which a table's facts were read ("2026-11-21"): what it calls newest was newest then."""
        return str(self._head(table).meta.get("read", ""))

    def _head(self, table: str) -> Table:
        """What a file says of itself, whether its rows are decoded or not."""
        return self.once(f"head of {table}", lambda: _head_of(self._text(table)))

    def _text(self, table: str) -> str:
        return self._texts[f"tables/{table}.toml"]


def _word(name: str) -> str:
    """A name as a pattern that fits nothing else; what is no name fits nothing."""
    return name if _NAME.fullmatch(name) is not None else "(?!)"


def _head_of(text: str) -> Table:
    raw: dict[str, Any] = {}
    for name in ("meta", "sources"):
        start = text.find(f"\n[{name}]\n")
        raw.update(_decoded(text, start + 1) if start >= 0 else {})
    return msgspec.convert(raw, Table)


def _decoded(text: str, start: int) -> dict[str, Any]:
    """One section of a file, up to the next."""
    end = text.find("\n[", start + 1)
    found: dict[str, Any] = tomli.loads(text[start : end if end >= 0 else len(text)])
    return found
