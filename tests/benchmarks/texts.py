"""How fast `cudadoctor explain` reads long logs: seconds, peak memory, and the ratio that shows whether it is linear in the input.

    python tests/benchmarks/texts.py [FILE ...]

Without a file four kinds of text are made: a training log (lines that differ in their numbers), the project's own reports shuffled line
by line and word by word, and random letters that repeat nothing. Each is read at 1, 5 and 10 MB (1e6 bytes).
"""

from __future__ import annotations

import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

ROUNDS = 3
SIZES = (1, 5, 10)
REPORTS = Path(__file__).resolve().parents[2] / "fixtures" / "reports"
LETTERS = "abcdefghijklmnopqrstuvwxyz ABCDEFGH:/._-0123456789"


def training() -> Iterator[str]:
    chance = random.Random(1)
    for step in range(10**9):
        yield f"2026-11-21 10:{step // 60 % 60:02d}:{step % 60:02d},123 INFO worker {step % 8}: step {step} loss {chance.random():.4f}"


def reports() -> Iterator[str]:
    chance = random.Random(2)
    lines = [line for path in sorted(REPORTS.glob("*/report.txt")) for line in path.read_text("utf-8", "replace").splitlines()]
    while True:
        yield chance.choice(lines)


def words() -> Iterator[str]:
    chance = random.Random(4)
    every = [word for path in sorted(REPORTS.glob("*/report.txt")) for word in path.read_text("utf-8", "replace").split()]
    while True:
        yield " ".join(chance.choices(every, k=12))


def noise() -> Iterator[str]:
    chance = random.Random(3)
    while True:
        yield "".join(chance.choices(LETTERS, k=60))


def write(lines: Iterator[str], megabytes: int, path: Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        size = 0
        while size < megabytes * 10**6:
            part = "\n".join(islice(lines, 1000)) + "\n"
            size += file.write(part)


def seconds(path: Path) -> float:
    started = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "cudadoctor", "explain", str(path)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
    )
    return time.perf_counter() - started


def measured(path: Path) -> float:
    seconds(path)
    return statistics.median(seconds(path) for _ in range(ROUNDS))


def main() -> None:
    for name in sys.argv[1:]:
        print(f"{name}: {measured(Path(name)):.2f} s for {os.path.getsize(name) / 1e6:.1f} MB")
    with tempfile.TemporaryDirectory() as folder:
        for kind in (training, reports, words, noise) if len(sys.argv) == 1 else ():
            times = []
            for size in SIZES:
                path = Path(folder) / f"{kind.__name__}-{size}.txt"
                write(kind(), size, path)
                times.append(measured(path))
            shown = ", ".join(f"{size} MB {spent:.2f} s" for size, spent in zip(SIZES, times, strict=True))
            print(f"{kind.__name__}: {shown}; 10 MB / 5 MB ratio {times[2] / times[1]:.2f} (linear: at most 2)")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"peak memory of any run: {peak:.0f} MiB")
    code = [sys.executable, "-m", "cudadoctor", "explain", "cuda 100"]
    started = time.perf_counter()
    for _ in range(5):
        subprocess.run(code, stdout=subprocess.DEVNULL, check=True)
    print(f"explain CODE: {(time.perf_counter() - started) / 5 * 1000:.0f} ms")


if __name__ == "__main__":
    main()
