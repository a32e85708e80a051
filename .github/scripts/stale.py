"""The rows of the knowledge tables that were last compared with their source long ago.

    stale.py [--days 365] [--on 2027-11-25] [TABLE ...]   one line for each such row, oldest first; exit 1 where there are any

A row's day is its own `read`, else the head's `<list>_read`, else the head's `read`: the order in which `source` is looked up too. Set a
row's `read` when you have read its source again; when you have read those of all rows, set the head's and take the rows' own away.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

TABLES = Path(__file__).resolve().parents[2] / "cudadoctor" / "knowledge" / "tables"
YEAR = 365


class Dated(NamedTuple):
    """A row, and the day on which what it says was read from its source."""

    read: date
    table: str
    rows: str
    row: str


def rows_of(table: str, raw: Mapping[str, Any]) -> Iterator[Dated]:
    """Every row of a file; a list that has none but plain values, or a section of named values, counts as one."""
    meta = raw.get("meta", {})
    for name, rows in raw.items():
        if name in ("meta", "sources"):
            continue
        shared = meta.get(f"{name}_read", meta.get("read"))
        lone = not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows)
        for row in [{}] if lone else rows:
            yield Dated(_day(row.get("read", shared), f"{table}.toml, {name}: {row}"), table, name, _called(row))


def _called(row: Mapping[str, Any]) -> str:
    """The row's first value, which is what tells it from its neighbours in all of the tables."""
    return next((f"{key} {value}" for key, value in row.items() if isinstance(value, (str, int))), "all of it")[:80]


def _day(text: object, row: str) -> date:
    try:
        return date.fromisoformat(str(text))
    except ValueError:
        raise ValueError(f"{row[:120]}: no day on which it was read ({text})") from None


def read_before(day: date, tables: Mapping[str, str]) -> list[Dated]:
    """The rows that nobody read since that day, oldest first. `tables`: a file's name without its ending -> its TOML."""
    rows = (row for name, text in tables.items() for row in rows_of(name, msgspec.toml.decode(text)))
    return sorted(row for row in rows if row.read < day)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--days", type=int, default=YEAR, help="how old is too old (%(default)s)")
    parser.add_argument("--on", type=date.fromisoformat, default=None, help="the day to count back from (today)")
    parser.add_argument("tables", nargs="*", help="only these (all)")
    options = parser.parse_args(arguments)
    today = options.on if options.on is not None else date.today()  # noqa: DTZ011 - a day of the calendar, wherever one reads it
    texts = {path.stem: path.read_text("utf-8") for path in sorted(TABLES.glob("*.toml"))}
    unknown = sorted(set(options.tables) - set(texts))
    if unknown:
        parser.error(f"no such table: {', '.join(unknown)}")
    old = read_before(today - timedelta(days=options.days), {name: texts[name] for name in options.tables or texts})
    for row in old:
        print(f"{row.read}\t{row.table}\t{row.rows}\t{row.row}")
    print(f"{len(old)} rows were read more than {options.days} days before {today}", file=sys.stderr)
    return 1 if old else 0


if __name__ == "__main__":
    sys.exit(main())
