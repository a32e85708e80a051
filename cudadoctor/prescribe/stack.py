"""The software that fits a GPU and the driver that is or will be there: toolkit or wheels, Numba's release and target, Python.

The architecture, driver, compatibility and Numba tables are joined here. A driver refuses PTX that is newer than the CUDA it supports, and
Numba makes PTX: so the toolkit must not be newer than the driver's CUDA, except where the wheels link to machine code (CUDA 12 and later).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from cudadoctor.model.pattern import lazy
from cudadoctor.model.version import PackageVersion, ToolkitVersion
from cudadoctor.prescribe import pip

if TYPE_CHECKING:
    from cudadoctor.knowledge.numba_rows import NumbaRelease
    from cudadoctor.prescribe.case import Case

OLDEST_OF_CONDA = ToolkitVersion("10.0")  # of conda-forge's cudatoolkit, which ends with 11.8
_LOW = lazy(r"(?P<a>\d\.\d{1,2})\s*<=\s*version|>=\s*(?P<b>\d\.\d{1,2})")
_BELOW = lazy(r"<\s*(\d\.\d{1,2})")


class Stack(msgspec.Struct, frozen=True, kw_only=True):
    """One fitting set. `wheels`: what pip is asked for where wheels bring the toolkit; else `toolkit` is to be installed apart."""

    wheels: str | None = None
    toolkit: ToolkitVersion | None = None
    numba: str = "numba"
    release: NumbaRelease | None = None


def _range(words: str) -> tuple[PackageVersion | None, PackageVersion | None]:
    low, below = _LOW.search(words), _BELOW.search(words)
    return PackageVersion(low["a"] or low["b"]) if low is not None else None, PackageVersion(below[1]) if below is not None else None


def _within(words: str, python: PackageVersion) -> bool:
    low, below = _range(words)
    return (low is None or python >= low) and (below is None or python < below)


def stack_of(case: Case) -> Stack | None:
    """What fits this case's GPUs and the driver that it counts with; None where no toolkit that Numba takes serves them."""
    rows = case.knowledge.numba_releases
    python = PackageVersion(case.python.version) if case.python is not None else None
    here = [row for row in rows if python is None or _within(row.python, python)] or list(rows)
    series = pip.series(case)
    if series is not None:
        return Stack(wheels=pip.requirement(series), release=here[0] if here else None)
    toolkit = _newest_toolkit(case)
    row = next((row for row in here if toolkit is not None and takes(row, toolkit)), None)
    row = row or next((row for row in rows if toolkit is not None and takes(row, toolkit)), None)
    if toolkit is None or row is None:
        return None
    # pip and conda take the newest that this Python allows: a bound is needed only where that one does not take the toolkit.
    series_of_row = ".".join(re.findall(r"\d+", row.numba)[:2])
    return Stack(toolkit=toolkit, numba="numba" if row is here[0] else f"numba=={series_of_row}.*", release=row)


def _newest_toolkit(case: Case) -> ToolkitVersion | None:
    """The newest that neither the driver nor a GPU rules out."""
    last = [row.last_toolkit for row in map(case.knowledge.capability, case.gpus.capabilities) if row is not None and row.last_toolkit]
    driver = [ToolkitVersion("{}.{}".format(*case.cuda.major_minor))] if case.cuda is not None else []
    return min((*last, *driver), key=lambda version: version.major_minor, default=None)


def outdated(case: Case, stack: Stack) -> bool:
    """Whether the examined Python is outside of what this Numba runs on; where none is known, whether that is an old one."""
    if case.python is None:
        return stack.numba != "numba"  # an older one than the newest is asked for
    return stack.release is not None and not _within(stack.release.python, PackageVersion(case.python.version))


def takes(row: NumbaRelease, toolkit: ToolkitVersion) -> bool:
    """Whether the release's own CUDA target works with this toolkit."""
    if row.toolkits is None:
        return False
    first, last = row.toolkits
    return first.major_minor <= toolkit.major_minor <= last.major_minor


def in_words(ranges: str) -> str:
    """A table's ranges (`1.22 <= version < 1.27 ; version == 2.0`, `>= 3.10`) as a reader says them."""
    said = []
    for part in re.sub(r"\([^)]{0,200}\)", "", ranges).split(";"):
        low, below = _LOW.search(part), _BELOW.search(part)
        one = re.search(r"==\s*([\d.]+)", part)
        words = [one[1]] if one else [f"from {low['a'] or low['b']} on"] if low else []
        said.append(", ".join([*words, *([f"below {below[1]}"] if below else [])]))
    return " or ".join(said)


def newest_python(stack: Stack) -> str:
    """The newest Python that the release states to run on; where it states no upper bound, the newest that its neighbours state."""
    _, below = _range(stack.release.python if stack.release is not None else "")
    return f"3.{below.numbers[1] - 1}" if below is not None else "3.12"
