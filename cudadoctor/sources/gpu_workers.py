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
AHEAD = "--ahead"  # tells a worker to wait for the line `go` before it makes a context


def listed(stdout: str) -> tuple[int, ...]:
    """The devices that the driver counted, by the events that the ladder wrote."""
    counted = next((entry for entry in json_objects(stdout.split("\n")) if entry.get("step") == "devices" and "devices" in entry), {})
    return tuple(device["index"] for device in counted.get("devices") or () if isinstance(device.get("index"), int))


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


class Workers:
    """The workers of one name, on_gpus.py with it, in the examined Python until `end` (time.monotonic)."""

    def __init__(
        self,
        name: str,
        extra: Sequence[str],
        *,
        python: str,
        end: float,
        keeper: Keeper | None,
        started: Callable[[Child], None],
        on_over: Callable[[Child], None],
    ) -> None:
        self.name, self.extra, self.python, self.end = name, tuple(extra), python, end
        self.keeper, self.started, self.on_over = keeper, started, on_over
        self.turns = Turns()
        self.waiting: dict[int, Child] = {}  # those that were started ahead

    def over(self, child: Child) -> None:
        self.on_over(child)
        self.turns.gone(child)

    def start(self, place: str, arguments: Sequence[str]) -> Child:
        left = self.end - time.monotonic()
        ends = ["--limit-seconds", f"{max(LEAST, left - SPARE):.1f}"]
        with uninterrupted():
            child = Child(
                f"{'benchmark' if self.name == 'bench' else self.name}-{place}",
                "worker",
                [self.python, "-u", "-B", worker_path("on_gpus.py"), self.name, *arguments, *self.extra, *ends],
                limit=max(LEAST, left),
                environment={**inherited.environment(), "CUDA_CACHE_DISABLE": "1"},
                shown=(self.python, "on_gpus.py", self.name, *arguments),
                talks=True,
                keeper=self.keeper,
            )
            child.on_line = lambda line: self.turns.hear(child, line)
            self.started(child)
        if child.over:
            self.over(child)
        return child

    def ahead(self, gpus: Sequence[int]) -> None:
        """Start those of these GPUs while the ladder still climbs: they import what they need, make no context and wait for `run`."""
        self.waiting = {gpu: self.start(str(gpu), ["--gpu", str(gpu), AHEAD]) for gpu in gpus}

    def drop(self, *, but: Sequence[int] = ()) -> None:
        """End those that wait for nothing; what they said is no evidence."""
        for gpu in [gpu for gpu in self.waiting if gpu not in but]:
            self.waiting.pop(gpu).kill("nothing was left to do")

    def run(self, gpus: Sequence[int]) -> None:
        """Serve a worker for each GPU until all are over, then once more for all pairs of them."""
        self.drop(but=gpus)
        for child in self.waiting.values():
            child.say("go\n")
        watch([self.waiting[gpu] if gpu in self.waiting else self.start(str(gpu), ["--gpu", str(gpu)]) for gpu in gpus], on_over=self.over)
        if len(gpus) > 1 and self.end - time.monotonic() > LEAST:
            watch([self.start("peers", ["--peers", ",".join(str(gpu) for gpu in gpus)])], on_over=self.over)
