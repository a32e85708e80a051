"""Which Python is examined, and that root never runs one that somebody else could have changed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from cudadoctor.sources import inherited, interpreters
from cudadoctor.sources.host import Collector, Plan
from cudadoctor.sources.interpreters import examined_python, own_packages

AS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


def interpreter(folder: Path) -> Path:
    """One that is looked at and never run. With a real one go tens of thousands of files, through which root looks."""
    python = folder / "base" / "bin" / "python3"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\n")
    python.chmod(0o755)
    return python


def environment(folder: Path) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(interpreter(folder.parent))
    (folder / "pyvenv.cfg").write_text("home = /usr/bin\n")
    return folder


def test_no_place_of_our_own_packages_is_split_in_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path / f"a{os.pathsep}b"), str(tmp_path)])
    assert interpreters.own_packages() == str(tmp_path)


def test_the_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = environment(tmp_path / "env")
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.setenv("CONDA_PREFIX", str(env))
    assert examined_python(None) == (str(env / "bin" / "python"), "CONDA_PREFIX")
    monkeypatch.setenv("VIRTUAL_ENV", str(env))
    assert examined_python(None)[1] == "VIRTUAL_ENV"
    assert examined_python("/some/python") == ("/some/python", "--python")
    monkeypatch.delenv("VIRTUAL_ENV")
    monkeypatch.delenv("CONDA_PREFIX")
    monkeypatch.setenv("PATH", "/nonexistent")
    assert examined_python(None) == (sys.executable, "the doctor's own Python")


@pytest.mark.skipif(not AS_ROOT, reason="only root can be tricked")
@pytest.mark.parametrize("place", ["bin/python", "bin", ".", "pyvenv.cfg"])
def test_root_refuses_what_another_user_owns(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = environment(tmp_path / "env")
    os.chown(env / place, 1000, 1000, follow_symlinks=False)
    monkeypatch.setenv("VIRTUAL_ENV", str(env))
    path, why = examined_python(None)
    assert path is None
    assert "another user" in why


@pytest.mark.skipif(not AS_ROOT, reason="only root can be tricked")
def test_root_refuses_a_folder_that_everybody_may_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = environment(tmp_path / "env")
    (env / "bin").chmod(0o777)
    monkeypatch.setenv("VIRTUAL_ENV", str(env))
    assert examined_python(None)[0] is None


@pytest.fixture
def shims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder like pyenv's root whose shim stands first on PATH, and a project as the working directory."""
    root, project = tmp_path / "root", tmp_path / "parent" / "project"
    for folder in (root / "shims", root / "versions" / "3.12.1" / "bin", root / "installs" / "python" / "3.11.2" / "bin"):
        folder.mkdir(parents=True)
        (folder / "python3").write_text("#!/bin/sh\n")
        (folder / "python3").chmod(0o755)
    project.mkdir(parents=True)
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX", "PYENV_VERSION", "ASDF_PYTHON_VERSION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(root / "shims"))
    monkeypatch.chdir(project)
    return root


