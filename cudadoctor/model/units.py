"""Figures with their unit, as every part of the report writes them."""

from __future__ import annotations

GIB = 1 << 30  # bytes
MIB = 1 << 20


def size(count: int) -> str:
    """Bytes in the unit that a reader expects: 1.5 GiB, 312 MiB, 88 KiB."""
    if 0 < count < MIB:
        return f"{count / 1024:.0f} KiB"
    return f"{count / GIB:.1f} GiB" if count >= GIB else f"{count / MIB:.0f} MiB"


def figure(value: float, unit: str) -> str:
    """A figure of the benchmark with its unit, never in powers of ten: 53.2 GB/s, 33.35 TB/s, 0.8613 us."""
    if value >= 10_000 and unit.startswith("G"):
        value, unit = value / 1000, f"T{unit[1:]}"
    return f"{short(value)} {unit}"


def short(value: float) -> str:
    return f"{value:.0f}" if value >= 1000 else f"{value:.4g}"
