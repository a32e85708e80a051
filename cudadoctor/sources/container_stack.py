"""What engines for containers a host has and how they are set up, without asking a daemon: programs, sockets and files of settings.

The text is what `which` and `grep -H` would print. Only lines that speak of runtimes, NVIDIA or CDI are taken: such files hold other
things too (registries, proxies with passwords) that concern nobody.
"""

from __future__ import annotations

import json
import os
import re

from cudadoctor.sources import plain_files
from cudadoctor.sources.programs import anywhere

PROGRAMS = ("docker", "podman", "nerdctl", "containerd", "nvidia-ctk", "nvidia-container-runtime")
SETTINGS = (
    "/etc/docker/daemon.json", "/var/snap/docker/current/config/daemon.json", "~/.config/docker/daemon.json", "/etc/containerd/config.toml",
    "/etc/containerd/conf.d", "/etc/nvidia-container-runtime/config.toml",
)  # fmt: skip
SPECIFICATIONS = ("/etc/cdi", "/var/run/cdi")
CONTEXT = "~/.docker/config.json"
SOCKETS = ("/var/run/docker.sock", "{runtime}/docker.sock", "~/.docker/desktop/docker.sock", "/run/containerd/containerd.sock")
_OF_SETTINGS = re.compile(r"nvidia|runtime|cdi", re.IGNORECASE)
_OF_SPECIFICATION = re.compile(r"cdiVersion|kind|libcuda\.so|^\s{0,12}-?\s{0,4}\"?name\"?:", re.IGNORECASE)
_DESKTOPS = ("desktop-linux", "desktop-windows")  # contexts that Docker Desktop makes; others are called after people and machines
FILE_LIMIT = 1 << 20
MOST_LINES, LONGEST = 200, 300


def read_container_stack(_: str) -> str:
    """FileNotFoundError where there is no engine."""
    programs = list(filter(None, map(_program, PROGRAMS)))
    if not programs:
        raise FileNotFoundError(2, "No such file or directory", "docker, podman, containerd")
    lines = programs + [f"socket: {path}" for path in map(_path, SOCKETS) if path and os.path.exists(path)]
    lines += _context()
    for path in filter(None, map(_path, SETTINGS)):
        lines += _matching(path, _OF_SETTINGS)
    for folder in SPECIFICATIONS:
        lines += _matching(folder, _OF_SPECIFICATION)
    return "".join(f"{line}\n" for line in lines)


def _path(template: str) -> str | None:
    """The path here; None where it needs a variable that is not set."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if "{runtime}" in template and not runtime:
        return None
    path = os.path.expanduser(template.replace("{runtime}", runtime or ""))
    return None if path.startswith("~") else path


def _program(name: str) -> str | None:
    found = anywhere(name, "/snap/bin")
    if found is None:
        return None
    target = os.path.realpath(found)
    return f"{name}: {found}" + (f" -> {target}" if target != found else "")


def _context() -> list[str]:
    """That `docker` talks to Docker Desktop, where the user chose it."""
    text, wrong = _read(_path(CONTEXT) or "")
    try:
        chosen = json.loads(text or "{}").get("currentContext")
    except (ValueError, AttributeError, RecursionError):
        return []
    return wrong or ([f"context: {chosen}"] if chosen in _DESKTOPS else [])


def _read(path: str) -> tuple[str | None, list[str]]:
    """A file's text, and what is told in its place: nothing where there is none."""
    try:
        return plain_files.text(path, FILE_LIMIT), []
    except FileNotFoundError:
        return None, []
    except OSError as error:
        return None, [f"{path}: {error.strerror}"]


def _matching(path: str, wanted: re.Pattern[str]) -> list[str]:
    """`path:line` for the lines of a file, or of the files of a folder, that match."""
    if os.path.isdir(path):
        try:
            names = sorted(os.listdir(path))[:50]
        except OSError as error:
            return [f"{path}: {error.strerror}"]
        return [line for name in names for line in _matching(os.path.join(path, name), wanted) if os.path.isfile(os.path.join(path, name))]
    text, wrong = _read(path)
    if text is None:
        return wrong
    return [f"{path}:{line[:LONGEST]}" for line in text.splitlines() if wanted.search(line)][:MOST_LINES] or [f"{path}:"]
