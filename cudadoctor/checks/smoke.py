"""Row smoke: what the Numba kernels of the ladder did on each GPU, and whose results were right."""

from __future__ import annotations

from collections.abc import Iterator

from cudadoctor.checks.base import Check, Line, Rule
from cudadoctor.checks.common import NOT_REACHED, passed, plural, spoken
from cudadoctor.checks.reading import Quotes
from cudadoctor.inventory.devices import plain_address
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Facts, Quote
from cudadoctor.model.findings import Clue
from cudadoctor.model.values import LADDER, Ladder, SmokeStep

PRINTS = "device print"
NAMES = {"increment": "increment", "vector add": "vector add", "float32 exp": "exp"}
QUICK = "--quick"
PEER, PEER_CAUSE = "peer copy", "peer-access-broken"


def _steps_right(steps: tuple[SmokeStep, ...]) -> str:
    """`16 threads printed; increment, vector add, exp right`, of the steps that passed."""
    good = [step.step for step in steps if step.status == "pass"]
    said = ["16 threads printed"] if PRINTS in good else []
    right = [NAMES.get(name, name) for name in dict.fromkeys(good) if name != PRINTS]
    return "; ".join(said + ([f"{', '.join(right)} right"] if right else []))


def _where(ladder: Ladder) -> str:
    """In whose Python the kernels ran, where it is not the examined one."""
    if ladder.numba is None or ladder.numba.python is None:
        return ""
    return f" (in the doctor's own Python {ladder.numba.python}: no Numba in the examined one)"


def _describe(facts: Facts, knowledge: Knowledge) -> Line:
    fact = facts[LADDER]
    ladder = fact.value
    if ladder is None:
        return Line("no kernel was run", fact.quotes[:1])
    if ladder.quick:
        return Line("no kernel was run", skip=QUICK)
    bad = [step for step in ladder.smoke if step.status == "fail"]
    if bad:
        step = bad[0]
        where = f" on GPU {step.gpu}" if step.gpu is not None else ""
        return Line(f"{step.step} went wrong{where}: {step.why or 'no reason given'}"[:240], _quotes(tuple(bad)))
    if not ladder.smoke:
        if not passed(ladder, "ptx-kernel"):
            return Line("no kernel was run", fact.quotes[:1], because=NOT_REACHED)
        return Line("no Numba kernel was run; the driver's own kernel computed right", fact.quotes[:1])
    gpus = {step.gpu for step in ladder.smoke if step.status == "pass"}
    skipped = [step for step in ladder.smoke if step.status == "skip"]
    said = f"{_steps_right(ladder.smoke) or 'nothing was carried out'} on {plural(len(gpus), 'GPU')}"
    said += f"; {plural(len(skipped), 'step')} skipped ({skipped[0].why})" if skipped else ""
    return Line(said + _where(ladder), _quotes(ladder.smoke))


def _quotes(steps: tuple[SmokeStep, ...]) -> Quotes:
    return tuple(_quote(step) for step in steps[:4])


def _quote(step: SmokeStep) -> Quote:
    where = f"GPU {step.gpu}: " if step.gpu is not None else ""
    return spoken("smoke test", step.line, f"{where}{step.step}: {step.why if step.status == 'fail' and step.why else step.status}")


def peers_wrong(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """A copy from one GPU to another that arrived wrong, never, or was refused although the driver offers it."""
    fact = facts[LADDER]
    ladder = fact.value
    for step in ladder.smoke if ladder is not None else ():
        if step.step.startswith(PEER) and step.status == "fail":
            address = next((device.address for device in ladder.devices if device.index == step.gpu), None) if ladder is not None else None
            subject = f"gpu:{plain_address(address)}" if address else "machine"
            yield Clue(cause=PEER_CAUSE, quotes=(_quote(step),), subject=subject, seen="failed")


CHECK = Check(
    id="smoke",
    title="Smoke test",
    looks_at="Numba kernels on every GPU: device print, increment, vector add, exp; with `smoke` arithmetic, memory and copies too",
    items=("ladder", "ladder-own"),
    rules=(Rule("health", (PEER_CAUSE,), peers_wrong),),
    describe=_describe,
)
