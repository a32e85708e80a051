"""The table of nvidia-smi, in every layout since branch 352: lines are recognised by what they hold, never counted.

One GPU takes two or three lines, each of three cells. Cells may be cut ("GeForce GTX TIT..."), empty, or say N/A or ERR!.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import GpuProcess, SmiGpu
from cudadoctor.model.version import CudaVersion, LibraryVersion, ModuleVersion, Version

V = TypeVar("V", bound=Version)
MIB = 1 << 20
_VERSION = r"\d{1,4}(?:\.\d{1,4}){1,3}"
HEADER = lazy(
    rf"NVIDIA-SMI\s{{1,20}}(?P<library>{_VERSION}|N/A)(?:\s{{1,40}}(?:Driver|KMD) Version:\s{{0,10}}(?P<module>{_VERSION}|N/A))?"
    rf"(?:\s{{1,40}}CUDA (?:UMD )?Version:\s{{0,10}}(?P<cuda>\d{{1,3}}\.\d{{1,2}}|N/A|ERR!))?"
)
_BUS_ID = lazy(r"\b([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})\.([0-9A-Fa-f])\b")
_FIRST = lazy(r"^\s{0,20}(?P<index>\d{1,3})\s{1,20}(?P<name>\S.{0,80})$")
_MODE = lazy(r"\s{1,40}(?:On|Off|N/A|WDDM|TCC|MCDM|ERR!)\s{0,20}$")
_FAILED = lazy(r"ERR!|Unknown Error|GPU is lost|GPU requires reset|Reset Required")
_TEMPERATURE = lazy(r"\b(\d{1,3})C\b")
_AMOUNT = r"[\d.]{1,9}|N/A|ERR!"
_MEMORY = lazy(
    rf"^\s{{0,40}}(?P<used>{_AMOUNT})\s?(?P<unit>[MG]i?B)?\s{{0,20}}/\s{{0,20}}(?P<total>{_AMOUNT})\s?(?P<all>[MG]i?B)?\s{{0,40}}$"
)
_NO_MEMORY = "Not Supported"  # a GPU that shares the machine's memory has none of its own to show
_USE = lazy(r"^\s{0,40}(?P<load>\d{1,3}\s?%|N/A|ERR!|\[N/A\])\s{1,40}(?P<mode>\S.{0,40})$")
_COMPUTE_MODE = lazy(r"^(?:Default|Prohibited|E\. ?(?:Process|Thread)|Exclusive_\w{1,20})$")
_MIG_MODE = lazy(r"^(?:Enabled|Disabled)\*?$")
_BORDER = lazy(r"^[+|][-=+|]{10,}$")
_PROCESS = lazy(
    r"^\s{0,20}(?P<gpu>\d{1,3})\s{1,20}(?:(?:\d{1,3}|N/A)\s{1,20}(?:\d{1,3}|N/A)\s{1,20})?(?P<pid>\d{1,10})\s{1,20}"
    r"(?P<kind>[CGM](?:\+[CGM])?)\s(?P<rest>.{0,300})$"
)
_PROCESS_MEMORY = lazy(r"(?:^|\s)(?:(?P<number>\d{1,9})\s?(?P<unit>[MG]i?B)|N/A)$")


class Row(msgspec.Struct):
    """A GPU's lines so far."""

    fields: dict[str, Any]
    errors: list[str]
    last: int  # number of its last line

    @property
    def gpu(self) -> SmiGpu:
        return SmiGpu(**self.fields, errors=tuple(self.errors))


def cells(line: str) -> list[str] | None:
    """The cells of a table line, whatever stands before it (indent, quote sign, comment sign); None if it is none."""
    start = line.find("|")
    if start < 0 or len(line) > 400 or line[:start].strip(" \t>#*\"'/"):
        return None
    body = line[start + 1 :]
    end = body.rfind("|")
    return (body[:end] if end > 0 and not body[end + 1 :].strip(" \t\"'\\n,;") else body).split("|")


def versions(line: str) -> tuple[LibraryVersion | None, ModuleVersion | None, CudaVersion | None] | None:
    """The versions of the table's first line; None if it is another line. "N/A" is no version."""
    found = HEADER.search(line) if "NVIDIA-SMI" in line else None
    if found is None:
        return None
    return _stated(LibraryVersion, found["library"]), _stated(ModuleVersion, found["module"]), _stated(CudaVersion, found["cuda"])


def _stated(kind: type[V], text: str | None) -> V | None:
    return kind(text) if text and text[0].isdigit() else None


def address_of(text: str) -> str | None:
    """A PCI address as the rest of the program writes it: 0000:01:00.0."""
    found = _BUS_ID.search(text)
    return f"{int(found[1], 16):04x}:{found[2]}:{found[3]}.{found[4]}".lower() if found else None


def bytes_of(number: str, unit: str | None) -> int | None:
    """Bytes of a figure with its unit; the table counts in MiB where it names none."""
    try:
        return int(float(number) * (MIB << 10 if (unit or "MiB").startswith("G") else MIB))
    except ValueError:
        return None


