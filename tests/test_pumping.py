"""No expression grows faster than linear with a text that is made to slow it down.

All of them take a quarter of an hour (`python -m tests.pumping`); each run looks at one share, which changes from day to day.
"""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
import os
import re
import signal
import time

import pytest

from cudadoctor.model.recipe import Match
from cudadoctor.parsers.lines import REACH, WINDOW
from tests import patterns
from tests.cases import every
from tests.judging import KNOWLEDGE
from tests.patterns import Found
from tests.pumping import steep

SHARES = 100
TODAY = dt.datetime.now(tz=dt.timezone.utc).date().toordinal() % SHARES

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a timer that ends a search")


ALL = functools.cache(patterns.every)


def share(found: Found) -> int:
    return int(hashlib.sha256(found.pattern.encode("utf-8", "surrogatepass")).hexdigest(), 16) % SHARES


@every("found", lambda: [one for one in ALL() if share(one) == int(os.environ.get("CUDADOCTOR_PUMP", TODAY))])
def test_it_grows_linearly(found: Found) -> None:
    assert steep(found) is None


@pytest.mark.parametrize(
    "pattern",
    [
        r"CUDA.*PASSED",
        *(
            pytest.param(pattern, marks=pytest.mark.long)
            for pattern in (r"^\|(?:\s{0,8}:?-{2,60}:?\s{0,8}\|?){2,6}\s{0,4}$", r"is_available\(\)\s*['\"]?\s*$", r"(?:a+)+b", r"\d+x")
        ),
    ],
)
def test_a_steep_one_is_seen(pattern: str) -> None:
    assert steep(Found(pattern=pattern, flags=0, where="here")) is not None


def test_all_are_found() -> None:
    """By their places: of Python at the top of a module, in a container, in a call, and of TOML."""
    places = {one.where for one in ALL()}
    assert "cudadoctor.parsers.quoting._RULE" in places
    assert "cudadoctor.knowledge.lookup.topics._COMPILED" in places
    assert any(place.startswith("workers/") for place in places)
    assert any(place.startswith("causes/") for place in places)
    assert len(ALL()) > 1500


# ---------------------------------------------------------------- windows
IN_WINDOWS = 0.1  # seconds for one window; a text has at most 16 full ones for one literal
WIDE = [(cause.id, match) for cause in KNOWLEDGE.causes.values() for match in cause.match if match.pattern is not None and match.window > 1]


def words_of(pattern: str) -> list[str]:
    return [word for word in re.findall(r"[A-Za-z0-9_ /.:'\"-]{2,}", pattern.replace("\\.", ".")) if word.strip()]


@every("cause, match", WIDE)
def test_a_window_full_of_a_patterns_own_words_costs_little(cause: str, match: Match) -> None:
    """A gap of some thousand characters behind a word is gone through for each of these words."""
    pattern = re.compile(match.pattern or "", re.MULTILINE)
    for word in sorted(words_of(match.pattern or ""), key=len)[:6]:
        half = (word * REACH)[:REACH]
        window = "\n".join([half] * (WINDOW // REACH) + [f"{half} {match.literals[0]} {half}"] + [half] * (WINDOW // REACH))
        began = time.process_time()
        pattern.search(window)
        assert time.process_time() - began < IN_WINDOWS, (cause, word)
