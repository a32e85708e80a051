"""The benchmark of one GPU: the long form where on_gpus.py loads it, the short one that `check` runs where ladder.py does.

It writes one JSON object a line: `begin` and `end` of the context, then one `benchmark` event a figure, twice over, so that a figure that
was slow once is told from one that is slow. GPUs that share the way to the host take turns: a worker asks for its turn (`turn`, ask), goes
on with figures of the GPU alone until the line `turn` comes on stdin, and says when it is done (`turn`, done). It runs on
Python 3.8 and later.
"""

from __future__ import annotations

import os
import threading
import time

from cudadoctor_lines import TYPE_CHECKING, sibling

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

bench_card, bench_copies, bench_compute, climbing, copy_steps, gpu_steps = (
    sibling(name) for name in ("bench_card", "bench_copies", "bench_compute", "climbing", "copy_steps", "gpu_steps")
)
SHORT_HOST = ("h2d_pinned", "d2h_pinned", "h2d_pageable", "d2h_pageable")
SHORT_DEVICE = ("d2d", "launch_latency", "fp32")
LONG_HOST = ("h2d_pinned", "d2h_pinned", "both_pinned", "h2d_pageable", "d2h_pageable", "both_pageable")
LONG_DEVICE = (
    "d2d", "d2d_kernel", "device_read", "memory_latency", "launch_latency", "launch_queued", "launch_graph", "fp32", "fp64", "fp16",
    "bf16", "shared_memory", "atomics", "atomics_same",
    "tensor_fp16", "tensor_bf16", "tensor_tf32", "tensor_fp8", "tensor_int8", "tensor_fp64",
    "product_bf16", "cublas_bf16", "product_fp16", "cublas_fp16", "product_tf32", "cublas_tf32", "product_fp8", "product_int8",
    "cublas_int8",
)  # fmt: skip
FP4 = ("tensor_fp4",)  # only where warps multiply it
ONCE = ("context_creation", "jit_compile")
RUNS = 2
DISTORTING = {  # variables and what they do to figures
    "CUDA_LAUNCH_BLOCKING": "every launch waits for its kernel",
    "CUDA_FORCE_PTX_JIT": "every kernel is compiled anew",
    "NUMBA_CUDA_DEBUGINFO": "kernels are compiled for debugging",
    "CUDA_INJECTION64_PATH": "a tool is loaded into every CUDA program",
    "NVIDIA_TF32_OVERRIDE": "frameworks compute otherwise than they are told",
}


class Figures:
    """All figures of one card by their names."""

    def __init__(self, driver: Any, gpu: Any, watch: Any, *, short: bool) -> None:
        self.card = bench_card.Card(driver, gpu, short=short)
        self.copies, self.compute = bench_copies.Copies(self.card), bench_compute.Compute(self.card)
        self.tensor: Any = None
        self.card.look = watch.look if watch is not None else None

    def one(self, name: str) -> dict[str, Any]:
        """The fields of one figure; what could not be measured has value null and the reason."""
        started = time.monotonic()
        record: dict[str, Any] = {
            "name": name,
            "value": None,
            "unit": "GB/s" if hasattr(self.copies, name) else bench_compute.UNITS.get(name, "TFLOP/s"),
            "limit": None,
            "limit_from": None,
            "why": None,
        }
        measure = self.measuring(name)
        try:
            record.update(measure())
            if self.card.seen is not None:
                record["load"], self.card.seen = self.card.seen, None
        except copy_steps.WrongError as error:
            record["why"] = record["wrong"] = "{}; {}".format(error, gpu_steps.repeated(lambda: gpu_steps.raises(measure), 1))
        except Exception as error:
            known = isinstance(error, (bench_card.UnfitError, climbing.RungError))
            record["why"] = str(error) if known else "the worker itself failed: {}: {}".format(type(error).__name__, error)
        distorted = [variable for variable in DISTORTING if os.environ.get(variable, "0") not in ("", "0")]
        if os.environ.get("CUDA_DEVICE_MAX_CONNECTIONS") == "1" and name.startswith("both"):
            distorted.append("CUDA_DEVICE_MAX_CONNECTIONS")
        if distorted:
            record["distorted"] = distorted
        record["seconds"] = round(time.monotonic() - started, 6)
        return record

    def measuring(self, name: str) -> Callable[[], Any]:
        if name.partition("_")[0] in ("tensor", "product", "cublas"):
            if self.tensor is None:
                self.tensor = sibling("bench_tensor").Tensor(self.card)
            return lambda: self.tensor.one(name)
        return getattr(self.copies, name, None) or self.compute.measuring(name)  # type: ignore[no-any-return]

    def say(self, emit: Callable[..., None], gpu: int, name: str, **more: Any) -> None:
        """Measure and tell. A wrong result is a rung that broke, whatever it held before: its words are read like any other evidence."""
        record = self.one(name)
        wrong = record.pop("wrong", None)
        emit("benchmark", gpu=gpu, **more, **record)
        if wrong is not None:
            rung = "memory" if hasattr(self.copies, name) else "ptx-kernel"
            words = "{} on GPU {}: {}".format(name, gpu, wrong)
            emit("begin", step=rung, gpu=gpu)
            failed = {"status": "fail", "code": None, "name": None, "output": words, "why": None, "seconds": record["seconds"]}
            emit("end", step=rung, gpu=gpu, **failed)

    def close(self) -> None:
        if self.tensor is not None:
            self.tensor.close()
        self.card.close()


