"""Installed frameworks: what the names of packages say of each, completed by what the worker python_env read in its files.

Part of parsers/worker_python_env.py. A recording of an older worker has the names alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import FrameworkBuild, PythonPackage
from cudadoctor.model.version import ToolkitVersion
from cudadoctor.parsers.json_lines import Record, build

Kind = Literal["cuda", "cpu", "rocm"]
Packages = Mapping[str, PythonPackage]
# The distributions that may hold a framework, those first that decide its build.
_HOLDERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("torch", ("torch", "pytorch")),
    ("tensorflow", ("tensorflow", "tensorflow-gpu", "tensorflow-cpu", "tensorflow-intel")),
    ("jax", ("jaxlib", "jax")),
    ("pycuda", ("pycuda",)),
    ("onnxruntime", ("onnxruntime-gpu", "onnxruntime")),
    ("bitsandbytes", ("bitsandbytes",)),
)
_NAMED: dict[str, Kind] = {
    "tensorflow-gpu": "cuda",
    "tensorflow-cpu": "cpu",
    "tensorflow-intel": "cpu",
    "onnxruntime-gpu": "cuda",
    "pycuda": "cuda",
}
_CUPY = lazy(r"^cupy(?:-cuda(?P<major>\d{2})(?P<minor>\d)?x?|-rocm.*)?$")
_PLUGIN = lazy(r"^jax-cuda(?P<major>\d{2})-(?:plugin|pjrt)$")
# cu128, cu130; conda's cuda129_..., cuda12.9_..., py3.9_cuda11.8_...; jaxlib's cuda12.cudnn89.
_TAG = lazy(r"(?:^|_)cu(?:da)?(?P<major>\d{2})\.?(?P<minor>\d)?")
_CPU = lazy(r"^cpu|_cpu")


def builds_of(packages: Packages, stated: Iterable[Record], *, whole: bool) -> tuple[FrameworkBuild, ...]:
    """One entry for each framework that is installed. `whole`: a package that is not listed is not there."""
    files = {name: record for record in stated if isinstance(name := record.fields.get("name"), str)}
    found = [_of_names(name, holders, packages) for name, holders in _HOLDERS]
    found.insert(3, _of_cupy(packages))
    named = {entry.name: entry for entry in found if entry is not None}
    for name, record in files.items():
        completed = _completed(named.get(name), record)
        if completed is not None:
            named[name] = completed
    jax = named.get("jax")
    if jax is not None and jax.kind is None and whole and "jaxlib" in packages:
        named["jax"] = msgspec.structs.replace(jax, kind="cpu")  # its GPU code is a package of its own
    return tuple(named.values())


def _of_names(name: str, holders: tuple[str, ...], packages: Packages) -> FrameworkBuild | None:
    entry = next((packages[holder] for holder in holders if holder in packages), None)
    if entry is None:
        return None
    kind, cuda = _of_tag(entry.build)
    if name == "jax":
        plugin = next((found for found in map(_PLUGIN.match, sorted(packages)) if found is not None), None)
        kind, cuda = ("cuda", ToolkitVersion(plugin["major"])) if plugin is not None else (kind, cuda)
    kind = kind or _NAMED.get(entry.name)
    if entry.name == "onnxruntime" and kind is None and "conda-meta" not in (entry.path or "") and entry.build is None:
        kind = "cpu"
    return FrameworkBuild(name=name, package=entry.name, version=entry.version, kind=kind, cuda=cuda)


def _of_tag(tag: str | None) -> tuple[Kind | None, ToolkitVersion | None]:
    if tag is None:
        return None, None
    if tag.startswith("rocm"):
        return "rocm", None
    found = _TAG.search(tag)
    if found is not None:
        return "cuda", ToolkitVersion(found["major"] + (f".{found['minor']}" if found["minor"] else ""))
    return ("cpu", None) if _CPU.search(tag) else (None, None)


def _of_cupy(packages: Packages) -> FrameworkBuild | None:
    for name in sorted(packages):
        found = _CUPY.match(name)
        if found is not None:
            entry = packages[name]
            kind, cuda = _of_tag(entry.build)
            if found["major"]:
                cuda = ToolkitVersion(found["major"] + (f".{found['minor']}" if found["minor"] else ""))
            own: Kind = "rocm" if "rocm" in name else "cuda"
            return FrameworkBuild(name="cupy", package=name, version=entry.version, kind=kind or own, cuda=cuda)
    return None


def _completed(named: FrameworkBuild | None, record: Record) -> FrameworkBuild | None:
    """Files know better than names; what they do not say, names may."""
    fields: dict[str, Any] = {name: value for name, value in record.fields.items() if value not in (None, [], {})}
    listed = fields.pop("builds", [])
    builds = tuple(ToolkitVersion(text) for text in listed if isinstance(text, str)) if isinstance(listed, list) else ()
    made = build(FrameworkBuild, fields, line=record.line, builds=builds)
    if made is None or named is None:
        return made
    if made.kind is None:
        made = msgspec.structs.replace(made, kind=named.kind)
    if made.cuda is None and made.kind == "cuda":
        made = msgspec.structs.replace(made, cuda=named.cuda)
    return made
