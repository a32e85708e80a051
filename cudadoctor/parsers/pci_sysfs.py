"""/sys/bus/pci/devices as `path:value` lines: every function of the PCI bus, its ids and the driver bound to it."""

from __future__ import annotations

from itertools import groupby

from cudadoctor.model.addresses import normal_address
from cudadoctor.model.facts import Quote
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import PCI, PCI_NAMES, PciFunction
from cudadoctor.parsers._pci import bus_fact
from cudadoctor.parsers.base import Output, Parser, Text

_LINE = lazy(
    r"[ \t>|]{0,20}/sys/bus/pci/devices/([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])/"
    r"(?:(vendor|device|class|revision):\s{0,4}0x([0-9a-fA-F]{2,6})\s*$|(driver) -> \S*/([\w.-]+)\s*$|(\w+): )"
)

_DEVICE = lazy(r"^\t(?P<device>[0-9a-f]{4})  (?P<name>\S.{0,100})$")
_PRODUCT = lazy(r"\[(?P<product>[^\[\]]{3,80})\]")  # GA106 [GeForce RTX 3060]


class _Entry:
    """The lines seen about one function."""

    def __init__(self) -> None:
        self.ids: dict[str, str] = {}
        self.driver: str | None = None
        self.unreadable: set[str] = set()
        self.numbers: list[int] = []


def parse(text: Text) -> Output:
    """One fact with all functions. A function without a driver line has no driver, if nothing was left out."""
    entries: dict[str, _Entry] = {}
    for number, match in text.rows(_LINE):
        address = normal_address(match[1])
        if address is None:
            continue
        entry = entries.setdefault(address, _Entry())
        entry.numbers.append(number)
        if match[2]:
            entry.ids.setdefault(match[2], match[3].lower())
        elif match[4]:
            entry.driver = entry.driver or match[5]
        else:
            entry.unreadable.add(match[6])
    if not entries:
        if text.whole and not text.text.strip():
            yield bus_fact(text, (), (), whole=True)
        return
    functions = [_function(text, address, entry) for address, entry in entries.items()]
    quotes = [_quotes(text, entry.numbers) for entry in entries.values()]
    yield bus_fact(text, functions, quotes, whole=text.whole)


def _function(text: Text, address: str, entry: _Entry) -> PciFunction:
    code = entry.ids.get("class")
    return PciFunction(
        address=address,
        vendor=entry.ids.get("vendor"),
        device=entry.ids.get("device"),
        class_code=code[:4] if code else None,
        driver=entry.driver,
        driver_known=entry.driver is not None or (text.whole and "driver" not in entry.unreadable),
        revision=entry.ids.get("revision"),
        line=entry.numbers[0],
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
    Parser(name="pci_sysfs", reads=("pci",), keys=(PCI.name,), parse=parse, wakes=("/sys/bus/pci/devices/",)),
    Parser(name="pci_names", reads=("pci-names",), keys=(PCI_NAMES.name,), parse=parse_names),
)
