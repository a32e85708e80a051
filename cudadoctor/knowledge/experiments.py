"""The rows of tables/experiments.toml: what an experiment may change, and what it never touches."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple

from cudadoctor.knowledge.tables import Sourced, Table

What = Literal["keep", "launcher", "job", "granted", "group", "common"]


class Rule(Sourced, frozen=True, kw_only=True):
    what: What
    variables: tuple[str, ...]
    first_for: tuple[str, ...] = ()  # of a group: the rungs at which it is the likeliest


class Place(Sourced, frozen=True, kw_only=True):
    patterns: tuple[str, ...]


class ListVariable(Sourced, frozen=True, kw_only=True):
    variable: str
    parting: str


class Grouped(NamedTuple):
    """Variables by groups; so many of the first are the likeliest."""

    groups: tuple[tuple[str, ...], ...]
    likely: int


class Experiments(Table, frozen=True, kw_only=True):
    rule: tuple[Rule, ...]
    place: tuple[Place, ...]
    list: tuple[ListVariable, ...]
    start: tuple[Place, ...]

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

    def starts_well(self, path: str) -> bool:
        """Whether a file that an interpreter runs at its start is one of a kind that is there for good."""
        return any(fnmatchcase(re.split(r"[/\\]", path)[-1], pattern) for row in self.start for pattern in row.patterns)

    def grouped(self, names: Iterable[str], rung: str, packages: Collection[str] = ()) -> Grouped:
        """The names by groups, the likeliest at this rung first: what is called after one of these packages, then the table's. Those of no
        group come after them, and what every shell and container has comes last.
        """
        rows = sorted((row for row in self.rule if row.what == "group"), key=lambda row: rung not in row.first_for)
        own = tuple(f"{name.upper()}_*" for name in packages if not any(_fits(f"{name.upper()}_", row) for row in rows))
        named = Rule(what="group", variables=own, first_for=(rung,), source="the traceback")
        left, found, likely = sorted(names), [], 0
        for row in (named, *rows):
            group = tuple(name for name in left if _fits(name, row))
            found += [group] if group else []
            likely += bool(group) and rung in row.first_for
            left = [name for name in left if name not in group]
        rest = tuple(name for name in left if not self._is(name, "common")), tuple(name for name in left if self._is(name, "common"))
        return Grouped((*found, *(group for group in rest if group)), likely)

    def is_grouped(self, name: str) -> bool:
        """Whether CUDA, Numba, Python or the loader read it."""
        return self._is(name, "group")

    def _is(self, name: str, what: What) -> bool:
        return any(_fits(name, row) for row in self.rule if row.what == what)


def _fits(name: str, row: Rule) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in row.variables)
