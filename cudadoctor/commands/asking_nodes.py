"""Nodes that `cudadoctor fleet` asks now: each answer is said as it comes, and Ctrl-C keeps what came. The cluster has the engine."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cudadoctor.commands import gathering, reading_nodes, terminal
from cudadoctor.model.fleet import Missing, Node

if TYPE_CHECKING:
    from cudadoctor.model.requirements import Policy
    from cudadoctor.sources.engines import Answer, Took, Work

Ask = Callable[["Work", "Took"], None]
Opened = tuple[Ask, list[str], list["Answer"]]  # how nodes are asked, their names, and those that cannot be


def asked(options: dict[str, Any], reader: reading_nodes.Reader) -> tuple[list[Node], list[Missing]]:
    """What the engines' nodes answered; nothing where none was asked."""
    nodes: list[Node] = []
    missing: list[Missing] = []
    for name in ENGINES:
        if options[name] is None:
            continue
        ask, among, gone = _opened(name, options)
        answers = _answers(ask, _work(options, reader.policy), _said(len(among), quiet=options["quiet"])) if among else []
        found, without = _read([*answers, *gone], reader, options["save"])
        nodes += found
        missing += without
        missing += _of_another(answers, found, among)
    return nodes, missing


# ---------------------------------------------------------------- engines
def _opened(name: str, options: dict[str, Any]) -> Opened:
    from cudadoctor.sources.engines import EngineError

    try:
        return ENGINES[name](options)
    except EngineError as error:
        raise terminal.usage(f"--{name}: {error}") from error
    except ImportError as error:
        raise terminal.usage(f"--{name} needs {error.name}, which the extra `fleet` brings: pip install 'cudadoctor[fleet]'") from error


def _slurm(options: dict[str, Any]) -> Opened:
    from cudadoctor.sources.engines import distant

    among, gone = distant.nodes_of_slurm() if options["slurm"] == "all" else (distant.names(options["slurm"]), [])
    return functools.partial(distant.srun, among, options["srun"]), among, gone


def _ssh(options: dict[str, Any]) -> Opened:
    from cudadoctor.sources.engines import distant

    among = distant.names(options["ssh"])
    return functools.partial(distant.ssh, among, options["ssh_options"]), among, []


def _dask(options: dict[str, Any]) -> Opened:
    from cudadoctor.sources.engines import dask

    workers, gone = dask.nodes(options["dask"], options["fanout"])
    return functools.partial(dask.ask, options["dask"], workers), list(workers), gone


def _kubernetes(options: dict[str, Any]) -> Opened:
    from cudadoctor.sources.engines import kubernetes

    pods, among = kubernetes.nodes(options["kubernetes"], options["kubectl"])
    return functools.partial(kubernetes.ask, pods), among, []


ENGINES: dict[str, Callable[[dict[str, Any]], Opened]] = {"slurm": _slurm, "ssh": _ssh, "dask": _dask, "kubernetes": _kubernetes}


# ---------------------------------------------------------------- their answers
def _work(options: dict[str, Any], policy: Policy | None) -> Work:
    from cudadoctor.commands import policy_file
    from cudadoctor.sources import collecting
    from cudadoctor.sources.engines import Work, packed

    collector = packed(collecting.script(gathering.knowledge().more_probes))
    return Work(options["timeout"], options["quick"], options["doctor"], collector, options["fanout"], policy_file.written(policy))


def _answers(ask: Ask, work: Work, said: Callable[[Answer], None]) -> list[Answer]:
    """All that came, also where the user had enough."""
    answers: list[Answer] = []

    def took(answer: Answer) -> None:
        answers.append(answer)
        said(answer)

    try:
        ask(work, took)
    except KeyboardInterrupt:
        terminal.say("\nInterrupted: what came until now is shown.\n")
    return answers


def _said(count: int, *, quiet: bool) -> Callable[[Answer], None]:
    """A line on stderr for each node that has no report, and how far it is."""
    done = 0

    def say(answer: Answer) -> None:
        nonlocal done
        done += 1
        if quiet:
            return
        if answer.why is not None:
            terminal.say(f"{done} of {count}  {answer.asked}: {answer.why}\n")
        elif sys.stderr.isatty() or done == count:
            terminal.say(f"{done} of {count}  {answer.asked} answered\n")

    return say


def _read(answers: list[Answer], reader: reading_nodes.Reader, folder: str | None) -> tuple[list[Node], list[Missing]]:
    from cudadoctor.fleet import nodes

    found: list[Node | Missing] = []
    for answer in answers:
        body = reader.report_of(answer)
        if isinstance(body, Missing):
            found.append(body)
            continue
        found += (read := list(nodes.read(answer.asked, body)))
        if folder is not None and read and isinstance(read[0], Node):
            _keep(folder, answer.asked, body)
    return reading_nodes.parted(found)


def _keep(folder: str, name: str, body: bytes) -> None:
    from cudadoctor.sources import writing

    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        writing.text(os.path.join(folder, f"{name.replace(os.sep, '_')}.json"), body.decode("utf-8", "replace"))
    except OSError as error:
        raise terminal.usage(f"--save {folder}: {error.strerror}") from error


def _of_another(answers: list[Answer], nodes: list[Node], among: list[str]) -> list[Missing]:
    """Nodes whose answer was another asked node's: an engine may mix them up, and the report itself says whose it is."""
    names = {node.source: node.name.partition(".")[0] for node in nodes}
    asked = {name.partition(".")[0] for name in among}
    return [
        Missing(source=one.asked, why=f"the answer that came is of {names[one.asked]}")
        for one in answers
        if one.asked in names and names[one.asked] != one.asked.partition(".")[0] and names[one.asked] in asked
    ]
