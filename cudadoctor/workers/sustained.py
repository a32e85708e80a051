"""One GPU under the load of its tensor cores for as long as was asked: throughput, clock, power and heat over time.

Loaded by on_gpus.py, with `--seconds 20` among its arguments; the other GPUs' workers run beside it. Every sample is written as it comes,
so that whatever ends the run, what was seen until then is told. Nothing is set: clocks and limits stay as they are.
"""

from __future__ import annotations

import ctypes
import time

from cudadoctor_lines import TYPE_CHECKING, sibling

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

bench_card, bench_ptx, bench_tensor = sibling("bench_card"), sibling("bench_ptx"), sibling("bench_tensor")
ptx = sibling("tensor_ptx")
PIECE = 0.25  # seconds of work between two events
LOOK_EVERY = 0.5  # seconds
TURNS = 2048  # of a kernel's loop in one launch
SLOTS = 3  # pieces that are queued at once, so that the GPU never waits for Python


class Sustained:
    """A load on one GPU. `operations`: of one launch; `adds`: its cycles add up in its slot, else they stand in the first."""

    def __init__(self, card: Any, launch: Callable[[int], None], operations: float, kind: str, *, adds: bool) -> None:
        self.card, self.driver, self.launch = card, card.driver, launch
        self.operations, self.kind, self.adds = operations, kind, adds

    def run(self, seconds: float, tell: Callable[..., None], look: Callable[[], dict[str, Any]]) -> list[float]:
        """Work for so long; the TFLOP/s of each piece."""
        card = self.card
        once = max(card.batch(lambda _: self.launch(0), 1), 1e-5)
        count = max(1, int(PIECE / once))
        events = [card.keep(ctypes.c_void_p, "cuEventDestroy_v2", "cuEventCreate", ctypes.c_uint(0)) for _ in range(SLOTS + 1)]
        counted = card.read_out(2 * SLOTS)
        started = time.monotonic()
        rates: list[float] = []
        looked = 0.0
        card.record(events[0])
        queued = done = 0
        while True:
            while queued < done + SLOTS and (queued == 0 or time.monotonic() - started < seconds):
                for _ in range(count):
                    self.launch(queued % SLOTS)
                queued += 1
                card.record(events[queued % (SLOTS + 1)])
            if done == queued:
                return rates
            self.driver.call("cuEventSynchronize", events[(done + 1) % (SLOTS + 1)])
            took = card.elapsed(events[done % (SLOTS + 1)], events[(done + 1) % (SLOTS + 1)])
            rates.append(count * self.operations / took / 1e12)
            clock = self.clock(counted, 2 * (done % SLOTS))
            done += 1
            now = time.monotonic() - started
            if now >= looked or done == queued:
                looked = now + LOOK_EVERY
                tell(at=round(now, 2), value=round(rates[-1], 2), clock_mhz=clock, load=look())

    def clock(self, counted: list[int], at: int) -> float | None:
        """The clock of a piece that has ended. `counted`: the words of all slots as they were before; `at`: of its slot."""
        if not self.adds:
            return self.card.clock_mhz()  # type: ignore[no-any-return]
        before, counted[at : at + 2] = counted[at : at + 2], self.card.read_out(at + 2)[-2:]
        return self.card.clock_of(counted[at] - before[0], counted[at + 1] - before[1])  # type: ignore[no-any-return]


def load_of(tensor: Any) -> Sustained:
    """The heaviest work that this GPU has a kernel of ours for: BF16 products, else the rate kernels, else FP32."""
    card = tensor.card
    card.clear_out()
    if tensor.capability == ptx.HOPPER:
        launch, size = tensor.launching("bf16")
        return Sustained(card, launch, 2.0 * size**3, "bf16", adds=True)
    if tensor.capability >= ptx.KINDS["bf16"][3][2]:
        queue, operations = tensor.instructions("bf16")
        return Sustained(card, lambda _: queue(TURNS), operations * TURNS, "bf16", adds=False)
    kernel, threads = card.kernel("fp32", "fp32"), 256
    blocks = 8 * card.sm_count
    per_turn = 2.0 * bench_ptx.ROUNDS * bench_ptx.CHAINS * threads * blocks

    def single(_: int) -> None:
        card.launch(kernel, blocks, threads, "puff", card.out, TURNS, -1.0, 11.375)

    return Sustained(card, single, per_turn * TURNS, "fp32", adds=False)


def work(job: Any) -> None:
    """Make the context, and keep the GPU busy."""
    worker, gpu, watch = job.worker, job.gpus[0], job.watches[0]
    if job.peers or not job.entered():
        return
    seconds = float(job.option("--seconds", "20"))
    card = bench_card.Card(job.driver, gpu, short=False)
    tensor = bench_tensor.Tensor(card)
    looks: list[dict[str, Any]] = []

    def tell(**fields: Any) -> None:
        looks.append(fields["load"])
        worker.emit("sustained", gpu=gpu.index, unit="TFLOP/s", **fields)

    try:
        load = load_of(tensor)
        rates = load.run(seconds, tell, watch.look)
        if load.kind == "bf16" and tensor.capability == ptx.HOPPER:
            tensor.check("bf16")
    finally:
        tensor.close()
        card.close()
    worker.emit("load", gpu=gpu.index, load=job.worst(looks))
    steady = sorted(rates[len(rates) // 2 :])
    worker.emit(
        "benchmark", gpu=gpu.index, name="sustained_" + load.kind, unit="TFLOP/s", value=round(steady[len(steady) // 2], 2), limit=None,
        limit_from=None, why="the second half of {:g} s".format(seconds), spread=round((steady[-1] - steady[0]) / steady[-1], 4),
    )  # fmt: skip
