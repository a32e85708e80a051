"""Fact values that only texts state: packages that a tool lists, what a framework says of itself, GPUs that a text names, `numba -s`, a
launch in the source of the user's own program."""

from __future__ import annotations

import re

from cudadoctor.model.facts import Key
from cudadoctor.model.values.base import Shown, Value
from cudadoctor.model.version import ComputeCapability, CudaVersion, ModuleVersion, PackageVersion, ToolkitVersion


class ListedPackage(Shown, frozen=True, kw_only=True):
    """One line of pip list, pip freeze or conda list. `build` is the local tag (cpu, cu121) or conda's build string."""

    name: str  # small letters, hyphens
    version: PackageVersion
    build: str | None = None


class ListedPackages(Value, frozen=True, kw_only=True):
    packages: tuple[ListedPackage, ...] = ()

    def named(self, *names: str) -> ListedPackage | None:
        """The first of these packages that is listed."""
        return next((entry for name in names for entry in self.packages if entry.name == name), None)


class Framework(Value, frozen=True, kw_only=True):
    """What a framework says of itself. A field that is None was not stated."""

    version: PackageVersion | None = None
    build: str | None = None  # cpu, cu121
    cuda: ToolkitVersion | None = None  # what it was built with
    built_with_cuda: bool | None = None
    available: bool | None = None  # whether it can use a GPU
    capability: ComputeCapability | None = None  # of the GPU that it would use
    architectures: tuple[str, ...] = ()  # that it holds machine code for: sm_75, compute_90
    runtime: ToolkitVersion | None = None  # nvcc beside it
    driver: ModuleVersion | None = None
    gcc: int | None = None  # major version of the host compiler beside it
    line: int = 0  # of the version or the build
    available_line: int = 0

    @property
    def toolkit(self) -> ToolkitVersion | None:
        """What it was built with, by its own word, else by its build."""
        return self.cuda or toolkit_of_build(self.build)


def toolkit_of_build(build: str | None) -> ToolkitVersion | None:
    """12.4 for cu124, the local version of PyTorch's wheels."""
    found = re.fullmatch(r"cu(\d{2})(\d)", build or "")
    return ToolkitVersion(f"{found[1]}.{found[2]}") if found is not None else None


class NamedGpu(Shown, frozen=True, kw_only=True):
    """A GPU by its product's name, or by a compute capability that a program printed for it."""

    name: str | None = None
    capability: ComputeCapability | None = None


class NumbaReport(Shown, frozen=True, kw_only=True):
    """`numba -s`: versions and what its search for the toolkit came to."""

    numba: PackageVersion | None = None
    driver_cuda: CudaVersion | None = None
    runtime: ToolkitVersion | None = None
    initialised: bool | None = None
    implementation: str | None = None  # NVIDIA (numba-cuda) | Built-in
    located: ToolkitVersion | None = None  # the toolkit in whose folder of Windows the last part was found
    located_line: int = 0
    missing: tuple[str, ...] = ()  # libraries that it did not find or could not open
    runtime_line: int = 0


class CudaMention(Shown, frozen=True, kw_only=True):
    """A CUDA toolkit's version that a text speaks of, in prose or in a path."""

    version: ToolkitVersion


class NamedDriver(Shown, frozen=True, kw_only=True):
    """A driver that a text speaks of: a package's name, an installer's file, `driver 390.157`. `is_open`: None where it is not said."""

    branch: int | None = None
    is_open: bool | None = None


class NamedChip(Shown, frozen=True, kw_only=True):
    """A chip by its code name, GT218."""

    name: str


class NamedDrivers(Value, frozen=True, kw_only=True):
    drivers: tuple[NamedDriver, ...] = ()
    chips: tuple[NamedChip, ...] = ()


class Launch(Shown, frozen=True, kw_only=True):
    """A kernel launch with its configuration in numbers, as the program's source line writes it."""

    kernel: str
    form: str  # numba: name[grid, block](...); cuda: name<<<grid, block>>>(...); pycuda: block=(...), grid=(...)
    grid: tuple[int, ...]
    block: tuple[int, ...]


LISTED_PACKAGES = Key[ListedPackages]("listed-packages")
FRAMEWORKS = Key[Framework]("framework")
NAMED_GPUS = Key[tuple[NamedGpu, ...]]("named-gpus")
NUMBA_REPORT = Key[NumbaReport]("numba-report")
CUDA_MENTIONS = Key[tuple[CudaMention, ...]]("cuda-mentions")
NAMED_DRIVERS = Key[NamedDrivers]("named-drivers")
LAUNCH = Key[Launch]("launch")  # the one that asks for most threads in a block
