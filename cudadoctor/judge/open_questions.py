"""What is still open after a diagnosis: the facts that rules lacked, and the commands that would settle it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from cudadoctor.inventory.rungs import Rungs
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.findings import Ask, Outcome, Undecided
from cudadoctor.model.pattern import lazy
from cudadoctor.model.recipe import Cause
from cudadoctor.model.report import BenchmarkResult
from cudadoctor.model.values import RungName
from cudadoctor.model.values.ladder import REPLACING

MAX_ASKS = 4
# What is looked at first where figures of a class are slow.
_SLOWED_BY = {
    "pcie": ("pcie-link-degraded",),
    "memory": ("row-remap-needed", "thermal-or-power-throttling"),
    "arithmetic": ("thermal-or-power-throttling",),
    "tensor": ("thermal-or-power-throttling",),
    "shared": ("thermal-or-power-throttling",),
    "peer": ("nvlink-error", "peer-access-broken"),
}
FRESH = (
    "python3 -m venv ~/cuda-fresh && ~/cuda-fresh/bin/python -m pip install 'numba-cuda[cu12]' 'numpy<2.5'"
    " && cudadoctor check --python ~/cuda-fresh/bin/python"
)
FRESH_ON_WINDOWS = (
    "python -m venv $HOME\\cuda-fresh; & $HOME\\cuda-fresh\\Scripts\\python -m pip install 'numba-cuda[cu12]' 'numpy<2.5';"
    " cudadoctor check --python $HOME\\cuda-fresh\\Scripts\\python.exe"
)
CHECK = "cudadoctor check"
EVENTS = (
    "Get-WinEvent -FilterHashtable @{LogName='System'; ProviderName='nvlddmkm','Display'} -MaxEvents 20"
    " | Format-List TimeCreated, Id, Message"
)
_EVERYWHERE = lazy(r"(?:(?:nvidia-smi|nvcc)(?: [\w=,.-]{1,100}){0,6}(?:; |$)){1,4}$")  # no shell's own words


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
    log_read: bool,
    replaced: Sequence[str] = (),
    windows: bool = False,
    partial: bool = False,
) -> tuple[Ask, ...]:
    """Commands that would settle what is open: those of the candidates, else those of the causes whose rules lacked a fact."""
    of_silent_text = goal is None and rungs.first_failed() is None  # nothing in it says which fact to ask for
    if replaced and not candidates and rungs.first_failed() is None:
        why = f"by it programs load {REPLACING}: take it out, make it root's, or run cudadoctor as the user whose program it is"
        return (Ask(command=f"printenv {replaced[0]}", why=why, tells_apart=()),)
    if partial and not candidates and rungs.first_failed() is None:
        why = "a part was not read, and nothing failed in the rest: give less of it (the last part of a log), or check the machine alone"
        return (Ask(command=CHECK, why=why, tells_apart=()),)
    open_ = list(candidates) or ([] if of_silent_text else list(_lacking(outcomes, knowledge)))
    return _telling_apart(open_, windows=windows)[:MAX_ASKS] or (_otherwise(goal, rungs, log_read=log_read, windows=windows),)


def why_slow(figures: Iterable[BenchmarkResult], knowledge: Knowledge, *, windows: bool = False) -> tuple[Ask, ...]:
    """What would tell why figures were slow. Where a cause agrees (a degraded link, held clocks), its own rule has found it."""
    causes = []
    for result in figures:
        row = knowledge.figure(result.name)
        title = row.title if row is not None else result.name
        why = f"{title} is slow on GPU {result.gpu} ({result.share:.0%} of its limit, in each of {len(result.runs)} runs)"
        causes += [(knowledge.cause(cause), why) for cause in _SLOWED_BY.get(row.of if row is not None else "", ())]
    return _telling_apart(causes, windows=windows)


def _telling_apart(candidates: Sequence[tuple[Cause, str]], *, windows: bool) -> tuple[Ask, ...]:
    """The commands of these causes, each with the reason for asking."""
    commands: dict[str, tuple[str, list[str]]] = {}
    for cause, why in candidates:
        command = cause.tell_apart
        if windows and _EVERYWHERE.match(command) is None:
            command = cause.tell_apart_on_windows or CHECK
        commands.setdefault(command, (why, []))[1].append(cause.id)
    return tuple(Ask(command=command, why=why, tells_apart=tuple(dict.fromkeys(causes))) for command, (why, causes) in commands.items())


def _lacking(outcomes: Sequence[Outcome], knowledge: Knowledge) -> Iterator[tuple[Cause, str]]:
    for outcome in outcomes:
        if outcome.missing is not None:
            why = f"{outcome.missing} is not known: {outcome.why}"
            yield from ((knowledge.causes[cause], why) for cause in outcome.causes if cause in knowledge.causes)


def _otherwise(goal: RungName | None, rungs: Rungs, *, log_read: bool, windows: bool) -> Ask:
    """What to do next where no cause says it."""
    nothing_failed = rungs.first_failed() is None
    if goal is None and nothing_failed:
        command, why = CHECK, "the text shows no failure that is known; on the machine itself far more can be seen"
    elif rungs.failed("framework"):
        command, why = "cudadoctor check --frameworks -v", "a framework failed in words that name no known cause"
    elif nothing_failed and goal == "numba-kernel":
        command, why = "cudadoctor fix --suggest", "nothing failed, and no Numba kernel ran: it prints what is missing for one"
    elif rungs.failed("numba-kernel") and not rungs.failed("ptx-kernel"):
        command = FRESH_ON_WINDOWS if windows else FRESH
        why = "the driver's own kernel ran: whether Numba's runs in a fresh environment tells the machine from the packages of this Python"
    elif windows:
        command = EVENTS
        why = "the driver refused: what it reports to Windows says why"
    elif not log_read:
        command = "sudo dmesg | grep -iE 'nvrm|xid|nvidia' | tail -n 40"
        why = "the kernel log could not be read; the driver says there why it refused"
    else:
        command = "sudo nvidia-bug-report.sh && cudadoctor explain nvidia-bug-report.log.gz"
        why = "the driver refused, and neither its answer nor the kernel log says why: its own report holds more"
    return Ask(command=command, why=why, tells_apart=(), kind="environment" if command in (FRESH, FRESH_ON_WINDOWS) else "reads")
