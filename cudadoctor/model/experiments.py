"""Experiments: the failing step of the ladder run once more with one thing changed, and what came of it.

A change names variables and numbers of entries, never a value: what a recording keeps of it says nothing about a person.
"""

from __future__ import annotations

import msgspec

START = "start"  # the rung before the ladder: the interpreter runs the worker at all
PREFIX = "try-"  # of the ids of the evidence


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One place in a variable that lists places (LD_LIBRARY_PATH); `number` from 0."""

    variable: str
    number: int


class Change(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What differs from the first run; nothing: the same again."""

    unset: tuple[str, ...] = ()
    left_out: tuple[Entry, ...] = ()
    toolkit: int | None = None  # CUDA_HOME is the place of this one of the toolkits that were found
    no_user_site: bool = False
    raised_limits: bool = False
    without_start: int | None = None  # this one of the files that the interpreter runs at its start is passed over
    own_python: bool = False  # the doctor's own interpreter: it proves nothing about the examined one's packages

    @property
    def variables(self) -> tuple[str, ...]:
        """Those that are unset, or lose a place of their list."""
        return tuple(dict.fromkeys((*self.unset, *(entry.variable for entry in self.left_out))))


SAME = Change()
UNCHANGED = "nothing changed"  # the words for it


class Try(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One experiment. `rung`: the last one to climb. `gpu`: the UUID of the one that it is about, where the first run named one.

    `step`: which of the Numba kernels is run; that is enough, and takes a third of the time of all.
    """

    change: Change
    rung: str
    gpu: str | None = None
    step: str | None = None
    straight: bool = False  # to Numba: the rungs of the driver had held


class Failure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The first rung that failed; `kind` is the same where it fails again in the same way."""

    rung: str
    kind: str
    gpu: str | None = None
    words: str = ""


class Proposal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A change that would cure this cause."""

    cause: str
    change: Change


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may be tried on this machine, likeliest first; pure data that follows from the first judgement.

    `goal`: how far a try may climb. `step`: the Numba kernel that failed, or the first. `units`: variables by groups, of which so many
    as `likely` says are the likeliest, and `entries` how many places each of the lists among them has; they are halved where no proposal
    helps. `own_python`: whether the doctor's interpreter is another one, and may show that it works there.
    """

    failure: Failure
    goal: str
    step: str
    proposals: tuple[Proposal, ...] = ()
    units: tuple[tuple[str, ...], ...] = ()
    likely: int = 0
    entries: dict[str, int] = {}
    toolkits: tuple[str, ...] = ()  # the places to which CUDA_HOME may be set, by the numbers of the changes
    own_python: bool = False
    startup: tuple[str, ...] = ()  # the files that the interpreter runs at its start, by the numbers of the changes


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """One experiment that was carried out. `failed`: the first rung that did not end well; None where all asked for did."""

    what: Try
    passed: tuple[str, ...]
    failed: Failure | None
    seconds: float
    hung: bool = False

    def helped(self, failure: Failure) -> bool:
        return failure.rung in self.passed


class Proof(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rung failed, worked with the change, and failed again without it. `seconds`: of the run with the change."""

    change: str
    rung: str
    before: str
    after: str
    seconds: float


class Tried(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One experiment as a report says it."""

    change: str
    rung: str
    worked: bool | None  # None: it came to nothing that says anything
    said: str
    seconds: float
