"""How fast the doctor is, as ratios: alternates two sides nine times, warm, and prints medians of the time and the least CPU time.

    python tests/benchmarks/speed.py [--python PATIENT]

Each command against a bare Python. With a GPU also `check --quick` against a bare ctypes cuInit, and the full `check` against the
smallest one-kernel Numba script (the GPU time that the mini benchmark reports is printed beside it). On a busy machine the CPU time, all
children's together, says more. A checkout without byte code is compiled at each start: `python -m compileall -q cudadoctor` first.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

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


BARE = [sys.executable, "-c", "pass"]
TEXT = "RuntimeError: CUDA error: no kernel image is available for execution on the device"
COMMANDS = (("--help",), ("explain", "Xid 79"), ("explain", TEXT), ("check", "--quick"), ("check",))


class Spent(NamedTuple):
    """Seconds on the clock, and of CPU time with all children."""

    clock: float
    cpu: float


def seconds(argv: Sequence[str]) -> Spent:
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment, check=False)
    ended, after = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    return Spent(ended - started, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def compare(name: str, ours: Sequence[str], theirs: Sequence[str]) -> None:
    """Both sides, run in turns after one warm-up each."""
    seconds(ours), seconds(theirs)
    a, b = [], []
    for _ in range(ROUNDS):
        a.append(seconds(ours))
        b.append(seconds(theirs))
    left, right = (statistics.median(one.clock for one in side) for side in (a, b))
    cpu, least = (min(one.cpu for one in side) for side in (a, b))
    print(
        f"{name}: {left:.3f} s against {right:.3f} s, ratio {left / right:.2f}, difference {left - right:+.3f} s;"
        f" CPU {cpu:.3f} s against {least:.3f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", default=sys.executable, help="the examined interpreter")
    patient = parser.parse_args().python
    doctor = [sys.executable, "-m", "cudadoctor", "check", "--python", patient]
    for command in COMMANDS:
        patients = ("--python", patient) if command[0] == "check" else ()
        compare(f"{' '.join(command)[:24]} against a bare Python", [sys.executable, "-m", "cudadoctor", *command, *patients], BARE)
    if not os.path.exists("/dev/nvidiactl"):
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
