"""Matrix products on the tensor cores beside PyTorch's (cuBLAS), by turns: python -m tests.benchmarks.tensor [ROUNDS]

Needs a GPU of compute capability 9.0, and a PyTorch for the other side. Prints medians and their ratio, the clock under the load and the
share of what the chip can do at that clock; both sides multiply the same random matrices of 8192 x 8192.
"""

from __future__ import annotations

import itertools
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "cudadoctor" / "workers"))
from cudadoctor_lines import sibling  # which takes that folder off the path again

PER_CYCLE = {"fp16": 2048, "bf16": 2048, "tf32": 1024, "fp8": 4096, "int8": 4096, "fp64": 128}  # multiply-adds of an SM, dense
FIGURES = ("tensor", "product")


def ours() -> Any:
    """The worker's own class, on the first GPU, in this process."""
    driver_of, steps, card = (sibling(name) for name in ("driver", "gpu_steps", "bench_card"))
    driver = driver_of.Driver(driver_of.open_library())
    driver.call("cuInit", 0)
    gpu = steps.Gpu(driver, steps.describe(driver, 0))
    gpu.context()
    return sibling("bench_tensor").Tensor(card.Card(driver, gpu, short=False))


def theirs(tensor: Any, kind: str) -> Any:
    """PyTorch's product of the very same operands, as a function that gives its TFLOP/s; None where there is no PyTorch."""
    try:
        import torch
    except ImportError:
        return None
    torch.backends.cuda.matmul.allow_tf32 = True
    types = {"bf16": torch.bfloat16, "fp16": torch.float16, "tf32": torch.float32, "fp8": torch.float8_e4m3fn, "int8": torch.int8}
    size, *buffers = tensor.given(kind)[:3]
    width = sibling("tensor_ptx").KINDS[kind][0]
    raw = (torch.frombuffer(bytearray(tensor.read(buffer.value, size * size * width)), dtype=torch.uint8) for buffer in buffers)
    a, b = (one.cuda().view(types[kind]).reshape(size, size) for one in raw)
    one = torch.tensor(1.0, device="cuda")

    def product() -> Any:
        if kind == "fp8":
            return torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
        return torch._int_mm(a, b.t()) if kind == "int8" else a @ b.t()

    def rate() -> float:
        """As ours is measured: all queued at once, the median of five samples after the power limit has bound."""
        bench = sibling("bench_tensor")
        events = [torch.cuda.Event(enable_timing=True) for _ in range(8)]
        for event in events[:2]:
            event.record()
            product()
        torch.cuda.synchronize()
        once = max(events[0].elapsed_time(events[1]), 0.01) / 1000
        for _ in range(int(bench.WARM_SECONDS / once) + 1):
            product()
        count = max(1, int(bench.SAMPLE_SECONDS / once))
        events[2].record()
        for event in events[3:]:
            for _ in range(count):
                product()
            event.record()
        torch.cuda.synchronize()
        milliseconds = statistics.median(a.elapsed_time(b) / count for a, b in itertools.pairwise(events[2:]))
        return float(2 * size**3 / milliseconds / 1e9)

    return rate


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    tensor = ours()
    print(f"{'figure':14} {'ours':>9} {'PyTorch':>9} {'ratio':>6} {'cuBLAS':>9} {'clock':>9} {'of limit':>8} {'spread':>7}")
    for what in FIGURES:
        for kind in ("bf16", "fp16", "tf32", "fp8", "int8", *(("fp64",) if what == "tensor" else ())):
            records, rates = [], []
            other = theirs(tensor, kind) if what == "product" else None
            for _ in range(rounds):
                records.append(tensor.one(f"{what}_{kind}"))
                if other is not None:
                    rates.append(other())
            value, clock = (statistics.median(record[key] for record in records) for key in ("value", "clock_mhz"))
            limit = records[0]["sm_count"] * PER_CYCLE[kind] * 2 * clock / 1e6
            spread = (max(record["value"] for record in records) - min(record["value"] for record in records)) / value
            rate = statistics.median(rates) if rates else 0.0
            cublas = (
                statistics.median(tensor.one(f"cublas_{kind}")["value"] for _ in range(3)) if what == "product" and kind != "fp8" else 0
            )
            ratio = f"{value / rate:6.3f}" if rate else "      "
            print(
                f"{what + '_' + kind:14} {value:9.1f} {rate:9.1f} {ratio} {cublas:9.1f} {clock:6.0f} MHz {value / limit:8.3f} {spread:7.3f}",
                flush=True,
            )
    tensor.close()


if __name__ == "__main__":
    main()
