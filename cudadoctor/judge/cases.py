"""Clues to cases: one for each cause and subject, with its effect; their order, and which accounts for which."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from cudadoctor.checks.reading import climbed
from cudadoctor.inventory.rungs import LISTED, ORDER, Rungs, below
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Facts, Quote
from cudadoctor.model.findings import LAYERS, Clue, Effect, Finding
from cudadoctor.model.pattern import lazy
from cudadoctor.model.recipe import Cause
from cudadoctor.model.values import BUNDLE, PCI, RungName

MAX_QUOTES = 4  # lines shown of one finding; the rest is in the recording
FRAMEWORK: RungName = "framework"
_TEXT = "text"  # the source of what somebody pasted
_BASIS_ORDER = {"stated": 0, "derived": 1, "suspected": 2}
_PLACEHOLDER = lazy(r"\{(\w{1,40})\}")
_PLAIN_NAME = lazy(r"^[\w., +-]{1,60}$")
EFFECT_ORDER: dict[Effect, int] = {"blocks": 0, "degrades": 1, "advises": 2}


class Case(msgspec.Struct, frozen=True, kw_only=True):
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


def cases_of(clues: Sequence[Clue], facts: Facts, knowledge: Knowledge, rungs: Rungs) -> list[Case]:
    """One case for each cause and subject: the strongest basis counts, the quotes of all are kept."""
    groups: dict[tuple[str, str], list[Clue]] = {}
    addresses = _gpu_addresses(facts)
    in_bundle = facts.why_unknown(BUNDLE) is None
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
        effect = min((_effect(clue, cause, rungs, in_bundle=in_bundle) for clue in group), key=EFFECT_ORDER.__getitem__)
        subject = next((clue.subject for clue in group if clue.subject != "machine"), group[0].subject)
        if effect == "blocks" and cause.in_use and _computed_elsewhere(subject, facts):
            effect = cause.dormant
        failed = [rung for rung in ORDER if rung in cause.breaks and rungs.failed(rung)]
        # Where the machine shows it, no word of a text beside it is used.
        telling = [clue for clue in group if any(quote.source != _TEXT for quote in clue.quotes)] or group
        values = {name: value for clue in reversed(telling) for name, value in clue.values.items()}
        cases.append(
            Case(
                finding=Finding(
                    cause=cause_id,
                    layer=cause.layer,
                    title=_title(cause, values),
                    subject=subject,
                    effect=effect,
                    basis=group[0].basis,
                    evidence=_quotes(group),
                    url=knowledge.page_of(cause_id),
                    proof=next((clue.proof for clue in group if clue.proof is not None), None),
                ),
                cause=cause,
                from_rung=next((clue.from_rung for clue in group if clue.from_rung is not None), None),
                text=all(clue.text for clue in group),
                past=all(clue.past for clue in group),
                words=all(clue.words for clue in group),
                rung=_rung(group, cause, failed),
                scope="machine" if not subject.startswith("python:") and scope == "machine" else subject,
                values=values,
            )
        )
    return cases


def _computed_elsewhere(subject: str, facts: Facts) -> bool:
    """Whether programs that take CUDA's device 0, as all do that name none, compute on another GPU than this one."""
    first = climbed(facts).address(0)
    ran = any(result.gpu == 0 and result.status == "pass" for result in climbed(facts).result("ptx-kernel"))
    return ran and first is not None and subject.startswith("gpu:") and subject != f"gpu:{first}"


def _title(cause: Cause, values: Mapping[str, str]) -> str:
    """With the machine's own names where they are known and plain."""
    wanted = _PLACEHOLDER.findall(cause.named or "")
    plain = all(_PLAIN_NAME.match(values.get(name, "")) for name in wanted)
    return cause.named.format_map(values) if cause.named is not None and plain else cause.title


def _rung(group: Sequence[Clue], cause: Cause, failed: Sequence[RungName]) -> RungName:
    """Where the cause is at work: at the frameworks where only these show it, else at the first rung that it broke or would break."""
    if all(clue.seen is not None or clue.from_rung == FRAMEWORK for clue in group):
        return FRAMEWORK
    return failed[0] if failed else min(cause.breaks, key=ORDER.index)


def _gpu_addresses(facts: Facts) -> frozenset[str]:
    """The GPUs of the bus; where it is not seen, those that CUDA lists."""
    bus = facts.value(PCI)
    if bus is not None:
        return frozenset(gpu.address for gpu in bus.nvidia_gpus)
    return frozenset(device.address for device in climbed(facts).devices if device.address is not None)


def _quotes(group: Sequence[Clue]) -> tuple[Quote, ...]:
    """What the machine shows, then what a text says: of a text's lines one stays in any case, for nothing is carried out then."""
    seen: dict[tuple[str, str], Quote] = {}
    for clue in group:
        for quote in clue.quotes:
            seen.setdefault((quote.source, quote.text), quote)
    said = [quote for quote in seen.values() if quote.source == _TEXT]
    shown = [quote for quote in seen.values() if quote.source != _TEXT]
    return (*shown[: MAX_QUOTES - bool(said)], *said)[:MAX_QUOTES]


# ---------------------------------------------------------------- order and explanation
def place(case: Case) -> tuple[int, int, str, str]:
    return ORDER.index(case.rung), LAYERS.index(case.cause.layer), case.cause.id, case.finding.subject


def in_order(cases: Iterable[Case]) -> list[Case]:
    return sorted(cases, key=lambda case: (EFFECT_ORDER[case.finding.effect], *place(case)))


def explains(a: Case, b: Case) -> bool:
    """Whether finding `a` accounts for finding `b`."""
    if a is b or a.finding.effect != "blocks" or a.scope not in ("machine", b.scope) or b.finding.proof is not None:
        return False  # what was proven by an experiment is no consequence of anything else
    if a.finding.proof is not None and (a.rung == b.rung or b.rung in below(a.rung)):
        return True
    if a.cause.id in b.cause.yields_to:
        return True
    if b.cause.id in a.cause.yields_to:
        return False
    if a.rung in below(b.rung):
        return True
    # At one rung what the rung itself states accounts for what only a rule found.
    return a.rung == b.rung and (a.from_rung is None, place(a)) < (b.from_rung is None, place(b))


def root_of(blocking: Sequence[Case]) -> Case:
    proven = [case for case in blocking if case.finding.proof is not None]
    free = proven or [case for case in blocking if not any(explains(other, case) for other in blocking)]
    return min(free or blocking, key=place)


def explained_by(root: Case, cases: Sequence[Case]) -> list[Case]:
    found: list[Case] = []
    todo, left = [root], [case for case in cases if case is not root]
    while todo and left:
        one = todo.pop()
        more: list[Case] = []
        rest: list[Case] = []
        for case in left:
            (more if explains(one, case) else rest).append(case)
        left = rest
        found += more
        todo += more
    return found


def gravest(cases: Sequence[Case]) -> Case:
    """Among what degrades, the first that no other accounts for."""
    degrading = [case for case in cases if case.finding.effect == "degrades"]
    free = [case for case in degrading if not any(other.cause.id in case.cause.yields_to for other in degrading)]
    return min(free or degrading, key=place)
