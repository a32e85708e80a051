"""Which system calls of the driver's, and which parts of /proc, a process is refused (sources/kernel_interface.py)."""

from __future__ import annotations

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import KERNEL_INTERFACE, Refusal
from cudadoctor.parsers.base import Output, Parser, Text

_REFUSED = lazy(r"^(?P<name>[\w/]{2,40}): (?P<answer>[^\n]{1,120})$")


def parse(text: Text) -> Output:
    """One fact with all that is refused; nothing where all is answered."""
    found = [Refusal(**refused.groupdict(), line=number) for number, refused in text.rows(_REFUSED)]
    quotes = [text.quote(entry.line) for entry in found] or [text.absent("every system call was answered")]
    yield text.fact(KERNEL_INTERFACE, tuple(found), *quotes)


PARSER = Parser(name="kernel_interface", reads=("kernel-interface",), keys=(KERNEL_INTERFACE.name,), parse=parse)
