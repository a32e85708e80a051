"""The rows of tables/wording.toml as typed values: how much a word, or two words side by side, points at a cause."""

from __future__ import annotations

from collections.abc import Mapping

from cudadoctor.knowledge.tables import Table

Weights = Mapping[str, tuple[tuple[str, float], ...]]  # cue -> the causes it points at, each with its weight


class Wording(Table, frozen=True, kw_only=True):
    """`cues`: cause -> its cues, strongest first, as "0.93 fallen off, 0.71 bus ..."."""

    cues: dict[str, str]

    def by_cue(self) -> Weights:
        """ValueError where a cue has no weight."""
        found: dict[str, list[tuple[str, float]]] = {}
        for cause, listed in self.cues.items():
            for entry in listed.split(","):
                weight, _, cue = entry.strip().partition(" ")
                found.setdefault(cue, []).append((cause, float(weight)))
        return {cue: tuple(causes) for cue, causes in found.items()}
