"""What to try next, and what the experiments prove. Pure: sources/experiments.py carries them out.

A plan follows from the first judgement. `next_try` names the next experiment until nothing is left that would say more; `concluded` reads
what came of them. Proven is a change with which the failing rung works and without which it then fails again in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cudadoctor.inventory.rungs import LADDER_ORDER
from cudadoctor.judge.diagnose import Seen
from cudadoctor.knowledge.experiments import Experiments
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.diagnosis import Conclusion, Judged
from cudadoctor.model.evidence import Evidence
from cudadoctor.model.experiments import (
    START,
    Change,
    Entry,
    Failure,
    Plan,
    Proof,
    Proposal,
    Ran,
    Tried,
    Try,
    first_failure,
)
from cudadoctor.model.facts import Facts, Quote, Unknown
from cudadoctor.model.findings import Clue, Finding
from cudadoctor.model.values import ENVIRONMENT, HANGS, LADDER, LIMITS, NVML, SMI, TOOLKITS
from cudadoctor.parsers import tries
from cudadoctor.sources.names_in_evidence import keeps

MOST = 12  # experiments of one check
UNFORESEEN = "environment-variable-breaks-cuda"
SAME: Change = Change()
_BELOW = ("hardware", "bus", "kernel", "node", "container")  # layers that no variable cures
_CLIMB = (START, *LADDER_ORDER[LADDER_ORDER.index("libcuda") :])
_WITH_CONTEXT = LADDER_ORDER[LADDER_ORDER.index("context") :]
_FEW = 3  # variables of the likeliest group that are taken away before all are
_TELLING = 5  # characters of a value that are enough to be meant
_SUSPECTS, _EACH = 6, 6  # causes that are tried for, and places of one list that are tried one by one
_SAID = {
    START: "the interpreter started", "libcuda": "libcuda was loaded", "init": "cuInit answered", "devices": "a GPU was found",
    "context": "a context was made", "memory": "memory was allocated and copied", "ptx-kernel": "a kernel ran and was right",
    "numba-kernel": "a Numba kernel ran and was right",
}  # fmt: skip


# ---------------------------------------------------------------- the plan
def plan(seen: Seen, judged: Judged, evidence: Evidence, knowledge: Knowledge) -> Plan | None:
    """What may be tried; None where nothing failed that a change of surroundings could cure, or nothing may be touched."""
    if evidence.origin == "text" or evidence.bundle is not None or evidence.quick or evidence.python is None:
        return None
    failure = _failure(seen.facts, evidence)
    root = judged.diagnosis.root
    if failure is None or _untouchable(seen, root, knowledge) or judged.verdict not in ("broken", "undecided"):
        return None
    goal = _goal(failure, seen.facts)
    if goal is None:
        return None
    table, variables = knowledge.experiments, _variables(seen.facts)
    job = table.is_job(variables)
    free = {name: value for name, value in variables.items() if not table.kept(name, value, job=job)}
    if root is not None and failure.rung not in (START, *knowledge.cause(root.cause).breaks):
        root = None  # it is no cause of what failed here
    accused = (root,) if root is not None else judged.diagnosis.suspects[:_SUSPECTS]
    proposals = tuple(_proposals([one.cause for one in accused], failure.rung, free, seen.facts, knowledge))
    if root is None:
        proposals += tuple(Proposal(cause=UNFORESEEN, change=change) for change in _named(free, seen.facts, evidence, table))
    units = table.grouped(free, failure.rung) if root is None or proposals else ()
    in_python = failure.rung in (START, "numba-kernel") and (root is None or root.layer in ("python", "environment"))
    if not proposals and not units:
        return None
    entries = {name: len(table.entries(name, value)) for name, value in free.items() if name in table.lists}
    return Plan(failure=failure, goal=goal, step=_step(seen.facts), proposals=proposals, units=units, entries=entries, own_python=in_python)


def _failure(facts: Facts, evidence: Evidence) -> Failure | None:
    """The first rung that broke in the examined interpreter, unless it hung or was killed."""
    climb, item = facts.get(LADDER), evidence.get("ladder")
    if item is None or item.signal == 9 or item.status in tries.HANGING:
        return None
    if isinstance(climb, Unknown) or climb.value is None or not tries.started(item):
        return tries.start_failure(item)
    if climb.value.numba is not None and climb.value.numba.python is not None:
        return None  # the doctor's own Numba failed: nobody's surroundings are at fault
    result = first_failure(climb.value.rungs, _CLIMB)
    if result is None or result.status == "hang":
        return None
    return tries.failure(result, gpu=next((device.uuid for device in climb.value.devices if device.index == result.gpu), None))


def _step(facts: Facts) -> str:
    """The Numba kernel that failed first; none of its names: the first is run."""
    climb = facts.get(LADDER)
    steps = () if isinstance(climb, Unknown) or climb.value is None else climb.value.smoke
    return next((step.step for step in steps if step.status == "fail"), "first")


def _untouchable(seen: Seen, root: Finding | None, knowledge: Knowledge) -> bool:
    """Whether something lies deeper than any surroundings, or the GPU is in a state in which nobody should ask it more."""
    hangs = seen.facts.get(HANGS)
    hung = not isinstance(hangs, Unknown) and hangs.value is not None and any(one.item in ("ladder", "nvml") for one in hangs.value.entries)
    of_gpu = any(not clue.past and clue.code is not None and clue.code.startswith("xid") for clue in seen.clues)
    return hung or of_gpu or (root is not None and root.layer in _BELOW and not knowledge.cause(root.cause).tries)


def _goal(failure: Failure, facts: Facts) -> str | None:
    """How far a try may climb: to a kernel, or where others compute no further than the count of the devices."""
    if not _others_compute(facts):
        return "numba-kernel"
    return "devices" if failure.rung not in _WITH_CONTEXT else None


def _others_compute(facts: Facts) -> bool:
    """Whether a context of ours could disturb somebody: a job of theirs, MPS, or a GPU that takes one process alone."""
    nvml, smi, climb = facts.get(NVML), facts.get(SMI), facts.get(LADDER)
    for fact in (nvml, smi):
        if isinstance(fact, Unknown) or fact.value is None:
            continue
        modes = {(gpu.compute_mode or "").lower() for gpu in fact.value.gpus}
        if any(process.kind != "G" for process in fact.value.processes) or any("excl" in mode or "e. p" in mode for mode in modes):
            return True
    return not isinstance(climb, Unknown) and climb.value is not None and bool(climb.value.guests)


def _variables(facts: Facts) -> dict[str, str]:
    found = facts.get(ENVIRONMENT)
    return {} if isinstance(found, Unknown) or found.value is None else found.value.variables


def _proposals(causes: Sequence[str], rung: str, free: dict[str, str], facts: Facts, knowledge: Knowledge) -> Iterator[Proposal]:
    """What the files of these causes name; where one may come from the environment, what may bring it. Each change once."""
    seen: list[Change] = []
    for cause in causes:
        meant = (cause, UNFORESEEN) if "environment" in knowledge.cause(cause).tries else (cause,)
        for one in meant if rung in (START, *knowledge.cause(cause).breaks) else ():
            for change in _changes(one, free, facts, knowledge):
                if change not in seen:
                    seen.append(change)
                    yield Proposal(cause=one, change=change)


def _named(free: dict[str, str], facts: Facts, evidence: Evidence, table: Experiments) -> Iterator[Change]:
    """The variables, and places in lists, that the words of the failure name, or whose value they hold."""
    climb, item = facts.get(LADDER), evidence.get("ladder")
    results = () if isinstance(climb, Unknown) or climb.value is None else climb.value.rungs
    outputs = [*(one.output for one in results if one.status != "pass"), (item.stderr or "") if item is not None else ""]
    said = "\n".join(_without_way("\n".join(outputs).split("\n")))
    for name, value in free.items():
        places = table.entries(name, value)
        held = [number for number, place in enumerate(places) if len(place) >= _TELLING and place in said]
        if (len(name) >= _TELLING and name in said) or (held and len(places) == 1):
            yield Change(unset=(name,))
        elif len(held) == 1:
            yield Change(left_out=(Entry(variable=name, number=held[0]),))


def _without_way(lines: Sequence[str]) -> Iterator[str]:
    """The words without the places of a traceback but the last: where it failed, not how it came there."""
    places = [number for number, line in enumerate(lines) if line.lstrip().startswith('File "')]
    yield from (line for number, line in enumerate(lines) if number not in places[:-1])


def _changes(cause: str, free: dict[str, str], facts: Facts, knowledge: Knowledge) -> Iterator[Change]:
    """The changes that a cause's file names, as far as there is anything to change here."""
    table = knowledge.experiments
    for word, _, rest in (one.partition(" ") for one in knowledge.cause(cause).tries):
        names = [name for name in rest.split() if name in free]
        if word == "unset":
            yield from (Change(unset=(name,)) for name in names)
        elif word == "entries":
            yield from (change for name in names for change in _each(name, free[name], table))
        elif word == "toolkit":
            yield from (Change(toolkit=number) for number in _usable_toolkits(facts))
        elif word == "limits" and not isinstance(facts.get(LIMITS), Unknown):
            yield Change(raised_limits=True)
        elif word == "no-user-site":
            yield Change(no_user_site=True)


