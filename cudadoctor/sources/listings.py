"""What needs a look in trees of files, for sources/trust.py, which asks whether they are root's alone: `find` lists it, in a child that may
be started long before somebody asks.

A tree may lie on a share that no longer answers. All listings that take too long are waited for once, together; a child that does not end
even when it is killed is left to itself, and the kernel ends what can be ended when this process does.
"""

from __future__ import annotations

import errno
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable

from cudadoctor.sources.spawning import apart, end_tree, stream_of

_PATIENCE = 15.0  # seconds to look through trees, all of them together
_LEAST = 0.5  # the same where others took too long before it
_FORGOTTEN = 60.0  # seconds after which what was waited for in vain counts no more: a server looks again
_DEATH_SIGNAL, _SIGKILL = 1, 9  # of prctl(2)
# Whatever belongs to others, is open to others, leads elsewhere or may name libraries.
_LOOKED_FOR = [
    "(", "!", "-user", "0", "-o", "-perm", "-0002", "-o", "-perm", "-0020", "-o", "-type", "l", "-o", "-name", "*.so*", ")", "-print0",
]  # fmt: skip
_in_vain = []  # type: list[tuple[float, float]] # when a listing had taken too long, and for how many seconds it was waited for
_ends = []  # type: list[float] # when the run that asks is over (time.monotonic)


def end_by(when: float) -> None:
    """No listing is waited for beyond this moment (time.monotonic): the run that asks has a limit of its own."""
    _ends[:] = [when]


def _patience() -> float:
    """Seconds that the next listing may take."""
    now = time.monotonic()
    lost = sum(seconds for when, seconds in _in_vain if when > now - _FORGOTTEN)
    return max(_LEAST, min([_PATIENCE - lost, *(end - now for end in _ends)]))


def no_end() -> None:
    """The run that had a limit is over."""
    _ends.clear()


def _with_parent() -> Callable[[], object] | None:
    """What the child calls before `find` begins, so that it ends with this process; nothing on other systems."""
    if not sys.platform.startswith("linux"):
        return None
    import ctypes

    try:
        prctl = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return None
    return lambda: prctl(_DEATH_SIGNAL, _SIGKILL, 0, 0, 0)


class Listing:
    """`find` on some trees."""

    def __init__(self, find: str, roots: list[str]) -> None:
        quiet = subprocess.DEVNULL
        self.roots = roots
        self.found = ()  # type: tuple[str, ...]
        self._child = subprocess.Popen(
            [find, *roots, *_LOOKED_FOR], stdin=quiet, stdout=subprocess.PIPE, stderr=quiet, env={"LC_ALL": "C"}, preexec_fn=_with_parent(),
            **apart(),
        )  # type: subprocess.Popen[bytes] | None  # fmt: skip
        self._failure = None  # type: OSError | None

    def failure(self) -> OSError | None:
        """Why not all of it could be seen, when it has ended."""
        child, self._child = self._child, None
        if child is not None:
            patience, began = _patience(), time.monotonic()
            out = _read(child, began + patience)
            if out is None:
                _in_vain.append((time.monotonic(), time.monotonic() - began))
                self._failure = OSError(errno.ETIME, f"it takes longer than {_PATIENCE:g} s")
                _leave(child)
            else:
                self.found = tuple(os.fsdecode(path) for path in out.split(b"\0") if path)
                self._failure = OSError(errno.EACCES, "not every folder of it can be read") if child.wait() != 0 else None
        return self._failure

    def end(self) -> None:
        if self._child is not None:
            _leave(self._child)
            self._child = None


def _read(child: subprocess.Popen[bytes], until: float) -> bytes | None:
    """All that it prints; None where it has not ended by then."""
    assert child.stdout is not None
    stream = stream_of(child.stdout)
    found = []  # type: list[bytes]
    while True:
        chunk = stream.take()
        if chunk == b"":
            stream.close()
            return b"".join(found)
        if chunk is not None:
            found.append(chunk)
        elif not select.select([stream], [], [], max(0.0, until - time.monotonic()))[0]:
            return None


def _leave(child: subprocess.Popen[bytes]) -> None:
    """Kill it, and wait for nothing: one that hangs in the kernel ends when the kernel lets it."""
    end_tree(child)
    assert child.stdout is not None
    child.stdout.close()
    if child.poll() is None:
        child.returncode = -_SIGKILL  # what was killed is nobody's to wait for
