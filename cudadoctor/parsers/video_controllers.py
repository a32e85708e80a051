"""Windows' inventory of devices (CIM): display adapters with their driver's version, and every function of the PCI bus.

Read are JSON objects a line, as the doctor asks for them, and what people paste: `Format-List` and `wmic ... /format:list` (Name : value,
Name=value), and the table of `Select-Object Name, DriverVersion, Status`. Names of devices are in the language of Windows, so nothing
depends on them: the vendor is in PNPDeviceID, and a driver of NVIDIA's is told by its service or by the form of its version.
"""

from __future__ import annotations

from typing import Any

import msgspec

from cudadoctor.model.facts import Fact, Quote
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import DISPLAY_ADAPTERS, LOADED_DRIVER, PCI, DisplayAdapter, LoadedDriver, PciFunction
from cudadoctor.model.version import ModuleVersion
from cudadoctor.parsers._pci import NVIDIA, bus_fact
from cudadoctor.parsers.base import Output, Text, parser
from cudadoctor.parsers.json_lines import said

NVIDIA_SERVICE = "nvlddmkm"  # the kernel driver of every NVIDIA display driver since Vista
FIELDS = (
    "Name", "ConfigManagerErrorCode", "DriverVersion", "Service", "Status", "PNPDeviceID", "Location", "CompatibleID", "AdapterRAM",
    "Caption", "Description", "DeviceID", "FriendlyName", "InstanceId",
)  # fmt: skip
_TOLD = ("PNPDeviceID", "Service", "DriverVersion", "ConfigManagerErrorCode")  # of a device, in the order of a quote
_QUOTED = 8  # lines of one device
# pnputil /enum-devices calls them otherwise: https://learn.microsoft.com/windows-hardware/drivers/devtest/pnputil-examples
_OF_PNPUTIL = {"Instance ID": "InstanceId", "Device Description": "Name", "Problem Code": "ConfigManagerErrorCode"}
CM_PROB_DISABLED = 22
_LISTED = lazy(rf"^\s{{0,8}}\"?(?P<name>{'|'.join((*FIELDS, *_OF_PNPUTIL))})\"?\s{{0,60}}[:=]\s{{0,4}}\"?(?P<value>[^\"]{{0,600}})\"?,?$")
_RULE = lazy(r"^\s{0,8}-{2,60}(?:\s{1,200}-{2,60}){0,12}\s{0,8}$")
_DASHES = lazy(r"-{2,60}")
_ID = lazy(r"(?i)VEN_(?P<vendor>[0-9a-f]{4})&DEV_(?P<device>[0-9a-f]{4})")
_CLASS = lazy(r"(?i)&CC_([0-9a-f]{4})")
_PLACE = lazy(r"\(?(\d{1,8}),\s?(?:\D{0,20}\s)?(\d{1,3}),\s?(?:\D{0,20}\s)?(\d)\)?\s*$")
# 31.0.15.4601 is driver 546.01. Microsoft's own display driver carries the version of Windows: 10.0.19041.3636.
_NVIDIA_VERSION = lazy(r"^\d{1,2}\.\d{1,2}\.1(?P<first>[1-9])\.(?P<rest>\d{1,4})$")
Spoken = tuple[DisplayAdapter, list[Quote]]  # with the lines about it
Record = tuple[tuple[int, ...], dict[str, Any]]  # its lines from 1, its fields


# ---------------------------------------------------------------- the forms
def _records(text: Text) -> tuple[list[Record], bool]:
    """The devices of a text, and whether they are all that there were: the last line of a whole list is their number."""
    found, understood = _all_records(text)
    counts = [fields["Count"] for _, fields in found if list(fields) == ["Count"]]
    devices = [(tuple(lines), fields) for lines, fields in found if list(fields) != ["Count"]]
    return devices, understood and counts == [len(devices)]


