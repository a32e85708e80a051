"""What the worker python_env.py wrote: the examined interpreter, its packages, and the toolkit files that its Numba would load."""

from __future__ import annotations

from typing import Any

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


class _Reading:
    def __init__(self, text: Text) -> None:
        self.text = text
        self.head: Record | None = None
        self.packages: dict[str, PythonPackage] = {}
        self.shadows: list[Shadow] = []
        self.config: list[ConfigLine] = []
        self.hooks: list[ConfigLine] = []
        self.others: list[str] = []
        self.refused: list[Refused] = []
        self.redirects: bool | None = None
        self.toolkits: list[Toolkit] = []
        self.components: dict[str, Component] = {}
        self.frameworks: list[Record] = []
        self.errors: dict[str, str] = {}
        self.quotes: list[Quote] = []
        self.toolkit_quotes: list[Quote] = []

    @property
    def interpreter(self) -> str:
        return str(self.head.fields.get("path")) if self.head is not None else "Python"

    # -- one method for each event; an event without one is ignored
    def on_python(self, record: Record) -> None:
        if self.head is None and build(PythonEnvironment, record.fields) is not None:
            self.head = record
            self.quotes.append(said(self.interpreter, record.line, f"Python {record.fields.get('version')}"))

    def on_package(self, record: Record) -> None:
        package = build(PythonPackage, record.fields)
        if package is not None and package.name not in self.packages:
            self.packages[package.name] = package
            build_words = f" (build {package.build})" if package.build else ""
            self.quotes.append(said(self.interpreter, record.line, f"{package.name} {package.version}{build_words}"))

    def on_shadow(self, record: Record) -> None:
        shadow = build(Shadow, record.fields)
        if shadow is not None:
            self.shadows.append(shadow)
            self.quotes.append(said(shadow.path, record.line, f"{shadow.path}: hides the package {shadow.module}"))

    def on_config(self, record: Record) -> None:
        config = build(ConfigLine, record.fields)
        if config is not None:
            self.config.append(config)
            self.quotes.append(said(config.path, config.line, config.text))

    def on_hook(self, record: Record) -> None:
        hook = build(ConfigLine, record.fields)
        if hook is not None:
            self.hooks.append(hook)
            self.quotes.append(said(hook.path, hook.line, hook.text))

    def on_redirect(self, record: Record) -> None:
        value = record.fields.get("value")
        self.redirects = value if isinstance(value, bool) else None
        if value is False:
            self.quotes.append(said(self.interpreter, record.line, "numba-cuda's start-up hook (_numba_cuda_redirector) did not run"))

    def on_other(self, record: Record) -> None:
        path = record.fields.get("path")
        if isinstance(path, str):
            self.others.append(path)
            self.quotes.append(said(path, record.line, f"{path}: its packages hold numba"))

    def on_refused(self, record: Record) -> None:
        place = build(Refused, record.fields, line=record.line)
        if place is not None:
            self.refused.append(place)

    def on_component(self, record: Record) -> None:
        component = build(Component, record.fields)
        if component is not None and component.name not in self.components:
            self.components[component.name] = component
            self.toolkit_quotes.append(said(TOOLKIT_SOURCE, record.line, _component_words(component)))

    def on_framework(self, record: Record) -> None:
        self.frameworks.append(record)

    def on_toolkit(self, record: Record) -> None:
        toolkit = build(Toolkit, record.fields)
        if toolkit is not None:
            self.toolkits.append(toolkit)
            self.toolkit_quotes.append(said(TOOLKIT_SOURCE, record.line, _toolkit_words(toolkit)))

    def on_error(self, record: Record) -> None:
        step, words = str(record.fields.get("step")), str(record.fields.get("error"))
        self.errors.setdefault(step, words)
        quotes = self.toolkit_quotes if step in _TOOLKIT_STEPS else self.quotes
        quotes.append(said(self.interpreter, record.line, f"{step} could not be read: {words}"))

    # -- the facts
    def python(self) -> Fact[Any]:
        assert self.head is not None
        value = build(
            PythonEnvironment,
            self.head.fields,
            packages=tuple(self.packages.values()),
            shadows=tuple(self.shadows),
            numba_config=tuple(self.config),
            hooks=tuple(self.hooks),
            numba_cuda_redirects=self.redirects,
            others_with_numba=tuple(self.others),
            refused=tuple(self.refused),
            named=self.text.item.what[0] if self.text.item is not None and self.text.item.kind == "worker" else None,
        )
        whole = self.text.whole and not any(step in self.errors for step in _PYTHON_STEPS)
        return self.text.fact(PYTHON, value, *self.quotes, whole=whole)

    def builds(self) -> Fact[Any]:
        whole = self.text.whole and not any(step in self.errors for step in _FRAMEWORK_STEPS)
        entries = framework_builds.builds_of(self.packages, self.frameworks, whole=whole)
        quotes = [said(self.interpreter, entry.line, build_words(entry) + library_words(entry)) for entry in entries]
        nothing = () if quotes else (self.text.absent("no GPU framework is installed"),)
        return self.text.fact(FRAMEWORK_BUILDS, FrameworkBuilds(builds=entries), *quotes, *nothing, whole=whole)

    def toolkit(self) -> Fact[Any] | Unknown:
        """Unknown where the search broke off: a component that was not looked for is not a missing one."""
        for step in _TOOLKIT_STEPS:
            if step in self.errors:
                return Unknown(key=TOOLKITS.name, why=f"{step} could not be read: {self.errors[step]}")
        if not self.text.whole and "numba" in self.packages and len(self.components) < COMPONENTS:
            return Unknown(key=TOOLKITS.name, why="the search for the toolkit was cut short")
        value = Toolkits(toolkits=tuple(self.toolkits), components=tuple(self.components.values()))
        nothing = () if self.toolkit_quotes else (self.text.absent("no toolkit folder was found"),)
        return self.text.fact(TOOLKITS, value, *self.toolkit_quotes, *nothing)


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
        handler = getattr(reading, f"on_{record.event}", None)
        if handler is not None:
            handler(record)
    if reading.head is None:
        yield from nothing_read(text, "the examined Python", PYTHON, TOOLKITS, FRAMEWORK_BUILDS)
        return
    yield reading.python()
    yield reading.toolkit()
    yield reading.builds()


PARSER = Parser(name="worker_python_env", reads=("python-env",), keys=(PYTHON.name, TOOLKITS.name, FRAMEWORK_BUILDS.name), parse=parse)
