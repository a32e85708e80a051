"""What the worker python_env.py wrote: the examined interpreter, its packages, and the toolkit files that its Numba would load."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from cudadoctor.model.facts import Fact, Quote, Unknown
from cudadoctor.model.frameworks import build_words, library_words
from cudadoctor.model.values import (
    FRAMEWORK_BUILDS,
    PYTHON,
    TOOLKITS,
    Component,
    ConfigLine,
    FrameworkBuilds,
    PythonEnvironment,
    PythonPackage,
    Refused,
    Shadow,
    Toolkit,
    Toolkits,
)
from cudadoctor.parsers import framework_builds
from cudadoctor.parsers.base import Output, Parser, Text
from cudadoctor.parsers.json_lines import Record, build, nothing_read, records, said

TOOLKIT_SOURCE = "toolkit search"
COMPONENTS = 5  # nvvm, libdevice, nvrtc, nvjitlink, cudart: one line each where Numba is installed
_PYTHON_STEPS = ("packages", "shadows", "config", "redirect")
_TOOLKIT_STEPS = ("components", "toolkits")
_FRAMEWORK_STEPS = ("packages", "framework")


class _Kind(NamedTuple):
    """What the lines of one event are: values of this type, each quoted by `quote` (value, line, interpreter) if at all.

    `once`: the first of each name counts.
    """

    made: type[Any]
    quote: Callable[[Any, int, str], Quote] | None = None
    once: bool = False


_KINDS = {
    "package": _Kind(PythonPackage, lambda one, line, python: said(python, line, _package_words(one)), once=True),
    "shadow": _Kind(Shadow, lambda one, line, _: said(one.path, line, one.words)),
    "config": _Kind(ConfigLine, lambda one, *_: said(one.path, one.line, one.text)),
    "hook": _Kind(ConfigLine, lambda one, *_: said(one.path, one.line, one.text)),
    "startup": _Kind(ConfigLine),
    "refused": _Kind(Refused),
    "component": _Kind(Component, lambda one, line, _: said(TOOLKIT_SOURCE, line, _component_words(one)), once=True),
    "toolkit": _Kind(Toolkit, lambda one, line, _: said(TOOLKIT_SOURCE, line, _toolkit_words(one))),
}
_OF_TOOLKIT = (*_TOOLKIT_STEPS, "component", "toolkit")  # events and steps whose lines are quoted for the toolkit


class _Reading:
    def __init__(self, text: Text) -> None:
        self.text = text
        self.head: Record | None = None
        self.found: dict[str, dict[Any, Any]] = {kind: {} for kind in _KINDS}  # by name where each counts once, else numbered
        self.others: list[str] = []
        self.redirects: bool | None = None
        self.frameworks: list[Record] = []
        self.errors: dict[str, str] = {}
        self.quotes: list[Quote] = []
        self.toolkit_quotes: list[Quote] = []

    @property
    def interpreter(self) -> str:
        return str(self.head.fields.get("path")) if self.head is not None else "Python"

    def take(self, record: Record) -> None:
        """One line; an event that is not known is left out."""
        event, fields, line = record.event, record.fields, record.line
        if event in _KINDS:
            self._keep(event, record)
        elif event == "python" and self.head is None and build(PythonEnvironment, fields) is not None:
            self.head = record
            self._quote(event, said(self.interpreter, line, f"Python {fields.get('version')}"))
        elif event == "redirect":
            self.redirects = value if isinstance(value := fields.get("value"), bool) else None
            if value is False:
                words = "numba-cuda's start-up hook (_numba_cuda_redirector) did not run"
                self._quote(event, said(self.interpreter, line, words))
        elif event == "other" and isinstance(path := fields.get("path"), str):
            self.others.append(path)
            self._quote(event, said(path, line, f"{path}: its packages hold numba"))
        elif event == "framework":
            self.frameworks.append(record)
        elif event == "error":
            step, words = str(fields.get("step")), str(fields.get("error"))
            self.errors.setdefault(step, words)
            self._quote(step, said(self.interpreter, line, f"{step} could not be read: {words}"))

    def _keep(self, event: str, record: Record) -> None:
        kind, held = _KINDS[event], self.found[event]
        made = build(kind.made, record.fields, **({"line": record.line} if kind.quote is None else {}))
        name = made.name if made is not None and kind.once else len(held)
        if made is not None and name not in held:
            held[name] = made
            if kind.quote is not None:
                self._quote(event, kind.quote(made, record.line, self.interpreter))

    def _quote(self, of: str, quote: Quote) -> None:
        (self.toolkit_quotes if of in _OF_TOOLKIT else self.quotes).append(quote)

    # -- the facts
    def python(self) -> Fact[Any]:
        assert self.head is not None
        value = build(
            PythonEnvironment,
            self.head.fields,
            packages=tuple(self.found["package"].values()),
            shadows=tuple(self.found["shadow"].values()),
            numba_config=tuple(self.found["config"].values()),
            hooks=tuple(self.found["hook"].values()),
            startup=tuple(self.found["startup"].values()),
            numba_cuda_redirects=self.redirects,
            others_with_numba=tuple(self.others),
            refused=tuple(self.found["refused"].values()),
            named=self.text.item.what[0] if self.text.item is not None and self.text.item.kind == "worker" else None,
        )
        whole = self.text.whole and not any(step in self.errors for step in _PYTHON_STEPS)
        return self.text.fact(PYTHON, value, *self.quotes, whole=whole)

    def builds(self) -> Fact[Any]:
        whole = self.text.whole and not any(step in self.errors for step in _FRAMEWORK_STEPS)
        entries = framework_builds.builds_of(self.found["package"], self.frameworks, whole=whole)
        quotes = [said(self.interpreter, entry.line, build_words(entry) + library_words(entry)) for entry in entries]
        nothing = () if quotes else (self.text.absent("no GPU framework is installed"),)
        return self.text.fact(FRAMEWORK_BUILDS, FrameworkBuilds(builds=entries), *quotes, *nothing, whole=whole)

    def toolkit(self) -> Fact[Any] | Unknown:
        """Unknown where the search broke off: a component that was not looked for is not a missing one."""
        for step in _TOOLKIT_STEPS:
            if step in self.errors:
                return Unknown(key=TOOLKITS.name, why=f"{step} could not be read: {self.errors[step]}")
        if not self.text.whole and "numba" in self.found["package"] and len(self.found["component"]) < COMPONENTS:
            return Unknown(key=TOOLKITS.name, why="the search for the toolkit was cut short")
        value = Toolkits(toolkits=tuple(self.found["toolkit"].values()), components=tuple(self.found["component"].values()))
        nothing = () if self.toolkit_quotes else (self.text.absent("no toolkit folder was found"),)
        return self.text.fact(TOOLKITS, value, *self.toolkit_quotes, *nothing)


def _package_words(package: PythonPackage) -> str:
    return f"{package.name} {package.version}" + (f" (build {package.build})" if package.build else "")


def _component_words(component: Component) -> str:
    if component.path is None:
        end = f" ({component.rule} is set and holds none)" if component.rule else ""
        return f"{component.name}: not found{end}"
    version = f" {component.version}" if component.version is not None else ""
    damage = f", {component.damage}" if component.damage else ""
    return f"{component.name}{version}: {component.path} ({component.rule or 'unknown rule'}){damage}"


def _toolkit_words(toolkit: Toolkit) -> str:
    if toolkit.stale:
        return f"{toolkit.rule or 'toolkit'}: {toolkit.path} holds no nvcc, no NVVM and no libraries"
    parts = (("nvcc", toolkit.has_nvcc), ("NVVM", toolkit.has_nvvm), ("libdevice", toolkit.has_libdevice))
    holds = ", ".join(name for name, there in parts if there) or "libraries only"
    return f"{toolkit.rule or 'toolkit'}: {toolkit.path}, version {toolkit.version or 'unknown'}, holds {holds}"


def parse(text: Text) -> Output:
    """Facts about the interpreter and about its toolkit."""
    reading = _Reading(text)
    for record in records(text):
        reading.take(record)
    if reading.head is None:
        yield from nothing_read(text, "the examined Python", PYTHON, TOOLKITS, FRAMEWORK_BUILDS)
        return
    yield reading.python()
    yield reading.toolkit()
    yield reading.builds()


PARSER = Parser(name="worker_python_env", reads=("python-env",), keys=(PYTHON.name, TOOLKITS.name, FRAMEWORK_BUILDS.name), parse=parse)
