"""Checks of others: packages that name an `Extension` in the entry-point group `cudadoctor.checks`.

    [project.entry-points."cudadoctor.checks"]
    licence-server = "my_package.doctor:EXTENSION"

Whoever writes one needs no other module than this: it hands on all that a row is made of. An extension is loaded last and can replace
nothing. Its functions run with a limit of time and with nothing of theirs on stdout: one that raises, prints or does not return costs its
own row, which then says so, and nothing else.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec

from cudadoctor.checks.base import Check as Check
from cudadoctor.checks.base import Line as Line
from cudadoctor.checks.base import Rule as Rule
from cudadoctor.checks.rows import CHECKS
from cudadoctor.knowledge.decoding import KnowledgeError
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.extension import Extension as Extension
from cudadoctor.model.facts import Fact as Fact
from cudadoctor.model.facts import Facts as Facts
from cudadoctor.model.facts import Key as Key
from cudadoctor.model.facts import NotKnown, Unknown
from cudadoctor.model.facts import Quote as Quote
from cudadoctor.model.findings import Clue as Clue
from cudadoctor.parsers.base import Parser as Parser
from cudadoctor.parsers.base import Text as Text
from cudadoctor.parsers.read import PARSERS
from cudadoctor.sources.probes import LINUX, WINDOWS
from cudadoctor.sources.probes import Probe as Probe

LIMIT = 2.0  # seconds for one call of an extension's function, and for its import
T = TypeVar("T")


class ExtensionError(Exception):
    """An extension that cannot be used; the message says which and why."""


def joined(base: Knowledge, name: str, extension: object) -> Knowledge:
    """The knowledge with one extension more. ExtensionError where it does not fit."""
    if callable(extension) and not isinstance(extension, Extension):
        extension = within(LIMIT, extension)
    if not isinstance(extension, Extension):
        raise ExtensionError(f"it is a {type(extension).__name__}, not an Extension")
    _refuse_taken(base, extension)
    found = base.extended(
        msgspec.structs.replace(
            extension,
            parsers=tuple(_guarded_parser(name, parser) for parser in extension.parsers),
            checks=tuple(_guarded_check(name, check, frozenset(extension.causes)) for check in extension.checks),
        )
    )
    try:
        for cause in extension.causes:
            for recipe in found.cause(cause).recipes:
                found.recipe(recipe)
        for recipe in extension.recipes:
            found.recipe(recipe)
    except (KnowledgeError, KeyError) as error:
        raise ExtensionError(words_of(error)) from error
    return found


def _refuse_taken(base: Knowledge, extension: Extension) -> None:
    taken = {
        "cause": (set(extension.causes), set(base.causes)),
        "recipe": (set(extension.recipes), set(base.recipes)),
        "row": ({check.id for check in extension.checks}, {check.id for check in (*CHECKS, *base.more_checks)}),
        "parser": ({parser.name for parser in extension.parsers}, {parser.name for parser in (*PARSERS, *base.more_parsers)}),
        "evidence": ({probe.id for probe in extension.probes}, {probe.id for probe in (*LINUX, *WINDOWS, *base.more_probes)}),
    }
    for kind, (own, others) in taken.items():
        for one in sorted(own & others):
            raise ExtensionError(f"there is a {kind} {one!r} already")


# ---------------------------------------------------------------- guards
class _Mutable:
    """A standard stream that is mute for the threads of extensions alone: others may write at the same time."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(_NOWHERE if threading.current_thread() in _MUTE else self._stream, name)


_NOWHERE = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - as long as the process
_MUTE: weakref.WeakSet[threading.Thread] = weakref.WeakSet()


def _mute(thread: threading.Thread) -> None:
    _MUTE.add(thread)
    for name in ("stdout", "stderr"):
        if not isinstance(getattr(sys, name), _Mutable):
            setattr(sys, name, _Mutable(getattr(sys, name)))


def within(seconds: float, function: Callable[..., T], *arguments: Any) -> T:
    """The function's result. TimeoutError where it does not return; what it prints is lost."""
    result: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            result.append(function(*arguments))
        except BaseException as error:  # SystemExit and KeyboardInterrupt of a stranger are no reason to end
            errors.append(error)

    thread = threading.Thread(target=work, daemon=True)
    _mute(thread)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0] if isinstance(errors[0], Exception) else RuntimeError(words_of(errors[0]))
    if not result:
        raise TimeoutError(f"it did not return within {seconds:g} s")
    return result[0]


def words_of(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:300]


def _guarded_check(name: str, check: Check, own: frozenset[str]) -> Check:
    """A rule or line that fails leaves its row unknown, with the reason. Only causes of its own are ruled out by a rule's silence."""

    def describe(facts: Facts, known: Knowledge) -> Line:
        return _or_unknown(name, check.id, lambda: _whole(check.describe(facts, known), Line))

    def rule(one: Rule) -> Rule:
        def function(facts: Facts, known: Knowledge) -> Iterator[Clue]:
            yield from _or_unknown(name, check.id, lambda: tuple(_known(_whole(clue, Clue), known) for clue in one.function(facts, known)))

        return Rule(row=check.id, causes=tuple(cause for cause in one.causes if cause in own), function=function)

    return msgspec.structs.replace(check, rules=tuple(rule(one) for one in check.rules), describe=describe)


def _whole(value: T, kind: type[T]) -> T:
    """The value, where it is of that kind through and through: who makes one is not asked for its types."""
    if not isinstance(value, kind):
        raise TypeError(f"{type(value).__name__} is no {kind.__name__}")
    msgspec.convert(msgspec.to_builtins(value), kind)
    return value


def _known(clue: Clue, known: Knowledge) -> Clue:
    if clue.cause not in known.causes:
        raise ExtensionError(f"{clue.cause!r} is not a cause")
    return clue


def _or_unknown(name: str, row: str, function: Callable[..., T], *arguments: Any) -> T:
    try:
        return within(LIMIT, function, *arguments)
    except NotKnown:
        raise
    except Exception as error:
        raise NotKnown(Unknown(key=row, why=f"extension {name}: {words_of(error)}")) from error


def _guarded_parser(name: str, parser: Parser) -> Parser:
    def parse(text: Text) -> Iterator[Fact[Any] | Unknown]:
        try:
            yield from within(LIMIT, lambda: tuple(parser.parse(text)))
        except Exception as error:
            for key in parser.keys:
                yield Unknown(key=key, why=f"extension {name}: {words_of(error)}")

    return msgspec.structs.replace(parser, parse=parse)
