"""The NVIDIA kernel module in memory: its version, and whether it is the open or the proprietary flavour."""

from __future__ import annotations

from typing import Literal

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import LOADED_DRIVER, LoadedDriver
from cudadoctor.model.version import ModuleVersion
from cudadoctor.parsers import nvidia_smi_csv
from cudadoctor.parsers.base import Output, Text, first_line, parser

_MARK = "NVRM version:"
# NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.161.03  Wed Oct 19 ...
# NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (...)
_KIND = lazy(r"\s{0,8}NVIDIA UNIX ((?:[\w()-]{1,40} {1,4}){2,6})\s{0,4}(\d{2,4}\.\d{1,4}(?:\.\d{1,4})?)\b")
_VERSION = lazy(r"\d{2,4}\.\d{1,4}(?:\.\d{1,4})?$")
_OF_MODULE = lazy(r"^(?:sudo )?(?:cat|head|more|tail) (?:-\S{1,4} )?/sys/module/nvidia/version$")
_COLUMN = "driver_version"


def parse(text: Text) -> Output:
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


def _bare(line: str) -> LoadedDriver | None:
    """The number alone, as /sys/module/nvidia/version holds it."""
    return LoadedDriver(version=ModuleVersion(line.strip())) if _VERSION.match(line.strip()) else None


def parse_typed(text: Text) -> Output:
    """What `cat /sys/module/nvidia/version` answered in a paste, the last answer first."""
    for number, _, below in reversed(list(text.asked("/sys/module", _OF_MODULE))):
        if below and (answer := _bare(below[0])) is not None:
            yield text.fact(LOADED_DRIVER, answer, text.quote(number, number + 1), whole=False)


def parse_column(text: Text) -> Output:
    """The column driver_version of `nvidia-smi --query-gpu=... --format=csv`: a driver that answers is the one that is loaded."""
    for table in nvidia_smi_csv.tables(text):
        driver = next(map(_bare, table.column(_COLUMN) or ()), None)
        if driver is not None:
            yield text.fact(LOADED_DRIVER, driver, text.quote(table.line, table.line + 1), whole=False)


PARSERS = (
    parser("driver_version", parse, LOADED_DRIVER, reads=("driver-version",), absent=True, wakes=(_MARK,)),
    parser("sys_driver_version", first_line(LOADED_DRIVER, _bare), LOADED_DRIVER, reads=("sys-driver-version",), absent=True),
    parser("sys_driver_version_typed", parse_typed, LOADED_DRIVER, wakes=("/sys/module/nvidia/version",)),
    parser("smi_driver_version", parse_column, LOADED_DRIVER, wakes=(_COLUMN,)),
)