def _each(name: str, value: str, table: Experiments) -> Iterator[Change]:
    """One place of a list after the other; with a single one, or many, the whole variable."""
    count = len(table.entries(name, value))
    if not 1 < count <= _EACH:
        yield Change(unset=(name,))
        return
    yield from (Change(left_out=(Entry(variable=name, number=number),)) for number in range(count))


def _usable_toolkits(facts: Facts) -> Iterator[int]:
    found = facts.get(TOOLKITS)
    if not isinstance(found, Unknown) and found.value is not None:
        listed = enumerate(found.value.toolkits)
        whole = {one.version: number for number, one in listed if one.has_nvvm and one.has_libdevice and not one.stale}
        yield from list(whole.values())[:3]


# ---------------------------------------------------------------- the next one
def next_try(plan: Plan, runs: Sequence[Ran]) -> Try | None:
    """The next experiment; None where no more is to be learnt, or enough was tried."""
    if len(runs) >= MOST or any(run.hung for run in runs):
        return None
    found = _single(plan, runs)
    if found is not None:
        return None if _again(found, runs) is not None else _asked(plan, SAME)
    for proposal in plan.proposals:
        if _of(proposal.change, runs) is None:
            return _asked(plan, proposal.change)
    wanted = _search(plan, runs)
    if isinstance(wanted, Change):
        return _asked(plan, wanted, only=len(wanted.unset) + len(wanted.left_out) > 1)
    own = Change(own_python=True)
    return _asked(plan, own) if plan.own_python and _of(own, runs) is None else None


