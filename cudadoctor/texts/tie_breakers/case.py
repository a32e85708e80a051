"""What a rule about a text asks it, and `joined`, which writes a rule that only puts lines side by side."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from cudadoctor.checks.common import variable_quote, variables_of
from cudadoctor.checks.reading import Gpu, Quotes, gpus, merged, module_named
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Fact, Facts, Key, NotKnown, Quote
from cudadoctor.model.findings import Basis, Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import (
    CONTAINER_MARKS,
    DRIVER_FILES,
    ENVIRONMENT,
    FRAMEWORKS,
    KERNEL,
    LIBRARIES,
    LISTED_PACKAGES,
    SETTING,
    SMI,
    SMI_CSV,
    WSL,
    Framework,
    LibraryFile,
    ListedPackage,
    Setting,
    Smi,
    SmiCsv,
    SmiGpu,
)

T = TypeVar("T")
_PLACES = {"in container": "container", "in WSL": "in_wsl", "in WSL 1": "wsl_1"}
_WSL_1 = lazy(r"4\.4\.0-\d{5}-Microsoft")
_OF_WSL = lazy(r"icrosoft")


What = re.Pattern[str] | Callable[[Clue, Quote], object]  # the words of a clue's line, or a question about both


def codes(*codes: str, words: str | None = None) -> What:
    """Clues that one of these codes raised, or a message with these words. The recogniser knew the code: nobody reads it out of a line."""
    form = lazy(words) if words is not None else None
    return lambda clue, quote: clue.code in codes or (form is not None and form.search(quote.text))


def _fits(what: What | None, clue: Clue, quote: Quote) -> bool:
    return what is None or bool(what(clue, quote) if callable(what) else what.search(quote.text))


def sure(clue: Clue) -> bool:
    """Whether the text says of its failure that this is the cause. A warning or a line of a listing blames nothing."""
    return clue.basis != "suspected" and not clue.advice


class Listed(NamedTuple):
    """A GPU in an answer of nvidia-smi."""

    table: Fact[Smi]
    gpu: SmiGpu


Look = Callable[["Case"], Quotes]


class Case:
    """One text: the clues of its messages, its facts, and where its programs run, by marks that a program printed or by its own words."""

    def __init__(self, said: Sequence[Clue], facts: Facts, knowledge: Knowledge) -> None:
        self.said, self.facts, self.knowledge = said, facts, knowledge
        self._told = facts.there(SETTING)
        self.setting = self._told.need() if self._told is not None else Setting()

    # ------------------------------------------------------------ what messages raise and state
    def suspicions(self, *causes: str, words: What | None = None) -> Quotes:
        """The lines of all suspicions of the first of these causes that has any which rest on this."""
        for cause in causes:
            clues = (clue for clue in self.said if clue.cause == cause and clue.basis == "suspected")
            found = tuple(quote for clue in clues for quote in clue.quotes if _fits(words, clue, quote))
            if found:
                return found
        return ()

    def suspected(self, *causes: str, words: What | None = None) -> Quotes:
        """The first of these lines."""
        return self.suspicions(*causes, words=words)[:1]

    def stated(self, *causes: str, words: What | None = None) -> Quotes:
        """The line that states one of these causes and rests on this."""
        clues = (clue for clue in self.said if clue.cause in causes and sure(clue))
        return tuple(quote for clue in clues for quote in clue.quotes if _fits(words, clue, quote))[:1]

    @cached_property
    def settled(self) -> bool:
        """Whether the text states any cause."""
        return any(map(sure, self.said))

    def value_of(self, cause: str, name: str) -> str | None:
        """What the message about a cause names, where it does."""
        return next((clue.values[name] for clue in self.said if clue.cause == cause and name in clue.values), None)

    # ------------------------------------------------------------ circumstances
    def says(self, kind: str) -> Quotes:
        """The line with the first word of this kind."""
        return self.shown(self.setting.words.get(kind))

    def shows(self, *whats: str | Look) -> Quotes:
        """The line of the first of these that is there: a word of this kind, a place, what a look finds."""
        return next(filter(None, map(self._shows, whats)), ())

    def _shows(self, what: str | Look) -> Quotes:
        if callable(what):
            return what(self)
        return getattr(self, _PLACES[what]) if what in _PLACES else self.says(what)

    def shown(self, line: int | None) -> Quotes:
        return self._told.line_of(line) if self._told is not None and line is not None else ()

    @property
    def container(self) -> Quotes:
        return self.marks or self.says("container")

    @cached_property
    def marks(self) -> Quotes:
        return self.first(CONTAINER_MARKS)

    @cached_property
    def wsl(self) -> Quotes:
        return self.first(WSL)

    @property
    def in_wsl(self) -> Quotes:
        """A guest of Hyper-V for which the module was built has Windows' folder too, and is called WSL by many: there the kernel counts."""
        if self.says("dxgkrnl-built"):
            return self._kernel(_OF_WSL) or tuple(quote for quote in self.wsl if _OF_WSL.search(quote.text))
        return self.wsl or self.says("wsl")

    @property
    def wsl_1(self) -> Quotes:
        """The kernel of WSL 1, which has no GPU at all."""
        return self._kernel(_WSL_1) or self.says("wsl-1")

    def _kernel(self, form: re.Pattern[str]) -> Quotes:
        kernel = self.facts.value(KERNEL)
        return self.first(KERNEL) if kernel is not None and form.search(kernel.release) else ()

    # ------------------------------------------------------------ facts
    def first(self, key: Key[Any]) -> Quotes:
        """The first line of a fact that is there, and says yes."""
        found = self.facts.there(key)
        return found.some()[:1] if found is not None and found.value else ()

    def ask(self, question: Callable[..., T], *more: object) -> T | None:
        """What a question of the checks finds, None where the text does not say enough."""
        try:
            return question(self.facts, *more)
        except NotKnown:
            return None

    @cached_property
    def gpus(self) -> tuple[Gpu, ...]:
        """NVIDIA's devices in a listing of the bus."""
        return self.ask(gpus) or ()

    def module(self, name: str) -> Quotes:
        """The line of a loaded kernel module."""
        return self.ask(module_named, name) or ()

    def sees_gpu(self, *, available: bool) -> Quotes:
        """The line in which a framework says that it sees a GPU, or none."""
        return self.line(FRAMEWORKS, self.framework.available_line) if self.framework.available is available else ()

    @cached_property
    def packages(self) -> tuple[ListedPackage, ...]:
        listed = self.facts.value(LISTED_PACKAGES)
        return tuple(listed.packages) if listed is not None else ()

    def package(self, *names: str) -> tuple[ListedPackage, Quotes] | None:
        """The first of these packages that the text lists, with its line."""
        fact = self.facts.there(LISTED_PACKAGES)
        package = fact.need().named(*names) if fact is not None else None
        return None if fact is None or package is None else (package, fact.line_of(package.line))

    @cached_property
    def framework(self) -> Framework:
        """What a framework says of itself; nothing where none does."""
        return self.facts.value(FRAMEWORKS) or Framework()

    def line(self, key: Key[Any], number: int) -> Quotes:
        """One line of a fact that is there."""
        found = self.facts.there(key)
        return found.line_of(number) if found is not None else ()

    def variable(self, name: str) -> tuple[str, Quotes]:
        """A variable's value in the text, and its line; an empty value where it has none."""
        found = self.facts.there(ENVIRONMENT)
        value = variables_of(found).get(name, "")
        return value, (variable_quote(found, name),) if found is not None and value else ()

    def libcuda_files(self) -> Iterator[tuple[LibraryFile, Quotes]]:
        """Each libcuda that the text shows, with its line."""
        for found in filter(None, map(self.facts.there, (DRIVER_FILES, LIBRARIES))):
            yield from ((file, found.line_of(file.line)) for file in found.need().find("libcuda.so"))

    def gpus_of_tables(self) -> Iterator[Listed]:
        """Each GPU that an nvidia-smi of the text lists."""
        return (Listed(fact, gpu) for fact in self.facts.all(SMI) if fact.value is not None for gpu in fact.value.gpus)

    def answered_below(self, quotes: Quotes) -> Quotes:
        """The first line of an nvidia-smi that lists a GPU below these lines."""
        below = (table for table, _ in self.gpus_of_tables() if (table.quotes[0].first or 0) > (quotes[0].first or 0))
        return next((table.some()[:1] for table in below), ())

    def lists(self) -> tuple[Fact[SmiCsv], ...]:
        """The answers to nvidia-smi --query-..."""
        return tuple(fact for fact in self.facts.all(SMI_CSV) if fact.value is not None)

    def no_smi(self) -> Quotes:
        """A shell, or an engine that was to start it, found no nvidia-smi."""
        return next((fact.some()[:1] for fact in self.facts.all(SMI) if fact.value is None), ()) or self.says("no-smi")

    def nobody_computes(self) -> Quotes:
        """The heading of a list of compute processes that has none, and is known to end there."""
        return next((fact.some()[:1] for fact in self.lists() if fact.need().column("pid") == () and fact.need().closed), ())


