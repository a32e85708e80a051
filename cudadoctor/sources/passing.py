"""Runs a program in the foreground and stays out of its way: its input, output, signals and end are those of a run without the doctor.

stdin and stdout are handed on as they are. stderr goes through a pipe, or a terminal of its own where it is one, and is copied byte for
byte; its end is kept. Where stdout and stderr are the same file both go that way, so that their order stays. A signal that somebody sends
to the doctor is sent on; one that the terminal sends (Ctrl-C) has reached the program already. Nothing here knows of GPUs.
"""

from __future__ import annotations

import errno
import os
import selectors
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

from cudadoctor.model.use import Ended
from cudadoctor.sources import programs

TAIL = 1 << 20  # bytes of stderr that are kept
CHUNK = 1 << 16
LEFT_BEHIND = 1 << 20  # bytes that a channel may hold when the program has ended: the largest pipe of Linux
_SHELL = "/bin/sh"
NOT_FOUND, NOT_STARTED = 127, 126  # as a shell ends


def _numbers(names: str) -> frozenset[int]:
    """Of these signals; Windows has few of them."""
    return frozenset(getattr(signal, f"SIG{name}") for name in names.split() if hasattr(signal, f"SIG{name}"))


_TICK = 0.05  # seconds between looks at a program whose end no signal told
_ENDING = _numbers("INT TERM HUP QUIT ABRT XCPU")
# All but what stops a job, what a fault of our own raises, and what nobody can catch.
_PASSED_ON = signal.valid_signals() - _numbers("KILL STOP TSTP TTIN TTOU CONT CHLD WINCH SEGV BUS FPE ILL TRAP SYS")
_FROM_KERNEL = 0x80  # SI_KERNEL: no process sent it, the terminal did


class NotStartedError(Exception):
    """The program cannot be started; `code` is what a shell would end with."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Tail:
    """The end of a stream, in bounded space."""

    def __init__(self) -> None:
        self.kept = bytearray()

    def add(self, chunk: bytes) -> None:
        self.kept += chunk
        if len(self.kept) > 2 * TAIL:
            del self.kept[:-TAIL]

    def content(self) -> bytes:
        return bytes(self.kept[-TAIL:])


def run(argv: Sequence[str], started: Callable[[int], None], *, windows: bool = sys.platform == "win32") -> Ended:
    """The program from its start to its end. `started` is told its number. NotStartedError where there is no such program."""
    return _run_simply(argv, started) if windows else _run_as_posix(argv, started)


def _start(argv: Sequence[str], **more: Any) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(list(argv), close_fds=False, **more)  # files that the caller opened for the program stay open
    except FileNotFoundError as error:
        raise NotStartedError(f"{argv[0]}: command not found", NOT_FOUND) from error
    except OSError as error:
        found = shutil.which(argv[0])
        if error.errno == errno.ENOEXEC and found is not None and _is_text(found):  # a script without a first line: as a shell does
            return _start([_SHELL, found, *argv[1:]], **more)
        raise NotStartedError(f"{argv[0]}: {error.strerror}", NOT_STARTED) from error


def _is_text(path: str) -> bool:
    """Whether it may be a script: a program for another machine is none."""
    try:
        with open(path, "rb") as stream:
            first = stream.read(128)
    except OSError:
        return False
    return b"\0" not in first


# ---------------------------------------------------------------- POSIX
def _run_as_posix(argv: Sequence[str], started: Callable[[int], None]) -> Ended:
    try:
        source, theirs, together = _channel()
        wake = os.pipe()
    except OSError:  # so few files may be opened that nothing can be copied
        return _run_alone(argv, started)
    began = time.monotonic()
    with _signals_held() as free_again:
        try:
            process = _start(argv, stdout=theirs if together else None, stderr=theirs, preexec_fn=free_again)
        except NotStartedError:
            for descriptor in (source, *wake):
                os.close(descriptor)
            raise
        finally:
            os.close(theirs)
        tail = Tail()
        signals = _Signals(process, source, wake)
        signals.start()
        try:
            started(process.pid)
            _copy(process, source, tail, signals)
        finally:
            signals.stop()
        seconds = time.monotonic() - began
    code = process.returncode
    return Ended(
        code=code if code >= 0 else None, signal=-code if code < 0 else None, seconds=seconds, tail=tail.content(), asked=signals.asked
    )


def _run_alone(argv: Sequence[str], started: Callable[[int], None]) -> Ended:
    """With our own streams, so that none of its words is known."""
    began = time.monotonic()
    process = _start(argv)
    started(process.pid)
    code = process.wait()
    return Ended(code=code if code >= 0 else None, signal=-code if code < 0 else None, seconds=time.monotonic() - began, tail=b"")


def _same(one: int, other: int) -> bool:
    try:
        first, second = os.fstat(one), os.fstat(other)
    except OSError:
        return False
    return (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino)


def _channel() -> tuple[int, int, bool]:
    """Our end, the program's end, and whether its stdout goes that way too."""
    together = _same(1, 2)
    if os.isatty(2):
        try:
            return (*_terminal(), together)
        except OSError:
            pass  # no terminal is left to be had: a pipe serves, though the program sees the difference
    return (*os.pipe(), together)


