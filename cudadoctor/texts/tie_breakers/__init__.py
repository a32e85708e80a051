"""Where a code in a user's text has several candidate causes, what the same text shows decides between them.

The codes name candidates; each rule here reads the facts of the same text and raises one of them from suspicion to a finding. A
module holds the rules of one matter; said.py and place.py are what they ask the text, joining.py writes a rule that only puts lines
side by side.
"""

from __future__ import annotations

from collections.abc import Iterator

from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Facts
from cudadoctor.model.findings import Clue
from cudadoctor.texts.tie_breakers import (
    container,
    device,
    driver,
    fit,
    memory,
    packages,
    plain_words,
    programs,
    setting,
    several,
    toolkit,
    versions,
)  # fmt: skip
from cudadoctor.texts.tie_breakers.joining import Tie
from cudadoctor.texts.tie_breakers.said import Said

# In the order in which their suspicions are shown.
TIES: tuple[Tie, ...] = (
    *container.TIES, *setting.TIES, *memory.TIES, *plain_words.TIES, *versions.TIES, *programs.TIES, *toolkit.TIES, *packages.TIES,
    *driver.TIES, *fit.TIES, *several.TIES, *device.TIES,
)  # fmt: skip


def decided(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """What the text's facts make of its suspects. Comes before them, so that a suspect named here is the first."""
    for tie in TIES:
        yield from tie(said, facts, knowledge)
