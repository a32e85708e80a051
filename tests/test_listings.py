"""Trees that do not answer cost a run once, and leave nothing behind: `find` on a dead share, played by a script."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cudadoctor.sources import listings
from cudadoctor.sources.listings import Listing

pytestmark = pytest.mark.skipif(os.name != "posix", reason="`find` is asked there alone")


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listings, "_PATIENCE", 1.0)
    monkeypatch.setattr(listings, "_LEAST", 0.1)
    monkeypatch.setattr(listings, "_in_vain", [])


def stand_in(folder: Path, script: str) -> str:
    path = folder / "find"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def seconds_of(*asked: Listing) -> float:
    began = time.monotonic()
    assert all(one.failure() is not None for one in asked)
    return time.monotonic() - began


def test_slow_trees_are_waited_for_once(tmp_path: Path) -> None:
    find = stand_in(tmp_path, "exec sleep 30")
    assert seconds_of(*(Listing(find, [f"/{number}"]) for number in range(5))) < 3.0


def test_what_holds_the_pipe_open_is_not_waited_for(tmp_path: Path) -> None:
    """A child that the kernel does not let go, or a grandchild: here one in a session of its own."""
    find = stand_in(tmp_path, f"{sys.executable} -c 'import os, time; os.setsid(); time.sleep(6)' & exec sleep 30")
    assert seconds_of(Listing(find, ["/"])) < 3.0


def test_the_run_that_asks_has_a_limit_of_its_own(tmp_path: Path) -> None:
    with listings.until(time.monotonic() + 0.2):
        assert seconds_of(Listing(stand_in(tmp_path, "exec sleep 30"), ["/"])) < 0.8


def test_what_is_listed_in_time_is_found_after_slow_ones(tmp_path: Path) -> None:
    Listing(stand_in(tmp_path, "exec sleep 30"), ["/"]).failure()
    quick = Listing("/usr/bin/find", [str(tmp_path)])
    assert quick.failure() is None


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="prctl(2)")
@pytest.mark.parametrize("ends", ["os.kill(os.getpid(), 9)", "os.kill(os.getpid(), 15)"])
def test_find_ends_with_whoever_asked(tmp_path: Path, ends: str) -> None:
    find = stand_in(tmp_path, f"echo $$ > {tmp_path}/pid; exec sleep 30")
    code = f"import os, time; from cudadoctor.sources.listings import Listing; Listing({find!r}, ['/']); time.sleep(0.7); {ends}"
    subprocess.run([sys.executable, "-c", code], check=False, cwd=Path(__file__).parents[1])
    pid = int((tmp_path / "pid").read_text())
    for _ in range(40):
        state = Path(f"/proc/{pid}/stat")
        if not state.exists() or ") Z" in state.read_text():
            return
        time.sleep(0.05)
    pytest.fail("find is left")
