"""What an experiment came to: the ladder's lines of a run in which one thing was changed. No fact comes from them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cudadoctor.inventory.rungs import LADDER_ORDER
from cudadoctor.model.evidence import Evidence, Item
from cudadoctor.model.experiments import PREFIX, START, Failure, Ran, Try
from cudadoctor.model.values import RungResult
from cudadoctor.parsers.base import Text
from cudadoctor.parsers.json_lines import records
from cudadoctor.parsers.worker_ladder import HANGING, ended_between, rungs_of, telling_line, unfinished

MARK = "--try"
_KIND = 80  # characters of an error's last line that tell it from another


def argv(what: Try) -> tuple[str, str]:
    """The words of a command line that say which experiment it is."""
    return MARK, msgspec.json.encode(what).decode()


def read(evidence: Evidence) -> tuple[Ran, ...]:
    """The experiments of this evidence, in the order in which they were carried out."""
    items = [item for item in evidence.items if item.id.startswith(PREFIX) and item.id[len(PREFIX) :].isdigit()]
    found = (ran(item) for item in sorted(items, key=lambda item: int(item.id[len(PREFIX) :])))
    return tuple(one for one in found if one is not None)


def ran(item: Item) -> Ran | None:
    """One of them; None where it cannot be read."""
    what = _what(item)
    if what is None:
        return None
    results = _results(item)
    first = first_failure(results)
    hung = item.status in HANGING or (first is not None and first.status == "hang") or item.signal == 9
    broken = failure(first, gpu=what.gpu) if first is not None else start_failure(item)
    good = {result.rung for result in results} - {result.rung for result in results if result.status != "pass"}
    passed = ((START,) if started(item) else ()) + tuple(rung for rung in LADDER_ORDER if rung in good)
    return Ran(what=what, passed=passed, failed=broken, seconds=round(item.seconds, 2), hung=hung)


def first_failure(results: Sequence[RungResult]) -> RungResult | None:
    """The first rung that did not end well, in the order of the ladder."""
    bad = [result for result in results if result.status not in ("pass", "skip")]
    return min(bad, key=lambda result: LADDER_ORDER.index(result.rung), default=None)


def _what(item: Item) -> Try | None:
    if isinstance(item.what, str) or MARK not in item.what[:-1]:
        return None
    try:
        return msgspec.json.decode(item.what[item.what.index(MARK) + 1], type=Try)
    except (msgspec.MsgspecError, ValueError):
        return None


def _results(item: Item) -> Sequence[RungResult]:
    text = Text(item.stdout or "", source=item.source, origin=item.origin, item=item)
    entries = list(records(text))
    broken_off = unfinished(text, entries) or ended_between(text, entries)
    every = [*rungs_of(entries), *((broken_off,) if broken_off is not None else ())]
    return [result for result in every if result.rung in LADDER_ORDER]


def started(item: Item) -> bool:
    """Whether the interpreter ran the worker at all."""
    return '"event": "start"' in (item.stdout or "")


def start_failure(item: Item) -> Failure | None:
    """The interpreter ended before the worker's first line."""
    if started(item) or item.status != "failed":
        return None
    said = telling_line(item.stderr or "")
    return Failure(rung=START, kind=f"{item.exit} {item.signal}", words=said or f"the interpreter ended with {item.exit or item.signal}")


def failure(result: RungResult, *, gpu: str | None) -> Failure:
    """What makes a failure the same: its code, else the kind of error that its last line names."""
    said = telling_line(result.output)
    kind = f"{result.status} {result.code}" if result.code is not None or result.status == "crash" else said.partition(":")[0][:_KIND]
    words = f"{result.code} {result.name or ''}".strip() if result.code is not None else said or result.why or result.status
    return Failure(rung=result.rung, kind=kind, gpu=gpu, words=f"{result.rung}: {words}")
