"""The smoke test's further steps on one GPU, or with --peers between all of them.

Started as `[python, "-u", "-B", /abs/smoke.py, "--gpu", N, "--memory", "256MiB", "--duration", "0", "--limit-seconds", S]`. Each
step begins with the ladder's rung that its failure would break and ends with a `smoke` event; a failing step ends that rung too, with
the words that a user would have seen, so that they are read like any other evidence. It imports nothing of ours, and Numba only for
the steps that need it.
"""

from __future__ import annotations

import sys

if __name__ == "__main__" and sys.path and not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
    del sys.path[0]  # this folder: its files must not hide modules of the examined interpreter

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
REPEATED = 2  # times that a wrong result is looked at again


def main(arguments: list[str]) -> None:
    """One GPU, or with --peers all pairs of some."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("cudadoctor_ladder", os.path.join(HERE, "ladder.py"))
    assert spec is not None
    assert spec.loader is not None
    ladder = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(ladder)
    worker = ladder.started()
    worker.guard("smoke", lambda: work(ladder, worker, arguments))
    worker.emit("done")
    os._exit(0)


def work(ladder: Any, worker: Any, arguments: list[str]) -> None:
    """Initialise, make the context, carry out the steps."""
    bench = ladder.sibling("bench")
    ladder.limit_life(float(bench.option(arguments, "--limit-seconds", "60")))
    worker.emit("start", python=sys.executable, version=sys.version.split()[0], quick=False)
    driver = ladder.Driver(ladder.open_library())
    driver.call("cuInit", 0)
    steps, watching = ladder.sibling("gpu_steps"), ladder.sibling("bench_watch")
    library = watching.library()
    indices = [int(part) for part in bench.option(arguments, "--peers", bench.option(arguments, "--gpu", "0")).split(",")]
    gpus = [steps.Gpu(driver, steps.describe(driver, index), ladder.RungError) for index in indices]
    if "--peers" in arguments:
        watches = [watching.Watch(library, gpu.address) for gpu in gpus]
        ladder.sibling("bench_peers").check_all(worker, ladder.sibling, driver, gpus, watches)
        return
    gpu = gpus[0]
    if not worker.climb("context", gpu.context, gpu.index):
        return
    if "--lesson-only" in arguments:
        ladder.sibling("smoke_numba").carry_out(ladder, worker, gpu.index, detailed=True, alone=True)
        return
    card = ladder.sibling("bench_card").Card(driver, gpu, ladder.sibling("smoke_ptx").Modules(ladder.sibling("bench_ptx")), short=True)
    kernels = ladder.sibling("smoke_kernels")
    watch = watching.Watch(library, gpu.address)
    test = kernels.Kernels(
        card,
        watch,
        memory=bench.option(arguments, "--memory", "256MiB"),
        duration=float(bench.option(arguments, "--duration", "0")),
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
        worker.emit("smoke", gpu=gpu, step=name, status="pass", why=None, said=said[0], seconds=seconds)
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


if __name__ == "__main__":
    main(sys.argv[1:])
