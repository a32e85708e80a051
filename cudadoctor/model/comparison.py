"""What differs between two reports, in the shape of the JSON of `cudadoctor compare` (schema cudadoctor.comparison/1)."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

SCHEMA: Literal["cudadoctor.comparison/1"] = "cudadoctor.comparison/1"
# In the order in which they are told: what bears on the verdict, what the machines are made of, what was measured.
Kind = Literal["verdict", "finding", "row", "requirement", "smoke", "machine", "gpu", "setting", "package", "figure"]
KINDS: tuple[Kind, ...] = get_args(Kind)
BEARING = frozenset(KINDS[:5])  # on the verdict


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that differs. None: it is not there, or not known."""

    kind: Kind
    what: str
    a: str | None
    b: str | None


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two. `name`: as the command line has it."""

    name: str
    verdict: str
    quick: bool


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    schema: Literal["cudadoctor.comparison/1"] = SCHEMA
    a: Side
    b: Side
    equal: bool
    differences: tuple[Difference, ...]
    notes: tuple[str, ...] = ()  # what could not be compared, and why
