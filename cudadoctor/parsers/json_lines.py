"""JSON lines as workers write them, read with tolerance: shared by the parsers of worker output.

A line that is no JSON object with an `event` is skipped, a field that is unknown or of the wrong type is left out, strings are
bounded and lose their control characters. Nothing here raises on any text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from math import isfinite
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from cudadoctor.model.facts import Key, Quote, Unknown
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import Value
from cudadoctor.model.version import Version
from cudadoctor.parsers.base import QUOTE_LENGTH, Text

V = TypeVar("V", bound=Value)
STRING_LIMIT = 16_000  # characters of one value
_NUMBERED, _TOO_LONG = lazy(r"\d"), lazy(r"\d{15}")  # no program writes a version of so many digits
_EVENT = '{"event": "'  # how a worker's line begins
_CONTROL = lazy(r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]")
# How Windows says in the exit code that a process crashed.
_CRASHES = {
    0xC0000005: "access violation", 0xC00000FD: "stack overflow", 0xC0000135: "a DLL was not found", 0xC0000139: "a DLL lacks a function",
    0xC000013A: "Ctrl-C", 0xC0000142: "a DLL did not start", 0xC0000374: "heap damaged", 0xC0000409: "aborted by a check",
}  # fmt: skip
_SIGNALS = {4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM", 24: "SIGXCPU", 31: "SIGSYS"}


class Record(msgspec.Struct, frozen=True):
    """One line: its number from 1, its event, its other fields."""

    line: int
    event: str
    fields: dict[str, Any]


def records(body: str | Text) -> Iterator[Record]:
    for number, line in enumerate(body.lines if isinstance(body, Text) else body.split("\n"), 1):
        start = 0 if line.startswith("{") else line.find(_EVENT)  # a start-up hook may have written before it, and ended no line
        if start < 0:
            continue
        try:
            entry = msgspec.json.decode(line[start:])
        except (msgspec.MsgspecError, ValueError, RecursionError):
            continue
        event = entry.get("event") if isinstance(entry, dict) else None
        if isinstance(event, str):
            yield Record(number, event, {name: _bounded(value) for name, value in entry.items() if name != "event"})


def _bounded(value: Any) -> Any:
    """Strings of bearable length and, but for paths, which would be others then, without control characters; figures that are figures."""
    if isinstance(value, str):
        return value[:STRING_LIMIT] if value.startswith("/") else _CONTROL.sub("", value[:STRING_LIMIT])
    if isinstance(value, float) and not isfinite(value):
        return None
    if isinstance(value, list):
        return [_bounded(entry) for entry in value]
    if isinstance(value, dict):
        return {_CONTROL.sub("", str(name)[:200]): _bounded(entry) for name, entry in value.items()}
    return value


# ---------------------------------------------------------------- to typed values
def _version_of(hint: Any) -> type[Version] | None:
    choices = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return next((choice for choice in choices if isinstance(choice, type) and issubclass(choice, Version)), None)


def _as_version(kind: type[Version], value: Any) -> Version | None:
    return kind(value[:100]) if isinstance(value, str) and _NUMBERED.search(value) and not _TOO_LONG.search(value) else None


@cache
def _converters(kind: type[Value]) -> dict[str, Callable[[Any], Any]]:
    """How each field of a value is made from plain JSON."""

    def converter(hint: Any) -> Callable[[Any], Any]:
        version = _version_of(hint)
        if version is not None:
            return lambda value: _as_version(version, value)
        return lambda value: msgspec.convert(value, hint)

    return {name: converter(hint) for name, hint in get_type_hints(kind, include_extras=True).items() if name in kind.__struct_fields__}


def build(kind: type[V], fields: Mapping[str, Any], **fixed: Any) -> V | None:
    """A value from the fields that it knows. One outside its type or its bounds is left out; None where a required one is missing."""
    chosen: dict[str, Any] = {}
    for name, convert in _converters(kind).items():
        if name in fixed or fields.get(name) is None:
            continue
        try:
            made = convert(fields[name])
        except (msgspec.ValidationError, ValueError, RecursionError):
            continue
        if made is not None:
            chosen[name] = made
    try:
        return kind(**chosen, **fixed)
    except TypeError:
        return None


def every(kind: type[V], event: str, entries: Iterable[Record]) -> tuple[V, ...]:
    """The values that the lines of one event make, each with its line where it keeps one."""
    keeps = "line" in kind.__struct_fields__
    made = (build(kind, entry.fields, **({"line": entry.line} if keeps else {})) for entry in entries if entry.event == event)
    return tuple(value for value in made if value is not None)


# ---------------------------------------------------------------- words
def said(source: str, line: int | None, words: str) -> Quote:
    """A quote that a person can read. `line` is the JSON line that holds it."""
    number = line if line is not None and line > 0 else None
    return Quote(source=source, first=number, last=number, text=" ".join(words.split())[:QUOTE_LENGTH] or "nothing")


def mib(size: int | None) -> str:
    return "unknown" if size is None else f"{size / (1 << 20):.0f} MiB"


def ending(text: Text) -> str:
    """How the worker ended, in words."""
    item = text.item
    if item is None:
        return "it ended early"
    if item.status in ("timed-out", "abandoned"):  # a signal was then ours
        return item.why or f"no answer within {item.seconds:.1f} s"
    if item.signal:
        return f"ended by {_SIGNALS.get(item.signal, f'signal {item.signal}')}"
    if item.exit in _CRASHES:
        return f"ended with exit code {item.exit:#x} ({_CRASHES[item.exit]})"
    return item.why or f"ended with exit code {item.exit}" if item.exit or item.why else "it ended early"


def stderr_tail(text: Text, length: int) -> str:
    """The end of what the worker wrote to stderr."""
    body = text.item.stderr if text.item is not None else None
    return _CONTROL.sub("", (body or "")[-length:].replace("\r", "\n")).strip()


def stderr_of_crash(text: Text, length: int) -> str:
    """The same; where Python wrote its stack as it crashed, from there on: the call that crashed comes first."""
    body = text.item.stderr if text.item is not None else None
    stack = (body or "").rfind("Fatal Python error: ")
    return stderr_tail(text, length) if stack < 0 else stderr_tail(text, len(body or "") - stack)[:length]


def last_words(text: Text) -> str:
    """How the worker ended, with the last line of its stderr."""
    last = stderr_tail(text, 2000).splitlines()[-1:]
    return ending(text) + (f" ({last[0][:200]})" if last else "")


def nothing_read(text: Text, what: str, *keys: Key[Any]) -> Iterator[Unknown]:
    """The worker wrote no line that can be read: its facts are unknown, and this says why."""
    for key in keys:
        yield Unknown(key=key.name, why=f"{what} gave no answer: {last_words(text)}")
