"""What a full check does to a machine, seen by the kernel: no socket of the internet, no file created, changed or opened for writing.

Excepted are device nodes, pipes, sockets of this machine that NVML or libcuda open, and what lies below /proc and the doctor's own
temporary folder, which is gone afterwards.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command_line import ROOT, environment

CALLS = (
    "socket,connect,open,openat,openat2,creat,mkdir,mkdirat,unlink,unlinkat,rename,renameat,renameat2,link,linkat,symlink,symlinkat,chmod,"
    "fchmodat,chown,lchown,fchownat,truncate,mknod,mknodat,utimensat,rmdir,mount"
)
STRACE = shutil.which("strace")
pytestmark = pytest.mark.skipif(STRACE is None, reason="needs strace")


def calls(folder: Path, *arguments: str) -> list[str]:
    """The calls that succeeded, of the doctor and all that it starts."""
    log = folder / "log"
    for name in ("home", "tmp"):
        (folder / name).mkdir()
    variables = {**environment({"HOME": str(folder / "home"), "TMPDIR": str(folder / "tmp")}), "PYTHONPATH": str(ROOT)}
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    argv = [
        STRACE or "strace",
        "-f",
        "-qq",
        "-s",
        "300",
        "-o",
        str(log),
        "-e",
        f"trace={CALLS}",
        sys.executable,
        "-m",
        "cudadoctor",
        *arguments,
    ]
    done = subprocess.run(argv, env=variables, cwd=folder, capture_output=True, timeout=300, check=False)
    if b"ptrace" in done.stderr and not log.read_text(errors="replace").strip():
        pytest.skip("NOT CHECKED: this machine does not allow strace")
    text = re.sub(r"^\d+ +", "", log.read_text("utf-8", "replace"), flags=re.MULTILINE)
    return [line for line in text.splitlines() if not re.search(r"= -1 E[A-Z]+", line)]


def writes(lines: list[str]) -> list[str]:
    """The calls that write, but for what is excepted."""
    changing = [
        line for line in lines if not line.startswith(("open", "socket", "connect")) or re.search(r"O_(?:WRONLY|RDWR|CREAT|TRUNC)", line)
    ]
    return [line for line in changing if line.startswith(("mkdir", "unlink", "rename", "open", "creat", "link", "symlink", "ch", "fch", "lch", "trunc", "mknod", "utime", "rmdir", "mount")) and not re.search(r'"/(?:dev|proc)/', line)]  # fmt: skip


@pytest.mark.parametrize("arguments", [("check",), ("check", "--quick"), ("fix", "--suggest", "--quick"), ("smoke",)])
def test_a_run_writes_nothing_and_speaks_to_nobody(arguments: tuple[str, ...], tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(ROOT / "cudadoctor")], check=True)  # as pip does when it installs
    before = {path: path.stat().st_mtime_ns for path in (ROOT / "cudadoctor").rglob("*.pyc")}
    found = calls(tmp_path, *arguments)
    assert len(found) > 100
    assert not [line for line in found if re.match(r"socket\(AF_(?!UNIX|NETLINK|LOCAL)", line)]
    assert writes(found) == []
    assert [sorted(os.listdir(tmp_path / name)) for name in ("home", "tmp")] == [[], []]
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_the_eye_sees_a_write(tmp_path: Path) -> None:
    """A recording is written: the same look must see it."""
    found = calls(tmp_path, "record", "--quick", "-o", str(tmp_path / "recording"))
    assert any("recording.json" in line for line in writes(found))
