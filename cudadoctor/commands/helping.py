"""How --help looks: commands and options in groups, summaries that are not cut, examples last, where the eye is.

A command names its group and examples where it is defined; options.group() gives options their heading.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

GROUPS = ("Diagnose", "Cure", "Measure", "Look up", "Share and automate")
_OTHERS = "Options"


class _WithExamples(click.Command):
    examples: tuple[tuple[str, str], ...]  # (command line, what it does)

    def format_epilog(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """The command lines are never wrapped."""
        width = max(len(line) for line, _ in self.examples)
        with formatter.section("Examples"):
            for line, words in self.examples:
                formatter.write(f"{' ' * formatter.current_indent}{line:<{width}}  # {words}\n")


class Command(_WithExamples):
    group: str

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        headed: dict[str, list[tuple[str, str]]] = {_OTHERS: []}
        for parameter in self.get_params(context):
            record = parameter.get_help_record(context) if isinstance(parameter, click.Option) else None
            if record is not None:
                headed.setdefault(getattr(parameter, "heading", _OTHERS), []).append(record)
        for heading, records in headed.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)


def command(group: str, summary: str, *examples: tuple[str, str], **more: Any) -> Callable[[Callable[..., Any]], Command]:
    """`group`: where it stands in the list; `summary`: its words there; `examples`: (command line, what it does)."""

    def made(function: Callable[..., Any]) -> Command:
        found = click.command(cls=Command, short_help=summary, **more)(function)
        found.group, found.examples = group, examples
        return found

    return made


class Group(_WithExamples, click.Group):
    examples = (
        ("cudadoctor check", "what is wrong here, and what to run first"),
        ("cudadoctor explain train.log", "what a text or a code means"),
        ("cudadoctor guide", "the manual"),
    )

    def resolve_command(self, context: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """`help check` too; and whoever forgot `explain` is told."""
        if args == ["help"]:
            click.echo(context.get_help())
            context.exit()
        if args[:1] == ["help"] and len(args) == 2:
            args = [args[1], "--help"]
        try:
            return super().resolve_command(context, args)
        except click.UsageError as error:
            if args and not args[0].startswith("-") and not getattr(error, "possibilities", None):
                error = click.UsageError(f"{error.message} To look up a code, a cause or a text: cudadoctor explain WORDS", context)
            raise error from None

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        for heading in GROUPS:
            with formatter.section(heading):
                commands = [one for one in self.commands.values() if getattr(one, "group", None) == heading]
                formatter.write_dl([(one.name or "", one.short_help or "") for one in commands])

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_commands(context, formatter)
        click.Command.format_options(self, context, formatter)
