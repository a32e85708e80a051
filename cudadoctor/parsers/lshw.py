"""lshw, with `-C display` or in full: the PCI functions it shows and the driver in their configuration.

lshw needs root to see everything and its output is usually filtered, so it never proves that something is missing;
the word UNCLAIMED does state that no driver is bound.
"""

from __future__ import annotations

import msgspec

from cudadoctor.model.addresses import normal_address
from cudadoctor.model.facts import Quote
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import PCI, PciFunction
from cudadoctor.parsers._pci import CLASS_WORDS, NVIDIA, Bus, is_nvidia
from cudadoctor.parsers.base import Output, Text, parser

_NODE = lazy(r"[ \t>|]{0,80}\*-([a-z0-9]{1,40})(?::\d{1,4})?((?: [A-Z]{1,20})*)\s*$")
# In the order in which lshw prints them: a key that comes again or too early belongs to a node whose header is missing.
_KEYS = (
    "description", "product", "vendor", "physical id", "bus info", "logical name", "version", "serial", "size", "capacity", "width",
    "clock", "capabilities", "configuration", "resources",
)  # fmt: skip
_FIELD = lazy(rf"([ \t>|]{{0,80}})({'|'.join(_KEYS)}): ?(.*)")
_RANK = {key: rank for rank, key in enumerate(_KEYS)}
_IDS = lazy(r" ?\[([0-9A-Fa-f]{4})(?::([0-9A-Fa-f]{4}))?\]\s*$")  # lshw -numeric: product ... [10DE:1292], vendor ... [10DE]
_UNNAMED = lazy(r"Device ([0-9a-f]{4})$")


class _Node(msgspec.Struct):
    """One `*-name` paragraph: its fields, where each stands, and the words beside its name."""

    number: int
    unclaimed: bool = False
    fields: dict[str, str] = {}
    lines: dict[str, int] = {}
    rank: int = -1
    indent: str | None = None

    def takes(self, indent: str, key: str) -> bool:
        """Whether this field can belong to the same paragraph: same indentation, and its turn has not passed."""
        in_turn = _RANK[key] > self.rank or (_RANK[key] == self.rank and key == "logical name")
        return in_turn and self.indent in (None, indent)


def parse(text: Text) -> Output:
    """One fact with the functions that have a PCI address, never whole; a second one where a driver changed within the text."""
    bus = Bus()
    for node in _nodes(text):
        if (function := _function(node)) is not None:
            bus.add(function, _quotes(text, node))
    if bus.found:
        yield from bus.facts(text, whole=False)


def _nodes(text: Text) -> list[_Node]:
    nodes: list[_Node] = []
    current: _Node | None = None
    for number, line in enumerate(text.lines, 1):
        header = _NODE.match(line) if "*-" in line else None
        if header:
            current = _Node(number, unclaimed="UNCLAIMED" in header[2])
            nodes.append(current)
            continue
        field = _FIELD.match(line) if ":" in line else None
        if field is None:
            continue
        indent, key, value = field.groups()
        if current is None or not current.takes(indent, key):
            current = _Node(number) if key in ("description", "product", "vendor") else None
            if current is None:
                continue
            nodes.append(current)
        current.indent, current.rank = indent, _RANK[key]
        current.fields.setdefault(key, value.strip())
        current.lines.setdefault(key, number)
    return nodes


def _function(node: _Node) -> PciFunction | None:
    address = normal_address(node.fields.get("bus info", "").removeprefix("pci@"))
    if address is None or not node.fields["bus info"].startswith("pci@"):
        return None
    product, vendor_words = node.fields.get("product", ""), node.fields.get("vendor", "")
    ids = _IDS.search(product[-40:])
    vendor_id = _IDS.search(vendor_words[-40:])
    name = product[: product.rindex("[")].strip() if ids else product
    unnamed = _UNNAMED.match(name)
    both = ids if ids is not None and ids[2] else None
    vendor = vendor_id[1].lower() if vendor_id else both[1].lower() if both else NVIDIA if is_nvidia(vendor_words) else None
    device = both[2].lower() if both else unnamed[1] if unnamed else None
    settings = dict(part.split("=", 1) for part in node.fields.get("configuration", "").split() if "=" in part)
    driver = None if node.unclaimed else settings.get("driver") or None
    return PciFunction(
        address=address,
        vendor=vendor,
        device=device,
        class_code=CLASS_WORDS.get(node.fields.get("description", "")),
        name=None if not name or is_nvidia(name) else name,
        driver=driver,
        driver_known=driver is not None or node.unclaimed,
        revision=node.fields.get("version"),
        line=node.number,
    )


def _quotes(text: Text, node: _Node) -> list[Quote]:
    """The head of the paragraph (what it is) and the line that names the driver."""
    head = max((node.lines[key] for key in ("description", "product", "vendor") if key in node.lines), default=node.number)
    first = text.quote(node.number, head) if head - node.number <= 4 else text.quote(node.number)
    configuration = node.lines.get("configuration")
    return [first, text.quote(configuration)] if configuration else [first]


PARSER = parser("lshw", parse, PCI, reads=("lshw",), wakes=("*-display", "bus info: pci@"))
