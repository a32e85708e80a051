"""The rows of tables/dcgm_errors.toml as typed values: the numbers by which DCGM says why a test failed."""

from __future__ import annotations

from cudadoctor.knowledge.decoding import part_of, row_by
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
    dcgm_error = row_by(dcgm_errors, "code")  # None for a code that no cause of the vocabulary stands for
