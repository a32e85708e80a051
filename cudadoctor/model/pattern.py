"""Regular expressions that are compiled when they are first used: most runs use few of them, and compiling all would take longer."""

from __future__ import annotations

import re
from typing import cast


class _Lazy:
    """Stands for a compiled pattern. Its first use compiles; the methods then are the compiled pattern's own."""

    def __init__(self, pattern: str, flags: int) -> None:
        self.pattern = pattern
        self.flags = flags

    def __getattr__(self, name: str) -> object:
        compiled = re.compile(self.pattern, self.flags)
        for method in ("search", "match", "fullmatch", "finditer", "findall", "sub", "subn", "split", "groupindex", "groups"):
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)


def lazy(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """What re.compile gives, made when it is first asked to look for something."""
    return cast("re.Pattern[str]", _Lazy(pattern, flags))
