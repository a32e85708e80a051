"""Packages of the examined interpreter: builds without CUDA, wheels of two CUDA series, a library path in front of them; and one that is
incomplete or does not fit another, whatever it is called.

The former read package lists; nothing is imported, so what a framework really loads is not seen there. The latter read the traceback of the
Numba rung: the frames say which package raised, the last line what it lacked. What the metadata of numba and numba-cuda demand is the
version to install. Causes with a message of their own come first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from cudadoctor.checks.base import Rule
from cudadoctor.checks.common import (
    NOT_THERE,
    UNUSABLE,
    broken,
    in_python,
    numba_is_ours,
    package_of,
    package_quote,
    requirements_of,
    rung_quote,
    spoken,
    variable_quote,
    variables_of,
)
from cudadoctor.checks.frameworks import all_computed, asked, gpu_here, seen
from cudadoctor.checks.reading import told
from cudadoctor.checks.toolkit import folder_quote
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Fact, Facts
from cudadoctor.model.findings import Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import ENVIRONMENT, FRAMEWORK_BUILDS, LADDER, PYTHON, TOOLKITS, PythonEnvironment, PythonPackage
from cudadoctor.model.version import ToolkitVersion

CPU, MIXED, PATH = "framework-cpu-build", "toolkit-libraries-mixed", "library-path-conflict"
_SERIES = lazy(r"^(?P<name>nvidia-[a-z0-9-]+)-cu(?P<major>1\d)$")
_CUPY = lazy(r"^cupy(?:-cuda\d+x?)?$")
_TAG = lazy(r"^cu(\d{2})(\d)$")
RUNTIMES = ("nvidia-cuda-runtime-cu12", "nvidia-cuda-runtime-cu11")
BROKEN, DETACHED = "python-package-broken", "python-environment-detached"
# The worker's words on an environment that this Python does not see (workers/numba_found.py).
_LOST = lazy(
    r"(?P<folder>/[^\n]{1,500}) has no pyvenv\.cfg|(?P<link>/[^\n]{1,500}) leads to (?P<own>/[^\n]{1,500}), and called so it does not see"
    r"|(?P<packages>(?P<home>/[^\n]{1,400})/lib/python3\.\d{1,2}/site-packages)/numba is for another Python"
)
_FRAME = lazy(r'^\s{0,8}File "(?P<path>[^"\n]{1,1000})", line \d{1,7}')
_INSTALLED = lazy(r"(?:site|dist)-packages[/\\](?P<inside>[^\n]{1,900})$")
_CRASHED = "Current thread "  # faulthandler, in the most recent call first
_BEGINS = "Traceback (most recent call last):"
# Compiled or plain source that was cut short or overwritten (Python/marshal.c, Lib/importlib/_bootstrap_external.py) is one too.
_ENDS = lazy(
    r"^(?P<kind>ImportError|ModuleNotFoundError|AttributeError|OSError|"
    r"(?:EOF|Value|Syntax)Error(?=: (?:marshal data too short|bad marshal data|source code (?:string )?cannot contain null bytes)))"
    r":[ \t]*(?P<words>[^\n]{0,600})"
)
_NO_NUMBA = "ModuleNotFoundError: No module named 'numba'"
# OSError: .../site-packages/llvmlite/binding/libllvmlite.so: file too short
_DAMAGED = lazy(
    rf"^[^\n:]{{0,900}}(?:site|dist)-packages/[^\n:]{{1,900}}: (?:{UNUSABLE}|{NOT_THERE})|"
    r"^[^\n:]{1,400}: version `GLIBC_[\d.]{1,12}' not found \(required by [^\n]{1,900}(?:site|dist)-packages/"
)
# ImportError: /opt/lib/libstdc++.so.6: file too short. Whoever put that folder in the loader's way did it, and no package.
_ELSEWHERE = lazy(rf"^(?!/[^\n:]{{0,900}}(?:site|dist)-packages/)/[^\n:]{{1,900}}: (?:{UNUSABLE})")
_NO_MODULE = lazy(r"^No module named '(?P<module>[A-Za-z_][\w.]{0,200})'")
_NO_NAME = lazy(r"^cannot import name '[^'\n]{1,200}' from (?:partially initialized module )?'(?P<module>[A-Za-z_][\w.]{0,200})'")
_NO_ATTRIBUTE = lazy(r"^(?:partially initialized )?module '(?P<module>[A-Za-z_][\w.]{0,200})' has no attribute")
_OF_DEMAND = ("numba-cuda", "numba")  # whose metadata says which version of a neighbour they work with


# ---------------------------------------------------------------- framework-cpu-build
def cpu_build(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """Frameworks that were built without CUDA, in the examined Python of a machine with an NVIDIA GPU: programs then run on the CPU."""
    python, fact = facts[PYTHON], facts[FRAMEWORK_BUILDS]
    found = [build for build in fact.value.builds if build.kind == "cpu"] if fact.value is not None else []
    # ONNX Runtime's plain package is often meant; beside the one for GPUs it is not: they share a folder, and the last one wins.
    builds = [build for build in found if build.name != "onnxruntime" or asked(facts, build.name)]
    plain = python.value.package("onnxruntime") if python.value is not None else None
    double = plain if plain is not None and python.need().package("onnxruntime-gpu") is not None else None
    if not builds and double is None:
        if not fact.whole:
            raise FRAMEWORK_BUILDS.unknown("the packages could not be listed")
        return
    if not gpu_here(facts):
        return
    live = fact.origin != "text"  # a list of packages in a text may be another environment's
    named = ", ".join(build.name for build in builds)
    for build in builds:
        meant = live or asked(facts, build.name)
        yield _without_cuda(python, build.name, build.package, build.version.text, asked=meant, frameworks=named)
    if double is not None and all(build.name != "onnxruntime" for build in builds):
        yield _without_cuda(python, "onnxruntime", double.name, double.version.text, asked=asked(facts, "onnxruntime"))


def _without_cuda(
    fact: Fact[PythonEnvironment], framework: str, package: str, version: str, *, asked: bool = False, frameworks: str = ""
) -> Clue:
    """`frameworks`: all that were built so, as the title and the steps name them."""
    values = {"package": package, "version": version, "framework": framework, "frameworks": frameworks or framework}
    entry = fact.need().package(package)
    quote = package_quote(fact, entry) if entry is not None else fact.line_with(f"{package} ", words=f"{package} {version}")
    return in_python(CPU, fact, (quote,), values, asked=asked)


# ---------------------------------------------------------------- toolkit-libraries-mixed
def mixed(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """One library from wheels of two CUDA series, two builds of CuPy, or one library from conda and from pip."""
    fact = facts[PYTHON]
    if fact.value is None:
        return
    of_conda = _from_conda(fact.value, knowledge)
    series = _by_library(fact.value, knowledge)
    for library, wheels in sorted(series.items()):
        copies = [*wheels, *of_conda.get(library, [])]
        if len(copies) > 1:
            yield _mixed(facts, fact, copies)
            return


def _by_library(python: PythonEnvironment, knowledge: Knowledge) -> dict[str, list[PythonPackage]]:
    """Wheels by what they hold. The wheels of CUDA 13 carry no series in their names."""
    plain = knowledge.frameworks.wheels["plain"]
    found: dict[str, list[PythonPackage]] = {}
    for package in python.packages:
        wheel = _SERIES.match(package.name)
        if wheel is not None and not _of_conda(package):
            found.setdefault(wheel["name"], []).append(package)
        elif package.name in plain and not package.version.text.startswith("0."):  # 0.0.1 of old: an empty stand-in
            found.setdefault(package.name, []).append(package)
        elif _CUPY.match(package.name):
            found.setdefault("cupy", []).append(package)
    return found


def _of_conda(package: PythonPackage) -> bool:
    return (package.path or "").replace("\\", "/").rstrip("/").endswith("/conda-meta")


def _from_conda(python: PythonEnvironment, knowledge: Knowledge) -> dict[str, list[PythonPackage]]:
    """conda's packages by the name of the wheel that holds the same library."""
    found: dict[str, list[PythonPackage]] = {}
    for package in python.packages:
        for library in knowledge.frameworks.conda.get(package.name, ()) if _of_conda(package) else ():
            found.setdefault(library, []).append(package)
    return found


