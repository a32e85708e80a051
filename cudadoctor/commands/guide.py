"""`cudadoctor guide`: a page of the manual without a network, or all of them as files."""

from __future__ import annotations

from typing import Any

import click

from cudadoctor.commands import examining, gathering, helping, terminal
from cudadoctor.commands import options as groups


def _pages() -> list[str]:
    from cudadoctor.commands import manual

    return manual.names()


@helping.command(
    "Look up",
    "Print a page of the manual.",
    ("cudadoctor guide", "the list of the pages"),
    ("cudadoctor guide ci", "one of them"),
)
@click.argument("words", metavar="[PAGE]", nargs=-1, shell_complete=groups.completing(_pages))
@click.option("--pages", metavar="DIR", help="Write the whole manual into this folder, with a page for each cause and code, as Markdown.")
@groups.shown
def guide(words: tuple[str, ...], pages: str | None, **options: Any) -> None:
    """Print a page of the manual; without PAGE, the list of them.

    `cudadoctor guide skill` prints the skill for coding agents as it is.
    """
    from cudadoctor.commands import manual

    page = "-".join(words) if words else "index"  # a blank where a - was meant
    if pages is not None:
        try:
            body = manual.write_files(pages, gathering.knowledge())
        except OSError as error:
            raise terminal.usage(f"--pages {pages}: {error.strerror}") from error
    elif page not in manual.names():
        raise terminal.usage(f"there is no page {page!r}{terminal.nearest(page, manual.names())}; `cudadoctor guide` lists them")
    else:
        body = manual.page(page)
        if page != manual.SKILL:
            from cudadoctor.report import guide_text

            body = guide_text.render(body, examining.style(options))
    if not options["quiet"]:
        terminal.write(body)
