"""Where a code in a user's text has several candidate causes, what the same text shows decides between them.

The codes name candidates; each rule here reads the facts of the same text and raises one of them from suspicion to a finding. A
module holds the rules of one matter; case.py is what they ask the text, and writes a rule that only puts lines side by side.
"""

from __future__ import annotations

from collections.abc import Iterator

from cudadoctor.model.findings import Clue
from cudadoctor.texts.tie_breakers import (
    container,
    device,
    driver,
    fit,
    packages,
    plain_words,
    programs,
    setting,
    toolkit,
    units,
    versions,
)  # fmt: skip
from cudadoctor.texts.tie_breakers.case import Case, Tie

# In the order in which their suspicions are shown.
TIES: tuple[Tie, ...] = (
    *container.TIES, *setting.TIES, *plain_words.TIES, *versions.TIES, *programs.TIES, *toolkit.TIES, *packages.TIES,
    *driver.TIES, *fit.TIES, *units.TIES, *device.TIES,
)  # fmt: skip


def decided(case: Case) -> Iterator[Clue]:
    """What the text's facts make of its suspects. Comes before them, so that a suspect named here is the first."""
    for tie in TIES:
        yield from tie(case)
