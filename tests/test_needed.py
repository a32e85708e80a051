"""Of each kind of knowledge, how many entries no recorded text needs: the figure may only fall. A new entry comes with a text that needs it."""

from __future__ import annotations

import importlib.util
import sys

import pytest

from tests.command_line import ROOT

MOST = {"messages": 685, "lexicon": 31, "circumstances": 59}


@pytest.mark.long
def test_no_more_entries_are_needed_by_no_text_than_before() -> None:
    spec = importlib.util.spec_from_file_location("needed", ROOT / ".github" / "scripts" / "needed.py")
    assert spec is not None
    assert spec.loader is not None
    needed = importlib.util.module_from_spec(spec)
    sys.modules["needed"] = needed
    spec.loader.exec_module(needed)
    found = {kind: len(one.names) for kind, one in needed.unneeded().items()}
    assert {kind: count for kind, count in found.items() if count > MOST[kind]} == {}, "record a text that needs the new entry"
