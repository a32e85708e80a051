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

REPEATED = 2  # times that a wrong result is looked at again


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
    memory = ladder.sibling("copy_steps").available_memory
    card = ladder.sibling("bench_card").Card(job.driver, gpu, modules, short=True, host_memory=memory)
    kernels = ladder.sibling("smoke_kernels")
    test = kernels.Kernels(
        card,
        watch,
        memory=job.option("--memory", "256MiB"),
        duration=float(job.option("--duration", "0")),
    )
    try:
        card.prepare()
        for name, rung, action in test.steps:
            if not carry_out(ladder, kernels, worker, gpu.index, name, rung, action):
                return
        report_load(worker, gpu.index, getattr(test, "looks", []))
    finally:
        card.close()
    if "--no-numba" not in arguments:
        ladder.sibling("smoke_numba").carry_out(ladder, worker, gpu.index, detailed="--detailed" in arguments)


def carry_out(ladder: Any, kernels: Any, worker: Any, gpu: int, name: str, rung: str, action: Callable[[], str | None]) -> bool:
    """One step. False: the context can be used no more."""
    started = time.monotonic()
    said: list[str | None] = [None]
    unfit: list[str | None] = []
    wrong: list[str] = []

    def climb() -> dict[str, Any]:
        try:
            said[0] = action()
        except kernels.Unfit:
            unfit.append(None)
        except Exception as error:
            if type(error).__name__ == "UnfitError":
                unfit.append(str(error))
            elif type(error).__name__ in ("Wrong", "WrongError"):
                wrong.append("{} on GPU {}: {}".format(name, gpu, again(kernels, action, error)))
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
        if unfit[0] is not None:
            worker.emit("smoke", gpu=gpu, step=name, status="skip", why=unfit[0], seconds=seconds)
        return True
    if outcome:
        worker.emit(
            "smoke", gpu=gpu, step=name, status="pass", why=None, said=said[0], seconds=seconds, planted=getattr(said[0], "planted", None)
        )
        return True
    worker.emit("smoke", gpu=gpu, step=name, status="fail", why=worker.last_output, seconds=seconds)
    return bool(wrong)  # a wrong result leaves the context as it was, an error of the driver does not


def again(kernels: Any, action: Callable[[], str | None], error: Exception) -> str:
    """What was wrong, and whether it is wrong again: chance, or a GPU that computes wrong."""
    repeated = 0
    for _ in range(REPEATED):
        try:
            action()
        except Exception:
            repeated += 1
    words = "wrong again when repeated ({} of {} times)" if repeated else "right when repeated ({} of {} times)"
    return "{}; {}".format(error, words.format(repeated or REPEATED, REPEATED))


def report_load(worker: Any, gpu: int, looks: list[dict[str, Any]]) -> None:
    """The moment under load at which most held the clocks down, for the rules about heat and power."""
    if looks:
        worst = max(looks, key=lambda look: (len(look.get("reasons") or ()), look.get("temperature_c") or 0))
        worker.emit("load", gpu=gpu, load=worst)
