"""When the kernel said a line, and when nvidia-smi drew a table: a GPU that a table shows well is over what a log of days before tells.

Shared by the parsers; states no facts of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from cudadoctor.model.addresses import normal_address
from cudadoctor.model.pattern import lazy
from cudadoctor.parsers.base import Text

OVER = timedelta(days=1)  # a table that is drawn sooner after the line may be meant to show its effect
_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTHS = {name: number for number, name in enumerate(_NAMES, 1)}
_TIME = r"(?P<time>\d\d:\d\d:\d\d)"
_LONG = lazy(rf"\b[A-Z][a-z]{{2}} (?P<month>[A-Z][a-z]{{2}}) {{1,2}}(?P<day>\d{{1,2}}) {_TIME} (?P<year>\d{{4}})\b")
_ISO = lazy(rf"\b(?P<year>\d{{4}})-(?P<number>\d\d)-(?P<day>\d\d)[T ]{_TIME}")
_SYSLOG = lazy(rf"^[\s>|]{{0,16}}(?P<month>[A-Z][a-z]{{2}}) {{1,2}}(?P<day>\d{{1,2}}) {_TIME}\b")
_ROW = lazy(r"^[\s>]{0,16}\|.{0,60}\| {0,4}(?P<address>[0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d) ")


def date_of(line: str, year: int | None = None) -> datetime | None:
    """The date that a line carries; syslog writes no year, so `year` is taken for it."""
    found = _LONG.search(line) or _ISO.search(line) or (_SYSLOG.match(line) if year is not None else None)
    if found is None:
        return None
    parts = found.groupdict()
    month = int(parts["number"]) if parts.get("number") else _MONTHS.get(parts.get("month") or "")
    try:
        hours = datetime.strptime(parts["time"], "%H:%M:%S")  # noqa: DTZ007 - a log's clock, compared with the same machine's
        return hours.replace(year=int(parts.get("year") or year or 1), month=month or 0, day=int(parts["day"]))
    except ValueError:
        return None


def well_since(text: Text) -> dict[str, datetime]:
    """GPUs that a dated table of nvidia-smi shows without an error, by address, with the table's date."""
    if "NVIDIA-SMI" not in text.text:
        return {}
    found: dict[str, datetime] = {}
    drawn: datetime | None = None
    for number, line in enumerate(text.lines):
        if "NVIDIA-SMI" in line and "Driver Version" in line:
            above = (date_of(text.lines[before]) for before in range(number - 1, max(-1, number - 4), -1))
            drawn = next((date for date in above if date is not None), None)
        elif drawn is not None and line.lstrip(" \t>").startswith("|"):
            row = _ROW.match(line)
            address = normal_address(row["address"]) if row is not None else None
            below = " ".join(text.lines[number : number + 2])
            if address is not None and "ERR!" not in below and "Unknown Error" not in below:
                found[address] = drawn
    return found


def long_over(events: Iterable[tuple[int, str, str | None]], well: dict[str, datetime]) -> frozenset[int]:
    """Numbers of those lines (number, words, address) that were said more than a day before their GPU was shown to be well."""
    over = set()
    for number, words, address in events:
        drawn = well.get(address or "")
        said = date_of(words, drawn.year) if drawn is not None else None
        if drawn is not None and said is not None and said <= drawn and drawn - said > OVER:
            over.add(number)
    return frozenset(over)