def _asked(plan: Plan, change: Change, *, only: bool = False) -> Try:
    """`only`: no further than the rung that failed. The same again and halving ask for no more."""
    rung = plan.failure.rung if plan.failure.rung != START else "libcuda"
    stop = rung if only or change == SAME else plan.goal
    return Try(change=change, rung=stop, gpu=plan.failure.gpu, step=plan.step, straight=rung == "numba-kernel")


def _of(change: Change, runs: Sequence[Ran]) -> Ran | None:
    return next((run for run in runs if run.what.change == change), None)


def _single(plan: Plan, runs: Sequence[Ran]) -> Ran | None:
    """The run with the one change that helped, where it cannot be made smaller."""
    proposed = [proposal.change for proposal in plan.proposals]
    for run in runs:
        if run.helped(plan.failure) and run.what.change in proposed:
            return run
    found = _search(plan, runs)
    return found if isinstance(found, Ran) else None


def _again(found: Ran, runs: Sequence[Ran]) -> Ran | None:
    """The same again, after the run that helped."""
    later = list(runs)[list(runs).index(found) + 1 :]
    return _of(SAME, later)


# ---------------------------------------------------------------- halving
Unit = str | Entry


def _removed(units: Sequence[Unit]) -> Change:
    names = sorted(unit for unit in units if isinstance(unit, str))
    return Change(unset=tuple(names), left_out=tuple(unit for unit in units if isinstance(unit, Entry)))


