"""Figures with their unit, as every part of the report writes them."""

from __future__ import annotations

GIB = 1 << 30  # bytes
MIB = 1 << 20


def size(count: int) -> str:
    """Bytes in the unit that a reader expects: 1.5 GiB, 312 MiB."""
    return f"{count / GIB:.1f} GiB" if count >= GIB else f"{count / MIB:.0f} MiB"
