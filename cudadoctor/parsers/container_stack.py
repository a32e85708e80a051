"""The engines for containers on a host, and what their settings say of NVIDIA: sources/container_stack.py says in which form."""

from __future__ import annotations

import re
from typing import Any

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import CONTAINER_STACK, CdiSpec, ContainerEngine, ContainerStack
from cudadoctor.model.version import ModuleVersion
from cudadoctor.parsers.base import Output, Parser, Text

_PROGRAM = lazy(
    r"^(?P<name>docker|podman|nerdctl|containerd|nvidia-ctk|nvidia-container-runtime): (?P<path>/\S{1,300})(?: -> (?P<target>/\S{1,300}))?$"
)
_SETTING = lazy(r"^(?P<path>/[^:\n]{1,300}):(?P<line>.*)$")
_RUNTIME = lazy(r"nvidia-container-runtime|runtimes\.\"?nvidia\"?\]|\"nvidia\"\s{0,4}:\s{0,4}\{")
_KIND = lazy(r"kind\"?: {0,4}\"?(?P<kind>nvidia\.com/\w{2,12})")
_NAME = lazy(r"name\"?: {0,4}\"?(?P<name>[\w:-]{1,80})")
_LIBRARY = lazy(r"libcuda\.so\.(?P<version>\d{3}\.\d{1,3}(?:\.\d{1,3})?)")
TOOLKIT = ("nvidia-ctk", "nvidia-container-runtime")
_SPECIFICATIONS = ("/etc/cdi/", "/var/run/cdi/")


def parse(text: Text) -> Output:
    """One fact with all of it."""
    engines: list[ContainerEngine] = []
    specifications: dict[str, dict[str, Any]] = {}
    stack: dict[str, Any] = {"toolkit": None, "runtimes": {}, "rootless": False, "desktop": False, "denied": []}
    for number, line in enumerate(text.lines, 1):
        program = _PROGRAM.match(line)
        setting = _SETTING.match(line) if program is None else None
        if program is not None and program["name"] in TOOLKIT:
            stack["toolkit"] = stack["toolkit"] or program["path"]
        elif program is not None:
            engines.append(_engine(program, number))
        elif line.startswith("socket: "):
            stack["rootless"] = stack["rootless"] or line.startswith("socket: /run/user/")
            stack["desktop"] = stack["desktop"] or line.endswith("/desktop/docker.sock")
        elif line.startswith("context: "):
            stack["desktop"] = stack["desktop"] or "desktop" in line
        elif setting is None:
            continue
        elif setting["line"].startswith(" Permission"):
            stack["denied"].append(setting["path"])
        elif setting["path"].startswith(_SPECIFICATIONS):
            _specified(
                specifications.setdefault(setting["path"], {"path": setting["path"], "line": number, "devices": []}), setting, number
            )
        else:
            _set(stack, setting, number)
    if engines:
        value = ContainerStack(
            engines=tuple(engines),
            toolkit=stack["toolkit"],
            runtimes=stack["runtimes"],
            rootless=stack["rootless"],
            desktop=stack["desktop"],
            denied=tuple(stack["denied"]),
            specifications=tuple(CdiSpec(**{**found, "devices": tuple(found["devices"])}) for found in specifications.values()),
        )
        yield text.fact(CONTAINER_STACK, value, text.quote(1, len(engines)))


def _engine(program: re.Match[str], number: int) -> ContainerEngine:
    path, target = program["path"], program["target"] or ""
    return ContainerEngine(name=program["name"], path=path, snap="/snap/" in path or target.endswith("/bin/snap"), line=number)


def _specified(found: dict[str, Any], setting: re.Match[str], number: int) -> None:
    kind, name, library = (pattern.search(setting["line"]) for pattern in (_KIND, _NAME, _LIBRARY))
    if kind is not None:
        found["kind"] = kind["kind"]
    elif library is not None and "driver" not in found:
        found["driver"], found["line"] = ModuleVersion(library["version"]), number
    elif name is not None and name["name"] not in found["devices"]:
        found["devices"].append(name["name"])


def _set(stack: dict[str, Any], setting: re.Match[str], number: int) -> None:
    if setting["path"].startswith("/etc/nvidia-container-runtime/"):
        return  # the toolkit's own settings: no engine's
    if _RUNTIME.search(setting["line"]):
        stack["runtimes"].setdefault(setting["path"], number)


PARSER = Parser(
    name="container_stack", reads=("container-stack",), keys=(CONTAINER_STACK.name,), absent=(CONTAINER_STACK.name,), parse=parse
)
