"""Frameworks in the examined interpreter: builds without CUDA, wheels of two CUDA series, and a library path in front of them.

Rules of the rows python and toolkit that read package lists. Nothing is imported, so what a framework really loads is not seen here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cudadoctor.checks.common import package_of, package_quote, python_subject, variable_quote, variables_of
from cudadoctor.checks.toolkit import folder_quote
from cudadoctor.model.facts import Fact, Facts, Unknown
from cudadoctor.model.findings import Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import ENVIRONMENT, LADDER, PCI, PYTHON, TOOLKITS, PythonEnvironment, PythonPackage
from cudadoctor.model.version import ToolkitVersion

if TYPE_CHECKING:
    from cudadoctor.knowledge.load import Knowledge

CPU, MIXED, PATH = "framework-cpu-build", "toolkit-libraries-mixed", "library-path-conflict"
_SERIES = lazy(r"^(?P<name>nvidia-[a-z0-9-]+)-cu(?P<major>1\d)$")
_CUPY = lazy(r"^cupy(?:-cuda\d+x?)?$")
_TAG = lazy(r"^cu(\d{2})(\d)$")
RUNTIMES = ("nvidia-cuda-runtime-cu12", "nvidia-cuda-runtime-cu11")


def _gpu_here(facts: Facts) -> bool:
    """Whether this machine has an NVIDIA GPU: without one a build for the processor is the right one."""
    ladder, bus = facts.get(LADDER), facts.get(PCI)
    if not isinstance(ladder, Unknown) and ladder.value is not None and ladder.value.devices:
        return True
    return not isinstance(bus, Unknown) and bus.value is not None and bool(bus.value.nvidia_gpus)


# ---------------------------------------------------------------- framework-cpu-build
def cpu_build(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """A framework that was built without CUDA, on a machine with an NVIDIA GPU. An advice: it may be meant."""
    fact = facts[PYTHON]
    if fact.value is None or not _gpu_here(facts):
        return
    for name, framework in (("torch", "torch"), ("pytorch", "torch"), ("tensorflow-cpu", "tensorflow"), ("tensorflow-intel", "tensorflow")):
        package = package_of(fact, name)
        if package is not None and (framework == "tensorflow" or package.build == "cpu"):
            yield _without_cuda(fact, package, framework)
    jaxlib = package_of(fact, "jaxlib")
    if jaxlib is not None and fact.whole and "cuda" not in (jaxlib.build or "") and not _named(fact.value, "jax-cuda"):
        yield _without_cuda(fact, jaxlib, "jax")
    plain, gpu = package_of(fact, "onnxruntime"), package_of(fact, "onnxruntime-gpu")
    if plain is not None and gpu is not None:
        yield _without_cuda(fact, plain, "onnxruntime")


def _named(python: PythonEnvironment, prefix: str) -> bool:
    return any(entry.name.startswith(prefix) for entry in python.packages)


def _without_cuda(fact: Fact[PythonEnvironment], package: PythonPackage, framework: str) -> Clue:
    values = {"package": package.name, "version": package.version.text, "framework": framework, "python": fact.need().path}
    return Clue(cause=CPU, quotes=(package_quote(fact, package),), subject=python_subject(fact.need()), values=values)


# ---------------------------------------------------------------- toolkit-libraries-mixed
def mixed(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """One library from wheels of two CUDA series, or two builds of CuPy."""
    fact = facts[PYTHON]
    if fact.value is None:
        return
    series: dict[str, list[PythonPackage]] = {}
    for package in fact.value.packages:
        wheel = _SERIES.match(package.name)
        if wheel is not None:
            series.setdefault(wheel["name"], []).append(package)
        elif _CUPY.match(package.name):
            series.setdefault("cupy", []).append(package)
    double = next((packages for packages in series.values() if len(packages) > 1), None)
    if double is not None:
        values = {"package": double[0].name, "framework": "cupy" if _CUPY.match(double[0].name) else "torch", "python": fact.value.path}
        quotes = tuple(package_quote(fact, package) for package in double[:2])
        yield Clue(cause=MIXED, quotes=quotes, subject=python_subject(fact.value), values=values)


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
            values = {"variable": "LD_LIBRARY_PATH", "path": toolkit.path, "framework": "torch", "python": fact.value.path}
            yield Clue(cause=PATH, quotes=quotes, subject=python_subject(fact.value), values=values)
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
