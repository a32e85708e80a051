"""The kernel log (dmesg, dmesg -T and -x, journalctl -k, syslog): lines about the GPU, its drivers, and modules that were refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from cudadoctor.model.facts import Fact, Unknown
from cudadoctor.model.values import KERNEL_LOG, KernelEvent, KernelLog
from cudadoctor.parsers._pci import normal_address
from cudadoctor.parsers.base import QUOTE_LENGTH, Parser, Text

# A line is kept if one of these stands in it.
_WORDS = (
    "NVRM", "nvidia", "nouveau", "nova_core", "nova-core", "NovaCore", "nova-drm", "vfio-pci", "vfio_pci", "pci-stub", "bbswitch",
    "blocked for more than", "unsigned module", "verification failed", "version magic", "Unknown symbol", "about version of symbol",
    "Lockdown: ", "PKCS#7",
)  # fmt: skip
_WAKES = (
    "NVRM: ", "] nvidia", "kernel: nvidia", "] nouveau", "kernel: nouveau", "] vfio-pci", "kernel: vfio-pci", "blocked for more than",
    "unsigned module", "] NovaCore", "module verification",
)  # fmt: skip
_GRAVE = (
    "Xid", "fail", "fallen", "reject", "mismatch", "blocked for", "nable to", "already bound", "has the version", "Legacy", "error", "not ",
)  # fmt: skip
_DATE = re.compile(
    r"(?:[^\W\d]{1,12}\.? {1,2}\d{1,2} {1,2}\d\d:\d\d:\d\d(?:\.\d{1,9})?"  # Feb 10 16:56:18
    r"|(?:[^\W\d]{2,4} )?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[\d.,:+Z-]{0,24}(?: [A-Z]{3,5})?) {1,4}"  # ISO, and journalctl -o short-full
)
_LEVEL = re.compile(r"<\d{1,3}>|[a-z]{3,8} {0,4}:[a-z]{3,8} {0,4}: ")  # <4> of dmesg -r, `kern  :warn  : ` of dmesg -x
_STAMP = re.compile(
    r"\[ {0,8}(?:(\d{1,10}\.\d{1,9})|\+\d{1,8}\.\d{1,9}"  # seconds since boot; dmesg -H: seconds since the line before
    r"|[^\W\d][^\]\n]{3,30} \d\d:\d\d:\d\d \d{4}|[^\W\d]{3,4}\d{1,2} \d\d:\d\d)\] ?"  # dmesg -T: Wed Oct 25 20:27:35 2023; -H: Oct25 20:27
)
_HOST = re.compile(r"(?:[^\s:]{1,80} )?kernel: ?")
_LEAD = re.compile(r"[ \t>|]{0,40}")
_XID = re.compile(r"\bXid \((?:PCI:)?([0-9a-fA-F:.]{7,16})\): {0,2}(\d{1,4})\b")
_PLACE = re.compile(r"\b[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?\b")
_QUOTES = 8


def parse(text: Text) -> Iterator[Fact[Any] | Unknown]:
    """One fact. Whole only if nothing was dropped and the log reaches back to the start of the kernel."""
    words = [word for word in _WORDS if word in text.text]
    events = []
    for number, line in enumerate(text.lines, 1):
        for word in words:
            if word in line:
                event = _event(line, number, trusted=text.origin != "text")
                if event:
                    events.append(event)
                break
    whole = text.whole and any("Linux version " in line for line in text.lines[:20])
    if events:
        yield text.fact(KERNEL_LOG, KernelLog(events=tuple(events)), *(text.quote(event.line) for event in _telling(events)), whole=whole)
    elif text.origin != "text" and text.text.strip():
        quote = text.absent(f"{text.source}: {len(text.lines)} lines, none about an NVIDIA GPU or its driver")
        yield text.fact(KERNEL_LOG, KernelLog(events=()), quote, whole=whole)


def _event(line: str, number: int, *, trusted: bool) -> KernelEvent | None:
    """The line as an event, or None where it does not come from the kernel (a pasted text holds other programs' lines too)."""
    start, seconds, prefixed = _prefix(line)
    message = line[start:]
    if not (trusted or prefixed or message.startswith("NVRM: ")):
        return None
    if message[:1] == "(" and message[3:4] == ")":  # Xorg's log has the same stamp: [     6.573] (II) NVIDIA(0): ...
        return None
    xid = _XID.search(message) if "Xid (" in message else None
    place = None if xid else _PLACE.search(message)
    address = normal_address(xid[1]) if xid else normal_address(place[0]) if place else None
    return KernelEvent(text=line.strip()[:QUOTE_LENGTH], line=number, seconds=seconds, xid=int(xid[2]) if xid else None, address=address)


def _prefix(line: str) -> tuple[int, float | None, bool]:
    """Where the message begins, the seconds since boot, and whether something that only a kernel log prints stood before it."""
    place, seconds, prefixed = 0, None, False
    for pattern in (_LEAD, _LEVEL, _DATE, _STAMP, _HOST, _STAMP):
        match = pattern.match(line, place)
        if match is None:
            continue
        place = match.end()
        prefixed = prefixed or pattern in (_STAMP, _HOST)
        if pattern is _STAMP and match[1]:
            seconds = float(match[1])
    return place, seconds, prefixed


def _telling(events: list[KernelEvent]) -> list[KernelEvent]:
    """The few lines that a reader wants to see: those that speak of failure, the latest of them, else the latest of all."""
    grave = [event for event in events if any(word in event.text for word in _GRAVE)]
    return (grave or events)[-_QUOTES:]


PARSER = Parser(name="kernel_log", reads=("kernel-log",), keys=(KERNEL_LOG.name,), parse=parse, wakes=_WAKES)
