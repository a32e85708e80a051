"""A report that an earlier run wrote as JSON (schema cudadoctor.report/1), of this release, of an earlier or of a later one.

Keys that a later release added are left out; those that an earlier one did not know yet are what they are where nobody knows.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import inspect

from cudadoctor.model.report import LARGEST, SCHEMA, Report
from cudadoctor.sources import inputs

_MOST = 1 << 17  # parts of one report (a GPU, a figure, a line): 64 GPUs that were measured to each other have 50,000
_ANY_SCHEMA = re.compile(rb"cudadoctor\.report/(\d{1,6})")


class SavedReportError(Exception):
    """The file is no report; the message says why."""


def read(path: str) -> Report | None:
    """The report; None where the file is something else. SavedReportError where it is a report that cannot be read."""
    try:
        body = inputs.of_path(path).body
    except inputs.InputError:
        return None
    head = body[:4096].lstrip()
    if head[:1] != b"{" or _ANY_SCHEMA.search(head) is None:  # JSON, as no recording and no bundle is but those of single tools
        return None
    if len(body) > LARGEST:  # read as values, 30 MB take a gigabyte
        raise SavedReportError(f"{path} is larger than {LARGEST >> 20} MiB, which no report is")
    try:
        found = msgspec.json.decode(body)
        written = found.get("schema")
        if written != SCHEMA:  # keys may come, but a new number says that others have gone
            said = f"{path} is a report of schema {written}; this release reads {SCHEMA}. The release that wrote it reads it."
            raise SavedReportError(said)
        if body.count(b"{") > _MOST:  # each `{}` would become a whole part, of which nothing is known
            raise SavedReportError(f"{path} has more than {_MOST} parts, which no report has")
        return msgspec.convert(_known(found, inspect.type_info(Report)), Report)
    except (msgspec.MsgspecError, ValueError, AttributeError, RecursionError) as error:
        raise SavedReportError(f"{path} is not a report that this release reads: {error}") from error


def _known(value: Any, kind: inspect.Type) -> Any:
    """The value without the keys that a later release added, and with those that an earlier one lacked."""
    kinds = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    if isinstance(value, dict):
        struct = next((one for one in kinds if isinstance(one, inspect.StructType)), None)
        if struct is not None:
            found = {one.encode_name: _known(value[one.encode_name], one.type) for one in struct.fields if one.encode_name in value}
            return {**_nothing_known(struct), **found}
    elif isinstance(value, list):
        sequence = next((one for one in kinds if isinstance(one, inspect.VarTupleType | inspect.ListType)), None)
        if sequence is not None:
            return [_known(one, sequence.item_type) for one in value]
    return value


def _nothing_known(struct: inspect.StructType) -> dict[str, Any]:
    """null and empty lists for fields that may be so and have no other default. A verdict, say, may not."""
    empty: dict[str, Any] = {}
    for field in struct.fields:
        kinds = field.type.types if isinstance(field.type, inspect.UnionType) else (field.type,)
        if not field.required:
            continue
        if any(isinstance(kind, inspect.NoneType) for kind in kinds):
            empty[field.encode_name] = None
        elif any(isinstance(kind, inspect.VarTupleType | inspect.ListType) for kind in kinds):
            empty[field.encode_name] = []
    return empty
