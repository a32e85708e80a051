"""The drivers that a user's text speaks of, in prose, in a command or as an installer's file, and chips by their code names.

They are words, not measurements: checks/ties weighs them against the GPU where the driver does not find it, and nothing else reads them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import NAMED_DRIVERS, NamedChip, NamedDriver, NamedDrivers
from cudadoctor.parsers.base import Output, Parser, Text

_MOST = 40
_LONGEST = 600  # characters of a line that are looked at
_OLDEST, _NEWEST = 96, 999
_PACKAGE = lazy(
    r"\b(?:lib)?nvidia-(?:driver|dkms|headless|utils|compute-utils|kernel-(?:source|common))-(?P<branch>\d{3})(?:xx)?(?:-server)?(?P<open>-open)?\b"
    r"|\b(?:a?kmod-)?nvidia-(?P<old>\d{3})(?:xx\b|\b(?=[\s`'\",.)]|$))"
    r"|\bNVIDIA-Linux-\w{3,8}-(?P<file>\d{2,3}\.\d{2,3}(?:\.\d{2})?)"
)
_PHRASE = lazy(
    r"(?i)\b(?:drivers?|nvidia)(?: (?:version|release|branch|series))?:? ?\(?v?"
    r"(?P<after>\d{3}(?:\.\d{2,3}(?:\.\d{1,2})?)?)(?P<open>-open)?"
    r"(?![\w.]{0,20}\d|xx|-\d| ?(?:gpus?|cards?|mb|mib|ti|m|super)\b|\.\d)"
    r"|\b(?P<before>\d{3}\.\d{2,3}(?:\.\d{2})?)(?: (?:nvidia|linux|proprietary|open|graphics|kernel)){0,3} (?:driver|modules?)\b"
    r"|\bdrivers?\b[^.\n]{0,80} is (?P<told>\d{3}\.\d{2,3}(?:\.\d{2})?)"
    r"|\blegacy ?(?P<legacy>\d{3})\b"
)
_OPEN = lazy(r"\bnvidia-open(?:-dkms|-lts)?\b(?:[ =-]{1,2}v?(?P<branch>\d{3})(?:\.\d+)*)?")
_FLAVOUR = lazy(r"^license:\s{1,20}(?P<licence>NVIDIA|Dual MIT/GPL)\s*$")
_CHIP = lazy(r"\b(?:GT2\d\d|GF1[01]\d|GK[12]\d\d|GM[12]\d\d|GP10\d|GV100|TU1[01]\d|GA10\d|AD10\d|GB20\d)[A-Z]{0,3}\b")
# Wishes, advice and comparisons name drivers that are not there.
_NOT_HERE = lazy(
    r"(?i)\b(?:needs?|needed|requires?|required|works? (?:\w+ )?(?:with|on)|worked (?:with|on)|at least|or (?:newer|later|higher|above)"
    r"|recommend\w*"
    r"|should|would|could|can be installed|supported by|only supported|before|previous\w*|used to|downgrad\w+|older|instead|candidate"
    r"|distro (?:non-)?free|purge|remove|uninstall\w*|unable to locate|tried|legacy drivers series)\b"
)


def parse(text: Text) -> Output:
    """One fact with each branch and each chip once."""
    drivers: dict[tuple[int | None, bool | None], NamedDriver] = {}
    chips: dict[str, NamedChip] = {}
    for number, line in enumerate(text.plain_lines, 1):
        words = line[:_LONGEST]
        for match in _CHIP.finditer(words):
            chips.setdefault(match[0], NamedChip(name=match[0], line=number))
        if len(drivers) < _MOST:
            for driver in _on_line(words, number):
                drivers.setdefault((driver.branch, driver.is_open), driver)
    if drivers:
        named = NamedDrivers(drivers=tuple(drivers.values()), chips=tuple(chips.values())[:_MOST])
        lines = sorted({*(driver.line for driver in named.drivers), *(chip.line for chip in named.chips)})
        yield text.fact(NAMED_DRIVERS, named, *(text.quote(line) for line in lines), whole=False)


def _on_line(line: str, number: int) -> Iterator[NamedDriver]:
    flavour = _FLAVOUR.match(line)
    if flavour is not None:
        yield NamedDriver(is_open=flavour["licence"] != "NVIDIA", line=number)
        return
    for pattern in (_OPEN, _PACKAGE, _PHRASE):
        for match in pattern.finditer(line):
            if not _NOT_HERE.search(_clause(line, match)):
                driver = _driver(match, pattern is _OPEN, number)
                if driver is not None:
                    yield driver


def _clause(line: str, match: re.Match[str]) -> str:
    """The words around a name, up to the next comma or full stop."""
    start = max(line.rfind(mark, 0, match.start()) for mark in (", ", ". ", "; ", ": ")) + 1
    ends = [at for at in (line.find(mark, match.end()) for mark in (", ", ". ", "; ")) if at >= 0]
    return line[start : min(ends, default=len(line))]


def _driver(match: re.Match[str], is_open: bool, number: int) -> NamedDriver | None:
    named = match.groupdict()
    version = next((named[name] for name in ("branch", "old", "file", "after", "before", "told", "legacy") if named.get(name)), None)
    branch = int(version.split(".")[0]) if version is not None else None
    if branch is not None and not _OLDEST <= branch <= _NEWEST:
        return None
    opened = True if is_open or named.get("open") else None
    return NamedDriver(branch=branch, is_open=opened, line=number)


PARSER = Parser(
    name="driver_names",
    keys=(NAMED_DRIVERS.name,),
    parse=parse,
    wakes=(
        "nvidia-driver-", "nvidia-dkms", "nvidia-open", "NVIDIA-Linux-", "driver", "Driver", "nvidia-3", "nvidia-4", "nvidia-5",
        "license:  ",
    ),
)  # fmt: skip
