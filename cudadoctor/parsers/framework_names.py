"""Which frameworks a user's text names: what the complaint is about."""

from __future__ import annotations

from cudadoctor.model.frameworks import LITERALS, named_in
from cudadoctor.model.values import ASKED_FRAMEWORKS
from cudadoctor.parsers.base import Output, Parser, Text


def parse(text: Text) -> Output:
    """One fact, quoted by the first line that names each."""
    names = named_in(text.text)
    open_ = list(names)
    quotes = []
    for number, line in enumerate(text.lines, 1):
        found = [name for name in open_ if name in named_in(line)]
        if found:
            quotes.append(text.quote(number, about=found[0]))
            open_ = [name for name in open_ if name not in found]
        if not open_:
            break
    if quotes:
        yield text.fact(ASKED_FRAMEWORKS, tuple(name for name in names if name not in open_), *quotes, whole=False)


PARSER = Parser(name="framework_names", keys=(ASKED_FRAMEWORKS.name,), parse=parse, wakes=LITERALS)
