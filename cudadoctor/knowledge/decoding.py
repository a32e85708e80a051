"""How a knowledge file becomes typed values: one file, a folder of them, rows found by any of their names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, TypeVar, cast

import msgspec
import tomli

from cudadoctor.knowledge.tables import Table

T = TypeVar("T")
_HEAD = ("meta", "sources")
_PARTS: dict[str, dict[str, Any]] = {}  # of each table without a type of its own: what it holds


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


def part_of(file: str, name: str, kind: type[T]) -> cached_property[T]:
    """An attribute of Knowledge: what stands under `name` in tables/`file`.toml, which is decoded as a whole when it is first asked for.

    The parts that Knowledge has of a file are all that it may hold.
    """
    _PARTS.setdefault(file, {})[name] = kind

    def read(knowledge: Any) -> T:
        made = msgspec.defstruct(file, _PARTS[file].items(), bases=(Table,), frozen=True, kw_only=True, forbid_unknown_fields=True)
        return cast("T", getattr(knowledge._table(file, made), name))

    return cached_property(read)


def table_of(file: str, kind: type[T]) -> cached_property[T]:
    """The same for all of a table that has a type of its own."""
    return cached_property(lambda knowledge: knowledge._table(file, kind))


def row_by(rows: cached_property[tuple[T, ...]], *fields: str) -> Callable[[Any, object], T | None]:
    """A method of Knowledge: of these rows the one of which a field has this value; a number may be given as digits, None finds nothing."""

    def find(knowledge: Any, value: object) -> T | None:
        return cast("dict[object, T]", knowledge.once(find, lambda: _index(rows.__get__(knowledge), fields))).get(value)

    return find


def _index(rows: Iterable[T], fields: Iterable[str]) -> dict[object, T]:
    found: dict[object, T] = {}
    for row in rows:
        for key in (getattr(row, field) for field in fields):
            if key is not None:
                found[key] = row
                found[str(key)] = row
    return found
