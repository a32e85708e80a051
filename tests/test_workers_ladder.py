"""The ladder worker against a stub libcuda: which rung it names, in which words, and that it goes no further than it may."""

from __future__ import annotations

import json
import os
import py_compile
import re
import shutil
import signal
import subprocess
import sys
import time
import venv
from collections.abc import Callable
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

import pytest

from tests.worker_runs import driver_stubs
from tests.worker_runs import of as named

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the worker loads Linux libraries")

TESTS = Path(__file__).parent
WORKERS = TESTS.parent / "cudadoctor" / "workers"
FAKE_NUMBA = str(TESTS / "stubs" / "fake_numba")
OLD_PYTHONS = sorted(Path.home().glob(".pyenv/versions/3.*/bin/python")) + [
    Path(found) for minor in (8, 9, 12, 13, 14) if (found := shutil.which(f"python3.{minor}"))
]
Events = list[dict[str, Any]]


@pytest.fixture(scope="session")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a libcuda.so.1 that answers as the environment says."""
    folder = driver_stubs(tmp_path_factory.mktemp("libcuda"), only="libcuda.so.1")
    library = (folder / "libcuda.so.1").rename(folder / "libcuda.so.580.0.1")
    (folder / "libcuda.so.1").symlink_to(library.name)
    return folder


def environment(**changes: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA", "CUDA", "PYTHON", "LD_", "FAKE"))}
    return {**kept, "CUDA_CACHE_DISABLE": "1", **changes}


def run(
    *arguments: str, say: str = "go\n", python: tuple[str, ...] = (sys.executable,), folder: Path = WORKERS, **changes: str
) -> tuple[Events, subprocess.CompletedProcess[str]]:
    argv = [*python, "-u", "-B", str(folder / "ladder.py"), *arguments]
    done = subprocess.run(argv, input=say, capture_output=True, text=True, env=environment(**changes), timeout=120)
    return [json.loads(line) for line in done.stdout.splitlines()], done


def ends(events: Events) -> list[tuple[str, int | None, str]]:
    return [(entry["step"], entry["gpu"], entry["status"]) for entry in named(events, "end")]


def last_end(events: Events) -> dict[str, Any]:
    return named(events, "end")[-1]


Climb = Callable[..., Events]


@pytest.fixture
def climb(stub: Path) -> Climb:
    """Run the worker with the stub library, without site-packages: no Numba."""

    def start(*arguments: str, python: tuple[str, ...] = (sys.executable, "-S"), **changes: Any) -> Events:
        events, done = run(*arguments, python=python, **{"LD_LIBRARY_PATH": str(stub), **changes})
        assert done.returncode == 0, done.stderr
        assert events[0]["event"] == "start"
        assert events[-1] == {"event": "done"}
        begun = [(entry["step"], entry["gpu"]) for entry in named(events, "begin")]
        assert begun == [(entry["step"], entry["gpu"]) for entry in named(events, "end")]
        return events

    return start


# ---------------------------------------------------------------- up to the devices
def test_missing_library_is_told_in_the_loaders_words() -> None:
    events, done = run(LD_LIBRARY_PATH="/nonexistent")
    if ends(events)[0][2] == "pass":
        pytest.skip("this machine has a libcuda")
    assert ends(events) == [("libcuda", None, "fail")]
    assert last_end(events)["output"] == "libcuda.so.1: cannot open shared object file: No such file or directory"
    assert events[-1] == {"event": "done"}
    assert done.stderr == ""


def test_the_file_really_loaded_is_named(climb: Climb, stub: Path) -> None:
    end = named(climb("--quick"), "end")[0]
    assert (end["path"], end["library"]) == (str(stub / "libcuda.so.580.0.1"), "580.0.1")


@pytest.mark.parametrize(
    ("code", "name", "text"),
    [
        ("100", "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"),
        ("999", "CUDA_ERROR_UNKNOWN", "unknown error"),
        ("34", "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"),
    ],
)
@pytest.mark.parametrize("mute", [{}, {"FAKE_CUDA_MUTE": "1"}])
def test_failed_init(climb: Climb, code: str, name: str, text: str, mute: dict[str, str]) -> None:
    events = climb(FAKE_CUDA_INIT=code, **mute)
    assert ends(events) == [("libcuda", None, "pass"), ("init", None, "fail")]
    end = last_end(events)
    assert (end["code"], end["name"]) == (int(code), name)
    assert end["output"] == f"cuInit returned {code} ({name}): {text}"
    openings = {entry["path"]: entry["errno_name"] for entry in named(events, "opening")}
    assert {"/dev/nvidiactl", "/dev/nvidia-uvm"} <= set(openings)
    for path, refusal in openings.items():
        assert (refusal == "ENOENT") == (not os.path.exists(path))


def test_unknown_code_has_no_name(climb: Climb) -> None:
    end = last_end(climb(FAKE_CUDA_INIT="12345"))
    assert (end["code"], end["name"], end["output"]) == (12345, None, "cuInit returned 12345")


def test_hang_of_cuinit_leaves_its_begin_as_the_last_line(stub: Path) -> None:
    events, done = run("--limit-seconds", "0.5", LD_LIBRARY_PATH=str(stub), FAKE_CUDA_INIT="hang")
    assert events[-1] == {"event": "begin", "step": "init", "gpu": None}
    assert done.returncode == 124


def test_crash_leaves_its_begin_and_a_stack(stub: Path) -> None:
    events, done = run(LD_LIBRARY_PATH=str(stub), FAKE_CUDA_INIT="crash")
    assert events[-1] == {"event": "begin", "step": "init", "gpu": None}
    assert done.returncode < 0
    assert "Fatal Python error" in done.stderr


def test_what_a_library_prints_stays_off_stdout_and_joins_the_failure(climb: Climb) -> None:
    output = last_end(climb(FAKE_CUDA_INIT="100", FAKE_CUDA_SAY="modprobe: noise"))["output"]
    assert output.splitlines()[0] == "modprobe: noise"
    assert all(entry["output"] == "" for entry in named(climb("--quick", FAKE_CUDA_SAY="noise"), "end"))


def test_printed_text_is_bounded(climb: Climb) -> None:
    output = last_end(climb(FAKE_CUDA_INIT="100", FAKE_CUDA_SAY="x" * 100_000))["output"]
    assert len(output) < 66_000
    assert output.endswith("no CUDA-capable device is detected")


def test_no_device(climb: Climb) -> None:
    events = climb(FAKE_CUDA_DEVICES="0")
    assert ends(events)[-1] == ("devices", None, "fail")
    assert last_end(events)["output"] == "cuDeviceGetCount returned 0 devices"
    assert not named(events, "opening")


def test_devices_are_described_and_a_refused_value_is_null(climb: Climb) -> None:
    devices = last_end(climb("--quick", FAKE_CUDA_DEVICES="2", FAKE_CUDA_FAIL="cuDeviceTotalMem_v2@1=999"))["devices"]
    assert devices[0] == {
        "index": 0,
        "name": "NVIDIA Fake 0",
        "uuid": "GPU-00112233-4455-6677-8899-aabbccddeeff",
        "address": "00fa:0c:00.0",
        "compute_capability": "9.0",
        "memory_total_bytes": 2 << 30,
        "memory_free_bytes": None,
    }
    assert (devices[1]["address"], devices[1]["memory_total_bytes"]) == ("00fa:0d:00.0", None)


def test_cuda_version(climb: Climb) -> None:
    assert last_end(climb("--quick", FAKE_CUDA_VERSION="12040"))["cuda"] == "12.4"


@pytest.mark.parametrize(("arguments", "say"), [(["--quick"], "go\n"), ([], ""), ([], "stop\n"), ([], "gone\n")])
def test_no_context_without_leave(climb: Climb, arguments: list[str], say: str) -> None:
    events = climb(*arguments, say=say)
    assert ends(events)[-1] == ("devices", None, "pass")
    assert events[0]["quick"] is bool(arguments)


# ---------------------------------------------------------------- one GPU
def test_healthy_gpu_without_numba(climb: Climb) -> None:
    events = climb()
    assert ends(events)[3:] == [("context", 0, "pass"), ("memory", 0, "pass"), ("ptx-kernel", 0, "pass"), ("numba-kernel", 0, "skip")]
    assert last_end(events)["why"] == "no Numba here"
    assert next(entry for entry in named(events, "end") if entry["step"] == "context")["memory_free_bytes"] == 1 << 30
    figures = {entry["name"]: entry for entry in named(events, "benchmark")}
    assert list(figures) == ["h2d_pinned", "d2h_pinned", "h2d_pageable", "d2h_pageable", "d2d", "launch_latency", "fp32"]
    assert all(entry["value"] > 0 and entry["gpu"] == 0 and entry["seconds"] > 0 for entry in figures.values())
    assert figures["d2d"]["limit"] == pytest.approx(2 * 2.619e9 * 5120 / 8 / 1e9)
    assert figures["h2d_pinned"]["limit"] is None
    assert figures["h2d_pinned"]["why"]
    assert figures["launch_latency"]["unit"] == "us"


def test_no_benchmark(climb: Climb) -> None:
    events = climb("--no-benchmark")
    assert not named(events, "benchmark")
    assert ("ptx-kernel", 0, "pass") in ends(events)


def test_a_gpu_that_breaks_does_not_stop_the_next(climb: Climb) -> None:
    events = climb("--no-benchmark", FAKE_CUDA_DEVICES="2", FAKE_CUDA_FAIL="cuDevicePrimaryCtxRetain@0=46")
    assert ends(events)[3:] == [
        ("context", 0, "fail"), ("context", 1, "pass"), ("memory", 1, "pass"), ("ptx-kernel", 1, "pass"), ("numba-kernel", 1, "skip"),
    ]  # fmt: skip
    end = named(events, "end")[3]
    assert end["output"] == (
        "cuDevicePrimaryCtxRetain returned 46 (CUDA_ERROR_DEVICE_UNAVAILABLE): CUDA-capable device(s) is/are busy or unavailable"
    )


def test_no_working_gpu_means_no_numba(climb: Climb) -> None:
    assert ends(climb(FAKE_CUDA_FAIL="cuMemAlloc_v2=2"))[-1] == ("memory", 0, "fail")


def test_lost_bytes_break_the_memory_rung(climb: Climb) -> None:
    events = climb(FAKE_CUDA_WRONG="copy")
    assert ends(events)[-1] == ("memory", 0, "fail")
    assert "first at byte 1000; wrong again when repeated (2 of 2 times)" in last_end(events)["output"]


def test_wrong_arithmetic_breaks_the_kernel_rung(climb: Climb) -> None:
    events = climb(FAKE_CUDA_WRONG="kernel")
    assert ends(events)[-1] == ("ptx-kernel", 0, "fail")
    assert "element 8191" in last_end(events)["output"]
    assert "wrong again when repeated (2 of 2 times)" in last_end(events)["output"]
    assert not named(events, "benchmark")


def test_what_was_wrong_once_is_said_to_be_right_now(climb: Climb) -> None:
    events = climb(FAKE_CUDA_WRONG="kernel once")
    assert ends(events)[-1] == ("ptx-kernel", 0, "fail")
    assert "right when repeated (2 of 2 times)" in last_end(events)["output"]


def test_the_drivers_compiler_is_quoted(climb: Climb) -> None:
    end = last_end(climb(FAKE_CUDA_FAIL="cuModuleLoadDataEx=218", FAKE_CUDA_LOG="ptxas fatal   : Unresolved extern"))
    assert (end["code"], end["name"]) == (218, "CUDA_ERROR_INVALID_PTX")
    assert end["output"].splitlines()[1] == "ptxas fatal   : Unresolved extern"


def test_a_figure_that_cannot_be_had_says_why_and_breaks_nothing(climb: Climb) -> None:
    events = climb(FAKE_CUDA_FAIL="cuMemHostAlloc=2,cuDeviceGetAttribute=1")
    figures = {entry["name"]: entry for entry in named(events, "benchmark")}
    assert figures["h2d_pinned"]["value"] is None
    assert "CUDA_ERROR_OUT_OF_MEMORY" in figures["h2d_pinned"]["why"]
    assert figures["h2d_pageable"]["value"] > 0
    assert figures["d2d"]["limit"] is None
    assert "does not say the memory clock" in figures["d2d"]["why"]
    assert ends(events)[-1][0] == "numba-kernel"


def test_benchmark_compares_what_it_copied(climb: Climb) -> None:
    figures = {entry["name"]: entry for entry in named(climb(FAKE_CUDA_WRONG="bench"), "benchmark")}
    for name in ("h2d_pinned", "d2h_pinned", "h2d_pageable", "d2h_pageable"):
        assert figures[name]["value"] is None
        assert "first at byte 1000" in figures[name]["why"]


# ---------------------------------------------------------------- Numba
def copied_workers(target: Path) -> Path:
    """The worker with smoke steps small enough for kernels that run in plain Python."""
    shutil.copytree(WORKERS, target, ignore=shutil.ignore_patterns("__pycache__"))
    text = (target / "numba_steps.py").read_text()
    for name in ("INCREMENTED", "ADDED", "EXPONENTS", "CHUNK"):
        text, replaced = re.subn(rf"(?m)^{name} = [^#\n]+", f"{name} = {300 + len(name)}  ", text)
        assert replaced == 1
    (target / "numba_steps.py").write_text(text)
    return target


@pytest.fixture
def smoke(climb: Climb, tmp_path: Path) -> Climb:
    """Climb with a Numba that computes on the CPU; `fault` is what goes wrong in it."""

    numpy = pytest.importorskip("numpy")
    # Without site-packages' start-up hooks: that of numba-cuda would put the real numba.cuda in place of this one.
    packages = f"{FAKE_NUMBA}:{Path(numpy.__file__).parents[1]}"

    def start(fault: str = "", **changes: Any) -> Events:
        return climb("--no-benchmark", folder=copied_workers(tmp_path / "workers"), PYTHONPATH=packages, FAKE_NUMBA=fault, **changes)

    return start


def steps(events: Events) -> list[tuple[int, str, str]]:
    return [(entry["gpu"], entry["step"], entry["status"]) for entry in named(events, "smoke")]


STEPS = ("device print", "increment", "vector add", "float32 exp")


def test_smoke_steps_on_every_gpu(smoke: Climb) -> None:
    events = smoke(FAKE_CUDA_DEVICES="2")
    assert ends(events)[-2:] == [("numba-kernel", 0, "pass"), ("numba-kernel", 1, "pass")]
    assert steps(events) == [(gpu, step, "pass") for gpu in (0, 1) for step in STEPS]
    assert named(events, "numba")[0]["version"] == "0.0.fake"


def test_wrong_results_fail_their_steps(smoke: Climb) -> None:
    events = smoke("wrong")
    assert steps(events) == [(0, "device print", "pass")] + [(0, step, "fail") for step in STEPS[1:]]
    assert ends(events)[-1] == ("numba-kernel", 0, "fail")
    assert "increment: element 310 is 77.0, 156.0 is right" in last_end(events)["output"]


def test_silent_device_print_fails(smoke: Climb) -> None:
    events = smoke("mute")
    assert steps(events)[0] == (0, "device print", "fail")
    assert named(events, "smoke")[0]["why"] == "16 of 16 threads printed nothing"
    assert ends(events)[-1] == ("numba-kernel", 0, "fail")


def test_an_exception_ends_the_steps_and_is_quoted(smoke: Climb) -> None:
    events = smoke("raise")
    assert steps(events) == [(0, "device print", "fail")] + [(0, step, "skip") for step in STEPS[1:]]
    assert named(events, "smoke")[0]["why"] == "RuntimeError: no libnvvm was found"
    assert last_end(events)["output"].startswith("Traceback (most recent call last):")
    assert last_end(events)["output"].endswith("RuntimeError: no libnvvm\nwas found")


def test_too_little_memory_is_skipped_and_said(smoke: Climb) -> None:
    events = smoke("full")
    assert [status for _, _, status in steps(events)] == ["pass", "skip", "skip", "skip"]
    assert "MB are free" in named(events, "smoke")[1]["why"]
    assert ends(events)[-1] == ("numba-kernel", 0, "pass")


def test_a_stub_that_numba_alone_would_load_is_found(smoke: Climb, stub: Path, tmp_path: Path) -> None:
    (tmp_path / "stubs").mkdir()
    shutil.copy(stub / "libcuda.so.580.0.1", tmp_path / "stubs" / "libcuda.so")
    events = smoke("stub", LD_LIBRARY_PATH=f"{tmp_path}/stubs:{stub}")
    assert ends(events)[-1] == ("numba-kernel", 0, "fail")
    assert "RuntimeError: function cuInit is not found" in last_end(events)["output"]
    assert named(events, "numba")[-1]["components"]["libcuda"] == f"{tmp_path}/stubs/libcuda.so"


def test_simulator_is_refused_before_any_kernel(climb: Climb) -> None:
    pytest.importorskip("numba")
    events = climb("--no-benchmark", python=(sys.executable,), NUMBA_ENABLE_CUDASIM="1")
    assert named(events, "numba")[0]["simulator"] is True
    assert not named(events, "smoke")
    assert ends(events)[-1] == ("numba-kernel", 0, "fail")
    assert "NUMBA_ENABLE_CUDASIM=1" in last_end(events)["output"]


def test_disabled_cuda_fails_with_numbas_own_words(climb: Climb) -> None:
    pytest.importorskip("numba")
    events = climb("--no-benchmark", python=(sys.executable,), NUMBA_DISABLE_CUDA="1")
    assert named(events, "numba")[0]["simulator"] is False
    assert steps(events)[0] == (0, "device print", "fail")
    assert "CUDA is disabled due to setting NUMBA_DISABLE_CUDA=1" in last_end(events)["output"]


@pytest.mark.parametrize(
    ("content", "last"),
    [
        (
            "raise ImportError('Numba needs NumPy 2.4 or less. Got NumPy 2.5.')",
            "ImportError: Numba needs NumPy 2.4 or less. Got NumPy 2.5.",
        ),
        ("import llvmlite_that_is_not_there", "ModuleNotFoundError: No module named 'llvmlite_that_is_not_there'"),
        ("", "ImportError: cannot import name 'cuda' from 'numba'"),
        ("raise SystemExit(3)", "SystemExit: 3"),
    ],
)
def test_a_numba_that_does_not_import_is_no_missing_numba(climb: Climb, tmp_path: Path, content: str, last: str) -> None:
    package = tmp_path / "numba"
    package.mkdir()
    (package / "__init__.py").write_text(content)
    events = climb("--no-benchmark", FAKE_CUDA_DEVICES="2", PYTHONPATH=str(tmp_path))
    assert ends(events)[-2:] == [("numba-kernel", 0, "fail"), ("numba-kernel", 1, "skip")]
    assert named(events, "end")[-2]["output"].splitlines()[-1].startswith(last)


@pytest.mark.parametrize(("left", "said"), [("~umba", "what pip left of it"), ("numba_cuda", "numba, which it needs, is not")])
def test_numba_that_is_half_there_is_missed(climb: Climb, tmp_path: Path, left: str, said: str) -> None:
    (tmp_path / left).mkdir()
    events = climb("--no-benchmark", PYTHONPATH=str(tmp_path))
    assert ends(events)[-1] == ("numba-kernel", 0, "fail")
    assert said in last_end(events)["output"].splitlines()[-1]


@pytest.mark.parametrize(
    ("found", "installer", "expected"),
    [
        ("import math_\n", "pip\n", [None]),
        ("import math_", "uv", ["12 of 13 bytes"]),
        ("import meth_\n", "pip", ["other contents"]),
        ("import meth_\n", "conda", []),  # which writes its prefix into files
        ("import meth_\n", None, []),
    ],
)
def test_a_file_that_is_not_what_was_installed_is_told(
    climb: Climb, tmp_path: Path, found: str, installer: str | None, expected: list[str | None]
) -> None:
    packages = tmp_path / "site-packages"
    (packages / "numba").mkdir(parents=True)
    (packages / "numba_cuda-0.30.dist-info").mkdir()
    (packages / "numba" / "__init__.py").write_text(found)
    (packages / "numba_cuda-0.30.dist-info" / "RECORD").write_text(
        "numba/other.py,,\nnumba/__init__.py,sha256=SpGK1v0ExC-SD9kLPFB1xyfXyFzpKv0fYQUuKjI0fHQ,13\n"
    )

    if installer is not None:
        (packages / "numba_cuda-0.30.dist-info" / "INSTALLER").write_text(installer)
    events = named(climb("--no-benchmark", PYTHONPATH=str(packages)), "installed")
    assert [entry["differs"] for entry in events] == expected
    assert {(entry["path"], entry["package"], entry["version"]) for entry in events} <= {
        (str(packages / "numba" / "__init__.py"), "numba-cuda", "0.30")
    }


def numba_installed(folder: Path, init: str) -> tuple[Path, Path]:
    """Packages with a Numba that pip installed and its RECORD has no hash of: their folder, and the module it is to import."""
    packages = folder / "site-packages"
    home, metadata = packages / "numba", packages / "numba-0.61.dist-info"
    home.mkdir(parents=True)
    metadata.mkdir()
    (metadata / "INSTALLER").write_text("pip\n")
    (metadata / "RECORD").write_text("numba/config.py,,\nnumba/__init__.py,,\n")
    (home / "__init__.py").write_text(init)
    return packages, home / "config.py"


@pytest.mark.parametrize("mode", ["UNCHECKED_HASH", "CHECKED_HASH", "TIMESTAMP"])
@pytest.mark.parametrize("other", ["lead = 1\n", "load = 1\n"])
def test_byte_code_that_python_takes_from_another_source_is_told(climb: Climb, tmp_path: Path, mode: str, other: str) -> None:
    packages, source = numba_installed(tmp_path, "from .config import load, more\n")
    kept = cache_from_source(str(source))
    source.write_text(other)
    py_compile.compile(str(source), kept, invalidation_mode=py_compile.PycInvalidationMode[mode])
    times = source.stat()
    source.write_text("load = 1\n")
    os.utime(source, ns=(times.st_atime_ns, times.st_mtime_ns))  # as a deployment with fixed times leaves it
    taken = other != "load = 1\n" and mode != "CHECKED_HASH"
    events = named(climb("--no-benchmark", PYTHONPATH=str(packages)), "installed")
    assert [entry["byte_code"] for entry in events if entry["path"] == str(source)] == [kept if taken else None]


@pytest.mark.parametrize("says", ["load.fresh()", "config.fresh()", "load().fresh()"])
def test_byte_code_of_what_lacks_an_attribute_is_told(climb: Climb, tmp_path: Path, says: str) -> None:
    """The error is raised where another file's class or module is used."""
    packages, source = numba_installed(tmp_path, f"from . import config\nfrom .config import load\n{says}\n")
    source.write_text("class load:\n    pass\n")
    kept = cache_from_source(str(source))
    py_compile.compile(str(source), kept, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    source.write_text("def fresh(): pass\nclass load:\n    fresh = print\n")
    events = named(climb("--no-benchmark", PYTHONPATH=str(packages)), "installed")
    assert [(entry["path"], entry["byte_code"]) for entry in events][:1] == [(str(source), kept)]


def test_a_configuration_that_is_no_yaml_ends_the_rung(smoke: Climb, tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    (tmp_path / ".numba_config.yaml").write_text("disable_cuda: 0\n\tdebug: 1\n")
    events = smoke(CUDADOCTOR_FOLDER=str(tmp_path))
    assert ends(events)[-1] == ("numba-kernel", 0, "fail")
    assert f'in "{tmp_path}/.numba_config.yaml", line 2' in last_end(events)["output"]


@pytest.mark.skipif(sys.platform != "linux", reason="a way to a deleted folder is Linux's")
@pytest.mark.parametrize("deleted", [False, True])
def test_numba_is_tried_where_the_user_stands_if_that_was_deleted(smoke: Climb, tmp_path: Path, deleted: bool) -> None:
    (tmp_path / "gone").mkdir()
    folder = os.open(tmp_path / "gone", os.O_RDONLY)
    try:
        if deleted:
            (tmp_path / "gone").rmdir()
        events = smoke("place", CUDADOCTOR_FOLDER=f"/proc/{os.getpid()}/fd/{folder}")
    finally:
        os.close(folder)
    assert (ends(events)[-1][2] == "fail") is deleted
    assert ("FileNotFoundError: [Errno 2] No such file or directory" in last_end(events)["output"]) is deleted


def test_packages_for_another_python_are_told(stub: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "v", symlinks=True)
    (tmp_path / "v" / "lib" / "python3.2" / "site-packages" / "numba").mkdir(parents=True)
    end = last_end(run("--no-benchmark", python=(str(tmp_path / "v" / "bin" / "python"),), LD_LIBRARY_PATH=str(stub))[0])
    assert "is for another Python than" in end["output"]


def test_a_virtual_environment_without_its_file_is_told(stub: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "v", symlinks=True)
    (tmp_path / "v" / "lib" / "python{}.{}".format(*sys.version_info) / "site-packages" / "numba").mkdir()
    python = (str(tmp_path / "v" / "bin" / "python"), "-S")
    for lost in (False, True):
        if lost:
            (tmp_path / "v" / "pyvenv.cfg").unlink()
        end = last_end(run("--no-benchmark", python=python, LD_LIBRARY_PATH=str(stub))[0])
        assert ("has no pyvenv.cfg" in end["output"]) is lost


# ---------------------------------------------------------------- the process
def test_own_folder_is_not_importable(climb: Climb, tmp_path: Path) -> None:
    folder = copied_workers(tmp_path / "workers")
    for name in ("json.py", "threading.py", "ctypes.py", "numba.py"):
        (folder / name).write_text("raise RuntimeError('shadowed')\n")
    events = climb("--no-benchmark", folder=folder)
    assert last_end(events)["why"] == "no Numba here"


def test_a_bug_of_the_worker_is_its_rungs_failure(climb: Climb, tmp_path: Path) -> None:
    folder = copied_workers(tmp_path / "workers")
    (folder / "gpu_steps.py").write_text("def describe(driver, index):\n    return {}['nothing']\n")
    end = last_end(climb(folder=folder))
    assert (end["step"], end["status"]) == ("devices", "fail")
    assert end["why"] == "the worker itself failed: KeyError: 'nothing'"


def test_a_reader_that_is_gone_ends_the_worker_quietly(stub: Path) -> None:
    argv = [sys.executable, "-u", "-B", str(WORKERS / "ladder.py")]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(LD_LIBRARY_PATH=str(stub))
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        assert any(b'"devices", "status"' in line for line in child.stdout)
        child.stdout.close()
        child.stdin.write(b"go\n")
        child.stdin.close()
        assert child.wait(timeout=60) == 0
        assert child.stderr.read() == b""


@pytest.mark.parametrize(
    "python", [pytest.param(path, marks=() if path == OLD_PYTHONS[-1] else pytest.mark.long) for path in OLD_PYTHONS], ids=str
)
def test_other_interpreters(climb: Climb, python: Path) -> None:
    version = subprocess.run([str(python), "-c", "import sys; print(sys.version_info >= (3, 8))"], capture_output=True, text=True)
    if version.stdout.strip() != "True":
        pytest.skip("older than Python 3.8, or not runnable")
    events = climb(python=(str(python), "-S"))
    assert ends(events)[-1] == ("numba-kernel", 0, "skip")
    assert len([entry for entry in named(events, "benchmark") if entry["value"] is not None]) == 7


@pytest.mark.parametrize("count", ["-1", "1000000000", "0"])
def test_a_number_of_devices_that_is_none_fails_the_rung(count: str, stub: Path) -> None:
    """A driver that answers nonsense is not one that works."""
    events, _ = run(LD_LIBRARY_PATH=str(stub), FAKE_CUDA_DEVICES=count)
    assert last_end(events)["step"] == "devices"
    assert last_end(events)["status"] == "fail"
    assert f"returned {count} devices" in json.dumps(events)


def test_what_the_interpreters_start_made_of_a_variable(stub: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import os\nos.environ['CUDA_VISIBLE_DEVICES'] = '-1'\ndel os.environ['NUMBA_OPT']\n")
    given = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "NUMBA_OPT": "3", "PYTHONPATH": str(tmp_path), "LD_LIBRARY_PATH": str(stub)}
    events, _ = run("--quick", CUDADOCTOR_WITHHELD="PATH", LD_PRELOAD="/no/guard.so", **given)
    assert named(events, "changed")[0]["preloaded"][-1] == "/no/guard.so"
    assert [(entry["name"], entry["value"]) for entry in named(events, "changed")] == [("CUDA_VISIBLE_DEVICES", "-1"), ("NUMBA_OPT", None)]


# ---------------------------------------------------------------- two processes
def numba_of(folder: Path, content: str) -> str:
    (folder / "numba").mkdir()
    (folder / "numba" / "__init__.py").write_text(content)
    return str(folder)


def test_an_import_that_crashes_breaks_numbas_rung_and_none_before(stub: Path, tmp_path: Path) -> None:
    packages = numba_of(tmp_path, "import ctypes; ctypes.string_at(0)")
    events, done = run("--no-benchmark", LD_LIBRARY_PATH=str(stub), PYTHONPATH=packages)
    assert ends(events)[-1] == ("ptx-kernel", 0, "pass")
    assert events[-1] == {"event": "begin", "step": "numba-kernel", "gpu": 0}
    assert done.returncode == -signal.SIGSEGV
    assert "numba/__init__.py" in done.stderr


def test_an_import_that_hangs_has_begun_numbas_rung(stub: Path, tmp_path: Path) -> None:
    packages = numba_of(tmp_path, "import time; time.sleep(60)")
    with pytest.raises(subprocess.TimeoutExpired) as ended:
        subprocess.run(
            [sys.executable, "-u", "-B", str(WORKERS / "ladder.py"), "--no-benchmark"],
            input=b"go\n", capture_output=True, env=environment(LD_LIBRARY_PATH=str(stub), PYTHONPATH=packages), timeout=4,
        )  # fmt: skip
    assert json.loads((ended.value.stdout or b"").splitlines()[-1]) == {"event": "begin", "step": "numba-kernel", "gpu": 0}


def test_an_import_that_leaves_python_ends_the_ladder_with_its_status(stub: Path, tmp_path: Path) -> None:
    events, done = run("--no-benchmark", LD_LIBRARY_PATH=str(stub), PYTHONPATH=numba_of(tmp_path, "import os; os._exit(3)"))
    assert (events[-1]["event"], done.returncode) == ("begin", 3)


def test_nobody_waits_for_numba_where_an_earlier_rung_broke(climb: Climb, tmp_path: Path) -> None:
    started = time.monotonic()
    climb(FAKE_CUDA_INIT="100", PYTHONPATH=numba_of(tmp_path, "import time; time.sleep(60)"))
    assert time.monotonic() - started < 30


def test_what_an_import_prints_joins_the_failure(climb: Climb, tmp_path: Path) -> None:
    events = climb("--no-benchmark", PYTHONPATH=numba_of(tmp_path, "print('numba says'); raise ImportError('no llvmlite')"))
    assert last_end(events)["output"].splitlines()[0] == "numba says"


def test_where_no_process_may_be_forked_one_climbs_alone(climb: Climb, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import os\ndef fork():\n    raise BlockingIOError(11, 'no more')\nos.fork = fork\n")
    packages = numba_of(tmp_path, "raise ImportError('no llvmlite')")
    events = climb("--no-benchmark", python=(sys.executable,), PYTHONPATH=packages)
    assert ends(events)[-1] == ("numba-kernel", 0, "fail")


def test_what_a_library_says_before_it_ends_the_process_is_told(stub: Path, tmp_path: Path) -> None:
    packages = numba_of(tmp_path, "import ctypes, os; os.write(2, b'OpenBLAS error: giving up\\n'); ctypes.CDLL(None).exit(1)")
    events, done = run("--no-benchmark", LD_LIBRARY_PATH=str(stub), PYTHONPATH=packages)
    assert (events[-1]["event"], done.returncode, done.stderr) == ("begin", 1, "OpenBLAS error: giving up\n")


def test_a_half_that_cannot_begin_says_so(stub: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        'import threading\ndef start(self):\n    raise RuntimeError("can\'t start new thread")\nthreading.Thread.start = start\n'
    )
    events, done = run("--no-benchmark", LD_LIBRARY_PATH=str(stub), PYTHONPATH=str(tmp_path))
    assert (events, done.returncode) == ([], 1)
    assert "can't start new thread" in done.stderr


# A numba that leaves with 40 and the number of its parent's children that ended and were not waited for.
DEFUNCT = """
import os, time
def stat(process):
    try:
        return open("/proc/" + process + "/stat").read()
    except OSError:
        return ""  # ended since it was listed
time.sleep(2)
os._exit(40 + sum(") Z %d " % os.getppid() in stat(name) for name in os.listdir("/proc") if name.isdigit()))
"""


def test_the_half_that_ended_is_not_left_defunct(stub: Path, tmp_path: Path) -> None:
    """Others that look through the processes meanwhile would take it for a dead holder of the GPU's memory."""
    packages = numba_of(tmp_path, DEFUNCT)
    events, done = run("--no-benchmark", LD_LIBRARY_PATH=str(stub), PYTHONPATH=packages, FAKE_CUDA_FREE="8192")
    assert (events[-1]["event"], done.returncode) == ("begin", 40)


def test_no_context_of_ours_is_left_where_one_process_may_have_one(smoke: Climb) -> None:
    assert steps(smoke("alone", FAKE_CUDA_MODE="3", FAKE_CUDA_FREE="8192")) == [(0, step, "pass") for step in STEPS]
