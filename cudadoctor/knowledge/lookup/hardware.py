"""Architectures, compute capabilities, chips and PCI device ids: which drivers and toolkits go with a GPU."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from cudadoctor.knowledge.lookup.pages import NoSuchError, Value, either, facts, neighbours, topic
from cudadoctor.model.explanation import Fact, Subject, Topic
from cudadoctor.model.version import ComputeCapability

if TYPE_CHECKING:
    from cudadoctor.knowledge.load import Knowledge
    from cudadoctor.knowledge.tables import Architecture, Capability, ChipPrefix

PRE_CUDA = "pre-cuda"
_BUILTIN_NUMBA_ENDS = (9, 0)  # the newest capability of Numba's built-in target (tables/numba_support.toml)
_SERIES = re.compile(r"nvidia|geforce|quadro|tesla|titan|rtx|gtx|laptop|mobile|gpu|ti|super|max-q|nvl|pcie|sxm\d?|\d{1,4}g[b]?")
_OPEN = {"unsupported": "not supported", "supported": "supported", "required": "required"}


# ---------------------------------------------------------------- what a GPU's generation decides
class Traits:
    """The values and conditions of a GPU: of its architecture, and of its capability where that is known too."""

    def __init__(self, architecture: Architecture | None, capability: Capability | None, last_driver: int | None = None) -> None:
        architecture = architecture.of(capability) if architecture is not None else None
        self.architecture = architecture
        self.capability = capability
        compiled = capability or architecture
        self.values: dict[str, Value] = {
            "last_driver": architecture.last_driver_branch if architecture is not None else last_driver,
            "first_driver": architecture.first_driver_branch if architecture is not None else None,
            "last_toolkit": compiled.last_toolkit_text if compiled is not None else None,
            "first_toolkit": compiled.first_toolkit_text if compiled is not None else None,
        }

    @property
    def conditions(self) -> Mapping[str, object]:
        known = {
            "driver-ended": self.values["last_driver"] is not None,
            "driver-began": self.values["first_driver"] is not None,
            "toolkit-ended": self.values["last_toolkit"] is not None,
            "toolkit-began": self.values["first_toolkit"] is not None,
            "no-cuda": self.architecture is None and self.capability is None,
        }
        if self.architecture is None:
            return known
        numbers = [self.capability.compute_capability] if self.capability is not None else self.architecture.capabilities
        fallback = numbers and all(number.major_minor > _BUILTIN_NUMBA_ENDS for number in numbers)
        return {**known, f"open-{self.architecture.open_modules}": True, "numba-fallback": fallback}

    @property
    def newest(self) -> str | None:
        """The compute capability; an architecture's newest."""
        if self.capability is not None:
            return self.capability.cc
        return self.architecture.cc[-1] if self.architecture is not None and self.architecture.cc else None

    @property
    def facts(self) -> tuple[Fact, ...]:
        row = self.architecture
        if row is None:
            return facts(("last driver branch", self.values["last_driver"]))
        newest = "none: still supported" if row.last_driver_branch is None else row.last_driver or str(row.last_driver_branch)
        return facts(
            ("first driver", row.first_driver or (str(row.first_driver_branch) if row.first_driver_branch else None)),
            ("last driver", newest),
            ("first toolkit", self.values["first_toolkit"]),
            ("last toolkit", self.values["last_toolkit"] or "none: still supported"),
            ("open kernel modules", _OPEN[row.open_modules]),
            ("open kernel modules, in detail", row.open_modules_note),
            ("GSP firmware", row.has_gsp),
        )


def _page(
    subject: Subject, identity: str, title: str, traits: Traits, lines: tuple[Fact, ...], sources: Iterable[str], note: str | None,
    knowledge: Knowledge,
) -> Topic:  # fmt: skip
    more = knowledge.sources_of("architectures", (row for row in (traits.capability, traits.architecture) if row is not None))
    return topic(
        subject, identity, title, knowledge, facts=(*lines, *traits.facts), sources=[*sources, *more], note=note,
        conditions=traits.conditions, values=traits.values, compute_capability=traits.newest,
    )  # fmt: skip


# ---------------------------------------------------------------- architectures
def architecture(words: str, knowledge: Knowledge) -> Topic | None:
    """By id or name: "kepler", "Blackwell Ultra"."""
    wanted = words.lower().replace(" ", "-")
    row = next((row for row in knowledge.architectures if wanted in (row.id, row.name.lower().replace(" ", "-"))), None)
    if row is None:
        return None
    lines = facts(("chips", row.chips), ("compute capabilities", row.cc), ("tensor cores, generation", row.tensor_cores or None))
    return _page("architecture", row.id, f"{row.name}, an architecture", Traits(row, None), lines, (), row.note, knowledge)