def _search(plan: Plan, runs: Sequence[Ran]) -> Change | Ran | None:
    """The change to run next; the run that shows the one unit at fault; None where it does not help to take all away, or no unit alone."""
    if not plan.units:
        return None
    every = [list(group) for group in plan.units]
    if len(every) > 1 and len(every[0]) <= _FEW:  # the likeliest group costs one run, and spares the halving of all
        likeliest = _of(_removed(every[0]), runs)
        if likeliest is None:
            return _removed(every[0])
        if likeliest.helped(plan.failure):
            return _within(_halved(every[:1], plan, runs), plan, runs)
    bare = _of(_removed([unit for group in every for unit in group]), runs)
    if bare is None:
        return _removed([unit for group in every for unit in group])
    if not bare.helped(plan.failure):
        return None
    return _within(_halved(every, plan, runs), plan, runs)


def _within(found: Change | Ran | None, plan: Plan, runs: Sequence[Ran]) -> Change | Ran | None:
    """The one place of a variable that lists several; the variable where no place alone is at fault."""
    if not isinstance(found, Ran) or found.what.change.left_out:
        return found
    name = found.what.change.unset[0]
    if plan.entries.get(name, 1) < 2:
        return found
    within = _halved([[Entry(variable=name, number=number)] for number in range(plan.entries[name])], plan, runs)
    return found if within is None else within  # no single place: the whole variable


def _halved(groups: Sequence[Sequence[Unit]], plan: Plan, runs: Sequence[Ran]) -> Change | Ran | None:
    """Half of the groups, then half of the units of the group that is left."""
    left: list[list[Unit]] = [list(group) for group in groups]
    while True:
        first, second = _halves(left)
        if not second:
            unit = _removed(first[0])
            alone = _of(unit, runs)
            return unit if alone is None else alone if alone.helped(plan.failure) else None
        change = _removed([unit for group in first for unit in group])
        run = _of(change, runs)
        if run is None:
            return change
        left = first if run.helped(plan.failure) else second


def _halves(groups: list[list[Unit]]) -> tuple[list[list[Unit]], list[list[Unit]]]:
    if len(groups) > 1:
        middle = (len(groups) + 1) // 2
        return groups[:middle], groups[middle:]
    units = groups[0]
    middle = (len(units) + 1) // 2
    return [units[:middle]], [units[middle:]] if len(units) > 1 else []


def _smallest(plan: Plan, runs: Sequence[Ran]) -> Ran | None:
    """The run that changed the least and helped. A recording need not hold the names of all variables, so no plan is asked."""
    good = [run for run in runs if run.helped(plan.failure) and not run.what.change.own_python and run.what.change != SAME]
    return min(good, key=lambda run: (len(run.what.change.unset) + len(run.what.change.left_out), len(run.what.change.unset)), default=None)


# ---------------------------------------------------------------- what it proves
def concluded(plan: Plan, runs: Sequence[Ran], facts: Facts, knowledge: Knowledge) -> Conclusion:
    """What follows from the experiments."""
    said = tuple(_tried(plan, run, facts, knowledge) for run in runs)
    found = _smallest(plan, runs)
    again = _again(found, runs) if found is not None else None
    if found is None:
        return Conclusion(tried=said)
    if again is None:
        return Conclusion(clues=(_suspected(found),) if found.what.change.unset or found.what.change.left_out else (), tried=said)
    if again.failed is None or (again.failed.rung, again.failed.kind) != (plan.failure.rung, plan.failure.kind):
        return Conclusion(tried=said)  # it works without the change too, or fails in another way: that proves nothing
    return Conclusion(clues=(_proven(plan, found, facts, knowledge),), tried=said)


def _proven(plan: Plan, found: Ran, facts: Facts, knowledge: Knowledge) -> Clue:
    change, failure = found.what.change, plan.failure
    cause = _cause(plan, change, knowledge)
    words = in_words(change, facts, knowledge)
    proof = Proof(change=words, rung=failure.rung, before=failure.words, after=_after(found), seconds=found.seconds)
    said = f"{failure.words}; with {words}: {proof.after}; without it again: the same"
    quotes = (*_quotes(change, facts), Quote(source="experiment", text=said))
    return Clue(cause=cause, quotes=quotes, from_rung=failure.rung, values=_values(change, facts, knowledge), proof=proof)


def _suspected(run: Ran) -> Clue:
    names = [*run.what.change.unset, *dict.fromkeys(entry.variable for entry in run.what.change.left_out)]
    shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    quote = Quote(source="experiment", text=f"without {shown}: {_after(run)}")
    return Clue(cause=UNFORESEEN, quotes=(quote,), basis="suspected", values={"variable": names[0]} if len(names) == 1 else {})


