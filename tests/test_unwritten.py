"""What cannot be written takes nothing else along: what was found is shown, what was there before stays, and the exit code is 2."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cudadoctor.sources import recording, writing
from tests.command_line import DOCTOR, HEALTHY, NOUVEAU, environment, evidence_of, finished, host, run, start

FULL = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")


def small_files(most: int) -> Any:
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


@FULL
def test_a_full_stdout_leaves_the_files(tmp_path: Path) -> None:
    with open("/dev/full", "wb") as full:
        result = finished("check", "--replay", host(NOUVEAU), "--output", f"json={tmp_path / 'r.json'}", stdout=full)
    assert result.code == 2
    assert json.loads((tmp_path / "r.json").read_text())["verdict"] == "broken"


def test_a_stdout_that_takes_a_part_is_told_where_python_does_not_buffer(tmp_path: Path) -> None:
    with open(tmp_path / "part", "wb") as part:
        result = finished(
            "check", "--replay", host(NOUVEAU), "--format", "json", stdout=part, variables={"PYTHONUNBUFFERED": "1"},
            preexec_fn=small_files(4096),
        )  # fmt: skip
    assert (result.code, "File too large" in result.err) == (2, True)


def test_a_pipe_that_does_not_block_gets_all_of_it() -> None:
    """As another program left it; the reader is slow, and the pipe holds one page."""
    mine, theirs = os.pipe()
    os.set_blocking(theirs, False)
    fcntl.fcntl(theirs, fcntl.F_SETPIPE_SZ, 4096)  # type: ignore[attr-defined]
    process = start("causes", stdout=theirs)
    os.close(theirs)
    time.sleep(0.5)
    with os.fdopen(mine, "rb") as stream:
        text = stream.read()
    assert (process.wait(60), len(text) > 8192, text[-1:]) == (0, True, b"\n")


def test_a_named_pipe_without_a_reader_holds_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(tmp_path / "pipe", os.O_WRONLY | os.O_NONBLOCK)
    os.close(reader)
    process = start("--version", stdout=writer)
    os.close(writer)
    assert process.wait(30) == 0


@pytest.mark.parametrize("words", [("--output", "json=rel"), ("--output", "json={0}/r.json")])
def test_in_a_deleted_folder_the_files_are_written_or_refused(words: tuple[str, str], tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    result = run_in(gone, "check", "--replay", host(NOUVEAU), "--quiet", words[0], words[1].format(tmp_path))
    assert result.returncode == (1 if "{0}" in words[1] else 2)
    assert "itself failed" not in result.stderr
    assert (tmp_path / "r.json").exists() == ("{0}" in words[1])


def run_in(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command in a folder that is removed before it starts."""
    code = (
        f"import os, sys; os.chdir({str(folder)!r}); os.rmdir({str(folder)!r}); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    )
    return subprocess.run([sys.executable, "-c", code, DOCTOR, *arguments], capture_output=True, text=True, check=False, env=environment())


@FULL
@pytest.mark.parametrize("command", [("check", "--replay", host(NOUVEAU)), ("fleet", host(NOUVEAU))])
def test_one_file_that_fails_leaves_the_others(command: tuple[str, ...], tmp_path: Path) -> None:
    result = run(*command, "--output", "json=/dev/full", "--output", f"html={tmp_path / 'r.html'}")
    assert result.code == 2
    assert "/dev/full" in result.err
    assert "</html>" in (tmp_path / "r.html").read_text()
    assert result.out.startswith("BROKEN")


def test_a_recording_that_fails_leaves_the_report(tmp_path: Path) -> None:
    place = tmp_path / "kept"
    result = finished("check", "--replay", host(NOUVEAU), "--record", str(place), preexec_fn=small_files(2000))
    assert result.code == 2
    assert result.out.startswith("BROKEN")
    assert "the recording could not be written" in result.err
    assert not place.exists()


@FULL
def test_figures_that_cannot_be_kept_are_shown() -> None:
    result = run("bench", "--replay", host("h200-bench"), "--save", "/dev/full")
    assert result.code == 2
    assert "GB/s" in result.out
    assert "--save /dev/full: No space left on device" in result.err


def test_a_run_that_measured_nothing_says_why(tmp_path: Path) -> None:
    result = run("bench", "--replay", host(NOUVEAU), "--save", str(tmp_path / "f.json"))
    assert result.code == 2
    assert "nouveau" in result.out
    assert "nothing was measured" in result.err


@pytest.mark.parametrize("place", [".", "no-such-folder/f.json"])
def test_a_place_for_figures_is_looked_at_before_anything_runs(place: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("cudadoctor.commands.gathering.gather", lambda *_: pytest.fail("it ran"))
    assert run("bench", "--replay", host(HEALTHY), "--save", place).code == 2


@pytest.mark.parametrize("name", ["kept.tar.gz", "kept", "a/b/kept", "."])
def test_a_place_for_a_recording_is_looked_at_before_anything_is_asked(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("cudadoctor.commands.gathering.live", lambda *_: pytest.fail("it ran"))
    monkeypatch.setattr("os.access", lambda path, _: not str(path).startswith(str(tmp_path)))  # root may write anywhere
    result = run("record", "--quick", "-o", str(tmp_path / name))
    assert result.code == 2
    assert "nothing can be written to" in result.err


# ---------------------------------------------------------------- what was there before
def limited(most: int, path: Path, mode: str) -> None:
    """Write 5,000 letters where files may have `most` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        writing.text(str(path), "x" * 5000, mode=mode)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("mode", ["w", "a"])
@pytest.mark.parametrize("before", ["", "kept", "kept" * 700])
def test_what_cannot_be_replaced_stays(mode: str, before: str, tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    path.write_text(before)
    with pytest.raises(OSError, match="too large"):
        limited(3000, path, mode)
    assert path.read_text() == before
    limited(50_000, path, mode)
    assert path.read_text() == (before if mode == "a" else "") + "x" * 5000


def test_what_no_file_can_hold_is_written_as_an_escape(tmp_path: Path) -> None:
    writing.text(str(tmp_path / "f"), "a\udcff")
    assert (tmp_path / "f").read_text() == "a\\udcff"


@pytest.mark.parametrize("name", ["kept", "kept.tar.gz"])
def test_a_recording_that_cannot_be_replaced_stays(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    place = str(tmp_path / name)
    recording.write(evidence_of(HEALTHY), place)
    before = recording.read(place)
    broken = evidence_of(NOUVEAU)
    monkeypatch.setattr(recording, "files_of", lambda _: {"evidence/a.out.txt": b"x", "recording.json": "no bytes"})
    with pytest.raises(TypeError):
        recording.write(broken, place, force=True)
    assert recording.read(place) == before
    assert {path.name for path in tmp_path.rglob("*") if "partial" in path.name} == set()
    monkeypatch.undo()
    recording.write(broken, place, force=True)
    assert msgspec.structs.replace(recording.read(place), origin="recording").python == broken.python
    assert os.listdir(tmp_path) == [name]


# ---------------------------------------------------------------- many nodes
@pytest.mark.parametrize("name", ["n" * 300, "a\0b", "../../etc/passwd", "\udcff"])
def test_a_node_of_any_name_has_its_report_kept(name: str, tmp_path: Path) -> None:
    from cudadoctor.commands import asking_nodes

    asking_nodes._keep(str(tmp_path / "kept"), name, b"{}")
    assert [path.read_text() for path in (tmp_path / "kept").iterdir()] == ["{}"]
