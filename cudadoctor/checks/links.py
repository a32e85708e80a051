"""Rules about links: PCIe as it was while data flowed, NVLink as the driver counts it. Part of the row `health`.

A GPU trains its PCIe link down at idle, so a slow generation counts only under load; a narrow link counts at any time. What no text
shows is no ignorance about the machine: rules about texts read `facts.all`, which is empty there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from cudadoctor.checks.benchmark import assess
from cudadoctor.checks.common import spoken
from cudadoctor.checks.reading import Quotes, subject_of
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Fact, Facts
from cudadoctor.model.findings import Basis, Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import (
    COPY_RATES,
    LADDER,
    NVML,
    PCI_LINKS,
    SMI_CSV,
    SMI_DETAILS,
    GpuDetails,
    GpuHealth,
    Measurement,
    PciLinks,
    SmiCsv,
)

G = TypeVar("G", bound=GpuHealth)
PCIE, NVLINK = "pcie-link-degraded", "nvlink-error"
BUSY = 20  # percent of utilisation from which a GPU is at work
CARD = 16  # lanes of a graphics card that does not say
FAR_BELOW = 4  # a link so many times narrower than the card is no matter of the slot's design
SLOW_COPY = 0.4  # share of the link's rate; a good copy reaches 0.7 and more
_NAMED = lazy(r"PCIe (?P<generation>\d)\.0 x(?P<width>\d{1,2})")
_WHILE_COPYING = lazy(r"link while copying: PCIe (?P<generation>\d)\.0 x(?P<width>\d{1,2})")
# GB/s that one lane carries, by its transfer rate in GT/s and by its generation.
_LANES = {2.5: 0.25, 5.0: 0.5, 8.0: 0.985, 16.0: 1.969, 32.0: 3.938, 64.0: 7.56}
_GENERATIONS = dict(enumerate(_LANES.values(), 1))


# ---------------------------------------------------------------- PCIe
def pcie_under_load(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """While the benchmark copied, the link was narrower than card and slot allow, or slower and the copy slow with it."""
    fact = facts[LADDER]
    if fact.value is None:
        return
    told: set[int] = set()
    for figure in fact.value.benchmark:
        words = _degraded(figure, knowledge) if (figure.name in ("h2d_pinned", "d2h_pinned") and figure.gpu not in told) else None
        if words is not None:
            told.add(figure.gpu)
            quote = spoken("benchmark", figure.line, f"GPU {figure.gpu}: {words}")
            yield Clue(cause=PCIE, quotes=(quote,), subject=subject_of(fact.value.address(figure.gpu)))


def _degraded(figure: Measurement, knowledge: Knowledge) -> str | None:
    """What is wrong with the link, in words."""
    best, now = _NAMED.match(figure.limit_from or ""), _WHILE_COPYING.search(figure.why or "")
    if best is None or now is None:
        return None
    narrow = int(now["width"]) < int(best["width"])
    slow = int(now["generation"]) < int(best["generation"]) and assess(figure, knowledge).verdict == "slow"
    if not narrow and not slow:
        return None
    return f"PCIe {now['generation']}.0 x{now['width']} while copying, card and slot can do PCIe {best['generation']}.0 x{best['width']}"


def pcie_shown(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """What a user's text shows of the link, by nvidia-smi, by lspci, or by the rate of copies."""
    for details in facts.all(SMI_DETAILS):
        yield from _by_smi(details)
    for table in facts.all(SMI_CSV):
        if table.value is not None:
            yield from _narrow_in_table(table, table.value)
            yield from _slow_at_work(table, table.value)
    for links in facts.all(PCI_LINKS):
        yield from _by_lspci(links)
    best = _rate_of_links(facts)
    for copies in facts.all(COPY_RATES):
        known = [rate for rate in (copies.need().to_device, copies.need().from_device) if rate is not None] if copies.present else []
        if best is not None and known and max(known) < SLOW_COPY * best[0]:
            yield Clue(cause=PCIE, quotes=(*copies.some(), *best[1]), text=copies.origin == "text")


def _by_smi(fact: Fact[tuple[GpuDetails, ...]]) -> Iterator[Clue]:
    for gpu in fact.value or ():
        width, most = gpu.pcie_width, gpu.pcie_width_max
        generation, newest = gpu.pcie_generation, gpu.pcie_generation_max
        if width is not None and most is not None and width < most:
            lines: tuple[int, ...] = (gpu.lines["pcie_width_max"], gpu.lines["pcie_width"])
            yield _shown(fact, lines, gpu.address, _sure(width, most, beside=True))
        elif None not in (generation, newest) and (generation or 0) < (newest or 0) and (gpu.utilization_percent or 0) >= BUSY:
            lines = (gpu.lines["pcie_generation_max"], gpu.lines["pcie_generation"], gpu.lines["utilization_percent"])
            yield _shown(fact, lines, gpu.address, "derived")


