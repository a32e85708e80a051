"""`cudadoctor run`: a program runs as it would without the doctor; then what it did with the GPUs, and why it failed or left them idle.

The watch is a child (sources/use_watch.py), the way through is sources/passing.py. The machine is examined (without kernels) only where
that is needed: when the program failed, when no GPU was in use by its end, or after some seconds without one, while it still runs.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from cudadoctor.commands import gathering
from cudadoctor.model.use import Ended, Outcome, Reason, Watched
from cudadoctor.sources import interpreters, keeping, passing
from cudadoctor.sources.use_watch import UseWatch

if TYPE_CHECKING:
    from cudadoctor.knowledge.load import Knowledge
    from cudadoctor.model.evidence import Evidence
    from cudadoctor.model.findings import Finding
    from cudadoctor.model.judgement import Answer
    from cudadoctor.within.asking import Judge

IDLE = 5.0  # seconds without a GPU after which the machine is examined beside the program
EXAMINATION = 10.0  # seconds that it may take
READING = 2.0  # seconds that reading the program's words, or its source, may take after its end
SOURCE_LIMIT = 1 << 20  # bytes read of a program's source
ON_CPU = "program-not-on-gpu"
# Causes that let a program run to its end without a GPU, likeliest first.
SILENT = (
    ON_CPU, "numba-simulator-enabled", "numba-cuda-disabled", "cuda-visible-devices-hides-all", "cuda-visible-devices-invalid",
    "scheduler-gave-no-gpu", "container-no-gpu-access", "framework-cpu-build", "numba-cuda-target-missing",
)  # fmt: skip

# Python's own options: letters may stand together (-uc); -c and -m take all that follows, -X and -W one value, here or in the next word.
_LETTERS = r"-[bBdEhiIOPqRsStuvVx]*"
_RUNS_OTHERWISE = re.compile(rf"{_LETTERS}[cm]|-$")
_TAKES_NEXT = re.compile(rf"{_LETTERS}[XW]$|--check-hash-based-pycs$")


class Examined(NamedTuple):
    answer: Answer
    evidence: Evidence


class Examination:
    """The machine's own state: asked once, in the background or when it is needed."""

    def __init__(self, python: str | None, knowledge: Callable[[], Knowledge]) -> None:
        self.python, self.knowledge = python, knowledge
        self.found: Examined | None = None
        self.thread: threading.Thread | None = None

    def begin(self, then: Callable[[], object]) -> None:
        """In the background; `then` is called there as well."""

        def work() -> None:
            self._examine()
            then()

        self.thread = threading.Thread(target=work, daemon=True)
        self.thread.start()

    def _examine(self) -> None:
        from cudadoctor.model.judgement import Question
        from cudadoctor.sources.host import Plan, collect
        from cudadoctor.sources.probes import PROBES

        if sys.platform in PROBES:
            with gathering.judging(warm=True) as judge:
                evidence = collect(Plan(python=self.python, quick=True, timeout=EXAMINATION, more=self.knowledge().more_probes), None)
                self.found = Examined(judge.answer(Question(machines=(evidence,), every_step=True)), evidence)

    def result(self) -> Examined | None:
        if self.thread is None:
            self._examine()
        else:
            self.thread.join()
        return self.found


