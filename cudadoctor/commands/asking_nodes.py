"""Nodes that `cudadoctor fleet` asks now: each answer is said as it comes, and Ctrl-C keeps what came. The cluster has the engine."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from cudadoctor.commands import gathering, reading_nodes, terminal
from cudadoctor.model.fleet import Missing, Node

if TYPE_CHECKING:
    from cudadoctor.sources.engines import Answer, Took, Work


_NOT_IN_NAME = re.compile(r"[^\w .:@+,()\[\]-]")  # a worker says itself what its node is called
_LONGEST_NAME = 200  # letters of a file's name


class Engine(NamedTuple):
    """How nodes are asked, their names, and those that cannot be. `once`: asked again they would say the same."""

    ask: Callable[[list[str], Work, Took], None]
    among: list[str]
    gone: list[Answer]
    once: bool = False


class Asking:
    """The nodes that the options name, asked once, and those again whose figures are in question."""

    def __init__(self, options: dict[str, Any], reader: reading_nodes.Reader) -> None:
        self.options, self.reader = options, reader
        self.engines = [_opened(name, options) for name in ENGINES if options[name] is not None]
        self.asked: dict[str, tuple[Engine, str]] = {}  # by a node's own name: who asked it, under which name

    def all(self) -> tuple[list[Node], list[Missing]]:
        nodes: list[Node] = []
        missing: list[Missing] = []
        for engine in self.engines:
            found, without = self._answered(engine, engine.among, engine.gone, self.options["save"])
            self.asked.update({node.name: (engine, node.source) for node in found})
            nodes += found
            missing += without
        one, several = _each_for_itself(nodes)
        return one, [*several, *missing]

    def again(self, names: Iterable[str]) -> list[Node]:
        """These nodes' second answers, of those that give one."""
        if self.options["quick"]:
            return []
        asked = [self.asked[name] for name in names if name in self.asked]
        found: list[Node] = []
        for engine in self.engines:
            nodes = [name for asks, name in asked if asks is engine and not engine.once]
            if nodes and not self.options["quiet"]:
                terminal.say(f"Measured again, for a figure is low: {', '.join(nodes)[:200]}\n")
            answers, _ = self._answered(engine, nodes)
            found += [node for node in answers if self.asked.get(node.name) == (engine, node.source)]  # none in another's name
        return found

    def _answered(
        self, engine: Engine, among: list[str], gone: Sequence[Answer] = (), folder: str | None = None
    ) -> tuple[list[Node], list[Missing]]:
        """`folder`: keeps their reports."""
        found: list[Node | Missing] = []
        recorded: list[Answer] = []  # judged when all have answered
        said = _said(len(among), quiet=self.options["quiet"])

        def took(answer: Answer) -> None:
            said(answer)
            if answer.recording is not None:
                recorded.append(answer)
            else:
                found.append(self._read(answer, engine.among, folder))

        try:
            if among:
                engine.ask(among, self._work(), took)
        except KeyboardInterrupt:
            terminal.say("\nInterrupted: what came until now is shown.\n")
        found += [self._read(answer, engine.among, folder) for answer in (*recorded, *gone)]
        return reading_nodes.parted(found)

    def _read(self, answer: Answer, among: list[str], folder: str | None) -> Node | Missing:
        from cudadoctor.fleet import nodes

        body = self.reader.report_of(answer)
        if isinstance(body, Missing):
            return body
        node = _of_its_own(nodes.one(answer.asked, body), among)
        if folder is not None and isinstance(node, Node):
            _keep(folder, answer.asked, body)
        return node

    def _work(self) -> Work:
        from cudadoctor.commands import policy_file
        from cudadoctor.sources import collecting
        from cudadoctor.sources.engines import Work, packed

        options = self.options
        collector = packed(collecting.script(gathering.knowledge().more_probes))
        policy = policy_file.written(self.reader.policy)
        return Work(options["timeout"], options["quick"], options["doctor"], collector, options["fanout"], policy, options["busy"])


