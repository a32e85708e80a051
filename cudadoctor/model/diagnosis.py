"""The diagnosis: which finding is the root, what it explains, and what would settle what is still open."""

from __future__ import annotations

from typing import Literal

import msgspec

from cudadoctor.model.experiments import Tried
from cudadoctor.model.findings import Clue, Finding
from cudadoctor.model.values import RungName

Verdict = Literal["healthy", "degraded", "broken", "undecided"]


class Undecided(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A row with a rule that could not run to its end, and the facts that nobody knows."""

    row: str
    missing: tuple[str, ...]


class Ask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One command whose output would settle what is open."""

    command: str
    why: str
    tells_apart: tuple[str, ...]


class Crash(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of the doctor that failed; the rest ran."""

    stage: str
    name: str
    error: str


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    root: Finding | None = None
    suspects: tuple[Finding, ...] = ()
    explains: tuple[Finding, ...] = ()
    also: tuple[Finding, ...] = ()
    ruled_out: tuple[str, ...] = ()
    undecided: tuple[Undecided, ...] = ()
    ask: tuple[Ask, ...] = ()
    crashes: tuple[Crash, ...] = ()
    tried: tuple[Tried, ...] = ()  # experiments on this machine, in their order
    by_words: bool = False  # no message is known: the suspects rest on what somebody says in his own words


class Conclusion(msgspec.Struct, frozen=True, kw_only=True):
    """Clues that rest on experiments, and all experiments as the report says them."""

    clues: tuple[Clue, ...] = ()
    tried: tuple[Tried, ...] = ()


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """The diagnosis with what the report needs beside it."""

    verdict: Verdict
    diagnosis: Diagnosis
    values: dict[str, dict[str, str]]  # by cause: what its recipe needs
    excused: bool = False  # what was asked for was not reached, and only what is expected stands before it
    at: RungName | None = None  # the rung at which the root is at work
    past: tuple[Finding, ...] = ()  # what only an earlier attempt or another machine of a text showed
    not_now: Finding | None = None  # a driver-side fault that a log states and the machine does not show at present
    unsettled: tuple[Finding, ...] = ()  # what the kernel log of a bundle speaks of, where nothing shows whether it still holds