class Run:
    def __init__(
        self, argv: Sequence[str], knowledge: Callable[[], Knowledge], *, started: Sequence[str] | None = None, idle: float = IDLE
    ) -> None:
        """`started`: what is started, where that is not the program itself."""
        self.argv, self.started, self.knowledge = tuple(argv), tuple(started or argv), knowledge
        self.machine = Examination(interpreter(argv), knowledge)
        self.watch: UseWatch | None = None
        self.explained = True
        self.left = READING
        self.ahead: tuple[Reason, ...] | None = None
        self.unwatched: str | None = None
        self.timer = threading.Timer(idle, self._still_idle)
        self.timer.daemon = True

    def _begun(self, pid: int) -> None:
        """Whatever limit the doctor meets, the program goes on."""
        try:
            self.watch = UseWatch(pid)
            self.timer.start()
        except (OSError, RuntimeError, MemoryError) as error:
            self.unwatched = f"the watch of its GPUs did not begin: {error}"

    def _still_idle(self) -> None:
        if self.explained and self.watch is not None and not self.watch.saw_use():
            self.machine.begin(self._reason_ahead)

    def _reason_ahead(self) -> None:
        """What to say if it stays so: said at once when the program ends."""
        self.ahead = self._reasons(self.machine.found)

    def outcome(self, *, require_gpu: bool, explained: bool = True) -> tuple[Outcome, Ended]:
        """`explained`: with the reasons. NotStartedError where there is no such program."""
        self.explained = explained
        keeping.start_ahead()  # of the watch; one that started while signals wait would not hear of its children's ends
        try:
            ended = passing.run(self.started, self._begun)
        finally:
            self.timer.cancel()
            if self.timer.ident is not None:
                self.timer.join()
        watched = Watched(used="unknown", why=self.unwatched)
        try:
            watched = self.watch.ended(ended.seconds) if self.watch is not None else watched
            return self._told(ended, watched, require_gpu=require_gpu), ended
        except (OSError, RuntimeError, MemoryError) as error:  # the program's end is told all the same
            self.explained, self.unwatched = False, f"what it did was not looked into: {error}"
            return self._told(ended, watched, require_gpu=require_gpu), ended

    def _told(self, ended: Ended, watched: Watched, *, require_gpu: bool) -> Outcome:
        explained = self.explained and not ended.asked
        failure = self._failure(ended.tail) if explained and ended.code != 0 else None
        idle = explained and watched.used != "yes" and failure is None
        examined = self.machine.result() if idle else None
        reasons = () if not idle else self.ahead if self.ahead is not None else self._reasons(examined)
        code = ended.code if ended.code is not None else 128 + (ended.signal or 0)
        return Outcome(
            command=self.argv,
            code=ended.code,
            signal=ended.signal,
            exit_code=1 if require_gpu and code == 0 and watched.used != "yes" else code,
            seconds=round(ended.seconds, 3),
            used=watched.used,
            why_unknown=watched.why,
            gpus=watched.gpus,
            not_used=reasons,
            failure=failure,
            notes=(*(_without_reason(examined) if idle and not reasons else ()), *filter(None, [self.unwatched])),
        )

    def _judged(self, judge: Judge, evidence: Evidence) -> Answer | None:
        """The answer where it takes no longer than the seconds that are left for reading."""
        from cudadoctor.model.judgement import Question

        began = time.monotonic()
        answer = judge.quickly(Question(machines=(evidence,), every_step=True), until=began + self.left)
        self.left -= time.monotonic() - began
        return answer

    # ------------------------------------------------------------ why it failed
    def _failure(self, tail: bytes) -> Reason | None:
        """What its own words name; with the steps for this machine, where its state does not speak against them."""
        from cudadoctor.sources import pasted

        with gathering.judging() as judge:
            spoken = self._judged(judge, pasted.evidence_of(tail, printed=True))
            diagnosis = spoken.report.diagnosis if spoken is not None else None
            named = diagnosis.root or next(iter(diagnosis.suspects), None) if diagnosis is not None else None
            if spoken is None or diagnosis is None or named is None or diagnosis.by_words:
                return None  # words alone are no reason: what keeps the program from its GPU says more
            examined = self.machine.result()
            if examined is not None:
                whole = self._judged(judge, examined.evidence.completed((pasted.output_of(tail),)))
                root = whole.report.diagnosis.root if whole is not None else None
                if whole is not None and root is not None and root.cause == named.cause:
                    return reason(root, whole, self.knowledge(), source="stderr")
        return reason(named, spoken, self.knowledge(), source="stderr")

    # ------------------------------------------------------------ why no GPU was used
    def _reasons(self, examined: Examined | None) -> tuple[Reason, ...]:
        """What lets a program run without a GPU: its source, its variables, its packages, the machine."""
        found = []
        own = self._of_source()
        if own is not None:
            found.append(own)
        if examined is None:
            return tuple(found)
        report, diagnosis = examined.answer.report, examined.answer.report.diagnosis
        beside = sorted(
            (one for one in (*diagnosis.also, *diagnosis.explains) if one.cause in SILENT), key=lambda one: SILENT.index(one.cause)
        )
        root = [diagnosis.root] if diagnosis.root is not None and (report.verdict == "broken" or diagnosis.root.cause in SILENT) else []
        for finding in (*root, *beside):
            if finding.cause not in {one.cause for one in found}:
                found.append(reason(finding, examined.answer, self.knowledge()))
        return tuple(found)

    def _of_source(self) -> Reason | None:
        """Whether the script asks Numba's processor compiler for a GPU. Its source may speak of anything else: only this is read in it."""
        path = script(self.argv)
        if path is None:
            return None
        from cudadoctor.sources import pasted

        try:
            with open(path, "rb") as stream:
                source = stream.read(SOURCE_LIMIT)
        except OSError:
            return None
        if b"jit(" not in source:
            return None
        with gathering.judging() as judge:
            found = self._judged(judge, pasted.evidence_of(source))
        if found is None:
            return None
        diagnosis = found.report.diagnosis
        every = (diagnosis.root, *diagnosis.explains, *diagnosis.also, *diagnosis.suspects)
        finding = next((one for one in every if one is not None and one.cause == ON_CPU), None)
        return None if finding is None else reason(finding, found, self.knowledge(), source=path)


