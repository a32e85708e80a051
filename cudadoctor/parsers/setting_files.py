"""The files in which the variables of the environment are set."""

from __future__ import annotations

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import SET_IN, SetIn
from cudadoctor.parsers.base import Output, Parser, Text

_LINE = lazy(r"^(?P<path>/.{1,1000}):(?P<number>\d{1,7}): (?P<name>[A-Za-z_]\w{0,100})(?P<more> \.\.\.)?$")


def parse(text: Text) -> Output:
    """All lines that set one, in the order in which a shell reads them."""
    found = [_LINE.match(line) for line in text.lines]
    places = [
        SetIn(name=one["name"], path=one["path"], line=int(one["number"]), alone=one["more"] is None) for one in found if one is not None
    ]
    if not places:
        if text.whole:
            yield text.fact(SET_IN, None, text.absent("no profile and no file in /etc sets a variable of this environment"))
        return
    yield text.fact(SET_IN, tuple(places), *(text.quote(number) for number, one in enumerate(found[:60], 1) if one is not None))


PARSER = Parser(name="setting_files", reads=("setting-files",), keys=(SET_IN.name,), parse=parse)
