"""`cudadoctor fleet`: many machines' reports and recordings as one picture."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from cudadoctor.commands import gathering, helping, terminal
from cudadoctor.commands import options as groups

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,250}")  # of a node's name

if TYPE_CHECKING:
    from cudadoctor.model.fleet import Fleet, Node
    from cudadoctor.report.fleet_text import Fold


@click.command(
    cls=helping.Command,
    group="Diagnose",
    summary="Put many machines' reports into one picture.",
    examples=(
        ("cudadoctor fleet reports/", "reports and recordings"),
        ("jq -c . */gpu.json | cudadoctor fleet -", "reports, one a line"),
        ("cudadoctor fleet today/ --history runs/", "with earlier runs"),
        ("cudadoctor fleet --slurm all --quick", "ask Slurm's nodes"),
        ("cudadoctor fleet --ssh node[001-037] --save today", "and by ssh"),
    ),
)
@click.argument("files", nargs=-1)
@click.option("--history", multiple=True, metavar="PATH", help="Reports of earlier runs: each GPU is held against itself too; repeatable.")
@click.option("--expect", metavar="NODES", help="Nodes that should be there, such as node[001-037]: those without a report are named.")
@click.option("--format", "form", type=click.Choice(("text", "json")), default="text", show_default=True)
@click.option("--strict", is_flag=True, help="Exit 1 when a node is degraded or a GPU is slower than its equals.")
@groups.nodes_options
@groups.shown
def fleet(files: tuple[str, ...], history: tuple[str, ...], expect: str | None, form: str, strict: bool, **options: Any) -> None:
    """Group many machines by cause, and name settings that drift, GPUs that are slow, and nodes that did not answer.

    FILES are reports (`check --format json`, one or one a line), recordings, and folders and archives of them; `-` is standard input. The
    name of a node stands in its report. In place of files, or beside them, nodes can be asked now: each runs the doctor where it has one,
    else a program that needs nothing but Python 3.6, and its recording is judged here.
    """
    from cudadoctor.commands import asking_nodes, reading_nodes
    from cudadoctor.fleet import picture

    if not files and options["slurm"] is None and options["ssh"] is None:
        raise terminal.usage("give reports or recordings, or nodes to ask: --slurm, --ssh")
    knowledge = gathering.knowledge()
    with closing(reading_nodes.Reader()) as reader:
        nodes, missing = reading_nodes.parted(reader.files(files))
        answered, silent = asking_nodes.asked(options, reader)
        earlier, unread = reading_nodes.parted(reader.files(history))
    nodes += answered
    missing += silent
    missing += reading_nodes.absent(expect, nodes, missing)
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
