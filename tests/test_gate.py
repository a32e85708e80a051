"""What reaches a stream steers neither a terminal nor the log of a job."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from cudadoctor.report.clean import gated
from cudadoctor.sources import recording
from tests.command_line import NOUVEAU, evidence_of, host, run

PROGRAM = str(Path(sys.executable).with_name("cudadoctor"))

WORDS = (
    "::error::pwn",
    "  ::error::pwn",
    f"{' ' * 450}::error::pwn",
    "\x1b[1m::error::pwn",
    "##[error]pwn",
    "x ##vso[task.complete]",
    "##teamcity[x]",
    "+++ pwn",
    "--- pwn",
)


@pytest.mark.parametrize("words", WORDS)
def test_no_line_is_a_command_of_a_job(words: str) -> None:
    out = gated(f"a\n{words}\nb\n")
    assert not any(line.replace("\x1b[1m", "").lstrip().startswith("::") for line in out.split("\n"))
    assert not any(line.startswith(("+++ ", "--- ")) for line in out.split("\n"))
    assert "##[" not in out
    assert "##vso[" not in out
    assert "##teamcity[" not in out
    body = gated(json.dumps({"a": words}), json=True)
    assert json.loads(body) == {"a": words}
    assert "##" not in body


def test_only_colours_of_ours_pass() -> None:
    assert gated("\x1b[1mx\x1b]0;y\x07\x9b2J\r\x1b[2J") == "\x1b[1mx\\x1b]0;y\\x07\\x9b2J\\x0d\\x1b[2J"
    assert "\x1b" not in gated("\x1b[8mhidden", colours=False)


@pytest.mark.parametrize(
    "command",
    [
        ["run", "--", "no\x1b]0;x\x07\x1b[8mape"],
        ["explain", "/no/\x1b[8mfile"],
        ["check", "--replay", "/tmp/x\n::error::pwn"],
        ["check", "--\x1b[8mx"],
        ["nothing\x1b]0;x\x07"],
        ["check", "--require", "\x1b[8m>=1"],
    ],
)
def test_a_command_line_steers_nothing(command: list[str]) -> None:
    result = run(*command, variables={"CI": "true"})
    assert result.code in (2, 127)
    assert "\x1b" not in result.err
    assert "\x07" not in result.err
    assert not any(line.lstrip().startswith("::") for line in result.err.split("\n"))


def test_a_folder_steers_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "x\x1b]0;owned\x07"
    folder.mkdir()
    (folder / "cudadoctor.toml").write_text("require = ['nonsense']\n")
    monkeypatch.chdir(folder)
    result = run("check", "--replay", host(NOUVEAU))
    assert "\x1b" not in result.err + result.out
    assert "\\x1b" in result.err


@pytest.mark.parametrize("form", ["text", "json", "junit", "markdown", "html"])
def test_quoted_words_are_no_command_in_any_format(form: str, tmp_path: Path) -> None:
    """The line that proves the cause is quoted in each of these (github and gitlab quote the root alone), and holds such words."""
    log = b"NVRM: API mismatch: the client has the version 550.54.14, but this kernel module has the version 535.161.08. ##[error]pwn ##vso[x]\n"
    given = ("check", "--replay", host(NOUVEAU), "--log", "-", "--format", form, "-v", "--output", f"text={tmp_path / 'report'}")
    result = run(*given, stdin=log)
    for said in (result.out, (tmp_path / "report").read_text()):
        assert "pwn" in said
        assert "##[" not in said
        assert "##vso[" not in said


def test_no_traceback_reaches_anybody(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("odd \x1b[8mwords")

    monkeypatch.setattr("cudadoctor.commands.gathering.gather", fail)
    result = run("check")
    assert result.code == 4
    assert "Traceback" not in result.err
    assert "cudadoctor itself failed" in result.err
    assert "RuntimeError: odd" in result.err
    assert "\x1b" not in result.err
    assert "commands/check.py:" in result.err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes of POSIX")
def test_a_recording_comes_through_a_pipe_too(tmp_path: Path) -> None:
    """As <(ssh node cat r.tar.gz): it can be read once."""
    recording.write(evidence_of("h200-healthy"), str(tmp_path / "r.tar.gz"))
    end, start = os.pipe()

    def write() -> None:
        with open(start, "wb") as stream:
            stream.write((tmp_path / "r.tar.gz").read_bytes())

    writer = threading.Thread(target=write)
    writer.start()
    assert run("check", "--replay", f"/dev/fd/{end}").code == 0
    writer.join()
    os.close(end)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes of POSIX")
def test_nothing_that_gives_nothing_holds_it_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    pipe = str(tmp_path / "pipe")
    for command in (
        ["explain", pipe],
        ["check", "--log", pipe],
        ["check", "--policy", pipe],
        ["bench", "--against", pipe],
        ["compare", pipe, pipe],
        ["check", "--replay", pipe],
    ):
        assert run(*command).code == 2
    (tmp_path / "r").mkdir()
    os.mkfifo(tmp_path / "r" / "recording.json")
    assert run("record", "--quick", "-o", str(tmp_path / "r")).code == 2
    for device in ("/dev/random", "/dev/zero", "/dev/full"):
        assert run("explain", device).code == 2
    assert run("bench", "--against", str(tmp_path)).code == 2


@pytest.mark.parametrize(
    "body", ["[" * 200_000, '{"gpus": [], "benchmark": [{"value": 1' + "0" * 4000 + ', "gpu": 0, "name": "x"}]}', "{", "null", ""]
)
def test_figures_of_a_stranger(body: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_text(body)
    assert run("bench", "--against", str(tmp_path / "f")).code == 2


@pytest.mark.parametrize(
    "body", ["a=" + "[" * 100_000, ".".join("a" * 300_000) + "=1", "[" + ".".join("a" * 300_000) + "]", "a=" + "{a=" * 50_000]
)
def test_a_policy_of_a_stranger(body: str, tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(body)
    assert run("check", "--policy", str(tmp_path / "p.toml"), "--replay", host(NOUVEAU)).code == 2


@pytest.mark.parametrize("option", [["--watch", "nan"], ["--timeout", "nan"], ["--timeout", "inf"], ["--watch=inf"]])
def test_a_time_that_never_ends(option: list[str]) -> None:
    assert run("check", *option).code == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="limits of POSIX")
def test_a_limit_of_the_shell_is_named() -> None:
    run = subprocess.run(
        ["bash", "-c", f"ulimit -n 12; exec {shlex.quote(PROGRAM)} check --quick"], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == 4
    assert "ulimit -n" in run.stderr
    assert "report this line" not in run.stderr


@pytest.mark.judge_child
def test_more_gpus_than_any_machine_has_are_no_fault_of_ours(tmp_path: Path) -> None:
    gpus = "".join(f'<gpu id="{n >> 8:08x}:{n & 255:02x}:00.0"><product_name>A100</product_name></gpu>' for n in range(300))
    (tmp_path / "g.xml").write_text(f'<?xml version="1.0"?><nvidia_smi_log>{gpus}</nvidia_smi_log>')
    assert run("explain", str(tmp_path / "g.xml")).code in (0, 1, 3)


@pytest.mark.parametrize("module", ["typing", "random", "json"])
def test_a_file_that_has_the_name_of_pythons_own_module_is_no_part_of_the_doctor(module: str, tmp_path: Path) -> None:
    (tmp_path / f"{module}.py").write_text("x = 1\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    argv = [PROGRAM, "explain", "79", "--format", "json"]
    run = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False, env=environment)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0 or shutil.which("unshare") is None, reason="mounts need root on Linux")
def test_a_dev_without_devices_is_named(tmp_path: Path) -> None:
    mounts = f"mount -t tmpfs -o nodev none {tmp_path} && cp -a /dev/null /dev/urandom {tmp_path} && mount --bind {tmp_path} /dev"
    argv = ["unshare", "-m", "sh", "-c", f"{mounts} && exec {shlex.quote(PROGRAM)} check --quick"]
    run = subprocess.run(argv, stdin=subprocess.PIPE, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 4
    assert "nodev" in run.stderr


def test_a_fleets_files_hold_no_command_of_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("n##[error]pwn.json").write_text("no report")
    forms = ("text", "html", "junit")
    run("fleet", "n##[error]pwn.json", *(word for form in forms for word in ("--output", f"{form}={form}")))
    for form in forms:
        assert "pwn" in Path(form).read_text(), form
        assert "##[" not in Path(form).read_text(), form
