"""Fact values: the tests that `dcgmi diag` ran."""

from __future__ import annotations

from cudadoctor.model.facts import Key
from cudadoctor.model.values.base import Value


class DcgmError(Value, frozen=True, kw_only=True):
    """One complaint of a test: DCGM's words, and its number for them (dcgmError_t)."""

    text: str
    code: int | None = None
    line: int = 0


class DcgmFailure(Value, frozen=True, kw_only=True):
    """A test that failed, on one GPU or entity; None: on the whole machine."""

    test: str
    entity: str | None = None  # GPU 0
    errors: tuple[DcgmError, ...] = ()
    line: int = 0


class DcgmDiag(Value, frozen=True, kw_only=True):
    """One run. Tests that were skipped or only warned are counted, and accuse nobody."""

    failures: tuple[DcgmFailure, ...] = ()
    passed: tuple[str, ...] = ()  # names of tests that passed somewhere
    warned: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    driver: str | None = None
    version: str | None = None
    runtime_error: str | None = None  # DCGM itself did not come to its tests


DCGM = Key[DcgmDiag]("dcgm-diag")
