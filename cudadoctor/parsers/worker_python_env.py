"""What the worker python_env.py wrote: the examined interpreter, its packages, and the toolkit files that its Numba would load."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

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
    Value,
)
from cudadoctor.parsers import framework_builds
from cudadoctor.parsers.base import Output, Text, parser
from cudadoctor.parsers.json_lines import Record, build, nothing_read, records, said

TOOLKIT_SOURCE = "toolkit search"
COMPONENTS = 5  # nvvm, libdevice, nvrtc, nvjitlink, cudart: one line each where Numba is installed
_PYTHON_STEPS = {"packages", "shadows", "config", "redirect"}
_TOOLKIT_STEPS = {"components", "toolkits"}
_FRAMEWORK_STEPS = {"packages", "framework"}
_NO_REDIRECT = "numba-cuda's start-up hook (_numba_cuda_redirector) did not run"


class _Redirect(Value, frozen=True, kw_only=True):
    value: bool


class _Other(Value, frozen=True, kw_only=True):
    path: str


class _Failed(Value, frozen=True, kw_only=True):
    step: str
    error: str = "no reason given"


class _Kind(NamedTuple):
    """What the lines of one event are: values of this type, each quoted by `quote` (value, line, interpreter) if at all.

    `once`: the field of which each value counts once.
    """

    made: type[Value]
    quote: Callable[[Any, int, str], Quote | None] | None = None
    once: str | None = None


_KINDS = {
    "python": _Kind(PythonEnvironment, lambda one, line, python: said(python, line, f"Python {one.version}"), "path"),
    "package": _Kind(PythonPackage, lambda one, line, python: said(python, line, _package_words(one)), "name"),
    "shadow": _Kind(Shadow, lambda one, line, _: said(one.path, line, one.words)),
    "config": _Kind(ConfigLine, lambda one, *_: said(one.path, one.line, one.text)),
    "hook": _Kind(ConfigLine, lambda one, *_: said(one.path, one.line, one.text)),
    "startup": _Kind(ConfigLine),
    "refused": _Kind(Refused),
    "redirect": _Kind(_Redirect, lambda one, line, python: None if one.value else said(python, line, _NO_REDIRECT)),
    "other": _Kind(_Other, lambda one, line, _: said(one.path, line, f"{one.path}: its packages hold numba")),
    "component": _Kind(Component, lambda one, line, _: said(TOOLKIT_SOURCE, line, _component_words(one)), "name"),
    "toolkit": _Kind(Toolkit, lambda one, line, _: said(TOOLKIT_SOURCE, line, _toolkit_words(one))),
    "error": _Kind(_Failed, lambda one, line, python: said(python, line, f"{one.step} could not be read: {one.error}"), "step"),
}


class _Found:
    """All values, by event and name, or line where each counts."""

    def __init__(self, entries: Iterable[Record]) -> None:
        self.values: dict[tuple[str, Any], tuple[Any, int]] = {}
        for entry in entries:
            kind = _KINDS.get(entry.event)
            fixed = {"line": entry.line} if kind is not None and kind.quote is None else {}
            made = build(kind.made, entry.fields, **fixed) if kind is not None else None
            if kind is not None and made is not None:
                self.values.setdefault((entry.event, getattr(made, kind.once) if kind.once else entry.line), (made, entry.line))

    def of(self, event: str) -> tuple[Any, ...]:
        return tuple(made for (name, _), (made, _) in self.values.items() if name == event)

    def errors(self) -> dict[str, str]:
        return {failed.step: failed.error for failed in self.of("error")}

    def quotes(self, python: str, *, toolkit: bool) -> list[Quote]:
        """The lines about the interpreter, or those about its toolkit."""
        found = []
        for (event, name), (made, line) in self.values.items():
            quote = _KINDS[event].quote
            words = quote(made, line, python) if quote is not None else None
            if words is not None and (event in ("component", "toolkit") or (event == "error" and name in _TOOLKIT_STEPS)) == toolkit:
                found.append(words)
        return found


def parse(text: Text) -> Output:
    """Facts about the interpreter and about its toolkit."""
    entries = list(records(text))
    found = _Found(entries)
    if not found.of("python"):
        yield from nothing_read(text, "the examined Python", PYTHON, TOOLKITS, FRAMEWORK_BUILDS)
        return
    python = found.of("python")[0]
    environment = msgspec.structs.replace(
        python,
        packages=found.of("package"),
        shadows=found.of("shadow"),
        numba_config=found.of("config"),
        hooks=found.of("hook"),
        startup=found.of("startup"),
        numba_cuda_redirects=next((one.value for one in reversed(found.of("redirect"))), None),
        others_with_numba=tuple(one.path for one in found.of("other")),
        refused=found.of("refused"),
        named=text.item.what[0] if text.item is not None and text.item.kind == "worker" else None,
    )
    whole = text.whole and not _PYTHON_STEPS & found.errors().keys()
    yield text.fact(PYTHON, environment, *found.quotes(python.path, toolkit=False), whole=whole)
    yield _toolkit(text, found, python.path)
    whole = text.whole and not _FRAMEWORK_STEPS & found.errors().keys()
    stated = [entry for entry in entries if entry.event == "framework"]
    builds = framework_builds.builds_of({package.name: package for package in found.of("package")}, stated, whole=whole)
    quotes = [said(python.path, entry.line, build_words(entry) + library_words(entry)) for entry in builds]
    yield text.fact(
        FRAMEWORK_BUILDS, FrameworkBuilds(builds=builds), *(quotes or [text.absent("no GPU framework is installed")]), whole=whole
    )


def _toolkit(text: Text, found: _Found, python: str) -> Fact[Any] | Unknown:
    """Unknown where the search broke off: a component that was not looked for is not a missing one."""
    failed = next((f"{step} could not be read: {error}" for step, error in found.errors().items() if step in _TOOLKIT_STEPS), None)
    numba = any(package.name == "numba" for package in found.of("package"))
    if failed is None and not text.whole and numba and len(found.of("component")) < COMPONENTS:
        failed = "the search for the toolkit was cut short"
    if failed is not None:
        return Unknown(key=TOOLKITS.name, why=failed)
    quotes = found.quotes(python, toolkit=True) or [text.absent("no toolkit folder was found")]
    return text.fact(TOOLKITS, Toolkits(toolkits=found.of("toolkit"), components=found.of("component")), *quotes)


def _package_words(package: PythonPackage) -> str:
    build = f" (build {package.build})" if package.build else ""
    return f"{package.name} {package.version}{build}" + (f", links to {package.lost}, which is gone" if package.lost else "")


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


PARSER = parser("worker_python_env", parse, PYTHON, TOOLKITS, FRAMEWORK_BUILDS, reads=("python-env",))
