"""What the caller asks of the judgement beside the evidence: strictness and the rows to show."""

from __future__ import annotations

import msgspec


class Requirements(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`strict`: a degraded machine fails. `only` and `skip` choose rows; empty `only` means all."""

    strict: bool = False
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    needs_kernel: bool = False  # smoke, bench: anything but a right kernel on every visible GPU is a failure

    def wants(self, row: str) -> bool:
        return (not self.only or row in self.only) and row not in self.skip
