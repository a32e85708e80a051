"""The doctor's side: starts the child that judges, asks it, and asks again for less where its time is over.

Nothing heavy is imported before the child runs: it starts before the doctor has read its own tables.
"""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeVar

from cudadoctor.sources import inherited, listings
from cudadoctor.sources.interpreters import own_packages
from cudadoctor.sources.spawning import ON_WINDOWS, apart, end_tree, stream_of, uninterrupted
from cudadoctor.within import FAILED, FRAME, TOLD

if TYPE_CHECKING:
    from cudadoctor.model.evidence import Evidence
    from cudadoctor.model.judgement import Answer, Asked, Question, RowsWanted, Told

SECONDS = 30.0  # of CPU time for one question, all attempts together
SHARES = (0.5, 0.25, 0.25)  # of that, for each attempt
# Seconds that a child may take to start, and times its CPU time that it may take on a busy machine; Windows has this limit alone.
START, SLOWER = (5.0, 1.0) if ON_WINDOWS else (20.0, 10.0)
# What the doctor's own interpreter may need to start, and to say what it says as the doctor does.
_VARIABLES = ("LD_LIBRARY_PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "SYSTEMROOT", "TEMP", "TMP", "HOME")
REHEARSAL = 3.0  # seconds of CPU time for what is judged ahead
_QUICKLY = 2.0  # seconds in which --quick looks through the folders of libraries
_TICK = 0.1
# -c puts the working directory first; the doctor itself may lie there, in a checkout. What is imported and decoded stays: a collector of
# garbage that looks at it again and again finds nothing.
_CODE = (
    "import gc, sys; gc.set_threshold(100_000); sys.path[:1] = []; sys.path.append(sys.argv.pop(1)); "
    "from cudadoctor.within.answering import serve; serve()"
)
_HOME = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

T = TypeVar("T", bound="Told")


class Exhausted(Exception):
    """The child's time is over; `part` is what it was doing, None where it never came to that."""

    def __init__(self, part: str | None) -> None:
        super().__init__(part)
        self.part = part


_ahead: list[Judge] = []


def start_ahead() -> None:
    """Start the child for a judgement that is to come: it reads its tables while this process still imports its own command line."""
    if not _ahead:
        with listings.until(time.monotonic() + (_QUICKLY if "--quick" in sys.argv else float("inf"))):
            _ahead.append(Judge(warm=True))


def started(*, warm: bool) -> Judge:
    """That one, else one that starts now."""
    return _ahead.pop() if _ahead else Judge(warm=warm)


# ---------------------------------------------------------------- the doctor's side
class Judge:
    """The child that judges, one after another where one is used up. `close` ends it."""

    def __init__(self, *, warm: bool = False) -> None:
        """The child starts now. `warm`: it has time to read its tables too, because the evidence is collected meanwhile."""
        self.child: _Child | None = None
        try:
            self.child = _Child(warm=warm)
        except OSError:
            pass  # tried again when there is something to judge

    def close(self) -> None:
        if self.child is not None:
            self.child.end()
            self.child = None

    def answer(self, asked: Question, *, seconds: float = SECONDS) -> Answer:
        """The answer, to what is left of the question where some of it takes too long."""
        import msgspec

        from cudadoctor.model.judgement import Answer
        from cudadoctor.within.less import emptied, without

        too_long = frozenset[str]()
        for share in SHARES:
            try:
                return self._once(asked, too_long, seconds * share, Answer)
            except Exhausted as over:
                asked, too_long = without(over.part, asked, too_long)
            except OSError:
                return _here(asked, too_long)  # where no process can be started, this one judges
        return _here(msgspec.structs.replace(asked, machines=tuple(emptied(machine) for machine in asked.machines)), too_long)

    def quickly(self, asked: Question, *, until: float) -> Answer | None:
        """The answer where it is there by `until` (time.monotonic). One attempt, with all of the evidence; None where that is too long."""
        from cudadoctor.model.judgement import Answer

        left = until - time.monotonic()
        try:
            return self._once(asked, frozenset(), max(0.1, left), Answer, until=until)
        except Exhausted:
            return None
        except OSError:
            return _here(asked)

    def lines(self, asked: RowsWanted, *, seconds: float) -> dict[str, str]:
        """What rows say so far; nothing where that takes too long."""
        from cudadoctor.model.judgement import RowsKnown

        try:
            return self._once(asked, frozenset(), seconds, RowsKnown).lines
        except (Exhausted, OSError):
            return {}

    def rehearse(self, so_far: Evidence) -> None:
        """Have the child judge what is known so far, while the rest is collected. Nobody hears the answer: what it compiles and decodes for
        this is ready for the next.
        """
        from cudadoctor.model.judgement import Question

        if self.child is not None:
            self.child.rehearse(_job(Question(machines=(so_far,)), frozenset(), REHEARSAL))

    def _once(self, asked: Asked, too_long: frozenset[str], seconds: float, kind: type[T], until: float | None = None) -> T:
        if self.child is None:
            self.child = _Child(warm=False)
        until = until if until is not None else time.monotonic() + START + SLOWER * seconds
        if not self.child.is_free(until):
            self.close()
            self.child = _Child(warm=False)
        try:
            return self.child.told(_job(asked, too_long, seconds), kind, until)
        except BaseException:
            self.close()
            raise


class _Child:
    """One process that answers one question after another."""

    def __init__(self, *, warm: bool) -> None:
        from cudadoctor import installed

        # Start-up hooks of packages cost more than the judgement; extensions may need them.
        flags = [] if installed.is_extended() else ["-S"]
        environment = {**inherited.some_of_it(_VARIABLES), "PYTHONPATH": own_packages()}
        with uninterrupted():
            self.process = subprocess.Popen(
                [sys.executable, *flags, "-B", "-c", _CODE, _HOME, *(["warm"] if warm else [])],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
                **apart(),
            )
        assert self.process.stdout is not None
        self.stream = stream_of(self.process.stdout)
        self.buffer = bytearray()
        self.part: str | None = None
        self.rehearses = False

    def rehearse(self, body: bytes) -> None:
        self.rehearses = True
        self._send(body)

    def is_free(self, until: float) -> bool:
        """Waits for the end of what it rehearses; False where that ended it. Before that nothing is sent: both might wait for ever."""
        try:
            if self.rehearses:
                self.rehearses = not any(what in (TOLD, FAILED) for what, _ in self._frames(until))
        except Exhausted:
            return False
        return not self.rehearses

    def told(self, job: bytes, kind: type[T], until: float) -> T:
        """Its answer. Exhausted where its time is over, or it ended for another reason."""
        import msgspec

        self.part = None
        self._send(job)
        decoder = msgspec.msgpack.Decoder(kind)  # looks through the types of all that it may hold, while the child works
        for what, body in self._frames(until):
            if what == FAILED:
                raise RuntimeError(body.decode("utf-8", "replace"))
            if what == TOLD:
                return decoder.decode(body)
            self.part = body.decode("utf-8", "replace")
        raise Exhausted(self.part)

    def _send(self, body: bytes) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(FRAME.pack(TOLD, len(body)))
            self.process.stdin.write(body)
            self.process.stdin.flush()
        except (BrokenPipeError, ConnectionResetError):
            pass  # it ended; its end is seen by whoever waits for the answer

    def _frames(self, until: float) -> Iterator[tuple[bytes, bytes]]:
        """What arrives as a whole by then. Exhausted where the child ended: the kernel did that, or a fault in a library."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.stream.fileno(), selectors.EVENT_READ)
            while (left := until - time.monotonic()) > 0:
                selector.select(min(_TICK, left))
                chunk = self.stream.take()
                if chunk == b"":
                    raise Exhausted(self.part)
                self.buffer += chunk or b""
                while len(self.buffer) >= FRAME.size:
                    what, length = FRAME.unpack_from(self.buffer)
                    if len(self.buffer) < FRAME.size + length:
                        break
                    body = bytes(self.buffer[FRAME.size : FRAME.size + length])
                    del self.buffer[: FRAME.size + length]
                    yield what, body

    def end(self) -> None:
        end_tree(self.process)
        self.stream.close()
        assert self.process.stdin is not None
        try:
            self.process.stdin.close()
        except OSError:
            pass  # it had not read all
        self.process.wait()


def _job(asked: Asked, too_long: frozenset[str], seconds: float) -> bytes:
    import msgspec

    from cudadoctor.model.judgement import Job

    return msgspec.msgpack.encode(Job(asked=asked, too_long=too_long, seconds=seconds))


def _here(asked: Question, too_long: frozenset[str] = frozenset()) -> Answer:
    from cudadoctor import installed
    from cudadoctor.model.guard import Guard
    from cudadoctor.within.judging import answered

    return answered(asked, installed.knowledge(), Guard(too_long=too_long))
