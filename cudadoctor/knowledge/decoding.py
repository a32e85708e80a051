"""How a knowledge file becomes typed values: one file, a folder of them, rows found by any of their names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, TypeVar, cast

import msgspec
import tomli

from cudadoctor.knowledge.tables import Table

T = TypeVar("T")
F = TypeVar("F")
_HEAD = ("meta", "sources")


class KnowledgeError(ValueError):
    """A knowledge file is missing or does not say what its type demands."""


class Folder(Mapping[str, T]):
    """The files of a folder by id, which is the file's name; each is decoded when it is first asked for."""

    def __init__(self, texts: Mapping[str, tuple[str, str]], kind: type[T]) -> None:
        self._texts = texts
        self._kind = kind
        self._made: dict[str, T] = {}

    def __getitem__(self, name: str) -> T:
        if name not in self._made:
            file, text = self._texts[name]
            self._made[name] = decode(file, text, self._kind, name)
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._texts

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


def decode(file: str, text: str, kind: type[T], name: str | None = None) -> T:
    """The text as a value of that type. With `name` it is the value's id, whether the file repeats it or not."""
    try:
        raw = loaded(text)
        if name is not None and raw.setdefault("id", name) != name:
            raise ValueError(f"its id is {raw['id']!r}, not the file's name")
        return msgspec.convert(raw, kind)
    except (msgspec.MsgspecError, ValueError) as error:
        raise KnowledgeError(f"{file}: {error}") from error


def loaded(text: str) -> dict[str, Any]:
    """TOML, or JSON: no TOML begins with a brace."""
    return cast("dict[str, Any]", msgspec.json.decode(text)) if text.startswith("{") else tomli.loads(text)


def apart(compiled: bytes) -> dict[str, str]:
    """The files of compiled.json, none of them decoded."""
    return {file: bytes(raw).decode() for file, raw in msgspec.json.decode(compiled, type=dict[str, msgspec.Raw]).items()}


def head_of(text: str) -> Table:
    """What a file says of itself: its rows, which may be thousands of lines, are not decoded for it."""
    raw: dict[str, Any] = {}
    if text.startswith("{"):
        parts = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        raw = {name: msgspec.json.decode(parts[name]) for name in _HEAD if name in parts}
    for name in _HEAD:
        start = text.find(f"\n[{name}]\n")
        if start >= 0:
            end = text.find("\n[", start + 1)
            raw.update(tomli.loads(text[start : end if end >= 0 else len(text)]))
    return msgspec.convert(raw, Table)


def part_of(name: str, kind: type[F], part: Callable[[F], T]) -> cached_property[T]:
    """An attribute of Knowledge: a part of tables/`name`.toml, which is decoded when it is first asked for."""

    def read(knowledge: Any) -> T:
        return part(knowledge._table(name, kind))

    return cached_property(read)


def table_of(name: str, kind: type[F]) -> cached_property[F]:
    """The same for all of that table."""
    return part_of(name, kind, lambda table: table)


def row_by(rows: cached_property[tuple[T, ...]], field: str) -> Callable[[Any, object], T | None]:
    """A method of Knowledge: of these rows the one whose field has this value; None where there is none."""

    def find(knowledge: Any, value: object) -> T | None:
        return next((row for row in rows.__get__(knowledge) if getattr(row, field) == value), None)

    return find


def index(rows: Iterable[T], keys: Callable[[T], tuple[int | str | None, ...]]) -> dict[int | str, T]:
    """Rows by number and by every name; a number may be given as digits."""
    found: dict[int | str, T] = {}
    for row in rows:
        for key in keys(row):
            if key is not None:
                found[key] = row
                found[str(key)] = row
    return found
