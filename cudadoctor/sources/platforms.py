"""Which questions are asked on which system."""

from __future__ import annotations

from cudadoctor.sources import probes, probes_windows
from cudadoctor.sources.probes import Probe

_TABLES = {"linux": probes.PROBES, "win32": probes_windows.PROBES}


def known(platform: str) -> bool:
    """Whether a live check knows this system (a value of sys.platform)."""
    return platform in _TABLES


def probes_of(platform: str) -> tuple[Probe, ...]:
    return _TABLES[platform]


def every_item() -> frozenset[str]:
    """The ids of all evidence that is asked for on any system."""
    return frozenset(probe.id for table in _TABLES.values() for probe in table)
