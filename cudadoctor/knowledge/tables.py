"""The rows of the knowledge tables as typed values.

A field keeps the file's text; where rules compare versions, a property gives it as the version type that it is
(`Architecture.last_toolkit` is a ToolkitVersion, `Branch.cuda` a CudaVersion), so that different quantities never meet.
"""

from __future__ import annotations

import re
from typing import Literal, TypeVar

import msgspec

from cudadoctor.model.version import ComputeCapability, CudaVersion, ModuleVersion, ToolkitVersion, Version

V = TypeVar("V", bound=Version)
Source = str | tuple[str, ...]
OpenModules = Literal["unsupported", "supported", "required"]


def version_of(kind: type[V], text: str | None) -> V | None:
    """The text as a version of that kind; None stays None."""
    return None if text is None else kind(text)


class Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all rows: a key that no field has is an error.

    `read`: the day on which its source was read, where it is not that of the file's head (`<list>_read`, `read`).
    """

    read: str | None = None


class Sourced(Row, frozen=True, kw_only=True):
    """Base of rows that name what they rest on: keys of the file's `sources`, or the text itself."""

    source: Source


class Table(Row, frozen=True, kw_only=True):
    """Base of all files. `sources`: what the rows rest on, by the keys that their `source` names."""

    meta: dict[str, str | int] = {}
    sources: dict[str, str] = {}


# ---------------------------------------------------------------- architectures and chips
class Generation(Sourced, frozen=True, kw_only=True, rename={"first_toolkit_text": "first_toolkit", "last_toolkit_text": "last_toolkit"}):
    """Base of both: which drivers and toolkits go with these GPUs. `last_*` None: still supported."""

    first_toolkit_text: str | None = None
    last_toolkit_text: str | None = None
    first_driver_branch: int | None = None
    first_driver: str | None = None
    first_driver_basis: str | None = None

    @property
    def first_toolkit(self) -> ToolkitVersion | None:
        return version_of(ToolkitVersion, self.first_toolkit_text)

    @property
    def last_toolkit(self) -> ToolkitVersion | None:
        return version_of(ToolkitVersion, self.last_toolkit_text)


class Architecture(Generation, frozen=True, kw_only=True):
    """A GPU architecture."""

    id: str
    name: str
    chips: tuple[str, ...]
    cc: tuple[str, ...]
    common_driver_branch: int | None = None  # what most of its products need, where the first of them came with an earlier branch
    last_driver_branch: int | None = None
    last_driver: str | None = None
    open_modules: OpenModules
    open_modules_note: str | None = None
    has_gsp: bool
    tensor_cores: int | None = None
    note: str | None = None

    def of(self, capability: Capability | None) -> Architecture:
        """What holds for its GPUs of one capability: chips that came later need a later driver."""
        if capability is None or capability.first_driver_branch is None:
            return self
        return msgspec.structs.replace(
            self, first_driver_branch=capability.first_driver_branch, first_driver=capability.first_driver,
            first_driver_basis=capability.first_driver_basis,
        )  # fmt: skip

    @property
    def capabilities(self) -> tuple[ComputeCapability, ...]:
        return tuple(ComputeCapability(text) for text in self.cc)


class Capability(Generation, frozen=True, kw_only=True):
    """One compute capability: arithmetic units per multiprocessor and the toolkits that compile for it.

    `first_driver*`: where they differ from those of its architecture.
    """

    cc: str
    architecture: str
    fp32_lanes_per_sm: int | None = None
    fp64_lanes_per_sm: int | None = None
    fp64_note: str | None = None
    fp64_uncertain: str | None = None
    toolkit_note: str | None = None
    tegra: bool = False
    beside_arm: bool = False  # made in one package with Arm processors, as a Tegra is
    alias: str | None = None

    @property
    def compute_capability(self) -> ComputeCapability:
        return ComputeCapability(self.cc)


class Chip(Row, frozen=True, kw_only=True):
    """What a PCI id or a chip's name says about a GPU. `architecture` is an id of Architecture, or "pre-cuda"."""

    architecture: str
    compute_capability: ComputeCapability | None = None


class IdRange(Row, frozen=True, kw_only=True):
    """A run of neighbouring PCI device ids (hexadecimal) with one architecture and capability."""

    first: str
    last: str
    architecture: str
    cc: str | None = None
    ids: int
    chips: tuple[str, ...]


class ChipPrefix(Sourced, frozen=True, kw_only=True):
    prefix: str
    architecture: str
    family: str
    regex: str
    cc: str | None = None
    last_driver_branch: int | None = None
    cuda: bool
    note: str | None = None

    def fits(self, name: str) -> bool:
        return re.match(self.regex, name) is not None


class ChipCapability(Sourced, frozen=True, kw_only=True):
    regex: str
    cc: str


class ChipException(Sourced, frozen=True, kw_only=True):
    """A trap of chip names, in words."""

    name: str
    meaning: str


# ---------------------------------------------------------------- toolkits and drivers
class ToolkitInfo(Sourced, frozen=True, kw_only=True, rename={"cc_min_text": "cc_min", "cc_max_text": "cc_max"}):
    """A CUDA toolkit of one major.minor: the GPUs it compiles for and the host compilers it accepts."""

    cuda: str
    compute_capabilities: tuple[str, ...]
    cc_min_text: str
    cc_max_text: str
    ptx_isa: str
    gcc_max: int
    clang_max: str
    msc_ver_min: int | None = None
    msc_ver_below: int | None = None
    minor_compat_linux_min: str | None = None
    minor_compat_windows_min: str | None = None
    note: str | None = None
    wheel: str | None = None

    @property
    def version(self) -> ToolkitVersion:
        return ToolkitVersion(self.cuda)

    @property
    def cc_min(self) -> ComputeCapability:
        return ComputeCapability(self.cc_min_text)

    @property
    def cc_max(self) -> ComputeCapability:
        return ComputeCapability(self.cc_max_text)

    @property
    def capabilities(self) -> tuple[ComputeCapability, ...]:
        return tuple(ComputeCapability(text) for text in self.compute_capabilities)


