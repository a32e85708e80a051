"""How near `cudadoctor bench` comes to what the machine can do, as ratios, and how well two runs agree.

    python tests/benchmarks/figures.py [--python PATIENT]

PATIENT is an interpreter with PyTorch, whose copies within a GPU and between two are the yardstick; without it those ratios are left out.
Runs on a machine with a GPU. A ratio below what is asked is marked; the exit code is 1 then.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from typing import Any

PINNED = 54.8  # GB/s asked on PCIe 5.0 x16: 0.99 of what nvbandwidth's copy engine gave on the H200
LIMIT = 20.0  # seconds for one GPU
TORCH = """
import json, torch
def rate(copy, size, times=10):
    for _ in range(4): copy()
    rates = []
    for _ in range(5):
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(times): copy()
        stop.record(); stop.synchronize()
        rates.append(size * times / start.elapsed_time(stop) / 1e6)
    return sorted(rates)[2]
a = torch.empty(1 << 30, dtype=torch.uint8, device="cuda:0").random_(); b = torch.empty_like(a)
found = {"d2d": 2 * rate(lambda: b.copy_(a), a.numel())}
for other in range(1, torch.cuda.device_count()):
    c = torch.empty(1 << 28, dtype=torch.uint8, device=f"cuda:{other}")
    found[f"peer 0 {other}"] = rate(lambda: c.copy_(a[: 1 << 28]), c.numel())
print(json.dumps(found))
"""


def bench(python: str) -> tuple[dict[str, dict[str, Any]], float]:
    """The figures by name, with GPU and peer, and the seconds of the run."""
    started = time.perf_counter()
    argv = [sys.executable, "-m", "cudadoctor", "bench", "--python", python, "--format", "json"]
    done = subprocess.run(argv, stdout=subprocess.PIPE, check=False)
    took = time.perf_counter() - started
    report = json.loads(done.stdout)
    named = {}
    for one in report["benchmark"]:
        where = one["gpu"] if one["peer"] is None else f"{one['gpu']} {one['peer']}"
        named[f"{one['name']} {where}"] = one
    return named, took


def torch_figures(python: str) -> dict[str, float]:
    done = subprocess.run([python, "-c", TORCH], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    try:
        found: dict[str, float] = json.loads(done.stdout)
    except ValueError:
        return {}
    return found


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", default=sys.executable, help="an interpreter with PyTorch")
    python = parser.parse_args().python
    first, took = bench(python)
    second, again = bench(python)
    known = torch_figures(python)
    wanting = 0

    def tell(name: str, value: float | None, least: float | None) -> None:
        nonlocal wanting
        low = value is None or (least is not None and value < least)
        wanting += low and least is not None
        asked = "" if least is None else f"  asked {least:g}{'  WANTING' if low else ''}"
        print(f"{name:<58} {value if value is None else f'{value:.4g}'}{asked}")

    gpus = sorted({one["gpu"] for one in first.values()})
    print(f"{len(gpus)} GPU(s): {took:.1f} s and {again:.1f} s ({LIMIT:g} s asked for one GPU)")
    wanting += len(gpus) == 1 and max(took, again) > LIMIT
    for gpu in gpus:
        for name in ("h2d_pinned", "d2h_pinned"):
            tell(f"GPU {gpu}: {name} GB/s", first[f"{name} {gpu}"]["value"], PINNED)
        for name in ("fp32", "fp64"):
            tell(f"GPU {gpu}: {name}, share of SM x lanes x 2 x measured clock", first[f"{name} {gpu}"]["share"], 0.95)
        for name in ("d2d", "d2d_kernel", "device_read", "fp16", "bf16", "shared_memory"):
            tell(f"GPU {gpu}: {name}, share of its limit", first[f"{name} {gpu}"]["share"], None)
    if "d2d" in known:
        tell("GPU 0: d2d against PyTorch's copy_", first["d2d 0"]["value"] / known["d2d"], 0.97)
    for name, rate in known.items():
        if name.startswith("peer") and name in first and first[name]["value"]:
            tell(f"{name} against PyTorch's copy_ ({rate:.0f} GB/s)", first[name]["value"] / rate, 0.97)
    for name, one in first.items():
        other = second.get(name, {}).get("value")
        if one["value"] and other:
            apart = abs(one["value"] - other) / one["value"]
            compared = one["verdict"] != "cannot judge" or one["name"] in ("fp16", "bf16")
            if apart > 0.02:
                print(f"{name:<58} two runs differ by {apart:.1%}{'  WANTING' if compared else ''}")
                wanting += compared
    print("all as asked" if not wanting else f"{wanting} wanting")
    return 1 if wanting else 0


if __name__ == "__main__":
    sys.exit(main())
