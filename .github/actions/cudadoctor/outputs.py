"""Writes the outputs of the action that the report tells: verdict, cause, and whether the runner itself is healthy.

python outputs.py report.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

# Layers of causes that a job brings along; all others are the machine's.
OF_THE_JOB = ("environment", "toolkit", "python", "program")


def outputs(path: str) -> dict[str, str]:
    """Name -> value. Without a report nobody knows anything."""
    try:
        report = json.loads(Path(path).read_text("utf-8"))
    except (OSError, ValueError):
        return {"verdict": "undecided", "cause": "", "runner-healthy": "unknown"}
    root = report["diagnosis"]["root"]
    return {"verdict": report["verdict"], "cause": root["cause"] if root else "", "runner-healthy": healthy(report["verdict"], root)}


def healthy(verdict: str, root: dict[str, str] | None) -> str:
    """A broken runner and a broken change end the same job; this tells which it was."""
    if verdict in ("healthy", "degraded"):
        return "true"
    if root is None:
        return "unknown"
    return "true" if root["layer"] in OF_THE_JOB else "false"


if __name__ == "__main__":
    for name, value in outputs(sys.argv[1]).items():
        print(f"{name}={value}")
