"""Findings: what a check or a text says is wrong, with the lines it rests on. And the diagnosis: which of them is the root, what it
explains, and what would settle what is still open.
"""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

from cudadoctor.model.experiments import Proof, Tried
from cudadoctor.model.facts import Quote
from cudadoctor.model.values import RungName

Effect = Literal["blocks", "degrades", "advises"]
Basis = Literal["stated", "derived", "suspected"]
Layer = Literal[
    "hardware", "bus", "kernel", "node", "container", "driver-lib", "environment", "toolkit", "python", "device", "program"
]  # fmt: skip
LAYERS: tuple[Layer, ...] = get_args(Layer)
GPU_LAYERS: tuple[Layer, ...] = ("hardware", "bus", "device")  # a fault of these is one GPU's, where something of one GPU shows it
Verdict = Literal["healthy", "degraded", "broken", "undecided"]


class Ignored(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a finding does not count: a policy expects it (`cause`: the expected cause that explains it), until this day."""

    cause: str
    reason: str | None
    until: str | None


class Finding(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One cause at work. `subject` is `machine`, `gpu:<PCI address>` or `python:<path>`. Needs at least one quote."""

    cause: str
    layer: Layer
    title: str
    subject: str
    effect: Effect
    basis: Basis
    evidence: tuple[Quote, ...]
    proof: Proof | None = None  # an experiment on this machine that shows it
    url: str | None = None  # of its page in the manual; an extension's cause has none
    ignored: Ignored | None = None  # it stands under `also`, and changes neither verdict nor exit code

    @property
    def named(self) -> str:
        return f"{self.title} [{self.cause}]"

    @property
    def at(self) -> str:
        """Which GPU it concerns, in words."""
        return f" at {self.subject[4:]}" if self.subject.startswith("gpu:") else ""


class Clue(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule, a sign or an error code hands to the diagnosis: a cause and its lines, before the effect is known.

    `from_rung` is the ladder's rung whose own output stated it; `text` says that a user's text stated it.
    `past`: only an earlier attempt or another machine in the same text showed it.
    `advice`: the words are no failure, a warning or a line of a listing.
    `seen`: what was seen of the very thing it speaks of (one framework), where the rung speaks of several. It decides the effect alone.
    `asked`: the user asked for what it spoils, so it is more than an advice.
    `words`: somebody's own words, and no program's, speak of it.
    `code` is what recognised it, where a code did: "cuda 100", "nvml 9", "xid 79".
    `values` carries what a recipe needs (pid, variable, path ...).
    `proof`: it rests on an experiment.
    """

    cause: str
    quotes: tuple[Quote, ...]
    basis: Basis = "derived"
    subject: str = "machine"
    from_rung: str | None = None
    text: bool = False
    past: bool = False
    advice: bool = False
    seen: Literal["worked", "failed", "unseen"] | None = None
    asked: bool = False
    words: bool = False
    code: str | None = None
    values: dict[str, str] = {}
    proof: Proof | None = None


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What one rule came to: its clues, or the fact that nobody knows. Without either its causes are ruled out."""

    row: str
    causes: tuple[str, ...]
    clues: tuple[Clue, ...] = ()
    missing: str | None = None
    why: str | None = None
    crashed: bool = False


# ---------------------------------------------------------------- the diagnosis
class Undecided(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A row with a rule that could not run to its end, and the facts that nobody knows."""

    row: str
    missing: tuple[str, ...]


class Ask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One command whose output would settle what is open. `kind`: what it does to the machine, as that of a step (model/recipe.py)."""

    command: str
    why: str
    tells_apart: tuple[str, ...]
    kind: Literal["reads", "environment"] = "reads"


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
