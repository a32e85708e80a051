"""What the workers do on Windows, as far as it can be tried elsewhere: the toolkit's files, the process table, the driver's DLL."""

from __future__ import annotations

import ctypes
import json
import os
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.worker_runs import load, raising

search, own = load("toolkit_search"), load("toolkit_search_windows")
TOOLKIT = ("bin/nvcc.exe", "bin/nvrtc64_120_0.dll", "bin/nvrtc64_120_0.alt.dll", "bin/cudart64_12.dll", "bin/nvJitLink_120_0.dll", "nvvm/bin/nvvm64_40_0.dll", "nvvm/libdevice/libdevice.10.bc")  # fmt: skip


class Machine:
    """A Program Files with toolkits, an environment with wheels, and variables."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.files, self.prefix, self.monkeypatch = folder / "Program Files", folder / "env", monkeypatch
        self.site = self.prefix / "Lib" / "site-packages"
        self.site.mkdir(parents=True)
        self.files.mkdir()
        for name in [name for name in os.environ if name.startswith("CUDA_")]:
            monkeypatch.delenv(name)
        monkeypatch.delenv("CONDA_PREFIX", raising=False)
        monkeypatch.setenv("PATH", str(folder / "nothing"))

    def put(self, base: Path, *names: str) -> Path:
        for name in names:
            path = base / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")
        return base

    def toolkit(self, version: str, names: tuple[str, ...] = TOOLKIT) -> Path:
        return self.put(self.files / "NVIDIA GPU Computing Toolkit" / "CUDA" / f"v{version}", *names)

    def places(self, flavour: str = "pathfinder", **wheels: str) -> Any:
        named = {name.replace("_", "-"): version for name, version in wheels.items()}
        return search.Places(str(self.prefix), [str(self.site)], named, flavour, str(self.files), own)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def test_the_names_are_those_of_pathfinder() -> None:
    catalogue = pytest.importorskip("cuda.pathfinder._dynamic_libs.descriptor_catalog")
    names = {"nvvm": "nvvm", "nvrtc": "nvrtc", "nvJitLink": "nvjitlink", "cudart": "cudart"}
    for entry in catalogue.DESCRIPTOR_CATALOG:
        if entry.name in names:
            part = names[entry.name]
            assert own.FILES[part] == tuple(entry.windows_dlls)
            folders = getattr(entry.site_packages_windows, "x64", entry.site_packages_windows)
            assert own.WHEEL_FOLDERS[part] == tuple(folders)


def test_wheels_come_first(machine: Machine) -> None:
    machine.toolkit("12.3")
    machine.monkeypatch.setenv("CUDA_PATH", str(machine.files / "NVIDIA GPU Computing Toolkit" / "CUDA" / "v12.3"))
    machine.put(machine.site, "nvidia/cuda_nvcc/nvvm/bin/nvvm64_40_0.dll", "nvidia/cuda_nvrtc/bin/nvrtc64_120_0.dll")
    places = machine.places(nvidia_cuda_nvcc_cu12="12.9.86", nvidia_cuda_nvrtc_cu12="12.9.86")
    found = search.find(places, "nvvm")
    assert (found["rule"], found["version"]) == ("wheel nvidia-cuda-nvcc-cu12", "12.9.86")
    assert [os.path.basename(path) for path in found["hides"]] == ["nvvm64_40_0.dll"]
    part = search.find(places, "cudart")
    assert (part["rule"], part["version"]) == ("CUDA_PATH", "12.3")


def test_cuda_13_has_folders_of_its_own(machine: Machine) -> None:
    home = machine.toolkit("13.0", ("bin/nvcc.exe", "bin/x64/cudart64_13.dll", "bin/x64/nvrtc64_130_0.dll", "nvvm/bin/x64/nvvm64_40_0.dll"))
    machine.monkeypatch.setenv("CUDA_PATH", str(home))
    for name in ("nvvm", "nvrtc", "cudart"):
        assert search.find(machine.places(), name)["version"] == "13.0"
    machine.put(machine.site, "nvidia/cu13/bin/x86_64/nvrtc64_130_0.dll")
    assert search.find(machine.places(nvidia_cuda_nvrtc="13.0.88"), "nvrtc")["rule"] == "wheel nvidia-cuda-nvrtc"


def test_a_variable_ends_the_search_of_numbas_own_target(machine: Machine) -> None:
    machine.monkeypatch.setenv("CUDA_HOME", str(machine.prefix / "gone"))
    machine.monkeypatch.setenv("PATH", str(machine.toolkit("11.8", ("bin/cudart64_110.dll", "bin/nvrtc64_112_0.dll")) / "bin"))
    assert search.find(machine.places("built-in"), "nvvm") == {
        "name": "nvvm",
        "path": None,
        "version": None,
        "rule": "CUDA_HOME",
        "hides": [],
        "damage": None,
    }
    assert search.find(machine.places("built-in"), "cudart")["rule"] == "PATH"


def test_conda_keeps_it_below_library(machine: Machine) -> None:
    machine.put(
        machine.prefix, "conda-meta/cudatoolkit-11.3.1-h280eb24_10.json", "Library/bin/nvvm64_40_0.dll", "Library/bin/cudart64_110.dll"
    )
    for name in ("nvvm", "cudart"):
        found = search.find(machine.places("built-in"), name)
        assert (found["rule"], found["version"]) == ("conda", "11.3.1")
    assert search.find(machine.places("built-in"), "nvrtc")["path"] is None


def test_every_toolkit_folder_is_told_by_each_rule_that_names_it(machine: Machine) -> None:
    old, new = machine.toolkit("11.8", ("bin/cudart64_110.dll",)), machine.toolkit("12.3")
    (new / "version.json").write_text(json.dumps({"cuda": {"version": "12.3.2"}}))
    machine.monkeypatch.setenv("CUDA_PATH", f"{new}{os.sep}")
    machine.monkeypatch.setenv("CUDA_PATH_V11_8", str(old))
    machine.monkeypatch.setenv("PATH", str(new / "bin"))
    told = [(entry["rule"], entry["version"], entry["has_nvcc"], entry["stale"]) for entry in search.toolkits(machine.places())]
    assert told == [
        ("CUDA_PATH", "12.3.2", True, False), ("CUDA_PATH_V11_8", "11.8", False, False), ("PATH", "12.3.2", True, False),
        ("Program Files", "12.3.2", True, False), ("Program Files", "11.8", False, False),
    ]  # fmt: skip
    machine.monkeypatch.setenv("CUDA_PATH", str(machine.files / "gone"))
    assert next(iter(search.toolkits(machine.places())))["stale"]


def test_the_process_table_of_windows(capfd: pytest.CaptureFixture[str]) -> None:
    worker = load("processes")
    worker.on_windows(os.getpid())
    head, *entries = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert (head["event"], head["complete"]) == ("processes", False)
    assert head["provider"].startswith("psutil ")
    assert entries
    assert {entry["state"] for entry in entries} == {"running"}
    assert os.getpid() not in {entry["pid"] for entry in entries}
    assert all("devices" not in entry for entry in entries)


def test_a_process_whose_user_has_no_name_hides_none(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows: "No mapping between account names and security IDs was done"."""
    monkeypatch.setattr(psutil.Process, "username", raising(OSError))
    load("processes").on_windows(os.getpid())
    head, *entries = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert head["event"] == "processes"
    assert entries
    assert all("user" not in entry for entry in entries)


