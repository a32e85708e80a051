"""What the worker frameworks.py wrote, one item of evidence for each framework that was tried: how far it came, and where it broke."""

from __future__ import annotations

from typing import Any

import msgspec

from cudadoctor.model.evidence import Evidence
from cudadoctor.model.facts import Fact, Quote
from cudadoctor.model.frameworks import NAMES, run_words
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import FRAMEWORK_RUNS, FrameworkRun, FrameworkRuns
from cudadoctor.parsers.base import Output, Text, parser
from cudadoctor.parsers.json_lines import Record, build, ending, records, said, stderr_tail
from cudadoctor.parsers.worker_ladder import HANGING, OUTPUT_TAIL

ITEMS = tuple(f"framework-{name}" for name in NAMES)
# How loaders, Windows and the frameworks name a library that did not load.
_LIBRARY = lazy(
    r"\b(lib[\w.+-]{1,80}\.so[\w.]{0,20}): (?:cannot open shared object|file too short|undefined symbol|invalid ELF)"
    r"|Could not load (?:dynamic )?library '?(lib[\w.+-]{1,80}\.so[\w.]{0,20})|\bailed to load (lib[\w.+-]{1,80}\.so[\w.]{0,20})"
    r"|Error loading \"[^\"\n]{0,300}?([\w.+-]{1,80}\.dll)\"|Could not find module '[^'\n]{0,300}?([\w.+-]{1,80}\.dll)'"
)


def parse(text: Text) -> Output:
    """One run. A step that began and did not end is where the process crashed or hung."""
    entries = list(records(text))
    start = next((entry for entry in entries if entry.event == "start"), None)
    name = start.fields.get("framework") if start is not None else None
    if not isinstance(name, str) or name not in NAMES:
        return
    run = _run(text, name, entries)
    yield text.fact(FRAMEWORK_RUNS, FrameworkRuns(runs=(run,)), quote(run))


def _run(text: Text, name: str, entries: list[Record]) -> FrameworkRun:
    steps = [entry for entry in entries if entry.event in ("begin", "end")]
    if not steps:
        return FrameworkRun(name=name, status="unknown", why=ending(text))
    ended = [entry.fields for entry in steps if entry.event == "end"]
    fields = {key: told[key] for told in ended for key in ("version", "devices") if told.get(key)}
    last, told = steps[-1], dict(steps[-1].fields)
    if last.event == "begin":
        hung = text.item is None or text.item.status in HANGING or text.item.status == "ok"
        status = "hang" if hung else "crash"
        seconds = text.item.seconds if text.item is not None else None
        told |= {"why": ending(text), "output": "" if hung else stderr_tail(text, OUTPUT_TAIL), "seconds": seconds}
    else:
        status = {"pass": "pass", "skip": "idle"}.get(str(told.get("status")), "fail")
        if status == "pass" and told.get("step") != "compute":
            status = "unknown"  # it was cut short between two steps
    fields |= {key: told.get(key) for key in ("step", "why", "seconds", "output")}
    library = _library(str(told.get("output"))) if status == "fail" else None
    run = build(FrameworkRun, {**fields, "name": name, "status": status}, line=last.line, library=library)
    return run if run is not None else FrameworkRun(name=name, status="unknown", why="not understood")


def _library(output: str) -> str | None:
    found = _LIBRARY.search(output)
    return next((group for group in found.groups() if group), None) if found is not None else None


def quote(run: FrameworkRun) -> Quote:
    """`torch: import failed: ImportError: libcudnn.so.9: ...`, as a person would say it."""
    return said(f"import {run.name}", run.line or None, f"{run.name}: {run_words(run)}")


def joined(facts: list[Fact[Any]], evidence: Evidence) -> list[Fact[Any]]:
    """The runs of all frameworks as one fact, with those that gave no line at all."""
    found = [fact for fact in facts if fact.key == FRAMEWORK_RUNS.name]
    runs = [run for fact in found if isinstance(fact.value, FrameworkRuns) for run in fact.value.runs]
    known = {run.name for run in runs}
    silent = [
        FrameworkRun(name=name, status="unknown", why=item.why or item.status)
        for name in NAMES
        if (item := evidence.get(f"framework-{name}")) is not None and name not in known
    ]
    if not runs and not silent:
        return facts
    runs = sorted(runs + silent, key=lambda run: NAMES.index(run.name))
    quotes = tuple(quote for fact in found for quote in fact.quotes) + tuple(quote(run) for run in silent)
    first = found[0] if found else Fact(key=FRAMEWORK_RUNS.name, value=None, quotes=(), origin=evidence.origin)
    whole = msgspec.structs.replace(first, value=FrameworkRuns(runs=tuple(runs)), quotes=quotes)
    return [whole, *(fact for fact in facts if fact.key != FRAMEWORK_RUNS.name)]


PARSER = parser("worker_frameworks", parse, FRAMEWORK_RUNS, reads=ITEMS)
