"""Nodes of a cluster are asked by what the cluster has already: Slurm, ssh, Dask, Kubernetes. An engine only brings the answers.

Each node runs `program`: the doctor where the node has one, else a program that needs nothing but Python 3.6 and records the evidence,
which is judged here. An engine's key is no identity: whose answer it is stands in the answer itself.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

FANOUT = 64  # nodes that are asked at a time
_GRACE = 2  # seconds that each further limit waits for the one inside it
_SAID = 64 << 10  # bytes of the end of what it wrote
_TIMED_OUT, _KILLED = 124, 137  # exit codes of timeout(1): it ended the program; the program was killed
LATE = "it did not answer within the time limit"
INTERRUPTED = "it was interrupted before it answered"
_WORD = re.compile(r"[^\W\d_]{2}")
_OF_SRUN = re.compile(
    r"srun: error: \S+: tasks? [\d,-]+: |srun: (?:Job step aborted|forcing|got SIG|Force)|slurmstepd-?\S{0,80}: error: \*\*\*"
)


class EngineError(Exception):
    """Nobody can be asked; the message says why."""


class Answer(NamedTuple):
    """What one node gave: the text of a report, or a recording (.tar.gz), or `why` there is nothing. `asked`: the engine's name of it."""

    asked: str
    report: bytes | None = None
    recording: bytes | None = None
    why: str | None = None


class Work(NamedTuple):
    """What every node is to do. `seconds`: after which a check ends by itself; `doctor`: the program's name or path on the nodes."""

    seconds: float
    quick: bool
    doctor: str
    collector: bytes  # the program of `record --script`, by gzip, for standard input
    fanout: int = FANOUT
    policy: str = ""  # the text of a file of demands, which the node's doctor is given
    busy: bool = False  # measure GPUs too on which others compute

    @property
    def killed_after(self) -> float:
        """Seconds after which the node ends a check that did not end by itself."""
        return self.seconds + _GRACE

    @property
    def given_up_after(self) -> float:
        """Seconds after which a node is not waited for any longer."""
        return self.killed_after + 2 * _GRACE


Took = Callable[[Answer], None]


@contextmanager
def each_named(nodes: Iterable[str], took: Took) -> Iterator[Took]:
    """Where answers go; a node that is left when the user interrupts is named too, and then the interrupt goes on."""
    left = dict.fromkeys(nodes)

    def taken(one: Answer) -> None:
        left.pop(one.asked, None)
        took(one)

    try:
        yield taken
    except KeyboardInterrupt:
        for node in left:
            took(Answer(node, why=INTERRUPTED))
        raise


def packed(script: str) -> bytes:
    return gzip.compress(script.encode())


def program(work: Work) -> str:
    """The POSIX shell that a node runs, with the collector on standard input. The node's own limit ends what hangs there."""
    flags = " --quick" if work.quick else " --busy" if work.busy else ""
    limit = f"timeout -k {_GRACE} {work.killed_after:g}"
    doctor = shlex.quote(work.doctor)
    policy = ' --policy "$d/cudadoctor.toml"' if work.policy else ""
    return "; ".join((
        "unset CUDA_VISIBLE_DEVICES",
        "d=$(mktemp -d) || exit 125",
        """trap 'rm -rf "$d"' EXIT""",
        "trap 'exit 143' TERM INT HUP",
        f"""printf %s {shlex.quote(work.policy)} >"$d/cudadoctor.toml" || exit 125""",
        f"if command -v {doctor} >/dev/null 2>&1",
        # To files: what the doctor leaves behind where it is killed must not hold the engine's streams.
        f"""then {limit} {doctor} check --format json --timeout {work.seconds:g}{flags}{policy} </dev/null >"$d/out" 2>"$d/err\"""",
        "code=$?",
        """cat "$d/err" >&2""",
        """cat "$d/out\"""",
        "exit $code",
        "fi",
        """gzip -dc >"$d/collect.py" || exit 125""",
        f"""{limit} python3 "$d/collect.py" --no-redact --timeout {work.seconds:g}{flags} -o "$d/r.tar.gz" </dev/null >"$d/out" 2>&1""",
        "code=$?",
        """[ $code -eq 0 ] || { cat "$d/out" >&2; exit $code; }""",
        """base64 "$d/r.tar.gz\"""",
    ))  # fmt: skip


def answer(asked: str, out: bytes, errors: bytes, code: int | None, *, late: bool = False) -> Answer:
    """What a node's program printed and ended with, as an answer. `late`: it took as long as it was allowed to."""
    body = out.strip()
    if body.startswith(b"{"):
        return Answer(asked, report=body)
    try:
        recording = base64.b64decode(body) if code == 0 else b""
    except binascii.Error:
        recording = b""
    if recording.startswith(b"\x1f\x8b"):
        return Answer(asked, recording=recording)
    return Answer(asked, why=LATE if late or code == _TIMED_OUT else _why(out, errors, code))


def _why(out: bytes, errors: bytes, code: int | None) -> str:
    """With the last line that the program wrote, which is where programs say why they end."""
    ended = "it was killed" if code == _KILLED else "no report came" if code is None else f"no report came, exit code {code}"
    lines = [line.strip() for line in (errors or out)[-_SAID:].decode("utf-8", "replace").splitlines()]
    said = [line for line in lines if line.isprintable() and _WORD.search(line) and "\ufffd" not in line and not _OF_SRUN.match(line)]
    return f"{ended}: {said[-1][:200]}" if said else ended
