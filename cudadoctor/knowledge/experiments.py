"""The rows of tables/experiments.toml: what an experiment may change, and what it never touches."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Literal

from cudadoctor.knowledge.tables import Sourced, Table

What = Literal["keep", "launcher", "job", "granted", "group"]


class Rule(Sourced, frozen=True, kw_only=True):
    what: What
    variables: tuple[str, ...]
    first_for: tuple[str, ...] = ()  # of a group: the rungs at which it is the likeliest


class Place(Sourced, frozen=True, kw_only=True):
    patterns: tuple[str, ...]


class ListVariable(Sourced, frozen=True, kw_only=True):
    variable: str
    parting: str


class Experiments(Table, frozen=True, kw_only=True):
    rule: tuple[Rule, ...]
    place: tuple[Place, ...]
    list: tuple[ListVariable, ...]

    @property
    def lists(self) -> dict[str, str]:
        """Variables that list places, and what parts these."""
        return {row.variable: row.parting for row in self.list}

    def entries(self, variable: str, value: str) -> tuple[str, ...]:
        """The places that a variable lists; its whole value where it lists none."""
        parting = self.lists.get(variable)
        return (value,) if parting is None else tuple(entry for entry in re.split(f"[{parting}]", value) if entry)

    def is_job(self, names: Iterable[str]) -> bool:
        return any(self._is(name, "job") for name in names)

    def kept(self, name: str, value: str, *, job: bool) -> bool:
        """Whether a variable stays as it is, whatever is tried."""
        return self.fixed(name, job=job) or (name in self.lists and len(self.movable(name, value)) < len(self.entries(name, value)))

    def fixed(self, name: str, *, job: bool) -> bool:
        """The same by its name alone: not even one place of it is left out."""
        return self._is(name, "keep") or self._is(name, "launcher") or (job and self._is(name, "granted"))

    def movable(self, variable: str, value: str) -> tuple[int, ...]:
        """The numbers of a list's places that may be left out: all but those into which a container's runtime put the driver."""
        kept = [pattern for row in self.place for pattern in row.patterns]
        places = enumerate(self.entries(variable, value))
        return tuple(number for number, place in places if not any(fnmatchcase(place, pattern) for pattern in kept))

    def grouped(self, names: Iterable[str], rung: str) -> tuple[tuple[str, ...], ...]:
        """The names by groups, the likeliest at this rung first, those of no group last; empty groups left out."""
        left, found = sorted(names), []
        for row in sorted((row for row in self.rule if row.what == "group"), key=lambda row: rung not in row.first_for):
            found.append(tuple(name for name in left if _fits(name, row)))
            left = [name for name in left if name not in found[-1]]
        return tuple(group for group in (*found, tuple(left)) if group)

    def _is(self, name: str, what: What) -> bool:
        return any(_fits(name, row) for row in self.rule if row.what == what)


def _fits(name: str, row: Rule) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in row.variables)
