"""One helper that turns an exception of any stage into a crash entry, so that the rest runs and the verdict can say so.

It also says which part of the work begins, for whoever ends a judgement that takes too long (within/).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from cudadoctor.model.findings import Crash

T = TypeVar("T")
P = ParamSpec("P")


def _nobody(part: str) -> None:
    """Whom a part is announced to where nobody waits."""


class Guard:
    """Collects the crashes of one judgement, and the names of what was left out because it takes too long.

    `begins` is told each part: `0/item text` where the first machine's evidence of that id is read, else `0/stage: name`. `too_long`:
    parts of the second kind that did not end in time before; they are not done.
    """

    def __init__(self, begins: Callable[[str], None] = _nobody, too_long: frozenset[str] = frozenset(), machine: int = 0) -> None:
        self.crashes: list[Crash] = []
        self.left_out: list[str] = []
        self.begins, self.too_long, self.machine = begins, too_long, machine
        self._of: dict[int, Guard] = {}

    def of(self, machine: int) -> Guard:
        """That of one of several machines: the same one whenever it is asked for, so that nothing it caught is forgotten."""
        return self._of.setdefault(machine, Guard(self.begins, self.too_long, machine))

    @property
    def failures(self) -> int:
        return len(self.crashes) + len(self.left_out)

    def run(self, stage: str, name: str, otherwise: T, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The function's result, or `otherwise` and a crash entry."""
        part = f"{self.machine}/{stage}: {name}"
        if part in self.too_long:
            self.left_out.append(f"{stage}: {name}")
            return otherwise
        self.begins(part)
        return self._caught(stage, name, otherwise, lambda: function(*args, **kwargs))

    def read(self, item: str, stage: str, name: str, otherwise: T, function: Callable[[], T]) -> T:
        """The same where the time that it takes is the evidence's own: what does not end in time is left out as evidence."""
        self.begins(f"{self.machine}/item {item}")
        return self._caught(stage, name, otherwise, function)

    def _caught(self, stage: str, name: str, otherwise: T, function: Callable[[], T]) -> T:
        try:
            return function()
        except Exception as error:
            self.crashes.append(Crash(stage=stage, name=name, error=f"{type(error).__name__}: {error}"[:500]))
            return otherwise
