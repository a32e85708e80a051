"""The NVIDIA kernel module in memory: its version, and whether it is the open or the proprietary flavour."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from cudadoctor.model.facts import Fact, Unknown
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import LOADED_DRIVER, LoadedDriver
from cudadoctor.model.version import ModuleVersion
from cudadoctor.parsers.base import Parser, Text

_MARK = "NVRM version:"
# NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.161.03  Wed Oct 19 ...
# NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (...)
_KIND = lazy(r"\s{0,8}NVIDIA UNIX ((?:[\w()-]{1,40} {1,4}){2,6})\s{0,4}(\d{2,4}\.\d{1,4}(?:\.\d{1,4})?)\b")
_VERSION = lazy(r"\d{2,4}\.\d{1,4}(?:\.\d{1,4})?$")


def parse(text: Text) -> Iterator[Fact[Any] | Unknown]:
    """One fact for each distinct statement, the last one in the text first: that is how the machine is now."""
    found: dict[LoadedDriver, int] = {}
    for number, line in enumerate(text.lines, 1):
        place = line.find(_MARK)
        match = _KIND.match(line, place + len(_MARK)) if place >= 0 else None
        if match is None:
            continue
        flavour: Literal["open", "proprietary"] = "open" if "Open Kernel Module" in match[1] else "proprietary"
        driver = LoadedDriver(version=ModuleVersion(match[2]), flavour=flavour)
        found.pop(driver, None)
        found[driver] = number
    for driver, number in reversed(found.items()):
        yield text.fact(LOADED_DRIVER, driver, text.quote(number))


def parse_bare(text: Text) -> Iterator[Fact[Any] | Unknown]:
    """The number alone, as /sys/module/nvidia/version holds it."""
    for number, line in enumerate(text.lines, 1):
        if _VERSION.match(line.strip()):
            yield text.fact(LOADED_DRIVER, LoadedDriver(version=ModuleVersion(line.strip())), text.quote(number))
            return


PARSERS = (
    Parser(
        name="driver_version",
        reads=("driver-version",),
        keys=(LOADED_DRIVER.name,),
        parse=parse,
        wakes=(_MARK,),
        absent=(LOADED_DRIVER.name,),
    ),
    Parser(
        name="sys_driver_version",
        reads=("sys-driver-version",),
        keys=(LOADED_DRIVER.name,),
        parse=parse_bare,
        absent=(LOADED_DRIVER.name,),
    ),
)
