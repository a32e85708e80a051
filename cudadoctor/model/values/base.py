"""The base of all fact values, and what several workers state alike."""

from __future__ import annotations

from typing import Literal

import msgspec


class Value(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=False):
    """Base of all fact values."""


class Shown(Value, frozen=True, kw_only=True):
    """Base of what one line shows: its number in the text, from 1; 0: nobody noted which."""

    line: int = 0


class Refused(Shown, frozen=True, kw_only=True):
    """A place that this user may not read, or from which the kernel loads no library."""

    path: str
    why: Literal["unreadable", "noexec"]