def test_without_psutil_nobody_lists_them(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psutil", None)
    load("processes").on_windows(0)
    (line,) = capfd.readouterr().out.splitlines()
    assert json.loads(line)["event"] == "error"


def test_the_drivers_dll_is_asked_for_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    ladder = load("ladder")
    asked: list[str] = []

    def loader(name: str) -> Any:
        asked.append(name)
        raise FileNotFoundError(
            f"Could not find module '{name}' (or one of its dependencies). Try using the full path with constructor syntax."
        )

    monkeypatch.setattr(ctypes, "WinDLL", loader, raising=False)
    driver = ladder.sibling("driver")
    monkeypatch.setattr(driver, "ON_WINDOWS", True)
    monkeypatch.setattr(driver, "LIBRARY", "nvcuda.dll")
    with pytest.raises(ladder.RungError) as refused:
        ladder.load_library({})
    assert asked == ["nvcuda.dll"]
    assert "nvcuda.dll" in refused.value.output


def test_a_dll_that_windows_does_not_place_has_no_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "WinDLL", ctypes.CDLL, raising=False)  # there is no kernel32 here
    if sys.platform != "win32":
        assert load("loaded_files").loaded_dll(ctypes.CDLL(None)) is None


def test_nvml_is_looked_for_in_its_old_folder_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = load("nvml")
    folder = tmp_path / "NVIDIA Corporation" / "NVSMI"
    folder.mkdir(parents=True)
    monkeypatch.setenv("PROGRAMW6432", str(tmp_path))
    monkeypatch.setattr(worker, "LIBRARY", "nvml.dll")
    with pytest.raises(OSError, match="nvml"):
        worker.load()
    (folder / "nvml.dll").write_text("no library")
    asked: list[str] = []

    def loader(name: str) -> str:
        asked.append(name)
        if name == "nvml.dll":
            raise OSError(name)
        return "loaded"

    monkeypatch.setattr(worker.ctypes, "CDLL", loader)
    assert worker.load() == "loaded"
    assert asked == ["nvml.dll", str(folder / "nvml.dll")]


def test_what_a_kernel_prints_may_not_be_seen_on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = load("numba_steps")
    smoke = steps.Smoke.__new__(steps.Smoke)
    smoke.printed = lambda: ""
    smoke.print_thread = {(4, 4): lambda: None}
    monkeypatch.setattr(steps, "cuda", type("Cuda", (), {"synchronize": staticmethod(lambda: None)}))
    with pytest.raises(steps.WrongError):
        smoke.device_print()
    monkeypatch.setattr(steps.sys, "platform", "win32")
    with pytest.raises(steps.UnseenError):
        smoke.device_print()
    smoke.printed = lambda: "thread 3\n"
    with pytest.raises(steps.WrongError):
        smoke.device_print()
