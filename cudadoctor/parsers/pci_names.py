"""An excerpt of pci.ids: what it calls the NVIDIA devices of this machine, by device id."""

from __future__ import annotations

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import PCI_NAMES
from cudadoctor.parsers.base import Output, Parser, Text

_DEVICE = lazy(r"^\t(?P<device>[0-9a-f]{4})  (?P<name>\S.{0,100})$")
_PRODUCT = lazy(r"\[(?P<product>[^\[\]]{3,80})\]")  # GA106 [GeForce RTX 3060]


def parse(text: Text) -> Output:
    """The name in brackets is the product's; where there is none, the chip's."""
    found = {entry["device"]: entry["name"] for entry in map(_DEVICE.match, text.lines) if entry is not None}
    if found:
        names = {device: (product["product"] if (product := _PRODUCT.search(name)) else name) for device, name in found.items()}
        yield text.fact(PCI_NAMES, names, *(text.quote(number) for number, line in enumerate(text.lines, 1) if _DEVICE.match(line)))


PARSER = Parser(name="pci_names", reads=("pci-names",), keys=(PCI_NAMES.name,), parse=parse)
