"""Texts to facts. PARSERS is the list of all parsers; `read` applies them to evidence.

Several parsers may state the same key: their order here is the order of trust (sysfs before lspci, lspci before lshw).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import msgspec

from cudadoctor.model.evidence import SPARED, Evidence, Item
from cudadoctor.model.facts import Fact, Facts, Quote, Unknown
from cudadoctor.model.guard import Guard
from cudadoctor.model.values import BUNDLE, CONTAINER_MARKS, HANGS, LADDER, PYTHON_RAN, Hang, Hangs, Ladder, Silent
from cudadoctor.parsers import attempts, os_release, setting, system_names, worker_frameworks, worker_gpu, worker_ladder
from cudadoctor.parsers.base import Parser, Text
from cudadoctor.parsers.discourse import speech_of
from cudadoctor.parsers.json_lines import last_words
from cudadoctor.parsers.literals import Literals, Places

if TYPE_CHECKING:
    from cudadoctor.knowledge.load import Knowledge

_MODULES = (
    "pci_sysfs", "lspci", "lshw", "modules", "driver_version", "module_files", "packages", "kernel_log", "dev", "user", "booted",
    "surroundings", "environment", "driver_libraries", "programs", "nvidia_smi", "nvidia_smi_csv", "nvcc",
    "worker_nvml", "nvml_of_smi", "worker_python_env", "worker_processes", "worker_ladder", "worker_gpu", "worker_frameworks",
    "package_lists", "frameworks", "names", "numba_report", "nvidia_smi_query", "pcie_link",
    "limits", "video_controllers", "windows_version", "dcgm", "launches", "container_stack", "setting_files",
    "process_table", "managed", "held_packages",
)  # fmt: skip


PARSERS: tuple[Parser, ...] = tuple(
    parser
    for module in (import_module(f"cudadoctor.parsers.{name}") for name in _MODULES)
    for parser in (getattr(module, "PARSERS", None) or (module.PARSER,))
)
_OF_KNOWLEDGE = (os_release, system_names, setting)
HANG_STATUSES = ("timed-out", "abandoned")
HANG_NAMES = {"nvidia-smi": "nvidia-smi", "nvml": "NVML", "ladder": "the CUDA driver (libcuda)"}


def text_of(item: Item, *, with_stderr: bool = False) -> Text:
    body = item.stdout or ""
    if with_stderr and item.stderr:
        body = f"{body}\n{item.stderr}" if body and not body.endswith("\n") else body + item.stderr
    return Text(body, source=item.source, origin=item.origin, whole=item.whole, item=item)


def parsers(knowledge: Knowledge) -> tuple[Parser, ...]:
    """All parsers: those that need no knowledge, those that do, and those of extensions."""
    return (*PARSERS, *(parser for module in _OF_KNOWLEDGE for parser in module.parsers(knowledge)), *knowledge.more_parsers)


def literals(knowledge: Knowledge) -> Literals:
    return knowledge.once("wakes", lambda: Literals(literal for parser in parsers(knowledge) for literal in parser.wakes))


def read(evidence: Evidence, guard: Guard, knowledge: Knowledge) -> Facts:
    """All facts of this evidence. A parser that fails becomes a crash entry and loses only its own facts."""
    every = parsers(knowledge)
    facts: list[Fact[object]] = []
    unknown: list[Unknown] = []
    pasted = {item.id: _pasted(item, guard, knowledge) for item in evidence.items if item.kind == "text"}
    held = {name: literals(knowledge).places(text.text) for name, text in pasted.items()}
    for parser in every:
        for item in evidence.items:
            if item.kind == "text":
                found = _from_pasted(parser, item, pasted[item.id], held[item.id], guard)
            elif item.id in parser.reads:
                found = _from_item(parser, item, guard)
            else:
                continue
            for entry in found:
                (unknown if isinstance(entry, Unknown) else facts).append(entry)  # type: ignore[arg-type]
    facts += [_hangs(evidence), *_ran(evidence)]
    if evidence.bundle is not None:
        facts.append(Fact(key=BUNDLE.name, value=evidence.bundle, quotes=(), origin=evidence.origin))
    climbed = worker_gpu.joined(_merged(facts))
    return Facts(worker_frameworks.joined(_marks(climbed, evidence), evidence), unknown)


def _pasted(item: Item, guard: Guard, knowledge: Knowledge) -> Text:
    text = text_of(item)
    return guard.read(item.id, "parse", "attempts", text, lambda: attempts.present(text, speech_of(knowledge)))


def _from_pasted(parser: Parser, item: Item, text: Text, holds: Places, guard: Guard) -> list[Fact[object] | Unknown]:
    if not any(literal in holds for literal in parser.wakes):
        return []
    nothing: list[Fact[object] | Unknown] = []
    output = guard.read(item.id, "parse", parser.name, nothing, lambda: list(parser.parse(text)))
    return [entry for entry in output if isinstance(entry, Fact)]


def _from_item(parser: Parser, item: Item, guard: Guard) -> list[Fact[object] | Unknown]:
    if item.status == "absent":
        words = item.why or f"{item.source}: not there"
        quote = Quote(source=item.source, text=words)
        return [Fact(key=key, value=None, quotes=(quote,), origin=item.origin) for key in parser.absent]
    if not item.answered and not (item.status in HANG_STATUSES and item.kind == "worker" and item.stdout):
        return [Unknown(key=key, why=f"{item.status}: {item.why or item.source}") for key in parser.keys]
    nothing: list[Fact[object] | Unknown] = [Unknown(key=key, why=f"the parser {parser.name} failed") for key in parser.keys]
    text = text_of(item, with_stderr=parser.reads_stderr)
    found = guard.read(item.id, "parse", parser.name, nothing, lambda: list(parser.parse(text)))
    stated = {entry.key for entry in found}
    why = (
        f"{item.source}: not understood"
        if item.status == "ok"
        else f"{item.source}: ended with {item.exit if item.exit is not None else item.signal}"
    )
    return found + [Unknown(key=key, why=why) for key in parser.keys if key not in stated]


def _hangs_there(item: Item) -> bool:
    """Whether it gave no answer. One that prints without end is no sign of a driver that hangs, nor is a ladder that was not begun."""
    return (
        item.id in HANG_NAMES
        and item.status in HANG_STATUSES
        and not item.dropped_bytes
        and not (item.id == "ladder" and _never_began(item))
    )


def _never_began(item: Item) -> bool:
    """Whether the interpreter hung before the worker's first line, which the ladder writes before it asks the driver anything."""
    return item.status in HANG_STATUSES and not (item.stdout or "").strip()