def _terminal() -> tuple[int, int]:
    """A terminal like ours that changes no byte."""
    import pty
    import termios

    ours, theirs = pty.openpty()
    try:
        settings = termios.tcgetattr(2)
        settings[1] &= ~termios.OPOST  # line ends are turned once, by the real terminal
        termios.tcsetattr(theirs, termios.TCSANOW, settings)
    except termios.error:
        pass
    resize(ours)
    return ours, theirs


def resize(ours: int) -> None:
    """Give the program's terminal the size of ours."""
    import fcntl
    import termios

    try:
        fcntl.ioctl(ours, termios.TIOCSWINSZ, fcntl.ioctl(2, termios.TIOCGWINSZ, bytes(8)))
    except OSError:
        pass  # a pipe, or a terminal without a size


def _awaited() -> set[int]:
    """Signals that concern us: not those that the caller ignores (nohup), which stay ignored in the program too."""
    return {signal.SIGWINCH, signal.SIGCHLD, *(one for one in _PASSED_ON if signal.getsignal(one) is not signal.SIG_IGN)}


@contextmanager
def _signals_held() -> Iterator[Callable[[], None]]:
    """Signals wait until they are asked for, in every thread that begins here; a child calls what this yields."""
    wanted = _awaited()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, wanted)

    def free_again() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    try:
        yield free_again
    finally:
        free_again()


class _Signals:
    """A thread that waits for signals: passes them on, resizes the terminal, and wakes the copying when a child ended."""

    def __init__(self, process: subprocess.Popen[bytes], source: int, wake: tuple[int, int]) -> None:
        self.process, self.source = process, source
        self.wake, self._waker = wake
        os.set_blocking(self._waker, False)
        self.asked = False
        self._over = False
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self.heard = False  # whether the end of a child is told

    def start(self) -> None:
        try:
            self._thread.start()
            self.heard = True
        except RuntimeError:
            pass  # this user may start no more threads: the program is looked at now and then, and signals end us alone

    def stop(self) -> None:
        self._over = True
        if self._thread.ident is not None:
            signal.pthread_kill(self._thread.ident, signal.SIGCHLD)
            self._thread.join()
        os.close(self.wake)
        os.close(self._waker)

    def _serve(self) -> None:
        wanted = _awaited()
        while not self._over:
            info = signal.sigwaitinfo(wanted)
            if info.si_signo == signal.SIGWINCH:
                resize(self.source)
            elif info.si_signo == signal.SIGCHLD:
                self._tell()
            else:
                self._pass_on(info)

    def _tell(self) -> None:
        try:
            os.write(self._waker, b"!")
        except OSError:
            pass  # it is full: the copying wakes anyway

    def _pass_on(self, info: Any) -> None:
        self.asked = self.asked or info.si_signo in _ENDING
        if info.si_code == _FROM_KERNEL and info.si_signo != signal.SIGHUP:
            return  # the terminal told its whole foreground group
        try:
            self.process.send_signal(info.si_signo)
        except OSError:
            pass  # it ended just now


