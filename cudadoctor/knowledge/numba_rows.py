"""The rows of the table of Numba's releases: which Python, NumPy and CUDA each of them takes."""

from __future__ import annotations

import re

from cudadoctor.knowledge.tables import Sourced
from cudadoctor.model.version import PackageVersion, ToolkitVersion

# numba-cuda up to this release reads numpy.row_stack, which NumPy 2.5 removed. Its metadata sets no bound.
LAST_WITH_ROW_STACK, NUMPY_WITHOUT_ROW_STACK = PackageVersion("0.30.4"), PackageVersion("2.5")


class NumbaRelease(Sourced, frozen=True, kw_only=True):
    numba: str
    released: str | None = None
    python: str
    numpy: str
    llvmlite: str
    builtin_cuda: bool | None = None
    builtin_ctk: str | None = None
    builtin_cc: tuple[str, ...] = ()

    def covers(self, version: PackageVersion) -> bool:
        """Whether the row's release (0.67.0, 0.68.x, 0.55.{0,1}) is this version."""
        head, _, last = self.numba.partition("{")
        numbers = tuple(int(part) for part in re.findall(r"\d+", head))
        if version.numbers[: len(numbers)] != numbers:
            return False
        chosen = {int(part) for part in re.findall(r"\d+", last)}
        return not chosen or (len(version.numbers) > len(numbers) and version.numbers[len(numbers)] in chosen)

    @property
    def toolkits(self) -> tuple[ToolkitVersion, ToolkitVersion] | None:
        """The oldest and the newest toolkit of its own CUDA target; 11.x counts as 11.99."""
        found = re.fullmatch(r"(\d{1,4}\.\d{1,4})-(\d{1,4}\.(?:\d{1,4}|x))", self.builtin_ctk or "")
        if found is None:
            return None
        return ToolkitVersion(found[1]), ToolkitVersion(found[2].replace("x", "99"))


class NumbaCudaRelease(Sourced, frozen=True, kw_only=True):
    numba_cuda: str
    released: str
    numba: str
    ctk_majors: tuple[str, ...]
    python: str
    cc: str
    extras: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    extra_cu12: tuple[str, ...] = ()
    extra_cu13: tuple[str, ...] = ()
    note: str | None = None


class NumbaFact(Sourced, frozen=True, kw_only=True):
    topic: str
    about: tuple[str, ...]  # numba, numba-cuda
    fact: str


class NumbaEnv(Sourced, frozen=True, kw_only=True):
    name: str
    meaning: str
    pitfall: str | None = None
    applies: str
    causes: tuple[str, ...] = ()
