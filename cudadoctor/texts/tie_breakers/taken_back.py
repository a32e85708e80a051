"""What a text says and takes back itself: a CPU that is meant, a driver that is said to be absent beside a table of its GPUs.

A clue that is taken back is kept as an advice, which blames nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cudadoctor.model.facts import Facts
from cudadoctor.model.findings import Clue
from cudadoctor.model.values import SMI
from cudadoctor.texts.tie_breakers.place import Place

# What a program without a GPU says, also where it is to run without one.
_WITHOUT_GPU = frozenset(
    ("framework-cpu-build", "libcuda-missing", "driver-not-installed", "driver-not-loaded", "container-no-gpu-access", "no-nvidia-gpu")
)
# What cannot be where nvidia-smi lists the GPUs of the same machine.
_NO_DRIVER = frozenset(("driver-not-loaded", "driver-not-installed", "nouveau-bound", "driver-module-missing-for-kernel"))


def standing(said: Sequence[Clue], facts: Facts) -> list[Clue]:
    """The clues of a user's text, with those that the text takes back as advice."""
    gone = (_WITHOUT_GPU if Place(facts).said("cpu-meant") else frozenset()) | (_NO_DRIVER if _listed(facts) else frozenset())
    return [msgspec.structs.replace(clue, advice=True) if clue.cause in gone and clue.basis == "stated" else clue for clue in said]


def _listed(facts: Facts) -> bool:
    """Whether every nvidia-smi of the text lists GPUs: before and after are not told apart."""
    answers = [fact.value for fact in facts.all(SMI)]
    return bool(answers) and all(answer is not None and bool(answer.gpus) and answer.failure is None for answer in answers)
