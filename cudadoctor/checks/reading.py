"""How rules of the kernel side read facts: three-valued questions, the GPUs on the bus, and the lines to quote.

A rule asks with `facts[KEY]`, which raises where nobody knows. Two kinds of ignorance are answers in themselves and are handled here,
by name: a pasted text that does not speak of something (nobody can ask that machine), and a probe that hung.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple, TypeVar

from cudadoctor.inventory.devices import plain_address as plain_address  # callers find them here
from cudadoctor.inventory.devices import same_address as same_address
from cudadoctor.model.facts import Fact, Facts, Key, NotKnown, Quote, Unknown
from cudadoctor.model.values import (
    BUNDLE,
    CONTAINER_MARKS,
    HANGS,
    KERNEL,
    LADDER,
    LOADED_DRIVER,
    MODULES,
    NVML,
    PCI,
    SMI,
    TEGRA,
    WSL,
    KernelEvent,
    KernelLog,
    Ladder,
    PciFunction,
)

T = TypeVar("T")
B = TypeVar("B")
Quotes = tuple[Quote, ...]
WINDOWS = "Windows"
QUOTES_AT_MOST = 3  # lines that one fact gives to a clue


# ---------------------------------------------------------------- three-valued questions
def told(facts: Facts, key: Key[T], base: Fact[B]) -> T | None:
    """The value, None where it is known to be absent. Beside a pasted text, what the text does not say is None too."""
    return _unless_excused(facts, key, base.origin == "text")


def told_where_asked(facts: Facts, key: Key[T], base: Fact[B]) -> T | None:
    """As `told`; in a bundle None also where its tool asked nobody."""
    return _unless_excused(facts, key, base.origin == "text" or _in_bundle(facts))


def answer(facts: Facts, key: Key[T], item: str) -> T | None:
    """What a probe said, None where it hung: a probe that gave no answer contradicts nothing."""
    return _unless_excused(facts, key, hung(facts, item))


def _unless_excused(facts: Facts, key: Key[T], excused: bool) -> T | None:
    """The value; None where it is absent, and where nobody knows and that is no wonder."""
    # In what another tool collected no ladder was climbed, and that is known: NVML alone speaks for the GPUs there.
    excused = excused or (key.name == LADDER.name and _in_bundle(facts))
    return None if excused and facts.why_unknown(key) is not None else facts[key].value


def _in_bundle(facts: Facts) -> bool:
    return facts.why_unknown(BUNDLE) is None


def hung(facts: Facts, item: str) -> bool:
    """Whether it is known that this probe gave no answer within its limit."""
    hangs = facts.value(HANGS)
    return hangs is not None and any(entry.item == item for entry in hangs.entries)


def first_true(*questions: Callable[[], T]) -> T | tuple[()]:
    """The answer of the first question that is answered yes (by lines as a rule), () where all are answered no.

    Undecided where none says yes and one is unknown.
    """
    ignorance: NotKnown | None = None
    for question in questions:
        try:
            found = question()
        except NotKnown as unknown:
            ignorance = ignorance or unknown
            continue
        if found:
            return found
    if ignorance is not None:
        raise ignorance
    return ()


def statements(facts: Facts, key: Key[T]) -> tuple[Fact[T], ...]:
    """All present statements of a fact that stand beside the best one: a text is not mixed with what was read from the machine."""
    best = facts[key]
    beside = (fact for fact in facts.all(key) if (fact.origin == "text") == (best.origin == "text"))
    return tuple(fact for fact in beside if fact.value is not None)


def need_whole_list(facts: Facts, key: Key[T], why: str = "the listing is not whole") -> None:
    """Absence needs a whole listing. No listing at all here: the thing that would list is known to be absent."""
    listings = statements(facts, key)
    if listings and not any(fact.whole for fact in listings):
        raise unknown(key, why)


def unknown(key: Key[T], why: str) -> NotKnown:
    """What a rule raises where a fact is there but does not say enough."""
    return NotKnown(Unknown(key=key.name, why=why))


# ---------------------------------------------------------------- lines to quote
def single_lines(fact: Fact[T]) -> Quotes:
    """The quoted lines of a fact, one quote a line."""
    return _taken_apart(fact.quotes)


@lru_cache(maxsize=64)  # a rule asks for the lines of each of many GPUs, nodes or packages
def _taken_apart(quotes: Quotes) -> Quotes:
    single: list[Quote] = []
    for quote in quotes:
        if quote.first is None:
            single.append(quote)
            continue
        for offset, text in enumerate(quote.text.split("\n")):
            place = quote.first + offset
            single.append(Quote(source=quote.source, first=place, last=place, text=text))
    return tuple(single)


@lru_cache(maxsize=64)
def _by_number(quotes: Quotes) -> dict[int, Quotes]:
    numbered: dict[int, list[Quote]] = {}
    for quote in _taken_apart(quotes):
        if quote.first is not None:
            numbered.setdefault(quote.first, []).append(quote)
    return {number: tuple(found) for number, found in numbered.items()}


def some(fact: Fact[T]) -> Quotes:
    """The first quotes of a fact, never none: lines also stand for "yes"."""
    return fact.quotes[:QUOTES_AT_MOST] or (Quote(source=fact.key, text=f"{fact.key}: known, without a line"),)


def source_of(fact: Fact[T], unnamed: str | None = None) -> str:
    """Where a fact comes from, as a person would call it; `unnamed` where it quotes nothing."""
    return fact.quotes[0].source if fact.quotes else unnamed or fact.key


def line_if(facts: Facts, key: Key[T], so: Callable[[T], object]) -> Quotes:
    """A line of a fact whose value is so; () where it is absent or not so."""
    fact = facts[key]
    return some(fact)[:1] if fact.value is not None and so(fact.value) else ()


def lines_at(fact: Fact[T], lines: Iterable[int | None]) -> Quotes:
    """The lines with these numbers; the fact's first quote where it has none of them."""
    numbered, wanted = _by_number(fact.quotes), sorted({line for line in lines if line is not None})
    return tuple(quote for line in wanted for quote in numbered.get(line, ())) or some(fact)[:1]


