"""Child processes that can hang, flood or crash without taking the doctor down.

Each child is set apart from the doctor, has a limit in seconds, and a bound on what is kept of its output. At its limit it is killed
with all that it started; a child that survives that (uninterruptible sleep) is abandoned and reported, never waited for.
What differs between systems is in spawning.py.
"""

from __future__ import annotations

import errno
import selectors
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from cudadoctor.model.evidence import Item, Kind, Status
from cudadoctor.sources.decoding import decoded
from cudadoctor.sources.keeping import Keeper, alone, started
from cudadoctor.sources.spawning import PipeStream, end_tree, obey, stream_of

if TYPE_CHECKING:
    from cudadoctor.sources.keeping import Process

OUTPUT_LIMIT = 4 << 20  # bytes kept of each stream; the rest is counted and dropped
_AT_A_TIME = 16  # pieces taken from one child before the clock and the others are looked at
KILL_GRACE = 0.3  # seconds a killed child has to disappear
_REFUSED = 126  # the exit status of a shell for what cannot be executed
_TICK = 0.02  # seconds between looks at children whose pipes stay open after their end


class Child:
    """One running child. `over` becomes True when it ended, was killed or was abandoned."""

    def __init__(
        self,
        item: str,
        kind: Kind,
        argv: Sequence[str],
        *,
        limit: float,
        environment: dict[str, str],
        shown: tuple[str, ...],
        talks: bool = False,
        keeper: Keeper | None = None,
        most: int = OUTPUT_LIMIT,
        of_end: bool = False,
        errors: int | None = None,
    ) -> None:
        """`of_end`: of what is longer than `most` the end is kept, from the beginning of a line, and else the beginning. `errors`: of
        stderr no more than so much of the end is kept, and what is gone of it is nothing that is missed."""
        self.item, self.kind, self.shown = item, kind, shown
        self.started = time.monotonic()
        self.deadline = self.started + limit
        self.limit, self.most, self.of_end, self.errors = limit, most, of_end, errors
        self.status: Status = "ok"
        self.why: str | None = None
        self.over = False
        self.seconds = 0.0
        self.dropped = 0
        self.buffers: dict[str, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
        self.open_pipes: dict[str, PipeStream] = {}
        self.on_line: Callable[[str], None] | None = None
        self._line_start = 0
        self.process: Process | None = None
        self.refused: str | None = None
        try:
            start = keeper.start if keeper is not None else alone
            self.process = start(argv, environment, talks=talks)
        except FileNotFoundError:
            self._finish("absent", f"{shown[0]}: command not found")
        except PermissionError as error:
            self._finish("denied", f"{shown[0]}: {error.strerror}")
        except OSError as error:
            if error.errno == errno.ENOEXEC:  # it is there, and no program of this machine: what a shell says of it is an answer
                self.refused = f"{shown[0]}: cannot execute binary file: Exec format error\n"
            self._finish("not-run" if self.refused is None else "failed", f"{shown[0]}: {error.strerror}" if self.refused is None else None)
        else:
            assert self.process.stdout is not None
            assert self.process.stderr is not None
            self.open_pipes = {"stdout": stream_of(self.process.stdout), "stderr": stream_of(self.process.stderr)}

    def _finish(self, status: Status, why: str | None = None) -> None:
        self.status, self.why, self.over = status, why, True
        self.seconds = time.monotonic() - self.started
        for stream in filter(self._is_of_end, self.buffers):
            self._keep_end(stream)
        for pipe in self.open_pipes.values():
            pipe.close()
        self.open_pipes = {}
        if self.process is not None and self.process.stdin is not None:
            try:
                self.process.stdin.close()
            except OSError:
                pass  # the child is gone; what it did not read is lost with it

    def say(self, line: str) -> None:
        """Write one line to a talking child; a child that is gone is no error, its end is seen elsewhere."""
        if self.process is None or self.process.stdin is None or self.over:
            return
        try:
            self.process.stdin.write(line.encode())
            self.process.stdin.flush()
        except OSError:
            pass

    def read(self, stream: str) -> bool:
        """Take what is there, though not for ever: a program may write faster than it is read. False at the end of the stream."""
        pipe = self.open_pipes.get(stream)
        if pipe is None:
            return False
        for _ in range(_AT_A_TIME):
            chunk = pipe.take()
            if chunk is None:
                return True
            if not chunk:
                return False
            if self._is_of_end(stream):
                self.buffers[stream] += chunk
                if len(self.buffers[stream]) > 2 * self._most_of(stream):
                    self._keep_end(stream)
                continue
            room = self.most - len(self.buffers[stream])
            self.buffers[stream] += chunk[:room]
            self.dropped += max(0, len(chunk) - room)
            if stream == "stdout" and room > 0:
                self._announce_lines(len(chunk))
        return True

    def _is_of_end(self, stream: str) -> bool:
        return self.of_end or (stream == "stderr" and self.errors is not None)

    def _most_of(self, stream: str) -> int:
        return self.errors if stream == "stderr" and self.errors is not None else self.most

    def _keep_end(self, stream: str) -> None:
        buffer = self.buffers[stream]
        beyond = len(buffer) - self._most_of(stream)
        if beyond > 0:
            start = buffer.find(b"\n", beyond) + 1 or beyond
            del buffer[:start]
            self.dropped += start if self.of_end else 0

    def _announce_lines(self, added: int) -> None:
        """The lines that so many more bytes end."""
        buffer = self.buffers["stdout"]
        end = buffer.find(b"\n", max(self._line_start, len(buffer) - added))
        while end >= 0:
            line = bytes(buffer[self._line_start : end]).decode("utf-8", "replace")
            self._line_start = end + 1
            end = buffer.find(b"\n", self._line_start)
            if self.on_line is not None:
                self.on_line(line)

    def step(self, now: float) -> None:
        """Look whether it ended or reached its limit."""
        if self.over or self.process is None:
            return
        if self.process.poll() is not None:
            for stream, pipe in tuple(self.open_pipes.items()):
                pipe.settle()
                self.read(stream)  # what is still in the pipe; a grandchild may hold the other end open for ever
            code = self.process.returncode
            self._finish("ok" if code == 0 else "failed")
        elif getattr(self.process, "lost", False):  # that is no answer, and no silence of the program either
            self._finish("not-run", f"{self.shown[0]}: the process that watches over children was ended")
        elif now >= self.deadline:
            self.kill(f"no answer within {round(self.limit, 1):g} s")

    def kill(self, why: str) -> None:
        """End it with all that it started. What cannot be killed is abandoned."""
        if self.over or self.process is None:
            return
        for stream in tuple(self.open_pipes):
            self.read(stream)
        end_tree(self.process)
        try:
            self.process.wait(KILL_GRACE)
        except subprocess.TimeoutExpired:
            self._finish("abandoned", f"{why}, and the process could not be killed (uninterruptible sleep)")
        else:
            self._finish("timed-out", why)

    def text(self, stream: str) -> str:
        return decoded(bytes(self.buffers[stream]))

    def as_item(self) -> Item:
        """What it said and how it ended, as evidence."""
        code = self.process.returncode if self.process is not None else _REFUSED if self.refused is not None else None
        return Item(
            id=self.item,
            kind=self.kind,
            what=self.shown,
            status=self.status,
            why=self.why,
            exit=code if code is not None and code >= 0 and self.status in ("ok", "failed") else None,
            signal=-code if code is not None and code < 0 and self.status == "failed" else None,
            stdout=self.text("stdout") if self.process is not None or self.refused is not None else None,
            stderr=self.text("stderr") if self.process is not None else self.refused,
            dropped_bytes=self.dropped,
            seconds=round(self.seconds, 4),  # as recordings hold it: a replay must round alike
        )


def asked(argv: Sequence[str], environment: dict[str, str], seconds: float) -> subprocess.CompletedProcess[bytes] | None:
    """A program that changes nothing, with its output; None where it does not start, or not end in time."""
    keeper = started()
    try:
        child = Child("asked", "command", argv, limit=seconds, environment=environment, shown=tuple(argv), keeper=keeper)
        watch([child])
    finally:
        keeper.close()
    code = child.process.returncode if child.process is not None and child.status in ("ok", "failed") else None
    return subprocess.CompletedProcess(list(argv), code, bytes(child.buffers["stdout"])) if code is not None else None


def _ready(selector: selectors.BaseSelector, seconds: float) -> list[tuple[selectors.SelectorKey, int]]:
    if selector.get_map():
        return selector.select(seconds)
    time.sleep(seconds)  # Windows refuses to wait for nothing
    return []


def watch(children: Iterable[Child], until: Callable[[], bool] | None = None, on_over: Callable[[Child], None] | None = None) -> None:
    """Serve all children until each is over, or until `until()` is true."""
    waiting = [child for child in children if not child.over]
    with selectors.DefaultSelector() as selector:
        for child in waiting:
            for stream, pipe in child.open_pipes.items():
                selector.register(pipe.fileno(), selectors.EVENT_READ, (child, stream))
        while waiting and not (until is not None and until()):
            obey()
            # A child that closed its pipes is about to end: look again soon.
            for key, _ in _ready(selector, _TICK if all(child.open_pipes for child in waiting) else _TICK / 10):
                child, stream = key.data
                if not child.read(stream):
                    selector.unregister(key.fd)
                    child.open_pipes.pop(stream).close()
            now = time.monotonic()
            for child in waiting:
                fds = [pipe.fileno() for pipe in child.open_pipes.values()]
                child.step(now)
                if child.over:
                    for fd in fds:
                        if fd in selector.get_map():
                            selector.unregister(fd)
                    if on_over is not None:
                        on_over(child)
            waiting = [child for child in waiting if not child.over]
