"""What needs a look in trees of files, for sources/trust.py, which asks whether they are root's alone: `find` lists it, in a child that may
be started long before somebody asks.

A tree may lie on a share that no longer answers. All listings that take too long are waited for once, together; a child that does not end
even when it is killed is left to itself, and the kernel ends what can be ended when this process does.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

from cudadoctor.sources.spawning import apart, end_tree, ends_with_parent, stream_of

_PATIENCE = 15.0  # seconds to look through trees, all of them together
_LEAST = 0.5  # the same where others took too long before it
_FORGOTTEN = 60.0  # seconds after which what was waited for in vain counts no more: a server looks again
# Whatever belongs to others, is open to others, leads elsewhere or may name libraries.
_LOOKED_FOR = [
    "(", "!", "-user", "0", "-o", "-perm", "-0002", "-o", "-perm", "-0020", "-o", "-type", "l", "-o", "-name", "*.so*", ")", "-print0",
]  # fmt: skip
_in_vain = []  # type: list[tuple[float, float]] # when a listing had taken too long, and for how many seconds it was waited for
_ends = []  # type: list[float] # when the run that asks is over (time.monotonic)


@contextmanager
def until(when: float) -> Iterator[None]:
    """Within this no listing is waited for beyond that moment (time.monotonic): the run that asks has a limit of its own."""
    _ends.append(when)
    try:
        yield
    finally:
        _ends.remove(when)


def _patience() -> float:
    """Seconds that the next listing may take."""
    now = time.monotonic()
    lost = sum(seconds for when, seconds in _in_vain if when > now - _FORGOTTEN)
    return max(_LEAST, min([_PATIENCE - lost, *(end - now for end in _ends)]))


class Listing:
    """`find` on some trees."""

    def __init__(self, find: str, roots: list[str]) -> None:
        quiet = subprocess.DEVNULL
        self.roots = roots
        self.found = ()  # type: tuple[str, ...]
        self._child = subprocess.Popen(
            [find, *roots, *_LOOKED_FOR], stdin=quiet, stdout=subprocess.PIPE, stderr=quiet, env={"LC_ALL": "C"},
            preexec_fn=ends_with_parent(), **apart(),
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
                self._failure = OSError(errno.ETIME, f"it takes longer than {patience:.2g} s")
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
        child.returncode = -signal.SIGKILL  # what was killed is nobody's to wait for
