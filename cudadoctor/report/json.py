"""The report as JSON (schema cudadoctor.report/1), and the schema itself."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from cudadoctor.model.pattern import lazy
from cudadoctor.model.report import Report
from cudadoctor.report.clean import clean_json, escaped

_NOT_ASCII = lazy("[^\x00-\x7f]")


def _encodable(thing: Any) -> Any:
    """The same in values that JSON can hold.

    NaN and infinity have no JSON form; msgspec would write null without a word. A byte of a path or variable that is no text (a lone
    surrogate) becomes a question mark, as in a recording.
    """
    if isinstance(thing, float) and not math.isfinite(thing):
        raise ValueError("a figure of the report is not a finite number")
    if isinstance(thing, str):
        return thing if thing.isascii() else thing.encode("utf-8", "replace").decode()
    if isinstance(thing, dict):
        return {_encodable(name): _encodable(value) for name, value in thing.items()}
    if isinstance(thing, list | tuple):
        return [_encodable(value) for value in thing]
    return thing


def ascii_only(body: str) -> str:
    """The same JSON in ASCII: all else stands inside strings, where an escape means the same."""
    return _NOT_ASCII.sub(escaped, body)


def render(report: msgspec.Struct) -> str:
    """Indented JSON with a line break at its end; every key is there."""
    return clean_json(indented(_encodable(msgspec.to_builtins(report))))


def indented(body: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(body), indent=2).decode() + "\n"


def compact(body: Any) -> str:
    """JSON on one line."""
    return clean_json(msgspec.json.encode(_encodable(body)).decode()) + "\n"


def schema(of: type[msgspec.Struct] = Report) -> str:
    """The JSON Schema of what is published: every key is always there, and later releases may add some."""
    whole = msgspec.json.schema(of)
    for part in whole["$defs"].values():
        if part.get("type") == "object":
            part["required"] = list(part["properties"])
            part.pop("additionalProperties", None)
    whole = {"$schema": "https://json-schema.org/draft/2020-12/schema", **whole}
    return indented(whole)