def _without_reason(examined: Examined | None) -> tuple[str, ...]:
    """What can be said where no reason was found: that depends on how much was seen."""
    if examined is None:
        return ("Why is not known: a machine is examined on Linux, WSL and Windows alone.",)
    if examined.answer.report.verdict == "undecided":
        return ("Why is not known: not enough of this machine could be seen. `cudadoctor check` says what would settle it.",)
    return ("Nothing that is known keeps this program from a GPU: it may have no work for one.",)


def reason(finding: Finding, answer: Answer, knowledge: Knowledge, *, source: str | None = None) -> Reason:
    """A finding with its lines and steps as plain text. `source`: what a text is called where it was the program's."""
    from cudadoctor.report import words

    quotes = [msgspec.structs.replace(quote, source=source) if source and quote.source == "text" else quote for quote in finding.evidence]
    prescription = answer.steps.get(finding.cause)
    return Reason(
        cause=finding.cause,
        title=finding.title,
        why=knowledge.cause(finding.cause).why,
        lines=tuple(words.quoted(quotes)),
        steps=tuple(words.steps(prescription)) if prescription is not None else (),
    )


# ---------------------------------------------------------------- what the command line says of the program
_INTERPRETER = re.compile(r"(?:python|pypy)w?(?:\d(?:\.\d{1,2})?)?t?(?:\.exe)?", re.IGNORECASE)


def _is_python(path: str) -> bool:
    """By its whole name: python_job.sh is the user's program, which is started once."""
    return _INTERPRETER.fullmatch(os.path.basename(path)) is not None


def interpreter(argv: Sequence[str]) -> str | None:
    """The Python that runs the program: the command itself, or the first line of a script. None where neither names one; what a shim
    would start, for no shim is started to be looked at."""
    found = shutil.which(argv[0])
    if found is None or _is_python(argv[0]):
        return interpreters.behind_shims(found) if found is not None else None
    if not os.path.isfile(found):  # a pipe would hold whoever opens it; the shell says what it is
        return None
    try:
        with open(found, "rb") as stream:
            first = stream.readline(512)
    except OSError:
        return None
    words = first[2:].decode("utf-8", "replace").split() if first.startswith(b"#!") else []
    if len(words) > 1 and os.path.basename(words[0]) == "env":
        return interpreter([words[1]]) if _is_python(words[1]) else None
    return interpreters.behind_shims(words[0]) if words and _is_python(words[0]) and os.path.exists(words[0]) else None


def script(argv: Sequence[str]) -> str | None:
    """The program's own source, where the command line names a file of Python."""
    if _is_python(argv[0]):
        own = _given_to_python(argv[1:])
    else:
        own = argv[0] if argv[0].endswith(".py") else shutil.which(argv[0]) if interpreter(argv) else None
    return own if own is not None and os.path.isfile(own) else None


def _given_to_python(words: Sequence[str]) -> str | None:
    """The file behind Python's own options: `-X dev -u train.py`. None for `-c`, `-m` and standard input, whatever follows them."""
    left = iter(words)
    for word in left:
        if not word.startswith("-"):
            return word
        if _RUNS_OTHERWISE.match(word):
            return None
        if _TAKES_NEXT.match(word):
            next(left, None)
    return None