def first_line(row: list[str], number: int) -> Row | None:
    """A GPU's first line: index, name, PCI address, ECC errors."""
    address = address_of(row[1]) if len(row) > 1 else None
    found = _FIRST.match(row[0]) if address else None
    if found is None:
        return None
    name = _MODE.sub("", found["name"]).strip()
    ecc = row[2].strip() if len(row) > 2 else ""
    fields = {
        "index": int(found["index"]),
        "name": None if _FAILED.fullmatch(name) else name,
        "address": address,
        "ecc_uncorrected": int(ecc) if ecc.isdecimal() and len(ecc) < 19 else None,
        "line": number,
    }
    return Row(fields, [f"{cell}: {said}" for cell, words in (("name", name), ("ECC", ecc)) for said in _FAILED.findall(words)], number)


def further_line(current: Row, row: list[str], number: int) -> None:
    """A GPU's second line (temperature, memory, compute mode) or third (MIG), told apart by their memory cell."""
    if not 2 <= len(row) <= 3:  # the table of MIG instances has four cells
        return
    third, memory, fields = row[2].strip() if len(row) > 2 else "", _MEMORY.match(row[1]), current.fields
    if row[0].strip() and (memory is not None or _NO_MEMORY in row[1] or _FAILED.search(row[1])):
        if "compute_mode" in fields or not ("/" in row[0] or _FAILED.search(row[0])):
            return
        use, temperature = _USE.match(third), _TEMPERATURE.search(row[0])
        mode = use["mode"].strip() if use else ""
        fields["memory_used_bytes"] = bytes_of(memory["used"], memory["unit"] or memory["all"]) if memory else None
        fields["memory_total_bytes"] = bytes_of(memory["total"], memory["all"]) if memory else None
        fields["temperature_c"] = float(temperature[1]) if temperature else None
        fields["compute_mode"] = mode if _COMPUTE_MODE.match(mode) else None
        current.errors += _second_errors(row[0], row[1], third)
    elif not row[0].strip() and not row[1].strip() and third and "compute_mode" in fields and fields.get("mig") is None:
        fields["mig"] = third if _MIG_MODE.match(third) else None
        current.errors += [f"MIG: {said}" for said in _FAILED.findall(third)[:1]]
    else:
        return
    current.last = number


def _second_errors(first: str, memory: str, third: str) -> Iterator[str]:
    """Which cells of a second line say that the driver could not read them."""
    head, _, power = first.partition("/")
    words = head.split()
    if "ERR!" in head or "ERR!" in power:
        names = ("fan", "temperature", "performance state", "power")
        for name, word in zip(names, words, strict=False):
            if word == "ERR!":
                yield f"{name}: ERR!"
        if "ERR!" in power and (len(words) < 4 or words[3] != "ERR!"):
            yield "power: ERR!"
    else:
        yield from (f"sensors: {said}" for said in _FAILED.findall(first))
    load, _, mode = third.partition("  ")
    for cell, said in (("memory", memory), ("utilisation", load), ("compute mode", mode)):
        yield from (f"{cell}: {failed}" for failed in _FAILED.findall(said)[:1])


def process_line(row: list[str]) -> GpuProcess | None:
    """A line of the process table, with or without the columns of MIG instances (GI, CI)."""
    found = _PROCESS.match(row[0]) if len(row) == 1 else None
    if found is None:
        return None
    rest = found["rest"].strip()
    memory = _PROCESS_MEMORY.search(rest)
    name = rest[: memory.start()].strip() if memory else rest
    return GpuProcess(
        gpu=found["gpu"],
        pid=int(found["pid"]),
        kind=found["kind"],
        name=name or None,
        memory_bytes=bytes_of(memory["number"], memory["unit"]) if memory and memory["number"] else None,
    )


def unwrap(lines: list[str]) -> list[tuple[int, str]]:
    """Numbered lines, with table lines that a narrow terminal broke in two put together again.

    The border is a row of unbroken signs, so its first part shows the terminal's width: a shorter part lost blanks at the break.
    """
    joined: list[tuple[int, str]] = []
    width: int | None = None
    rest = enumerate(lines, 1)
    for number, line in rest:
        if ("|" in line or "+" in line) and _goes_on(line.strip(), "".join(lines[number : number + 1]).strip(), seen=width is not None):
            width = len(line) if _BORDER.match(line.strip()) else width
            gap = "" if width is None or len(line) >= width else " "
            joined.append((number, line + gap + lines[number]))
            next(rest)
        else:
            joined.append((number, line))
    return joined


def _goes_on(line: str, below: str, *, seen: bool) -> bool:
    """Whether this is the first part of a broken line. A part may end in a cell's own "|": it is taken for one only once a broken border
    was `seen`.
    """
    if not line.startswith(("+", "|")) or len(line) > 400 or (line[-1] in "+|" and not seen):
        return False
    return below != "" and below[0] not in "+|" and below[-1] in "+|" and len(below) <= 200
