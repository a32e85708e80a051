"""How long `fleet` takes to read, merge and paint many reports of 8 GPUs each, and what it holds: python -m tests.benchmarks.fleets

Prints the seconds and the memory for growing numbers of nodes, and how the CPU time grew against the number of nodes (1.0 is linear).
"""

from __future__ import annotations

import copy
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.command_line import environment
from tests.test_fleet import BROKEN, report

COUNTS = (1_000, 3_000, 10_000)
GPUS = 8
MEASURED = "h200x2-bench"
FAULTS = (BROKEN, "nouveau-loaded", "driver-version-mismatch")


def _eight(body: dict[str, Any]) -> dict[str, Any]:
    """The report of a node with 8 GPUs, made from one with two."""
    gpu, figures = body["machine"]["gpus"][0], [figure for figure in body["benchmark"] if figure["gpu"] == 0]
    body["machine"]["gpus"] = [{**gpu, "index": number, "cuda_index": number} for number in range(GPUS)]
    body["benchmark"] = [{**figure, "gpu": number} for number in range(GPUS) for figure in figures]
    return body


def _varied(body: dict[str, Any], number: int, draw: random.Random) -> dict[str, Any]:
    body = copy.deepcopy(body)
    body["origin"].update({"host": f"node{number:05}", "boot_id": f"boot {number}"})
    for gpu in body["machine"]["gpus"]:
        gpu["uuid"] = f"GPU-{number}-{gpu['index']}"
    for figure in body["benchmark"]:
        if figure["value"] is not None:
            figure["value"] *= draw.gauss(1, 0.01)
    return body


def _written(folder: Path, count: int) -> int:
    draw = random.Random(count)
    good = _eight(json.loads(report(MEASURED, "node")))
    faults = [json.loads(report(name, "node")) for name in FAULTS if (Path("fixtures/hosts") / name).is_dir()]
    size = 0
    for number in range(count):
        body = json.dumps(_varied(draw.choice(faults) if draw.random() < 0.05 else good, number, draw))
        size += (folder / f"{number}.json").write_text(body)
    return size


def main() -> None:
    print(f"{'nodes':>7} {'GPUs':>7} {'read':>9} {'time':>8} {'CPU':>8} {'memory':>9} {'page':>8} {'growth':>7}")
    before: tuple[int, float] | None = None
    for count in COUNTS:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name, "reports")
            folder.mkdir()
            size, page = _written(folder, count), Path(name, "fleet.html")
            began = time.perf_counter()
            command = [sys.executable, "-P", "-m", "cudadoctor", "fleet", str(folder), "--quiet", "--output", f"html={page}"]
            child = subprocess.Popen(command, env=environment())
            _, _, used = os.wait4(child.pid, 0)
            seconds = time.perf_counter() - began
            cpu = used.ru_utime + used.ru_stime
            growth = f"{cpu / before[1] / (count / before[0]):.2f}" if before is not None else ""
            print(
                f"{count:7} {count * GPUS:7} {size / 1e9:6.2f} GB {seconds:6.1f} s {cpu:6.1f} s {used.ru_maxrss / 2**20:5.2f} GiB "
                f"{page.stat().st_size / 1e6:5.1f} MB {growth:>7}",
                flush=True,
            )
            before = (count, cpu)


if __name__ == "__main__":
    main()
