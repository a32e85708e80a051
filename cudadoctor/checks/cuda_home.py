"""Row cuda-home: whether CUDA_HOME and CUDA_PATH, where they are set, lead to a toolkit."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cudadoctor.checks.base import Check, Line, Rule
from cudadoctor.checks.common import need_whole, variable_quote, variables_of
from cudadoctor.checks.toolkit import HOME_VARIABLES, component_quote, folder_quote, usable
from cudadoctor.inventory.rungs import needed_parts
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Fact, Facts, Quote
from cudadoctor.model.findings import Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import ENVIRONMENT, NVCC, PYTHON, TOOLKITS, Environment, Toolkit, Toolkits

WRONG, MISSING = "cuda-home-wrong", "toolkit-missing"
_VARIABLE = lazy(r"\$\w|\$\{|%\w+%")
_OF_WINDOWS = lazy(r"^;?[A-Za-z]:[\\/]")


def malformed(value: str) -> str | None:
    """What makes a value no path of a folder, None where its form is good."""
    if value != value.strip():
        return "blanks at its end" if value == value.lstrip() else "blanks at its beginning"
    if value[:1] in "'\"" or value[-1:] in "'\"":
        return "quotation marks are part of the value"
    if value.startswith(":") or value.endswith(":"):
        return "a colon that joins it to nothing"
    if _VARIABLE.search(value):
        return "a variable that was not replaced"
    if value.startswith("~"):
        return "a tilde that was not replaced"
    if _OF_WINDOWS.match(value) and ";" in value:
        return "a semicolon that joins it to nothing" if value.strip(";").count(";") == 0 else "several paths joined by a semicolon"
    # C:\... is one path; any other colon joins several.
    if ":" in re.sub(r"^[A-Za-z]:[\\/]", "", value):
        return "several paths joined by a colon"
    return None


def _plain(path: str) -> str:
    """A path without the sign at its end; one of Windows in small letters, for there they are the same."""
    bare = path.rstrip("/") or path
    return bare.rstrip("\\").replace("/", "\\").lower() if _OF_WINDOWS.match(path) else bare


def _folder(toolkits: Fact[Toolkits], name: str, value: str) -> Toolkit | None:
    """What was found where the variable points."""
    found = toolkits.value.toolkits if toolkits.value is not None else ()
    return next((entry for entry in found if entry.rule == name or _plain(entry.path) == _plain(value)), None)


def _parts_elsewhere(facts: Facts, toolkits: Fact[Toolkits]) -> Quote | None:
    """All that Numba needs, from wheels for example, or an nvcc."""
    nvcc = facts[NVCC]
    if nvcc.value is not None:
        return nvcc.line_with(nvcc.value.version.text, words=f"nvcc {nvcc.value.version}")
    python = facts[PYTHON]
    if python.value is None or toolkits.value is None:
        return None
    parts = [toolkits.value.component(name) for name in needed_parts(python.value)]
    if any(part is None or part.path is None for part in parts) or parts[0] is None:
        return None
    return component_quote(toolkits, parts[0])


def _wrong(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    environment = facts[ENVIRONMENT]
    for name in HOME_VARIABLES:
        value = variables_of(environment).get(name)
        if value == "":
            yield from _empty(facts, environment, name)
        elif value is not None and malformed(value) is not None:
            yield Clue(cause=WRONG, quotes=(variable_quote(environment, name),), values={"variable": name, "value": value})
        elif value is not None:
            yield from _leads_nowhere(facts, environment, name, value)


def _empty(facts: Facts, environment: Fact[Environment], name: str) -> Iterator[Clue]:
    """Most programs read an empty value as if it were not set; Numba's search for libdevice ends there."""
    toolkits = facts[TOOLKITS]
    for part in toolkits.value.components if toolkits.value is not None else ():
        if part.path is None and part.rule == name:
            quotes = (variable_quote(environment, name), component_quote(toolkits, part))
            yield Clue(cause=WRONG, quotes=quotes, values={"variable": name, "value": ""})
            return


def _leads_nowhere(facts: Facts, environment: Fact[Environment], name: str, value: str) -> Iterator[Clue]:
    """The folder is not there, or holds neither nvcc nor NVVM. Without any toolkit on the machine that is toolkit-missing."""
    toolkits = facts[TOOLKITS]
    folder = _folder(toolkits, name, value)
    if folder is not None and usable(folder):
        return
    need_whole(facts, name)
    nothing = Quote(source=toolkits.source(), text=f"{value}: no such toolkit folder")
    quotes = (variable_quote(environment, name), folder_quote(toolkits, folder) if folder is not None else nothing)
    found = toolkits.value.toolkits if toolkits.value is not None else ()
    other = next((folder_quote(toolkits, entry) for entry in found if usable(entry) and _plain(entry.path) != _plain(value)), None)
    # Libraries alone are what a runtime image holds: nothing is wrong there as long as nobody compiles.
    if other is None and (folder is None or folder.stale):
        other = _parts_elsewhere(facts, toolkits)
    elif other is None:
        return
    shown = (*quotes, other) if other is not None else quotes
    yield Clue(cause=WRONG if other is not None else MISSING, quotes=shown, values={"variable": name, "value": value})


def _describe(facts: Facts, knowledge: Knowledge) -> Line:
    environment = facts[ENVIRONMENT]
    given = {name: variables_of(environment)[name] for name in HOME_VARIABLES if variables_of(environment).get(name)}
    if not given:
        return Line("CUDA_HOME and CUDA_PATH are not set")
    said, quotes = [], []
    for name, value in given.items():
        quotes.append(variable_quote(environment, name))
        form = malformed(value)
        if form is not None:
            said.append(f"{name}={value}: {form}")
            continue
        folder = _folder(facts[TOOLKITS], name, value)
        if folder is None:
            need_whole(facts, name)
        said.append(f"{name}={value} {_content(folder)}")
    return Line("; ".join(said), tuple(quotes))


def _content(folder: Toolkit | None) -> str:
    if folder is None:
        return "is not there"
    if not usable(folder):
        return "holds no toolkit"
    parts = [word for word, there in (("nvcc", folder.has_nvcc), ("NVVM", folder.has_nvvm), ("libdevice", folder.has_libdevice)) if there]
    return f"holds toolkit {folder.version or 'of unknown version'} ({', '.join(parts)})"


CHECK = Check(
    id="cuda-home",
    title="CUDA_HOME",
    looks_at="CUDA_HOME and CUDA_PATH, and what lies where they point",
    items=("environment", "python-env", "nvcc"),
    rules=(Rule("cuda-home", (WRONG, MISSING), _wrong),),
    describe=_describe,
)
