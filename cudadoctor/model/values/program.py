"""Fact values: what a text shows of the user's own program."""

from __future__ import annotations

from cudadoctor.model.facts import Key
from cudadoctor.model.values.base import Value


class Launch(Value, frozen=True, kw_only=True):
    """A kernel launch with its configuration in numbers, as the program's source line writes it."""

    kernel: str
    form: str  # numba: name[grid, block](...); cuda: name<<<grid, block>>>(...); pycuda: block=(...), grid=(...)
    grid: tuple[int, ...]
    block: tuple[int, ...]
    line: int = 0


LAUNCH: Key[Launch] = Key("launch")  # the one that asks for most threads in a block
