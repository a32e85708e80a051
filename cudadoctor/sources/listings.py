"""What needs a look in trees of files, for sources/trust.py, which asks whether they are root's alone: `find` lists it, in a child that may
be started long before somebody asks.
"""

from __future__ import annotations

import errno
import os
import subprocess

_PATIENCE = 15.0  # seconds to look through what one child lists
# Whatever belongs to others, is open to others, leads elsewhere or may name libraries.
_LOOKED_FOR = [
    "(", "!", "-user", "0", "-o", "-perm", "-0002", "-o", "-perm", "-0020", "-o", "-type", "l", "-o", "-name", "*.so*", ")", "-print0",
]  # fmt: skip


class Listing:
    """`find` on some trees."""

    def __init__(self, find: str, roots: list[str]) -> None:
        quiet = subprocess.DEVNULL
        self.roots = roots
        self.found = ()  # type: tuple[str, ...]
        self._child = subprocess.Popen(
            [find, *roots, *_LOOKED_FOR], stdin=quiet, stdout=subprocess.PIPE, stderr=quiet, cwd="/", env={"LC_ALL": "C"}
        )  # type: subprocess.Popen[bytes] | None
        self._failure = None  # type: OSError | None

    def failure(self) -> OSError | None:
        """Why not all of it could be seen, when it has ended."""
        child, self._child = self._child, None
        if child is not None:
            try:
                out, _ = child.communicate(timeout=_PATIENCE)
                self.found = tuple(os.fsdecode(path) for path in out.split(b"\0") if path)
                self._failure = OSError(errno.EACCES, "not every folder of it can be read") if child.returncode != 0 else None
            except subprocess.TimeoutExpired:
                child.kill()
                child.communicate()
                self._failure = OSError(errno.ETIME, f"it takes longer than {_PATIENCE:g} s")
        return self._failure

    def end(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.communicate()
            self._child = None
