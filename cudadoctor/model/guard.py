"""One helper that turns an exception of any stage into a crash entry, so that the rest runs and the verdict can say so."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from cudadoctor.model.diagnosis import Crash

T = TypeVar("T")
P = ParamSpec("P")


class Guard:
    """Collects the crashes of one judgement."""

    def __init__(self) -> None:
        self.crashes: list[Crash] = []

    def run(self, stage: str, name: str, otherwise: T, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The function's result, or `otherwise` and a crash entry."""
        try:
            return function(*args, **kwargs)
        except Exception as error:
            self.crashes.append(Crash(stage=stage, name=name, error=f"{type(error).__name__}: {error}"[:500]))
            return otherwise
