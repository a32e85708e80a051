"""Where variables are set: the lines of profiles that name a variable of this process, and what the fix says of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from cudadoctor.sources import setting_files


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(setting_files, "_SYSTEM", (str(tmp_path / "environment"),))
    for name in ("CONDA_PREFIX", "VIRTUAL_ENV"):
        monkeypatch.delenv(name, raising=False)
    for name in ("CUDA_HOME", "CUDA_VISIBLE_DEVICES", "SITE_SECRET"):
        monkeypatch.setenv(name, "of this process")
    return tmp_path


def listed(home: Path) -> list[str]:
    return [line.removeprefix(f"{home}/") for line in setting_files.list_settings("").splitlines() if line.startswith(str(home))]


@pytest.mark.parametrize(
    "line",
    [
        "export CUDA_HOME=/x", "CUDA_HOME=/x", "  declare -x CUDA_HOME=/x", "setenv CUDA_HOME /x", "set -gx CUDA_HOME /x",
        'Environment="CUDA_HOME=/x"',
    ],
)  # fmt: skip
def test_each_way_to_set_one_is_found(line: str, home: Path) -> None:
    (home / ".bashrc").write_text(f"# first\n{line}\n")
    assert listed(home) == [".bashrc:2: CUDA_HOME"]


@pytest.mark.parametrize(
    "line", ["# CUDA_HOME=/x", "echo CUDA_HOME=/x", "unset CUDA_HOME", "export OTHER=$CUDA_HOME", "if [ -z $CUDA_HOME ]"]
)
def test_a_line_that_sets_nothing_is_left_out(line: str, home: Path) -> None:
    (home / ".bashrc").write_text(f"{line}\n")
    assert listed(home) == []


@pytest.mark.parametrize(
    ("before", "line", "behind"),
    [
        ("", 'export CUDA_HOME="/x', 'touch /made\n"'),
        ("", "export CUDA_HOME='/x", "touch /made\n'"),
        ("echo '", "CUDA_HOME=/x", "'"),
        ("cat > x <<EOF", "CUDA_HOME=/x", "EOF"),
        ("cat > x <<-'END'", "export CUDA_HOME=/x", "\tEND"),
        ("export A=1 \\", "CUDA_HOME=/x", "true"),
        ("all=(", "CUDA_HOME=/x", ")"),
        ("", "export CUDA_HOME=(/x", "/y)"),
        ("echo `", "CUDA_HOME=/x", "`"),
    ],
)
def test_a_part_of_more_is_no_line_to_take_out(before: str, line: str, behind: str, home: Path) -> None:
    (home / ".bashrc").write_text(f"{before}\n{line}\n{behind}\nexport CUDA_VISIBLE_DEVICES=0\n")
    number = 4 + behind.count("\n")
    assert listed(home) == [".bashrc:2: CUDA_HOME ...", f".bashrc:{number}: CUDA_VISIBLE_DEVICES"]


@pytest.mark.parametrize(
    "before",
    [
        "# don't (",
        "alias x='ls -l'  # it's a list",
        'echo "it\'s (fine" \\"',
        "f() { echo \\' \\( ; }",
        "cat <<< 'x'",
        "cat <<EOF\nit's (\nEOF",
        "case $x in a) echo;; esac",
        "x=$((1 << 2)); y=$(date)",
        "A='x\\'",
    ],
)
def test_what_is_closed_leaves_a_line_alone(before: str, home: Path) -> None:
    (home / ".bashrc").write_text(f"{before}\nexport CUDA_HOME='/x y'  # mine\n")
    assert listed(home) == [f".bashrc:{2 + before.count(chr(10))}: CUDA_HOME"]


def test_places_and_names_are_told_and_no_value(home: Path) -> None:
    (home / ".profile").write_text("export SITE_SECRET=hunter2\nexport NOT_SET_HERE=1\n")
    assert listed(home) == [".profile:1: SITE_SECRET"]
    assert "hunter2" not in setting_files.list_settings("")


def test_the_order_is_that_in_which_a_shell_reads_them(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conda = home / "conda"
    (conda / "etc/conda/activate.d").mkdir(parents=True)
    monkeypatch.setenv("CONDA_PREFIX", str(conda))
    (home / "environment").write_text("CUDA_HOME=/a\n")
    (home / ".bashrc").write_text("export CUDA_HOME=/b\n")
    (conda / "etc/conda/activate.d/cuda.sh").write_text("export CUDA_HOME=/c\n")
    assert listed(home) == ["environment:1: CUDA_HOME", ".bashrc:1: CUDA_HOME", "conda/etc/conda/activate.d/cuda.sh:1: CUDA_HOME"]


def test_what_is_no_file_is_passed_over(home: Path) -> None:
    (home / ".bashrc").mkdir()
    (home / ".profile").write_bytes(b"\xff\xfe\nexport CUDA_HOME=/x\n")
    assert listed(home) == [".profile:2: CUDA_HOME"]
