"""Evidence to clues that the machine's own words state: failing rungs, NVML, nvidia-smi, the kernel log, a user's text.

Codes are recognised by parsers/error_codes.py, messages by parsers/signs.py; this module says which texts they are shown and what
a hit there means.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import msgspec

from cudadoctor.checks import dcgm, history
from cudadoctor.checks.driver_fit import libcuda_fits
from cudadoctor.inventory.rungs import LADDER_ORDER, Rungs
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.addresses import normal_address
from cudadoctor.model.evidence import OUTPUT, Evidence, Item
from cudadoctor.model.facts import Fact, Facts
from cudadoctor.model.findings import GPU_LAYERS, Clue
from cudadoctor.model.guard import Guard
from cudadoctor.model.values import (
    ASKED_FRAMEWORKS,
    DCGM,
    FRAMEWORK_RUNS,
    HANGS,
    KERNEL_LOG,
    LADDER,
    LAUNCH,
    NVML,
    PYTHON,
    SETTING,
    SMI,
    TEGRA,
    DcgmDiag,
    DcgmError,
    DcgmFailure,
    Ladder,
    Nvml,
)
from cudadoctor.parsers import attempts, error_codes, kernel_log, launches, out_of_memory, recovery, signs
from cudadoctor.parsers.base import Text
from cudadoctor.parsers.discourse import is_prose, speech_of
from cudadoctor.parsers.in_quotes import InQuotes
from cudadoctor.parsers.lines import prepared
from cudadoctor.parsers.literals import Literals
from cudadoctor.texts import tie_breakers
from cudadoctor.texts.tie_breakers import taken_back
from cudadoctor.texts.tie_breakers.case import Case

_CATALOGUE = 3  # lines whose causes have nothing in common
TEXT = "text"  # the source of what a user's text shows
BELOW_FRAMEWORKS = frozenset(LADDER_ORDER[: LADDER_ORDER.index("memory") + 1])  # rungs that the ladder climbs by itself
NEEDS_DRIVER = ("toolkit-newer-than-driver", "framework-lacks-gpu-arch")  # without a driver the same words mean that there is none


def literals(knowledge: Knowledge) -> Literals:
    """All that the recognisers look for."""
    return knowledge.once(
        "literals", lambda: Literals((*signs.literals(knowledge), *out_of_memory.LITERALS, *error_codes.literals(knowledge)))
    )


def _recognise(text: Text, knowledge: Knowledge, *, from_rung: str | None = None, is_text: bool = False) -> Iterator[Clue]:
    lines = prepared(text)
    lines.look_for(literals(knowledge))
    lines.in_quotes = knowledge.once("in quotes", lambda: InQuotes(knowledge.discourse)) if is_text else None
    yield from signs.clues(text, knowledge, from_rung=from_rung, is_text=is_text)
    yield from out_of_memory.clues(text, from_rung=from_rung, is_text=is_text)
    yield from error_codes.clues(text, knowledge, from_rung=from_rung, is_text=is_text)


def _of_python(clue: Clue, knowledge: Knowledge, python: str | None) -> Clue:
    """A fault of the Python side belongs to the interpreter that showed it."""
    cause = knowledge.causes.get(clue.cause)
    if cause is None or cause.layer != "python" or python is None:
        return clue
    return msgspec.structs.replace(clue, subject=f"python:{python}", values={**clue.values, "python": python})


def _of_gpu(clue: Clue, knowledge: Knowledge, ladder: Ladder, gpu: int | None) -> Clue:
    """A fault of one device belongs to the GPU whose rung showed it: the others may work, or have faults of their own."""
    cause = knowledge.causes.get(clue.cause)
    address = ladder.address(gpu)
    if cause is None or cause.layer not in GPU_LAYERS or address is None or clue.subject != "machine":
        return clue
    return msgspec.structs.replace(clue, subject=f"gpu:{normal_address(address) or address}")


def stated(evidence: Evidence, facts: Facts, knowledge: Knowledge, guard: Guard) -> tuple[Clue, ...]:
    """What failing rungs, NVML and nvidia-smi say of themselves, and what the user's text says."""
    found: list[Clue] = []
    none: list[Clue] = []
    for name, source in (("rungs", _rungs), ("nvml", _nvml), ("nvidia-smi", _smi), ("dcgm", _dcgm), ("frameworks", _frameworks)):
        found.extend(guard.run("texts", name, none, lambda source=source: list(source(facts, knowledge))))  # type: ignore[misc]
    for item in evidence.items:
        if item.kind == "text":
            said, before = guard.read(item.id, "texts", "text", (none, none), lambda item=item: _of_user(item, knowledge))  # type: ignore[misc]
            said = guard.run("texts", "taken back", said, lambda said=said: taken_back.standing(Case(said, facts, knowledge)))  # type: ignore[misc]
            decided = guard.run("texts", "ties", none, _decided, Case(said, facts, knowledge))
            now = guard.run("texts", "document", [*decided, *said], _reported, decided, Case(said, facts, knowledge), item)
            now = guard.run("texts", "refuted", now, _unrefuted, Case(now, facts, knowledge), _text(item))
            found.extend(guard.run("texts", "recovered", now, _recovered, Case(now, facts, knowledge), _text(item)))
            found.extend(before)
    return tuple(found)


