"""Rows on a terminal while the run goes on: each is written to stderr once all it reads has arrived.

Only for people: piped, nothing is written. What a row says here is what is known so far; the report says what it means.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TextIO

from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.evidence import Evidence, Item
from cudadoctor.sources.platforms import probes_of

OF_WORKERS = {"bench": "benchmark", "smoke": "smoke"}  # the row that waits for the workers on the GPUs
ROWS_OF_THE_LADDER = ("libcuda", "visible-devices", "numba", "processes", "smoke", "benchmark")


class Progress:
    """Takes evidence as it arrives and writes a line for each row that is complete."""

    def __init__(
        self,
        stream: TextIO,
        *,
        color: bool,
        knowledge: Callable[[], Knowledge],
        wants: Callable[[str], bool],
        on_gpus: tuple[str, ...] = (),
    ) -> None:
        self.stream, self.color, self.knowledge, self.wants = stream, color, knowledge, wants
        self.last = {OF_WORKERS[worker] for worker in on_gpus if worker in OF_WORKERS}
        self.items: dict[str, Item] = {}
        self.shown: set[str] = set()
        self.expected = {probe.id for probe in probes_of(sys.platform) if not probe.instead_of}

    def __call__(self, item: Item) -> None:
        self.items[item.id] = item
        worker, _, place = item.id.partition("-")
        if worker in self.last and place:
            where = "between the GPUs" if place == "peers" else f"GPU {place}"
            self.stream.write(f"{self._name(worker)} {where}: {'done' if item.status == 'ok' else item.status} in {item.seconds:.1f} s\n")
            self.stream.flush()
            return
        if item.kind in ("worker", "command"):  # files arrive all at once, before any row can be complete
            self.update(final=False)

    def _name(self, row: str) -> str:
        return f"\x1b[2m{row:<16}\x1b[0m" if self.color else f"{row:<16}"

    def close(self) -> None:
        self.update(final=True)

    def complete(self, row: str, items: tuple[str, ...]) -> bool:
        """Whether all that a row's line needs has arrived.

        The ladder ends last. Rules of most rows read it, to see what works; the lines of those rows say nothing of it.
        """
        if row in self.last:
            return False
        late = () if row in ROWS_OF_THE_LADDER else ("ladder", "kernel-log", "dev-after")
        return all(item in self.items for item in items if item in self.expected and item not in late)

    def update(self, *, final: bool) -> None:
        from cudadoctor.checks.rows import describe, of
        from cudadoctor.model.guard import Guard
        from cudadoctor.parsers.read import read
        from cudadoctor.report.clean import one_line

        knowledge = self.knowledge()
        ready = [
            check
            for check in of(knowledge)
            if check.id not in self.shown and self.wants(check.id) and (final or self.complete(check.id, check.items))
        ]
        if not ready:
            return
        guard = Guard()
        facts = read(Evidence(items=tuple(self.items.values())), guard, knowledge.more_parsers)
        for check in ready:
            self.shown.add(check.id)
            line = guard.run("describe", check.id, None, describe, check, facts, knowledge)
            if line is not None:
                self.stream.write(f"{self._name(check.id)} {one_line(line.summary)}\n")
        self.stream.flush()
