"""The kernel log (dmesg with any option, journalctl -k in any form, syslog): lines about the GPU, its drivers, and refused modules.

A log is history. What was said before the last boot that it shows, before the driver was last loaded, or before a GPU was reset, is past.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from weakref import WeakKeyDictionary

import msgspec

from cudadoctor.model.addresses import normal_address
from cudadoctor.model.facts import Fact
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import KERNEL_LOG, KernelEvent, KernelLog
from cudadoctor.parsers.base import QUOTE_LENGTH, Output, Text, parser

# A line is kept if one of these stands in it.
_WORDS = (
    "NVRM", "nvidia", "nouveau", "nova_core", "nova-core", "NovaCore", "nova-drm", "vfio-pci", "vfio_pci", "pci-stub", "bbswitch",
    "blocked for more than", "unsigned module", "verification failed", "version magic", "Unknown symbol", "about version of symbol",
    "Lockdown: ", "PKCS#7",
)  # fmt: skip
_WAKES = (
    "NVRM: ", "] nvidia", "kernel: nvidia", "] nouveau", "kernel: nouveau", "] vfio-pci", "kernel: vfio-pci", "blocked for more than",
    "] bbswitch", "kernel: bbswitch",
    "unsigned module", "] NovaCore", "module verification",
)  # fmt: skip
_GRAVE = (
    "Xid", "fail", "fallen", "reject", "mismatch", "blocked for", "nable to", "already bound", "has the version", "Legacy", "error", "not ",
)  # fmt: skip
_DATE = lazy(
    r"(?:(?:[^\W\d]{1,12}\.?|\d{1,2}月) {1,2}\d{1,2} {1,2}\d\d:\d\d:\d\d(?:\.\d{1,9})?"  # Feb 10 16:56:18
    r"|(?:[^\W\d]{2,4} )?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[\d.,:+Z-]{0,24}(?: [A-Z]{3,5})?) {1,4}"  # ISO, and journalctl -o short-full
)
_LEVEL = lazy(r"<\d{1,3}>|[a-z]{3,8} {0,4}:[a-z]{3,8} {0,4}: ")  # <4> of dmesg -r, `kern  :warn  : ` of dmesg -x
_STAMP = lazy(
    r"\[ {0,8}(?:(\d{1,10}\.\d{1,9})|\+\d{1,8}\.\d{1,9}"  # seconds since boot; dmesg -H: seconds since the line before
    r"|[^\W\d][^\]\n]{3,30} \d\d:\d\d:\d\d \d{4}|[^\W\d]{3,4}\d{1,2} \d\d:\d\d)\] ?"  # dmesg -T: Wed Oct 25 20:27:35 2023; -H: Oct25 20:27
)
_CALLER = lazy(r"\[ {0,8}[TC]\d{1,8}\] ?")  # the thread or core that said it, where the kernel tells (CONFIG_PRINTK_CALLER)
_HOST = lazy(r"(?:[^\s:]{1,80} )?kernel: ?")
_LEAD = lazy(r"[ \t>|]{0,40}")
_XID = lazy(r"\bXid \((?:PCI:)?([0-9a-fA-F:.]{7,16})\): {0,2}(\d{1,4})\b")
_PLACE = lazy(r"\b[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?\b")
_QUOTES = 8
_BOOT = lazy(r"^[ \t>|]{0,16}-- (?:Boot [0-9a-f]{32}|Reboot) --|\bLinux version \d")
_LOADED = "NVRM: loading NVIDIA UNIX"
# Said when the driver runs. What it says of a GPU while it starts stands above the line that says that it is loaded.
_OF_RUN_TIME = lazy(r"\bXid \(|rm_?init_?adapter|GPU has fallen off the bus|GSP|nvidia-uvm|Unload|Unregister", re.IGNORECASE)
_NOT_STARTED = lazy(r"RmInitAdapter|rm_init_adapter|fallen off the bus|GPU is lost")
_RESET = lazy(r"\bGPU (?P<address>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.\d) was successfully reset")
_WELL = lazy(r"recovery action changed from .{1,60}? to 0x0 \(None\)")
_MARKS = (_LOADED, "Linux version ", "-- Boot ", "-- Reboot --", "successfully reset", "to 0x0 (None)")
_LOADING = 10.0  # seconds that a load takes at most


def parse(text: Text) -> Output:
    """One fact. Whole only if nothing was dropped and the log reaches back to the start of the kernel."""
    words = [word for word in _WORDS if word in text.text]
    lines = ((number, line) for number, line in enumerate(text.lines, 1) if any(word in line for word in words))
    events = [event for number, line in lines if (event := _event(line, number, trusted=not text.pasted)) is not None]
    whole = text.whole and any("Linux version " in line for line in text.lines[:20])
    if events:
        log = KernelLog(events=tuple(events), present_from=_present_from(text, events), cleared=_cleared(text, events))
        # The few lines that a reader wants to see: those that speak of failure, the latest of them, else the latest of all.
        grave = [event for event in events if any(word in event.text for word in _GRAVE)]
        yield text.fact(KERNEL_LOG, log, *(text.quote(event.line) for event in (grave or events)[-_QUOTES:]), whole=whole)
    elif not text.pasted and text.text.strip():
        quote = text.absent(f"{text.source}: {len(text.lines)} lines, none about an NVIDIA GPU or its driver")
        yield text.fact(KERNEL_LOG, KernelLog(events=()), quote, whole=whole)


def _present_from(text: Text, events: list[KernelEvent]) -> int:
    """The line with which the present begins: the last boot, or the last load of the driver behind it."""
    boot = 0
    if "Linux version " in text.text or "-- Boot " in text.text or "-- Reboot --" in text.text:
        boot = max((number for number, line in enumerate(text.lines, 1) if _BOOT.search(line) and _of_kernel(line)), default=0)
    loads = [place for place, event in enumerate(events) if _LOADED in event.text and event.line > boot]
    if not loads or any(_NOT_STARTED.search(event.text) for event in events[loads[-1] :]):
        return boot  # a GPU that the driver could not start again is in the state that the lines before tell of
    return max(boot, _begin_of_load(events, loads[-1]))


def _of_kernel(line: str) -> bool:
    """A user may write of a Linux version too; the kernel's line begins as its lines do."""
    return line.lstrip(" \t>|").startswith("-- ") or _prefix(line)[2] or line.lstrip().startswith("Linux version ")


