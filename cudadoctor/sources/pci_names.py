"""The names that the machine's own pci.ids gives to its NVIDIA functions: an excerpt in the form of that file."""

from __future__ import annotations

import os
from collections.abc import Iterator

from cudadoctor.sources.decoding import beginning

_PLACES = ("/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids", "/usr/share/pci.ids", "/var/lib/pciutils/pci.ids")
_BUS = "/sys/bus/pci/devices"
_NVIDIA = "10de"


def read_pci_names(_: str) -> str:
    """The vendor's line and one for each of its devices here. FileNotFoundError where no pci.ids is installed."""
    place = next((place for place in _PLACES if os.path.isfile(place)), None)
    if place is None:
        raise FileNotFoundError(2, "No such file or directory", "pci.ids")
    wanted = set(_devices())
    if not wanted:
        return ""
    with open(place, encoding="utf-8", errors="replace") as file:
        lines = [line for line in _of_vendor(file) if line[:1] != "\t" or line[1:5] in wanted]
    return "".join(line.rstrip("\n")[:200] + "\n" for line in lines)


def _devices() -> Iterator[str]:
    for address in sorted(os.listdir(_BUS)) if os.path.isdir(_BUS) else ():
        vendor, device = (beginning(f"{_BUS}/{address}/{name}", 32).strip().lower().replace("0x", "", 1) for name in ("vendor", "device"))
        if vendor == _NVIDIA:
            yield device


def _of_vendor(lines: Iterator[str]) -> Iterator[str]:
    """The vendor's line and those of its devices, without subsystems."""
    inside = False
    for line in lines:
        if line[:1] not in ("\t", "#", "\n"):
            if inside:
                return
            inside = line.startswith(_NVIDIA)
        if inside and line[:1] != "#" and line[:2] != "\t\t" and line.strip():
            yield line
