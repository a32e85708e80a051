"""Nodes asked by Slurm's srun or by the user's own ssh: one command a node, side by side."""

from __future__ import annotations

import math
import os
import re
import shlex
from collections.abc import Callable

from cudadoctor.sources.children import Child
from cudadoctor.sources.engines import LATE, Answer, EngineError, Took, Work, answer, calling, each_named, program

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,250}")
_GONE = re.compile(r"(?:down|drain|drng|fail|unk|maint|boot|reboot|power|resv|inval|futr|plnd)", re.IGNORECASE)
_RANGE = re.compile(r"(?<!\d)(\d{1,18})-(\d{1,18})(?!\d)")
MOST_NODES = 1_000_000  # of one set
_PATIENCE = 5  # seconds to a connection, or to an allocation
_OWN_SETTINGS = ("HOME", "XDG_CONFIG_HOME", "CLUSTERSHELL_CFGDIR")  # that ClusterShell reads its settings by
_IN_A_JOB, _OF_OUR_OWN = "--overlap", "--exclusive"


def names(text: str) -> list[str]:
    """The nodes of a set such as node[001-037], in order. EngineError where it is none."""
    kept = {name: os.environ.pop(name) for name in _OWN_SETTINGS if name in os.environ}
    try:  # its settings can name modules to import, and nothing of them is needed here
        from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException
    finally:
        os.environ.update(kept)
    many = sum(int(last) - int(first) + 1 for first, last in _RANGE.findall(text))
    try:
        listed = NodeSet(text, resolver=RESOLVER_NOGROUP) if many <= MOST_NODES else ()
        if many > MOST_NODES or len(listed) > MOST_NODES:  # as many as each of its ranges times each other
            raise EngineError(f"{text[:60]} are more than {MOST_NODES} nodes")
        found = list(listed)
    except (NodeSetException, AssertionError, OverflowError) as error:  # the last: more than a number of the machine counts
        raise EngineError(f"{text[:200]}: {error}") from error
    wrong = [name for name in found if not _PLAIN.fullmatch(name)]
    if wrong or not found:
        raise EngineError(f"{wrong[0] if wrong else text!r} is no name of a node")
    return found


def nodes_of_slurm() -> tuple[list[str], list[Answer]]:
    """The nodes of this job, or of the cluster; and those that Slurm will give to nobody, with its reason."""
    if "SLURM_JOB_NODELIST" in os.environ:
        return names(os.environ["SLURM_JOB_NODELIST"]), []
    words = [calling.path_of("sinfo"), "--noheader", "--Node", "--format=%N|%T|%E"]
    listed = calling.said(words, _PATIENCE, "sinfo gave no list of nodes")
    there: dict[str, Answer | None] = {}
    for line in listed.splitlines():
        name, _, rest = line.strip().partition("|")
        state, _, reason = rest.partition("|")
        gone = bool(_GONE.match(state)) or "*" in state  # a star: it does not respond
        there[name] = Answer(name, why=f"Slurm has it as {state.rstrip('*')}: {reason}") if gone else None
    return [name for name, gone in there.items() if gone is None], [gone for gone in there.values() if gone is not None]


def srun(nodes: list[str], options: str | None, work: Work, took: Took) -> None:
    """One srun a node, so that a node that cannot be had holds nobody. `options`: srun's own, in place of ours."""
    own = options if options is not None else _IN_A_JOB if "SLURM_JOB_ID" in os.environ else _OF_OUR_OWN
    local = work.given_up_after + _PATIENCE  # its own end cancels the job, which a kill would not
    before = [calling.path_of("timeout"), "-k", "2", f"{local:g}", calling.path_of("srun"), "--quiet", "--nodes=1", "--ntasks=1"]
    limits = [f"--immediate={_PATIENCE}", "--kill-on-bad-exit=0", "--job-name=cudadoctor", f"--time={math.ceil(local / 60)}"]
    words = [*before, *limits, *calling.words_of(own)]
    _ask(nodes, lambda node: [*words, f"--nodelist={node}", "sh", "-c", program(work)], work, local + 3, took)


def ssh(nodes: list[str], options: str | None, work: Work, took: Took) -> None:
    """By the user's own ssh, which asks no questions. `options`: ssh's own."""
    ours = ["-oBatchMode=yes", f"-oConnectTimeout={_PATIENCE}", "-oForwardX11=no", "-oClearAllForwardings=yes"]
    words = [calling.path_of("ssh"), *calling.words_of(options or ""), *ours]
    seconds = work.given_up_after + _PATIENCE
    _ask(nodes, lambda node: [*words, node, f"sh -c {shlex.quote(program(work))}"], work, seconds, took)


def _ask(nodes: list[str], words: Callable[[str], list[str]], work: Work, seconds: float, took: Took) -> None:
    """Every node once."""
    commands = {node: words(node) for node in nodes}
    with each_named(nodes, took) as taken:
        calling.side_by_side(commands, work.collector, seconds, work.fanout, lambda node, child: taken(_answer(node, child, work)))


def _answer(node: str, child: Child, work: Work) -> Answer:
    if child.process is None:
        return Answer(node, why=child.why)
    if child.dropped:
        return Answer(node, why="its answer is too large for a report")
    out, errors = (bytes(child.buffers[name]) for name in ("stdout", "stderr"))
    code = child.process.returncode if child.status in ("ok", "failed") else None
    if code is not None and code < 0:
        code = 128 - code  # as a shell says it
    late = child.status in ("timed-out", "abandoned") or child.seconds >= work.killed_after
    return Answer(node, why=LATE) if late and not out else answer(node, out, errors, code, late=late)
