"""No child outlives the doctor: not one that hangs, not one of a session of its own, not after kill -9."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cudadoctor.sources.children import Child, watch
from cudadoctor.sources.keeping import Keeper
from tests.worker_runs import wait_until

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a subreaper is Linux's own")
PROGRAM = str(Path(sys.executable).with_name("cudadoctor"))
# Leaves a grandchild in a session of its own, whose variables are gone too, and says its number; then hangs, or ends.
LEAVES = """#!/bin/sh
setsid env -i sh -c 'echo $$ >> {folder}/pids; exec sleep 300' &
sleep 0.2
echo $$ >> {folder}/pids
{then}
"""


@pytest.fixture
def keeper():  # type: ignore[no-untyped-def]
    one = Keeper()
    yield one
    one.close()


def child(keeper: Keeper, *argv: str, limit: float = 10.0, talks: bool = False, **variables: str) -> Child:
    return Child("x", "command", argv, limit=limit, environment={**os.environ, **variables}, shown=argv, talks=talks, keeper=keeper)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_child_is_one_like_any_other(keeper: Keeper) -> None:
    many = [child(keeper, "/bin/sh", "-c", f"echo out{number} $X; echo err >&2; exit {number}", X="ä\udcff") for number in range(30)]
    watch(many)
    for number, one in enumerate(many):
        assert (one.status, one.text("stdout").startswith(f"out{number} ä"), one.text("stderr")) == (
            "ok" if not number else "failed",
            True,
            "err\n",
        )
        assert one.process is not None
        assert one.process.returncode == number
        assert Path(f"/proc/{one.process.pid}").exists() is False


def test_it_is_spoken_to_and_shows_its_signal(keeper: Keeper) -> None:
    one = child(keeper, "/bin/sh", "-c", "read line; echo got $line; kill -SEGV $$", talks=True)
    one.say("word\n")
    watch([one])
    assert one.process is not None
    assert (one.text("stdout"), one.process.returncode) == ("got word\n", -11)


def test_what_cannot_be_started_says_why(keeper: Keeper, tmp_path: Path) -> None:
    assert child(keeper, "/no/such/program").status == "absent"
    (tmp_path / "x").write_text("no program")
    assert child(keeper, str(tmp_path / "x")).status == "denied"
    (tmp_path / "x").chmod(0o755)
    refused = child(keeper, str(tmp_path / "x")).as_item()
    assert (refused.status, refused.exit) == ("failed", 126)
    last = child(keeper, "/bin/true")
    watch([last])
    assert last.status == "ok"


def test_it_inherits_nothing_else(keeper: Keeper) -> None:
    one = child(keeper, "/bin/sh", "-c", "ls -l /proc/self/fd | grep -c -- '->'; ps -o sid= -p $$; echo $$")
    watch([one])
    count, session, own = one.text("stdout").split()
    assert (count, session) == ("4", own)  # its three streams, and the folder that ls reads


def test_a_supervisor_that_is_gone_is_done_without(keeper: Keeper) -> None:
    assert keeper.supervisor is not None
    keeper.supervisor.kill()
    keeper.supervisor.wait()
    one = child(keeper, "/bin/echo", "still")
    watch([one])
    assert (one.status, one.text("stdout")) == ("ok", "still\n")


@pytest.mark.parametrize("then", ["exit 0", "sleep 300"])
def test_a_grandchild_of_its_own_session_ends_with_the_collection(then: str, tmp_path: Path) -> None:
    keeper = Keeper()
    one = child(keeper, "/bin/sh", "-c", LEAVES.format(folder=tmp_path, then=then), limit=1.0)
    watch([one])
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 2
    assert any(alive(pid) for pid in pids), "nothing was left to be ended"
    keeper.close()
    assert not any(alive(pid) for pid in pids)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_survives_the_doctor(how: int, tmp_path: Path) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text(LEAVES.format(folder=tmp_path, then="while :; do sleep 300; done"))
    tool.chmod(0o755)
    doctor = subprocess.Popen(
        [PROGRAM, "check"],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_until(lambda: (tmp_path / "pids").exists() and len((tmp_path / "pids").read_text().split()) == 2)
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert all(alive(pid) for pid in pids)
    doctor.send_signal(how)
    doctor.wait(10)
    wait_until(lambda: not any(alive(pid) for pid in pids))


def test_nothing_survives_a_part_of_the_supervisor(tmp_path: Path) -> None:
    """Whichever of its two processes is killed."""
    for part in ("outer", "inner"):
        folder = tmp_path / part
        folder.mkdir()
        keeper = Keeper()
        assert keeper.supervisor is not None
        one = child(keeper, "/bin/sh", "-c", LEAVES.format(folder=folder, then="sleep 300"), limit=1.0)
        wait_until(lambda: (folder / "pids").exists() and len((folder / "pids").read_text().split()) == 2)  # noqa: B023 - called at once
        outer = keeper.supervisor.pid
        inner = int(Path(f"/proc/{outer}/task/{outer}/children").read_text())
        pids = [inner, *(int(pid) for pid in (folder / "pids").read_text().split())]
        assert all(alive(pid) for pid in pids)
        os.kill(outer if part == "outer" else inner, signal.SIGKILL)
        wait_until(lambda: not any(alive(pid) for pid in pids))  # noqa: B023
        watch([one])
        assert one.status in ("not-run", "failed")
        keeper.close()


def test_it_ends_while_it_starts() -> None:
    """However early the other end is closed."""
    for pause in (0.0, 0.005, 0.02, 0.05):
        keeper = Keeper()
        time.sleep(pause)
        began = time.monotonic()
        keeper.close()
        assert time.monotonic() - began < 2
        assert keeper.supervisor is not None
        assert keeper.supervisor.returncode is not None


def test_a_supervisor_that_dies_is_no_silence_of_a_program(keeper: Keeper) -> None:
    """A driver that hangs gives no answer within its limit; here nobody can know."""
    one = child(keeper, "/bin/sleep", "60", limit=30.0)
    assert keeper.supervisor is not None
    keeper.supervisor.kill()
    keeper.supervisor.wait()
    began = time.monotonic()
    watch([one])
    assert time.monotonic() - began < 5
    assert one.status == "not-run"
    assert one.process is not None
    wait_until(lambda: not alive(one.process.pid))
