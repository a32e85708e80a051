"""The limits of the control group in which this process runs and of those around it, and how many processes the kernel killed for them.

As `grep -H . FILE` prints them: `/sys/fs/cgroup/job/memory.max:209715200`. Version 2 keeps all in one tree, version 1 has one for each
kind.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from cudadoctor.sources.decoding import beginning

_LIMIT = 1 << 16  # characters of one file
_ROOT = "/sys/fs/cgroup"
_UNIFIED = ("memory.max", "memory.events", "pids.max")
_SEPARATE = {"memory": ("memory.limit_in_bytes", "memory.oom_control"), "pids": ("pids.max",)}
_DEEPEST = 32  # groups within groups


def read_control_group(path: str) -> str:
    """`path` is /proc/self/cgroup. FileNotFoundError where this kernel has no control groups that may be read."""
    lines = [line for folder, names in _groups(beginning(path, _LIMIT)) for name in names for line in _lines(f"{folder}/{name}")]
    if not lines:
        raise FileNotFoundError(2, "No such file or directory", _ROOT)
    return "".join(f"{line}\n" for line in dict.fromkeys(lines))


def _groups(own: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each group from the process's own to the outermost that is seen here, and the files to read in it."""
    for line in own.split("\n"):
        _, _, rest = line.partition(":")
        kinds, _, group = rest.partition(":")
        if not group.startswith("/"):
            continue
        for kind, names in _SEPARATE.items() if kinds else (("", _UNIFIED),):
            if kind in kinds.split(","):
                for top in (f"{_ROOT}/{kind}",) if kind else (_ROOT, f"{_ROOT}/unified"):
                    yield from ((folder, names) for folder in _upwards(top, group))


def _upwards(top: str, group: str) -> Iterator[str]:
    """The folders of a group and of those around it. In a container the group's own path may not be seen: then its top is the group."""
    parts = [part for part in group.split("/") if part]
    if ".." in parts or not os.path.isdir("/".join((top, *parts))):
        parts = []
    for depth in range(min(len(parts), _DEEPEST), -1, -1):
        yield "/".join((top, *parts[:depth]))


def _lines(path: str) -> Iterator[str]:
    """A limit, or of the counters the one that tells of kills."""
    for line in beginning(path, _LIMIT).split("\n"):
        if line and (not path.endswith((".events", "_control")) or line.startswith("oom_kill ")):
            yield f"{path}:{line}"
