"""Draws the README's picture from what `cudadoctor check` prints of a recorded machine; tests/test_readme.py compares.

python .github/scripts/picture.py
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).resolve().parents[2]
HOST = "fixtures/hosts/h200-visible-devices-word"
COMMAND = f"cudadoctor check --replay {HOST}"
COLUMNS = 100
# Contrast of 7:1 and more on the dark ground.
THEME = TerminalTheme(
    (16, 20, 24),
    (230, 237, 243),
    [(110, 118, 129), (255, 143, 136), (86, 211, 100), (227, 179, 65), (121, 192, 255), (200, 166, 255), (118, 227, 234), (230, 237, 243)],
)


def main() -> None:
    argv = [sys.executable, "-m", "cudadoctor", *COMMAND.split()[1:], "--color", "always"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, env={"COLUMNS": str(COLUMNS), "LC_ALL": "C.UTF-8"})
    console = Console(record=True, width=COLUMNS, file=open("/dev/null", "w"), force_terminal=True, color_system="standard")  # noqa: SIM115
    console.print(Text("$ cudadoctor check", style="bold"))
    for line in done.stdout.splitlines():
        console.print(Text.from_ansi(line), soft_wrap=True)
    console.print()  # the last line's descenders are cut
    drawn = console.export_svg(title="cudadoctor", theme=THEME, unique_id="check")
    # No font is loaded: the picture is the same offline, and the reader's own monospaced font does.
    drawn = re.sub(r"@font-face \{.*?\}\n", "", drawn, flags=re.DOTALL).replace("Fira Code, monospace", "ui-monospace, monospace")
    (ROOT / ".github" / "picture.svg").write_text("".join(f"{line.rstrip()}\n" for line in drawn.splitlines()), "utf-8")


if __name__ == "__main__":
    main()