def line_of(fact: Fact[T], line: int) -> Quotes:
    """The one line on which a fact's entry stands; the fact's first quotes where it cannot be found."""
    return _by_number(fact.quotes).get(line, ())[:1] or some(fact)


def lines_with(fact: Fact[T], *words: str) -> Quotes:
    """The quoted lines that hold one of these words; the fact's first quotes where none does."""
    found = tuple(quote for quote in single_lines(fact) if any(word in quote.text for word in words))
    return found[:QUOTES_AT_MOST] or some(fact)


def event_line(log: Fact[KernelLog], event: KernelEvent) -> Quote:
    """A line of the kernel log. The fact quotes only a few of them; each event keeps its own."""
    return Quote(source=source_of(log, "kernel log"), first=event.line, last=event.line, text=event.text)


def merged(*groups: Quotes) -> Quotes:
    """Quotes of several facts, each once, in their order."""
    return tuple(dict.fromkeys(quote for group in groups for quote in group))


# ---------------------------------------------------------------- surroundings
def elsewhere(facts: Facts, base: Fact[T] | None = None) -> str | None:
    """`Windows`, `WSL` or `Jetson` where the GPU is not on the PCI bus behind a kernel module of Linux, else None."""
    kernel = facts.value(KERNEL)
    return WINDOWS if kernel is not None and kernel.system == WINDOWS else off_the_bus(facts, base)


def off_the_bus(facts: Facts, base: Fact[T] | None = None) -> str | None:
    """`WSL` or `Jetson` where the GPU is not on the PCI bus. On Windows it is."""
    for key, name in ((WSL, "WSL"), (TEGRA, "Jetson")):
        value = told(facts, key, base) if base is not None else facts[key].value
        if value:
            return name
    return None