def _hangs(evidence: Evidence) -> Fact[object]:
    """Which probes gave no answer within their limit: known for every run, whatever the answers would have been."""
    asked = tuple(item.id for item in evidence.items if item.id in HANG_NAMES and (item.status != "not-run" or item.why == SPARED))
    hung = [item for item in evidence.items if _hangs_there(item)]
    entries = tuple(
        Hang(
            item=item.id,
            what=HANG_NAMES[item.id],
            seconds=round(item.seconds, 1),
            step=worker_ladder.open_step(item.stdout or "") if item.id == "ladder" else None,
            uninterruptible=item.status == "abandoned",
        )
        for item in hung
    )
    quotes = tuple(Quote(source=item.source, text=item.why or item.status) for item in hung)
    return Fact(key=HANGS.name, value=Hangs(entries=entries, asked=asked), quotes=quotes, origin=evidence.origin)


def _ran(evidence: Evidence) -> list[Fact[object]]:
    """Whether the examined Python ran what it was asked to: where it did not, what another one did says nothing of it."""
    listing, ladder = evidence.get("python-env"), evidence.get("ladder")
    ran = [item for item in (ladder, listing) if item is not None and item.status != "not-run"]
    hung = len(ran) > 1 and all(map(_never_began, ran))
    asked = next((item for item in ran if hung or item.status not in HANG_STATUSES), None)
    if asked is None:
        return []
    if not hung and not _is_silent(asked):
        return [Fact(key=PYTHON_RAN.name, value=None, quotes=(), origin=evidence.origin)]
    words = f"{asked.why or asked.status}, and not one line" if hung else last_words(text_of(asked))
    path = asked.what if isinstance(asked.what, str) else asked.what[0]
    # As a Python says that is too old for us; and one that hangs may only be slow.
    at_all = listing is not None and _is_silent(listing) and "SyntaxError" not in words and not hung
    return [
        Fact(
            key=PYTHON_RAN.name,
            value=Silent(path=path, words=words, at_all=at_all),
            quotes=(Quote(source=path, text=words),),
            origin=evidence.origin,
        )
    ]


def _is_silent(item: Item) -> bool:
    return item.status in ("failed", "denied", "absent") and not (item.stdout or "").strip()


def _marks(facts: list[Fact[Any]], evidence: Evidence) -> list[Fact[Any]]:
    """Container marks are read in several places: all that were found count, and "no mark" needs every place to have been read."""
    marks = [fact for fact in facts if fact.key == CONTAINER_MARKS.name]
    others = [fact for fact in facts if fact.key != CONTAINER_MARKS.name]
    found = [fact for fact in marks if fact.value]
    if found:
        words = tuple(dict.fromkeys(word for fact in found for word in fact.value or ()))
        joined = msgspec.structs.replace(found[0], value=words, quotes=tuple(quote for fact in found for quote in fact.quotes))
        return [joined, *others]
    windows = evidence.get("windows-version") is not None
    places = [evidence.get(name) for name in (("windows-version",) if windows else ("dockerenv", "containerenv", "cgroup", "environment"))]
    everywhere = all(item is not None and (item.answered or item.status == "absent") for item in places)
    return others + marks[:1] if everywhere else others


def _merged(facts: list[Fact[object]]) -> list[Fact[object]]:
    """The ladder climbed in the doctor's own Python completes the examined interpreter's."""
    climbs = [fact for fact in facts if fact.key == LADDER.name and isinstance(fact.value, Ladder)]
    if len(climbs) < 2:
        return facts
    first, own = climbs[0], climbs[1]
    assert isinstance(first.value, Ladder)
    assert isinstance(own.value, Ladder)
    joined = msgspec.structs.replace(first, value=worker_ladder.merge(first.value, own.value), quotes=first.quotes + own.quotes)
    return [joined, *(fact for fact in facts if fact is not first and fact is not own)]
