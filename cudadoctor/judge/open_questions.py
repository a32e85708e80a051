"""What is still open after a diagnosis: the facts that rules lacked, and the commands that would settle it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cudadoctor.inventory.rungs import Rungs
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.diagnosis import Ask, Undecided
from cudadoctor.model.findings import Outcome
from cudadoctor.model.recipe import Cause
from cudadoctor.model.values import RungName

MAX_ASKS = 4
FRESH = (
    "python3 -m venv ~/cuda-fresh && ~/cuda-fresh/bin/python -m pip install 'numba-cuda[cu12]' 'numpy<2.5'"
    " && cudadoctor check --python ~/cuda-fresh/bin/python"
)


def undecided(outcomes: Sequence[Outcome]) -> tuple[Undecided, ...]:
    """Per row, the facts that its rules lacked."""
    rows: dict[str, list[str]] = {}
    for outcome in outcomes:
        if outcome.missing is not None and outcome.missing not in rows.setdefault(outcome.row, []):
            rows[outcome.row].append(outcome.missing)
    return tuple(Undecided(row=row, missing=tuple(missing)) for row, missing in rows.items())


def asks(
    candidates: Sequence[tuple[Cause, str]],
    outcomes: Sequence[Outcome],
    knowledge: Knowledge,
    goal: RungName | None,
    rungs: Rungs,
    *,
    log_read: bool = True,
) -> tuple[Ask, ...]:
    """Commands that would settle what is open: those of the candidates, else those of the causes whose rules lacked a fact."""
    of_silent_text = goal is None and rungs.first_failed() is None  # nothing in it says which fact to ask for
    open_ = list(candidates) or ([] if of_silent_text else list(_lacking(outcomes, knowledge)))
    return telling_apart(open_) or (_otherwise(goal, rungs, log_read=log_read),)


def telling_apart(candidates: Sequence[tuple[Cause, str]]) -> tuple[Ask, ...]:
    """The commands of these causes, each with the reason for asking."""
    commands: dict[str, tuple[str, list[str]]] = {}
    for cause, why in candidates:
        commands.setdefault(cause.tell_apart, (why, []))[1].append(cause.id)
    return tuple(
        Ask(command=command, why=why, tells_apart=tuple(dict.fromkeys(causes)))
        for command, (why, causes) in list(commands.items())[:MAX_ASKS]
    )


def _lacking(outcomes: Sequence[Outcome], knowledge: Knowledge) -> Iterator[tuple[Cause, str]]:
    for outcome in outcomes:
        if outcome.missing is not None:
            why = f"{outcome.missing} is not known: {outcome.why}"
            yield from ((knowledge.causes[cause], why) for cause in outcome.causes if cause in knowledge.causes)


def _otherwise(goal: RungName | None, rungs: Rungs, *, log_read: bool) -> Ask:
    """What to do next where no cause says it."""
    nothing_failed = rungs.first_failed() is None
    if goal is None and nothing_failed:
        why = "the text shows no failure that is known; on the machine itself far more can be seen"
        return Ask(command="cudadoctor check", why=why, tells_apart=())
    if rungs.failed("framework"):
        return Ask(command="cudadoctor check --frameworks -v", why="a framework failed in words that name no known cause", tells_apart=())
    if nothing_failed and goal == "numba-kernel":
        why = "nothing failed, and no Numba kernel ran: it prints what is missing for one"
        return Ask(command="cudadoctor fix --suggest", why=why, tells_apart=())
    if rungs.failed("numba-kernel") and not rungs.failed("ptx-kernel"):
        why = "the driver's own kernel ran: whether Numba's runs in a fresh environment tells the machine from the packages of this Python"
        return Ask(command=FRESH, why=why, tells_apart=())
    if not log_read:
        why = "the kernel log could not be read; the driver says there why it refused"
        return Ask(command="sudo dmesg | grep -iE 'nvrm|xid|nvidia' | tail -n 40", why=why, tells_apart=())
    why = "the driver refused, and neither its answer nor the kernel log says why: its own report holds more"
    return Ask(command="sudo nvidia-bug-report.sh && cudadoctor explain nvidia-bug-report.log.gz", why=why, tells_apart=())