def test_a_shim_is_looked_through(shims: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert examined_python(None) == (sys.executable, "the doctor's own Python"), "a shim that names nothing is not started"
    system = shims.parent / "usr"
    system.mkdir()
    (system / "python3").symlink_to(interpreter(shims.parent))
    monkeypatch.setenv("PATH", f"{shims / 'shims'}:{system}")
    assert examined_python(None) == (str(system / "python3"), f"the first Python on PATH after the shim {shims / 'shims' / 'python3'}")
    collector = Collector(Plan())
    collector.examined()
    assert any("name yours with --python" in remark for remark in collector.remarks)
    (shims / "version").write_text("3.12.1\n")
    assert examined_python(None)[0] == str(shims / "versions" / "3.12.1" / "bin" / "python3")
    Path("../.tool-versions").write_text("nodejs 20\npython 3.11.2 system # ours\n")
    (shims / "version").unlink()
    assert examined_python(None)[0] == str(shims / "installs" / "python" / "3.11.2" / "bin" / "python3")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps a folder that is in use")
def test_a_shim_is_looked_through_where_the_working_directory_was_deleted(shims: Path) -> None:
    (shims / "version").write_text("3.12.1\n")
    Path.cwd().rmdir()
    assert examined_python(None)[0] == str(shims / "versions" / "3.12.1" / "bin" / "python3")


@pytest.mark.parametrize(
    "name", ["../../parent/project/evil", "{project}/evil", "./evil", "..", "3.12.1/../../../parent/project/evil", "path:{project}/evil"]
)
@pytest.mark.parametrize("file", [".python-version", "../.python-version", ".tool-versions"])
def test_a_project_names_no_program_of_its_own(name: str, file: str, shims: Path) -> None:
    evil = Path("evil/bin")
    evil.mkdir(parents=True)
    (evil / "python3").write_text("#!/bin/sh\n")
    (evil / "python3").chmod(0o755)
    (shims / "version").write_text("3.12.1\n")
    text = name.format(project=os.getcwd())
    Path(file).write_text(f"python {text}\n" if file == ".tool-versions" else f"{text}\n")
    assert examined_python(None)[0] == str(shims / "versions" / "3.12.1" / "bin" / "python3")


def test_a_pipe_in_place_of_a_version_holds_nobody_up(shims: Path) -> None:
    os.mkfifo(".python-version")
    assert examined_python(None)[0] == sys.executable


def test_own_workers_find_packages_wherever_the_doctor_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Packages of `pip install --target` count; a file in the working directory does not."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", str(tmp_path), "/somewhere/target", *sys.path])
    folders = own_packages().split(os.pathsep)
    assert "/somewhere/target" in folders
    assert str(tmp_path) not in folders
    assert "" not in folders


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can be tricked")
@pytest.mark.parametrize(
    "what",
    [
        "a file of another user's",
        "a folder that a .pth file adds",
        "a package of another user's",
        "a .pth that imports",
        "home of another",
        "the usual toolkit",
    ],
)
def test_root_refuses_packages_that_another_user_may_write(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packages = tmp_path / "env" / "lib" / "python3.12" / "site-packages"
    packages.mkdir(parents=True)
    (tmp_path / "env" / "bin").mkdir()
    python = tmp_path / "env" / "bin" / "python"
    python.symlink_to(interpreter(tmp_path))
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "env"))
    assert examined_python(None)[0] == str(python)
    if what.startswith("a folder"):
        (tmp_path / "project").mkdir()
        (packages / "project.pth").write_text(f"import os\n{tmp_path / 'project'}\n")
        assert examined_python(None)[0] == str(python)
        os.chown(tmp_path / "project", 1000, 1000)
    elif what.startswith("a .pth"):
        (tmp_path / "project").mkdir()
        os.chown(tmp_path / "project", 1000, 1000)
        (packages / "x.pth").write_text(f"{'#' * 70_000}\nimport sys; sys.path.insert(0, '{tmp_path / 'project'}')\n")
    elif what.startswith("home"):
        (tmp_path / "py" / "lib").mkdir(parents=True)
        os.chown(tmp_path / "py" / "lib", 1000, 1000)
        (tmp_path / "env" / "pyvenv.cfg").write_text(f"home = {tmp_path / 'py' / 'bin'}\n")
    elif what.startswith("the usual"):
        (tmp_path / "cuda-12.4" / "nvvm" / "lib64").mkdir(parents=True)
        (tmp_path / "cuda").symlink_to(tmp_path / "cuda-12.4")
        monkeypatch.setattr(interpreters, "_TOOLKIT", str(tmp_path / "cuda"))
        assert examined_python(None)[0] == str(python)
        inherited._seen_once.cache_clear()
        os.chown(tmp_path / "cuda-12.4" / "nvvm" / "lib64", 1000, 1000)
    elif what.startswith("a file"):
        (packages / "hook.pth").write_text("import os\n")
        os.chown(packages / "hook.pth", 1000, 1000)
    else:
        (packages / "numba").mkdir()
        os.chown(packages / "numba", 1000, 1000)
    found, why = examined_python(None)
    assert found is None
    assert "which may be written by another user" in why


@pytest.mark.skipif(not AS_ROOT, reason="only root looks through an environment")
@pytest.mark.parametrize("behind", ["\0x", ""])
def test_a_nul_ends_no_examination_and_hides_no_folder(behind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = environment(tmp_path / "env")
    monkeypatch.setenv("VIRTUAL_ENV", str(env))
    packages = env / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "b.pth").write_bytes(b"a\0b\n")
    assert examined_python(None) == (str(env / "bin" / "python"), "VIRTUAL_ENV")
    (tmp_path / "py" / "lib").mkdir(parents=True)
    os.chown(tmp_path / "py" / "lib", 1000, 1000)
    (env / "pyvenv.cfg").write_text(f"home = {tmp_path / 'py' / 'bin'}{behind}\n")
    found, why = examined_python(None)
    assert found is None
    assert "which may be written by another user" in why
