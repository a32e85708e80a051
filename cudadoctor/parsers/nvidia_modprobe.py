"""Where nvidia-modprobe is: the program that makes device nodes for users without the right to make them."""

from __future__ import annotations

from collections.abc import Iterator

from cudadoctor.model.facts import Fact
from cudadoctor.model.values import NVIDIA_MODPROBE
from cudadoctor.parsers.base import Parser, Text


def parse(text: Text) -> Iterator[Fact[str]]:
    path = text.lines[0].strip()
    if path:
        yield text.fact(NVIDIA_MODPROBE, path, text.quote(1))


PARSER = Parser(
    name="nvidia_modprobe", reads=("nvidia-modprobe",), keys=(NVIDIA_MODPROBE.name,), absent=(NVIDIA_MODPROBE.name,), parse=parse
)
