"""`cudadoctor explain`: a code, a cause, a thing, a file or a text; `cudadoctor causes`: the list of the causes."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from cudadoctor.commands import examining, gathering, helping, terminal
from cudadoctor.commands import options as groups

if TYPE_CHECKING:
    from cudadoctor.within.asking import Judge


def _judges(what: str, ends: ExitStack) -> Callable[[], Judge]:
    """Gives the child that judges. Where it is seen at once that there is a text it starts now; the page of a code needs none."""

    def start() -> Judge:
        return ends.enter_context(gathering.judging())

    early = start() if what == "-" or len(what.split()) > 3 or os.path.exists(what) else None
    return lambda: early or start()


def _piped() -> bool:
    """Whether somebody handed a text over: a terminal and /dev/null hold none."""
    try:
        kind = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError, AttributeError):  # closed, or none at all
        return False
    return stat.S_ISFIFO(kind) or stat.S_ISREG(kind) or stat.S_ISSOCK(kind)


@helping.command(
    "Diagnose",
    "Explain a code, a cause, a thing, a log or an error text.",
    ("cudadoctor explain Xid 79", "a code"),
    ("cudadoctor explain train.log", "a log"),
    ("python train.py 2>&1 | cudadoctor explain", "what a program prints"),
    ("cudadoctor explain nouveau-bound", "a cause, with its steps"),
)
@click.argument("words", metavar="WHAT", nargs=-1, shell_complete=examining.causes_of)
@groups.text_or_json_option
@groups.distro_option
@groups.shown
def explain(words: tuple[str, ...], form: str, distro: str | None, **options: Any) -> None:
    """Explain a code, a cause, a thing or a text.

    WHAT is `-` (standard input; so is nothing, with a pipe or a file there), a cause id, a code (cuda 100, Xid 79), an environment
    variable, a GPU (GK208M, 10de:1292, sm_90), a version (driver 470, cuda 12.4, ptx 8.5, gcc 13, numba 0.60), a file, or the text itself.
    """
    if not words and not _piped():
        raise click.MissingParameter(param_hint="'WHAT...'", param_type="argument")
    what = " ".join(words) if words else "-"  # `explain Xid 79` needs no quotes
    with ExitStack() as ends:
        judge = _judges(what, ends)
        from cudadoctor.commands import explaining

        knowledge, style = gathering.knowledge(), examining.style(options)
        try:
            body, code = explaining.answer(what, knowledge, judge, form=form, style=style, distro=distro, stdin=sys.stdin.buffer)
        except explaining.NotUnderstoodError as error:
            raise terminal.usage(str(error)) from error
    terminal.write_as(form, body, options)
    sys.exit(code)


@helping.command(
    "Look up",
    "List the causes that can be named.",
    ("cudadoctor causes", "each with its layer"),
)
@groups.text_or_json_option
@groups.shown
def causes(form: str, **options: Any) -> None:
    """List the causes that cudadoctor can name."""
    from cudadoctor.commands import explaining

    body = explaining.listing(gathering.knowledge(), form)
    terminal.write_as(form, body, options)
