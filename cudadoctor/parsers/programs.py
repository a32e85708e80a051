"""Where programs are of which it is enough to know that the machine has them."""

from __future__ import annotations

from cudadoctor.model.facts import Key
from cudadoctor.model.values import NVIDIA_MODPROBE, SLURM_CLIENT
from cudadoctor.parsers.base import Output, Parser, Text


def _parser(name: str, item: str, key: Key[str]) -> Parser:
    def parse(text: Text) -> Output:
        path = text.lines[0].strip()
        if path:
            yield text.fact(key, path, text.quote(1))

    return Parser(name=name, reads=(item,), keys=(key.name,), absent=(key.name,), parse=parse)


PARSERS = (
    _parser("nvidia_modprobe", "nvidia-modprobe", NVIDIA_MODPROBE),  # makes device nodes for users without the right to make them
    _parser("slurm_client", "slurm", SLURM_CLIENT),  # srun: who has it can ask for a node with a GPU
)
