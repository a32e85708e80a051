"""Each row of the tables has a day on which its source was read, and the script that lists old rows finds them."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.scripts import SCRIPTS, script

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = SCRIPTS / "stale.py"
TABLE = """
change = [{ branch = 615, change = "a" }, { branch = 610, change = "b", read = "2024-02-01" }]

[meta]
read = "2026-01-01"
change_read = "2025-01-01"

[sources]
book = "A book"

[[row]]
name = "new"
source = "book"

[[row]]
name = "old"
read = "2025-06-30"
source = "book"

[words]
plain = ["a", "b"]
"""


STALE = script("stale")
TABLES = sorted(STALE.TABLES.glob("*.toml"))


def named(day: str) -> list[tuple[str, str, str]]:
    found = STALE.read_before(dt.date.fromisoformat(day), {"things": TABLE})
    return [(str(row.read), row.rows, row.row) for row in found]


def test_a_rows_own_day_goes_before_that_of_its_list_and_that_before_the_files() -> None:
    assert named("2026-01-02") == [
        ("2024-02-01", "change", "branch 610"),
        ("2025-01-01", "change", "branch 615"),
        ("2025-06-30", "row", "name old"),
        ("2026-01-01", "row", "name new"),
        ("2026-01-01", "words", "all of it"),
    ]
    assert [row for _, _, row in named("2026-01-01")] == ["branch 610", "branch 615", "name old"]
    assert named("2024-02-01") == []


def test_a_row_without_a_day_is_an_error_that_names_it() -> None:
    with pytest.raises(ValueError, match=r"things\.toml, row: .*new.*no day"):
        STALE.read_before(dt.date(2026, 1, 1), {"things": TABLE.replace('read = "2026-01-01"\n', "")})


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_every_row_of_the_tables_was_read_on_some_day(path: Path) -> None:
    rows = list(STALE.rows_of(path.stem, msgspec.toml.decode(path.read_text("utf-8"))))
    assert rows
    for row in rows:
        assert dt.date(2026, 1, 1) <= row.read <= dt.datetime.now(dt.timezone.utc).date(), row


def test_the_command_lists_rows_older_than_a_year(tmp_path: Path) -> None:
    def ran(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(SCRIPT), *arguments]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)

    fresh = ran("--on", "2026-11-25")
    assert (fresh.returncode, fresh.stdout) == (0, "")
    old = ran("--on", "2030-01-01", "xid")
    assert old.returncode == 1
    assert "\txid\txid\tnumber 79\n" in old.stdout
    assert "rows were read more than 365 days before 2030-01-01" in old.stderr
    assert ran("no-such-table").returncode == 2


def test_the_weekly_job_calls_it() -> None:
    assert "python .github/scripts/stale.py" in (ROOT / ".github" / "workflows" / "headers.yml").read_text("utf-8")
