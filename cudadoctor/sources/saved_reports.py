"""A report that an earlier run wrote as JSON (schema cudadoctor.report/1), of this release or of a later one."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import inspect

from cudadoctor.model.report import SCHEMA, Report

LIMIT = 32 << 20  # bytes


class SavedReportError(Exception):
    """The file is no report; the message says why."""


def looks_like_one(head: bytes) -> bool:
    """Whether a file that begins so is JSON, as no recording and no bundle is but those of single tools."""
    return head.lstrip()[:1] == b"{" and SCHEMA.encode() in head


def read(path: str) -> Report | None:
    """The report; None where the file is something else. SavedReportError where it is a report that cannot be read."""
    try:
        with open(path, "rb") as stream:
            body = stream.read(LIMIT)
    except OSError:
        return None
    if not looks_like_one(body[:4096]):
        return None
    try:
        return msgspec.convert(_known(msgspec.json.decode(body), inspect.type_info(Report)), Report)
    except (msgspec.MsgspecError, ValueError, AttributeError) as error:
        raise SavedReportError(f"{path} is not a report that this release reads: {error}") from error


def _known(value: Any, kind: inspect.Type) -> Any:
    """The value without the keys that a later release added."""
    kinds = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    if isinstance(value, dict):
        struct = next((one for one in kinds if isinstance(one, inspect.StructType)), None)
        if struct is not None:
            return {one.encode_name: _known(value[one.encode_name], one.type) for one in struct.fields if one.encode_name in value}
    elif isinstance(value, list):
        sequence = next((one for one in kinds if isinstance(one, inspect.VarTupleType | inspect.ListType)), None)
        if sequence is not None:
            return [_known(one, sequence.item_type) for one in value]
    return value
