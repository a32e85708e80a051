"""What `cudadoctor explain` says of a code or a cause, in the shape of the published JSON (schema cudadoctor.explanation/1)."""

from __future__ import annotations

from typing import Literal

import msgspec

from cudadoctor.model.findings import Effect, Layer

SCHEMA: Literal["cudadoctor.explanation/1"] = "cudadoctor.explanation/1"
ApiName = Literal["cuda", "cuda-before-10.1", "nvml", "xid", "nvidia-smi"]


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


class CausePage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A cause's own page. `codes`: those that may mean it, as `cudadoctor explain` takes them ("cuda 100")."""

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


class Explanation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`matches` for a code, `cause` for a cause; the other is empty or null."""

    schema: Literal["cudadoctor.explanation/1"] = SCHEMA
    kind: Literal["code", "cause"]
    query: str
    matches: tuple[CodeMeaning, ...] = ()
    cause: CausePage | None = None
