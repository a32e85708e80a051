"""What redaction knows (knowledge/tables/redaction.toml), as sets of words and compiled patterns, each made when it is first used.

`record --script` carries the table with it, in the place of the package's knowledge.
"""

from __future__ import annotations

import re
import sys
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from cudadoctor.knowledge.load import load

if TYPE_CHECKING:
    from typing import Any


TABLE: dict[str, Any] = load().redaction
_PART = re.compile(r"\{([A-Z_]+)\}")


class Form(NamedTuple):
    """How something stands in a text. `words`: in small letters, without one of which it stands in none. `pattern` names by its groups what
    is to be replaced: `user`, `host`, `gone` and others, with a number behind where there are several."""

    words: list[str]
    pattern: re.Pattern[str]


class _Patterns:
    """The parts of the table, by their names."""

    def __getattr__(self, name: str) -> re.Pattern[str]:
        if name not in TABLE["parts"]:
            raise AttributeError(name)
        pattern = re.compile(_whole(TABLE["parts"][name]))
        setattr(self, name, pattern)
        return pattern


PATTERNS = _Patterns()


def _whole(pattern: str) -> str:
    while _PART.search(pattern):
        pattern = _PART.sub(lambda part: TABLE["parts"][part[1]], pattern)
    return pattern


@lru_cache(maxsize=None)
def forms(name: str) -> tuple[Form, ...]:
    """Those of one list, in their order."""
    rows = [{"form": row} if isinstance(row, str) else row for row in TABLE["forms"][name]]
    return tuple(Form(row.get("with", "").split("|"), re.compile(_whole(row["form"]), re.MULTILINE)) for row in rows)


def _words(name: str, of: str = "words") -> frozenset[str]:
    return frozenset(TABLE[of][name].split())


USERS, WORDS, SYSTEM = _words("users"), _words("common"), _words("system")
GROUPS = USERS | _words("groups")
OF_PATHS = _words("of_paths") | WORDS | USERS | getattr(sys, "stdlib_module_names", frozenset())  # Python 3.10 and later
OF_SECRETS = _words("of_secrets") | OF_PATHS
ITEMS = {name: _words(name, of="items") for name in TABLE["items"]}  # ids of evidence, by what names stand in it
