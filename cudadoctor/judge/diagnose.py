"""Clues to the diagnosis: which finding is the root, which ones it explains, and what is still open.

A cause names the rungs of the ladder that it breaks. It blocks where one of them was seen to fail, degrades where they were seen
to work, and has its file's effect where nobody looked. The root is the first blocking finding that no other explains.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from cudadoctor.inventory.rungs import LISTED, ORDER, Rungs, below
from cudadoctor.judge import open_questions
from cudadoctor.judge.verdict import Grounds, verdict
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.diagnosis import Ask, Crash, Diagnosis, Judged, Verdict
from cudadoctor.model.facts import Facts, Quote, Unknown
from cudadoctor.model.findings import LAYERS, Clue, Effect, Finding, Ignored, Outcome
from cudadoctor.model.recipe import Cause
from cudadoctor.model.requirements import Ignore, Requirements
from cudadoctor.model.values import BUNDLE, COMPUTED, LADDER, PCI, RungName

MAX_QUOTES = 4  # lines shown of one finding; the rest is in the recording
_BASIS_ORDER = {"stated": 0, "derived": 1, "suspected": 2}
_EFFECT_ORDER: dict[Effect, int] = {"blocks": 0, "degrades": 1, "advises": 2}
PROGRAM_LAYERS = ("toolkit", "python", "program")
FRAMEWORK: RungName = "framework"


class _Case(msgspec.Struct, frozen=True, kw_only=True):
    """One finding with what its ordering needs."""

    finding: Finding
    cause: Cause
    from_rung: str | None
    text: bool
    past: bool
    words: bool
    rung: RungName
    scope: str  # what the finding covers: its subject, or the machine where its GPU is the only one
    values: dict[str, str]


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
    partial: bool = False  # a part was not read for want of time
    crashes: tuple[Crash, ...] = ()


def diagnose(seen: Seen, knowledge: Knowledge, wanted: Requirements) -> Judged:
    """The root cause and everything beside it."""
    has_machine = seen.goal is not None
    every = _cases(seen.clues, seen.facts, knowledge, seen.rungs)
    aside = _expected(every, wanted.expected, seen.rungs, has_machine=has_machine)
    expected = [_marked(every[number], by) for number, by in aside.items()]
    cases = [case for number, case in enumerate(every) if number not in aside]
    sure = [case for case in cases if case.finding.basis != "suspected"]
    blocking, not_now = _blocking(sure, seen.rungs, has_machine=has_machine)
    named = [case for case in every if case.finding.basis != "suspected"]
    cleared = _cleared(seen.outcomes, named, has_machine=has_machine)
    open_, unproven = _suspects(cases, cleared, seen.rungs, has_machine=has_machine)
    not_now = not_now or unproven
    complaint = seen.unexplained or _unexplained_framework(named, seen.rungs) or not_now is not None
    reached = _reached(seen.goal, seen.facts, seen.rungs)
    excused = not reached and not blocking and any(case.finding.effect == "blocks" for case in expected)
    grounds = Grounds(
        blocking=bool(blocking),
        degrading=any(case.finding.effect == "degrades" for case in sure),
        reached=reached or excused,
        complaint=complaint or any(case.text or _may_hold_on(case, seen.goal, seen.rungs) for case in open_),
        crashed=bool(seen.crashes),
        partial=seen.partial,
        slow=seen.slow,
        interrupted=wanted.interrupted,
    )
    found = _Found(verdict=verdict(grounds), sure=sure, blocking=blocking, open=open_, not_now=not_now, expected=expected, cleared=cleared)
    return _judged(found, seen, knowledge, excused=excused)


class _Found(msgspec.Struct, frozen=True, kw_only=True):
    """The cases by what they are to the verdict."""

    verdict: Verdict
    sure: list[_Case]
    blocking: list[_Case]
    open: list[_Case]
    not_now: _Case | None
    expected: list[_Case]
    cleared: frozenset[str]


def _judged(found: _Found, seen: Seen, knowledge: Knowledge, *, excused: bool) -> Judged:
    """The diagnosis that goes with the verdict."""
    has_machine, undecided = seen.goal is not None, found.verdict == "undecided"
    root = _root(found.blocking) if found.verdict == "broken" else None
    if found.verdict == "degraded" and any(case.finding.effect == "degrades" for case in found.sure):
        root = _gravest(found.sure)
    possible = [_suspicion(_root(found.blocking))] if undecided and found.blocking else []  # Ctrl-C came before it was sure
    suspects = possible + (found.open or _hinted(found.sure, has_machine=has_machine)) if undecided else []
    explained = _explained(root, [case for case in found.sure if not case.past]) if root is not None and found.verdict == "broken" else []
    shown = {case.finding.cause for case in suspects}
    aside = (root, *explained, found.not_now)
    also = [case for case in found.sure if not any(case is one for one in aside) and case.finding.cause not in shown]
    diagnosis = Diagnosis(
        root=root.finding if root is not None else None,
        suspects=tuple(case.finding for case in suspects),
        explains=tuple(case.finding for case in _sorted(explained)),
        also=tuple(case.finding for case in (*_sorted(also), *_sorted(found.expected))),
        ruled_out=_ruled_out(found.cleared, knowledge, root.rung if root is not None else seen.rungs.first_failed()),
        undecided=open_questions.undecided(seen.outcomes),
        ask=_asks(found, suspects, seen, knowledge),
        crashes=seen.crashes,
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


def _asks(found: _Found, suspects: Sequence[_Case], seen: Seen, knowledge: Knowledge) -> tuple[Ask, ...]:
    """What would settle an open verdict, or tell why figures are slow."""
    if found.verdict == "undecided":
        return open_questions.asks(_candidates(suspects, found.not_now), seen.outcomes, knowledge, seen.goal, seen.rungs)
    return seen.why_slow if found.verdict == "degraded" and not any(case.finding.effect == "degrades" for case in found.sure) else ()


def _blocking(sure: Sequence[_Case], rungs: Rungs, *, has_machine: bool) -> tuple[list[_Case], _Case | None]:
    return _present([case for case in sure if case.finding.effect == "blocks"], rungs, has_machine=has_machine)


def _expected(cases: Sequence[_Case], ignores: Sequence[Ignore], rungs: Rungs, *, has_machine: bool) -> dict[int, Ignore]:
    """What a policy expects, by the place in `cases`: the causes it names, and what the root explains where it names the root."""
    by = {one.cause: one for one in ignores}
    named = {number: by[case.finding.cause] for number, case in enumerate(cases) if case.finding.cause in by}
    sure = [case for case in cases if case.finding.basis != "suspected"]
    blocking, _ = _blocking(sure, rungs, has_machine=has_machine) if named else ([], None)
    root = _root(blocking) if blocking else None
    if root is None or root.finding.cause not in by:
        return named
    explained = _explained(root, [case for case in sure if not case.past])
    return {number: by[root.finding.cause] for number, case in enumerate(cases) if case in explained} | named


def _marked(case: _Case, by: Ignore) -> _Case:
    """The case with the reason why it does not count."""
    ignored = Ignored(cause=by.cause, reason=by.reason, until=by.until.isoformat() if by.until is not None else None)
    return msgspec.structs.replace(case, finding=msgspec.structs.replace(case.finding, ignored=ignored))


def _suspicion(case: _Case) -> _Case:
    return msgspec.structs.replace(case, finding=msgspec.structs.replace(case.finding, basis="suspected"))


# ---------------------------------------------------------------- findings and their effects
def _effect(clue: Clue, cause: Cause, rungs: Rungs, *, in_bundle: bool) -> Effect:
    """`in_bundle`: no ladder was climbed. What a listing shows is there is no proof there that what stands on it works."""
    if clue.past or clue.advice:
        return "advises"
    if cause.effect == "advises":
        return "blocks" if clue.text and clue.basis == "stated" else "degrades" if clue.asked else "advises"
    if clue.seen is not None:
        return "blocks" if clue.seen == "failed" else cause.dormant if clue.seen == "worked" else cause.effect
    if clue.text or (clue.from_rung is not None and clue.from_rung != "nvml"):
        return "blocks"  # a failing program or rung says so itself
    failed = [rung for rung in cause.breaks if rungs.failed(rung)]
    if failed == ["nvml"] and rungs.worked("init"):
        return "degrades"  # NVML stands beside the ladder: kernels run without it
    if failed:
        return "blocks"
    worked = [rung for rung in cause.breaks if rungs.worked(rung)]
    if worked and not (in_bundle and set(worked) <= set(LISTED) < set(LISTED) | set(cause.breaks)):
        return cause.dormant
    return cause.effect


def _cases(clues: Sequence[Clue], facts: Facts, knowledge: Knowledge, rungs: Rungs) -> list[_Case]:
    """One case for each cause and subject: the strongest basis counts, the quotes of all are kept."""
    groups: dict[tuple[str, str], list[Clue]] = {}
    addresses = _gpu_addresses(facts)
    in_bundle = not isinstance(facts.get(BUNDLE), Unknown)
    for clue in clues:
        if clue.cause in knowledge.causes:
            # One interpreter is examined, and with one GPU what befalls it befalls the machine: only several GPUs are kept apart.
            apart = clue.subject.startswith("gpu:") and len(addresses) > 1
            groups.setdefault((clue.cause, clue.subject if apart else "machine"), []).append(clue)
    cases = []
    for (cause_id, scope), group in groups.items():
        cause = knowledge.causes[cause_id]
        group = [clue for clue in group if not clue.past] or group
        group.sort(key=lambda clue: (_BASIS_ORDER[clue.basis], clue.text))
        if group[0].basis != "suspected":
            group = [clue for clue in group if clue.basis != "suspected"]
        effect = min((_effect(clue, cause, rungs, in_bundle=in_bundle) for clue in group), key=_EFFECT_ORDER.__getitem__)
        subject = next((clue.subject for clue in group if clue.subject != "machine"), group[0].subject)
        failed = [rung for rung in ORDER if rung in cause.breaks and rungs.failed(rung)]
        cases.append(
            _Case(
                finding=Finding(
                    cause=cause_id,
                    layer=cause.layer,
                    title=cause.title,
                    subject=subject,
                    effect=effect,
                    basis=group[0].basis,
                    evidence=_quotes(group),
                ),
                cause=cause,
                from_rung=next((clue.from_rung for clue in group if clue.from_rung is not None), None),
                text=all(clue.text for clue in group),
                past=all(clue.past for clue in group),
                words=all(clue.words for clue in group),
                rung=_rung(group, cause, failed),
                scope="machine" if not subject.startswith("python:") and scope == "machine" else subject,
                values={name: value for clue in reversed(group) for name, value in clue.values.items()},
            )
        )
    return cases


def _rung(group: Sequence[Clue], cause: Cause, failed: Sequence[RungName]) -> RungName:
    """Where the cause is at work: at the frameworks where only these show it, else at the first rung that it broke or would break."""
    if all(clue.seen is not None or clue.from_rung == FRAMEWORK for clue in group):
        return FRAMEWORK
    return failed[0] if failed else min(cause.breaks, key=ORDER.index)


def _gpu_addresses(facts: Facts) -> frozenset[str]:
    """The GPUs of the bus; where it is not seen, those that CUDA lists."""
    bus, ladder = facts.get(PCI), facts.get(LADDER)
    if not isinstance(bus, Unknown) and bus.value is not None:
        return frozenset(gpu.address for gpu in bus.value.nvidia_gpus)
    if isinstance(ladder, Unknown) or ladder.value is None:
        return frozenset()
    return frozenset(device.address for device in ladder.value.devices if device.address is not None)


def _quotes(group: Sequence[Clue]) -> tuple[Quote, ...]:
    seen: list[Quote] = []
    for clue in group:
        for quote in clue.quotes:
            if all((quote.source, quote.text) != (other.source, other.text) for other in seen):
                seen.append(quote)
    return tuple(seen[:MAX_QUOTES])


# ---------------------------------------------------------------- order and explanation
def _place(case: _Case) -> tuple[int, int, str, str]:
    return ORDER.index(case.rung), LAYERS.index(case.cause.layer), case.cause.id, case.finding.subject


def _sorted(cases: Iterable[_Case]) -> list[_Case]:
    return sorted(cases, key=lambda case: (_EFFECT_ORDER[case.finding.effect], *_place(case)))


def _covers(a: _Case, b: _Case) -> bool:
    return a.scope in ("machine", b.scope)


def explains(a: _Case, b: _Case) -> bool:
    """Whether finding `a` accounts for finding `b`."""
    if a is b or a.finding.effect != "blocks" or not _covers(a, b):
        return False
    if a.cause.id in b.cause.yields_to:
        return True
    if b.cause.id in a.cause.yields_to:
        return False
    if a.rung in below(b.rung):
        return True
    if a.rung != b.rung:
        return False
    stated_a, stated_b = a.from_rung is not None, b.from_rung is not None
    if stated_a != stated_b:
        return stated_a
    return _place(a) < _place(b)


def _root(blocking: Sequence[_Case]) -> _Case:
    free = [case for case in blocking if not any(explains(other, case) for other in blocking)]
    return min(free or blocking, key=_place)


def _explained(root: _Case, cases: Sequence[_Case]) -> list[_Case]:
    found: list[_Case] = []
    todo = [root]
    while todo:
        one = todo.pop()
        for case in cases:
            if case is not root and case not in found and explains(one, case):
                found.append(case)
                todo.append(case)
    return found


def _gravest(cases: Sequence[_Case]) -> _Case:
    """Among what degrades, the first that no other accounts for."""
    degrading = [case for case in cases if case.finding.effect == "degrades"]
    free = [case for case in degrading if not any(other.cause.id in case.cause.yields_to for other in degrading)]
    return min(free or degrading, key=_place)


# ---------------------------------------------------------------- verdict
def _reached(goal: RungName | None, facts: Facts, rungs: Rungs) -> bool:
    if goal is None:
        return not isinstance(facts.get(COMPUTED), Unknown)
    if goal == "numba-kernel":
        ladder = facts.get(LADDER)
        if isinstance(ladder, Unknown) or ladder.value is None or not ladder.value.devices:
            return False
        ran = {result.gpu for result in ladder.value.result("numba-kernel") if result.status == "pass"}
        return rungs.worked(goal) and {device.index for device in ladder.value.devices} <= ran
    return rungs.worked(goal)


def _present(blocking: Sequence[_Case], rungs: Rungs, *, has_machine: bool) -> tuple[list[_Case], _Case | None]:
    """A log's driver-side fault whose rung works on this machine now is no cause of today; what the program says of itself is."""
    if not has_machine:
        return list(blocking), None
    past = [case for case in blocking if _not_so_now(case, rungs)]
    return [case for case in blocking if case not in past], min(past, key=_place) if past else None


