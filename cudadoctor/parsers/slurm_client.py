"""Where Slurm's program srun is: a machine that has it can ask for a node with a GPU."""

from __future__ import annotations

from collections.abc import Iterator

from cudadoctor.model.facts import Fact
from cudadoctor.model.values import SLURM_CLIENT
from cudadoctor.parsers.base import Parser, Text


def parse(text: Text) -> Iterator[Fact[str]]:
    path = text.lines[0].strip()
    if path:
        yield text.fact(SLURM_CLIENT, path, text.quote(1))


PARSER = Parser(name="slurm_client", reads=("slurm",), keys=(SLURM_CLIENT.name,), absent=(SLURM_CLIENT.name,), parse=parse)
