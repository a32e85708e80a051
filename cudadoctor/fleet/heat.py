"""Every GPU's figures as percentages of the usual one, in one byte each: what a heat map shows. Pure."""

from __future__ import annotations

from cudadoctor.fleet.stragglers import Figures, shares

NONE = 255  # not measured, or without equals
_MOST = 254


def by_figure(figures: Figures) -> dict[str, bytes]:
    """A byte for each GPU of each node, in order."""
    found: dict[str, bytearray] = {}
    for name, place, share in shares(figures):
        row = found.get(name) or found.setdefault(name, bytearray([NONE]) * len(figures.gpus))
        row[place] = min(round(share * 100), _MOST)
    return {name: bytes(row) for name, row in found.items()}
