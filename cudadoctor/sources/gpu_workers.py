"""The workers of `bench` and `smoke`: one process a GPU, all side by side, so that a hang or a crash of one touches no other.

What GPUs share, the way to the host, goes round: a worker asks for its turn and says when it is done. Copies between GPUs come last, when
no GPU has other work of ours.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from cudadoctor.sources import inherited
from cudadoctor.sources.children import Child, watch
from cudadoctor.sources.decoding import json_objects
from cudadoctor.sources.interpreters import worker_path
from cudadoctor.sources.keeping import Keeper
from cudadoctor.sources.spawning import uninterrupted

SPARE = 1.0  # seconds before the end of the run by which a worker ends itself
LEAST = 3.0


def devices(stdout: str, rung: str = "ptx-kernel") -> tuple[int, ...]:
    """The devices on which the ladder's own kernel computed, or another rung held, by the events that it wrote."""
    ends = (line for line in stdout.split("\n") if f'"{rung}"' in line and '"end"' in line and '"pass"' in line)
    gpus = (entry.get("gpu") for entry in json_objects(ends))
    return tuple(dict.fromkeys(gpu for gpu in gpus if isinstance(gpu, int)))


class Turns:
    """Who may use the way to the host: one at a time, in the order of asking."""

    def __init__(self) -> None:
        self.waiting: list[Child] = []
        self.holder: Child | None = None

    def hear(self, child: Child, line: str) -> None:
        """A line of a worker."""
        if '"turn"' not in line[:20] and '"event": "turn"' not in line:
            return
        if '"ask"' in line:
            self.waiting.append(child)
        elif '"done"' in line and self.holder is child:
            self.holder = None
        self.go_on()

    def gone(self, child: Child) -> None:
        """A worker ended, whatever it held or waited for."""
        self.waiting = [one for one in self.waiting if one is not child]
        if self.holder is child:
            self.holder = None
        self.go_on()

    def go_on(self) -> None:
        if self.holder is None and self.waiting:
            self.holder = self.waiting.pop(0)
            self.holder.say("turn\n")


def run(
    name: str,
    gpus: Sequence[int],
    extra: Sequence[str],
    *,
    python: str,
    end: float,
    keeper: Keeper | None,
    started: Callable[[Child], None],
    on_over: Callable[[Child], None],
) -> None:
    """Start on_gpus.py with `name` for each GPU, serve them until all are over, then once more for all pairs of them."""
    turns = Turns()

    def over(child: Child) -> None:
        on_over(child)
        turns.gone(child)

    def start(place: str, arguments: Sequence[str]) -> Child:
        left = end - time.monotonic()
        ends = ["--limit-seconds", f"{max(LEAST, left - SPARE):.1f}"]
        argv = [python, "-u", "-B", worker_path("on_gpus.py"), name, *arguments, *extra, *ends]
        with uninterrupted():
            child = Child(
                f"{'benchmark' if name == 'bench' else name}-{place}",
                "worker",
                argv,
                limit=max(LEAST, left),
                environment={**inherited.environment(), "CUDA_CACHE_DISABLE": "1"},
                shown=(python, "on_gpus.py", name, *arguments),
                talks=True,
                keeper=keeper,
            )
            child.on_line = lambda line: turns.hear(child, line)
            started(child)
        if child.over:
            over(child)
        return child

    watch([start(str(gpu), ["--gpu", str(gpu)]) for gpu in gpus], on_over=over)
    if len(gpus) > 1 and end - time.monotonic() > LEAST:
        watch([start("peers", ["--peers", ",".join(str(gpu) for gpu in gpus)])], on_over=over)
