"""GPUs that are slower than their equals (inventory/equals.py), or than they were themselves. Pure.

Equal are GPUs of one model, link and power limit. Figures are compared at one clock, the usual one under the load.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from cudadoctor.inventory.equals import LEAST_PEERS, comparable, slow, usual_clock
from cudadoctor.model.fleet import Measured, Node, NodeGpu, Straggler

NO_HEAT = 255


def behind_themselves(values: Sequence[float], own: Sequence[Sequence[float]]) -> list[tuple[int, float]]:
    """The places of the values that are too low for the very GPU, each with its usual value. `own`: its values in earlier runs.

    Shares of each GPU's own median are compared, of which every run gives one: two GPUs are enough.
    """
    known = [place for place, before in enumerate(own) if before]
    usual = {place: statistics.median(own[place]) for place in known}
    shares = [value / usual[place] for place in known if len(own[place]) > 1 for value in own[place]]
    found = slow([values[place] / usual[place] for place in known], shares)
    return [(known[at], usual[known[at]]) for at, _ in found]


class _Kind(NamedTuple):
    """One figure of equal GPUs, in columns. `at`: the GPUs, by their place among all; `values`: higher is better, at the usual clock."""

    name: str
    less: bool
    at: list[int]
    measured: list[Measured]
    values: list[float]


class Figures:
    """The figures of many nodes, by kind. `less`: the figures that are compared, and whether less of each is better."""

    def __init__(self, nodes: Sequence[Node], less: Mapping[str, bool]) -> None:
        self.less = less
        self.gpus = [(node, gpu) for node in nodes for gpu in node.gpus]
        columns: dict[tuple[str, tuple[str, ...]], tuple[list[int], list[Measured]]] = {}
        for place, (_, gpu) in enumerate(self.gpus):
            for measured in gpu.figures:
                if measured.value > 0 and measured.name in less:
                    key = measured.name, measured.equal
                    column = columns.get(key) or columns.setdefault(key, ([], []))
                    column[0].append(place)
                    column[1].append(measured)
        self.kinds = {
            (name, equal): _Kind(name, less[name], at, measured, _comparable(measured, less[name]))
            for (name, equal), (at, measured) in columns.items()
        }

    def same(self, place: int) -> tuple[str, str]:
        """Which GPU it is in every run."""
        node, gpu = self.gpus[place]
        return node.name, gpu.uuid or str(gpu.number)


def find(now: Figures, then: Figures) -> Iterator[Straggler]:
    """`then`: what earlier runs measured."""
    for key, kind in now.kinds.items():
        flagged = dict(slow(kind.values))
        for number, usual in flagged.items():
            yield _straggler(now, kind, number, usual, len(kind.values) - 1, "peers")
        past = then.kinds.get(key)
        if past is None:
            continue
        before: dict[tuple[str, str], list[float]] = {}
        for place, value in zip(past.at, _comparable(past.measured, past.less, _clock(kind.measured)), strict=True):
            before.setdefault(then.same(place), []).append(value)
        own = [before.get(now.same(place), []) for place in kind.at]
        for number, usual in behind_themselves(kind.values, own):
            if number not in flagged:
                yield _straggler(now, kind, number, usual, len(own[number]), "history")


def measured_twice(nodes: Sequence[Node], again: Sequence[Node], less: Mapping[str, bool]) -> list[Node]:
    """The nodes, each with the better of two values of a figure: who is slow is slow each time. Kept is what the first answer says else."""
    second = {(node.name, gpu.uuid or str(gpu.number), one.name): one for node in again for gpu in node.gpus for one in gpu.figures}
    names = {node.name for node in again}

    def better(node: Node, gpu: NodeGpu, one: Measured) -> Measured:
        other = second.get((node.name, gpu.uuid or str(gpu.number), one.name), one)
        return min(one, other, key=lambda figure: figure.value if less.get(one.name) else -figure.value)

    def merged(node: Node) -> Node:
        gpus = (msgspec.structs.replace(gpu, figures=tuple(better(node, gpu, one) for one in gpu.figures)) for gpu in node.gpus)
        return msgspec.structs.replace(node, gpus=tuple(gpus))

    return [merged(node) if node.name in names else node for node in nodes]


def heat(figures: Figures) -> dict[str, bytes]:
    """By figure a byte for each GPU of each node, in order: the percentage of its equals' median, NO_HEAT where it was not measured or has
    no equals."""
    found: dict[str, bytearray] = {}
    for kind in figures.kinds.values():
        if len(kind.values) <= LEAST_PEERS:
            continue
        row = found.setdefault(kind.name, bytearray([NO_HEAT]) * len(figures.gpus))
        percent = 100 / statistics.median(kind.values)
        for place, value in zip(kind.at, kind.values, strict=True):
            share = round(value * percent)
            row[place] = share if share < NO_HEAT else NO_HEAT - 1
    return {name: bytes(row) for name, row in found.items()}


def _clock(measured: Sequence[Measured]) -> float:
    return usual_clock([one.clock_mhz for one in measured])


def _comparable(measured: Sequence[Measured], less: bool, clock: float | None = None) -> list[float]:
    """At `clock`, or the usual one of these."""
    values, clocks = [one.value for one in measured], [one.clock_mhz for one in measured]
    return comparable(values, clocks, _clock(measured) if clock is None else clock, less=less)


def _straggler(figures: Figures, kind: _Kind, number: int, usual: float, peers: int, against: Literal["peers", "history"]) -> Straggler:
    (node, gpu), measured = figures.gpus[kind.at[number]], kind.measured[number]
    return Straggler(
        node=node.name,
        gpu=gpu.number,
        uuid=gpu.uuid,
        figure=measured.name,
        value=measured.value,
        unit=measured.unit,
        usual=1 / usual if kind.less else usual,
        behind=round(1 - kind.values[number] / usual, 4),
        peers=peers,
        against=against,
    )
