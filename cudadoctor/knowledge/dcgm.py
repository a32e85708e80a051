"""The rows of tables/dcgm_errors.toml as typed values: the numbers by which DCGM says why a test failed."""

from __future__ import annotations

from cudadoctor.knowledge.decoding import part_of
from cudadoctor.knowledge.tables import Row, Table
from cudadoctor.knowledge.topics import TopicTables


class DcgmErrorRow(Row, frozen=True, kw_only=True):
    """A dcgmError_t. `causes` are ids of the vocabulary, likeliest first: one states the cause, several or `suspect_only` are suspects."""

    code: int
    name: str
    causes: tuple[str, ...]
    suspect_only: bool = False


class DcgmErrors(Table, frozen=True, kw_only=True):
    error: tuple[DcgmErrorRow, ...]


class DcgmTables(TopicTables):
    """The part of Knowledge that reads them."""

    dcgm_errors = part_of("dcgm_errors", DcgmErrors, lambda table: table.error)

    def dcgm_error(self, code: int) -> DcgmErrorRow | None:
        """None for a code that no cause of the vocabulary stands for."""
        return next((row for row in self.dcgm_errors if row.code == code), None)
