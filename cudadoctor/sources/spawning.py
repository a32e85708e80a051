"""How a child process is set apart, read and ended on this system: what POSIX and Windows do differently, and nothing else.

POSIX gives each child a session and ends it by its process group; its pipes are read without blocking. Windows has neither: a child
gets a process group of its own, its tree is ended process by process, and a thread hands each pipe on to a socket, which is the only
thing that a selector waits for there.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cudadoctor.sources.keeping import Process

ON_WINDOWS = sys.platform == "win32"
HAS_GROUPS = hasattr(os, "killpg")
CREATE_NEW_PROCESS_GROUP, CREATE_NO_WINDOW = 0x00000200, 0x08000000  # of the Windows API; subprocess names them there only
CHUNK = 1 << 16
SETTLE = 0.5  # seconds in which a pipe's thread hands on what an ended child had written


_STOPS = []  # type: list[Callable[[], Any]]


def obey() -> None:
    """KeyboardInterrupt or SystemExit where Ctrl-C or a signal that ends a run came meanwhile."""
    if _STOPS:
        _STOPS.pop(0)()


@contextmanager
def _handled(by: Callable[[int, Callable[..., Any]], None]) -> Iterator[None]:
    """Within this block `by` gets Ctrl-C and the signals that end a run, with the handler of each: in the main thread, where all run."""
    before = {}
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            handler = signal.getsignal(number) if number is not None else None
            if number is not None and callable(handler):
                before[number] = handler
                signal.signal(number, lambda signum, _: by(signum, before[signum]))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def remembered() -> Iterator[None]:
    """Within this block Ctrl-C and the signals that end a run wait for `obey`; a second one does not.

    An exception at any moment is dropped by a callback of importlib, or leaves its lock held for ever, and another thread imports too.
    """

    def asked(number: int, handler: Callable[..., Any]) -> None:
        _STOPS.append(lambda: handler(number, None))
        if len(_STOPS) > 1:
            obey()  # whatever holds the first one up

    try:
        with _handled(asked):
            try:
                yield
            finally:
                obey()  # also where something else went wrong meanwhile
    finally:
        del _STOPS[:]


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C and the signals that end a run wait until the end of this block: a child that was just started is known by then.

    Python would raise KeyboardInterrupt between the fork and the name for what was forked, and nobody would end that child.
    """
    came = []  # type: list[int]
    with _handled(lambda number, _: came.append(number)):
        yield
    for number in came[:1]:
        signal.raise_signal(number) if hasattr(signal, "raise_signal") else os.kill(os.getpid(), number)


class PipeStream:
    """A pipe that is read without blocking."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self.source: IO[bytes] | socket.socket = pipe
        try:
            os.set_blocking(pipe.fileno(), False)
        except OSError:  # it takes an ioctl, which a sandbox may not know
            import fcntl

            fcntl.fcntl(pipe.fileno(), fcntl.F_SETFL, fcntl.fcntl(pipe.fileno(), fcntl.F_GETFL) | os.O_NONBLOCK)

    def fileno(self) -> int:
        return self.source.fileno()

    def take(self) -> bytes | None:
        """What is there: b"" at the end of the stream, None where nothing is there yet."""
        try:
            return self._read()
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def _read(self) -> bytes:
        return os.read(self.fileno(), CHUNK)

    def settle(self) -> None:
        """Wait a moment for what an ended child had written."""

    def close(self) -> None:
        self.source.close()


class PumpedStream(PipeStream):
    """A pipe that a thread hands on to a socket. The thread alone reads and closes the pipe: a read that waits cannot be broken off."""

    def __init__(self, pipe: IO[bytes]) -> None:
        ours, sink = socket.socketpair()
        ours.setblocking(False)
        self.source = ours
        self.thread = threading.Thread(target=_pump, args=(pipe, sink), daemon=True)
        self.thread.start()

    def _read(self) -> bytes:
        assert isinstance(self.source, socket.socket)
        return self.source.recv(CHUNK)

    def settle(self) -> None:
        self.thread.join(SETTLE)  # a grandchild may hold the other end open for ever


def _pump(pipe: IO[bytes], sink: socket.socket) -> None:
    with pipe, sink:
        try:
            chunk = os.read(pipe.fileno(), CHUNK)
            while chunk:
                sink.sendall(chunk)
                chunk = os.read(pipe.fileno(), CHUNK)
        except OSError:
            pass  # nobody reads any more


def stream_of(pipe: IO[bytes]) -> PipeStream:
    return PumpedStream(pipe) if ON_WINDOWS else PipeStream(pipe)


def apart(*, windows: bool = ON_WINDOWS) -> dict[str, Any]:
    """The arguments of Popen that set a child apart: Ctrl-C reaches the doctor alone, the whole tree can be ended, and nothing in the
    user's working directory is read because it lies there (Numba's settings, a library by a relative name)."""
    if windows:
        return {"creationflags": CREATE_NEW_PROCESS_GROUP | CREATE_NO_WINDOW, "cwd": os.environ.get("SYSTEMROOT", "C:\\Windows")}
    return {"start_new_session": True, "cwd": "/"}


def ends_with_parent(number: int = 9) -> Callable[[], object] | None:
    """What a child calls before it begins, so that it gets this signal when its parent ends; None where the system has no such thing."""
    if not sys.platform.startswith("linux"):
        return None
    import ctypes

    try:
        prctl = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return None
    return lambda: prctl(1, number, 0, 0, 0)  # PR_SET_PDEATHSIG


def end_tree(process: Process, *, groups: bool = HAS_GROUPS) -> None:
    """End the child and all that it started. A process that is gone, or that may not be ended, is no error."""
    if not groups:
        _end_each(process)
        return
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except OSError:
        pass


def _end_each(process: Process) -> None:
    """Descendants first: once the parent is gone nobody knows whose they were."""
    try:
        import psutil

        for descendant in psutil.Process(process.pid).children(recursive=True):
            try:
                descendant.kill()
            except psutil.Error:
                continue  # it ended meanwhile
    except Exception:  # noqa: S110 - the process is gone, or psutil cannot tell
        pass
    try:
        process.kill()
    except OSError:
        pass
