"""PCIe links and copies as a user shows them: `lspci -vv` (LnkCap, LnkSta) of NVIDIA functions, and CUDA's bandwidthTest."""

from __future__ import annotations

import re
from typing import Any

from cudadoctor.model.addresses import normal_address
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import COPY_RATES, PCI_LINKS, CopyRates, PciLink, PciLinks
from cudadoctor.parsers.base import Output, Text, parser

_HEADER = lazy(r"^[ \t]{0,16}(?P<address>(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])[ \t]{1,8}(?P<rest>\S.{0,300})$")
_GPU_WORDS = lazy(r"(?:VGA compatible controller|3D controller|Display controller|\[03(?:00|02|80)\])")
_LINK = lazy(
    r"Lnk(?P<kind>Cap|Sta):.{0,80}?Speed (?P<rate>\d{1,3}(?:\.\d)?)GT/s(?:\s?\([a-z]{2,12}\))?"
    r", Width x(?P<width>\d{1,2})\b(?P<narrowed> \(downgraded\))?"
)
_DIRECTION = lazy(r"(?P<way>Host to Device|Device to Host) Bandwidth, \d")
_ABOUT_GPUS = lazy(
    r"NVIDIA|nvidia|GeForce|Quadro|Tesla|RTX|GTX|\bGPU|\bTITAN\b|\bTitan [VX]|\bCUDA\b|bandwidthTest|(?i:host to device)"
    r"|\b(?:10[5-8]|[2-5]0[5-9])0 ?(?:Ti|Super|SUPER)\b"
)
_BESIDE = lazy(r"^[ \t]{0,16}(?P<address>(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])[: \t]{1,8}Lnk(?:Cap|Sta):")
_UNIT = lazy(r"Bandwidth\((?P<unit>[MG]B/s)\)")
_RATE = lazy(r"^\s{0,20}\d{4,12}\s{1,20}(?P<rate>\d{1,7}(?:\.\d{1,3})?)\s{0,9}$")


def links(text: Text) -> Output:
    """One fact with the link of each NVIDIA display function that shows one, and with those of bridges."""
    # An excerpt without headers, in a text about a GPU, speaks of it.
    excerpt = _ABOUT_GPUS.search(text.text) is not None
    link: dict[str, Any] | None = {"address": "", "line": 0, "lines": ()} if excerpt else None
    found: list[tuple[str, dict[str, Any]]] = [("gpu", link)] if link is not None else []
    for number, line in enumerate(text.plain_lines, 1):
        header = _HEADER.match(line)
        beside = _BESIDE.match(line) if excerpt and "Lnk" in line else None
        begins = beside or header
        place = (normal_address(begins["address"]) or begins["address"]) if begins is not None else ""
        if begins is not None and (beside is None or link is None or link["address"] != place):
            rest = "" if beside is not None or header is None else header["rest"]
            kind = "slot" if "PCI bridge" in rest else "gpu"
            wanted = beside is not None or kind == "slot" or ("NVIDIA" in rest and _GPU_WORDS.search(rest))
            link = {"address": place, "line": number, "lines": ()} if wanted else None
            found += [(kind, link)] if link is not None else ()
        if link is not None and (header is None or beside is not None):
            for shown in _LINK.finditer(line):
                _take(link, shown, number)
    shown_of = {kind: tuple(PciLink(**link) for of, link in found if of == kind and link["lines"]) for kind in ("gpu", "slot")}
    if shown_of["gpu"]:
        quotes = [text.quote(number) for one in shown_of["gpu"][:8] for number in (one.line, *one.lines) if number]
        yield text.fact(PCI_LINKS, PciLinks(links=shown_of["gpu"], slots=shown_of["slot"]), *quotes, whole=False)


def _take(link: dict[str, Any], shown: re.Match[str], number: int) -> None:
    """What one LnkCap or LnkSta says, beside what is known of its function."""
    end = "_max" if shown["kind"] == "Cap" else ""
    if end == "" and shown["narrowed"]:
        link["narrowed"] = True
    link.update({f"rate{end}": float(shown["rate"]), f"width{end}": int(shown["width"]), "lines": (*link["lines"], number)})


def copies(text: Text) -> Output:
    """The largest transfer of each direction, for pinned memory."""
    rates: dict[str, float] = {}
    lines: dict[str, int] = {}
    way, pinned, factor = "", False, 1e-3
    for number, line in enumerate(text.plain_lines, 1):
        direction = _DIRECTION.search(line)
        if direction is not None:
            way, pinned = ("to_device" if direction["way"].startswith("Host") else "from_device"), False
        elif "Device to Device Bandwidth" in line or "PAGEABLE" in line:
            way = ""
        elif "PINNED Memory" in line:
            pinned = True
        elif unit := _UNIT.search(line):
            factor = 1.0 if unit["unit"] == "GB/s" else 1e-3
        elif way and pinned and (rate := _RATE.match(line)):
            rates[way], lines[way] = round(float(rate["rate"]) * factor, 3), number
    if rates:
        yield text.fact(COPY_RATES, CopyRates(**rates), *(text.quote(number) for number in sorted(lines.values())), whole=False)


PARSERS = (
    parser("pcie_link", links, PCI_LINKS, wakes=("LnkSta:", "LnkCap:")),
    parser("copy_rates", copies, COPY_RATES, wakes=("PINNED Memory Transfers",)),
)