def _may_hold_on(case: _Case, goal: RungName | None, rungs: Rungs) -> bool:
    """In a bundle no kernel ran that could clear it: a suspicion of which nothing is seen to work keeps the verdict open."""
    return goal == "nvml" and case.cause.layer not in PROGRAM_LAYERS and not any(rungs.worked(rung) for rung in case.cause.breaks)


def _not_so_now(case: _Case, rungs: Rungs) -> bool:
    """A driver-side fault that only a text speaks of, while what it breaks works."""
    works = any(rungs.worked(rung) for rung in case.cause.breaks) and not any(rungs.failed(rung) for rung in case.cause.breaks)
    return case.text and case.cause.layer not in PROGRAM_LAYERS and works


def _unexplained_framework(sure: Sequence[_Case], rungs: Rungs) -> bool:
    """Whether a framework that the user asked for failed, and nothing found says why."""
    return rungs.failed(FRAMEWORK) and all(case.finding.effect == "advises" or case.rung != FRAMEWORK for case in sure)


def _suspects(cases: Sequence[_Case], cleared: frozenset[str], rungs: Rungs, *, has_machine: bool) -> tuple[list[_Case], _Case | None]:
    """Causes that a code names as candidates and that no rule has ruled out, in the order of the tables.

    Where a text's code leaves none, because all that it could mean works on this machine now, its likeliest candidate is returned beside.
    """
    named = [case for case in cases if case.finding.basis == "suspected"]
    open_ = [case for case in named if case.cause.id not in cleared and not (has_machine and _not_so_now(case, rungs))]
    said = [case for case in named if case.text] if has_machine else []
    return open_, said[0] if said and not any(case.text for case in open_) else None


