"""Nothing that only POSIX has is needed to import the package, to run `check`, or to judge: Windows has none of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases import every
from tests.command_line import ROOT, environment, host

# Taken away before anything else is imported. What belongs to Python's own start (posix, select) stays.
TAKE_AWAY = """
import os, signal, subprocess, sys
for name in ("fcntl", "pwd", "grp", "resource", "termios"):
    sys.modules[name] = None
for owner, names in (
    (os, ("sched_setaffinity", "sched_getaffinity", "killpg", "getuid", "geteuid", "getgid", "getegid", "getgroups", "setsid", "getpgid",
          "fork", "O_NONBLOCK", "O_CLOEXEC")),
    (signal, ("SIGKILL", "SIGHUP", "SIGQUIT", "SIGALRM", "pthread_sigmask")),
):
    for name in names:
        if hasattr(owner, name):
            delattr(owner, name)
subprocess.Popen.kill = lambda self: self.send_signal(9)  # as Windows' own ends a process
"""
IMPORT_ALL = """
import importlib, pkgutil, cudadoctor
names = [info.name for info in pkgutil.walk_packages(cudadoctor.__path__, "cudadoctor.") if not info.name.startswith("cudadoctor.workers.")]
for name in names:
    if name not in ("cudadoctor.__main__", "cudadoctor.commands.serving"):  # which needs the extra `mcp`, and that fcntl here
        importlib.import_module(name)
print(len(names))
"""
RUN = "from cudadoctor.commands.cli import main\nsys.argv = ['cudadoctor', *sys.argv[1:]]\nmain()\n"
WORKERS = sorted(path.stem for path in (ROOT / "cudadoctor" / "workers").glob("*.py") if path.stem != "__init__")


def python(code: str, *arguments: str, folder: Path, wanted: tuple[int, ...] = (0,)) -> str:
    """Run code in a child where all of it is gone, in the children of that child too (but for those that start without site)."""
    (folder / "sitecustomize.py").write_text(TAKE_AWAY)
    variables = environment({"PYTHONPATH": os.pathsep.join((str(folder), str(ROOT)))})
    command = [sys.executable, "-c", f"{TAKE_AWAY}\n{code}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=variables, timeout=180, check=False)
    assert done.returncode in wanted, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


def test_every_module_is_imported(tmp_path: Path) -> None:
    assert int(python(IMPORT_ALL, folder=tmp_path)) > 100


@every("name", WORKERS)
def test_a_worker_is_loaded(name: str, tmp_path: Path) -> None:
    folder = ROOT / "cudadoctor" / "workers"
    beside = f"sys.path.insert(0, {str(folder)!r})"  # as it is while a worker imports what all share
    python(f"import runpy, sys; {beside}; runpy.run_path({str(folder / f'{name}.py')!r}, run_name='loaded')", folder=tmp_path)


@pytest.mark.parametrize("worker", ["nvml", "processes"])
def test_a_worker_that_starts_without_site_works(worker: str, tmp_path: Path) -> None:
    path = str(ROOT / "cudadoctor" / "workers" / f"{worker}.py")
    out = python(f"import runpy; sys.argv = [{path!r}]; runpy.run_path({path!r}, run_name='__main__')", folder=tmp_path)
    assert json.loads(out.splitlines()[-1 if worker == "processes" else 0])["event"] == worker


@pytest.mark.skipif(sys.platform == "win32", reason="the same is tried there by every other test")
def test_check_runs(tmp_path: Path) -> None:
    """All that a machine without a GPU shows is found as well: no row is lost, no part fails."""
    arguments = ("check", "--format", "json", "--timeout", "50", "--python", sys.executable)
    report = json.loads(python(RUN, *arguments, folder=tmp_path, wanted=(0, 1, 3)))
    assert report["diagnosis"]["crashes"] == []
    rows = {row["id"]: row for row in report["checks"]}
    assert rows["python"]["status"] != "unknown", rows["python"]
    assert report["machine"]["system"] == "Linux"


@pytest.mark.parametrize("arguments", [("explain", "cuda 100"), ("fix", "driver-not-installed", "--replay", "windows-healthy-rtx3060")])
def test_other_commands_run(arguments: tuple[str, ...], tmp_path: Path) -> None:
    python(RUN, *(host(word) if word.startswith("windows-") else word for word in arguments), folder=tmp_path)


def test_an_interpreter_is_found(tmp_path: Path) -> None:
    """Who owns it is asked for root alone."""
    found = python("from cudadoctor.sources.interpreters import examined_python; print(examined_python(None)[0])", folder=tmp_path)
    assert Path(found.strip()).exists()
