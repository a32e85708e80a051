"""Nodes asked by Slurm's srun or by ssh, one command a node, side by side: ClusterShell runs them and hands each answer on as it ends."""

from __future__ import annotations

import math
import os
import re
import shlex
import subprocess
import time
from collections.abc import Iterable
from typing import Any

from cudadoctor.sources.engines import INTERRUPTED, LATE, Answer, EngineError, Took, Work, answer, program

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,250}")
_GONE = re.compile(r"(?:down|drain|drng|fail|unk|maint|boot|reboot|power|resv|inval|futr|plnd)", re.IGNORECASE)
_PATIENCE = 5  # seconds to a connection, or to an allocation
_MOST = 64 << 20  # bytes of one node's answer
_IN_A_JOB, _OF_OUR_OWN = "--overlap", "--exclusive"


def names(text: str) -> list[str]:
    """The nodes of a set such as node[001-037], in order. EngineError where it is none."""
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

    try:
        found = list(NodeSet(text, resolver=RESOLVER_NOGROUP))
    except NodeSetException as error:
        raise EngineError(f"{text}: {error}") from error
    wrong = [name for name in found if not _PLAIN.fullmatch(name)]
    if wrong or not found:
        raise EngineError(f"{wrong[0] if wrong else text!r} is no name of a node")
    return found


def nodes_of_slurm() -> tuple[list[str], list[Answer]]:
    """The nodes of this job, or of the cluster; and those that Slurm will give to nobody, with its reason."""
    if "SLURM_JOB_NODELIST" in os.environ:
        return names(os.environ["SLURM_JOB_NODELIST"]), []
    try:
        listed = subprocess.run(
            ["sinfo", "--noheader", "--Node", "--format=%N|%T|%E"],  # noqa: S607 - the user asked for Slurm's programs
            capture_output=True, timeout=_PATIENCE, check=True, text=True, errors="replace",
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        said = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        raise EngineError(f"sinfo gave no list of nodes: {said[-1] if said else error}") from error
    there: dict[str, Answer | None] = {}
    for line in listed.stdout.splitlines():
        name, _, rest = line.strip().partition("|")
        state, _, reason = rest.partition("|")
        gone = bool(_GONE.match(state)) or "*" in state  # a star: it does not respond
        there[name] = Answer(name, why=f"Slurm has it as {state.rstrip('*')}: {reason}") if gone else None
    return [name for name, gone in there.items() if gone is None], [gone for gone in there.values() if gone is not None]


def srun(nodes: list[str], options: str | None, work: Work, took: Took) -> None:
    """One srun a node, so that a node that cannot be had holds nobody. `options`: srun's own, in place of ours."""
    own = options if options is not None else _IN_A_JOB if "SLURM_JOB_ID" in os.environ else _OF_OUR_OWN
    local = work.given_up_after + _PATIENCE  # its own end cancels the job, which a kill would not
    command = [
        "timeout", "-k", "2", f"{local:g}", "srun", "--quiet", "--nodelist=%h", "--nodes=1", "--ntasks=1", f"--immediate={_PATIENCE}",
        "--kill-on-bad-exit=0", "--job-name=cudadoctor", f"--time={math.ceil(local / 60)}", *shlex.split(own), "sh", "-c", program(work),
    ]  # fmt: skip
    line = "exec " + " ".join(part if part == "--nodelist=%h" else shlex.quote(part).replace("%", "%%") for part in command)
    _ask(nodes, line, "Exec", work, local + 3, took)


def ssh(nodes: list[str], options: str | None, work: Work, took: Took) -> None:
    """By the user's own ssh, which asks no questions. `options`: ssh's own."""
    _ask(nodes, f"sh -c {shlex.quote(program(work))}", "Ssh", work, work.given_up_after + _PATIENCE, took, options)


def _ask(nodes: Iterable[str], command: str, kind: str, work: Work, seconds: float, took: Took, ssh_options: str | None = None) -> None:
    """Every node once; a node that is left when the user interrupts is named too, and then the interrupt goes on."""
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet
    from ClusterShell.Task import task_self, task_terminate
    from ClusterShell.Worker.Exec import ExecWorker
    from ClusterShell.Worker.Ssh import WorkerSsh

    task = task_self()
    for name in ("stdout_msgtree", "stderr_msgtree"):
        task.set_default(name, False)
    task.set_info("fanout", work.fanout)
    task.set_info("connect_timeout", _PATIENCE)
    task.set_info("ssh_options", ssh_options)
    asked = NodeSet.fromlist(list(nodes), resolver=RESOLVER_NOGROUP)
    listener = _listener(took, work.killed_after)
    worker = (WorkerSsh if kind == "Ssh" else ExecWorker)(asked, handler=listener, timeout=seconds, command=command, stderr=True)
    task.schedule(worker)
    worker.write(work.collector)
    worker.set_write_eof()
    try:
        task.run()
        listener.rest(asked, LATE)
    except KeyboardInterrupt:
        listener.rest(asked, INTERRUPTED)
        raise
    finally:
        task_terminate()


def _listener(took: Took, limit: float) -> Any:
    from ClusterShell.Event import EventHandler

    class Listener(EventHandler):  # type: ignore[misc]
        """Gathers each node's lines until its command ends."""

        def __init__(self) -> None:
            self.lines: dict[str, dict[str, list[bytes]]] = {}
            self.size: dict[str, int] = {}
            self.began: dict[str, float] = {}
            self.done: set[str] = set()

        def ev_pickup(self, worker: Any, node: str) -> None:
            self.began[node] = time.monotonic()

        def ev_read(self, worker: Any, node: str, sname: str, msg: bytes) -> None:
            self.size[node] = self.size.get(node, 0) + len(msg) + 1
            if self.size[node] <= _MOST:
                self.lines.setdefault(node, {}).setdefault(sname, []).append(msg)

        def ev_hup(self, worker: Any, node: str, rc: int | None) -> None:
            lines = self.lines.pop(node, {})
            self.done.add(node)
            out, errors = (b"\n".join(lines.get(name, ())) for name in (worker.SNAME_STDOUT, worker.SNAME_STDERR))
            if self.size.get(node, 0) > _MOST:
                took(Answer(node, why=f"its answer is larger than {_MOST >> 20} MiB"))
            else:
                took(answer(node, out, errors, rc, late=time.monotonic() - self.began[node] >= limit))

        def rest(self, asked: Iterable[str], why: str) -> None:
            for node in asked:
                if node not in self.done:
                    took(Answer(node, why=why))

    return Listener()
