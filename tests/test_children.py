"""Children that hang, flood, crash or are not there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cudadoctor.sources.children import OUTPUT_LIMIT, Child, watch

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="process groups of POSIX")


def child(code: str, *, limit: float = 5.0, talks: bool = False) -> Child:
    return Child("x", "command", [sys.executable, "-c", code], limit=limit, environment=dict(os.environ), shown=("python",), talks=talks)


def test_output_and_exit_code() -> None:
    one = child("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")
    watch([one])
    assert (one.status, one.text("stdout"), one.text("stderr")) == ("failed", "out\n", "err\n")
    assert one.process is not None
    assert one.process.returncode == 3


def test_a_program_that_is_not_there_is_absent() -> None:
    one = Child("x", "command", ["/nonexistent/program"], limit=1, environment={}, shown=("program",))
    assert (one.status, one.over) == ("absent", True)


def test_a_hang_ends_at_its_limit_with_what_was_said_before() -> None:
    one = child("import time; print('begin', flush=True); time.sleep(60)", limit=0.5)
    watch([one])
    assert one.status == "timed-out"
    assert "begin" in one.text("stdout")
    assert one.seconds < 10


def test_the_whole_group_is_killed() -> None:
    code = "import subprocess, sys, time; p = subprocess.Popen(['sleep', '60']); print(p.pid, flush=True); time.sleep(60)"
    one = child(code, limit=0.6)
    watch([one])
    grandchild = int(one.text("stdout"))
    for _ in range(50):
        try:
            with open(f"/proc/{grandchild}/stat") as stream:
                if stream.read().rsplit(")", 1)[1].split()[0] == "Z":
                    return
        except FileNotFoundError:
            return
        time.sleep(0.05)
    pytest.fail(f"process {grandchild} is still there")


def test_a_flood_is_bounded_and_counted() -> None:
    one = child("import sys; sys.stdout.write('x' * (9 << 20))", limit=20)
    watch([one])
    assert len(one.text("stdout")) == OUTPUT_LIMIT
    assert one.dropped == (9 << 20) - OUTPUT_LIMIT


def reading(pipe: Any) -> Child:
    """A child whose output comes from elsewhere."""
    one = child("")
    watch([one])
    one.open_pipes["stdout"] = pipe
    return one


def test_of_a_log_the_end_is_kept() -> None:
    """What failed last stands there, whoever filled the log before."""
    code = f"import sys; sys.stdout.write('old line\\n' * {OUTPUT_LIMIT // 3}); print('Xid 79')"
    one = Child("x", "command", [sys.executable, "-c", code], limit=20.0, environment=dict(os.environ), shown=("python",), of_end=True)
    watch([one])
    text = one.text("stdout")
    assert text.endswith("old line\nXid 79\n")
    assert text.startswith("old line\n")
    assert OUTPUT_LIMIT - 10 < len(text) <= OUTPUT_LIMIT
    assert one.dropped == OUTPUT_LIMIT // 3 * 9 + 7 - len(text)


def test_a_program_that_writes_faster_than_it_is_read_holds_nobody() -> None:
    class Endless:
        def take(self) -> bytes:
            return b"y" * 65536

    assert reading(Endless()).read("stdout")


def test_lines_are_announced_as_they_end_whatever_pieces_they_come_in() -> None:
    heard: list[str] = []
    pieces = [b"on", b"e\ntwo\n", b"thr", b"ee", b"\n", None]
    one = reading(type("Pieces", (), {"take": lambda _: pieces.pop(0)})())
    one.on_line = heard.append
    one.read("stdout")
    assert heard == ["one", "two", "three"]


def test_an_open_pipe_of_a_grandchild_does_not_hold_the_doctor() -> None:
    one = child("import subprocess; subprocess.Popen(['sleep', '30'], start_new_session=True); print('done')", limit=20)
    started = time.monotonic()
    watch([one])
    assert (one.status, one.text("stdout")) == ("ok", "done\n")
    assert time.monotonic() - started < 10


def test_a_child_that_waits_for_a_line() -> None:
    one = child("import sys; print('ready', flush=True); print(sys.stdin.readline().strip())", talks=True)
    seen: list[str] = []
    one.on_line = seen.append
    watch([one], until=lambda: bool(seen))
    assert seen == ["ready"]
    one.say("go\n")
    watch([one])
    assert (one.status, seen) == ("ok", ["ready", "go"])


def test_a_crash_shows_its_signal() -> None:
    one = child("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    watch([one])
    assert one.status == "failed"
    assert one.process is not None
    assert one.process.returncode == -11


VFORK = """
#define _DEFAULT_SOURCE
#include <unistd.h>
int main(void) { if (vfork() == 0) { sleep(60); _exit(0); } return 0; }
"""


@pytest.mark.skipif(shutil.which("cc") is None or not sys.platform.startswith("linux"), reason="needs a C compiler and Linux")
def test_a_child_in_uninterruptible_sleep_holds_nobody(tmp_path: Path) -> None:
    """The parent of a vfork waits in state D until its child is gone."""
    (tmp_path / "d.c").write_text(VFORK)
    program = str(tmp_path / "d")
    subprocess.run(["cc", "-w", "-o", program, str(tmp_path / "d.c")], check=True)
    stuck = Child("d", "command", [program], limit=0.5, environment=dict(os.environ), shown=("d",))
    assert stuck.process is not None
    time.sleep(0.2)
    assert Path(f"/proc/{stuck.process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "D"
    began = time.monotonic()
    watch([stuck])
    assert stuck.status in ("timed-out", "abandoned")
    assert time.monotonic() - began < 10
    stuck.process.wait(10)  # its whole group was ended


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize(("name", "raised"), [("SIGINT", "KeyboardInterrupt"), ("SIGTERM", "SystemExit")])
def test_a_signal_waits_for_the_watch_and_ends_it(name: str, raised: str) -> None:
    """At any other moment its exception might be dropped by a callback of Python's own, as in a weak reference, or leave a lock held."""
    code = (
        "import os, signal, sys, weakref\n"
        "from cudadoctor.sources.children import Child, watch\n"
        "from cudadoctor.sources.spawning import remembered\n"
        "class Thing: pass\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))\n"
        f"number, before = signal.{name}, signal.getsignal(signal.{name})\n"
        "thing = Thing()\n"
        "kept = weakref.ref(thing, lambda _: os.kill(os.getpid(), number))\n"
        "child = Child('x', 'command', ['sleep', '600'], limit=600, environment=dict(os.environ), shown=('sleep',))\n"
        "try:\n"
        "    with remembered():\n"
        "        del thing\n"
        "        print('went on')\n"
        "        watch([child])\n"
        f"except {raised}:\n"
        "    print('stopped')\n"
        "child.kill('end')\n"
        "assert signal.getsignal(number) is before\n"
        "try:\n"
        "    with remembered():\n"
        "        os.kill(os.getpid(), number)\n"
        "        print('once')\n"
        "        os.kill(os.getpid(), number)\n"
        "        print('twice')\n"
        f"except {raised}:\n"
        "    print('stopped at once')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "went on\nstopped\nonce\nstopped at once\n", done.stderr
    assert done.stderr == ""