def measure_all(worker: Any, driver: Any, gpus: list[Any]) -> None:
    """The mini benchmark of all GPUs at once; one after the other they use the way to the host, which they share. Whoever waits for it goes
    on with figures of the GPU alone."""
    turn = threading.Lock()

    def one(gpu: Any) -> None:
        gpu.enter()
        figures = Figures(driver, gpu, None, short=True)
        waiting = list(SHORT_DEVICE)
        try:
            with copy_steps.nearby(gpu.address):
                while not turn.acquire(blocking=not waiting):
                    figures.say(worker.emit, gpu.index, waiting.pop(0))
                try:
                    for name in SHORT_HOST:
                        figures.say(worker.emit, gpu.index, name)
                finally:
                    turn.release()
                for name in waiting:
                    figures.say(worker.emit, gpu.index, name)
        finally:
            figures.close()
        gpu.leave()

    threads = [threading.Thread(target=worker.guard, args=("benchmark", lambda gpu=gpu: one(gpu))) for gpu in gpus]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# ------------------------------------------------------------------ the long form
class Turn:
    """The way to the host, which GPUs share: asked for at once, used when the word comes, given back."""

    def __init__(self, worker: Any) -> None:
        self.worker = worker
        self.mine = threading.Event()
        worker.emit("turn", state="ask")
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        line = climbing.heard()
        while line not in (b"turn", None):  # None: nobody is there who could give turns
            line = climbing.heard()
        self.mine.set()

    def __enter__(self) -> None:
        self.mine.wait()

    def __exit__(self, *_: object) -> None:
        self.worker.emit("turn", state="done")


def measure_long(worker: Any, driver: Any, gpu: Any, watch: Any) -> None:
    """All figures, twice over. Copies of both rounds fall into the one turn."""
    figures = Figures(driver, gpu, watch, short=False)
    turn = Turn(worker)
    names = (*LONG_DEVICE, *(FP4 if (gpu.capability or "").startswith("12.") else ()))
    waiting = [(name, number) for number in range(1, RUNS + 1) for name in names]

    def say(name: str, number: int) -> None:
        figures.say(worker.emit, gpu.index, name, run=number)

    try:
        with copy_steps.nearby(gpu.address):
            for name in ONCE:
                say(name, 1)
            while waiting and not turn.mine.is_set():
                say(*waiting.pop(0))
            with turn:
                for number in range(1, RUNS + 1):
                    for name in LONG_HOST:
                        say(name, number)
            while waiting:
                say(*waiting.pop(0))
    finally:
        figures.close()


def work(job: Any) -> None:
    """Make the context, measure; with --peers measure between the GPUs."""
    if job.peers:
        sibling("bench_peers").measure(job.worker, job.driver, job.gpus, job.watches)
    elif job.entered():
        measure_long(job.worker, job.driver, job.gpus[0], job.watches[0])
