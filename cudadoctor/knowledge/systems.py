"""The rows of tables/distributions.toml, and of tables/device_problems.toml for Windows, as typed values."""

from __future__ import annotations

import msgspec

from cudadoctor.knowledge.tables import Row, Sourced, Table


class DistributionRow(Row, frozen=True, kw_only=True):
    """A distribution: whose packages it uses, and what texts call it. `codenames`: its version -> the release of its parent."""

    id: str
    names: tuple[str, ...] = ()
    family: str | None = None
    codenames: dict[str, str] = msgspec.field(default_factory=dict)
    codename: str | None = None
    image: str | None = None  # rpm-ostree | transactional-update
    ready_image: str | None = None
    repository: dict[str, str] | None = None
    series_only: tuple[str, ...] = ()
    toolkit: tuple[str, str] | None = None
    driver: str | None = None
    branch_driver: str | None = None
    words: str | None = None
    rolling: bool = False
    older_drivers: int | None = None  # of Arch's descendants: it packages from this branch on those that Arch leaves to the AUR
    kernels: dict[str, str] = msgspec.field(default_factory=dict)
    libraries: dict[str, str] = msgspec.field(default_factory=dict)
    new_libc: str | None = None  # the first release with glibc 2.41


class KernelRow(Row, frozen=True, kw_only=True):
    """A form of kernel releases, and the system that builds them; `like` alone: its family."""

    form: str
    id: str | None = None
    like: tuple[str, ...] = ()


class Distributions(Table, frozen=True, kw_only=True):
    distribution: tuple[DistributionRow, ...]
    kernel: tuple[KernelRow, ...]
    words: dict[str, tuple[str, ...]]


class DeviceProblem(Sourced, frozen=True, kw_only=True):
    """A code by which Windows says why a device does not run. `causes`: what it says of an NVIDIA GPU, likeliest first."""

    code: int
    name: str
    meaning: str
    causes: tuple[str, ...]