def _hinted(sure: Sequence[_Case], *, has_machine: bool) -> list[_Case]:
    """What a text only warns of, where it says nothing graver: the first thing to look at, and no more than a suspicion."""
    hints = [] if has_machine else [case for case in sure if case.finding.effect != "blocks" and not case.past]
    hints.sort(key=lambda case: _EFFECT_ORDER[case.finding.effect])
    return [_suspicion(case) for case in hints]


def _cleared(outcomes: Sequence[Outcome], sure: Sequence[_Case], *, has_machine: bool) -> frozenset[str]:
    """Causes whose every rule ran to its end on known facts and did not find them. A text shows a part of a machine: it clears nothing."""
    if not has_machine:
        return frozenset()
    found = {case.cause.id for case in sure}
    cleared = {cause for outcome in outcomes if outcome.missing is None and not outcome.crashed for cause in outcome.causes}
    open_ = {cause for outcome in outcomes if outcome.missing is not None or outcome.crashed for cause in outcome.causes}
    accused = {clue.cause for outcome in outcomes for clue in outcome.clues}
    return frozenset(cleared - open_ - accused - found)


def _ruled_out(cleared: frozenset[str], knowledge: Knowledge, rung: RungName | None) -> tuple[str, ...]:
    """The cleared causes that break the root's rung or an earlier one."""
    if rung is None:
        return ()
    near = below(rung) | {rung}
    known = [knowledge.causes[cause] for cause in cleared if cause in knowledge.causes]
    listed = [cause for cause in known if any(broken in near for broken in cause.breaks)]
    return tuple(
        cause.id for cause in sorted(listed, key=lambda cause: (min(map(ORDER.index, cause.breaks)), LAYERS.index(cause.layer), cause.id))
    )


def _candidates(suspects: Sequence[_Case], not_now: _Case | None) -> list[tuple[Cause, str]]:
    """The causes between which it is open, with the reason for asking."""
    if not suspects and not_now is not None:
        return [(not_now.cause, "the text speaks of it, and it is not so at present")]
    return [(case.cause, f"{case.finding.title}: possible, not yet shown") for case in suspects]
