"""What a package of somebody else adds to the doctor: values, put together by cudadoctor/extensions.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class Extension(msgspec.Struct, frozen=True, kw_only=True):
    """Rows, causes and recipes, with the questions and parsers that they need. Everything is optional.

    `probes`: sources.probes.Probe, asked of a live machine. `parsers`: parsers.base.Parser, for their output and for pasted texts.
    `checks`: checks.base.Check, one row each. `causes`, `recipes`: id -> TOML of the same form as the files in knowledge/.
    """

    probes: tuple[Any, ...] = ()
    parsers: tuple[Any, ...] = ()
    checks: tuple[Any, ...] = ()
    causes: Mapping[str, str] = {}
    recipes: Mapping[str, str] = {}
