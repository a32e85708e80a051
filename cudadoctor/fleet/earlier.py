"""Nodes held against their last earlier report: what got worse. What a GPU's figures lost is the stragglers'. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from cudadoctor.model.fleet import Node, Worse

_GRAVER = {"healthy": 0, "degraded": 1, "undecided": 2, "broken": 3}


def worse(nodes: Iterable[Node], earlier: Sequence[Node]) -> tuple[Worse, ...]:
    """`nodes` and `earlier`: each node once. The same change of many nodes is one, the commonest first."""
    before = {node.name: node for node in earlier}
    by_what: dict[str, list[str]] = {}
    seen = set()
    for node in nodes:
        seen.add(node.name)
        for what in _changes(before[node.name], node) if node.name in before else ():
            by_what.setdefault(what, []).append(node.name)
    gone = [name for name in before if name not in seen]
    if gone:
        by_what["no report this time"] = gone
    found = [Worse(what=what, nodes=tuple(names)) for what, names in by_what.items()]
    return tuple(sorted(found, key=lambda one: -len(one.nodes)))


def _changes(before: Node, now: Node) -> Iterator[str]:
    if _GRAVER[now.verdict] > _GRAVER[before.verdict] or (now.verdict == before.verdict and now.cause not in (before.cause, None)):
        yield f"{_state(before)} before, now {_state(now)}"
    there = _uuids(now)
    yield from (f"GPU {uuid} is gone" for uuid in _uuids(before) if uuid not in there)


def _state(node: Node) -> str:
    return node.verdict if node.cause is None else f"{node.verdict} ({node.cause})"


def _uuids(node: Node) -> dict[str, None]:
    return dict.fromkeys(gpu.uuid for gpu in node.gpus if gpu.uuid is not None)