def _begin_of_load(events: list[KernelEvent], place: int) -> int:
    """The first of the lines above `place` that belong to the same start of the module."""
    loaded = events[place]
    while place > 0:
        before = events[place - 1]
        long_ago = None not in (before.seconds, loaded.seconds) and (loaded.seconds or 0) - (before.seconds or 0) > _LOADING
        if long_ago or _LOADED in before.text or _OF_RUN_TIME.search(before.text):
            break
        place -= 1
    return events[place].line


def _cleared(text: Text, events: list[KernelEvent]) -> dict[str, int]:
    """GPUs that were reset, or that need nothing any more as the driver says: address and line."""
    found = {event.address: event.line for event in events if event.address is not None and _WELL.search(event.text)}
    if "was successfully reset" in text.text:
        for number, line in enumerate(text.lines, 1):
            match = _RESET.search(line)
            address = normal_address(match["address"]) if match else None
            if address is not None:
                found[address] = max(number, found.get(address, 0))
    return found


_LOGS: WeakKeyDictionary[Text, KernelLog | None] = WeakKeyDictionary()


def log_of(text: Text) -> KernelLog | None:
    """The kernel's lines of a text, read once however many ask; None where it has none."""
    if not any(word in text.text for word in _WAKES):
        return None
    if text not in _LOGS:
        _LOGS[text] = next((fact.value for fact in parse(text) if isinstance(fact, Fact)), None)
    return _LOGS[text]


def past_lines(text: Text) -> frozenset[int]:
    """Indexes (from 0) of the lines of a text that the kernel said before its last boot, the driver's last load or a GPU's reset, or days
    before nvidia-smi showed that GPU well."""
    well = well_since(text)
    log = log_of(text) if well or any(word in text.text for word in _MARKS) else None
    events = log.events if log is not None else ()
    killed = ((number, line, None) for number, line in enumerate(text.lines, 1) if _OF_NO_GPU.search(line)) if well else ()
    over = long_over([*((event.line, event.text, event.address) for event in events), *killed], well)
    past = {event.line for event in events if log is not None and log.past(event.line, event.address)}
    return frozenset(line - 1 for line in over | past)


def _event(line: str, number: int, *, trusted: bool) -> KernelEvent | None:
    """The line as an event, or None where it does not come from the kernel (a pasted text holds other programs' lines too)."""
    entry = entry_message(line)
    stamp = _since_boot(line) if entry is not None else None
    line = line if entry is None else entry
    start, seconds, prefixed = _prefix(line)
    message, seconds = line[start:], seconds if stamp is None else stamp
    if not (trusted or prefixed or message.startswith("NVRM: ")):
        return None
    if prefixed and "NVRM: " in message and not message.startswith("NVRM: "):
        return None  # another part of the kernel quotes a path or a name, which a user chose
    if message[:1] == "(" and message[3:4] == ")":  # Xorg's log has the same stamp: [     6.573] (II) NVIDIA(0): ...
        return None
    xid = _XID.search(message) if "Xid (" in message else None
    place = None if xid else _PLACE.search(message)
    address = normal_address(xid[1]) if xid else normal_address(place[0]) if place else None
    return KernelEvent(text=line.strip()[:QUOTE_LENGTH], line=number, seconds=seconds, xid=int(xid[2]) if xid else None, address=address)


def said(line: str) -> tuple[str, bool]:
    """What was said, and whether something that only a kernel log prints stood before it."""
    start, _, prefixed = _prefix(line)
    return line[start:], prefixed


