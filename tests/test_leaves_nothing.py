"""What a full check does to a machine, seen by the kernel: no socket of the internet, no file created, changed or opened for writing.

Excepted are device nodes and what lies below /proc, where they are opened, and sockets of this machine that NVML or libcuda open. What lies
in /dev/shm is a file as any other.
"""

from __future__ import annotations

import os
import py_compile
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


OPENED = re.compile(r'open\w*\([^"]*"/(?:dev/(?!shm/)|proc/)(?![^"]*\.\.)')


def installed(folder: Path) -> Path:
    """The package as a copy without byte code, but for the two modules that Python reads before a line of the doctor's own runs."""
    copy = folder / "installed" / "cudadoctor"
    shutil.copytree(ROOT / "cudadoctor", copy, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("__init__.py", "__main__.py"):
        py_compile.compile(str(copy / name), doraise=True)
    return copy


def calls(folder: Path, *arguments: str, package: Path = ROOT / "cudadoctor") -> list[str]:
    """The calls that succeeded, of the doctor and all that it starts."""
    log = folder / "log"
    for name in ("home", "tmp"):
        (folder / name).mkdir()
    variables = {**environment({"HOME": str(folder / "home"), "TMPDIR": str(folder / "tmp")}), "PYTHONPATH": str(package.parent)}
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    argv = [
        STRACE or "strace",
        "-f",
        "--seccomp-bpf",
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
    return [line for line in whole(log.read_text("utf-8", "replace")) if not re.search(r"= -1 E[A-Z]+", line)]


def whole(log: str) -> list[str]:
    """The lines without the process's number. Of a call that another process's interrupted, the beginning with its end."""
    begun: dict[str, str] = {}
    lines = []
    for pid, _, line in (line.partition(" ") for line in log.splitlines()):
        line = line.lstrip()
        resumed = re.match(r"<\.\.\. \w+ resumed>", line)
        if line.endswith(" <unfinished ...>"):
            begun[pid] = line.removesuffix(" <unfinished ...>")
        else:
            lines.append(begun.pop(pid, "") + line[resumed.end() :] if resumed is not None else line)
    return lines + list(begun.values())


def writes(lines: list[str]) -> list[str]:
    """The calls that write, but for what is excepted."""
    return [line for line in lines if not line.startswith(("socket", "connect")) and changes(line)]


def changes(line: str) -> bool:
    """Whether a call writes: everything that was looked at does, but for what is opened to be read, and device nodes and /proc."""
    if not line.startswith("open"):
        return re.match(r"[a-z]\w*\(", line) is not None  # else it is a word of strace on a signal or an end
    return re.search(r"O_(?:WRONLY|RDWR|CREAT|TRUNC)", line) is not None and not OPENED.match(line)


@pytest.mark.parametrize(
    "arguments",
    [
        ("check",),
        *(pytest.param(one, marks=pytest.mark.long) for one in (("check", "--quick"), ("fix", "--suggest", "--quick"), ("smoke",))),
    ],
)
def test_a_run_writes_nothing_and_speaks_to_nobody(arguments: tuple[str, ...], tmp_path: Path) -> None:
    package = installed(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in package.rglob("*")}
    found = calls(tmp_path, *arguments, package=package)
    assert len(found) > 100
    assert not [line for line in found if re.match(r"socket\(AF_(?!UNIX|NETLINK|LOCAL)", line)]
    assert any(str(package / "commands" / "cli.py") in line for line in found), "the copy was run"
    assert writes(found) == []
    assert [sorted(os.listdir(tmp_path / name)) for name in ("home", "tmp")] == [[], []]
    assert {path: path.stat().st_mtime_ns for path in package.rglob("*")} == before, "no byte code either"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('openat(AT_FDCWD, "/dev/nvidia0", O_RDWR|O_CLOEXEC) = 3', False),
        ('openat(AT_FDCWD, "/dev/null", O_WRONLY|O_CREAT|O_TRUNC, 0666) = 3', False),
        ('open("/proc/self/task/7/comm", O_RDWR) = 9', False),
        ('openat(AT_FDCWD, "/home/u/x", O_RDONLY) = 3', False),
        ('connect(3, {sa_family=AF_UNIX, sun_path="/run/x"}, 110) = 0', False),
        ("+++ exited with 0 +++", False),
        ('openat(AT_FDCWD, "/dev/shm/left", O_WRONLY|O_CREAT, 0600) = 3', True),
        ('openat(AT_FDCWD, "/dev/../home/u/x", O_WRONLY|O_CREAT, 0600) = 3', True),
        ('openat(AT_FDCWD, "/home/u/dev/x", O_WRONLY|O_CREAT, 0600) = 3', True),
        ('rename("/dev/shm/x", "/home/u/.config/x") = 0', True),
        ('unlink("/dev/nvidia0") = 0', True),
        ('mkdir("/proc/x", 0700) = 0', True),
    ],
)
def test_what_counts_as_a_write(line: str, expected: bool) -> None:
    assert bool(writes([line])) == expected


def test_the_eye_sees_a_write(tmp_path: Path) -> None:
    """A recording is written: the same look must see it."""
    found = calls(tmp_path, "record", "--quick", "-o", str(tmp_path / "recording"))
    assert any("recording.json" in line for line in writes(found))


def test_a_call_that_was_interrupted_is_one() -> None:
    log = '7     unlink("/proc/self/none" <unfinished ...>\n8 open("x", O_RDONLY) = 3\n7     <... unlink resumed>) = -1 EPERM (no)\n9 mkdir("y" <unfinished ...>\n'
    assert whole(log) == ['open("x", O_RDONLY) = 3', 'unlink("/proc/self/none") = -1 EPERM (no)', 'mkdir("y"']
