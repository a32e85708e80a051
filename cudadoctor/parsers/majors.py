"""/proc/devices: the major number under which each driver's devices are registered at present."""

from __future__ import annotations

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import MAJORS
from cudadoctor.parsers.base import Output, Parser, Text

_LINE = lazy(r"^\s{0,8}(?P<major>\d{1,6}) (?P<name>nvidia[\w-]{0,40})$")


def parse(text: Text) -> Output:
    """The character devices of NVIDIA's driver; without the heading it is another text."""
    heading = next((number for number, line in enumerate(text.lines, 1) if line.startswith("Character devices")), None)
    if heading is None:
        return
    found: dict[str, tuple[int, int]] = {}
    for number, line in enumerate(text.lines, 1):
        entry = _LINE.match(line)
        if entry is not None:
            found.setdefault(entry["name"], (int(entry["major"]), number))
    lines = [line for _, line in found.values()] or [heading]
    yield text.fact(MAJORS, {name: major for name, (major, _) in found.items()}, *map(text.quote, lines))


PARSER = Parser(name="majors", reads=("devices",), keys=(MAJORS.name,), absent=(MAJORS.name,), parse=parse)