def _narrow_in_table(fact: Fact[SmiCsv], table: SmiCsv) -> Iterator[Clue]:
    """`--query-gpu=pcie.link.width.current,...`: a card whose neighbours have all their lanes has lost its own."""
    now, most = table.column("pcie.link.width.current"), table.column("pcie.link.width.max")
    if now is None or most is None:
        return
    pairs = [(int(one), int(other)) if one.isdecimal() and other.isdecimal() else None for one, other in zip(now, most, strict=True)]
    full = any(pair is not None and pair[0] == pair[1] for pair in pairs)
    for row, pair in enumerate(pairs, 1):
        if pair is not None and pair[0] < pair[1]:
            yield _shown(fact, (table.line, table.line + row), None, "derived" if full else _sure(*pair))


def _slow_at_work(fact: Fact[SmiCsv], table: SmiCsv) -> Iterator[Clue]:
    """A GPU at work whose link stays at an older generation than it could have: at idle that saves power, at work it is a fault."""
    busy, now, newest = (table.column(name) for name in ("utilization.gpu", "pcie.link.gen.current", "pcie.link.gen.max"))
    if busy is None or now is None or newest is None:
        return
    for row, (load, one, most) in enumerate(zip(busy, now, newest, strict=True), 1):
        percent = load.removesuffix("%").strip()  # `97 %`, or `97` where units were left out
        if all(text.isdecimal() for text in (percent, one, most)) and int(percent) >= BUSY and int(one) < int(most):
            yield _shown(fact, (table.line, table.line + row), None, "derived")


def _by_lspci(fact: Fact[PciLinks]) -> Iterator[Clue]:
    """Narrower than the card, unless a bridge of this very width is shown: then the slot has no more lanes."""
    slots = fact.value.slots if fact.value is not None else ()
    for link in fact.value.links if fact.value is not None else ():
        narrow = link.width is not None and (link.narrowed or (link.width_max is not None and link.width < link.width_max))
        if narrow and not any(slot.width_max == link.width == slot.width and slot.rate == link.rate for slot in slots):
            yield _shown(fact, link.lines, link.address, _sure(link.width or 1, link.width_max or CARD))


def _rate_of_links(facts: Facts) -> tuple[float, Quotes] | None:
    """GB/s that the widest GPU link of the text could carry."""
    links, details = facts.there(PCI_LINKS), facts.there(SMI_DETAILS)
    known: list[tuple[float, Quotes]] = []
    if links is not None:
        found = [_LANES.get(link.rate_max or 0, 0.0) * (link.width_max or 0) for link in links.need().links]
        known.append((max(found, default=0.0), links.lines_with("LnkCap")[:1]))
    if details is not None:
        found = [_GENERATIONS.get(gpu.pcie_generation_max or 0, 0.0) * (gpu.pcie_width_max or 0) for gpu in details.need()]
        known.append((max(found, default=0.0), details.some()[:1]))
    return next((rate for rate in known if rate[0] > 0), None)


def _sure(width: int, most: int, *, beside: bool = False) -> Basis:
    """Half the lanes may be all that the slot has; a quarter or less is a fault. Told beside much else, as in a whole log, four lanes may
    be meant (Thunderbolt, M.2), and nobody complains of them."""
    return "derived" if width * FAR_BELOW * (2 if beside else 1) <= most else "suspected"


def _shown(fact: Fact[Any], lines: Iterable[int], address: str | None, basis: Basis) -> Clue:
    return Clue(cause=PCIE, quotes=fact.lines_at(lines), subject=subject_of(address), basis=basis, text=fact.origin == "text")


# ---------------------------------------------------------------- NVLink
def nvlink_counted(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """Some of a GPU's links are down while others are up, here or on its neighbours. All down: no bridge is plugged in."""
    fact = facts[NVML]
    yield from _down(fact, fact.value.gpus if fact.value is not None else (), lambda gpu: fact.lines_with(f"GPU {gpu.index}:")[:1])


def nvlink_shown(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """The same from `nvidia-smi nvlink -s` in a user's text."""
    for fact in facts.all(SMI_DETAILS):
        yield from _down(fact, fact.value or (), lambda gpu, fact=fact: fact.lines_at({gpu.line, gpu.lines.get("nvlinks_inactive")}))  # type: ignore[misc]


def _down(fact: Fact[Any], gpus: Sequence[G], lines: Callable[[G], Quotes]) -> Iterator[Clue]:
    counted = [(gpu, gpu.nvlinks_active or 0, gpu.nvlinks_inactive) for gpu in gpus if gpu.nvlinks_inactive is not None]
    most = max((active for _, active, _ in counted), default=0)
    for gpu, active, inactive in counted:
        if 0 < inactive < active or (inactive and active < most):
            yield Clue(cause=NVLINK, quotes=lines(gpu), subject=subject_of(gpu.address), text=fact.origin == "text")
