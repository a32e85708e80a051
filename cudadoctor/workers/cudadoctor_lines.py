"""What workers share: a search path without their own folder, JSON lines, the loading of modules beside them, and what several read.

A worker puts this folder before its search path, imports from here, and the folder is off the path again: its files must not hide modules
of the examined interpreter, and nothing of the working directory is loaded either.
"""

from __future__ import annotations

# ruff: noqa: E402 - the path is put right before anything is imported
import sys

HERE = __file__.replace("\\", "/").rpartition("/")[0]
sys.path[:] = [entry for entry in sys.path if entry.replace("\\", "/") not in ("", HERE)]

import os

sys.path[:] = [
    entry for entry in sys.path if os.path.realpath(entry) != os.path.realpath(HERE)
]  # where a link leads here, Python put its end
if "" in os.environ.get("PYTHONPATH", "x").split(os.pathsep):  # an empty entry there means the working directory
    sys.path[:] = [entry for entry in sys.path if entry != os.getcwd()]

import json

TYPE_CHECKING = False  # importing typing would cost as much as a whole worker
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

COMMAND_LINE = 4096  # bytes
_OUT = 1  # where JSON goes; `start` moves it
_LOADED: dict[str, Any] = {}


def follow_parent() -> None:
    """Ask the kernel to end this process with its parent. Where it cannot, the parent's own limits must do."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)  # PR_SET_PDEATHSIG, SIGKILL
    except Exception:
        pass


def start() -> None:
    """Leave when the parent dies, and keep JSON apart from anything that libraries print."""
    global _OUT
    follow_parent()
    _OUT = os.dup(1)
    os.dup2(2, 1)


def emit(event: str, **fields: Any) -> None:
    """One JSON line."""
    write(_OUT, json.dumps(dict(event=event, **fields), ensure_ascii=False))


def write(descriptor: int, line: str) -> None:
    data = (line + "\n").encode("utf-8", "replace")
    while data:
        data = data[os.write(descriptor, data) :]


def sibling(name: str) -> Any:
    """A module of this folder, loaded by its path."""
    if name not in _LOADED:
        from importlib.machinery import SourceFileLoader

        loader = SourceFileLoader("cudadoctor_" + name, os.path.join(HERE, name + ".py"))
        module = type(sys)(loader.name)
        module.__file__ = loader.path
        loader.exec_module(module)
        _LOADED[name] = module
    return _LOADED[name]


def listing(folder: str) -> list[str]:
    """Sorted names in a folder; none where it cannot be listed."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def normal(name: str) -> str:
    """A distribution's name as the index writes it."""
    return name.lower().replace("_", "-").replace(".", "-")


def distributions_in(folder: str) -> Iterator[tuple[str, str, str]]:
    """Name, version and metadata of each distribution in a folder of packages, by the name of its metadata."""
    for entry in listing(folder):
        stem, _, kind = entry.rpartition(".")
        name, _, version = stem.partition("-")
        if kind in ("dist-info", "egg-info"):
            yield normal(name), version.partition("-")[0], entry


def mapped_files() -> Iterator[tuple[int, int, str]]:
    """First and last address and path of each file that this process has loaded. Linux alone says it: OSError elsewhere."""
    for line in read("/proc/self/maps").splitlines():
        fields = line.split(None, 5)
        if len(fields) > 5:
            first, _, last = fields[0].partition("-")
            yield int(first, 16), int(last, 16), fields[5]


def read(path: str) -> str:
    """A whole file of /proc, whatever bytes it holds."""
    with open(path, "rb") as file:
        return file.read().decode("utf-8", "replace")


def beginning(path: str, most: int = 1 << 20, errors: str = "replace") -> str:
    """So many bytes of a file as text; nothing where it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(most).decode("utf-8", errors)
    except OSError:
        return ""


def stat_fields(pid: int) -> tuple[str, list[str]]:
    """Name and the fields after it of /proc/PID/stat. The name may hold blanks and brackets."""
    before, _, after = read("/proc/%d/stat" % pid).rpartition(")")
    return before.partition("(")[2], after.split()


def pids() -> list[int]:
    """All processes that this one sees. OSError on a system without /proc."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def held_open(folder: str, prefixes: tuple[str, ...]) -> set[str]:
    """The files of a folder such as /proc/PID/fd whose path begins so. OSError where it may not be listed."""
    found = set()
    for number in os.listdir(folder):
        try:
            target = os.readlink(folder + "/" + number)
        except OSError:
            continue  # it was closed meanwhile
        if target.startswith(prefixes):
            found.add(target)
    return found


def command_line(pid: int) -> str:
    """Its beginning, for a process may say that gigabytes are its own. Empty where it ended, or is another user's."""
    return beginning("/proc/%d/cmdline" % pid, COMMAND_LINE).replace("\0", " ").strip()


def option(arguments: list[str], name: str, otherwise: Any = None) -> Any:
    """The word after an option."""
    return arguments[arguments.index(name) + 1] if name in arguments[:-1] else otherwise