# ---------------------------------------------------------------- engines
def _opened(name: str, options: dict[str, Any]) -> Engine:
    from cudadoctor.sources.engines import EngineError

    try:
        return ENGINES[name](options)
    except EngineError as error:
        raise terminal.usage(f"--{name}: {error}") from error
    except ImportError as error:
        raise terminal.usage(f"--{name} needs {error.name}, which the extra `fleet` brings: pip install 'cudadoctor[fleet]'") from error


def _slurm(options: dict[str, Any]) -> Engine:
    from cudadoctor.sources.engines import calling, distant

    calling.words_of(options["srun"] or "")
    among, gone = distant.nodes_of_slurm() if options["slurm"] == "all" else (distant.names(options["slurm"]), [])
    return Engine(lambda nodes, *rest: distant.srun(nodes, options["srun"], *rest), among, gone)


def _ssh(options: dict[str, Any]) -> Engine:
    from cudadoctor.sources.engines import calling, distant

    calling.words_of(options["ssh_options"] or "")
    among = distant.names(options["ssh"])
    return Engine(lambda nodes, *rest: distant.ssh(nodes, options["ssh_options"], *rest), among, [])


def _dask(options: dict[str, Any]) -> Engine:
    from cudadoctor.sources.engines import dask

    workers, gone = dask.nodes(options["dask"], options["fanout"])
    return Engine(lambda nodes, *rest: dask.ask(options["dask"], {node: workers[node] for node in nodes}, *rest), list(workers), gone)


def _kubernetes(options: dict[str, Any]) -> Engine:
    from cudadoctor.sources.engines import kubernetes

    pods, among = kubernetes.nodes(options["kubernetes"], options["kubectl"])
    return Engine(lambda _, *rest: kubernetes.ask(pods, *rest), among, [], once=True)


ENGINES: dict[str, Callable[[dict[str, Any]], Engine]] = {"slurm": _slurm, "ssh": _ssh, "dask": _dask, "kubernetes": _kubernetes}


# ---------------------------------------------------------------- their answers
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


def _of_its_own(found: Node | Missing, among: list[str]) -> Node | Missing:
    """An engine may mix answers up, and a node may speak for another: what says that it is of another asked node counts for none. A node
    may call itself otherwise than it was asked for; then its answer is no later one than another report of that name.
    """
    if isinstance(found, Missing):
        return found
    asked, name = _short(found.source), _short(found.name)
    others = set(map(_short, among)) - {asked}
    if name in others:
        return Missing(source=found.source, why=f"the answer that came is of {name}")
    return found if name == asked else msgspec.structs.replace(found, time=None)


def _short(name: str) -> str:
    """A host's name without its domain; an address is one as a whole."""
    return name if name.replace(".", "").isdigit() else name.partition(".")[0]


def _each_for_itself(nodes: Sequence[Node]) -> tuple[list[Node], list[Missing]]:
    """Where two that were asked say that they are the same node, nobody knows which of them is, unless they say the same of it, and name
    the same start. A start's number alone proves nothing: every user of a node can read it."""
    answers: dict[str, dict[str, tuple[str | None, str]]] = {}
    for node in nodes:
        answers.setdefault(node.name, {})[node.source] = (node.boot_id, node.verdict)
    twice = {
        name: " and ".join(sorted(said))
        for name, said in answers.items()
        if len(said) > 1 and (len({*said.values()}) > 1 or any(start is None for start, _ in said.values()))
    }
    why = {name: f"{sources} both say that they are {name}" for name, sources in twice.items()}
    missing = [Missing(source=node.source, why=why[node.name]) for node in nodes if node.name in why]
    return [node for node in nodes if node.name not in why], missing


def _keep(folder: str, name: str, body: bytes) -> None:
    from cudadoctor.sources import trust

    try:
        strange = trust.strange_link(folder)
        if strange is not None:
            raise OSError(errno.EPERM, f"{strange} is a link that another user made")
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError as error:
        terminal.unwritten(f"--save {folder}: {error.strerror}")
    else:
        path = os.path.join(folder, f"{_NOT_IN_NAME.sub('_', name)[:_LONGEST_NAME]}.json")
        terminal.write_file(path, body.decode("utf-8", "replace"), json=True, option="--save")