def _all_records(text: Text) -> tuple[list[tuple[list[int], dict[str, Any]]], bool]:
    found: list[tuple[list[int], dict[str, Any]]] = []
    listing, understood, blank = False, True, 0
    columns: list[tuple[str, slice]] = []
    lines = text.plain_lines
    for number, line in enumerate(lines, 1):
        blank = 0 if line.strip() else blank + 1
        if blank:
            columns, listing = [], listing and blank < 2
        elif parsed := _objects(line):
            found += [([number], entry) for entry in parsed]
            listing = False
        elif (listed := _LISTED.match(line)) is not None:
            name = _OF_PNPUTIL.get(listed["name"], listed["name"])
            if not listing or name in found[-1][1] or listed["name"] == "Instance ID":
                found.append(([], {}))
            listing, (spread, block) = True, found[-1]
            block[name] = listed["value"].strip()
            if name in ("Name", *_TOLD) or not spread or block.get("Status") == "Disabled":
                spread.append(number)
        elif _RULE.match(line) is not None and number > 1:
            columns = _columns(lines[number - 2], line)
        elif columns:
            found.append(([number], {name: line[part].strip() for name, part in columns}))
            listing = False
        else:
            understood = False
    return found, understood


def _objects(line: str) -> list[dict[str, Any]]:
    """A JSON object, or a list of them, on one line."""
    line = line.strip()
    if not line.startswith(("{", "[{")) or not line.endswith(("}", "}]")):
        return []
    try:
        entry = msgspec.json.decode(line)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return []
    return [one for one in (entry if isinstance(entry, list) else [entry]) if isinstance(one, dict)]


def _columns(head: str, rule: str) -> list[tuple[str, slice]]:
    """Names and places of a table's columns; none where its head names no field that is known here."""
    starts = [found.start() for found in _DASHES.finditer(rule)]
    parts = [slice(start, end) for start, end in zip(starts, [*starts[1:], None], strict=True)]
    named = [(head[part].strip(), part) for part in parts]
    return named if any(name in ("Name", "DriverVersion", "PNPDeviceID", "FriendlyName", "InstanceId") for name, _ in named) else []


# ---------------------------------------------------------------- one device
def _word(fields: dict[str, Any], *names: str) -> str | None:
    value = next((fields[name] for name in names if isinstance(fields.get(name), str)), None)
    return value[:400].strip() if isinstance(value, str) else None


def _number(fields: dict[str, Any], name: str) -> int | None:
    value = fields.get(name)
    if isinstance(value, str) and (digits := value.split(" ")[0]).isdigit() and len(digits) < 10:  # pnputil: 22 (0x16) [CM_PROB_DISABLED]
        return int(digits)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def nvidia_version(text: str | None) -> ModuleVersion | None:
    """NVIDIA's own number of a driver, from the one that Windows shows; None for another maker's driver."""
    found = _NVIDIA_VERSION.match(text) if text else None
    if found is None:
        return None
    digits = f"{found['first']}{int(found['rest']):04d}"
    return ModuleVersion(f"{digits[:3]}.{digits[3:]}")


def _address(place: str | None) -> str | None:
    """0000:01:00.0 from the `(1,0,0)` at the end of LocationInformation. Windows puts the segment into the upper bits of the bus."""
    found = _PLACE.search(place) if place else None
    if found is None:
        return None
    bus, device, function = (int(part) for part in found.groups())
    return f"{bus >> 8:04x}:{bus & 0xFF:02x}:{device:02x}.{function}" if device < 32 and bus >> 8 < 1 << 16 else None


def _adapter(lines: tuple[int, ...], fields: dict[str, Any]) -> DisplayAdapter | None:
    """What one record says; None where it names no device."""
    instance = _word(fields, "PNPDeviceID", "InstanceId") or ""
    if not instance and "VEN_" in (_word(fields, "DeviceID") or ""):
        instance = _word(fields, "DeviceID") or ""
    name = _word(fields, "Name", "FriendlyName", "Caption", "Description")
    ids = _ID.search(instance)
    if ids is None and name is None:
        return None
    version, code = _word(fields, "DriverVersion"), _number(fields, "ConfigManagerErrorCode")
    code = CM_PROB_DISABLED if code is None and _word(fields, "Status") == "Disabled" else code
    vendor = ids["vendor"].lower() if ids else NVIDIA if (name or "").upper().startswith("NVIDIA ") else None
    return DisplayAdapter(
        name=name,
        instance=instance.upper(),
        vendor=vendor,
        device=ids["device"].lower() if ids else None,
        address=_address(_word(fields, "Location")),
        driver=nvidia_version(version) if vendor == NVIDIA else None,
        driver_text=version or None,
        service=None if "Service" not in fields else _word(fields, "Service") or "",  # a null in JSON says that there is none
        problem=0 if code is None and _word(fields, "Status") == "OK" else code,  # a device whose status is OK has none
        lines=lines,
    )


