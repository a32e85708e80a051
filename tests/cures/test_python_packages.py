"""Packages of a real environment from the real index: broken with pip, judged as part of a recorded machine with a GPU, cured, undone."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from cudadoctor.commands import applying as command
from cudadoctor.commands.applying import Asking
from cudadoctor.judge.stages import judge
from cudadoctor.model.evidence import Evidence
from cudadoctor.model.report import Report
from cudadoctor.prescribe import undo_of
from cudadoctor.sources import python_packages, trust
from cudadoctor.sources.interpreters import worker_path
from tests.command_line import changed, lines, records
from tests.judging import KNOWLEDGE

pytestmark = [pytest.mark.cures, pytest.mark.skipif(sys.platform == "win32", reason="Linux and WSL")]
MACHINE = "h200-healthy"
NUMBA = "from numba import cuda; cuda.jit('void()')"
SITE = "import numpy, os; print(os.path.dirname(os.path.dirname(numpy.__file__)))"


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """`usual`: begins with what a healthy environment holds; `made`: what pip is told then, in its order; `removed`: files of site-packages;
    `works`: a program that fails with the fault alone. `machine`: whose GPU it is.
    """

    name: str
    cause: str
    usual: bool = True
    made: tuple[tuple[str, ...], ...] = ()
    removed: tuple[str, ...] = ()
    works: str = NUMBA
    machine: str = MACHINE


USUAL = ("numba", "numba-cuda[cu13]")  # what a healthy environment holds; installed once, and copied
FAULTS = (
    Fault(name="numpy-too-new", cause="python-abi-mismatch", made=(("numba==0.61.2",), ("--no-deps", "numpy==2.3.1"))),
    Fault(name="llvmlite-too-old", cause="python-abi-mismatch", made=(("--no-deps", "llvmlite==0.44.0"),)),
    Fault(name="numpy-half-gone", cause="python-package-broken", removed=("numpy/_core/multiarray.py",)),
    Fault(name="llvmlite-half-gone", cause="python-package-broken", removed=("llvmlite/ir/values.py",)),
    Fault(name="core-half-gone", cause="python-package-broken", removed=("cuda/core/__init__.py",)),
    Fault(name="numba-too-old", cause="numba-too-old", usual=False, made=(("numba==0.57.1",),), works="import numba_cuda"),
    Fault(
        name="two-cupys", cause="toolkit-libraries-mixed", made=(("--no-deps", "cupy-cuda11x"), ("--no-deps", "cupy-cuda12x")),
        works="import importlib.metadata as m; assert len([d for d in m.distributions() if d.metadata['Name'].startswith('cupy')]) == 1",
    ),
    Fault(
        name="cuda-13-for-pascal", cause="toolkit-dropped-gpu", machine="toolkit-13-pascal",
        works="from cuda.pathfinder import load_nvidia_dynamic_lib as load; assert 'cu13' not in load('nvrtc').abs_path",
    ),
)  # fmt: skip


class Patient:
    """An environment of its own, as part of the recorded machine."""

    def __init__(self, folder: Path) -> None:
        if not folder.exists():
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        self.folder, self.python = str(folder), str(folder / "bin" / "python")

    def pip(self, *words: str) -> None:
        subprocess.run([self.python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *words], check=True)

    def ran(self, program: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([self.python, "-c", program], capture_output=True, text=True, check=False, cwd="/")

    def evidence(self, machine: str) -> Evidence:
        """The recorded machine with this environment in place of its own, and Numba's rung as this environment begins it. A toolkit of the
        machine that runs the test is left out."""
        seen = subprocess.run([self.python, "-B", worker_path("python_env.py")], capture_output=True, text=True, check=True, cwd="/").stdout
        apart = [
            entry for entry in records(seen) if entry["event"] not in ("component", "toolkit") or self.folder in str(entry.get("path"))
        ]
        begun = self.ran(NUMBA)
        said = begun.stderr if begun.returncode else ""

        def climb(text: str) -> str:
            entries = records(text)
            for entry in entries:
                if entry.get("python"):
                    entry["python"] = self.python
                if said and entry.get("event") == "end" and entry.get("step") == "numba-kernel":
                    entry |= {"status": "fail", "output": said}
            return lines(entries)

        bare = lambda text: re.sub(r"(?m)^CUDA_(?:HOME|PATH)=.*\n", "", text)  # noqa: E731
        return changed(machine, {"python-env": lambda _: lines(apart), "ladder": climb, "environment": bare})

    def report(self, machine: str) -> Report:
        """As if this machine had been examined here and now."""
        found = judge(self.evidence(machine), KNOWLEDGE)
        origin = msgspec.structs.replace(found.origin, kind="live")
        return msgspec.structs.replace(found, origin=origin, machine=msgspec.structs.replace(found.machine, container=None))


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """Under the user's own home: a temporary folder is everybody's, and no step names it."""
    folder = Path(tempfile.mkdtemp(prefix="cures-", dir=Path.home()))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def healthy(home: Path) -> Path:
    Patient(home / "healthy").pip(*USUAL)
    return home / "healthy"


@pytest.fixture
def patient(request: pytest.FixtureRequest, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Patient]:
    monkeypatch.setattr(trust, "as_root", lambda: False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = home / "my env"
    if request.getfixturevalue("fault").usual:
        subprocess.run(["cp", "-al", str(request.getfixturevalue("healthy")), str(folder)], check=True)
    yield Patient(folder)
    shutil.rmtree(folder)


def undo() -> int:
    render: Callable[[command.journal.Entry], str | None] = lambda entry: undo_of(entry.step, entry.values, KNOWLEDGE, root=True)  # noqa: E731
    return command.undo(KNOWLEDGE, Asking(("environment",)), dry=False, render=render)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_cured_and_undone(fault: Fault, patient: Patient) -> None:
    for words in fault.made:
        patient.pip(*words)
    site = Path(patient.ran("import sysconfig; print(sysconfig.get_path('purelib'))").stdout.strip())
    for name in fault.removed:
        (site / name).unlink(missing_ok=True)
    before = python_packages.installed(patient.python)
    assert patient.ran(fault.works).returncode != 0
    found = patient.report(fault.machine)
    assert found.diagnosis.root is not None, json.dumps(msgspec.to_builtins(found.diagnosis), indent=1)[:3000]
    assert found.diagnosis.root.cause == fault.cause
    assert command.apply(found, KNOWLEDGE, Asking(("environment", "reads")), dry=False)
    ended = patient.ran(fault.works)
    assert ended.returncode == 0, ended.stderr
    after = patient.report(fault.machine)
    assert after.diagnosis.root is None or after.diagnosis.root.cause != fault.cause
    assert undo() == 0
    assert python_packages.installed(patient.python) == before
