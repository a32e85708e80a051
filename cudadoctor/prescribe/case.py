"""The case that a prescription is written for: the finding, what the rules handed on, and what the machine's facts say."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from cudadoctor.knowledge.load import Knowledge
from cudadoctor.knowledge.numba_rows import NumbaRelease
from cudadoctor.model.facts import Fact, Facts, Key, Unknown
from cudadoctor.model.findings import Finding
from cudadoctor.model.recipe import Cause
from cudadoctor.model.values import (
    CUDA_MENTIONS,
    DRIVER_PACKAGES,
    ENVIRONMENT,
    FRAMEWORKS,
    LADDER,
    LOADED_DRIVER,
    NVML,
    PROCESSES,
    PYTHON,
    SETTING,
    SMI,
    USER,
    Package,
    Process,
    PythonEnvironment,
    SetIn,
    Setting,
)
from cudadoctor.model.version import CudaVersion, ModuleVersion, ToolkitVersion
from cudadoctor.prescribe.distribution import Distribution
from cudadoctor.prescribe.gpus import Driver, Gpus, Need

T = TypeVar("T")
_TEXT = "text"  # origin and source of what a user's text says


class Stack(msgspec.Struct, frozen=True, kw_only=True):
    """One fitting set. `wheels`: what pip is asked for where wheels bring the toolkit; else `toolkit` is to be installed apart."""

    wheels: str | None = None
    toolkit: ToolkitVersion | None = None
    numba: str = "numba"
    release: NumbaRelease | None = None


class Case(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Everything that conditions and placeholders read. `pid` is the process that a step speaks of, `place` the line.

    Its `__dict__` keeps what is worked out from it once; a copy (`msgspec.structs.replace`) begins without.

    `host`: the steps are for the host of the container that was examined.
    """

    root: Finding
    values: Mapping[str, str]
    facts: Facts
    knowledge: Knowledge
    system: Distribution
    gpus: Gpus
    need: Need
    driver: Driver
    headless: bool = False
    host: bool = False
    pid: int | None = None
    place: SetIn | None = None  # the line of a file that a step speaks of
    planned: CudaVersion | None = None  # of the driver that the fix installs
    stack: Stack | None = None  # toolkit, Numba and Python that fit it

    def get(self, key: Key[T]) -> T | None:
        """A fact's value; None where it is absent or nobody knows."""
        found = self._fact(key)
        return None if isinstance(found, Unknown) else found.value

    def each(self, key: Key[T]) -> tuple[T, ...]:
        """The value of each fact that says so, where several do."""
        first, rest = self._fact(key), self.facts.all(key)
        return () if isinstance(first, Unknown) else tuple(fact.value for fact in (rest or (first,)) if fact.value is not None)

    def told(self, key: Key[T]) -> bool:
        return not isinstance(self._fact(key), Unknown)

    def absent(self, key: Key[T]) -> bool:
        found = self._fact(key)
        return not isinstance(found, Unknown) and found.value is None

    def _fact(self, key: Key[T]) -> Fact[T] | Unknown:
        """Where the machine itself shows the fault, no words of a text beside it enter its steps."""
        found = self.facts.get(key)
        if isinstance(found, Unknown) or found.origin != _TEXT or not self.root.evidence or self.told_by_text:
            return found
        return Unknown(key=key.name, why="told by a text alone")

    @property
    def told_by_text(self) -> bool:
        """Whether the finding rests on what somebody pasted, and nothing that the machine shows."""
        return bool(self.root.evidence) and all(quote.source == _TEXT for quote in self.root.evidence)

    @property
    def found_here(self) -> bool:
        """Whether the fault was found on this machine, in this run: what a text or a recording names is a stranger's."""
        fact = self.facts.there(ENVIRONMENT)
        return fact is not None and fact.origin == "live" and not self.told_by_text

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines that the finding quotes; where the machine itself shows the fault, of the machine alone."""
        return tuple(quote.text for quote in self.root.evidence if quote.source != _TEXT or self.told_by_text)

    @property
    def words(self) -> str:
        return "\n".join(self.lines)

    def quotes(self, form: re.Pattern[str]) -> bool:
        return any(map(form.search, self.lines))

    def says(self, form: re.Pattern[str], *beside: str) -> bool:
        """A quoted line says this, or what was taken from it: a long line is quoted in part only. `beside`: what else counts."""
        return any(form.search(words) for words in (*self.lines, *self.values.values(), *beside))

    @property
    def forms(self) -> Mapping[str, Mapping[str, re.Pattern[str]]]:
        return self.knowledge.conditions

    @property
    def setting(self) -> Setting:
        return self.get(SETTING) or Setting()

    @property
    def cause(self) -> Cause:
        return self.knowledge.cause(self.root.cause)

    @property
    def module(self) -> ModuleVersion | None:
        """The version of the kernel module that is loaded."""
        loaded, smi = self.get(LOADED_DRIVER), self.get(SMI)
        return loaded.version if loaded is not None else smi.module if smi is not None else None

    @property
    def packages(self) -> tuple[Package, ...]:
        """The packages of the driver and of CUDA that are installed."""
        return self.get(DRIVER_PACKAGES) or ()

    def value(self, *names: str) -> str | None:
        """The first of these values that a rule handed on and that says something."""
        return next((self.values[name] for name in names if self.values.get(name)), None)

    def variable(self, name: str) -> str | None:
        """An environment variable; None where it is not set or nobody knows."""
        environment = self.get(ENVIRONMENT)
        return None if environment is None else environment.variables.get(name)

    @property
    def python(self) -> PythonEnvironment | None:
        return self.get(PYTHON)

    @property
    def process(self) -> Process | None:
        table = self.get(PROCESSES)
        return None if table is None or self.pid is None else table.find(self.pid)

    @property
    def is_root(self) -> bool:
        """Root of a container is not root of its host; but only root reads the containers of Proxmox (/etc/pve/lxc), which has no sudo."""
        user = self.get(USER)
        return bool(self.value("lxc")) or (user is not None and user.uid == 0 and not self.host)

    @property
    def windows(self) -> bool:
        """Commands are PowerShell's."""
        return self.system.family == "windows"

    @property
    def cuda(self) -> CudaVersion | None:
        """The newest CUDA that the driver supports: the one to be installed, else the one that is there."""
        if self.planned is not None:
            return self.planned
        ladder, nvml, smi = self.get(LADDER), self.get(NVML), self.get(SMI)
        asked = next((found.cuda for found in (ladder, nvml, smi) if found is not None and found.cuda is not None), None)
        number, told = self.value("driver_cuda_number"), self.value("driver_cuda")  # the number as cuDriverGetVersion writes it: 11040
        # Where it is not said: the newest PTX that the driver's own compiler takes.
        ptx = next((row.cuda for row in reversed(self.knowledge.toolkits) if row.ptx_isa == self.value("driver_ptx")), None)
        stated = f"{int(number) // 1000}.{int(number) % 1000 // 10}" if number is not None else told or ptx
        if asked is None and stated is not None and re.fullmatch(r"\d{1,2}\.\d{1,2}", stated):
            return CudaVersion(stated)
        row = self.knowledge.branch(int(self.module.text.split(".")[0])) if asked is None and self.module is not None else None
        return row.cuda if row is not None else asked

    @property
    def wanted_cuda(self) -> ToolkitVersion | None:
        """The toolkit or framework build that the driver is too old for: the message's, or the first that writes the PTX that it names,
        the framework's, the newest that a text names.
        """
        isa = self.value("wanted_ptx")
        ptx = next((row.cuda for row in self.knowledge.toolkits if row.ptx_isa == isa), None) if isa is not None else None
        stated = self.value("version", "torch_cuda") or ptx
        if stated is not None and re.match(r"\d{1,3}\.\d{1,3}", stated):
            return ToolkitVersion(stated)
        state, named, driver = self.get(FRAMEWORKS), self.get(CUDA_MENTIONS), self.cuda
        if state is not None and state.cuda is not None:
            return ToolkitVersion(state.cuda.text)
        newer = (one.version for one in named or () if driver is not None and one.version.newer_than_driver(driver))
        return max(newer, default=None)


Condition = Callable[[Case], bool]