def _prefix(line: str) -> tuple[int, float | None, bool]:
    """Where the message begins, the seconds since boot, and whether something that only a kernel log prints stood before it."""
    place, seconds, prefixed = 0, None, False
    for pattern in (_LEAD, _LEVEL, _DATE, _STAMP, _HOST, _STAMP, _CALLER):
        match = pattern.match(line, place)
        if match is None:
            continue
        place = match.end()
        prefixed = prefixed or pattern in (_STAMP, _HOST)
        if pattern is _STAMP and match[1]:
            seconds = float(match[1])
    return place, seconds, prefixed


# ---------------------------------------------------------------- entries that journalctl wrote with their fields: -o json and -o verbose
_IN_JSON = lazy(r'^[ \t>|]{0,20}\{[^\n]{0,6000}?"MESSAGE" ?: ?(?P<text>"(?:[^"\\]|\\.){0,4000}")')
_OF_VERBOSE = lazy(r"^[ \t>|]{0,20}MESSAGE=(?P<text>.*)$")
_MONOTONIC = lazy(r'"__MONOTONIC_TIMESTAMP" ?: ?"(?P<microseconds>\d{1,18})"')


def entry_message(line: str) -> str | None:
    """What was said; None where the line is no such entry."""
    if '"MESSAGE"' in line and (found := _IN_JSON.match(line)) is not None:
        try:
            return msgspec.json.decode(found["text"], type=str)
        except msgspec.DecodeError:
            return None
    found = _OF_VERBOSE.match(line) if "MESSAGE=" in line else None
    return found["text"] if found is not None else None


def _since_boot(line: str) -> float | None:
    """The time since the boot, which no other field of an entry tells."""
    found = _MONOTONIC.search(line)
    return int(found["microseconds"]) / 1e6 if found is not None else None


# ---------------------------------------------------------------- dates
# A GPU that a table of nvidia-smi shows well is over what a log of days before tells.
_OF_NO_GPU = lazy(r"oom-kill(?:er)?:|[Oo]ut of memory: Killed process")  # of a program that is gone
OVER = timedelta(days=1)  # a table that is drawn sooner after the line may be meant to show its effect
HALF_A_YEAR = timedelta(days=183)  # a date without a year means the nearest such day
# Each with what strptime calls its parts. Syslog's comes last, for it holds no year.
_DATES = (
    (lazy(r"\b[A-Z][a-z]{2} ([A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d:\d\d \d{4})\b"), "%b %d %H:%M:%S %Y"),
    (lazy(r"\b(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)"), "%Y-%m-%d %H:%M:%S"),
    (lazy(r"^[\s>|]{0,16}([A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d:\d\d)\b"), "%b %d %H:%M:%S"),
)
_ROW = lazy(r"^[\s>]{0,16}\|.{0,60}\| {0,4}(?P<address>[0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d) ")


def date_of(line: str, year: int | None = None) -> datetime | None:
    """The date that a line carries; syslog writes no year, so `year` is taken for it."""
    for form, parts in _DATES[: 3 if year is not None else 2]:
        if (found := form.search(line)) is not None:
            whole = " ".join(found.groups()) + ("" if "%Y" in parts else f" {year}")
            try:
                return datetime.strptime(whole, parts if "%Y" in parts else f"{parts} %Y")  # noqa: DTZ007 - compared with the same clock's
            except ValueError:
                return None
    return None


def well_since(text: Text) -> dict[str, datetime]:
    """GPUs that a dated table of nvidia-smi shows without an error, by address, with the table's date."""
    if "NVIDIA-SMI" not in text.text:
        return {}
    found: dict[str, datetime] = {}
    drawn: datetime | None = None
    for number, line in enumerate(text.lines):
        if "NVIDIA-SMI" in line and "Driver Version" in line:
            above = (date_of(text.lines[before]) for before in range(number - 1, max(-1, number - 4), -1))
            drawn = next((date for date in above if date is not None), None)
        elif drawn is not None and line.lstrip(" \t>").startswith("|"):
            row = _ROW.match(line)
            address = normal_address(row["address"]) if row is not None else None
            below = " ".join(text.lines[number : number + 2])
            if address is not None and "ERR!" not in below and "Unknown Error" not in below:
                found[address] = drawn
    return found


def long_over(events: Iterable[tuple[int, str, str | None]], well: dict[str, datetime]) -> frozenset[int]:
    """Numbers of those lines (number, words, address) that were said more than a day before their GPU was shown to be well."""
    first = min(well.values(), default=None)
    dated = ((number, words, well.get(address or "", first if _OF_NO_GPU.search(words) else None)) for number, words, address in events)
    return frozenset(number for number, words, drawn in dated if drawn is not None and _is_over(words, drawn))


def _is_over(words: str, drawn: datetime) -> bool:
    said = date_of(words, drawn.year)
    if said is not None and said > drawn + HALF_A_YEAR:
        said = date_of(words, drawn.year - 1)  # syslog's December in January
    return said is not None and drawn - said > OVER


PARSER = parser("kernel_log", parse, KERNEL_LOG, reads=("kernel-log",), wakes=_WAKES)
