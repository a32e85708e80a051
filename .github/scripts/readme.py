"""Writes the README's table of causes anew from the causes' own files; tests/test_readme.py compares them.

python .github/scripts/readme.py
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BEGIN, END = "<!-- causes: written by .github/scripts/readme.py -->\n", "<!-- end of causes -->\n"


def with_table(readme: str, table: str) -> str:
    """The README with this table between its marks."""
    before, rest = readme.split(BEGIN, 1)
    return before + BEGIN + "\n" + table + "\n" + END + rest.split(END, 1)[1]


def main() -> None:
    sys.path.insert(0, str(ROOT))
    from cudadoctor.knowledge.load import load
    from cudadoctor.report.markdown_pages import table

    path = ROOT / "README.md"
    path.write_text(with_table(path.read_text("utf-8"), table(load().causes)), "utf-8")


if __name__ == "__main__":
    main()
