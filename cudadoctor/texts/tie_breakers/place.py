"""Where a text's programs run: container, WSL, batch job, notebook; by marks that a program printed, else by the text's own words."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from cudadoctor.checks.reading import Quotes
from cudadoctor.model.facts import Facts, Key
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import CONTAINER_MARKS, KERNEL, SETTING, WSL, Setting

_PLACES = {"in container": "container", "in WSL": "in_wsl", "in WSL 1": "wsl_1"}
_WSL_1 = lazy(r"4\.4\.0-\d{5}-Microsoft")


class Place:
    """The setting of one text, with the lines that show it."""

    def __init__(self, facts: Facts) -> None:
        self.fact = facts.there(SETTING)
        self.setting = self.fact.need() if self.fact is not None else Setting()
        self.marks = _lines(facts, CONTAINER_MARKS)
        self.wsl = _lines(facts, WSL)
        kernel = facts.value(KERNEL)
        release = kernel.release if kernel is not None else ""
        self._wsl_1 = _lines(facts, KERNEL) if _WSL_1.search(release) else ()
        self._kernel_of_wsl = _lines(facts, KERNEL) if "icrosoft" in release else ()

    def said(self, kind: str) -> Quotes:
        """The line with the first word of this kind."""
        line = self.setting.words.get(kind)
        return self.fact.line_of(line)[:1] if line is not None and self.fact is not None else ()

    def shows(self, where: str) -> Quotes:
        """The same, or the line that shows one of the _PLACES."""
        return getattr(self, _PLACES[where]) if where in _PLACES else self.said(where)

    def shown(self, line: int) -> Quotes:
        return self.fact.line_of(line)[:1] if self.fact is not None else ()

    @property
    def container(self) -> Quotes:
        return self.marks or self.said("container")

    @property
    def in_wsl(self) -> Quotes:
        """A guest of Hyper-V for which the module was built has Windows' folder too, and is called WSL by many: there the kernel counts."""
        if self.said("dxgkrnl-built"):
            return self._kernel_of_wsl or tuple(quote for quote in self.wsl if "icrosoft" in quote.text)
        return self.wsl or self.said("wsl")

    @property
    def wsl_1(self) -> Quotes:
        """The kernel of WSL 1, which has no GPU at all."""
        return self._wsl_1 or self.said("wsl-1")


place_of = lru_cache(maxsize=1)(Place)  # all rules ask it of one text, one after the other


def _lines(facts: Facts, key: Key[Any]) -> Quotes:
    found = facts.there(key)
    return found.some()[:1] if found is not None and found.value else ()
