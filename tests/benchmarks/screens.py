"""The share of recorded machines whose verdict and last line, the first command, are in sight in a terminal: python -m tests.benchmarks.screens"""

from __future__ import annotations

from tests.command_line import NAMES
from tests.test_screen import SIZES, lines_of, report_of, seen


def main() -> None:
    for width, height in SIZES:
        found = [
            name for name in NAMES if seen(lines_of(name, width, height), width, height)[0].startswith(report_of(name).verdict.upper())
        ]
        print(f"{width} x {height}: {len(found)} of {len(NAMES)} machines ({len(found) / len(NAMES):.0%})")


if __name__ == "__main__":
    main()