# What a message alone tells. Whatever else a parser finds in a text is of one machine, and a document that cites messages has none of it.
_OF_MESSAGES = frozenset(key.name for key in (ASKED_FRAMEWORKS, HANGS, KERNEL_LOG, LAUNCH, SETTING, SMI))


def _reported(decided: list[Clue], case: Case, item: Item) -> list[Clue]:
    """Prose raises suspicions where it speaks of a GPU, and there is a message too, or somebody who speaks of his own machine."""
    speech, text, said = speech_of(case.knowledge), _text(item), case.said
    ours, others, any_gpu = (
        case.knowledge.conditions["texts"][name].search(text.text) for name in ("of-nvidia", "of-others", "of-any-gpu")
    )
    heard = (ours or any_gpu) and (said or speech.tells(text.lines))
    elsewhere = others and not ours
    now = [*(clue for clue in decided if not elsewhere and (heard or not clue.words)), *said]
    machine = case.facts.told_by_text() - _OF_MESSAGES
    messages = {line - 1 for clue in said for line in _lines(clue)}
    if item.what != OUTPUT and not machine and speech.cites(text.lines, messages):
        return []
    return [] if all(clue.basis == "suspected" for clue in now) and speech.asks_nothing_of_now(text.lines) else now


def _unrefuted(case: Case, text: Text) -> list[Clue]:
    quiet = functools.partial(speech_of(case.knowledge).quiet, text.lines)
    outcomes = case.knowledge.conditions["outcomes"]
    again = attempts.repeated(text, outcomes, launches.SIGNS)
    return taken_back.unrefuted(
        case, quiet, attempts.prompts(text), attempts.survived(text, outcomes), again, attempts.ended_by_restart(text)
    )


# Of these layers a fault is every program's, in containers too; and of one nvidia-smi lists no GPU.
_OF_HOST, _UNLISTED = ("kernel", "node", "container"), ("kernel",)


def _recovered(case: Case, text: Text) -> list[Clue]:
    """Without the clues that are over at the end: below all that the text states a GPU computes, and nobody asks on."""
    said, outcomes, one_gpu = list(case.said), case.knowledge.conditions["outcomes"], taken_back.one_gpu(case)

    def layer(clue: Clue) -> str:
        return case.knowledge.causes[clue.cause].layer

    def may_end(clue: Clue, layers: Sequence[str] | None) -> bool:
        return layer(clue) in layers if layers is not None else one_gpu or layer(clue) not in GPU_LAYERS

    ends: tuple[tuple[tuple[re.Pattern[str], ...], Sequence[str] | None], ...] = (
        ((outcomes["goes-on"], launches.SIGNS), None),
        ((outcomes["lists-gpu"],), _UNLISTED),
    )
    for seen, layers in ends if said else ():
        end = recovery.Recovery(text, outcomes, *seen)
        if end.works is None or not speech_of(case.knowledge).quiet(text.lines, end.works + 1):
            continue
        said = [clue for clue in said if not (may_end(clue, layers) and end.ends(end.shown(clue.quotes), of_host=layer(clue) in _OF_HOST))]
    return said


