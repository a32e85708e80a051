"""Which Python is examined, and that root never runs one that somebody else could have changed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from cudadoctor.sources.host import own_packages
from cudadoctor.sources.interpreters import examined_python

AS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


def environment(folder: Path) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(sys.executable)
    (folder / "pyvenv.cfg").write_text("home = /usr/bin\n")
    return folder


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


def test_a_shim_is_looked_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shims, real = tmp_path / "shims", tmp_path / "versions" / "3.12.1" / "bin"
    shims.mkdir()
    real.mkdir(parents=True)
    for folder in (shims, real):
        (folder / "python3").write_text("#!/bin/sh\n")
        (folder / "python3").chmod(0o755)
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX", "PYENV_VERSION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(shims))
    monkeypatch.chdir(tmp_path)
    assert examined_python(None)[0] == str(shims / "python3")
    (tmp_path / "version").write_text("3.12.1\n")
    assert examined_python(None)[0] == str(real / "python3")


def test_own_workers_find_packages_wherever_the_doctor_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Packages of `pip install --target` count; a file in the working directory does not."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", str(tmp_path), "/somewhere/target", *sys.path])
    folders = own_packages().split(os.pathsep)
    assert "/somewhere/target" in folders
    assert str(tmp_path) not in folders
    assert "" not in folders