def marks_of_container(facts: Facts, base: Fact[T]) -> tuple[str, ...]:
    """Marks of a container. They prove nothing alone: virtual machines carry them too."""
    return told(facts, CONTAINER_MARKS, base) or ()


# ---------------------------------------------------------------- GPUs
class Gpu(NamedTuple):
    """One NVIDIA GPU on the bus, as all listings together describe it."""

    address: str
    device: str | None
    name: str | None
    driver: str | None
    driver_known: bool
    revision: str | None
    quotes: Quotes

    @property
    def subject(self) -> str:
        return f"gpu:{self.address}"

    @property
    def values(self) -> dict[str, str]:
        """What a recipe needs to name it."""
        return {"address": self.address, "device": self.device or ""}


def subject_of(address: str | None) -> str:
    """The finding's subject: the GPU at this address, the machine where the source gives none."""
    return f"gpu:{plain_address(address)}" if address else "machine"


def gpus(facts: Facts) -> tuple[Gpu, ...]:
    """The NVIDIA GPUs that any listing of the bus shows. Unknown where this system shows no PCI bus."""
    if facts[PCI].value is None:
        raise unknown(PCI, "this system shows no PCI bus")
    seen: dict[str, list[tuple[Fact[object], PciFunction]]] = {}
    for fact in statements(facts, PCI):
        for function in fact.need().nvidia_gpus:
            seen.setdefault(plain_address(function.address), []).append((fact, function))  # type: ignore[arg-type]
    return tuple(_gpu(address, entries) for address, entries in sorted(seen.items()))


def _gpu(address: str, entries: list[tuple[Fact[object], PciFunction]]) -> Gpu:
    functions = [function for _, function in entries]
    driver = next((function.driver for function in functions if function.driver is not None), None)
    revisions = [function.revision for function in functions if function.revision is not None]
    return Gpu(
        address=address,
        device=next((function.device for function in functions if function.device is not None), None),
        name=next((function.name for function in functions if function.name is not None), None),
        driver=driver,
        driver_known=driver is not None or any(function.driver_known for function in functions),
        revision="ff" if "ff" in revisions else next(iter(revisions), None),
        quotes=merged(*(_block(fact, function, driver) for fact, function in entries)) + _unheld(address, entries, driver),
    )


def _unheld(address: str, entries: list[tuple[Fact[object], PciFunction]], driver: str | None) -> Quotes:
    """That no kernel driver holds the GPU, said in words by the listing that would show one."""
    source = next((fact.quotes[0].source for fact, function in entries if function.driver_known and fact.quotes), None)
    return (Quote(source=source, text=f"{address}: no kernel driver"),) if driver is None and source is not None else ()


def _block(fact: Fact[object], function: PciFunction, driver: str | None) -> Quotes:
    """The lines that describe one function: the one that names it, and the one that names its driver."""
    lines = single_lines(fact)
    own = [quote for quote in lines if quote.first is not None and quote.first == function.line]
    block = list(own)
    if own:
        for quote in lines:
            if quote.first is not None and quote.first > function.line:
                if not quote.text[:1].isspace():
                    break
                block.append(quote)
    about = [quote for quote in lines if function.address in quote.text]
    called = [quote for quote in block if function.name is not None and function.name in quote.text]
    naming = [quote for quote in (*block, *about) if driver is not None and driver in quote.text]
    return tuple(dict.fromkeys((*(called[:1] or own or about[:1]), *naming[:1]))) or some(fact)


def unbound(facts: Facts) -> tuple[Gpu, ...]:
    """The NVIDIA GPUs, where no kernel driver holds any of them; () where one is held. Unknown where no listing says.

    A text that shows a GPU and names no driver of it is taken as it stands: a filter may have cut the line, so less follows from it.
    """
    found = gpus(facts)
    if any(gpu.driver is not None for gpu in found):
        return ()
    if facts[PCI].origin != "text" and any(not gpu.driver_known for gpu in found):
        raise unknown(PCI, "no listing says which kernel driver holds the GPU")
    return found


