"""What `cudadoctor explain` says of a code, a cause or a thing, in the shape of the published JSON (schema cudadoctor.explanation/1)."""

from __future__ import annotations

from typing import Literal

import msgspec

from cudadoctor.model.findings import Effect, Layer
from cudadoctor.model.recipe import Step

SCHEMA: Literal["cudadoctor.explanation/1"] = "cudadoctor.explanation/1"
ApiName = Literal["cuda", "cuda-before-10.1", "nvml", "xid", "nvidia-smi"]
Subject = Literal[
    "variable", "architecture", "capability", "chip", "device", "driver", "toolkit", "ptx", "compiler", "numba", "numba-cuda",
]  # fmt: skip


class CodeMeaning(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One API's meaning of a code. `causes`: likeliest first. `tell_apart`: the command that shows whether it is that cause."""

    api: ApiName
    number: int
    name: str | None
    aliases: tuple[str, ...]
    meaning: str
    causes: tuple[str, ...]
    certain: bool  # the code alone states its one cause
    tell_apart: dict[str, str | None]
    messages: tuple[str, ...] = ()  # what programs print for it
    advice: str | None = None  # what to do, beside the fixes of the causes
    number_before_10_1: int | None = None  # the runtime's number for the same error before CUDA 10.1
    sources: tuple[str, ...] = ()


class CausePage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A cause's own page. `codes`: those that may mean it, as `cudadoctor explain` takes them ("cuda 100").

    `messages`: literals that programs print and that state it; `hints`: those that raise suspicion of it.
    """

    id: str
    title: str
    layer: Layer
    row: str
    breaks: tuple[str, ...]
    effect: Effect
    why: str
    tell_apart: str
    yields_to: tuple[str, ...]
    recipes: tuple[str, ...]
    no_software_fix: str | None
    codes: tuple[str, ...]
    sources: tuple[str, ...]
    messages: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()


class Fact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of what is known of a thing: "last driver branch": "470"."""

    name: str
    value: str


class Trouble(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What usually goes wrong with a thing, and the causes of that, likeliest first."""

    text: str
    causes: tuple[str, ...]


class Topic(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A thing that is no code: an environment variable, a GPU, a driver, a toolkit. `id` is a question that leads back to it."""

    subject: Subject
    id: str
    title: str
    meaning: str
    compute_capability: str | None  # of a GPU; an architecture's newest
    facts: tuple[Fact, ...]
    troubles: tuple[Trouble, ...]
    causes: tuple[str, ...]  # of all troubles, each once
    tell_apart: dict[str, str | None]
    sources: tuple[str, ...]


class Explanation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`matches` for a code, `cause` for a cause, `topics` for things; the others are empty or null."""

    schema: Literal["cudadoctor.explanation/1"] = SCHEMA
    kind: Literal["code", "cause", "topic"]
    query: str
    matches: tuple[CodeMeaning, ...] = ()
    cause: CausePage | None = None
    topics: tuple[Topic, ...] = ()


# ---------------------------------------------------------------- not published: what a page shows beside the explanation
class Fix(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The steps as they are on these systems ("Ubuntu", "Debian"); `systems` empty: the same on all."""

    systems: tuple[str, ...]
    steps: tuple[Step, ...]


class CauseDocument(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that the page of a cause says, whatever it is written as. `titles`: of the other causes that it names."""

    page: CausePage
    titles: dict[str, str]
    yielded_by: tuple[str, ...]
    fixes: tuple[Fix, ...]
