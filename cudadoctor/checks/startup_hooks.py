"""What the examined interpreter's own start does to CUDA's variables, which no shell shows: .pth files, sitecustomize, usercustomize."""

from __future__ import annotations

from collections.abc import Iterator

from cudadoctor.checks.base import Rule
from cudadoctor.checks.common import broken, rung_quote, spoken
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Facts
from cudadoctor.model.findings import Clue
from cudadoctor.model.values import LADDER, PYTHON, RungName

HOOK = "python-startup-sets-variable"
RUNGS: tuple[RungName, ...] = ("init", "devices", "context", "memory", "ptx-kernel", "numba-kernel")
# The variable, and what cuInit says where its value shows no GPU, or none that is there.
VISIBLE, SHOWS_NONE = "CUDA_VISIBLE_DEVICES", (100, 101)


def set_at_start(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """A rung failed, and before it began the interpreter had changed a variable that CUDA or Numba reads."""
    fact = facts[LADDER]
    climb = fact.value
    failed = broken(climb, *RUNGS)
    python = facts.value(PYTHON)
    hooks = python.hooks if python is not None else ()
    for changed in climb.changed if climb is not None and failed else ():
        certain = changed.name == VISIBLE and failed[0].code in SHOWS_NONE
        assignment = f"{changed.name}={changed.value}" if changed.value is not None else f"{changed.name} is gone"
        hook = next((hook for hook in hooks if changed.name in hook.text), None)
        quotes = (
            spoken("ladder", changed.line, f"once the interpreter had started: {assignment}"),
            *((spoken(hook.path, hook.line, hook.text),) if hook is not None else ()),
            rung_quote(fact, failed[0]),
        )
        values = {"variable": changed.name, **({"path": hook.path} if hook is not None else {})}
        yield Clue(cause=HOOK, quotes=quotes, from_rung=failed[0].rung, basis="derived" if certain else "suspected", values=values)


RULES = (Rule("python", (HOOK,), set_at_start),)
