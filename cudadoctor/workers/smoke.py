"""The smoke test's further steps on one GPU, or with --peers between all of them.

Loaded by on_gpus.py, with `--memory 256MiB --duration 0` among its arguments. Each step begins with the ladder's rung that its failure
would break and ends with a `smoke` event; a failing step ends that rung too, with the words that a user would have seen, so that they are
read like any other evidence. It imports nothing of ours, and Numba only for the steps that need it.
"""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def work(job: Any) -> None:
    """Make the context, carry out the steps; with --peers those between the GPUs."""
    ladder, worker, arguments = job.ladder, job.worker, job.arguments
    if job.peers:
        ladder.sibling("bench_peers").check_all(worker, ladder.sibling, job.driver, job.gpus, job.watches)
        return
    gpu, watch = job.gpus[0], job.watches[0]
    if not worker.climb("context", gpu.context, gpu.index):
        return
    if "--lesson-only" in arguments:
        ladder.sibling("smoke_numba").carry_out(ladder, worker, gpu.index, detailed=True, alone=True)
        return
    modules = ladder.sibling("smoke_ptx").Modules(ladder.sibling("bench_ptx"))
    card = ladder.sibling("bench_card").Card(job.driver, gpu, ladder.sibling, modules, short=True)
    memory, duration = job.option("--memory", "256MiB"), float(job.option("--duration", "0"))
    test = ladder.sibling("smoke_kernels").Kernels(card, watch, memory=memory, duration=duration)
    try:
        card.prepare()
        for name, rung, action in test.steps:
            if not carry_out(ladder, worker, gpu.index, name, rung, action):
                return
        if test.looks:
            worker.emit("load", gpu=gpu.index, load=job.worst(test.looks))
    finally:
        card.close()
    if "--no-numba" not in arguments:
        ladder.sibling("smoke_numba").carry_out(ladder, worker, gpu.index, detailed="--detailed" in arguments)


def carry_out(ladder: Any, worker: Any, gpu: int, name: str, rung: str, action: Callable[[], str | None]) -> bool:
    """One step. False: the context can be used no more."""
    started = time.monotonic()
    said: list[str | None] = [None]
    unfit: list[str] = []
    wrong: list[str] = []

    def climb() -> dict[str, Any]:
        try:
            said[0] = action()
        except Exception as error:
            if type(error).__name__ == "UnfitError":
                unfit.append(str(error))
            elif type(error).__name__ == "WrongError":
                steps = ladder.sibling("gpu_steps")
                words = "{}; {}".format(error, steps.repeated(lambda: steps.raises(action)))
                wrong.append("{} on GPU {}: {}".format(name, gpu, words))
                raise ladder.RungError(wrong[0])
            else:
                output, code = getattr(error, "output", None), getattr(error, "code", None)
                if output is None:
                    raise
                raise ladder.RungError("{} on GPU {}: {}".format(name, gpu, output), code, getattr(error, "name", None))
        return {}

    outcome = worker.climb(rung, climb, gpu)
    seconds = round(time.monotonic() - started, 6)
    if unfit:
        if unfit[0]:  # else it has no place on this GPU, which is nobody's fault: nothing is said of it
            worker.emit("smoke", gpu=gpu, step=name, status="skip", why=unfit[0], seconds=seconds)
        return True
    if outcome:
        worker.emit(
            "smoke", gpu=gpu, step=name, status="pass", why=None, said=said[0], seconds=seconds, planted=getattr(said[0], "planted", None)
        )
        return True
    worker.emit("smoke", gpu=gpu, step=name, status="fail", why=worker.last_output, seconds=seconds)
    return bool(wrong)  # a wrong result leaves the context as it was, an error of the driver does not
