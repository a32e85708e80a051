"""What the caller asks of the judgement beside the evidence: strictness, the rows to show, and what a policy demands and allows."""

from __future__ import annotations

import datetime as dt
from typing import Literal

import msgspec


class Ignore(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A cause that is expected on this machine, why, and the last day on which it is."""

    cause: str
    reason: str | None = None
    until: dt.date | None = None


class Requirements(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`strict`: a degraded machine fails. `only` and `skip` choose rows; empty `only` means all. `expected`: findings that do not count."""

    strict: bool = False
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    needs_kernel: bool = False  # smoke, bench: anything but a right kernel on every visible GPU is a failure
    expected: tuple[Ignore, ...] = ()
    interrupted: bool = False  # Ctrl-C ended the collection

    def wants(self, row: str) -> bool:
        return (not self.only or row in self.only) and row not in self.skip


# ---------------------------------------------------------------- policy
Operator = Literal[">=", "<=", "==", "!=", ">", "<", "~"]
# What a requirement compares. size: bytes. rate: GB/s. time: us. flops: TFLOP/s. operations: Gop/s. switch: on or off.
Kind = Literal["count", "version", "size", "rate", "time", "flops", "operations", "switch", "words"]


class Requirement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One demand, such as `gpus>=2`. The value stands in the field of its kind: `number` in the kind's own unit, else `words`.

    `share`: the number is a share of what the hardware can do (`h2d-bandwidth>=80%`), not a rate.
    """

    text: str
    name: str
    kind: Kind
    operator: Operator
    number: float | None = None
    words: str | None = None
    share: bool = False


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is demanded of a machine and what is allowed. `source`: the file that says so."""

    requirements: tuple[Requirement, ...] = ()
    ignores: tuple[Ignore, ...] = ()
    source: str | None = None
