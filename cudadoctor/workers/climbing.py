"""How a worker climbs: its events as JSON lines, the rungs that it carries out, and what is printed meanwhile.

Loaded by its path, from ladder.py, frameworks.py and on_gpus.py. Everything that a rung prints (device printf, libraries, tracebacks) is
caught from descriptors 1 and 2; a failing rung carries it.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time

from cudadoctor_lines import TYPE_CHECKING, follow_parent, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

try:
    import ctypes

    NO_CTYPES: str | None = None
except ImportError as error:  # a Python that was built without libffi
    NO_CTYPES = str(error)

KEPT = 64 * 1024  # bytes of a rung's output that are kept: the head and, being where errors stand, most of the tail
KEPT_HEAD = 16 * 1024


class RungError(Exception):
    """A rung failed, or a function of libcuda returned an error. `output` is what a user would have seen."""

    def __init__(self, output: str, code: int | None = None, name: str | None = None, why: str | None = None) -> None:
        super().__init__(output)
        self.output, self.code, self.name, self.why = output, code, name, why
        self.log = ""  # of the driver's compiler


class UnfitError(Exception):
    """A figure cannot be measured, a step not carried out here, which is nobody's fault; the text says why."""


class WrongError(Exception):
    """A kernel computed something else than the CPU, or what was copied is not what was sent; the text says where."""


class Capture:
    """Takes over descriptors 1 and 2 and keeps, within bounds, what is written to them. `errors`: where descriptor 2 led before."""

    def __init__(self, errors: int) -> None:
        self.errors = errors
        self.libc: Any = ctypes.CDLL("ucrtbase" if sys.platform == "win32" else None) if NO_CTYPES is None else None
        source, self._sink = os.pipe()
        try:
            import fcntl

            fcntl.fcntl(self._sink, 1031, 1 << 20)  # F_SETPIPE_SZ: a library that prints while it holds the GIL must not block
        except (ImportError, OSError):
            pass
        self._source, self._seen, self._marks = source, bytearray(), 0
        self._news = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()  # refused where no more threads may be started: said where it is read
        os.dup2(self._sink, 1)
        os.dup2(self._sink, 2)

    def _read(self) -> None:
        while True:
            chunk = os.read(self._source, 65536)
            with self._news:
                self._seen += chunk
                if len(self._seen) > KEPT:
                    del self._seen[KEPT_HEAD : len(self._seen) - KEPT + KEPT_HEAD]
                self._news.notify_all()

    def _settle(self) -> None:
        """Flush all buffers and wait until the reader has everything that was written up to now."""
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        if self.libc is not None:
            self.libc.fflush(None)
        self._marks += 1
        mark = b"\0mark %d\0" % self._marks
        os.write(self._sink, mark)
        with self._news:
            self._news.wait_for(lambda: mark in self._seen, timeout=2.0)
            self._seen = self._seen.replace(mark, b"")

    def tell_at_exit(self) -> None:
        """Where a library itself ends the process (OpenBLAS without memory does), what it said last goes where it meant it to go."""
        register = getattr(self.libc, "__cxa_atexit", None)  # what atexit is to every C library of Linux
        if register is not None:

            def tell(_: object) -> None:
                os.write(self.errors, self.text().encode("utf-8", "replace"))

            self._told = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(tell)
            register(self._told, None, None)

    def clear(self) -> None:
        """Forget what was written so far."""
        self._settle()
        with self._news:
            self._seen = bytearray()

    def text(self) -> str:
        """What was written since `clear`."""
        self._settle()
        with self._news:
            return bytes(self._seen).decode("utf-8", "replace")


class Worker:
    """Writes the events, and carries out rungs so that every begin gets its end."""

    def __init__(self, out: int, capture: Capture) -> None:
        self.out, self.capture = out, capture
        self.last_output: str | None = None  # of the rung that failed last
        self.writing = threading.Lock()  # the figures of several GPUs come from a thread each
        self.own = False  # the doctor's own Numba stands in for one that the examined Python has not
        self.begun: tuple[str, int | None] | None = None  # a rung whose begin was told by another process
        self.printed_ahead = ""  # of that rung, before its begin

    def emit(self, event: str, **fields: Any) -> None:
        """Write one JSON line. A reader that is gone ends the worker."""
        try:
            with self.writing:
                write(self.out, json.dumps(dict(event=event, **fields)))
        except OSError:
            os._exit(0)

    def has_begun(self, step: str, gpu: int | None) -> None:
        """The begin of this rung was told; what was printed up to now belongs to it."""
        self.begun, self.printed_ahead = (step, gpu), self.capture.text()

    def climb(self, step: str, action: Callable[[], dict[str, Any]], gpu: int | None = None) -> bool:
        """Carry out one rung; what `action` returns joins its end event. True: it held."""
        self.capture.clear()
        if self.begun != (step, gpu):
            self.emit("begin", step=step, gpu=gpu)
        started = time.monotonic()
        result: dict[str, Any] = {"status": "pass", "gpu": gpu, "code": None, "name": None, "output": "", "why": None}
        try:
            result.update(action())
        except RungError as broken:
            result.update(status="fail", code=broken.code, name=broken.name, output=broken.output, why=broken.why)
        except Exception as bug:
            result.update(status="fail", why="the worker itself failed: {}: {}".format(type(bug).__name__, bug))
        if result["status"] == "fail":
            texts = (self.printed_ahead, self.capture.text(), result["output"])
            result["output"] = "\n".join(text.rstrip("\n") for text in texts if text.strip())
            self.last_output = result["output"] or result["why"]
        result["seconds"] = round(time.monotonic() - started, 6)
        self.begun, self.printed_ahead = None, ""
        self.emit("end", step=step, **result)
        return bool(result["status"] == "pass")

    def guard(self, step: str, action: Callable[[], None]) -> None:
        """Carry out something beside the rungs; a bug in it is an event and ends nothing else."""
        try:
            action()
        except Exception as bug:
            self.emit("error", step=step, error="the worker itself failed: {}: {}".format(type(bug).__name__, bug))


def heard() -> bytes | None:
    """The next line on stdin; None at its end."""
    line = b""
    try:
        while not line.endswith(b"\n"):
            byte = os.read(0, 1)
            if not byte:
                return None
            line += byte
    except OSError:
        return None
    return line.strip()


def limit_life(seconds: float) -> threading.Timer:
    """End the process after so many seconds, whatever a library is waiting for."""
    timer = threading.Timer(seconds, os._exit, (124,))
    timer.daemon = True
    timer.start()
    return timer


def started() -> Worker:
    """The descriptors set up: events go to what was descriptor 1, everything else is caught."""
    out, errors = os.dup(1), os.dup(2)
    try:
        import faulthandler

        faulthandler.enable(errors)  # a crash inside a library shows its Python stack to the parent
    except (ImportError, OSError, RuntimeError, ValueError):
        pass
    capture = Capture(errors)
    follow_parent()
    return Worker(out, capture)
