"""How fast the doctor is, as ratios: alternates two sides nine times, warm, and prints medians.

    python tests/benchmarks/speed.py [--python PATIENT]

With a GPU: `check --quick` against a bare ctypes cuInit, and the full `check` against the smallest one-kernel Numba script (the GPU
time that the mini benchmark reports is printed beside it). Without a GPU: the full `check` alone.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

ROUNDS = 9
INIT = "import ctypes; ctypes.CDLL('libcuda.so.1').cuInit(0)"
KERNEL = """
import numpy as np
from numba import cuda
@cuda.jit
def increment(a):
    i = cuda.grid(1)
    if i < a.size:
        a[i] += 1
a = np.zeros(1000)
increment[4, 256](a)
cuda.synchronize()
assert a[0] == 1
"""


def seconds(argv: Sequence[str]) -> float:
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    started = time.perf_counter()
    subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment, check=False)
    return time.perf_counter() - started


def compare(name: str, ours: Sequence[str], theirs: Sequence[str]) -> tuple[float, float]:
    """Medians of both sides, run in turns after one warm-up each."""
    seconds(ours), seconds(theirs)
    a, b = [], []
    for _ in range(ROUNDS):
        a.append(seconds(ours))
        b.append(seconds(theirs))
    left, right = statistics.median(a), statistics.median(b)
    print(f"{name}: {left:.3f} s against {right:.3f} s, ratio {left / right:.2f}, difference {left - right:+.3f} s")
    return left, right


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", default=sys.executable, help="the examined interpreter")
    patient = parser.parse_args().python
    doctor = [sys.executable, "-m", "cudadoctor", "check", "--python", patient]
    if not os.path.exists("/dev/nvidiactl"):
        compare("full check, no GPU, against a bare Python", doctor, [sys.executable, "-c", "pass"])
        return
    compare("check --quick against cuInit", [*doctor, "--quick"], [patient, "-c", INIT])
    compare("full check against one Numba kernel", doctor, [patient, "-c", KERNEL])
    answer = subprocess.run([*doctor, "--record", "/tmp/speed.tar.gz", "--format", "json"], capture_output=True, check=False)
    report = json.loads(answer.stdout)
    import tarfile

    with tarfile.open("/tmp/speed.tar.gz") as archive:
        lines = archive.extractfile("evidence/ladder.out.txt").read().decode().splitlines()  # type: ignore[union-attr]
    spent = sum(json.loads(line).get("seconds") or 0 for line in lines if '"benchmark"' in line)
    print(f"verdict {report['verdict']}; the mini benchmark's own time is {spent:.3f} s")


if __name__ == "__main__":
    main()
