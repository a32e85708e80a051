"""Frameworks in the examined interpreter: builds without CUDA, wheels of two CUDA series, and a library path in front of them.

Rules of the rows python and toolkit that read package lists. Nothing is imported, so what a framework really loads is not seen here.
"""

from __future__ import annotations

from collections.abc import Iterator

from cudadoctor.checks.common import in_python, package_of, package_quote, variable_quote, variables_of, without_places
from cudadoctor.checks.frameworks import all_computed, asked, gpu_here, seen
from cudadoctor.checks.toolkit import folder_quote
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Fact, Facts, Quote
from cudadoctor.model.findings import Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import ENVIRONMENT, FRAMEWORK_BUILDS, LADDER, PYTHON, TOOLKITS, PythonEnvironment, PythonPackage
from cudadoctor.model.version import ToolkitVersion

CPU, MIXED, PATH = "framework-cpu-build", "toolkit-libraries-mixed", "library-path-conflict"
_SERIES = lazy(r"^(?P<name>nvidia-[a-z0-9-]+)-cu(?P<major>1\d)$")
_CUPY = lazy(r"^cupy(?:-cuda\d+x?)?$")
_TAG = lazy(r"^cu(\d{2})(\d)$")
RUNTIMES = ("nvidia-cuda-runtime-cu12", "nvidia-cuda-runtime-cu11")


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
        entry, words = python.need().package(build.package), f"{build.package} {build.version}"
        quote = package_quote(python, entry) if entry is not None else python.line_with(f"{build.package} ", words=words)
        values = {"version": build.version.text, "framework": build.name, "frameworks": named}
        yield in_python(CPU, python, (quote,), values, asked=live or asked(facts, build.name))
    if double is not None and all(build.name != "onnxruntime" for build in builds):
        values = {"version": double.version.text, "framework": "onnxruntime", "frameworks": "onnxruntime"}
        yield in_python(CPU, python, (package_quote(python, double),), values, asked=asked(facts, "onnxruntime"))


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


def where_one_stands(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """An empty or relative entry of LD_LIBRARY_PATH lets programs take a library from where they are started; no climb does."""
    climb = facts.there(LADDER)
    found = climb.value.beside if climb is not None and climb.value is not None else ()
    values, shown = without_places(facts, "LD_LIBRARY_PATH", lambda place: not place.startswith(("/", "$ORIGIN", "${ORIGIN}")))
    if climb is not None and found and values:
        said = f"{', '.join(found[:3])}: programs that are started here take it from this folder"
        yield Clue(cause=PATH, quotes=(*shown, Quote(source="working directory", text=said)), basis="suspected", values=values)


def _wheels(fact: Fact[PythonEnvironment]) -> tuple[ToolkitVersion, PythonPackage] | None:
    """The CUDA version of the libraries that packages brought along."""
    for name in RUNTIMES:
        package = package_of(fact, name)
        if package is not None:
            return ToolkitVersion(package.version.text), package
    torch = package_of(fact, "torch")
    tag = _TAG.match(torch.build or "") if torch is not None else None
    return None if torch is None or tag is None else (ToolkitVersion(f"{tag[1]}.{tag[2]}"), torch)
