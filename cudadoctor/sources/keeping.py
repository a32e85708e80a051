"""Starts children so that none outlives this process: on Linux under a supervisor (workers/supervisor.py), elsewhere by themselves.

A child of either kind has what subprocess.Popen has: pid, returncode, the pipes, poll and wait.
"""

from __future__ import annotations

import array
import marshal
import os
import select
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, Any

from cudadoctor.sources import inherited
from cudadoctor.sources.interpreters import worker_path
from cudadoctor.sources.spawning import apart

if TYPE_CHECKING:
    from typing import TypeAlias

    Process: TypeAlias = "subprocess.Popen[bytes] | Kept"

LENGTH = struct.Struct(">Q")
PATIENCE = 5.0  # seconds in which the supervisor starts a child; then it is started without
FAREWELL = 3.5  # seconds that the supervisor may take to end what is left


def alone(argv: Sequence[str], environment: dict[str, str], *, talks: bool) -> Process:
    """A child without a supervisor. OSError where it cannot be started."""
    return subprocess.Popen(
        list(argv),
        stdin=subprocess.PIPE if talks else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        **apart(),
    )


class Kept:
    """A child of the supervisor's."""

    def __init__(self, keeper: Keeper, name: int, pid: int, pipes: Sequence[IO[bytes] | None]) -> None:
        self.keeper, self.name, self.pid = keeper, name, pid
        self.stdin, self.stdout, self.stderr = pipes

    @property
    def returncode(self) -> int | None:
        return self.keeper.codes.get(self.name)

    @property
    def lost(self) -> bool:
        """The supervisor is gone, and with it the word on how this child ended."""
        return self.keeper.lost and self.returncode is None

    def poll(self) -> int | None:
        self.keeper.listen(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            code = self.poll()
            if code is not None:
                return code
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                raise subprocess.TimeoutExpired([str(self.pid)], timeout or 0)
            self.keeper.listen(left if left is not None else 1.0)

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, 9)


class Keeper:
    """The supervisor of one collection, started at once; `close` ends whatever is left of its children."""

    def __init__(self) -> None:
        self.codes: dict[int, int] = {}
        self.answers: dict[int, tuple[str, int]] = {}
        self.buffer = bytearray()
        self.lost = False
        self.count = 0
        self.line: socket.socket | None = None
        self.supervisor: subprocess.Popen[bytes] | None = None
        if not sys.platform.startswith("linux"):
            return
        ours, theirs = socket.socketpair()
        try:
            self.supervisor = subprocess.Popen(
                [sys.executable, "-I", "-S", "-B", worker_path("supervisor.py"), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env=inherited.some_of_it(("LD_LIBRARY_PATH",)),  # which this interpreter may need to start
                **apart(),
            )
        except OSError:
            ours.close()
        else:
            self.line = ours
        theirs.close()

    def start(self, argv: Sequence[str], environment: dict[str, str], *, talks: bool) -> Process:
        """A child under the supervisor, without one where it gives no answer. OSError where it cannot be started."""
        if self.line is None:
            return alone(argv, environment, talks=talks)
        self.count += 1
        stdin = os.pipe() if talks else (os.open(os.devnull, os.O_RDONLY), -1)
        stdout, stderr = os.pipe(), os.pipe()
        theirs = (stdin[0], stdout[1], stderr[1])
        variables = {os.fsencode(name): os.fsencode(value) for name, value in environment.items()}
        try:
            self._ask((self.count, [os.fsencode(word) for word in argv], variables), theirs)
            answer = self._answer(self.count)
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        pipes = (os.fdopen(stdin[1], "wb") if talks else None, os.fdopen(stdout[0], "rb", 0), os.fdopen(stderr[0], "rb", 0))
        if answer is not None and answer[0] == "started":
            return Kept(self, self.count, answer[1], pipes)
        for pipe in pipes:
            if pipe is not None:
                pipe.close()
        if answer is None:
            self.close()
            return alone(argv, environment, talks=talks)
        raise OSError(answer[1], os.strerror(answer[1]))

    def _ask(self, words: Any, descriptors: Sequence[int]) -> None:
        assert self.line is not None
        body = marshal.dumps(words)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
        try:
            self.line.sendmsg([LENGTH.pack(len(body))], rights)
            self.line.sendall(body)
        except OSError:
            pass  # the supervisor is gone; no answer will come

    def _answer(self, name: int) -> tuple[str, int] | None:
        end = time.monotonic() + PATIENCE
        while name not in self.answers and time.monotonic() < end:
            if not self.listen(max(0.0, end - time.monotonic())):
                return None
        return self.answers.pop(name, None)

    def listen(self, seconds: float) -> bool:
        """Take what the supervisor says within that time; False where it is gone."""
        if self.line is None or not select.select([self.line], [], [], seconds)[0]:
            return self.line is not None
        try:
            chunk = self.line.recv(1 << 16)
        except OSError:
            chunk = b""
        self.buffer += chunk
        while len(self.buffer) >= LENGTH.size:
            end = LENGTH.size + LENGTH.unpack_from(self.buffer)[0]
            if len(self.buffer) < end:
                break
            word, name, number = marshal.loads(bytes(self.buffer[LENGTH.size : end]))  # noqa: S302 - our own child's
            del self.buffer[:end]
            if word == "ended":
                self.codes[name] = number
            else:
                self.answers[name] = (word, number)
        self.lost = not chunk
        return bool(chunk)

    def close(self) -> None:
        """Ends the supervisor with all that it started."""
        if self.line is not None:
            self.line.close()
            self.line = None
        if self.supervisor is not None:
            try:
                self.supervisor.wait(FAREWELL)
            except subprocess.TimeoutExpired:
                self.supervisor.kill()  # what it waits for cannot be ended
                self.supervisor.wait()


_ahead: list[Keeper] = []


def start_ahead() -> None:
    """Start the supervisor of a collection that is to come: that takes as long as all that comes before the first probe. Where there is
    none in the end it is gone with this process, as every supervisor is."""
    if not _ahead:
        _ahead.append(Keeper())


def started() -> Keeper:
    """That supervisor, else one that starts now."""
    return _ahead.pop() if _ahead else Keeper()