def _of_user(item: Item, knowledge: Knowledge) -> tuple[list[Clue], list[Clue]]:
    """What a user's text states of its last attempt on its last failing machine, and what only earlier ones state."""
    text = attempts.shown(_text(item), speech_of(knowledge))
    bygone = kernel_log.past_lines(text)
    old = attempts.replaced(text) | bygone
    said = _clues(attempts.without(text, old), knowledge)
    earlier = _clues(attempts.only(text, old), knowledge) if old else []
    sides = attempts.machines(text)
    failing = [lines for lines in sides if any(_rests_on(clue, lines) for clue in said if clue.basis == "stated")]
    if len(failing) > 1:
        others = frozenset().union(*failing[:-1]) - failing[-1]
        earlier += [clue for clue in said if _rests_on(clue, others)]
        said = [clue for clue in said if not _rests_on(clue, others)]
    known = {clue.cause for clue in said}
    past = [msgspec.structs.replace(clue, past=True) for clue in earlier if clue.cause not in known and clue.basis == "stated"]
    return history.weighed(said, earlier, bygone, kernel_log.log_of(text)), past


def _clues(text: Text, knowledge: Knowledge) -> list[Clue]:
    """None of a document: its messages have little in common, or no program printed one and nobody speaks of a machine of his own."""
    found = list(_recognise(text, knowledge, is_text=True)) or _of_title(text, knowledge)
    if _is_catalogue(found, error_codes.xids_named(text, knowledge), text.lines):
        return []
    shown = {line for clue in found for quote in clue.quotes for line in range(quote.first or 0, (quote.last or 0) + 1)}
    printed = not shown.isdisjoint(prepared(text).printed)
    return found if printed or speech_of(knowledge).tells(text.lines) else []


def _of_title(text: Text, knowledge: Knowledge) -> list[Clue]:
    """What the title of a report names, whose writer tells below that he met it: his word for it, which no program printed."""
    title = speech_of(knowledge).title_of_report(text.lines)
    if title is None:
        return []
    above = Text("\n" * title + text.lines[title].lstrip("# "), source=text.source, origin=text.origin)
    return [msgspec.structs.replace(clue, basis="suspected") for clue in _recognise(above, knowledge)]


def _is_catalogue(found: list[Clue], named: Iterable[tuple[int, tuple[str, ...]]], lines: Sequence[str]) -> bool:
    """Whether one line of words after the other speaks of causes of its own: a machine has one fault, or several that share a cause."""
    spoken: dict[int, set[str]] = {}
    said = ((quote.first, (clue.cause,)) for clue in found for quote in clue.quotes if quote.first is not None)
    for line, named_there in chain(said, named):
        if is_prose(lines[line - 1]):
            spoken.setdefault(line, set()).update(named_there)
    apart: list[set[str]] = []
    for causes in spoken.values():
        if all(causes.isdisjoint(others) for others in apart):
            apart.append(causes)
    return len(apart) >= _CATALOGUE


def _rests_on(clue: Clue, lines: frozenset[int]) -> bool:
    """Whether the last line that shows a clue is one of these (indexes from 0)."""
    return clue.quotes[-1].first is not None and clue.quotes[-1].first - 1 in lines


def _decided(case: Case) -> list[Clue]:
    """What the rules make of it. One that rests on the machine alone is no word of the text; one that rests on prose is a suspicion."""
    found = [clue for clue in tie_breakers.decided(case) if any(quote.source == TEXT for quote in clue.quotes)]
    words, prose = case.setting.words, case.setting.prose
    shown = {line for kind, line in words.items() if kind not in prose} | {line for clue in case.said for line in _lines(clue)}
    only_prose = {words[kind] for kind in prose} - shown
    return [msgspec.structs.replace(clue, basis="suspected") if only_prose & _lines(clue) else clue for clue in found]


def _lines(clue: Clue) -> set[int]:
    return {quote.first for quote in clue.quotes if quote.source == TEXT and quote.first is not None}


def _text(item: Item) -> Text:
    return Text(item.stdout or "", source=item.source, origin=item.origin, whole=item.whole, item=item)


