"""`cudadoctor mcp`: serve coding agents over standard input and output. The server is serving.py; it needs the extra `mcp`."""

from __future__ import annotations

import click

from cudadoctor.commands import helping, terminal


@helping.command(
    "Share and automate",
    "Serve coding agents over standard input and output (MCP).",
    ("cudadoctor mcp", "started by the agent"),
)
@click.option("--python", metavar="PATH", help="Interpreter that the user's programs run in; no tool can name one.")
def mcp(python: str | None) -> None:
    """Serve coding agents: an MCP server on standard input and output with tools that only read."""
    try:
        from cudadoctor.commands import serving
    except ModuleNotFoundError as error:
        raise terminal.usage(
            f"the MCP server needs the extra `mcp` ({error.name} is not installed): pip install '.[mcp]' in its folder"
        ) from error
    serving.interpreter = python
    serving.server.run("stdio")
