"""Rules of Windows: its inventory says which display adapter runs, under whose driver, and by a code why one does not.

They stand in the rows `driver` and `health`, beside the rules about kernel modules, which say nothing on Windows.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import msgspec

from cudadoctor.checks.base import Line, Rule
from cudadoctor.checks.reading import WINDOWS, Quotes, merged, statements, subject_of, told, works_now
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Fact, Facts, Quote
from cudadoctor.model.findings import Basis, Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import DISPLAY_ADAPTERS, KERNEL, LOADED_DRIVER, SMI, DisplayAdapter

NOT_INSTALLED = "driver-not-installed"
OF_THE_DRIVER = (NOT_INSTALLED, "driver-not-loaded", "gpu-init-failed", "secure-boot-blocks-module", "driver-packages-conflict")
OF_THE_BUS = ("pci-bar-unassigned", "gpu-powered-off", "gpu-fell-off-bus", "gpu-needs-reset")
# Drivers of Windows' own, which show a picture and compute nothing; "" where no service holds the device.
_WITHOUT_NVIDIA = ("", "basicdisplay", "vga", "vgasave")
_OF_WINDOWS = lazy(r"^(?:10\.0|6\.[0-4])\.")  # DriverVersion of a driver that came with Windows

Known = tuple[DisplayAdapter, Quotes]


def on_windows(facts: Facts) -> bool:
    """Whether this system is known to be Windows, or a text lists Windows' adapters. Where nobody knows, other rules are undecided."""
    kernel, adapters = facts.there(KERNEL), facts.get(DISPLAY_ADAPTERS)
    if kernel is not None and kernel.origin != "text":
        return kernel.need().system == WINDOWS
    return isinstance(adapters, Fact) and adapters.origin == "text"


def nvidia_adapters(facts: Facts) -> tuple[Known, ...]:
    """NVIDIA's adapters, each as both listings together describe it, with the lines that do."""
    if facts[DISPLAY_ADAPTERS].value is None:
        return ()
    joined: dict[str, Known] = {}
    for fact in statements(facts, DISPLAY_ADAPTERS):
        for place, adapter in enumerate(fact.need()):
            if adapter.is_nvidia:
                name = adapter.instance or f"{adapter.name} {place}"
                joined[name] = _joined(joined.get(name), adapter, fact)
    return tuple(joined.values())


def _joined(before: Known | None, adapter: DisplayAdapter, fact: Fact[tuple[DisplayAdapter, ...]]) -> Known:
    if before is None:
        return adapter, fact.lines_at(adapter.lines)
    known, quotes = before
    told = {field: value for field in DisplayAdapter.__struct_fields__ if (value := getattr(adapter, field)) is not None}
    new = {field: value for field, value in told.items() if getattr(known, field) is None}
    # Of two codes the one that complains counts: one listing may be older by a moment.
    new |= {"problem": told["problem"]} if told.get("problem") and not known.problem else {}
    # What tells nothing new is not quoted either: a hostile listing repeats one adapter any number of times.
    return (msgspec.structs.replace(known, **new), merged(quotes, fact.lines_at(adapter.lines))) if new else before


# ---------------------------------------------------------------- the rules
def without_driver(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """Windows itself drives the adapter, with the driver that every screen gets: NVIDIA's is not installed."""
    if not on_windows(facts):
        return
    # For wording: that nvidia-smi, which every driver of NVIDIA's brings, is not there either.
    smi = facts.get(SMI)
    no_smi = smi.quotes[:1] if isinstance(smi, Fact) and not smi.present else ()
    for adapter, lines in nvidia_adapters(facts):
        if adapter.problem in (None, 0) and _driven_by_windows(adapter) and not _works(facts, adapter):
            yield _clue(NOT_INSTALLED, adapter, merged(lines, no_smi), "derived")


def _driven_by_windows(adapter: DisplayAdapter) -> bool:
    if adapter.driver is not None:
        return False
    if adapter.service is not None:
        return adapter.service.lower() in _WITHOUT_NVIDIA
    return adapter.driver_text is not None and _OF_WINDOWS.match(adapter.driver_text) is not None


def problem_codes(chosen: tuple[str, ...], facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """The rule for the causes of one row: the code with which Windows says why an adapter does not run."""
    for adapter, lines in nvidia_adapters(facts) if on_windows(facts) else ():
        row = knowledge.device_problem(adapter.problem) if adapter.problem else None
        causes = [cause for cause in row.causes if cause in chosen] if row is not None else []
        if row is None or not causes or _works(facts, adapter):
            continue
        words = Quote(source="Windows' device codes", text=f"code {row.code} ({row.name}): {row.meaning}")
        basis: Basis = "derived" if len(row.causes) == 1 else "suspected"
        yield from (_clue(cause, adapter, merged((words,), lines), basis) for cause in causes)


def _clue(cause: str, adapter: DisplayAdapter, quotes: Quotes, basis: Basis) -> Clue:
    return Clue(cause=cause, quotes=quotes, subject=subject_of(adapter.address), basis=basis, values={"instance": adapter.instance})


def _works(facts: Facts, adapter: DisplayAdapter) -> bool:
    """On the machine what NVML and CUDA get out of this adapter counts for more; in a text a table of nvidia-smi does."""
    listing = facts[DISPLAY_ADAPTERS]
    if listing.origin != "text":
        return works_now(facts, adapter.address)
    smi = told(facts, SMI, listing)
    return smi is not None and bool(smi.gpus)


# ---------------------------------------------------------------- the line
def describe_driver(facts: Facts, knowledge: Knowledge) -> Line:
    """Which driver runs which adapter, and what Windows says of those that do not run."""
    adapters = nvidia_adapters(facts)
    if not adapters:
        return Line("no NVIDIA GPU to drive", facts[DISPLAY_ADAPTERS].some()[:1], skip="no NVIDIA GPU")
    groups: dict[str, list[str]] = {}
    for adapter, _ in adapters:
        groups.setdefault(_state(adapter, facts, knowledge), []).append(adapter.address or adapter.name or "an NVIDIA GPU")
    words = "; ".join(f"{', '.join(sorted(set(names)))}: {state}" for state, names in groups.items())
    return Line(words, merged(*(lines for _, lines in adapters[:4])))


def _state(adapter: DisplayAdapter, facts: Facts, knowledge: Knowledge) -> str:
    row = knowledge.device_problem(adapter.problem) if adapter.problem else None
    if adapter.problem:
        return f"Windows says that {row.meaning} (code {row.code})" if row is not None else f"Windows' problem code {adapter.problem}"
    if _driven_by_windows(adapter):
        return "Windows' own display driver, none of NVIDIA's"
    loaded = facts.value(LOADED_DRIVER)
    version = adapter.driver or (loaded.version if loaded is not None else None)
    return f"driver {version}" if version is not None else "a driver of unknown version"


RULES: tuple[Rule, ...] = (
    Rule("driver", (NOT_INSTALLED,), without_driver),
    Rule("driver", OF_THE_DRIVER, partial(problem_codes, OF_THE_DRIVER)),
    Rule("health", OF_THE_BUS, partial(problem_codes, OF_THE_BUS)),
)
