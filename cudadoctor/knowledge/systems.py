"""The rows of tables/distributions.toml, and of tables/device_problems.toml for Windows, as typed values."""

from __future__ import annotations

import msgspec

from cudadoctor.knowledge.tables import Row, Source, Table


class DistributionRow(Row, frozen=True, kw_only=True):
    """A distribution: whose packages it uses. `codenames`: its version -> the release of its parent."""

    id: str
    names: tuple[str, ...] = ()
    family: str | None = None
    codenames: dict[str, str] = msgspec.field(default_factory=dict)
    codename: str | None = None
    image: str | None = None  # rpm-ostree | transactional-update
    ready_image: bool = False
    repository: dict[str, str] | None = None
    driver: str | None = None
    branch_driver: str | None = None


class Distributions(Table, frozen=True, kw_only=True):
    distribution: tuple[DistributionRow, ...]


class DeviceProblem(Row, frozen=True, kw_only=True):
    """A code by which Windows says why a device does not run. `causes`: what it says of an NVIDIA GPU, likeliest first."""

    code: int
    name: str
    meaning: str
    causes: tuple[str, ...]
    source: Source


class DeviceProblems(Table, frozen=True, kw_only=True):
    problem: tuple[DeviceProblem, ...]
