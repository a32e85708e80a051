"""The rest of the way to a running kernel, as a person reads it: one line a stage, and the steps of what is left to do."""

from __future__ import annotations

from collections.abc import Sequence

from cudadoctor.model.recipe import Leg
from cudadoctor.report.text import Page, step_lines

NAMES = {"gpu": "GPU", "driver": "driver", "cuda": "CUDA", "toolkit": "toolkit", "python": "Python", "numba": "Numba", "check": "check"}
STATES = {"fits": "", "by-the-fix": "by the steps above: ", "to-do": "to do: ", "later": "not known yet: "}
_WIDTH = max(map(len, NAMES.values()))


def legs(page: Page, way: Sequence[Leg], done: int) -> None:
    """All stages. `done`: steps that were printed before; the numbers go on."""
    if not way:
        return
    page.gap()
    page.raw("The rest of the way to a running kernel", style="bold")
    if all(leg.state in ("fits", "by-the-fix") for leg in way):
        page.prose("With that done, driver, CUDA, toolkit and Numba fit each other: nothing else is left to install.", indent=2)
        return
    number = done
    for leg in way:
        page.prose(f"{NAMES[leg.stage]:<{_WIDTH}}  {STATES[leg.state]}{leg.text}", indent=2, hang=_WIDTH + 2)
        for step in leg.steps:
            number += 1
            step_lines(page, number, step)
