"""The engines for containers on a host, and what their settings say of NVIDIA: sources/container_stack.py says in which form."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import CONTAINER_STACK, CdiSpec, ContainerEngine, ContainerStack
from cudadoctor.model.version import ModuleVersion
from cudadoctor.parsers.base import Output, Text, parser

_PROGRAM = lazy(
    r"^(?P<name>docker|podman|nerdctl|containerd|nvidia-ctk|nvidia-container-runtime): (?P<path>/\S{1,300})(?: -> (?P<target>/\S{1,300}))?$"
)
_SETTING = lazy(r"^(?P<path>/[^:\n]{1,300}):(?P<line>.*)$")
_RUNTIME = lazy(r"nvidia-container-runtime|runtimes\.\"?nvidia\"?\]|\"nvidia\"\s{0,4}:\s{0,4}\{")
_KIND = lazy(r"kind\"?: {0,4}\"?(?P<kind>nvidia\.com/\w{2,12})")
_NAME = lazy(r"name\"?: {0,4}\"?(?P<name>[\w:-]{1,80})")
_LIBRARY = lazy(r"libcuda\.so\.(?P<version>\d{3}\.\d{1,3}(?:\.\d{1,3})?)")
TOOLKIT = ("nvidia-ctk", "nvidia-container-runtime")
_DESKTOP = lazy(r"^socket: .*/desktop/docker\.sock$|^context: .*desktop")
_SPECIFICATIONS = ("/etc/cdi/", "/var/run/cdi/")
Setting = tuple[int, "re.Match[str]"]  # a line of a file of settings, by its number here


def parse(text: Text) -> Output:
    programs, settings = list(text.rows(_PROGRAM)), list(text.rows(_SETTING))
    engines = tuple(_engine(program, number) for number, program in programs if program["name"] not in TOOLKIT)
    if not engines:
        return
    denied = [setting["path"] for _, setting in settings if setting["line"].startswith(" Permission")]
    read = [(number, setting) for number, setting in settings if not setting["line"].startswith(" Permission")]
    value = ContainerStack(
        engines=engines,
        toolkit=next((program["path"] for _, program in programs if program["name"] in TOOLKIT), None),
        runtimes=_runtimes(read),
        rootless=any(line.startswith("socket: /run/user/") for line in text.lines),
        desktop=any(_DESKTOP.match(line) for line in text.lines),
        denied=tuple(denied),
        specifications=_specifications(read),
    )
    yield text.fact(CONTAINER_STACK, value, text.quote(1, len(engines)))


def _engine(program: re.Match[str], number: int) -> ContainerEngine:
    path, target = program["path"], program["target"] or ""
    return ContainerEngine(name=program["name"], path=path, snap="/snap/" in path or target.endswith("/bin/snap"), line=number)


def _specifications(settings: Iterable[Setting]) -> tuple[CdiSpec, ...]:
    files: dict[str, dict[str, Any]] = {}
    for number, setting in settings:
        if not setting["path"].startswith(_SPECIFICATIONS):
            continue
        found = files.setdefault(setting["path"], {"path": setting["path"], "line": number, "devices": ()})
        kind, name, library = (pattern.search(setting["line"]) for pattern in (_KIND, _NAME, _LIBRARY))
        if kind is not None:
            found["kind"] = kind["kind"]
        elif library is not None and "driver" not in found:
            found["driver"], found["line"] = ModuleVersion(library["version"]), number
        elif name is not None and name["name"] not in found["devices"]:
            found["devices"] += (name["name"],)
    return tuple(CdiSpec(**found) for found in files.values())


def _runtimes(settings: Iterable[Setting]) -> dict[str, int]:
    """The first line of each file that names the runtime. The toolkit's own settings are no engine's."""
    found: dict[str, int] = {}
    for number, setting in settings:
        if not setting["path"].startswith((*_SPECIFICATIONS, "/etc/nvidia-container-runtime/")) and _RUNTIME.search(setting["line"]):
            found.setdefault(setting["path"], number)
    return found


PARSER = parser("container_stack", parse, CONTAINER_STACK, reads=("container-stack",), absent=True)
