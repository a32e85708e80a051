"""Rows on a terminal while the run goes on: each is filled in on stderr, with its time, once all it reads has arrived.

Only for people: piped, nothing is written. What a row says here is what is known so far; the report says what it means.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TextIO

from cudadoctor.commands import terminal
from cudadoctor.model.evidence import Evidence, Item
from cudadoctor.model.judgement import RowsWanted
from cudadoctor.sources.probes import PROBES
from cudadoctor.within.asking import Judge

OF_WORKERS = {"bench": "benchmark", "smoke": "smoke"}  # the row that waits for the workers on the GPUs
PATIENCE = 20.0  # seconds that all lines together may take
ROWS_OF_THE_LADDER = ("libcuda", "visible-devices", "numba", "processes", "smoke", "benchmark")


class Progress:
    """Takes evidence as it arrives and writes a line for each row that is complete."""

    def __init__(
        self,
        stream: TextIO,
        *,
        color: bool,
        rows: Callable[[], Mapping[str, tuple[str, ...]]],
        judge: Judge,
        on_gpus: Iterable[str] = (),
    ) -> None:
        """`rows`: those to show, each with the evidence that it reads."""
        self.stream, self.color, self.judge, self.patience = stream, color, judge, PATIENCE
        self.rows: Callable[[], Mapping[str, tuple[str, ...]]] = functools.cache(rows)
        self.started = time.monotonic()
        self.last = {OF_WORKERS[worker] for worker in on_gpus if worker in OF_WORKERS}
        self.items: dict[str, Item] = {}
        self.shown: set[str] = set()
        self.expected = {probe.id for probe in PROBES[sys.platform] if not probe.instead_of}

    def __call__(self, item: Item) -> None:
        self.items[item.id] = item
        worker, _, place = item.id.partition("-")
        if worker in self.last and place:
            where = "between the GPUs" if place == "peers" else f"GPU {place}"
            self._fill_in(worker, f"{where}: {'done' if item.status == 'ok' else item.status} in {item.seconds:.1f} s")
            return
        if item.kind in ("worker", "command"):  # files arrive all at once, before any row can be complete
            self.update(final=False)

    def _fill_in(self, row: str, line: str) -> None:
        """With the time since the start, when the row was complete."""
        terminal.fill_in(f"{row:<16} {time.monotonic() - self.started:4.1f} s", line, self.stream, color=self.color)

    def complete(self, row: str, items: tuple[str, ...]) -> bool:
        """Whether all that a row's line needs has arrived.

        The ladder ends last. Rules of most rows read it, to see what works; the lines of those rows say nothing of it.
        """
        if row in self.last:
            return False
        late = () if row in ROWS_OF_THE_LADDER else ("ladder", "kernel-log", "dev-after")
        return all(item in self.items for item in items if item in self.expected and item not in late)

    def update(self, *, final: bool) -> None:
        from cudadoctor.report.clean import one_line

        ready = [row for row, items in self.rows().items() if row not in self.shown and (final or self.complete(row, items))]
        if not ready or self.patience <= 0:
            return
        self.shown.update(ready)
        asked = time.monotonic()
        lines = self.judge.lines(RowsWanted(evidence=Evidence(items=tuple(self.items.values())), rows=tuple(ready)), seconds=self.patience)
        self.patience -= time.monotonic() - asked
        for row, line in lines.items():
            self._fill_in(row, one_line(line))
