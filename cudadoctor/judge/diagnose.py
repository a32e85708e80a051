"""Clues to the diagnosis: which finding is the root, which ones it explains, and what is still open.

A cause names the rungs of the ladder that it breaks. It blocks where one of them was seen to fail, degrades where they were seen
to work, and has its file's effect where nobody looked. The root is the first blocking finding that no other explains.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from cudadoctor.checks.reading import climbed
from cudadoctor.inventory.rungs import ORDER, Rungs, below
from cudadoctor.judge import open_questions
from cudadoctor.judge.cases import EFFECT_ORDER, FRAMEWORK, Case, cases_of, explained_by, gravest, in_order, place, root_of
from cudadoctor.judge.verdict import verdict
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Facts
from cudadoctor.model.findings import LAYERS, Ask, Clue, Conclusion, Crash, Diagnosis, Ignored, Judged, Outcome, Verdict
from cudadoctor.model.requirements import Ignore, Requirements
from cudadoctor.model.values import COMPUTED, KERNEL_LOG, PYTHON_RAN, Ladder, RungName

PROGRAM_LAYERS = ("toolkit", "python", "program")


def rungs_shown_failing(clues: Iterable[Clue], knowledge: Knowledge) -> tuple[RungName, ...]:
    """The rungs that the output of a failing rung itself says are broken."""
    stated = (clue for clue in clues if clue.from_rung is not None and clue.basis == "stated" and clue.cause in knowledge.causes)
    # A framework speaks for itself: what it cannot do, the ladder may.
    return tuple(rung for clue in stated if clue.from_rung != FRAMEWORK for rung in knowledge.causes[clue.cause].breaks)


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What a judgement is made of. `goal` is the last rung asked for; None for a text without a machine.

    `unexplained`: a test failed for which no clue stands. `slow`: figures were slow in each of several runs, and
    `why_slow` would tell why.
    """

    clues: Sequence[Clue]
    outcomes: Sequence[Outcome]
    facts: Facts
    rungs: Rungs
    goal: RungName | None
    unexplained: bool = False
    slow: bool = False
    why_slow: tuple[Ask, ...] = ()
    windows: bool = False  # the machine's shell is PowerShell
    partial: bool = False  # a part was not read, for want of time or of room
    crashes: tuple[Crash, ...] = ()
    tried: Conclusion = Conclusion()  # what experiments on this machine came to


def diagnose(seen: Seen, knowledge: Knowledge, wanted: Requirements) -> Judged:
    """The root cause and everything beside it."""
    has_machine = seen.goal is not None
    every = cases_of((*seen.clues, *seen.tried.clues), seen.facts, knowledge, seen.rungs)
    aside = _expected(every, wanted.expected, seen.rungs, has_machine=has_machine)
    expected = [
        _with(every[number], ignored=Ignored(cause=by.cause, reason=by.reason, until=by.until.isoformat() if by.until else None))
        for number, by in aside.items()
    ]
    cases = [case for number, case in enumerate(every) if number not in aside]
    sure = [case for case in cases if case.finding.basis != "suspected"]
    blocking, not_now = _blocking(sure, seen.rungs, has_machine=has_machine)
    named = [case for case in every if case.finding.basis != "suspected"]
    cleared = _cleared(seen.outcomes, named, has_machine=has_machine)
    open_, unproven = _suspects(cases, cleared, seen.rungs, has_machine=has_machine)
    not_now = not_now or unproven
    # A framework that the user asked for failed, and nothing found says why.
    unexplained = seen.rungs.failed(FRAMEWORK) and all(case.finding.effect == "advises" or case.rung != FRAMEWORK for case in named)
    complaint = seen.unexplained or unexplained or not_now is not None
    reached = _reached(seen.goal, seen.facts, seen.rungs, sure)
    excused = not reached and not blocking and any(case.finding.effect == "blocks" for case in expected)
    # In a bundle no kernel ran that could clear it: a suspicion of which nothing is seen to work keeps the verdict open.
    lasting = [one for one in open_ if seen.goal == "nvml" and one.cause.layer not in PROGRAM_LAYERS]
    complaint = complaint or any(case.text for case in open_) or any(not _works(case, seen.rungs) for case in lasting)
    said = verdict(
        interrupted=wanted.interrupted,
        blocking=bool(blocking),
        open_=complaint or bool(seen.crashes) or seen.partial or not (reached or excused),
        degrading=seen.slow or any(case.finding.effect == "degrades" for case in sure),
    )
    found = _Found(verdict=said, sure=sure, blocking=blocking, open=open_, not_now=not_now, expected=expected, cleared=cleared)
    return _judged(found, seen, knowledge, excused=excused)


