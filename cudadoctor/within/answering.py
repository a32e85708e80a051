"""The child that judges: reads questions, says which part of the work begins, and answers."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import IO

import msgspec

from cudadoctor import installed
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.evidence import Evidence, Item
from cudadoctor.model.guard import Guard
from cudadoctor.model.judgement import Job, Question, Told
from cudadoctor.within import FAILED, FRAME, PART, TOLD, judging

MEMORY = 2 << 30  # bytes of address space
# Judged before anything is asked, for what it compiles and decodes: a machine whose driver library is missing.
REHEARSED = """\
{"event": "begin", "step": "libcuda", "gpu": null}
{"event": "end", "step": "libcuda", "status": "fail", "output": "libcuda.so.1: cannot open shared object file: No such file or directory"}
{"event": "done"}
"""


def serve() -> None:
    """Answer questions until nobody asks any more."""
    asked, out = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)  # what an extension reads is no question
    os.dup2(nowhere, 1)  # and what it prints no answer
    _limit_memory()
    knowledge = installed.knowledge()
    if "warm" in sys.argv:  # compile and decode what every judgement needs
        ladder = Item(id="ladder", kind="worker", what=("python", "ladder.py"), status="ok", stdout=REHEARSED)
        judging.answered(Question(machines=(Evidence(items=(ladder,)),)), knowledge)
    while (job := _received(asked)) is not None:
        _allow(job.seconds, asked)
        try:
            told = answer(job, knowledge, lambda part: _write(out, PART, part.encode("utf-8", "replace")))
            what, body = TOLD, msgspec.msgpack.encode(told)
        except Exception as error:
            what, body = FAILED, f"{type(error).__name__}: {error}"[:500].encode("utf-8", "replace")
        _allow(0, asked)  # before the answer: the next question may follow it at once
        _write(out, what, body)


def answer(job: Job, knowledge: Knowledge, begins: Callable[[str], None]) -> Told:
    guard = Guard(begins, job.too_long)
    return judging.answered(job.asked, knowledge, guard) if isinstance(job.asked, Question) else judging.lines(job.asked, knowledge, guard)


def _received(stream: IO[bytes]) -> Job | None:
    head = stream.read(FRAME.size)
    if len(head) < FRAME.size:
        return None
    return msgspec.msgpack.decode(stream.read(FRAME.unpack(head)[1]), type=Job)


def _write(stream: IO[bytes], what: bytes, body: bytes) -> None:
    stream.write(FRAME.pack(what, len(body)))
    stream.write(body)
    stream.flush()


def _limit_memory() -> None:
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, OSError, ValueError):
        pass  # Windows has none, and a smaller limit may be set already


def _allow(seconds: float, asked: IO[bytes]) -> None:
    """So much CPU time from now on: then the kernel ends this process, whatever it is doing. 0: no limit, for nothing is done.

    So it does where the doctor is gone: its end of the pipe is closed, which is a signal as long as there is work (O_ASYNC).
    """
    import signal

    if hasattr(signal, "ITIMER_PROF"):
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, seconds)
    if sys.platform.startswith("linux"):
        import fcntl

        signal.signal(signal.SIGIO, signal.SIG_DFL)
        fcntl.fcntl(asked, fcntl.F_SETOWN, os.getpid())
        flags = fcntl.fcntl(asked, fcntl.F_GETFL)
        fcntl.fcntl(asked, fcntl.F_SETFL, flags | os.O_ASYNC if seconds else flags & ~os.O_ASYNC)