def _cause(plan: Plan, change: Change, knowledge: Knowledge) -> str:
    """The cause for which it was proposed; else the one that names this variable and breaks this rung; else the general one."""
    proposed = next((proposal.cause for proposal in plan.proposals if proposal.change == change), UNFORESEEN)
    if proposed != UNFORESEEN or not (change.unset or change.left_out):
        return proposed
    name = change.unset[0] if change.unset else change.left_out[0].variable
    named = [cause.id for cause in knowledge.causes.values() if plan.failure.rung in cause.breaks and f"unset {name}" in cause.tries]
    return named[0] if len(named) == 1 else UNFORESEEN


def _quotes(change: Change, facts: Facts) -> Iterator[Quote]:
    fact = facts.get(ENVIRONMENT)
    if isinstance(fact, Unknown) or fact.value is None:
        return
    for name in dict.fromkeys((*change.unset, *(entry.variable for entry in change.left_out))):
        line = fact.value.lines.get(name)
        value = fact.value.variables.get(name, "")
        said = f"{name}={value}" if keeps(name, value) else f"{name} is set (its value is not shown)"
        yield Quote(source="environment", first=line, last=line, text=said)


def _values(change: Change, facts: Facts, knowledge: Knowledge) -> dict[str, str]:
    variables = _variables(facts)
    for name in (*change.unset, *(entry.variable for entry in change.left_out)):
        value = variables.get(name, "")
        values = {"variable": name, "value": value if keeps(name, value) else ""}
        for entry in change.left_out:
            rest = [place for number, place in _numbered(name, variables, knowledge) if number != entry.number]
            values.update(entry=_place(entry, variables, knowledge), kept=":".join(rest))
        return values
    return {}


def _numbered(name: str, variables: dict[str, str], knowledge: Knowledge) -> list[tuple[int, str]]:
    return list(enumerate(knowledge.experiments.entries(name, variables.get(name, ""))))


def _place(entry: Entry, variables: dict[str, str], knowledge: Knowledge) -> str:
    return dict(_numbered(entry.variable, variables, knowledge)).get(entry.number, f"entry {entry.number + 1}")


# ---------------------------------------------------------------- words
def in_words(change: Change, facts: Facts, knowledge: Knowledge) -> str:
    """The change as a phrase that follows `with`."""
    if change == SAME:
        return "nothing changed"
    variables, parts = _variables(facts), []
    if len(change.unset) > 3:
        parts.append(f"{len(change.unset)} variables unset ({', '.join(change.unset[:2])} ...)")
    elif change.unset:
        parts.append(f"{', '.join(change.unset)} unset")
    parts += [f"{entry.variable} without {_place(entry, variables, knowledge)}" for entry in change.left_out[:3]]
    if change.toolkit is not None:
        found = facts.get(TOOLKITS)
        places = [] if isinstance(found, Unknown) or found.value is None else [one.path for one in found.value.toolkits]
        parts.append(f"CUDA_HOME={places[change.toolkit]}" if change.toolkit < len(places) else "another CUDA_HOME")
    parts += ["no packages of the user's own (python -s)"] if change.no_user_site else []
    parts += ["soft limits raised to the hard ones"] if change.raised_limits else []
    parts += ["cudadoctor's own Python"] if change.own_python else []
    return " and ".join(parts)


def _after(run: Ran) -> str:
    """The highest that was seen to work, and what failed behind it."""
    best = _SAID[run.passed[-1]] if run.passed else "nothing answered"
    return best if run.failed is None else f"{best}; then {run.failed.words}"


def _tried(plan: Plan, run: Ran, facts: Facts, knowledge: Knowledge) -> Tried:
    helped = run.helped(plan.failure)
    same = run.failed is not None and run.failed.rung == plan.failure.rung
    said = "no answer" if run.hung else _after(run) if helped else run.failed.words if run.failed is not None else "no answer"
    worked = None if run.hung else True if helped else False if same else None
    return Tried(change=in_words(run.what.change, facts, knowledge), rung=plan.failure.rung, worked=worked, said=said, seconds=run.seconds)
