"""The pytest plugin, each time in a pytest of its own on a recorded machine."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.command_line import HEALTHY, NOUVEAU, ROOT, environment, host

CONFTEST = """
import cudadoctor, cudadoctor.pytest_plugin as plugin
asked = []
def examine():
    asked.append(1)
    return cudadoctor.check(replay={host!r})
plugin.examine = examine
def pytest_unconfigure():
    import sys
    print("asked", len(asked), "numba" in sys.modules)
"""
TESTS = """
import pytest
@pytest.mark.gpu
def test_any(): pass
@pytest.mark.gpu(count=2)
def test_two(): pass
@pytest.mark.gpu(min_memory="8GiB", compute_capability=">=8.0")
def test_ampere(): pass
@pytest.mark.gpu(min_memory="100GiB")
def test_large(): pass
@pytest.mark.gpu(min_memory=1 << 30, compute_capability="9.0")
def test_hopper(): pass
def test_report(gpu_report):
    assert gpu_report.verdict
def test_other(): pass
"""


def pytest_run(folder: Path, *arguments: str, machine: str = HEALTHY, tests: str = TESTS, **variables: str) -> tuple[int, str]:
    (folder / "conftest.py").write_text(CONFTEST.format(host=host(machine)))
    (folder / "test_it.py").write_text(tests)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")
    argv = [
        sys.executable,
        "-B",
        "-m",
        "pytest",
        "-p",
        "cudadoctor.pytest_plugin",
        "-p",
        "no:cacheprovider",
        "--assert=plain",
        "-rs",
        *arguments,
    ]
    done = subprocess.run(
        argv, cwd=folder, env={**environment(variables), "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "COLUMNS": "250"},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_what_a_machine_has_decides(tmp_path: Path) -> None:
    code, out = pytest_run(tmp_path, "-s")
    assert code == 0, out
    assert "asked 1 False" in out, "once, and Numba was not imported"
    assert "4 passed, 3 skipped" in out
    assert "1 GPU visible to CUDA, 2 needed" in out
    assert "SKIPPED [1] test_it.py:" in out
    assert "0 of 1 visible GPU with memory>=100GiB, 1 needed" in out
    assert "0 of 1 visible GPU with memory>=1073741824B and compute-capability>=9.0, 1 needed" in out
    assert "gpu: HEALTHY  NVIDIA GeForce RTX 3090" in out


def test_a_skip_names_the_diagnosed_reason(tmp_path: Path) -> None:
    code, out = pytest_run(tmp_path, machine=NOUVEAU)
    assert code == 0
    assert "2 passed, 5 skipped" in out
    assert "0 GPUs visible to CUDA, 1 needed: The GPU is bound to nouveau (or nova), not to NVIDIA's driver [nouveau-bound]" in out


@pytest.mark.parametrize(("arguments", "variables"), [(("--gpu-required",), {}), ((), {"CUDADOCTOR_REQUIRE_GPU": "1"})])
def test_where_a_gpu_is_required_it_fails_with_cause_and_fix(tmp_path: Path, arguments: tuple[str, ...], variables: dict[str, str]) -> None:
    code, out = pytest_run(tmp_path, *arguments, machine=NOUVEAU, **variables)
    assert code == 1
    assert "5 error" in out
    assert "[nouveau-bound]" in out
    assert "sudo apt-get install" in out
    assert "Traceback" not in out


def test_zero_requires_nothing(tmp_path: Path) -> None:
    assert pytest_run(tmp_path, machine=NOUVEAU, CUDADOCTOR_REQUIRE_GPU="0")[0] == 0


def test_a_run_without_gpu_tests_asks_nobody(tmp_path: Path) -> None:
    code, out = pytest_run(tmp_path, "-s", tests="def test_other(): pass\n")
    assert code == 0
    assert "asked 0 False" in out
    assert out.count("gpu: ") == 1  # the header


@pytest.mark.parametrize("machine", [HEALTHY, NOUVEAU])
def test_a_wrong_mark_is_an_error_even_where_it_would_skip(tmp_path: Path, machine: str) -> None:
    marks = ("gpu(3)", "gpu(memory='8GiB')", "gpu(min_memory='8')", "gpu(compute_capability='new')")
    tests = "".join(f"@pytest.mark.{mark}\ndef test_{number}(): pass\n" for number, mark in enumerate(marks))
    code, out = pytest_run(tmp_path, machine=machine, tests=f"import pytest\n{tests}")
    assert (code, f"{len(marks)} errors" in out) == (1, True), out
    for said in re.split(r"_ ERROR at setup of test_\d _", out)[1:]:
        assert "@pytest.mark.gpu" in said


def test_the_mark_is_known(tmp_path: Path) -> None:
    assert "@pytest.mark.gpu(count=1, min_memory=None, compute_capability=None): needs NVIDIA GPUs" in pytest_run(tmp_path, "--markers")[1]


def test_the_entry_point_names_the_module() -> None:
    project = msgspec.toml.decode((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"cudadoctor": "cudadoctor.pytest_plugin"}


# ---------------------------------------------------------------- the header
@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "no NVIDIA GPU on the bus, no NVIDIA driver loaded"),
        (
            {"bus/0000:01:00.0/vendor": "0x10de\n", "bus/0000:01:00.0/class": "0x030000\n"},
            "1 NVIDIA GPU on the bus, no NVIDIA driver loaded",
        ),
        (
            {"bus/0000:01:00.1/vendor": "0x10de\n", "bus/0000:01:00.1/class": "0x040300\n"},
            "no NVIDIA GPU on the bus, no NVIDIA driver loaded",
        ),
        (
            {
                "version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\n",
                "gpus/0/x": "",
                "gpus/1/x": "",
            },
            "NVIDIA driver 580.65.06, 2 NVIDIA GPUs",
        ),
    ],
)
def test_the_header_is_read_from_proc_and_sys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], said: str) -> None:
    from cudadoctor import pytest_plugin

    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for name, place in (("_LOADED", "version"), ("_GPUS", "gpus"), ("_BUS", "bus")):
        monkeypatch.setattr(pytest_plugin, name, str(tmp_path / place))
    assert pytest_plugin.pytest_report_header() == f"gpu: {said}"


def test_it_costs_nothing_where_no_test_uses_it() -> None:
    """Import, options, mark and header: what a run without GPU tests pays."""
    code = """
import sys, time, pytest
start = time.perf_counter()
import cudadoctor.pytest_plugin as plugin
plugin.pytest_report_header()
print(time.perf_counter() - start)
assert "msgspec" not in sys.modules and "cudadoctor.api" not in sys.modules
"""
    taken = []
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", code], env={**environment(), "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True
        )
        taken.append(float(done.stdout))
    assert min(taken) < 0.03
