"""What the three readers of the PCI bus (sysfs, lspci, lshw) share: addresses, class words, and the fact with its quotes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from cudadoctor.model.facts import Fact, Quote
from cudadoctor.model.values import PCI, PciBus, PciFunction
from cudadoctor.parsers.base import Text

NVIDIA = "10de"
Shown = tuple[PciFunction, list[Quote]]  # with the lines about it
_QUOTES = 48  # three for each GPU of the largest machine
CLASS_WORDS = {
    "VGA compatible controller": "0300",
    "XGA compatible controller": "0301",
    "3D controller": "0302",
    "Display controller": "0380",
    "Audio device": "0403",
}


def is_nvidia(words: str) -> bool:
    """Whether a description begins with the vendor's name, in today's or the older spelling (nVidia Corporation)."""
    return words[:18].lower() == "nvidia corporation"


class Bus:
    """The functions seen so far in one text, with the lines about each.

    A second sight of a function completes the first (a plain lspci, then lspci -nnk). Where its driver has changed since, the later
    one counts and the earlier state is kept apart. A function that contradicts an earlier one at its address belongs to another
    machine: both stay.
    """

    def __init__(self) -> None:
        self.found: list[Shown] = []
        self.before: list[Shown] = []
        self._latest: dict[str, int] = {}  # address -> place of the function that was seen last there

    def add(self, new: PciFunction, quotes: list[Quote]) -> None:
        """One more function, or more about one."""
        place = self._latest.get(new.address)
        old, shown = self.found[place] if place is not None else (None, [])
        if place is None or old is None or any(_differ(old, new, field) for field in ("vendor", "device", "class_code", "name")):
            self._latest[new.address] = len(self.found)
            self.found.append((new, quotes))
            return
        if _differ(old, new, "driver"):
            self.before.append((old, shown))
            shown = []
        shown += quotes
        self.found[place] = (_completed(old, new), shown)

    def facts(self, text: Text, *, whole: bool) -> Iterator[Fact[Any]]:
        """The bus as it is now, and if drivers changed within the text, as it was before."""
        yield bus_fact(text, self.found, whole=whole)
        if self.before:
            yield bus_fact(text, self.before, whole=False)


def _differ(old: PciFunction, new: PciFunction, field: str) -> bool:
    one, other = getattr(old, field), getattr(new, field)
    return one is not None and other is not None and one != other


def _completed(old: PciFunction, new: PciFunction) -> PciFunction:
    fields = ("vendor", "device", "class_code", "name", "driver", "revision")
    known = {field: getattr(new, field) for field in fields if getattr(new, field) is not None}
    if new.driver is not None:
        known["line"] = new.line
    return msgspec.structs.replace(old, **known, driver_known=old.driver_known or new.driver_known)


def bus_fact(text: Text, shown: Sequence[Shown], *, whole: bool) -> Fact[Any]:
    """The bus with the lines of its NVIDIA functions, or with their absence said in words where the listing is whole.

    A function without vendor or class makes the listing less than whole; in a paste its name is enough, for an NVIDIA device is named so
    by every lspci.
    """
    functions = tuple(function for function, _ in shown)
    bus = PciBus(functions=functions)
    whole = whole and all((entry.vendor and entry.class_code) or (text.pasted and entry.name) for entry in functions)
    gpus = [one for one in shown if one[0].is_nvidia_gpu] or [one for one in shown if one[0].vendor == NVIDIA]
    displays = [one for one in shown if one[0].is_adapter]
    lines = [quote for _, quotes in gpus or displays or (() if whole else shown[:1]) for quote in quotes][:_QUOTES]
    if gpus or not whole:
        return text.fact(PCI, bus, *lines, whole=whole)
    count = f"{len(functions)} function{'' if len(functions) == 1 else 's'} on the PCI bus"
    return text.fact(PCI, bus, text.absent(f"{count}, none of vendor 0x10de with class 0x03xx"), *lines, whole=True)
