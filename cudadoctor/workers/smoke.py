"""The smoke test's further steps on one GPU, or with --peers between all of them.

Loaded by on_gpus.py, with `--memory 256MiB --duration 0` among its arguments. Each step begins with the ladder's rung that its failure
would break and ends with a `smoke` event; a failing step ends that rung too, with the words that a user would have seen, so that they are
read like any other evidence. It imports Numba only for the steps that need it.
"""

from __future__ import annotations

import time

from cudadoctor_lines import TYPE_CHECKING, sibling

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

climbing = sibling("climbing")
RungError, UnfitError, WrongError = climbing.RungError, climbing.UnfitError, climbing.WrongError


def prepare(job: Any) -> None:
    """Import Numba: without a context, so that the ladder has the GPU to itself."""
    if "--no-numba" not in job.arguments:
        sibling("smoke_numba").prepare()


def work(job: Any) -> None:
    """Make the context, carry out the steps; with --peers those between the GPUs."""
    worker, arguments = job.worker, job.arguments
    if job.peers:
        sibling("bench_peers").check_all(worker, job.driver, job.gpus, job.watches)
        return
    gpu, watch = job.gpus[0], job.watches[0]
    if not worker.climb("context", gpu.context, gpu.index):
        return
    if "--lesson-only" in arguments:
        sibling("smoke_numba").carry_out(worker, gpu.index, detailed=True, alone=True)
        return
    card = sibling("bench_card").Card(job.driver, gpu, short=True, more=sibling("smoke_ptx").MODULES)
    memory, duration = job.option("--memory", "256MiB"), float(job.option("--duration", "0"))
    test = sibling("smoke_kernels").Kernels(card, watch, memory=memory, duration=duration)
    try:
        for name, rung, action in test.steps:
            if not carry_out(worker, gpu.index, name, rung, action):
                return
        if test.looks:
            worker.emit("load", gpu=gpu.index, load=job.worst(test.looks))
    finally:
        card.close()
    if "--no-numba" not in arguments:
        sibling("smoke_numba").carry_out(worker, gpu.index, detailed="--detailed" in arguments)


def carry_out(worker: Any, gpu: int, name: str, rung: str, action: Callable[[], Any]) -> bool:
    """One step. False: the context can be used no more."""
    started = time.monotonic()
    told: dict[str, Any] = {}

    def climb() -> dict[str, Any]:
        try:
            said = action()
            told["said"], told["planted"] = said if isinstance(said, tuple) else (said, None)
        except UnfitError as error:
            told["unfit"] = str(error)
        except WrongError as error:
            steps = sibling("gpu_steps")
            told["wrong"] = "{}; {}".format(error, steps.repeated(lambda: steps.raises(action)))
            raise RungError("{} on GPU {}: {}".format(name, gpu, told["wrong"]))
        except RungError as error:
            raise RungError("{} on GPU {}: {}".format(name, gpu, error.output), error.code, error.name)
        return {}

    passed = worker.climb(rung, climb, gpu)
    end = {"gpu": gpu, "step": name, "seconds": round(time.monotonic() - started, 6)}
    if told.get("unfit"):
        worker.emit("smoke", status="skip", why=told["unfit"], **end)
    elif passed and "unfit" not in told:  # one that says nothing has no place on this GPU, which is nobody's fault: nothing is said of it
        worker.emit("smoke", status="pass", why=None, said=told["said"], planted=told["planted"], **end)
    elif not passed:
        worker.emit("smoke", status="fail", why=" ".join(worker.last_output.strip().rsplit("\n", 1)[-1].split())[:300], **end)
    return passed or "wrong" in told  # a wrong result leaves the context as it was, an error of the driver does not