def _quotes(text: Text, lines: tuple[int, ...], fields: dict[str, Any]) -> list[Quote]:
    """The lines about one device. One of JSON is told in words: what of it says most stands at its end."""
    if len(lines) > 1 or not text.lines[lines[0] - 1].lstrip().startswith(("{", "[")):
        return [text.quote(number) for number in lines[:_QUOTED]]
    told = [f"{name} {'none' if fields[name] is None else str(fields[name])[:120]}" for name in _TOLD if name in fields]
    return [said(text.source, lines[0], ", ".join((_word(fields, "Name") or "a device without a name", *told)))]


def _adapters(text: Text, adapters: list[Spoken], *, whole: bool) -> Fact[Any]:
    lines = [quote for _, quotes in adapters for quote in quotes] or [text.absent("no display adapter is listed")]
    return text.fact(DISPLAY_ADAPTERS, tuple(adapter for adapter, _ in adapters), *lines, whole=whole)


# ---------------------------------------------------------------- Win32_VideoController
def parse_controllers(text: Text) -> Output:
    """The adapters; and the driver of NVIDIA's that runs one of them."""
    records, understood = _records(text)
    found = [
        (adapter, _quotes(text, lines, fields))
        for lines, fields in records
        if (adapter := _adapter(lines, fields)) is not None and (adapter.instance or adapter.driver_text or adapter.problem is not None)
    ]
    complete = text.whole and understood and all(adapter.instance for adapter, _ in found)
    if not found and not complete:
        return
    yield _adapters(text, found, whole=complete)
    running = next(((adapter.driver, quotes) for adapter, quotes in found if adapter.driver is not None and adapter.problem == 0), None)
    if running is not None:
        yield text.fact(LOADED_DRIVER, LoadedDriver(version=running[0]), *running[1], whole=complete)
    elif complete:
        yield text.fact(LOADED_DRIVER, None, text.absent("no display adapter runs with a driver of NVIDIA's"))


# ---------------------------------------------------------------- Win32_PnPEntity
def parse_devices(text: Text) -> Output:
    """The PCI bus, and what of it is a display adapter or would be one with a driver."""
    records, understood = _records(text)
    adapters: list[Spoken] = []
    functions: list[tuple[PciFunction, list[Quote]]] = []
    placed = True
    for lines, fields in records:
        adapter = _adapter(lines, fields)
        if adapter is None or adapter.vendor is None:
            continue
        spoken = _quotes(text, lines, fields)
        code = _CLASS.search(_word(fields, "CompatibleID") or "")
        class_code = code[1].lower() if code else None
        if (class_code or "").startswith("03") or (class_code is None and adapter.is_nvidia):
            adapters.append((adapter, spoken))
        placed = placed and adapter.address is not None
        if adapter.address is not None:
            functions.append((_function(adapter, class_code), spoken))
    complete = text.whole and understood
    if functions or complete:
        yield bus_fact(text, functions, whole=complete and placed)
        yield _adapters(text, adapters, whole=complete)


def _function(adapter: DisplayAdapter, class_code: str | None) -> PciFunction:
    """NVIDIA's driver goes by its Linux name here, as rules know it. A service that does not run the device drives nothing."""
    holds = adapter.service if adapter.problem in (0, None) else None
    driver = {NVIDIA_SERVICE: "nvidia", "basicdisplay": None, "": None}.get((holds or "").lower(), holds)
    return PciFunction(
        address=adapter.address or "",
        vendor=adapter.vendor,
        device=adapter.device,
        class_code=class_code,
        name=adapter.name,
        driver=driver,
        driver_known=adapter.service is not None,
        line=adapter.lines[0],
    )


PARSERS = (
    parser(
        "video_controllers",
        parse_controllers,
        DISPLAY_ADAPTERS,
        LOADED_DRIVER,
        reads=("video-controllers",),
        wakes=(
            "Win32_VideoController",
            "win32_videocontroller",
            "PNPDeviceID",
            "win32_VideoController",
            "ConfigManagerErrorCode",
            "PCI\\VEN_",
        ),
    ),
    parser("pnp_devices", parse_devices, PCI, DISPLAY_ADAPTERS, reads=("pnp-devices",)),
)
