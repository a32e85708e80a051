"""`cudadoctor fleet`: many machines' reports and recordings as one picture."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from cudadoctor.commands import examining, gathering, helping, terminal
from cudadoctor.commands import options as groups
from cudadoctor.report.formats import OF_FLEETS

if TYPE_CHECKING:
    from cudadoctor.fleet.picture import Advice
    from cudadoctor.report.formats import Seen
    from cudadoctor.report.page import Style


@helping.command(
    "Diagnose",
    "Put many machines' reports into one picture.",
    ("cudadoctor fleet reports/", "reports and recordings"),
    ("jq -c . */gpu.json | cudadoctor fleet -", "reports, one a line"),
    ("cudadoctor fleet today/ --history runs/", "with earlier runs"),
    ("cudadoctor fleet --slurm all --quick", "ask Slurm's nodes"),
    ("cudadoctor fleet --ssh node[001-037] --save today", "and by ssh"),
)
@click.argument("files", nargs=-1)
@click.option(
    "--history",
    multiple=True,
    metavar="PATH",
    help="Earlier reports: what got worse is told, and each GPU is held against itself too; repeatable.",
)
@click.option("--expect", metavar="NODES", help="Nodes that should be there, such as node[001-037]: those without a report are named.")
@click.option("--format", "form", type=click.Choice(("text", *OF_FLEETS)), default="text", show_default=True, help="What goes to stdout.")
@click.option("--output", multiple=True, metavar="FORMAT=FILE", help="Write another format to a file; may be repeated.")
@click.option("--strict", is_flag=True, help="Exit 1 when a node is degraded or a GPU is slower than its equals.")
@groups.nodes_options
@groups.policy_options
@groups.shown
def fleet(files: tuple[str, ...], history: tuple[str, ...], expect: str | None, strict: bool, **options: Any) -> None:
    """Group many machines by cause, and name settings that drift, GPUs that are slow, and nodes that did not answer.

    FILES are reports (`check --format json`, one or one a line), recordings, and folders and archives of them; `-` is standard input. The
    name of a node stands in its report. In place of files, or beside them, nodes can be asked now: each runs the doctor where it has one,
    else a program that needs nothing but Python 3.6, and its recording is judged here.
    """
    from cudadoctor.commands import asking_nodes

    if not files and all(options[engine] is None for engine in asking_nodes.ENGINES):
        raise terminal.usage(f"give reports or recordings, or nodes to ask: {', '.join(f'--{engine}' for engine in asking_nodes.ENGINES)}")
    written = terminal.outputs(options["output"], ("text", *OF_FLEETS))
    seen = _seen(files, history, expect, strict, options)
    try:
        terminal.write_as(options["form"], _rendered(options["form"], seen, examining.style(options)), options)
    finally:
        from cudadoctor.report.page import Style

        style = Style(width=100, ascii=options["plain"], verbose=options["verbose"])
        for form, path in written:
            terminal.write_file(path, _rendered(form, seen, style), json=form == "json")
    sys.exit(seen.fleet.exit_code)


def _seen(files: tuple[str, ...], history: tuple[str, ...], expect: str | None, strict: bool, options: dict[str, Any]) -> Seen:
    """The picture, and what its formats need besides."""
    import datetime as dt

    from cudadoctor.commands import asking_nodes, reading_nodes
    from cudadoctor.fleet.picture import each_once, paint
    from cudadoctor.fleet.stragglers import Figures, find, heat, measured_twice
    from cudadoctor.report.formats import Seen

    policy = groups.asked_policy(groups.found_policy(options))
    with closing(reading_nodes.Reader(policy)) as reader:
        read, missing = reading_nodes.parted(reader.files(files))
        asking = asking_nodes.Asking(options, reader)
        answered, silent = asking.all()
        earlier, unread = reading_nodes.parted(reader.files(history))
        # Clocks differ by a quarter of an hour; a report of tomorrow is none. Nodes may have been waited for longer than that.
        soon = (dt.datetime.now(tz=dt.timezone.utc) + dt.timedelta(minutes=15)).strftime("%Y-%m-%dT%H:%M:%SZ")
        nodes, repeated = each_once([*read, *answered], soon)
        known = {measured.name for node in nodes for gpu in node.gpus for measured in gpu.figures}
        less = {row.name: row.less for row in gathering.knowledge().figures if row.name in known}
        figures, before = Figures(nodes, less), Figures(earlier, less)
        slow = list(find(figures, before))
        again = asking.again(dict.fromkeys(one.node for one in slow))
    if again:
        nodes = measured_twice(nodes, again, less)
        figures = Figures(nodes, less)
        slow = list(find(figures, before))
    missing = [*missing, *silent, *reading_nodes.absent(expect, nodes, [*missing, *silent])]
    of_history = (f"Of --history {len(unread)} could not be read, first {unread[0].source}: {unread[0].why}",) if unread else ()
    found = paint(nodes, missing, earlier, slow, _advise, strict=strict, repeated=repeated, notes=(*reader.notes, *of_history))
    return Seen(found, nodes, lambda: heat(figures))


def _rendered(form: str, seen: Seen, style: Style) -> str:
    if form != "text":
        return OF_FLEETS[form](seen, gathering.knowledge())
    from cudadoctor.report import fleet_text

    return fleet_text.render(seen.fleet, gathering.knowledge(), style)


def _advise(cause: str, system: str | None) -> Advice | None:
    """What this release knows of a cause, on a system such as `ubuntu 24.04`: a report's own words and commands may be a stranger's."""
    from cudadoctor.commands import explaining
    from cudadoctor.fleet.picture import Advice
    from cudadoctor.model import site
    from cudadoctor.prescribe import distribution

    knowledge = gathering.knowledge()
    if cause not in knowledge.causes:
        return None
    word = system.replace(" ", "-") if system is not None else ""
    steps = explaining.steps_of(cause, knowledge, word if distribution.known_word(word, knowledge) else None)
    first = steps.steps[0] if steps is not None and steps.steps else None
    return Advice(knowledge.cause(cause).title, site.of_cause(cause), first.text if first else None, first.shell if first else None)
