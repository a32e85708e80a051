"""Carries out experiments: the ladder once more, in a child that differs from the first run in one respect.

It has what every child has: what inherited.py hands on, a limit, its own session, and its end with the doctor's. Nothing is written. Only
names of variables and numbers of entries stand in the evidence.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence

from cudadoctor.knowledge.experiments import Experiments
from cudadoctor.model.evidence import Evidence, Item
from cudadoctor.model.experiments import PREFIX, Change, Try
from cudadoctor.parsers import tries
from cudadoctor.sources import inherited, trust
from cudadoctor.sources.children import Child, watch
from cudadoctor.sources.interpreters import worker_path
from cudadoctor.sources.keeping import Keeper
from cudadoctor.sources.probes import ANSWER_LIMIT
from cudadoctor.sources.spawning import uninterrupted

BUDGET = 8.0  # seconds for all experiments of one check
NARROWING = 12.0  # and so many more where one helped: the one variable is named, and the failure shown once more
LEAST = 0.3  # with less left none is begun


class Laboratory:
    """The experiments of one check. `toolkits`: the places to which CUDA_HOME may be set. `timeout` in seconds."""

    def __init__(
        self, evidence: Evidence, table: Experiments, *, toolkits: Sequence[str], timeout: float, startup: Sequence[str] = ()
    ) -> None:
        self.python, self.table, self.toolkits = evidence.python or sys.executable, table, toolkits
        self.startup = startup
        self.begun, self.timeout = time.monotonic(), timeout
        self.end = self.begun + min(BUDGET, timeout)
        self.keeper = Keeper()
        self.count = 0

    def close(self) -> None:
        self.keeper.close()

    def narrow(self) -> None:
        """One experiment helped: those that follow tell what of it did."""
        self.end = self.begun + min(BUDGET + NARROWING, self.timeout)

    def carry_out(self, what: Try, *, least: float = LEAST) -> Item | None:
        """One experiment as evidence; None where less than `least` seconds are left or it may not be done."""
        left = self.end - time.monotonic()
        environment = self.environment(what.change)
        passed_over = what.change.without_start
        if left < max(least, LEAST) or environment is None or (passed_over is not None and passed_over >= len(self.startup)):
            return None
        self.count += 1
        python = sys.executable if what.change.own_python else self.python
        flags = ["-s"] if what.change.no_user_site else []
        flags += ["-S"] if passed_over is not None else []  # the worker starts the rest
        arguments = ["--no-benchmark", "--stop", what.rung, *(["--gpu", what.gpu] if what.gpu else [])]
        arguments += ["--step", what.step] if what.step else []
        arguments += ["--straight"] if what.straight else []
        arguments += ["--raise-limits"] if what.change.raised_limits else []
        arguments += ["--start-without", self.startup[passed_over]] if passed_over is not None else []
        with uninterrupted():
            child = Child(
                f"{PREFIX}{self.count}",
                "worker",
                [python, "-u", *flags, "-B", worker_path("ladder.py"), *arguments],
                limit=min(left, ANSWER_LIMIT),
                environment=environment,
                shown=(python, "ladder.py", *tries.argv(what)),
                talks=True,
                keeper=self.keeper,
            )
        try:
            child.say("go\n")
            watch([child])
        finally:
            child.kill("interrupted")
        return child.as_item()

    def environment(self, change: Change) -> dict[str, str] | None:
        """The variables of the first run with the change; None where it would lead to what may not be loaded."""
        given = {**inherited.environment(), "CUDA_CACHE_DISABLE": "1"}
        for name in change.unset:
            given.pop(name, None)
        for entry in change.left_out:
            places = self.table.entries(entry.variable, os.environ.get(entry.variable, ""))
            gone = places[entry.number] if entry.number < len(places) else None
            kept = [place for place in self.table.entries(entry.variable, given.get(entry.variable, "")) if place != gone]
            given[entry.variable] = ":".join(kept)
            if not kept:
                del given[entry.variable]
        if change.own_python:
            given = {name: value for name, value in given.items() if not name.startswith("PYTHON")}
        if change.toolkit is not None:
            if change.toolkit >= len(self.toolkits) or trust.tree(self.toolkits[change.toolkit]) is not None:
                return None
            given.update(CUDA_HOME=self.toolkits[change.toolkit], CUDA_PATH=self.toolkits[change.toolkit])
        return given