class _Found(msgspec.Struct, frozen=True, kw_only=True):
    """The cases by what they are to the verdict."""

    verdict: Verdict
    sure: list[Case]
    blocking: list[Case]
    open: list[Case]
    not_now: Case | None
    expected: list[Case]
    cleared: frozenset[str]


def _judged(found: _Found, seen: Seen, knowledge: Knowledge, *, excused: bool) -> Judged:
    """The diagnosis that goes with the verdict."""
    has_machine, undecided = seen.goal is not None, found.verdict == "undecided"
    root = root_of(found.blocking) if found.verdict == "broken" else None
    if found.verdict == "degraded" and any(case.finding.effect == "degrades" for case in found.sure):
        root = gravest(found.sure)
    possible = [_with(root_of(found.blocking), basis="suspected")] if undecided and found.blocking else []  # Ctrl-C came before it was sure
    suspects = possible + (found.open or _hinted(found.sure, has_machine=has_machine)) if undecided else []
    explained = explained_by(root, [case for case in found.sure if not case.past]) if root is not None and found.verdict == "broken" else []
    shown = {case.finding.cause for case in suspects}
    aside = (root, *explained, found.not_now)
    also = [case for case in found.sure if not any(case is one for one in aside) and case.finding.cause not in shown]
    if root is not None:  # what names the same cause of the same thing once more, or of no GPU in particular, is no second one
        same = (root.finding.cause, root.finding.subject), (root.finding.cause, "machine")
        also = [case for case in also if case.past or (case.finding.cause, case.finding.subject) not in same]
    diagnosis = Diagnosis(
        root=root.finding if root is not None else None,
        suspects=tuple(case.finding for case in suspects),
        explains=tuple(case.finding for case in in_order(explained)),
        also=tuple(case.finding for case in (*in_order(also), *in_order(found.expected))),
        ruled_out=_ruled_out(found.cleared, knowledge, root.rung if root is not None else seen.rungs.first_failed()),
        undecided=open_questions.undecided(seen.outcomes),
        ask=_asks(found, suspects, seen, knowledge),
        crashes=seen.crashes,
        tried=seen.tried.tried,
        by_words=bool(suspects) and all(case.words for case in suspects),
    )
    roots = (root,) if root is not None else ()  # of several GPUs with one fault the root's counts
    unsettled = [case.finding for case in found.open if not case.text] if seen.goal == "nvml" and not undecided else []
    return Judged(
        verdict=found.verdict,
        diagnosis=diagnosis,
        values={case.finding.cause: case.values for case in reversed((*roots, *found.sure, *found.open, *found.expected))},
        excused=excused,
        at=root.rung if root is not None else None,
        past=tuple(case.finding for case in also if case.past),
        not_now=found.not_now.finding if found.not_now else None,
        unsettled=tuple(unsettled),
    )


def _asks(found: _Found, suspects: Sequence[Case], seen: Seen, knowledge: Knowledge) -> tuple[Ask, ...]:
    """What would settle an open verdict, or tell why figures are slow."""
    if found.verdict == "undecided":
        candidates = [(case.cause, f"{case.finding.title}: possible, not yet shown") for case in suspects]
        if not candidates and found.not_now is not None:
            candidates = [(found.not_now.cause, "the text speaks of it, and it is not so at present")]
        log_read, replaced = seen.facts.why_unknown(KERNEL_LOG) is None, climbed(seen.facts).replaced
        return open_questions.asks(
            candidates, seen.outcomes, knowledge, seen.goal, seen.rungs,
            log_read=log_read, replaced=replaced, windows=seen.windows, partial=seen.partial,
        )  # fmt: skip
    return seen.why_slow if found.verdict == "degraded" and not any(case.finding.effect == "degrades" for case in found.sure) else ()


def _blocking(sure: Sequence[Case], rungs: Rungs, *, has_machine: bool) -> tuple[list[Case], Case | None]:
    """A log's driver-side fault whose rung works on this machine now is no cause of today; what the program says of itself is."""
    past = [case for case in sure if case.finding.effect == "blocks" and has_machine and _not_so_now(case, rungs)]
    return [case for case in sure if case.finding.effect == "blocks" and case not in past], min(past, key=place, default=None)


