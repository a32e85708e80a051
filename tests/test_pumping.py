"""No expression grows faster than linear with a text that is made to slow it down.

All of them take a quarter of an hour (`python -m tests.pumping`); each run looks at one share, which changes from day to day.
"""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
import os
import signal

import pytest

from tests import patterns
from tests.cases import every
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
