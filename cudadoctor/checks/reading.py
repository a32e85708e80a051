"""How rules of the kernel side read facts: three-valued questions, the GPUs on the bus, and the lines to quote.

A rule asks with `facts[KEY]`, which raises where nobody knows. Two kinds of ignorance are answers in themselves and are handled here,
by name: a pasted text that does not speak of something (nobody can ask that machine), and a probe that hung.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

from cudadoctor.inventory.devices import plain_address as plain_address  # callers find them here
from cudadoctor.inventory.devices import same_address as same_address
from cudadoctor.model.facts import Fact, Facts, Key, NotKnown, Quote
from cudadoctor.model.facts import Quotes as Quotes
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
    RungName,
    RungResult,
)

T = TypeVar("T")
B = TypeVar("B")
WINDOWS = "Windows"


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


def driver_answers(facts: Facts) -> bool:
    """Whether NVML and cuInit answered: then nvidia-smi is slow, as it is on many GPUs without persistence mode, and the driver is well."""
    nvml, ladder = answer(facts, NVML, "nvml"), answer(facts, LADDER, "ladder")
    return nvml is not None and nvml.code == 0 and ladder is not None and passed(ladder, "init")


def answers(questions: Iterable[Callable[[], T]]) -> Iterator[T]:
    """Each yes (lines or clues, as a rule). Undecided where none of the questions is answered so and one is unknown."""
    ignorance: NotKnown | None = None
    said = False
    for question in questions:
        try:
            found = question()
        except NotKnown as unknown:
            ignorance = ignorance or unknown
            continue
        said = said or bool(found)
        if found:
            yield found
    if ignorance is not None and not said:
        raise ignorance


def first_true(*questions: Callable[[], T]) -> T | tuple[()]:
    """The first yes, () where all are answered no."""
    return next(answers(questions), ())


def statements(facts: Facts, key: Key[T]) -> tuple[Fact[T], ...]:
    """All present statements of a fact that stand beside the best one: a text is not mixed with what was read from the machine."""
    best = facts[key]
    beside = (fact for fact in facts.all(key) if (fact.origin == "text") == (best.origin == "text"))
    return tuple(fact for fact in beside if fact.value is not None)


def need_whole_list(facts: Facts, key: Key[T], why: str = "the listing is not whole") -> None:
    """Absence needs a whole listing. No listing at all here: the thing that would list is known to be absent."""
    listings = statements(facts, key)
    if listings and not any(fact.whole for fact in listings):
        raise key.unknown(why)


# ---------------------------------------------------------------- lines to quote
def line_if(facts: Facts, key: Key[T], so: Callable[[T], object]) -> Quotes:
    """A line of a fact whose value is so; () where it is absent or not so."""
    fact = facts[key]
    return fact.some()[:1] if fact.value is not None and so(fact.value) else ()


def event_line(log: Fact[KernelLog], event: KernelEvent) -> Quote:
    """A line of the kernel log. The fact quotes only a few of them; each event keeps its own."""
    return Quote(source=log.source("kernel log"), first=event.line, last=event.line, text=event.text)


def block_of(fact: Fact[Any], line: int) -> Quotes:
    """The quote in which a line stands, with all lines that the fact quotes together; the first quotes where it cannot be found."""
    around = (quote for quote in fact.quotes if quote.first is not None and quote.first <= line <= (quote.last or 0))
    return tuple(around)[:1] or fact.some()


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


def subject_of(address: str | None) -> str:
    """The finding's subject: the GPU at this address, the machine where the source gives none."""
    return f"gpu:{plain_address(address)}" if address else "machine"


def gpus(facts: Facts) -> tuple[Gpu, ...]:
    """The NVIDIA GPUs that any listing of the bus shows. Unknown where this system shows no PCI bus."""
    if facts[PCI].value is None:
        raise PCI.unknown("this system shows no PCI bus")
    seen: dict[str, list[tuple[Fact[object], PciFunction]]] = {}
    for fact in statements(facts, PCI):
        for function in fact.need().nvidia_gpus:
            seen.setdefault(plain_address(function.address), []).append((fact, function))  # type: ignore[arg-type]
    return tuple(_gpu(address, entries) for address, entries in sorted(seen.items()))


