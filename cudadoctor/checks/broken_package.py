"""A Python package that is incomplete, or does not fit another, whatever it is called: read from the traceback of the Numba rung.

The frames say which package raised, the last line what it lacked. What the metadata of numba and numba-cuda demand is the version to
install. Causes with a message of their own come first, but for what a package's own record of its files shows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from cudadoctor.checks.base import Rule
from cudadoctor.checks.common import (
    NOT_THERE,
    UNUSABLE,
    any_of,
    in_python,
    numba_is_ours,
    package_quote,
    requirements_of,
    rung_quote,
    spoken,
)
from cudadoctor.checks.reading import broken, told
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Fact, Facts
from cudadoctor.model.findings import Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import LADDER, PYTHON, Ladder, PythonEnvironment, RungResult

BROKEN, DAMAGED, DETACHED = "python-package-broken", "python-package-damaged", "python-environment-detached"
SYSTEM = "system-library-missing"
# The worker's words on an environment that this Python does not see (workers/numba_found.py).
_LOST = lazy(
    r"(?P<folder>/[^\n]{1,500}) has no pyvenv\.cfg|(?P<link>/[^\n]{1,500}) leads to (?P<own>/[^\n]{1,500}), and called so it does not see"
    r"|(?P<packages>(?P<home>/[^\n]{1,400})/lib/python3\.\d{1,2}/site-packages)/numba is for another Python"
)
_FRAME = lazy(r'^\s{0,8}File "(?P<path>[^"\n]{1,1000})", line \d{1,7}')
_INSTALLED = lazy(r"(?:site|dist)-packages[/\\](?P<inside>[^\n]{1,900})$")
_CRASHED = "Current thread "  # faulthandler, in the most recent call first
# Python loads an extension, or ctypes a library.
_LOADS = lazy(r'in create_module$|[/\\]ctypes[/\\]__init__\.py", line \d{1,7} in __init__$')
_BEGINS = "Traceback (most recent call last):"
# Compiled or plain source that was cut short or overwritten (Python/marshal.c, Lib/importlib/_bootstrap_external.py) is one too.
_ENDS = lazy(
    r"^(?P<kind>ImportError|ModuleNotFoundError|AttributeError|OSError|"
    r"(?:EOF|Value|Syntax)Error(?=: (?:marshal data too short|bad marshal data|source code (?:string )?cannot contain null bytes)))"
    r":[ \t]*(?P<words>[^\n]{0,600})"
)
_OF_SOURCE = lazy(r"^(?:Syntax|Indentation|Tab)Error: ", re.MULTILINE)  # a source that ends in its middle
_NO_NUMBA = "ModuleNotFoundError: No module named 'numba'"
# OSError: .../site-packages/llvmlite/binding/libllvmlite.so: file too short
_DAMAGED = lazy(
    rf"^[^\n:]{{0,900}}(?:site|dist)-packages/[^\n:]{{1,900}}: (?:{UNUSABLE}|{NOT_THERE})|"
    r"^[^\n:]{1,400}: version `GLIBC_[\d.]{1,12}' not found \(required by [^\n]{1,900}(?:site|dist)-packages/"
)
# ImportError: /opt/lib/libstdc++.so.6: file too short. Whoever put that folder in the loader's way did it, and no package.
_ELSEWHERE = lazy(rf"^(?!/[^\n:]{{0,900}}(?:site|dist)-packages/)/[^\n:]{{1,900}}: (?:{UNUSABLE})")
# The same below the system's own folders, where a package of the operating system put it; and what every wheel takes from there (PEP 600).
_OF_SYSTEM = lazy(
    rf"(?<!\S)(?P<path>/(?:usr/)?lib(?:32|64)?/[^\s:]{{1,300}}\.so[.\d]{{0,20}}): (?:{UNUSABLE})"
    rf"|(?<!\S)lib(?:stdc\+\+|gcc_s|z|atomic|expat)\.so\.\d{{1,3}}: {NOT_THERE}"
)
_NO_MODULE = lazy(r"^No module named '(?P<module>[A-Za-z_][\w.]{0,200})'")
_NO_NAME = lazy(r"^cannot import name '[^'\n]{1,200}' from (?:partially initialized module )?'(?P<module>[A-Za-z_][\w.]{0,200})'")
_NO_ATTRIBUTE = lazy(r"^(?:partially initialized )?module '(?P<module>[A-Za-z_][\w.]{0,200})' has no attribute")
# ImportError: Numba requires SciPy version 1.0 or greater. Got SciPy 0.19.1.
_TOO_OLD = lazy(
    r"\b(?:requires|needs) (?P<name>[A-Za-z][\w-]{1,40})(?: version)? (?P<least>\d{1,4}(?:\.\d{1,4}){0,3}) or (?:greater|newer)\b"
)
_NEAR = 3  # files that an error names last: one that somebody edited far above it is no reason
_OF_DEMAND = ("numba-cuda", "numba")  # whose metadata says which version of a neighbour they work with
# Neighbours whose versions they are bound to. Numba itself under numba-cuda is row numba's (numba-too-old).
BOUND = ("numpy", "llvmlite", "cuda-bindings", "cuda-core", "cuda-pathfinder")


class Broken(NamedTuple):
    """What a traceback says: the module that lacks something or is not there, and the last line."""

    module: str
    words: str
    path: str  # of the last frame within the interpreter's packages


def of_traceback(output: str) -> Broken | None:
    """What the last traceback of an output says, or the one that led to it, where the last says nothing in its first line (NumPy's) or
    only that something could not be loaded (llvmlite's). None where it ends in another way, or not within packages."""
    for block in reversed(output.strip().split(_BEGINS)[1:]):
        lines = block.split("\n")
        said = _ENDS.match(next((line for line in lines if line and not line.startswith(" ")), ""))  # frames are indented
        if said is None:
            return None
        if _ELSEWHERE.match(said["words"]):
            return None
        if said["words"] and (said["kind"] != "OSError" or _DAMAGED.match(said["words"])):
            return _of_block([match["path"] for match in map(_FRAME.match, lines) if match is not None], said["kind"], said["words"])
    return None


def _without_numba(output: str) -> Broken | None:
    """What the worker says where Numba is not there and should be (workers/numba_steps.py)."""
    _, found, left = output.rstrip().partition(f"{_NO_NUMBA}\n")
    return Broken("numba", f"{_NO_NUMBA}; {left}", "Numba kernel") if found and left else None


def of_crash(output: str) -> Broken | None:
    """What Python's own stack says where it crashed as it loaded a library of a package: that file is cut short, or foreign."""
    _, _, stack = output.partition(_CRASHED)
    lines = stack.split("\n")[1:]
    if not any(_LOADS.search(line) for line in lines[:3]):
        return None
    callers = (match["path"] for line in lines if (match := _FRAME.match(line)) is not None and not _LOADS.search(line))
    loading = (path for path in callers if "<frozen" not in path)
    return _of_block(list(loading)[:1], "crash", f"{output.split(_CRASHED)[0].splitlines()[0]}, while a library of it was loaded")


def _of_block(frames: list[str], kind: str, words: str) -> Broken | None:
    inside = [(path, found["inside"]) for path in frames if (found := _INSTALLED.search(path)) is not None]
    if not inside:
        return None
    path, within = inside[-1]
    lacking = next((found["module"] for found in (form.match(words) for form in (_NO_MODULE, _NO_NAME, _NO_ATTRIBUTE)) if found), None)
    library = _INSTALLED.search(words.partition(":")[0])
    return Broken(lacking or _module(library["inside"] if library else within), f"{kind}: {words}", path)


def _module(inside: str) -> str:
    """cuda/bindings/driver.cpython-312-x86_64-linux-gnu.so as cuda.bindings.driver."""
    folder, _, file = inside.replace("\\", "/").rpartition("/")
    return ".".join([*(part for part in folder.split("/") if part), file.partition(".")[0]])


def distribution(module: str, python: PythonEnvironment) -> str:
    """The package to which a module belongs: cuda.bindings.driver to cuda-bindings where that is installed, else its first part."""
    parts = module.replace("_", "-").lower().split(".")
    names = ("-".join(parts[:2]), parts[0])
    found = next((name for name in names if python.package(name) is not None), None)
    return found or (names[0] if parts[0] == "cuda" else names[1])  # NVIDIA's packages share the module `cuda`


def demanded(name: str, python: PythonEnvironment) -> str | None:
    """`llvmlite<0.49,>=0.48`, as Numba states it; the installed version where nobody demands one."""
    for owner in _OF_DEMAND:
        package = python.package(owner)
        for wanted in requirements_of(package) if package is not None else ():
            if wanted.name.lower().replace("_", "-") == name and str(wanted.specifier):
                return f"{name}{wanted.specifier}"
    found = python.package(name)
    return f"{name}=={found.version}" if found is not None else None


def _failed(climb: Fact[Ladder]) -> tuple[RungResult, ...]:
    return () if numba_is_ours(climb.value) else broken(climb.value, "numba-kernel")


def rule(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """The Numba rung of the examined interpreter ends with an error out of its own packages."""
    climb = facts[LADDER]
    for result in _failed(climb):
        found = of_crash(result.output) if result.status == "crash" else of_traceback(result.output) or _without_numba(result.output)
        python = told(facts, PYTHON, climb) if found is not None else None
        if found is None or python is None:
            continue
        older = _TOO_OLD.search(found.words)
        name = distribution(found.module, python) if older is None else older["name"].lower()
        requirement = demanded(name, python) if older is None else f"{name}>={older['least']}"
        values = {"package": name, "module": found.module, **({"requirement": requirement} if requirement is not None else {})}
        yield in_python(BROKEN, facts[PYTHON], (rung_quote(climb, result), spoken(found.path, 0, found.words)), values)
        return


def of_system(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """Numba's import fails at a library that belongs to the operating system, which the loader does not find or cannot use."""
    climb = facts[LADDER]
    for result in broken(climb.value, "numba-kernel"):
        said = _OF_SYSTEM.search(result.output)
        if said is not None:
            values = {"path": said["path"]} if said["path"] is not None else {}
            yield Clue(cause=SYSTEM, quotes=(rung_quote(climb, result),), seen="failed", values=values)
            return


def damaged(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """Numba's import fails, and a file that the error names last is not what was installed (workers/installed_files.py)."""
    climb = facts[LADDER]
    installed = climb.value.installed if climb.value is not None and not numba_is_ours(climb.value) else ()
    file = next((file for file in installed[:_NEAR] if file.differs or file.byte_code), None)
    python = told(facts, PYTHON, climb) if file is not None else None
    for result in _failed(climb):
        if file is None or python is None or not (_OF_SOURCE.search(result.output) or of_traceback(result.output)):
            continue
        version = file.version if file.version is not None and "+" not in file.version else None  # 2.5+cu124 is not on PyPI
        requirement = f"{file.package}=={version}" if version is not None else demanded(file.package, python)
        optional = {"requirement": requirement, "byte_code": file.byte_code}
        values = {"package": file.package, "path": file.path, **{name: text for name, text in optional.items() if text is not None}}
        words = f"{file.path}: {file.differs}, by the RECORD of {file.package} {file.version or ''}".rstrip()
        if file.byte_code is not None:
            words = f"{file.byte_code}: byte code of another source than {file.path}, and Python runs it in its place"
        yield in_python(DAMAGED, facts[PYTHON], (spoken(file.path, file.line, words), rung_quote(climb, result)), values)
        return


def lost(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """Numba's rung fails, and packages are links into a cache that was cleaned (uv's link mode `symlink`)."""
    climb = facts[LADDER]
    for result in _failed(climb):
        python = told(facts, PYTHON, climb)
        needed = [python.package(name) for name in (*_OF_DEMAND, *BOUND)] if python is not None else []
        gone = [package for package in needed if package is not None and package.lost is not None]
        if gone:
            quotes = (*(package_quote(facts[PYTHON], package) for package in gone[:2]), rung_quote(climb, result))
            yield in_python(DAMAGED, facts[PYTHON], quotes, {"package": gone[0].name, "lost": gone[0].lost or ""})
        return


def detached(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """A Python that does not see the packages of the virtual environment to which it seems to belong."""
    climb = facts[LADDER]
    for result in broken(climb.value, "numba-kernel"):
        lost = _LOST.search(result.output)
        python = told(facts, PYTHON, climb) if lost is not None else None
        if lost is None or python is None or not (lost["link"] or python.path.startswith(f"{lost['folder'] or lost['home']}/bin/")):
            continue
        named = {"path": lost["folder"] or lost["home"], "own": lost["own"], "packages": lost["packages"]}
        quotes = (rung_quote(climb, result), spoken(python.path, 0, lost[0]))
        yield in_python(DETACHED, facts[PYTHON], quotes, {name: text for name, text in named.items() if text})


RULES = (
    Rule("python", (BROKEN,), rule),
    Rule("python", (DAMAGED,), any_of(damaged, lost)),
    Rule("python", (SYSTEM,), of_system),
    Rule("python", (DETACHED,), detached),
)