# ---------------------------------------------------------------- the kernel module
def module_named(facts: Facts, name: str) -> Quotes:
    """The line of a loaded kernel module, () where it is known not to be loaded."""
    for fact in statements(facts, MODULES):
        module = fact.need().find(name)
        if module is not None:
            return line_of(fact, module.line)
    need_whole_list(facts, MODULES, "the list of kernel modules is not whole")
    return ()


def not_loaded_line(facts: Facts, module: str) -> Quotes:
    """That a kernel module is not loaded, said in words by the list that would show it."""
    return (Quote(source=source_of(facts[MODULES], "/proc/modules"), text=f"{module}: not among the loaded kernel modules"),)


def driver_runs(facts: Facts) -> Quotes:
    """The lines that show NVIDIA's kernel module in memory, () where it is known not to be there."""
    return first_true(
        lambda: some(facts[LOADED_DRIVER]) if facts[LOADED_DRIVER].present else (),
        lambda: module_named(facts, "nvidia"),
        lambda: next((gpu.quotes for gpu in gpus(facts) if gpu.driver == "nvidia"), ()),
        # A table with GPUs is drawn by a running driver only. Without one this says nothing.
        lambda: some(facts[SMI])[:1] if (smi := facts.value(SMI)) is not None and smi.gpus else (),
    )


def driver_is_out(facts: Facts, base: Fact[T]) -> bool:
    """Whether NVIDIA's kernel module is known not to be in memory. A text that speaks of no module says nothing against it."""
    if told(facts, LOADED_DRIVER, base) is not None:
        return False
    return told(facts, MODULES, base) is None or not module_named(facts, "nvidia")


# ---------------------------------------------------------------- what works now
def passed(ladder: Ladder | None, rung: str) -> bool:
    """Whether the ladder climbed this rung on at least one GPU."""
    return ladder is not None and any(entry.rung == rung and entry.status == "pass" for entry in ladder.rungs)


def failed(ladder: Ladder | None, rung: str) -> bool:
    return ladder is not None and any(entry.rung == rung and entry.status not in ("pass", "skip") for entry in ladder.rungs)


def seen_to_work(facts: Facts, gpu: Gpu) -> bool:
    """As works_now; a text's listing tells of the time when it did not."""
    return facts[PCI].origin != "text" and works_now(facts, gpu.address)


def works_now(facts: Facts, address: str | None) -> bool:
    """Whether NVML or the ladder got an answer from this GPU; without an address: from every GPU that they count."""
    nvml, ladder = answer(facts, NVML, "nvml"), answer(facts, LADDER, "ladder")
    good: list[str | None] = []
    bad: list[str | None] = []
    if nvml is not None and nvml.code == 0:
        bad += [gpu.address for gpu in nvml.gpus if gpu.handle_error is not None]
        answered = [gpu for gpu in nvml.gpus if gpu.temperature_c is not None or gpu.memory_used_bytes is not None]
        good += [gpu.address for gpu in answered if gpu.handle_error is None]
    if ladder is not None and passed(ladder, "devices"):
        broken = {entry.gpu for entry in ladder.rungs if entry.status not in ("pass", "skip")}
        for device in ladder.devices:
            (bad if device.index in broken else good).append(device.address)
    if address is None:
        return bool(good) and not bad and not failed(ladder, "init") and not failed(ladder, "devices")
    return any(same_address(address, one) for one in good) and not any(same_address(address, one) for one in bad)


def listed(names: Iterable[str]) -> str:
    """a, b and c."""
    found = list(names)
    return found[0] if len(found) == 1 else f"{', '.join(found[:-1])} and {found[-1]}" if found else ""
