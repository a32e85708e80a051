"""The rows of tables/distributions.toml as typed values."""

from __future__ import annotations

import msgspec

from cudadoctor.knowledge.tables import Row, Table


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
