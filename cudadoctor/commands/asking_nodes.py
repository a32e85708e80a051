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

ENGINES = ("slurm", "ssh", "dask")
Ask = Callable[["Work", "Took"], None]


def asked(options: dict[str, Any], reader: reading_nodes.Reader) -> tuple[list[Node], list[Missing]]:
    """What the engines' nodes answered; nothing where none was asked."""
    nodes: list[Node] = []
    missing: list[Missing] = []
    for ask, among, gone in _engines(options):
        answers = _answers(ask, _work(options, reader.policy), _said(len(among), quiet=options["quiet"]))
        found, without = _read([*answers, *gone], reader, options["save"])
        nodes += found
        missing += without
        missing += _of_another(answers, found, among)
    return nodes, missing


def _engines(options: dict[str, Any]) -> list[tuple[Ask, list[str], list[Answer]]]:
    """Each engine with the nodes that it asks, and those that it cannot."""
    found: list[tuple[Ask, list[str], list[Answer]]] = []
    if options["slurm"] is not None:
        among, gone = _of_slurm(options["slurm"])
        found.append((functools.partial(_distant, "srun", among, options["srun"]), among, gone))
    if options["dask"] is not None:
        workers, gone = _of_dask(options["dask"], options["fanout"])
        found.append((functools.partial(_by_dask, options["dask"], workers), list(workers), gone))
    if options["ssh"] is not None:
        among = reading_nodes.node_set(options["ssh"], "--ssh")
        found.append((functools.partial(_distant, "ssh", among, options["ssh_options"]), among, []))
    return found


def _of_slurm(wanted: str) -> tuple[list[str], list[Answer]]:
    if wanted != "all":
        return reading_nodes.node_set(wanted, "--slurm"), []
    from cudadoctor.sources.engines import EngineError

    try:
        from cudadoctor.sources.engines import distant

        return distant.nodes_of_slurm()
    except EngineError as error:
        raise terminal.usage(f"--slurm all: {error}") from error
    except ImportError as error:
        raise terminal.usage("--slurm needs ClusterShell, which the extra `fleet` brings: pip install 'cudadoctor[fleet]'") from error


def _of_dask(address: str, fanout: int) -> tuple[dict[str, str], list[Answer]]:
    from cudadoctor.sources.engines import EngineError, dask

    try:
        return dask.nodes(address, fanout)
    except EngineError as error:
        raise terminal.usage(f"--dask: {error}") from error
    except ImportError as error:
        raise terminal.usage("--dask needs distributed, which the extra `fleet` brings: pip install 'cudadoctor[fleet]'") from error


def _by_dask(address: str, workers: dict[str, str], work: Work, took: Took) -> None:
    from cudadoctor.sources.engines import dask

    if workers:
        dask.ask(address, workers, work, took)


def _distant(engine: str, among: list[str], own: str | None, work: Work, took: Took) -> None:
    from cudadoctor.sources.engines import distant

    if among:
        getattr(distant, engine)(among, work, own, took)


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
