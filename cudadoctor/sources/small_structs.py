"""What `record --script` puts in the place of msgspec: as much of it as a collecting run and the writing of a recording use.

A struct has its fields by keyword, with defaults, and can be copied with changes. Nothing is checked and nothing is decoded here.
"""

from __future__ import annotations

import json as _json
from typing import Any


class MsgspecError(Exception):
    """Only its name is needed: nothing is decoded here."""


class Struct:
    """A class whose annotated names are its fields."""

    __struct_fields__: tuple[str, ...] = ()

    def __init_subclass__(cls, **_: object) -> None:
        super().__init_subclass__()
        own = [name for name in getattr(cls, "__annotations__", {}) if name not in cls.__struct_fields__ and not name.startswith("__")]
        cls.__struct_fields__ = (*cls.__struct_fields__, *own)

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


class structs:  # noqa: N801 - msgspec's name
    @staticmethod
    def asdict(struct: Any) -> dict[str, Any]:
        return {name: getattr(struct, name) for name in struct.__struct_fields__}

    @staticmethod
    def replace(struct: Any, **changes: Any) -> Any:
        return type(struct)(**{**structs.asdict(struct), **changes})


class json:  # noqa: N801 - msgspec's name
    @staticmethod
    def encode(value: Any) -> bytes:
        text = _json.dumps(value, default=structs.asdict, ensure_ascii=False, indent=1)
        return text.encode("utf-8", "replace")  # a name of a file may hold what is no letter

    @staticmethod
    def format(encoded: bytes, indent: int = 1) -> bytes:
        return encoded