def _copy(process: subprocess.Popen[bytes], source: int, tail: Tail, signals: _Signals) -> None:
    """Copy until the program has ended, and what it left behind in the channel. A child that goes on to write there does not hold us."""
    os.set_blocking(source, False)
    open_end = True
    with selectors.PollSelector() as selector:  # which takes no file of its own
        selector.register(signals.wake, selectors.EVENT_READ)
        selector.register(source, selectors.EVENT_READ)
        while process.poll() is None:
            ready = {key.fd for key, _ in selector.select(None if open_end and signals.heard else _TICK)}
            if signals.wake in ready:
                os.read(signals.wake, CHUNK)
            if source in ready and open_end and _pump(source, tail) is False:
                open_end = False
                selector.unregister(source)
                os.close(source)
    if open_end:
        more: bool | None = True
        for _ in range(LEFT_BEHIND // CHUNK):
            more = _pump(source, tail)
            if not more:
                break
        if more is not False:
            _leave_to_cat(source)  # a child that goes on without the program still writes there
        os.close(source)


def _pump(source: int, tail: Tail) -> bool | None:
    """Copy one piece: None where nothing is there yet, False at the end, or where nobody reads any more, which the program learns by its
    own next word."""
    try:
        chunk = os.read(source, CHUNK)
    except BlockingIOError:
        return None
    except OSError:  # the end of a terminal
        return False
    if not chunk or not _written(chunk):
        return False
    tail.add(chunk)
    return True


def _written(chunk: bytes) -> bool:
    """Whether all of it reached our stderr."""
    left = memoryview(chunk)
    while left:
        try:
            left = left[os.write(2, left) :]
        except BlockingIOError:
            time.sleep(0.001)  # somebody set the caller's file to non-blocking
        except OSError:
            return False
    return True


def _leave_to_cat(source: int) -> None:
    """Children of the program go on: `cat` copies for them when we are gone, and ends with the last of them."""
    os.set_blocking(source, True)
    program = programs.found("cat")
    try:
        if program is not None:
            subprocess.Popen([program], stdin=source, stdout=2, stderr=subprocess.DEVNULL, start_new_session=True)
    except OSError:
        pass


# ---------------------------------------------------------------- Windows
def _run_simply(argv: Sequence[str], started: Callable[[int], None]) -> Ended:
    """With a pipe for stderr; Ctrl-C reaches the program by its console."""
    began = time.monotonic()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process = _start(argv, stderr=subprocess.PIPE)
        started(process.pid)
        tail = Tail()
        assert process.stderr is not None
        copier = threading.Thread(target=_copy_simply, args=(process.stderr, tail), daemon=True)
        copier.start()
        code = process.wait()
        copier.join(1.0)  # a child that goes on holds the pipe open
    finally:
        signal.signal(signal.SIGINT, before)
    return Ended(code=code, signal=None, seconds=time.monotonic() - began, tail=tail.content())


def _copy_simply(pipe: IO[bytes], tail: Tail) -> None:
    while _pump(pipe.fileno(), tail):
        pass


def end_alike(ended: Ended) -> None:
    """End by the signal that ended the program, so that whoever waits for us sees the same. Returns where that does not end us."""
    if ended.signal is None:
        return
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the program wrote its memory to a file, ours interests nobody
        if ended.signal != signal.SIGKILL:  # which nobody may handle
            signal.signal(ended.signal, signal.SIG_DFL)
        os.kill(os.getpid(), ended.signal)
    except (ImportError, OSError, ValueError):
        pass
