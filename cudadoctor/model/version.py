"""Version numbers of different things are different types: comparing a driver with a toolkit by accident is an error.

A version is kept as the text that was read; it is ordered by its number groups ("580.65.06" < "580.159.04").
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import msgspec

_NUMBERS = re.compile(r"\d{1,18}")  # Python makes no number of thousands of digits, and no version has one


@lru_cache(4096)  # tables compare the same versions again and again
def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(group) for group in _NUMBERS.findall(text))


class Version(msgspec.Struct, frozen=True, eq=False):
    """A version of one kind of thing. Only versions of the same class compare; anything else raises TypeError."""

    text: str

    @property
    def numbers(self) -> tuple[int, ...]:
        return numbers(self.text)

    @property
    def major(self) -> int:
        return self.numbers[0] if self.numbers else 0

    @property
    def major_minor(self) -> tuple[int, int]:
        padded = (*self.numbers, 0, 0)
        return padded[0], padded[1]

    def _other(self, other: object) -> tuple[int, ...]:
        if type(other) is not type(self):
            raise TypeError(f"{type(self).__name__} does not compare with {type(other).__name__}")
        assert isinstance(other, Version)
        return other.numbers

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.numbers == self._other(other)

    # All four are written out: functools.total_ordering takes the wrappers that Struct inherits for definitions of ours.
    def __lt__(self, other: Any) -> bool:
        return self.numbers < self._other(other)

    def __le__(self, other: Any) -> bool:
        return self.numbers <= self._other(other)

    def __gt__(self, other: Any) -> bool:
        return self.numbers > self._other(other)

    def __ge__(self, other: Any) -> bool:
        return self.numbers >= self._other(other)

    def __hash__(self) -> int:
        return hash((type(self), self.numbers))

    def __str__(self) -> str:
        return self.text


class ModuleVersion(Version, frozen=True, eq=False):
    """The NVIDIA kernel module that is loaded, for example 580.159.04. Its first number is the driver branch."""


class LibraryVersion(Version, frozen=True, eq=False):
    """The user-space driver (libcuda, libnvidia-ml), for example 580.159.04."""


class CudaVersion(Version, frozen=True, eq=False):
    """The newest CUDA that a driver supports: what nvidia-smi calls CUDA Version."""


class ToolkitVersion(Version, frozen=True, eq=False):
    """A CUDA toolkit or one of its parts (nvcc, NVVM, NVRTC, cudart), for example 12.4."""

    def newer_than_driver(self, driver: CudaVersion) -> bool:
        """Whether a driver of this CUDA version cannot load PTX that this toolkit writes (major and minor compared)."""
        return self.major_minor > driver.major_minor


class PackageVersion(Version, frozen=True, eq=False):
    """A Python package."""


class ComputeCapability(Version, frozen=True, eq=False):
    """The generation of a GPU's instructions, for example 9.0."""
