"""/sys/bus/pci/devices as `path:value` lines: every function of the PCI bus, its ids and the driver bound to it."""

from __future__ import annotations

from itertools import groupby

from cudadoctor.model.addresses import normal_address
from cudadoctor.model.facts import Quote
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import PCI, PCI_NAMES, PciFunction
from cudadoctor.parsers._pci import bus_fact
from cudadoctor.parsers.base import Output, Text, parser

_LINE = lazy(
    r"[ \t>|]{0,20}/sys/bus/pci/devices/(?P<address>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])/"
    r"(?:(?P<id>vendor|device|class|revision):\s{0,4}0x(?P<digits>[0-9a-fA-F]{2,6})\s*$"
    r"|driver -> \S*/(?P<driver>[\w.-]+)\s*$|(?P<unreadable>\w+): )"
)
_DEVICE = lazy(r"^\t(?P<device>[0-9a-f]{4})  (?P<name>\S.{0,100})$")
_PRODUCT = lazy(r"\[(?P<product>[^\[\]]{3,80})\]")  # GA106 [GeForce RTX 3060]


def parse(text: Text) -> Output:
    """One fact with all functions. A function without a driver line has no driver, if nothing was left out."""
    entries: dict[str, dict[str, str]] = {}
    lines: dict[str, list[int]] = {}
    for number, found in text.rows(_LINE):
        address = normal_address(found["address"]) or found["address"]
        name = found["id"] or found["unreadable"] or "driver"
        entries.setdefault(address, {}).setdefault(name, (found["digits"] or "").lower() or found["driver"] or "")
        lines.setdefault(address, []).append(number)
    if entries or (text.whole and not text.text.strip()):
        shown = [(_function(text, at, entry, lines[at][0]), _quotes(text, lines[at])) for at, entry in entries.items()]
        yield bus_fact(text, shown, whole=text.whole)


def _function(text: Text, address: str, entry: dict[str, str], line: int) -> PciFunction:
    """`entry`: what each file holds, nothing where it cannot be read."""
    vendor, device, code, driver, revision = (entry.get(name) or None for name in ("vendor", "device", "class", "driver", "revision"))
    return PciFunction(
        address=address,
        vendor=vendor,
        device=device,
        class_code=code[:4] if code else None,
        driver=driver,
        driver_known=driver is not None or (text.whole and "driver" not in entry),
        revision=revision,
        line=line,
    )


def _quotes(text: Text, numbers: list[int]) -> list[Quote]:
    """One quote for each run of neighbouring lines."""
    runs = groupby(enumerate(numbers), key=lambda entry: entry[1] - entry[0])
    lines = [[number for _, number in run] for _, run in runs]
    return [text.quote(run[0], run[-1]) for run in lines]


def parse_names(text: Text) -> Output:
    """An excerpt of pci.ids: NVIDIA's devices of this machine by id. The name in brackets is the product's, else it is the chip's."""
    rows = list(text.rows(_DEVICE))
    if rows:
        found = ((row["device"], row["name"]) for _, row in rows)
        names = {device: (product["product"] if (product := _PRODUCT.search(name)) else name) for device, name in found}
        yield text.fact(PCI_NAMES, names, *(text.quote(number) for number, _ in rows))


PARSERS = (
    parser("pci_sysfs", parse, PCI, reads=("pci",), wakes=("/sys/bus/pci/devices/",)),
    parser("pci_names", parse_names, PCI_NAMES, reads=("pci-names",)),
)
