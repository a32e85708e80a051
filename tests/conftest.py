"""What holds for the whole suite: names of test cases, the surroundings of the programs that tests start, and the signals that end them."""

import compileall
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import cudadoctor
from tests.doctor import judge_here

# What pytest makes of a module's asserts is kept for the next run, whatever holds for the programs of this shell: six seconds in each process.
sys.dont_write_bytecode = False


_made: dict[pytest.Config, str] = {}


def pytest_configure(config: pytest.Config) -> None:
    """What the programs need that tests start: byte code, made once for a run of many; and signals that interrupt.

    A shell starts what runs in the background with Ctrl-C ignored, nohup with SIGHUP: so would every program be that a test interrupts.
    """
    if not hasattr(config, "workerinput"):
        os.environ.pop("JUDGED_HOSTS", None)  # of a run whose test started this one, perhaps on another checkout
    if not hasattr(config, "workerinput") and config.getoption("numprocesses", None):
        compileall.compile_dir(os.path.dirname(cudadoctor.__file__), quiet=2)
        _rewritten_once()
        os.environ["JUDGED_HOSTS"] = _made[config] = tempfile.mkdtemp(prefix="judged-")
    for name, handler in (("SIGINT", signal.default_int_handler), ("SIGHUP", signal.SIG_DFL)):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)
    if os.name == "posix":
        _plain_surroundings()


def pytest_unconfigure(config: pytest.Config) -> None:
    if config in _made:
        shutil.rmtree(_made.pop(config), ignore_errors=True)


def _rewritten_once() -> None:
    """In a fresh checkout pytest rewrites the asserts of all modules, in every worker anew: here each is done once, before they start."""
    folder = Path(__file__).parent
    if any((folder / "__pycache__").glob("test_*-pytest-*.pyc")):
        return
    modules, share = sorted(map(str, folder.glob("test_*.py"))), os.cpu_count() or 1
    collect = [sys.executable, "-m", "pytest", "--collect-only", "-qq", "-p", "no:xdist", "-p", "no:cacheprovider"]
    begun = [subprocess.Popen([*collect, *modules[first::share]], stdout=subprocess.DEVNULL) for first in range(share)]
    for process in begun:
        process.wait()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """`-n auto`: two more than there are processors, for much of the time goes by in waiting for children and their limits."""
    return (os.cpu_count() or 1) + 2


def _plain_surroundings() -> None:
    """A doctor finds the programs of the system, not those of the environment in which pytest runs: root's would look through all of it."""
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        os.environ.pop(name, None)
    left_out = [os.path.expanduser("~"), *([sys.prefix] if sys.prefix != sys.base_prefix else [])]
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    kept = [one for one in folders if not one.startswith(tuple(f"{place}/" for place in left_out))]
    os.environ["PATH"] = os.pathsep.join(kept) or os.defpath


def pytest_make_parametrize_id(val: object) -> str | None:
    """The same name in every process: pytest-xdist refuses to run where two workers name a case differently.

    Bytes are named by their kind alone (pytest numbers them): what they hold may have the time of day in it, as an archive's header has.
    """
    return "bytes" if isinstance(val, bytes) else None


@pytest.fixture(autouse=True)
def judged_here(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that run in this process judge in it too: a child for each would take longer than all else. `judge_child` leaves it so."""
    if "judge_child" not in request.keywords:
        judge_here(monkeypatch.setattr)