def _gpu(address: str, entries: list[tuple[Fact[object], PciFunction]]) -> Gpu:
    functions = [function for _, function in entries]
    driver = next((function.driver for function in functions if function.driver is not None), None)
    revisions = [function.revision for function in functions if function.revision is not None]
    # Said in words by the listing that would show a driver.
    sources = [fact.quotes[0].source for fact, function in entries if driver is None and function.driver_known and fact.quotes]
    unheld = tuple(Quote(source=source, text=f"{address}: no kernel driver") for source in sources[:1])
    return Gpu(
        address=address,
        device=next((function.device for function in functions if function.device is not None), None),
        name=next((function.name for function in functions if function.name is not None), None),
        driver=driver,
        driver_known=driver is not None or any(function.driver_known for function in functions),
        revision="ff" if "ff" in revisions else next(iter(revisions), None),
        quotes=merged(*(_block(fact, function, driver) for fact, function in entries), unheld),
    )


def _block(fact: Fact[object], function: PciFunction, driver: str | None) -> Quotes:
    """The lines that describe one function: the one that names it, and the one that names its driver."""
    lines = fact.single_lines()
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
    return tuple(dict.fromkeys((*(called[:1] or own or about[:1]), *naming[:1]))) or fact.some()


def unbound(facts: Facts) -> tuple[Gpu, ...]:
    """The NVIDIA GPUs, where no kernel driver holds any of them; () where one is held. Unknown where no listing says.

    A text that shows a GPU and names no driver of it is taken as it stands: a filter may have cut the line, so less follows from it.
    """
    found = gpus(facts)
    if any(gpu.driver is not None for gpu in found):
        return ()
    if facts[PCI].origin != "text" and any(not gpu.driver_known for gpu in found):
        raise PCI.unknown("no listing says which kernel driver holds the GPU")
    return found


# ---------------------------------------------------------------- the kernel module
def module_named(facts: Facts, name: str) -> Quotes:
    """The line of a loaded kernel module, () where it is known not to be loaded."""
    for fact in statements(facts, MODULES):
        module = fact.need().find(name)
        if module is not None:
            return fact.line_of(module.line)
    need_whole_list(facts, MODULES, "the list of kernel modules is not whole")
    return ()


def not_loaded_line(facts: Facts, module: str) -> Quotes:
    """That a kernel module is not loaded, said in words by the list that would show it."""
    return (Quote(source=facts[MODULES].source("/proc/modules"), text=f"{module}: not among the loaded kernel modules"),)


def driver_runs(facts: Facts) -> Quotes:
    """The lines that show NVIDIA's kernel module in memory, () where it is known not to be there."""
    return first_true(
        lambda: facts[LOADED_DRIVER].some() if facts[LOADED_DRIVER].present else (),
        lambda: module_named(facts, "nvidia"),
        lambda: next((gpu.quotes for gpu in gpus(facts) if gpu.driver == "nvidia"), ()),
        # A table with GPUs is drawn by a running driver only. Without one this says nothing.
        lambda: facts[SMI].some()[:1] if (smi := facts.value(SMI)) is not None and smi.gpus else (),
    )


def driver_is_out(facts: Facts, base: Fact[T]) -> bool:
    """Whether NVIDIA's kernel module is known not to be in memory. A text that speaks of no module says nothing against it."""
    if told(facts, LOADED_DRIVER, base) is not None:
        return False
    return told(facts, MODULES, base) is None or not module_named(facts, "nvidia")


# ---------------------------------------------------------------- what works now
def climbed(facts: Facts) -> Ladder:
    """The climb; where there was none, or nobody knows of one, an empty one, which shows nothing."""
    return facts.value(LADDER) or Ladder()


def passed(ladder: Ladder | None, rung: RungName) -> bool:
    """Whether this rung was climbed, and every try of it was good."""
    return ladder is not None and {entry.status for entry in ladder.result(rung)} - {"skip"} == {"pass"}


def broken(ladder: Ladder | None, *rungs: RungName) -> tuple[RungResult, ...]:
    """The tries of these rungs that did not end well."""
    results = (entry for rung in rungs for entry in (ladder.result(rung) if ladder is not None else ()))
    return tuple(entry for entry in results if entry.status not in ("pass", "skip"))


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
        faulty = {entry.gpu for entry in ladder.rungs if entry.status not in ("pass", "skip")}
        for device in ladder.devices:
            (bad if device.index in faulty else good).append(device.address)
    if address is None:
        return bool(good) and not bad and not broken(ladder, "init", "devices")
    return any(same_address(address, one) for one in good) and not any(same_address(address, one) for one in bad)


def listed(names: Iterable[str]) -> str:
    """a, b and c."""
    found = list(names)
    return found[0] if len(found) == 1 else f"{', '.join(found[:-1])} and {found[-1]}" if found else ""
