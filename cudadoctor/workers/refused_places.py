"""What the kernel keeps from a process: places that it may not read, and mounts from which it loads nothing or opens no device.

Loaded by python_env.py and loaded_files.py. An event `refused` names the first place on the way that stands in the way, and why.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def unreadable(path: str) -> str | None:
    """The first folder on the way to a file or folder, or itself, that this process may not read. None: it may, or nothing is there."""
    here = os.sep
    for part in [name for name in path.split(os.sep) if name]:
        if not os.access(here, os.X_OK):
            return here
        here = os.path.join(here, part)
        if not os.path.lexists(here):
            return None
    if os.path.exists(here) and not os.access(here, os.R_OK | (os.X_OK if os.path.isdir(here) else 0)):
        return here
    target = os.path.realpath(here)
    return unreadable(target) if target != here else None


def mounted(path: str, option: str) -> bool:
    """Whether it lies on a mount with this option: ST_NODEV or ST_NOEXEC."""
    try:
        return bool(os.statvfs(path).f_flag & getattr(os, option))
    except (AttributeError, OSError):
        return False


def report(emit: Callable[..., None], paths: Iterable[str], loaded: Iterable[str] = ()) -> None:
    """`loaded`: those from which libraries are loaded."""
    if os.name != "posix":
        return
    stuck = dict.fromkeys(filter(None, map(unreadable, paths)))
    for place in stuck:
        emit("refused", path=place, why="unreadable")
    for place in dict.fromkeys(loaded):
        if mounted(place, "ST_NOEXEC"):
            emit("refused", path=place, why="noexec")
