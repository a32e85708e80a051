"""`cudadoctor fleet`: many machines' reports and recordings as one picture."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

import click

from cudadoctor.commands import gathering, helping, terminal
from cudadoctor.commands import options as groups

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,250}")  # of a node's name

if TYPE_CHECKING:
    from cudadoctor.model.fleet import Fleet, Missing, Node
    from cudadoctor.report.fleet_text import Fold
    from cudadoctor.sources.fleet_files import Piece
    from cudadoctor.within.asking import Judge


@click.command(
    cls=helping.Command,
    group="Diagnose",
    summary="Put many machines' reports into one picture.",
    examples=(
        ("cudadoctor fleet reports/", "a folder of reports and recordings"),
        ("jq -c . */gpu.json | cudadoctor fleet -", "reports, one a line"),
        ("cudadoctor fleet today/ --history runs/", "with earlier runs"),
    ),
)
@click.argument("files", nargs=-1, required=True)
@click.option("--history", multiple=True, metavar="PATH", help="Reports of earlier runs: each GPU is held against itself too; repeatable.")
@click.option("--expect", metavar="NODES", help="Nodes that should be there, such as node[001-037]: those without a report are named.")
@click.option("--format", "form", type=click.Choice(("text", "json")), default="text", show_default=True)
@click.option("--strict", is_flag=True, help="Exit 1 when a node is degraded or a GPU is slower than its equals.")
@groups.shown
def fleet(files: tuple[str, ...], history: tuple[str, ...], expect: str | None, form: str, strict: bool, **options: Any) -> None:
    """Group many machines by cause, and name settings that drift, GPUs that are slow, and nodes that did not answer.

    FILES are reports (`check --format json`, one or one a line), recordings, and folders and archives of them; `-` is standard input. The
    name of a node stands in its report.
    """
    from cudadoctor.fleet import picture

    knowledge = gathering.knowledge()
    with ExitStack() as ends:
        judge = _judge(ends)
        nodes, missing = _sorted(_read(files, judge))
        earlier, unread = _sorted(_read(history, judge))
    missing += _absent(expect, nodes)
    less = {name: row.less for name in _figures(nodes) if (row := knowledge.figure(name)) is not None}
    found = picture.paint(nodes, missing, earlier, less, strict=strict)
    if unread:
        import msgspec

        said = f"Of --history {len(unread)} could not be read, first {unread[0].source}: {unread[0].why}"
        found = msgspec.structs.replace(found, notes=(said,))
    _show(found, form, options)
    sys.exit(found.exit_code)


def _show(found: Fleet, form: str, options: dict[str, Any]) -> None:
    if form == "json":
        from cudadoctor.report import json

        terminal.write_json(json.render(found), options["plain"])
    elif not options["quiet"]:
        from cudadoctor.report import fleet_text

        style = terminal.style(options["color"], options["plain"], options["verbose"])
        terminal.write(fleet_text.render(found, gathering.knowledge(), style, _fold()))


def _judge(ends: ExitStack) -> Callable[[], Judge]:
    """The child that judges recordings; reports need none."""
    started: list[Judge] = []

    def judge() -> Judge:
        if not started:
            from cudadoctor.within.asking import Judge

            started.append(ends.enter_context(closing(Judge())))
        return started[0]

    return judge


def _sorted(found: Iterable[Node | Missing]) -> tuple[list[Node], list[Missing]]:
    from cudadoctor.model.fleet import Node

    nodes: list[Node] = []
    missing: list[Missing] = []
    for one in found:
        if isinstance(one, Node):
            nodes.append(one)
        else:
            missing.append(one)
    return nodes, missing


def _read(paths: Iterable[str], judge: Callable[[], Judge]) -> Iterator[Node | Missing]:
    from cudadoctor.fleet import nodes
    from cudadoctor.model.fleet import Missing
    from cudadoctor.sources import fleet_files

    for piece in fleet_files.pieces(paths, sys.stdin.buffer):
        if piece.why is not None:
            yield Missing(source=piece.source, why=piece.why)
        elif piece.body is not None:
            yield from nodes.read(piece.source, piece.body)
        else:
            yield from _judged(piece, judge())


def _judged(piece: Piece, judge: Judge) -> Iterator[Node | Missing]:
    """The node of a recording."""
    from cudadoctor.fleet import nodes
    from cudadoctor.model.fleet import Missing
    from cudadoctor.model.judgement import Question
    from cudadoctor.report import json
    from cudadoctor.sources import bundles, recording

    try:
        machines = bundles.replayed(piece.recording or "")
    except (recording.RecordingError, bundles.BundleError) as error:
        yield Missing(source=piece.source, why=str(error))
        return
    for machine in machines:
        report = judge.answer(Question(machines=(machine,))).report
        yield from nodes.read(piece.source, json.render(report).encode())


def _absent(expect: str | None, nodes: Iterable[Node]) -> list[Missing]:
    """The nodes that should have been there and are not."""
    from cudadoctor.model.fleet import Missing

    if expect is None:
        return []
    try:
        from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException
    except ImportError as error:
        raise terminal.usage("--expect reads sets of nodes with ClusterShell, which the extra `fleet` brings") from error
    try:
        wanted = NodeSet(expect, resolver=RESOLVER_NOGROUP)
    except NodeSetException as error:
        raise terminal.usage(f"--expect {expect}: {error}") from error
    seen = {name for node in nodes for name in (node.name, node.name.partition(".")[0])}
    return [Missing(source=name, why="no report of this node") for name in wanted if name not in seen]


def _figures(nodes: Iterable[Node]) -> set[str]:
    return {measured.name for node in nodes for gpu in node.gpus for measured in gpu.figures}


def _fold() -> Fold:
    """Node sets as ClusterShell writes them, where it is installed (the extra `fleet`).

    Only plain names are folded: they come from reports, and ClusterShell reads brackets as a million nodes and @ as a group, for which it
    runs commands.
    """
    from cudadoctor.report import fleet_text

    try:
        from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet
    except ImportError:
        return fleet_text.plain

    def fold(names: Iterable[str]) -> str:
        known = list(names)
        plain = [name for name in known if _PLAIN.fullmatch(name)]
        folded = [str(NodeSet.fromlist(plain, resolver=RESOLVER_NOGROUP))] if plain else []
        return fleet_text.plain([*folded, *(name for name in known if not _PLAIN.fullmatch(name))])

    return fold