def _rungs(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    found = facts.there(LADDER)
    if found is None or found.origin == "text":
        return
    ladder = found.need()
    for result in ladder.rungs:
        if result.status in ("fail", "crash", "hang") and result.output:
            where = f"{result.rung} on GPU {result.gpu}" if result.gpu is not None else result.rung
            text = Text(result.output, source=f"ladder: {where}", origin=found.origin)
            python = (ladder.numba.python if ladder.numba is not None else None) or ladder.python
            for clue in _recognise(text, knowledge, from_rung=result.rung):
                yield _of_python(_of_gpu(clue, knowledge, ladder, result.gpu), knowledge, python)


def _frameworks(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """What frameworks said that failed in a child. Of driver and GPU the ladder knows more: only what is theirs counts."""
    found, ladder, python = facts.there(FRAMEWORK_RUNS), facts.value(LADDER), facts.value(PYTHON)
    if found is None:
        return
    answered = ladder is not None and bool(ladder.devices)
    path = python.path if python is not None else None
    for run in found.need().runs:
        if run.status not in ("fail", "crash") or not run.output:
            continue
        text = Text(run.output, source=f"import {run.name}", origin=found.origin)
        for clue in _recognise(text, knowledge, from_rung="framework"):
            cause = knowledge.causes.get(clue.cause)
            if cause is None or BELOW_FRAMEWORKS & set(cause.breaks) or (clue.cause in NEEDS_DRIVER and not answered):
                continue
            values = {"framework": run.name, **({"library": run.library} if run.library is not None else {}), **clue.values}
            yield _of_python(msgspec.structs.replace(clue, asked=True, values=values), knowledge, path)


def _nvml(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    nvml = facts.there(NVML)
    if nvml is None or nvml.need().code == 0 or nvml.origin == "text":
        return
    if facts.value(TEGRA):
        return  # Jetson has no NVML on older JetPack, by design
    yield from _of_nvml(error_codes.code_clues("nvml", nvml.need().code, nvml.quotes, knowledge, from_rung="nvml"), facts)


def _of_nvml(found: Iterable[Clue], facts: Facts) -> Iterator[Clue]:
    for clue in found:
        if clue.cause != history.MISMATCH or not libcuda_fits(facts):
            yield clue if clue.basis == "stated" else msgspec.structs.replace(clue, from_rung=None)


def _smi(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    smi, nvml = facts.there(SMI), facts.there(NVML)
    failure = smi.need().failure if smi is not None else None
    if smi is None or failure is None or smi.origin == "text":
        return  # a user's text is read as a whole, and speaks for the program only
    if nvml is not None and nvml.origin != "text" and _answers_whole(nvml.need()):
        return  # what it asks answered for every GPU: the fault is its own, or another program stands in its place
    text = Text(failure, source="nvidia-smi", origin=smi.origin)
    yield from _of_nvml(_recognise(text, knowledge, from_rung="nvml"), facts)


def _answers_whole(nvml: Nvml) -> bool:
    sound = (gpu.handle_error is None and gpu.recovery_action in (None, "none") for gpu in nvml.gpus)
    return nvml.code == 0 and bool(nvml.gpus) and all(sound)


def _dcgm(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """What failed tests of DCGM say: by DCGM's number, else by the words (which may name an Xid)."""
    for fact, failure in dcgm.failures(facts):
        for error in failure.errors:
            yield from _of_test(fact, failure, error, knowledge)


def _of_test(fact: Fact[DcgmDiag], failure: DcgmFailure, error: DcgmError, knowledge: Knowledge) -> Iterator[Clue]:
    numbered = list(dcgm.by_number(fact, failure, error, knowledge))
    yield from numbered
    for clue in () if numbered else _recognise(Text(error.text, source="dcgmi diag", origin=fact.origin), knowledge):
        yield msgspec.structs.replace(clue, quotes=(dcgm.quote(fact, failure, error),))


def unexplained(facts: Facts, knowledge: Knowledge) -> bool:
    """Whether a test of DCGM failed for a reason that no cause stands for: that is no healthy GPU, and nobody is accused."""
    open_ = (not any(list(_of_test(fact, one, error, knowledge)) for error in one.errors) for fact, one in dcgm.failures(facts))
    found = facts.value(DCGM)
    return any(open_) or (found is not None and found.runtime_error is not None)


def of_kernel_log(evidence: Evidence, facts: Facts, knowledge: Knowledge, rungs: Rungs, guard: Guard) -> tuple[list[Clue], list[Clue]]:
    """What the kernel log states, split into what may hold now and what is past or contradicted by the machine (checks/history.py)."""
    item = evidence.get("kernel-log")
    if item is None or not item.answered:
        return [], []
    none: list[Clue] = []
    found = guard.read(item.id, "texts", "kernel log", none, lambda: list(_recognise(_text(item), knowledge)))
    return guard.run("texts", "history", (none, none), history.split, found, facts, knowledge, rungs)
