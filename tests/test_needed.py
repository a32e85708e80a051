"""Of each kind of knowledge, how many entries no recorded text needs: the figure may only fall. A new entry comes with a text that needs it."""

from __future__ import annotations

import pytest

from tests.scripts import script

MOST = {"messages": 679, "lexicon": 30, "circumstances": 58}


@pytest.mark.long
def test_no_more_entries_are_needed_by_no_text_than_before() -> None:
    found = {kind: len(one.names) for kind, one in script("needed").unneeded().items()}
    assert {kind: count for kind, count in found.items() if count > MOST[kind]} == {}, "record a text that needs the new entry"