class ToolkitRelease(Sourced, frozen=True, kw_only=True):
    """A toolkit release and the driver that supports it in full."""

    release: str  # "12.4 Update 1"
    linux_min: str
    windows_min: str | None = None

    @property
    def version(self) -> ToolkitVersion:
        return ToolkitVersion(self.release.split()[0])


class DriverMinimum(Row, frozen=True, kw_only=True):
    """The oldest driver (x86_64) of one system for a toolkit.

    `full`: everything works. `minor`: machine code works, PTX may not (minor-version compatibility). None: not known, or there is none.
    """

    full: ModuleVersion | None = None
    minor: ModuleVersion | None = None


class SmiVersion(Sourced, frozen=True, kw_only=True):
    """The CUDA version that a measured driver reports."""

    cuda: str
    branch: int
    driver: str


class DistroToolkit(Sourced, frozen=True, kw_only=True):
    """What `apt install nvidia-cuda-toolkit` brings. `release` is number and codename ("24.04 noble")."""

    distro: str
    release: str
    package: str
    version: str
    cuda: str
    gcc: str | None = None
    component: str

    @property
    def toolkit(self) -> ToolkitVersion:
        return ToolkitVersion(self.cuda)


class Branch(Sourced, frozen=True, kw_only=True, rename={"cuda_text": "cuda"}):
    """A driver branch (the first number of its versions) and the packages that carry it."""

    branch: int
    cuda_text: str | None = None
    cuda_measured: str | None = None
    type: str
    last: str | None = None
    eol: str | None = None
    architectures: tuple[str, ...] = ()
    last_for: tuple[str, ...] = ()
    open_modules: bool = False
    proprietary_modules_ubuntu: bool | None = None
    ubuntu: tuple[str, ...] = ()
    debian: tuple[str, ...] = ()
    debian_nvidia_repo: tuple[str, ...] = ()
    fedora_rpmfusion: tuple[str, ...] = ()
    opensuse: tuple[str, ...] = ()
    arch_aur: tuple[str, ...] = ()
    windows_last: str | None = None
    windows_notebooks_last: str | None = None  # where the notebooks among the GPUs of `last_for` ended earlier
    note: str | None = None
    uncertain: tuple[str, ...] = ()

    @property
    def cuda(self) -> CudaVersion | None:
        return version_of(CudaVersion, self.cuda_text)


class UbuntuPackage(Row, frozen=True, kw_only=True):
    """A driver package of an Ubuntu release (by codename) that installs what its name says."""

    release: str
    package: str
    version: str
    component: str
    support: str

    @property
    def driver(self) -> ModuleVersion:
        return ModuleVersion(self.version.split("-")[0])


class UbuntuTransitional(Row, frozen=True, kw_only=True):
    """A package that only pulls another; `ends_at` is what one really gets."""

    release: str
    package: str
    installs: str
    ends_at: str


# ---------------------------------------------------------------- environment variables
class EnvVar(Sourced, frozen=True, kw_only=True):
    name: str
    group: str
    meaning: str
    values: tuple[str, ...] = ()
    default: str | None = None
    pitfall: str | None = None
    causes: tuple[str, ...] = ()


class VisibleDevicesRule(Sourced, frozen=True, kw_only=True):
    input: str
    effect: str
    certainty: str


# ---------------------------------------------------------------- benchmark.toml: names of figures, and what a GPU can do
FigureClass = Literal["pcie", "memory", "arithmetic", "tensor", "shared", "peer", "none"]
SHARED_BYTES = 128  # that one multiprocessor reads in a cycle, from Maxwell on


class FigureRow(Sourced, frozen=True, kw_only=True, rename={"of": "class"}):
    """One figure. `of`: what sets its limit."""

    name: str
    title: str
    words: str
    of: FigureClass
    good: float | None = None
    drift: float = 0.08
    less: bool = False
    key: bool = False


class RateRow(Sourced, frozen=True, kw_only=True):
    """What one multiprocessor does in a cycle, in multiply-adds."""

    cc: str
    fp16: int | None = None
    bf16: int | None = None
    tensor: dict[str, int] | None = None  # multiply-adds of the tensor cores, dense, by the type of the operands
    shared_bytes: int | None = None
    nvlink: float | None = None  # GB/s of one link in one direction


# ---------------------------------------------------------------- topics.toml: what `explain` says beside the numbers
class TopicKind(Sourced, frozen=True, kw_only=True):
    """A kind of thing that can be asked for. `example`: a question that leads to one."""

    id: str
    name: str
    meaning: str
    example: str


class Pitfall(Sourced, frozen=True, kw_only=True):
    """What usually goes wrong with things of these kinds. `when`: only where this condition holds of the thing."""

    topics: tuple[str, ...]
    when: str | None = None
    text: str
    causes: tuple[str, ...] = ()


class Advice(Sourced, frozen=True, kw_only=True):
    """What to do about a code that no cause stands for."""

    api: str
    when: str | None = None
    text: str
