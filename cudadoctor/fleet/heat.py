"""Every GPU's figures as percentages of the usual one, in one byte each: what a heat map shows. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cudadoctor.fleet import stragglers
from cudadoctor.model.fleet import Node

NONE = 255  # not measured, or without equals
_MOST = 254


def shares(nodes: Sequence[Node], less: Mapping[str, bool]) -> dict[str, bytes]:
    """By figure: a byte for each GPU of each node, in order. `nodes`: each once; `less` as for stragglers."""
    places = {(node.name, gpu.number): at for at, (node, gpu) in enumerate((node, gpu) for node in nodes for gpu in node.gpus)}
    found: dict[str, bytearray] = {}
    for (node, gpu, measured), share in stragglers.shares(nodes, less):
        row = found.setdefault(measured.name, bytearray([NONE]) * len(places))
        row[places[node.name, gpu.number]] = min(round(share * 100), _MOST)
    return {name: bytes(row) for name, row in found.items()}
