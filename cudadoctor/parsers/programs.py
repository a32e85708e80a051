"""Where programs are of which it is enough to know that the machine has them."""

from __future__ import annotations

from cudadoctor.model.values import NVIDIA_MODPROBE, SLURM_CLIENT
from cudadoctor.parsers.base import Parser, first_line

PARSERS = tuple(
    Parser(name=name, reads=(item,), keys=(key.name,), absent=(key.name,), parse=first_line(key, lambda line: line.strip() or None))
    for name, item, key in (
        ("nvidia_modprobe", "nvidia-modprobe", NVIDIA_MODPROBE),  # makes device nodes for users without the right to make them
        ("slurm_client", "slurm", SLURM_CLIENT),  # srun: who has it can ask for a node with a GPU
    )
)
