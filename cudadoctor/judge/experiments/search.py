"""Which experiment comes next: the proposals, then halving down to one variable or one place of a list, and the control run."""

from __future__ import annotations

from collections.abc import Sequence

from cudadoctor.model.experiments import SAME, START, Change, Entry, Plan, Ran, Try

MOST = 12  # experiments of one check
_FEW = 8  # variables of the likeliest groups that are taken away before all are
Unit = str | Entry


def next_try(plan: Plan, runs: Sequence[Ran]) -> Try | None:
    """The next experiment; None where no more is to be learnt, or enough was tried."""
    if len(runs) >= MOST or any(run.hung for run in runs):
        return None
    found = _single(plan, runs)
    if found is not None:
        return None if again(found, runs) is not None else _asked(plan, SAME)
    waiting = [one.change for one in plan.proposals if _of(one.change, runs) is None]
    starts = [change for change in waiting if change.without_start is not None]
    if len(waiting) > len(starts):
        return _asked(plan, next(change for change in waiting if change.without_start is None))
    wanted = _search(plan, runs)
    # All of the likeliest variables cost one run, the files that Python starts with one each: those come when the variables did not help.
    searched = [run for run in runs if run.what.change.variables and run.what.change not in [one.change for one in plan.proposals]]
    if isinstance(wanted, Change) and (not starts or not searched or any(run.helped(plan.failure) for run in searched)):
        return _asked(plan, wanted, only=len(wanted.unset) + len(wanted.left_out) > 1)
    if starts:
        return _asked(plan, starts[0])
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
    found = next((run for run in runs if run.helped(plan.failure) and run.what.change in proposed), None) or _search(plan, runs)
    return found if isinstance(found, Ran) else None


def again(found: Ran, runs: Sequence[Ran]) -> Ran | None:
    """The same again, after the run that helped."""
    return _of(SAME, list(runs)[list(runs).index(found) + 1 :])


# ---------------------------------------------------------------- halving
def _removed(units: Sequence[Unit]) -> Change:
    names = sorted(unit for unit in units if isinstance(unit, str))
    return Change(unset=tuple(names), left_out=tuple(unit for unit in units if isinstance(unit, Entry)))


def _search(plan: Plan, runs: Sequence[Ran]) -> Change | Ran | None:
    """The change to run next; the run that shows the one unit at fault; None where it does not help to take all away, or no unit alone."""
    if not plan.units:
        return None
    every = [list(group) for group in plan.units]
    first = max(plan.likely, 1)
    asked = len(every) > first and sum(map(len, every[:first])) <= _FEW  # they cost one run, and spare the halving of all
    # Where all of the likeliest did not help, what does is looked for among the others.
    for away, halved in (*(((every[:first], every[:first]),) if asked else ()), (every, every[first:] if asked else every)):
        bare = _removed([unit for group in away for unit in group])
        run = _of(bare, runs)
        if run is None:
            return bare
        if run.helped(plan.failure):
            return _within(_halved(halved, plan, runs), plan, runs)
    return None


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
