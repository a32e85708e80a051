"""How --help looks: commands and options in groups, summaries that are not cut, examples last, where the eye is.

A command names its group and examples where it is defined; options.group() gives options their heading.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

GROUPS = ("Diagnose", "Cure", "Measure", "Look up", "Share and automate")
_OTHERS = "Options"


class Command(click.Command):
    """A command of ours. `group`: where it stands in the list; `summary`: its words there; `examples`: (command line, what it does)."""

    def __init__(self, name: str | None, *, group: str, summary: str, examples: tuple[tuple[str, str], ...], **kwargs: Any) -> None:
        super().__init__(name, **kwargs)
        self.group, self.short_help, self.examples = group, summary, examples

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

    def format_epilog(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        _write_examples(self.examples, formatter)


class Group(click.Group):
    """All commands, by group."""

    examples = (
        ("cudadoctor check", "what is wrong here, and what to run first"),
        ("cudadoctor explain train.log", "what a text or a code means"),
        ("cudadoctor guide", "the manual"),
    )

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        for heading in GROUPS:
            with formatter.section(heading):
                commands = [one for one in self.commands.values() if getattr(one, "group", None) == heading]
                formatter.write_dl([(one.name or "", one.short_help or "") for one in commands])

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_commands(context, formatter)
        click.Command.format_options(self, context, formatter)

    def format_epilog(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        _write_examples(self.examples, formatter)


def _write_examples(examples: Iterable[tuple[str, str]], formatter: click.HelpFormatter) -> None:
    """The command lines are never wrapped."""
    lines = list(examples)
    if lines:
        width = max(len(line) for line, _ in lines)
        with formatter.section("Examples"):
            for line, words in lines:
                formatter.write(f"{' ' * formatter.current_indent}{line:<{width}}  # {words}\n")
