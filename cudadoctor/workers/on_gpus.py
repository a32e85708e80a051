"""Work on GPUs that the ladder found fit, in a process of its own: one GPU, or with --peers all pairs of some.

Started as `[python, "-u", "-B", /abs/on_gpus.py, NAME, "--gpu", N, "--limit-seconds", S, ...]`. NAME is the module beside it whose `work`
measures or tests; this one initialises the driver, describes the GPUs and leaves without tearing anything down. It writes one JSON object a
line, as the ladder does, imports nothing of ours and runs on Python 3.8 and later.
"""

from __future__ import annotations

import sys

sys.path.insert(0, __file__.replace("\\", "/").rpartition("/")[0])
from cudadoctor_lines import TYPE_CHECKING, option, sibling  # which takes that folder off the path again

# isort: split
import os

if TYPE_CHECKING:
    from typing import Any


climbing = sibling("climbing")


class Job:
    """What a module's `work` is given: the worker that speaks, the driver, the GPUs and the arguments."""

    def __init__(self, worker: Any, arguments: list[str]) -> None:
        self.worker, self.arguments = worker, arguments
        climbing.limit_life(float(self.option("--limit-seconds", "60")))
        worker.emit("start", python=sys.executable, version=sys.version.split()[0], quick=False)
        driver, steps, watching = sibling("driver"), sibling("gpu_steps"), sibling("bench_watch")
        self.driver = driver.Driver(driver.open_library())
        self.driver.call("cuInit", 0)
        self.peers = "--peers" in arguments
        indices = [int(part) for part in self.option("--peers", self.option("--gpu", "0")).split(",")]
        self.gpus = [steps.Gpu(self.driver, steps.describe(self.driver, index)) for index in indices]
        library = watching.library()
        self.watches = [watching.Watch(library, gpu.address) for gpu in self.gpus]

    def entered(self) -> bool:
        """Whether the only GPU has a context now; who else computes there is told."""
        gpu, others = self.gpus[0], self.watches[0].others()
        if others is not None:
            self.worker.emit("guest", gpu=gpu.index, **others)
        return bool(self.worker.climb("context", gpu.context, gpu.index))

    def option(self, name: str, otherwise: str) -> str:
        return str(option(self.arguments, name, otherwise))

    @staticmethod
    def worst(looks: list[dict[str, Any]]) -> dict[str, Any]:
        """The moment under load at which most held the clocks down, for the rules about heat and power."""
        return max(looks, key=lambda look: (len(look.get("reasons") or ()), look.get("temperature_c") or 0))


def begin(module: Any, job: Job) -> None:
    """At once; with --ahead what takes no GPU first, and the rest when the ladder is over: at the line `go`."""
    if "--ahead" in job.arguments:
        module.prepare(job)
        if climbing.heard() != b"go":
            return
    module.work(job)


def main(arguments: list[str]) -> None:
    worker = climbing.started()
    name = arguments[0]
    worker.guard(name, lambda: begin(sibling(name), Job(worker, arguments[1:])))
    worker.emit("done")
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