def _expected(cases: Sequence[Case], ignores: Sequence[Ignore], rungs: Rungs, *, has_machine: bool) -> dict[int, Ignore]:
    """What a policy expects, by the place in `cases`: the causes it names, and what the root explains where it names the root."""
    by = {one.cause: one for one in ignores}
    named = {number: by[case.finding.cause] for number, case in enumerate(cases) if case.finding.cause in by}
    sure = [case for case in cases if case.finding.basis != "suspected"]
    blocking, _ = _blocking(sure, rungs, has_machine=has_machine) if named else ([], None)
    root = root_of(blocking) if blocking else None
    if root is None or root.finding.cause not in by:
        return named
    explained = explained_by(root, [case for case in sure if not case.past])
    return {number: by[root.finding.cause] for number, case in enumerate(cases) if case in explained} | named


def _with(case: Case, **changes: Any) -> Case:
    """The case with its finding changed."""
    return msgspec.structs.replace(case, finding=msgspec.structs.replace(case.finding, **changes))


# ---------------------------------------------------------------- verdict
def _reached(goal: RungName | None, facts: Facts, rungs: Rungs, sure: Sequence[Case]) -> bool:
    if goal is None:
        return facts.why_unknown(COMPUTED) is None
    if goal == "numba-kernel":
        ladder = climbed(facts)
        # Where the examined Python was silent, the doctor's own computed, and that is not what was asked.
        if facts.there(PYTHON_RAN) is not None or not ladder.devices:
            return False
        ran = {result.gpu for result in ladder.result("numba-kernel") if result.status == "pass"}
        return rungs.worked(goal) and {device.index for device in ladder.devices} <= ran | _accounted_for(ladder, sure)
    return rungs.worked(goal)


def _accounted_for(ladder: Ladder, sure: Sequence[Case]) -> set[int]:
    """The GPUs that computed nothing for a reason that is found and keeps no program from the others."""
    found = {(case.finding.subject, rung) for case in sure if case.finding.effect == "degrades" for rung in case.cause.breaks}
    failed = [result for result in ladder.rungs if result.status == "fail" and result.gpu is not None]
    return {result.gpu for result in failed if result.gpu is not None and (f"gpu:{ladder.address(result.gpu)}", result.rung) in found}


def _works(case: Case, rungs: Rungs) -> bool:
    return any(rungs.worked(rung) for rung in case.cause.breaks)


def _not_so_now(case: Case, rungs: Rungs) -> bool:
    """A driver-side fault that only a text speaks of, while what it breaks works."""
    of_driver = case.text and case.cause.layer not in PROGRAM_LAYERS
    return of_driver and _works(case, rungs) and not any(rungs.failed(rung) for rung in case.cause.breaks)


def _suspects(cases: Sequence[Case], cleared: frozenset[str], rungs: Rungs, *, has_machine: bool) -> tuple[list[Case], Case | None]:
    """Causes that a code names as candidates and that no rule has ruled out, in the order of the tables.

    Where a text's code leaves none, because all that it could mean works on this machine now, its likeliest candidate is returned beside.
    """
    named = [case for case in cases if case.finding.basis == "suspected"]
    open_ = [case for case in named if case.cause.id not in cleared and not (has_machine and _not_so_now(case, rungs))]
    said = [case for case in named if case.text] if has_machine else []
    return open_, said[0] if said and not any(case.text for case in open_) else None


def _hinted(sure: Sequence[Case], *, has_machine: bool) -> list[Case]:
    """What a text only warns of, where it says nothing graver: the first thing to look at, and no more than a suspicion."""
    hints = [] if has_machine else [case for case in sure if case.finding.effect != "blocks" and not case.past]
    hints.sort(key=lambda case: EFFECT_ORDER[case.finding.effect])
    return [_with(case, basis="suspected") for case in hints]


def _cleared(outcomes: Sequence[Outcome], sure: Sequence[Case], *, has_machine: bool) -> frozenset[str]:
    """Causes whose every rule ran to its end on known facts and did not find them. A text shows a part of a machine: it clears nothing."""
    if not has_machine:
        return frozenset()
    found = {case.cause.id for case in sure}
    cleared = {cause for outcome in outcomes if outcome.missing is None and not outcome.crashed for cause in outcome.causes}
    open_ = {cause for outcome in outcomes if outcome.missing is not None or outcome.crashed for cause in outcome.causes}
    return frozenset(cleared - open_ - {clue.cause for outcome in outcomes for clue in outcome.clues} - found)


def _ruled_out(cleared: frozenset[str], knowledge: Knowledge, rung: RungName | None) -> tuple[str, ...]:
    """The cleared causes that break the root's rung or an earlier one."""
    if rung is None:
        return ()
    near = below(rung) | {rung}
    listed = [cause for cause in map(knowledge.causes.get, cleared) if cause is not None and near & set(cause.breaks)]
    listed.sort(key=lambda cause: (min(map(ORDER.index, cause.breaks)), LAYERS.index(cause.layer), cause.id))
    return tuple(cause.id for cause in listed)
