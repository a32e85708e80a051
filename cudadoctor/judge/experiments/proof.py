"""What experiments prove, and how a report says each of them.

Proven is a change with which the failing rung works and without which it then fails again in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cudadoctor.checks.common import variables_of
from cudadoctor.judge.experiments.planning import UNFORESEEN
from cudadoctor.judge.experiments.search import again
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.experiments import SAME, START, UNCHANGED, Change, Plan, Proof, Ran, Tried
from cudadoctor.model.facts import Facts, Quote
from cudadoctor.model.findings import Clue, Conclusion
from cudadoctor.model.values import ENVIRONMENT, PYTHON

_SAID = {
    START: "the interpreter started", "libcuda": "libcuda was loaded", "init": "cuInit answered", "devices": "a GPU was found",
    "context": "a context was made", "memory": "memory was allocated and copied", "ptx-kernel": "a kernel ran and was right",
    "numba-kernel": "a Numba kernel ran and was right",
}  # fmt: skip
_RUN = "is run each time this interpreter starts"


def concluded(plan: Plan, runs: Sequence[Ran], facts: Facts, knowledge: Knowledge) -> Conclusion:
    """What follows from the experiments."""
    said = tuple(_tried(plan, run, facts, knowledge) for run in runs)
    clues: tuple[Clue, ...] = ()
    found = _smallest(plan, runs)
    control = again(found, runs) if found is not None else None
    if found is not None and control is None and (found.what.change.variables):
        clues = (_suspected(found),)
    # Where it works without the change too, or fails in another way, nothing is proven.
    failed = control.failed if control is not None else None
    if found is not None and failed is not None and (failed.rung, failed.kind) == (plan.failure.rung, plan.failure.kind):
        clues = (_proven(plan, found, facts, knowledge),)
    return Conclusion(clues=clues, tried=said)


def _proven(plan: Plan, found: Ran, facts: Facts, knowledge: Knowledge) -> Clue:
    change, failure = found.what.change, plan.failure
    cause = _cause(plan, change, knowledge)
    words = in_words(plan, change, facts, knowledge)
    proof = Proof(change=words, rung=failure.rung, before=failure.words, after=_after(found), seconds=found.seconds)
    said = f"{failure.words}; with {words}: {proof.after}; without it again: the same"
    quotes = (*_quotes(change, facts), Quote(source="experiment", text=said))
    values = _values(change, facts, knowledge)
    if change.without_start is not None:
        python = facts.value(PYTHON)
        lines = [one for one in (python.startup if python is not None else ()) if one.path == _start(plan, change)]
        quotes = (*(Quote(source=one.path, first=one.line, last=one.line, text=one.text or _RUN) for one in lines), *quotes)
        values = {"startup_file": _start(plan, change)}
    return Clue(cause=cause, quotes=quotes, from_rung=failure.rung, values=values, proof=proof)


def _suspected(run: Ran) -> Clue:
    names = run.what.change.variables
    shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    quote = Quote(source="experiment", text=f"without {shown}: {_after(run)}")
    return Clue(cause=UNFORESEEN, quotes=(quote,), basis="suspected", values={"variable": names[0]} if len(names) == 1 else {})


def _cause(plan: Plan, change: Change, knowledge: Knowledge) -> str:
    """The cause for which it was proposed; else the one that names this variable and breaks this rung; else the general one."""
    proposed = next((proposal.cause for proposal in plan.proposals if proposal.change == change), UNFORESEEN)
    if proposed != UNFORESEEN or not change.variables:
        return proposed
    tried = f"unset {change.variables[0]}"
    named = [cause.id for cause in knowledge.causes.values() if plan.failure.rung in cause.breaks and tried in cause.tries]
    return named[0] if len(named) == 1 else UNFORESEEN


def _quotes(change: Change, facts: Facts) -> Iterator[Quote]:
    found = facts.value(ENVIRONMENT)
    for name in change.variables:
        line, text = (found.lines.get(name), found.variables.get(name, "")) if found is not None else (None, "")
        said = f"{name}={text}" if _may_be_shown(name, text) else f"{name} is set (its value is not shown)"
        yield Quote(source="environment", first=line, last=line, text=said)


def _values(change: Change, facts: Facts, knowledge: Knowledge) -> dict[str, str]:
    if not change.variables:
        return {}
    variables, name = variables_of(facts.there(ENVIRONMENT)), change.variables[0]
    text = variables.get(name, "")
    values = {"variable": name, "value": text if _may_be_shown(name, text) else ""}
    for entry in change.left_out:
        values["kept"] = ":".join(place for number, place in enumerate(_places(name, variables, knowledge)) if number != entry.number)
    return values


def _may_be_shown(name: str, text: str) -> bool:
    from cudadoctor.sources.names_in_evidence import keeps  # the patterns of redaction take long to compile

    return keeps(name, text)


def _places(name: str, variables: dict[str, str], knowledge: Knowledge) -> Sequence[str]:
    return knowledge.experiments.entries(name, variables.get(name, ""))


def _smallest(plan: Plan, runs: Sequence[Ran]) -> Ran | None:
    """The run that changed the least and helped. A recording need not hold the names of all variables, so no plan is asked."""
    good = [run for run in runs if run.helped(plan.failure) and not run.what.change.own_python and run.what.change != SAME]
    return min(good, key=lambda run: (len(run.what.change.unset) + len(run.what.change.left_out), len(run.what.change.unset)), default=None)


# ---------------------------------------------------------------- words
def in_words(plan: Plan, change: Change, facts: Facts, knowledge: Knowledge) -> str:
    """The change as a phrase that follows `with`."""
    if change == SAME:
        return UNCHANGED
    variables, parts = variables_of(facts.there(ENVIRONMENT)), []
    if len(change.unset) > 3:
        parts.append(f"{len(change.unset)} variables unset ({', '.join(change.unset[:2])} ...)")
    elif change.unset:
        parts.append(f"{', '.join(change.unset)} unset")
    for entry in change.left_out[:3]:
        place = dict(enumerate(_places(entry.variable, variables, knowledge))).get(entry.number, f"entry {entry.number + 1}")
        parts.append(f"{entry.variable} without {place}")
    if change.toolkit is not None:
        parts.append(f"CUDA_HOME={plan.toolkits[change.toolkit]}" if (change.toolkit < len(plan.toolkits)) else "another CUDA_HOME")
    if change.without_start is not None:
        parts.append(f"{_start(plan, change)} passed over at the interpreter's start")
    parts += ["no packages of the user's own (python -s)"] if change.no_user_site else []
    parts += ["soft limits raised to the hard ones"] if change.raised_limits else []
    parts += ["cudadoctor's own Python"] if change.own_python else []
    return " and ".join(parts)


def _start(plan: Plan, change: Change) -> str:
    known = change.without_start is not None and change.without_start < len(plan.startup)
    return plan.startup[change.without_start or 0] if known else "a file"


def _after(run: Ran) -> str:
    """The highest that was seen to work, and what failed behind it."""
    best = _SAID[run.passed[-1]] if run.passed else "nothing answered"
    return best if run.failed is None else f"{best}; then {run.failed.words}"


def _tried(plan: Plan, run: Ran, facts: Facts, knowledge: Knowledge) -> Tried:
    helped = run.helped(plan.failure)
    same = run.failed is not None and run.failed.rung == plan.failure.rung
    said = "no answer" if run.hung else _after(run) if helped else run.failed.words if run.failed is not None else "no answer"
    worked = None if run.hung else True if helped else False if same else None
    words = in_words(plan, run.what.change, facts, knowledge)
    return Tried(change=words, rung=plan.failure.rung, worked=worked, said=said, seconds=run.seconds)
