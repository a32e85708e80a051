"""Row smoke: what the Numba kernels of the ladder did on each GPU, and whose results were right."""

from __future__ import annotations

from collections.abc import Iterator

from cudadoctor.checks.base import Check, Line, Rule
from cudadoctor.checks.common import NOT_REACHED, QUICK, plural, spoken
from cudadoctor.checks.reading import passed, subject_of
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Facts, Quote
from cudadoctor.model.findings import Clue
from cudadoctor.model.values import LADDER, SmokeStep

PRINTS = "device print"
NAMES = {"increment": "increment", "vector add": "vector add", "float32 exp": "exp"}
PEER, PEER_CAUSE = "peer copy", "peer-access-broken"


def _steps_right(steps: tuple[SmokeStep, ...]) -> str:
    """`16 threads printed; increment, vector add, exp right`, of the steps that passed."""
    good = [step.step for step in steps if step.status == "pass"]
    said = ["16 threads printed"] if PRINTS in good else []
    right = [NAMES.get(name, name) for name in dict.fromkeys(good) if name != PRINTS]
    return "; ".join(said + ([f"{', '.join(right)} right"] if right else []))


def _describe(facts: Facts, knowledge: Knowledge) -> Line:
    fact = facts[LADDER]
    ladder = fact.value
    if ladder is None:
        return Line("no kernel was run", fact.quotes[:1])
    if ladder.quick:
        return Line("no kernel was run", skip=QUICK)
    bad = [step for step in ladder.smoke if step.status == "fail"]
    if bad:
        where = f" on GPU {bad[0].gpu}" if bad[0].gpu is not None else ""
        said = f"{bad[0].step} went wrong{where}: {bad[0].why or 'no reason given'}"
        return Line(said[:240], tuple(_quote(step) for step in bad[:4]))
    if not ladder.smoke:
        if not passed(ladder, "ptx-kernel"):
            return Line("no kernel was run", fact.quotes[:1], because=NOT_REACHED)
        return Line("no Numba kernel was run; the driver's own kernel computed right", fact.quotes[:1])
    gpus = {step.gpu for step in ladder.smoke if step.status == "pass"}
    skipped = [step for step in ladder.smoke if step.status == "skip"]
    said = f"{_steps_right(ladder.smoke) or 'nothing was carried out'} on {plural(len(gpus), 'GPU')}"
    said += f"; {plural(len(skipped), 'step')} skipped ({skipped[0].why})" if skipped else ""
    if ladder.numba is not None and ladder.numba.python is not None:
        said += f" (in the doctor's own Python {ladder.numba.python}: no Numba in the examined one)"
    return Line(said, tuple(_quote(step) for step in ladder.smoke[:4]))


def _quote(step: SmokeStep) -> Quote:
    where = f"GPU {step.gpu}: " if step.gpu is not None else ""
    return spoken("smoke test", step.line, f"{where}{step.step}: {step.why if step.status == 'fail' and step.why else step.status}")


def peers_wrong(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """A copy from one GPU to another that arrived wrong, never, or was refused although the driver offers it."""
    ladder = facts[LADDER].value
    for step in ladder.smoke if ladder is not None else ():
        if step.step.startswith(PEER) and step.status == "fail":
            subject = subject_of(ladder.address(step.gpu) if ladder is not None else None)
            yield Clue(cause=PEER_CAUSE, quotes=(_quote(step),), subject=subject, seen="failed")


CHECK = Check(
    id="smoke",
    title="Smoke test",
    looks_at="Numba kernels on every GPU: device print, increment, vector add, exp; with `smoke` arithmetic, memory and copies too",
    items=("ladder", "ladder-own"),
    rules=(Rule("health", (PEER_CAUSE,), peers_wrong),),
    describe=_describe,
)
