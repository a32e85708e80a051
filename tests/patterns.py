"""Every regular expression of the project: of Python modules, wherever it stands in them, and of the knowledge's TOML."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

import cudadoctor
from cudadoctor.knowledge.load import load
from cudadoctor.model import pattern as lazily
from cudadoctor.parsers.system_names import names_of
from cudadoctor.sources import vocabulary

FUNCTIONS = ("compile", "search", "match", "fullmatch", "split", "findall", "finditer", "sub", "subn")


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """One expression and where it stands."""

    pattern: str
    flags: int
    where: str


def modules() -> Iterator[str]:
    for entry in pkgutil.walk_packages(cudadoctor.__path__, "cudadoctor."):
        if not entry.name.startswith(("cudadoctor.workers.", "cudadoctor.__main__")):
            yield entry.name


def _held(value: object, where: str, seen: set[int]) -> Iterator[Found]:
    """The expressions in a module's value: alone, in a container, or as a field of a Struct."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, re.Pattern | lazily._Lazy):
        bytewise = isinstance(value.pattern, bytes)
        pattern = value.pattern.decode("latin-1") if bytewise else value.pattern
        yield Found(pattern=pattern, flags=int(value.flags) & ~int(re.UNICODE) | (int(re.ASCII) if bytewise else 0), where=where)
    elif isinstance(value, dict):
        for one in (*value, *value.values()):
            yield from _held(one, where, seen)
    elif isinstance(value, tuple | list | frozenset | set):
        for one in value:
            yield from _held(one, where, seen)
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from _held(getattr(value, name), where, seen)


def _written(path: Path, where: str) -> Iterator[Found]:
    """Those that stand as a literal in a call, such as re.sub(r"...", ...)."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, ast.Call) or not node.args or not isinstance(node.args[0], ast.Constant):
            continue
        called = node.func
        ours = isinstance(called, ast.Name) and called.id == "lazy"
        theirs = isinstance(called, ast.Attribute) and called.attr in FUNCTIONS and ast.unparse(called.value) in ("re", "_re")
        if (ours or theirs) and isinstance(node.args[0].value, str):
            names = {name for part in (*node.args[1:], *node.keywords) for name in re.findall(r"\bre\.([A-Z]+)\b", ast.unparse(part))}
            flags = sum(int(getattr(re, name)) for name in names)
            yield Found(pattern=node.args[0].value, flags=flags, where=f"{where}:{node.lineno}")


def of_python() -> Iterator[Found]:
    for name in modules():
        module = importlib.import_module(name)
        seen: set[int] = set()
        for variable, value in vars(module).items():
            yield from _held(value, f"{name}.{variable}", seen)
    root = Path(cudadoctor.__file__).parent
    for path in sorted(root.rglob("*.py")):
        yield from _written(path, str(path.relative_to(root)))


def of_causes() -> Iterator[Found]:
    """As parsers/signs.py compiles them."""
    for cause in load().causes.values():
        for match in cause.match:
            for pattern in (match.pattern, match.unless, match.until):
                if pattern is not None:
                    yield Found(pattern=pattern, flags=int(re.MULTILINE), where=f"causes/{cause.id}.toml")


def of_systems() -> Iterator[Found]:
    """As parsers/system_names.py compiles them."""
    names = names_of(load())
    yield from _held([*names.forms.values(), *(form for form, _ in names.kernels)], "tables/distributions.toml", set())


def of_conditions() -> Iterator[Found]:
    """As knowledge/wording.py compiles them."""
    yield from _held(load().conditions, "tables/conditions.toml", set())
    yield from _held(load().placeholder_forms, "tables/placeholders.toml", set())


def of_redaction() -> Iterator[Found]:
    """As sources/vocabulary.py compiles them."""
    named = {name: getattr(vocabulary.PATTERNS, name) for name in vocabulary.TABLE["parts"]}
    yield from _held([named, *map(vocabulary.forms, vocabulary.TABLE["forms"])], "tables/redaction.toml", set())


def every() -> list[Found]:
    """Each expression once, under the first name that it has."""
    found: dict[tuple[str, int], Found] = {}
    for one in (*of_python(), *of_causes(), *of_systems(), *of_conditions(), *of_redaction()):
        found.setdefault((one.pattern, one.flags), one)
    return sorted(found.values(), key=lambda one: (one.where, one.pattern))
