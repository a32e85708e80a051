"""`cudadoctor causes`: the list of the causes."""

from __future__ import annotations

from typing import Any

import click

from cudadoctor.commands import examining, gathering, helping, terminal
from cudadoctor.commands import options as groups


@click.command(
    cls=helping.Command,
    group="Look up",
    summary="List the causes that can be named.",
    examples=(("cudadoctor causes", "each with its layer"),),
)
@click.option("--format", "form", type=click.Choice(examining.FORMATS), default="text", show_default=True)
@groups.shown
def causes(form: str, **options: Any) -> None:
    """List the causes that cudadoctor can name."""
    from cudadoctor.commands import explaining

    body = explaining.listing(gathering.knowledge(), form)
    if form == "json":
        terminal.write_json(body, options["plain"])
    elif not options["quiet"]:
        terminal.write(body)
