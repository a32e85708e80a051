"""What a code, a cause or a thing means, from the knowledge alone: the pages behind `cudadoctor explain`.

codes.py      numbers and names of every API
topics.py     which thing a question names: a variable, a GPU, a driver, a toolkit ...
hardware.py   architectures, compute capabilities, chips
software.py   driver branches, toolkits, PTX, host compilers
numba.py      Numba and numba-cuda
variables.py  environment variables
pages.py      what they share
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cudadoctor.knowledge.lookup import codes
from cudadoctor.knowledge.lookup.pages import NoSuchError
from cudadoctor.model.explanation import CausePage, Explanation

if TYPE_CHECKING:
    from cudadoctor.knowledge.load import Knowledge

__all__ = ["NoSuchError", "explain_code"]
MAX_LENGTH = 200  # characters: what is longer is a text


def explain_code(query: str, knowledge: Knowledge) -> Explanation | None:
    """The page of a cause id, of a code with or without its API, of a code's name, or of a thing. None: the query is none of these.

    A number without an API has every API's meaning, CUDA's first; a version without a word has every meaning too.
    NoSuchError: the query names an API or a kind of thing, and the tables do not hold this one of it.
    """
    asked = " ".join(query.split())
    if not asked or len(asked) > MAX_LENGTH:
        return None
    if asked in knowledge.causes:
        return Explanation(kind="cause", query=asked, cause=_cause_page(asked, knowledge))
    matches = codes.read(asked, knowledge)
    if matches:
        return Explanation(kind="code", query=asked, matches=matches)
    from cudadoctor.knowledge.lookup import topics  # the forms of all things, which a code does not need

    found = topics.read(asked, knowledge)
    return Explanation(kind="topic", query=asked, topics=found) if found else None


def _cause_page(cause_id: str, knowledge: Knowledge) -> CausePage:
    cause = knowledge.cause(cause_id)
    stated = (one for match in cause.match if not match.suspects and not match.advice for one in match.literals)
    hinted = (one for match in cause.match if match.suspects or match.advice for one in match.literals)
    return CausePage(
        **{name: getattr(cause, name) for name in CausePage.__struct_fields__ if hasattr(cause, name)},
        codes=tuple(_codes_of(cause_id, knowledge)),
        messages=tuple(dict.fromkeys(stated)),
        hints=tuple(dict.fromkeys(hinted)),
    )


def _codes_of(cause_id: str, knowledge: Knowledge) -> Iterator[str]:
    """The codes that may mean this cause."""
    tables = dict(reversed(codes.TABLES))  # of two for one API the first
    for api in ("cuda", "nvml", "nvidia-smi", "xid"):
        rows = (row for row in tables[api].rows(knowledge) if cause_id in row.causes)
        yield from (f"{api} {getattr(row, tables[api].number)}" for row in rows)