def finding(
    cause: str,
    *quotes: Quotes,
    basis: Basis = "derived",
    advice: bool = False,
    prose: bool = False,
    values: dict[str, str] | None = None,
    **named: str,
) -> Clue:
    """What a tie makes of these lines; the values that its recipe needs as a dictionary or by name. `prose`: somebody's own words."""
    more = {**(values or {}), **named}
    return Clue(cause=cause, quotes=merged(*quotes), basis=basis, text=True, advice=advice, words=prose, values=more)


# ---------------------------------------------------------------- lines side by side
Tie = Callable[[Case], Iterator[Clue]]


def suspects(*causes: str, words: What | None = None) -> Look:
    return lambda case: case.suspected(*causes, words=words)


def states(*causes: str, words: What | None = None) -> Look:
    return lambda case: case.stated(*causes, words=words)


def there(key: Key[Any]) -> Look:
    return lambda case: case.first(key)


def joined(
    causes: str | tuple[str, ...],
    *looks: Look,
    beside: tuple[str | Look | tuple[str | Look, ...], ...] = (),
    only_if: tuple[str | Look, ...] = (),
    unless: tuple[str | Look, ...] = (),
    unless_stated: tuple[str, ...] = (),
    unsettled: bool = False,
    basis: Basis = "derived",
    advice: bool = False,
    **values: str,
) -> Tie:
    """The first line that a look finds, and what each `beside` shows (of several in brackets, the first of them): these causes.

    Circumstances are looks, or kinds. `only_if`: those that are not quoted; `unsettled`: only where the text states no cause.
    """

    def tie(case: Case) -> Iterator[Clue]:
        lines = case.shows(*looks)
        if (looks and not lines) or case.stated(*unless_stated) or (unsettled and case.settled):
            return
        shown = [case.shows(*what) if isinstance(what, tuple) else case.shows(what) for what in beside]
        if all(shown) and all(map(case.shows, only_if)) and not case.shows(*unless):
            for cause in (causes,) if isinstance(causes, str) else causes:
                yield finding(cause, lines, *shown, basis=basis, advice=advice, values=values)

    return tie
