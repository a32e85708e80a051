"""What is left of a question without what took too long. Values only."""

from __future__ import annotations

import msgspec

from cudadoctor.model.evidence import Evidence, Item
from cudadoctor.model.judgement import Question

END = 64 << 10  # characters that are kept of a text that took too long


def without(part: str | None, asked: Question, too_long: frozenset[str]) -> tuple[Question, frozenset[str]]:
    """The question without what took too long, or with less of it; and the parts of the work that are not to be done."""
    machine, _, what = (part or "").partition("/")
    if not machine.isdigit() or int(machine) >= len(asked.machines):
        return asked, too_long
    if not what.startswith("item "):
        return asked, too_long | {part or ""}
    machines = list(asked.machines)
    machines[int(machine)] = _less(machines[int(machine)], what.removeprefix("item "))
    return msgspec.structs.replace(asked, machines=tuple(machines)), too_long


def _less(evidence: Evidence, name: str) -> Evidence:
    """The evidence with the end of a text in place of all of it, or without a piece."""
    items = []
    said = list(evidence.remarks)
    for item in evidence.items:
        if item.id == name:
            item, words = _end(item) if item.kind == "text" and len(item.stdout or "") > END else _gone(item)
            said.append(words)
        items.append(item)
    return msgspec.structs.replace(evidence, items=tuple(items), remarks=tuple(said), cut_short=True)


def _end(item: Item) -> tuple[Item, str]:
    text = item.stdout or ""
    return (
        msgspec.structs.replace(item, stdout=text[-END:].partition("\n")[2] or text[-END:], dropped_bytes=len(text) - END),
        f"Reading all of the text would take too long: its last {END >> 10} KiB were read.",
    )


def _gone(item: Item) -> tuple[Item, str]:
    # That bytes were dropped tells it from a program that gave no answer.
    gone = msgspec.structs.replace(
        item, status="timed-out", why="reading it takes too long", stdout=None, stderr=None, dropped_bytes=max(1, len(item.stdout or ""))
    )
    return gone, f"Reading this piece of evidence would take too long, so it was left out: {item.source}."


def emptied(evidence: Evidence) -> Evidence:
    """Nothing of it that would have to be read."""
    items = tuple(_gone(item)[0] for item in evidence.items)
    said = (*evidence.remarks, "Reading the rest would take too long, so it was left out.")
    return msgspec.structs.replace(evidence, items=items, remarks=said, cut_short=True)