def _mixed(facts: Facts, fact: Fact[PythonEnvironment], copies: list[PythonPackage]) -> Clue:
    of_conda = [package for package in copies if _of_conda(package)]
    values = {"package": copies[0].name}
    for framework, there in (("cupy", _CUPY.match(copies[0].name)), ("torch", fact.need().package("torch"))):
        if there is not None:
            values.setdefault("framework", framework)
    if of_conda:  # the copies that pip brought are those to remove
        values["pip_copies"] = " ".join(package.name for package in fact.need().packages if _SERIES.match(package.name))
    # The same release twice does no harm until one of them is updated; nor do two that all frameworks were seen to compute beside.
    same = bool(of_conda) and len({package.version.major_minor for package in copies}) == 1
    harmless = same or (not _CUPY.match(copies[0].name) and all_computed(facts))
    quotes = tuple(package_quote(fact, package) for package in copies[:2])
    names = ("torch", "tensorflow", "jax", "cupy", "onnxruntime", "bitsandbytes")
    return in_python(MIXED, fact, quotes, values, advice=harmless, seen=seen(facts, *names))


# ---------------------------------------------------------------- library-path-conflict
def library_path(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """LD_LIBRARY_PATH leads to an older toolkit of the same major version as the wheels: same file names, fewer symbols."""
    fact, environment = facts[PYTHON], facts[ENVIRONMENT]
    folders = [entry.rstrip("/") for entry in variables_of(environment).get("LD_LIBRARY_PATH", "").split(":") if entry]
    if fact.value is None or not folders:
        return
    wheels = _wheels(fact)
    if wheels is None:
        return
    version, package = wheels
    toolkits = facts[TOOLKITS]
    for toolkit in toolkits.value.toolkits if toolkits.value is not None else ():
        inside = any(entry.startswith(toolkit.path.rstrip("/") + "/") for entry in folders)
        older = toolkit.version is not None and toolkit.version.major == version.major and toolkit.version.major_minor < version.major_minor
        if inside and older:
            quotes = (variable_quote(environment, "LD_LIBRARY_PATH"), folder_quote(toolkits, toolkit), package_quote(fact, package))
            yield in_python(PATH, fact, quotes, {"variable": "LD_LIBRARY_PATH", "path": toolkit.path, "framework": "torch"})
            return


def _wheels(fact: Fact[PythonEnvironment]) -> tuple[ToolkitVersion, PythonPackage] | None:
    """The CUDA version of the libraries that packages brought along."""
    for name in RUNTIMES:
        package = package_of(fact, name)
        if package is not None:
            return ToolkitVersion(package.version.text), package
    torch = package_of(fact, "torch")
    tag = _TAG.match(torch.build or "") if torch is not None else None
    return None if torch is None or tag is None else (ToolkitVersion(f"{tag[1]}.{tag[2]}"), torch)


# ---------------------------------------------------------------- python-package-broken, python-environment-detached
class Broken(NamedTuple):
    """What a traceback says: the module that lacks something or is not there, the package that asked for it, and the last line."""

    module: str
    asked_by: str
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
    return Broken("numba", "numba-cuda", f"{_NO_NUMBA}; {left}", "Numba kernel") if found and left else None


def of_crash(output: str) -> Broken | None:
    """What Python's own stack says where it crashed as it loaded a library of a package: that file is cut short, or foreign."""
    _, _, stack = output.partition(_CRASHED)
    lines = stack.split("\n")[1:]
    if not any(line.endswith("in create_module") for line in lines[:3]):
        return None
    loading = (match["path"] for match in map(_FRAME.match, lines) if match is not None and "<frozen" not in match["path"])
    return _of_block(list(loading)[:1], "crash", f"{output.split(_CRASHED)[0].splitlines()[0]}, while a library of it was loaded")


def _of_block(frames: list[str], kind: str, words: str) -> Broken | None:
    inside = [(path, found["inside"]) for path in frames if (found := _INSTALLED.search(path)) is not None]
    if not inside:
        return None
    path, within = inside[-1]
    asked_by = within.replace("\\", "/").removesuffix(".py").replace("/", ".")
    lacking = next((found for found in (form.match(words) for form in (_NO_MODULE, _NO_NAME, _NO_ATTRIBUTE)) if found is not None), None)
    return Broken(lacking["module"] if lacking is not None else asked_by, asked_by, f"{kind}: {words}", path)


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


def incomplete(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """The Numba rung of the examined interpreter ends with an error out of its own packages."""
    climb = facts[LADDER]
    if climb.value is None or numba_is_ours(climb.value):
        return
    for result in broken(climb.value, "numba-kernel"):
        found = of_crash(result.output) if result.status == "crash" else of_traceback(result.output) or _without_numba(result.output)
        python = told(facts, PYTHON, climb) if found is not None else None
        if found is None or python is None:
            continue
        name = distribution(found.module, python)
        values = {"package": name, "module": found.module, "asked_by": distribution(found.asked_by, python)}
        requirement = demanded(name, python)
        if requirement is not None:
            values["requirement"] = requirement
        quotes = (rung_quote(climb, result), spoken(found.path, 0, found.words))
        yield in_python(BROKEN, facts[PYTHON], quotes, values)
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


BROKEN_RULES = (Rule("python", (BROKEN,), incomplete), Rule("python", (DETACHED,), detached))
