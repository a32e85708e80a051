"""Runs a worker as a child and reads its events: shared by the tests of workers."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

WORKERS = Path(__file__).parent.parent / "cudadoctor" / "workers"
STUBS = Path(__file__).parent / "stubs"
LIMIT = 60  # seconds for a child, far above what any needs


def load(name: str) -> ModuleType:
    """A worker as a module, for its pure functions."""
    spec = importlib.util.spec_from_file_location(f"worker_under_test_{name}", WORKERS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    before = list(sys.path)
    sys.path.insert(0, str(WORKERS))  # for cudadoctor_lines
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.path[:] = before
    return module


def run(name: str, *arguments: str, python: str = sys.executable, cwd: Path | None = None, **environ: str | None) -> list[dict[str, Any]]:
    """The worker's events. Every line of its stdout must be one."""
    return run_raw(name, *arguments, python=python, cwd=cwd, **environ)[0]


def run_raw(
    name: str, *arguments: str, python: str = sys.executable, cwd: Path | None = None, **environ: str | None
) -> tuple[list[dict[str, Any]], subprocess.CompletedProcess[str]]:
    merged = {key: value for key, value in {**os.environ, **environ}.items() if value is not None}
    argv = [python, "-u", "-B", str(WORKERS / f"{name}.py"), *arguments]
    done = subprocess.run(argv, capture_output=True, text=True, env=merged, cwd=cwd, timeout=LIMIT, check=False)
    return [json.loads(line) for line in done.stdout.splitlines()], done


def of(events: list[dict[str, Any]], event: str) -> list[dict[str, Any]]:
    return [entry for entry in events if entry["event"] == event]


def raising(error: type[BaseException]) -> Any:
    """A function in the place of another, which only fails."""

    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def wait_until(what: Any) -> None:
    for _ in range(500):
        if what():
            return
        time.sleep(0.02)
    raise AssertionError("it did not happen")


def stat_fields(pid: int) -> list[str]:
    """What follows the name in /proc/PID/stat."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def letter(pid: int) -> str:
    """The state of a process, or `gone`."""
    try:
        return stat_fields(pid)[0]
    except FileNotFoundError:
        return "gone"


def driver_stubs(folder: Path, *, only: str | None = None) -> Path:
    """The folder, with a driver's libraries that answer as the environment says."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no gcc")
    for library, source in (("libcuda.so.1", "fakecuda.c"), ("libnvidia-ml.so.1", "fakenvml.c")):
        if only in (None, library):
            flags = ["-shared", "-fPIC", f"-Wl,-soname,{library}", "-o", str(folder / library), str(STUBS / source), "-ldl"]
            subprocess.run([compiler, *flags], check=True)
    return folder
