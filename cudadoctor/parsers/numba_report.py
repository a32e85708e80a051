"""`numba -s` in a user's text: Numba's version, the driver's and the runtime's CUDA, and the libraries that its search did not find."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import NUMBA_REPORT, NumbaReport
from cudadoctor.model.version import CudaVersion, PackageVersion, ToolkitVersion
from cudadoctor.parsers.base import Output, Text, parser

# What a line of the report states, by the field that it is kept in.
_LINES: tuple[tuple[str, re.Pattern[str], Callable[[str], Any]], ...] = (
    ("numba", lazy(r"^\s{0,8}Numba Version\s{0,60}: (\d{1,2}\.\d{1,3}(?:\.\w{1,12})?)"), PackageVersion),
    ("driver_cuda", lazy(r"^\s{0,8}CUDA Driver Version\s{0,60}: (\d{1,2}\.\d{1,2}|\d{4,5})\b"), lambda text: CudaVersion(_dotted(text))),
    ("runtime", lazy(r"^\s{0,8}CUDA Runtime Version\s{0,60}: (\d{1,2}\.\d{1,2})\b"), ToolkitVersion),
    ("initialised", lazy(r"^\s{0,8}CUDA Device Initiali[sz]ed\s{0,60}: (True|False)"), "True".__eq__),
    ("located", lazy(r"^\s{0,12}Located at [A-Za-z]:\\[^\n]{0,80}\\CUDA\\v(\d{1,2}\.\d{1,2})\\"), ToolkitVersion),
    ("implementation", lazy(r"^\s{0,8}CUDA Target Implementation\s{0,60}: ([\w-]{2,20})"), str),
)
_PLACES = {"numba": "line", "runtime": "runtime_line", "located": "located_line"}  # fields whose line is kept too
_FINDING = lazy(r"^\s{0,12}Finding (?P<name>nvvm|libdevice|cudart|cudadevrt|nvrtc|driver)\b")
_WRONG = lazy(r"ERROR: (?:failed to open|can't open|can't find|failed to find|Could not)|not found|No such file")
_REACH = 8  # lines below `Finding nvvm` within which its outcome stands


def parse(text: Text) -> Output:
    state: dict[str, Any] = {}
    shown: list[int] = []
    lines = text.plain_lines
    missing: list[str] = []
    for number, line in enumerate(lines, 1):
        found = _said(line, number)
        if found:
            state |= found
            shown += [number] if "located" not in found else []
        search = _FINDING.match(line)
        failed = _failed(lines[number : number + _REACH]) if search is not None else None
        if search is not None and failed is not None:
            missing.append(search["name"])
            shown.append(number + 1 + failed)
    if state or missing:
        located = [state["located_line"]] if "located" in state else []
        value = msgspec.structs.replace(NumbaReport(missing=tuple(dict.fromkeys(missing))), **state)
        yield text.fact(NUMBA_REPORT, value, *map(text.quote, (*located, *shown[:6])), whole=False)


def _said(line: str, number: int) -> dict[str, Any]:
    for field, form, read in _LINES if ": " in line or "Located at" in line else ():
        found = form.match(line)
        if found is not None:
            return {field: read(found[1]), **({_PLACES[field]: number} if field in _PLACES else {})}
    return {}


def _dotted(version: str) -> str:
    """11020 -> 11.2, as older reports print what cuDriverGetVersion gives."""
    return version if "." in version else f"{int(version) // 1000}.{int(version) % 1000 // 10}"


def _failed(below: list[str]) -> int | None:
    """Where the search whose lines these are ended badly, up to the next one; None where it did not."""
    for at, line in enumerate(below):
        if _FINDING.match(line) or line.lstrip().startswith("__"):
            return None
        if _WRONG.search(line):
            return at
    return None


PARSER = parser(
    "numba_report",
    parse,
    NUMBA_REPORT,
    wakes=("CUDA Driver Version", "CUDA Runtime Version", "Numba Version", "CUDA Device Initiali", "Finding nvvm"),
)
