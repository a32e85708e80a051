"""What a code, a cause or a thing means, from the knowledge alone: the pages behind `cudadoctor explain`.

codes.py      numbers and names of every API
cause.py      a cause's own page
topics.py     which thing a question names: a variable, a GPU, a driver, a toolkit ...
hardware.py   architectures, compute capabilities, chips
software.py   driver branches, toolkits, PTX, host compilers
numba.py      Numba and numba-cuda
variables.py  environment variables
pages.py      what they share
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudadoctor.knowledge.lookup import codes
from cudadoctor.knowledge.lookup.pages import NoSuchError
from cudadoctor.model.explanation import Explanation

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
        from cudadoctor.knowledge.lookup import cause

        return Explanation(kind="cause", query=asked, cause=cause.page(asked, knowledge))
    matches = codes.read(asked, knowledge)
    if matches:
        return Explanation(kind="code", query=asked, matches=matches)
    from cudadoctor.knowledge.lookup import topics  # the forms of all things, which a code does not need

    found = topics.read(asked, knowledge)
    return Explanation(kind="topic", query=asked, topics=found) if found else None
