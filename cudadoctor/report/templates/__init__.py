"""The pages' templates. Words of a machine are made visible (`clean`) and escaped wherever a template puts them.

A page is one file: style and script stand in it, and its own policy (CSP) runs no script but ours and loads nothing.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import itertools
from collections.abc import Mapping

import jinja2
from markupsafe import Markup, escape

from cudadoctor.model import units
from cudadoctor.model.facts import Quote
from cudadoctor.model.pattern import lazy
from cudadoctor.report import words
from cudadoctor.report.clean import clean

_CODE = lazy(r"`([^`\n]+)`")


def render(name: str, context: Mapping[str, object]) -> str:
    return _environment().get_template(name).render(context)


@functools.cache
def _environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("cudadoctor.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_finalized,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters.update(prose=_prose, lines=_lines, because=words.because, size=units.size, figure=units.figure)
    made.globals.update(asset=_asset, digest=_digest)
    return made


def _asset(name: str) -> Markup:
    """A style or a script of ours."""
    loader = _environment().loader
    assert loader is not None
    return Markup(loader.get_source(_environment(), name)[0].strip())  # noqa: S704 - a file of ours


def _digest(name: str) -> str:
    """By which the page's policy knows a script."""
    return base64.b64encode(hashlib.sha256(_asset(name).encode()).digest()).decode()


def _finalized(value: object) -> object:
    """What every expression of the template goes through before it is escaped."""
    if value is None:
        return ""
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _prose(said: str) -> Markup:
    """A sentence in which `commands` stand between backticks."""
    pieces = _CODE.split(clean(said))
    return Markup("").join(Markup("<code>{}</code>").format(piece) if odd % 2 else escape(piece) for odd, piece in enumerate(pieces))


def _lines(quote: Quote) -> list[tuple[int | str, str]]:
    """The lines of a quote with their numbers, where these are known."""
    shown = clean(quote.text).split("\n")
    known = quote.first is not None and quote.last is not None and quote.last - quote.first + 1 == len(shown)
    return list(zip(itertools.count(quote.first or 1) if known else itertools.repeat(""), shown, strict=False))
