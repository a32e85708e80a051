"""The message of one entry of the journal where journalctl wrote it with its fields: `-o json` and `-o verbose`."""

from __future__ import annotations

import msgspec

from cudadoctor.model.pattern import lazy

_JSON = lazy(r'^[ \t>|]{0,20}\{[^\n]{0,6000}?"MESSAGE" ?: ?(?P<text>"(?:[^"\\]|\\.){0,4000}")')
_VERBOSE = lazy(r"^[ \t>|]{0,20}MESSAGE=(?P<text>.*)$")
_STAMP = lazy(r'"__MONOTONIC_TIMESTAMP" ?: ?"(?P<microseconds>\d{1,18})"')


def message(line: str) -> str | None:
    """What was said; None where the line is no such entry."""
    if '"MESSAGE"' in line and (found := _JSON.match(line)) is not None:
        try:
            return msgspec.json.decode(found["text"], type=str)
        except msgspec.DecodeError:
            return None
    found = _VERBOSE.match(line) if "MESSAGE=" in line else None
    return found["text"] if found is not None else None


def seconds(line: str) -> float | None:
    """The time since the boot, which no other field of an entry tells."""
    found = _STAMP.search(line)
    return int(found["microseconds"]) / 1e6 if found is not None else None