# ---------------------------------------------------------------- compute capabilities
def capability(text: str, knowledge: Knowledge, *, product: str | None = None) -> Topic:
    """By number ("8.9"). NoSuchError where there is no such capability."""
    number = ComputeCapability(text)
    row = knowledge.capability(number)
    if row is None:
        near = neighbours(number, (known.compute_capability for known in knowledge.capabilities))
        raise NoSuchError(f"these tables hold no compute capability {text}. Nearest: {either('cc ', near)}")
    generation = knowledge.architecture(row.architecture)
    digits = row.cc.replace(".", "")
    indexes = tuple(index.tag for index in knowledge.torch_indexes if index.serves(number))
    lines = facts(
        ("names in compilers", (f"sm_{digits}", f"compute_{digits}")),
        ("architecture", generation.name if generation is not None else row.architecture),
        ("also known as", row.alias),
        ("in a Tegra or Jetson only", row.tegra or None),
        ("FP32 lanes of a multiprocessor", row.fp32_lanes_per_sm),
        ("FP64 lanes of a multiprocessor", row.fp64_lanes_per_sm),
        ("PyTorch indexes whose wheels hold code for it", indexes or "none of the current ones"),
    )
    title = f"compute capability {row.cc}" if product is None else f"{product}: compute capability {row.cc}"
    return _page("capability", f"cc {row.cc}", title, Traits(generation, row), lines, (), row.toolkit_note, knowledge)


def product(name: str, knowledge: Knowledge) -> Topic | None:
    """A product's name and nothing else ("NVIDIA GeForce RTX 3090"), where the name decides the capability."""
    for row in knowledge.products:
        match = re.search(row.pattern, name, re.IGNORECASE)
        if match is not None:
            rest = f"{name[: match.start()]} {name[match.end() :]}".lower().split()
            return capability(row.cc, knowledge, product=name) if all(_SERIES.fullmatch(word) for word in rest) else None
    return None


# ---------------------------------------------------------------- chips and device ids
def chip(name: str, knowledge: Knowledge) -> Topic | None:
    """By the name in pci.ids ("GK208M")."""
    # The suffix of a name is written in capitals there, but for the x of entries that stand for several chips.
    row = next((row for row in knowledge.chip_prefixes if row.fits(name.upper())), None)
    if row is None:
        return None
    found = knowledge.chip_by_name(name.upper())
    number = found.compute_capability if found is not None else None
    return _of_chip("chip", name.upper(), f"{name.upper()}, a chip", row, number, (), (), knowledge)


def device(identity: str, knowledge: Knowledge) -> Topic:
    """By PCI device id ("1292"). NoSuchError where no run of ids holds it."""
    row = knowledge.chip_range(identity)
    if row is None:
        newer = int(identity, 16) > int(knowledge.chip_ranges[-1].last, 16)
        others = "no GPU of NVIDIA's has it; other functions of a card have ids too"
        why = "it may be a GPU that is newer than these tables" if newer else others
        raise NoSuchError(f"no run of NVIDIA's GPU ids holds {identity}: {why}")
    prefix = next((known for known in knowledge.chip_prefixes for name in row.chips if known.fits(name)), None)
    lines = facts(("chips with ids near it", row.chips), ("run of ids", f"{row.first} to {row.last}"))
    capability_ = None if row.cc is None else ComputeCapability(row.cc)
    sources = knowledge.sources("chips", None, "id_range")
    return _of_chip(
        "device", f"10de:{identity}", f"10de:{identity}, a PCI device id", prefix, capability_, lines, sources, knowledge, row.architecture
    )


def _of_chip(
    subject: Subject, identity: str, title: str, row: ChipPrefix | None, number: ComputeCapability | None, lines: tuple[Fact, ...],
    sources: tuple[str, ...], knowledge: Knowledge, architecture_id: str | None = None,
) -> Topic:  # fmt: skip
    wanted = architecture_id or (row.architecture if row is not None else PRE_CUDA)
    generation = knowledge.architecture(wanted)
    exceptions = [entry for entry in knowledge.chip_exceptions if identity.startswith(entry.name)]
    more = facts(
        ("architecture", generation.name if generation is not None else "older than CUDA"),
        ("compute capability", str(number) if number is not None else None),
        ("sold as", row.family if row is not None else None),
    )
    rests_on = [*sources, *knowledge.sources_of("chips", (*([row] if row is not None else []), *exceptions))]
    traits = Traits(
        generation, knowledge.capability(number) if number is not None else None, row.last_driver_branch if row is not None else None
    )
    note = " ".join(filter(None, (row.note if row is not None else None, *(f"{entry.meaning}." for entry in exceptions)))) or None
    return _page(subject, identity, title, traits, (*lines, *more), rests_on, note, knowledge)
