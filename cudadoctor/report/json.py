"""The report as JSON (schema cudadoctor.report/1), and the schema itself."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from cudadoctor.model.explanation import Explanation
from cudadoctor.model.report import Report


def _finite(thing: Any) -> Any:
    """NaN and infinity have no JSON form; msgspec would write null without a word."""
    if isinstance(thing, float) and not math.isfinite(thing):
        raise ValueError("a figure of the report is not a finite number")
    if isinstance(thing, dict):
        for value in thing.values():
            _finite(value)
    elif isinstance(thing, list | tuple):
        for value in thing:
            _finite(value)
    return thing


def render(report: Report | Explanation) -> str:
    """Indented JSON with a line break at its end; every key is there."""
    body = _finite(msgspec.to_builtins(report))
    return msgspec.json.format(msgspec.json.encode(body), indent=2).decode() + "\n"


def schema() -> str:
    """The JSON Schema of the report."""
    return msgspec.json.format(msgspec.json.encode(msgspec.json.schema(Report)), indent=2).decode() + "\n"
