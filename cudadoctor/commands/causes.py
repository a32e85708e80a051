"""`cudadoctor causes`: the list of the causes, or a page for each."""

from __future__ import annotations

from typing import Any

import click

from cudadoctor.commands import examining, gathering, terminal
from cudadoctor.commands import options as groups


@click.command()
@click.option("--format", "form", type=click.Choice(examining.FORMATS), default="text", show_default=True)
@click.option("--pages", metavar="DIR", help="Write a Markdown page for each cause, and an index, into this folder.")
@groups.shown
def causes(form: str, pages: str | None, **options: Any) -> None:
    """List the causes that cudadoctor can name, or write their pages."""
    from cudadoctor.commands import explaining

    try:
        body = explaining.listing(gathering.knowledge(), form) if pages is None else explaining.write_files(pages, gathering.knowledge())
    except OSError as error:
        raise terminal.usage(f"--pages {pages}: {error.strerror}") from error
    if form == "json" and pages is None:
        terminal.write_json(body, options["plain"])
    elif not options["quiet"]:
        terminal.write(body)
