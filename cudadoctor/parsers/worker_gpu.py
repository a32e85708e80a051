"""What workers wrote that do more on a GPU than the ladder: figures measured more than once become one, steps join the ladder's.

A worker that hung or crashed says so by the step that it had begun; the other GPUs' workers are not touched by it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from cudadoctor.model.facts import Fact
from cudadoctor.model.values import GPU_WORK, LADDER, Ladder, Measurement, SmokeStep
from cudadoctor.parsers.base import Output, Text, parser
from cudadoctor.parsers.json_lines import Record, ending, every, nothing_read, records, said
from cudadoctor.parsers.worker_ladder import last_of, lists_of, rungs_of, spoken_line, unfinished

MOST_GPUS = 64
WORKERS = ("benchmark", "smoke", "sustained")
PEER = "peer copy"
TIMES = ("ns", "us", "ms", "s")  # units of which less is better
ITEMS = tuple(f"{worker}-{place}" for worker in WORKERS for place in (*range(MOST_GPUS), "peers"))


def runs_joined(measured: Iterable[Measurement]) -> tuple[Measurement, ...]:
    """One figure of each name, GPU and peer, where several runs measured it: that of the better run, for what disturbs only slows."""
    grouped: dict[tuple[int, int | None, str], list[Measurement]] = {}
    for one in measured:
        grouped.setdefault((one.gpu, one.peer, one.name), []).append(one)
    return tuple(_joined(group) for group in grouped.values())


def _joined(group: list[Measurement]) -> Measurement:
    known = [one for one in group if one.value is not None]
    if len(known) < 2:
        return known[0] if known else group[0]
    values = tuple(one.value for one in known if one.value is not None)
    smaller = known[0].unit in TIMES
    best = min(known, key=lambda one: (one.value or 0.0) * (1 if smaller else -1))
    between = (max(values) - min(values)) / max(values) if max(values) > 0 else None
    spreads = [spread for spread in (*(one.spread for one in known), between) if spread is not None]
    return msgspec.structs.replace(
        best,
        runs=values,
        spread=round(max(spreads), 4) if spreads else None,
        seconds=round(sum(one.seconds or 0.0 for one in group), 6),
    )


def parse(text: Text) -> Output:
    entries = list(records(text))
    if not any(entry.event in ("start", "begin", "end") for entry in entries):
        yield from nothing_read(text, "the worker on the GPU", GPU_WORK)
        return
    broken = unfinished(text, entries)
    lists = lists_of(entries)
    lists |= {
        "benchmark": runs_joined(every(Measurement, "benchmark", entries)),
        "smoke": lists["smoke"] + _broken_off(text, entries),
        "rungs": (*rungs_of(entries), *((broken,) if broken is not None else ())),
    }
    work = Ladder(**lists)  # type: ignore[arg-type]
    quotes = tuple(quote for quote in map(spoken_line, entries) if quote is not None)
    yield text.fact(GPU_WORK, work, *(quotes or (said("worker on a GPU", 1, "started"),)))


def _broken_off(text: Text, entries: list[Record]) -> tuple[SmokeStep, ...]:
    """A copy between GPUs at which the worker fell silent. What breaks off under a rung is told by that rung."""
    last = last_of(entries, "begin", "end", "smoke", "done")
    step, gpu = (last.fields.get("step"), last.fields.get("gpu")) if last is not None else (None, None)
    if last is None or last.event != "begin" or not str(step).startswith(PEER) or not isinstance(gpu, int):
        return ()
    why = f"GPU {gpu}: {step}: it did not end ({ending(text)})"
    return (SmokeStep(gpu=gpu, step=str(step), status="fail", why=why, line=last.line),)


def joined(facts: list[Fact[Any]]) -> list[Fact[Any]]:
    """The ladder with what the workers of single GPUs found: their figures replace the ladder's own of that name and GPU."""
    of_gpus = [fact for fact in facts if fact.key == GPU_WORK.name]
    works = [fact.value for fact in of_gpus if isinstance(fact.value, Ladder)]
    first = next((fact for fact in facts if fact.key == LADDER.name and isinstance(fact.value, Ladder)), None)
    if not works or first is None or not isinstance(first.value, Ladder):
        return facts
    ladder = first.value
    found = {name: tuple(one for work in works for one in getattr(work, name)) for name in ("smoke", "loads", "sustained", "lessons")}
    measured = tuple(one for work in works for one in work.benchmark)
    again = {(one.gpu, one.name) for one in measured}
    kept = tuple(one for one in ladder.benchmark if (one.gpu, one.name) not in again)
    known = {guest.gpu for guest in ladder.guests}
    guests = tuple(guest for work in works for guest in work.guests if guest.gpu not in known)
    broken = tuple(one for work in works for one in work.rungs if one.status not in ("pass", "skip"))
    whole = msgspec.structs.replace(
        ladder,
        benchmark=kept + measured,
        guests=ladder.guests + tuple({guest.gpu: guest for guest in guests}.values()),
        rungs=ladder.rungs + broken,
        **{**found, "smoke": ladder.smoke + found["smoke"]},
    )
    quotes = first.quotes + tuple(quote for fact in of_gpus for quote in fact.quotes)
    return [msgspec.structs.replace(first, value=whole, quotes=quotes), *(fact for fact in facts if fact is not first)]


PARSER = parser("worker_gpu", parse, GPU_WORK, reads=ITEMS)
