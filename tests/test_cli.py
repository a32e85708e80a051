"""The command line: exit codes, options, streams, signals. What is judged and printed is tested elsewhere."""

from __future__ import annotations

import json
import os
import pty
import random
import re
import select
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import cudadoctor
from cudadoctor.checks.rows import CHECKS
from cudadoctor.commands import terminal
from cudadoctor.commands.check import ROWS
from cudadoctor.commands.cli import cli
from cudadoctor.sources import recording
from tests.command_line import DEGRADED, HEALTHY, HUNG, NOUVEAU, changed, environment, finished, host, run, start

NO_CERTAINTY = "a text that says nothing of a GPU"


@pytest.mark.parametrize(
    ("typed", "near"),
    [
        ("check --format jsn", "json"),
        ("check --output jnit=x", "junit"),
        ("completion bsh", "bash"),
        ("schema flet", "fleet"),
        ("hook slurm-prolg", "slurm-prolog"),
        ("guide ic", "ci"),
        ("fix nouveau bond", "nouveau-bound"),
    ],
)
def test_a_typing_error_names_what_may_have_been_meant(typed: str, near: str) -> None:
    result = run(*typed.split())
    assert result.code == 2
    assert f"Nearest: {near}" in result.err


def test_help_is_a_word_too_and_a_forgotten_explain_is_told() -> None:
    assert run("help", "check").out == run("check", "--help").out
    assert run("help").out == run("--help").out
    assert "cudadoctor explain WORDS" in run("Xid", "79").err
    assert "check" in run("chek").err
    assert run("explain", "Xid-79").out == run("explain", "Xid", "79").out


def test_a_blank_where_a_dash_was_meant() -> None:
    assert run("guide", "getting", "started").out == run("guide", "getting-started").out
    assert run("fix", "nouveau", "bound", "--replay", host(NOUVEAU)).out == run("fix", "nouveau-bound", "--replay", host(NOUVEAU)).out


def test_what_is_printed_to_be_typed_starts_the_program_as_it_was_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for argv, doctor in (
        (".venv/bin/cudadoctor", ".venv/bin/cudadoctor"),
        ("/a b/cudadoctor", "'/a b/cudadoctor'"),
        ("pytest", "cudadoctor"),
    ):
        monkeypatch.setattr(sys, "argv", [argv])
        assert terminal.called() == doctor
    (tmp_path / "cudadoctor").write_text("")
    (tmp_path / "cudadoctor").chmod(0o755)
    monkeypatch.setattr(sys, "argv", ["/opt/x/cudadoctor"])
    assert terminal.called() == "cudadoctor"


# ---------------------------------------------------------------- exit codes
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("check", "--replay", host(HEALTHY)), 0),
        (("check", "--replay", host(HEALTHY), "--strict"), 0),
        (("check", "--replay", host(DEGRADED)), 0),
        (("check", "--replay", host(DEGRADED), "--strict"), 1),
        (("check", "--replay", host(NOUVEAU)), 1),
        (("check", "--replay", host(HEALTHY), "--only", "gpu"), 0),
        (("check", "--list"), 0),
        (("check", "--only", "no-such-row"), 2),
        (("check", "--no-such-option"), 2),
        (("check", "--timeout", "0"), 2),
        (("check", "--format", "yaml"), 2),
        (("no-such-command",), 2),
        (("fix", "--replay", host(NOUVEAU)), 0),
        (("fix", "--replay", host(HEALTHY)), 0),
        (("fix", "no-nvidia-gpu", "--replay", host(HEALTHY)), 3),
        (("fix", "driver-hung", "--replay", host(HEALTHY)), 0),
        (("fix", "no-such-cause", "--replay", host(HEALTHY)), 2),
        (("fix", "--replay", host(HEALTHY), "--strict"), 0),
        (("smoke", "--replay", host(HEALTHY)), 0),
        (("smoke", "--replay", host(HUNG)), 1),
        (("explain", "cuda 100"), 0),
        (("explain", "driver-hung"), 0),
        (("explain", NO_CERTAINTY), 3),
        (("explain", "Failed to initialize NVML: Driver/library version mismatch"), 1),
        (("explain", "no-such-thing"), 2),
        (("explain",), 2),
        (("causes",), 0),
        (("schema",), 0),
        (("record",), 2),
        (("run",), 2),
        (("run", "--require-gpu"), 2),
        (("compare",), 2),
        (("compare", host(HEALTHY), host(HEALTHY)), 0),
        (("compare", host(HEALTHY), host(NOUVEAU)), 1),
        (("--version",), 0),
        (("--help",), 0),
    ],
    ids=lambda value: " ".join(Path(word).name for word in value) if isinstance(value, tuple) else str(value),
)
def test_exit_code(arguments: tuple[str, ...], code: int) -> None:
    result = run(*arguments)
    assert result.code == code, result.out + result.err
    assert "Traceback" not in result.err
    assert (result.out == "") == (code == 2)


def test_a_part_that_crashes_ends_with_4(monkeypatch: pytest.MonkeyPatch) -> None:
    def fall_over(*_: Any) -> Any:
        raise RuntimeError("made to fail")

    monkeypatch.setattr(import_module("cudadoctor.judge.assemble.rows"), "describe", fall_over)
    result = run("check", "--replay", host(HEALTHY))
    assert result.code == 4
    assert "made to fail" in result.out
    assert result.out.startswith("UNDECIDED  a part of cudadoctor failed")


# ---------------------------------------------------------------- --help, --version, and what they load
@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["check", "--help"], ["explain", "--help"]])
def test_asking_for_help_loads_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys; from cudadoctor.commands.cli import main; sys.argv = ['cudadoctor', *sys.argv[1:]]\n"
        "try: main()\n"
        "finally: print('|', *sorted({'rich', 'msgspec', 'numba', 'numpy', 'psutil', 'pynvml'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True, env=environment())
    assert done.stderr.strip() == "|"


@pytest.mark.parametrize("command", ["causes", "schema"])
def test_listing_loads_no_renderer(command: str) -> None:
    code = f"import sys; from cudadoctor.commands.cli import main; sys.argv = ['cudadoctor', '{command}']\ntry: main()\nfinally: print(*sorted({{'rich', 'numba', 'numpy'}} & set(sys.modules)), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment())
    assert done.stderr.strip() == ""
    assert done.stdout


def test_every_command_takes_the_options_of_showing() -> None:
    for name, command in cli.commands.items():
        flags = {flag for parameter in command.params for flag in parameter.opts}
        assert {"--color", "--ascii", "--quiet", "--verbose"} <= flags or name == "mcp", name  # which speaks a protocol


def test_the_commands_that_judge_take_the_same_options_about_evidence() -> None:
    wanted = {"--python", "--replay", "--record", "--log", "--timeout", "--distro", "--format", "--output", "--strict"}
    for name in ("check", "fix", "smoke"):
        assert wanted <= {flag for parameter in cli.commands[name].params for flag in parameter.opts}, name


# ---------------------------------------------------------------- formats and outputs
@pytest.mark.parametrize("command", ["check", "fix", "smoke"])
def test_every_judging_command_gives_the_report_object(command: str) -> None:
    result = run(command, "--replay", host(NOUVEAU), "--format", "json")
    report = json.loads(result.out)
    assert report["schema"] == "cudadoctor.report/1"
    assert report["diagnosis"]["root"]["cause"] == "nouveau-bound"
    assert report["exit_code"] == 1


def test_outputs_are_written_beside_stdout(tmp_path: Path) -> None:
    as_json, as_text = tmp_path / "report.json", tmp_path / "report.txt"
    result = run("check", "--replay", host(NOUVEAU), "--output", f"json={as_json}", "--output", f"text={as_text}", "--color", "always")
    assert "\x1b[" in result.out
    assert json.loads(as_json.read_text("utf-8"))["verdict"] == "broken"
    text = as_text.read_text("utf-8")
    assert text.startswith("BROKEN  ")
    assert "\x1b" not in text


@pytest.mark.parametrize("value", ["json", "yaml=x", "json=", "=x", "json=no-such-folder/x.json", "text=."])
@pytest.mark.parametrize("command", ["check", "fix", "smoke"])
def test_a_wrong_output_is_told_before_anything_runs(command: str, value: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("cudadoctor.commands.gathering.gather", lambda *_: pytest.fail("it ran"))
    result = run(command, "--replay", host(HEALTHY), "--output", value)
    assert result.code == 2
    assert value in result.err


def test_an_output_that_cannot_be_written_does_not_lose_the_report() -> None:
    result = run("check", "--replay", host(NOUVEAU), "--output", "json=/dev/full")
    assert result.code == 2
    assert result.out.startswith("BROKEN  ")
    assert "/dev/full" in result.err


@pytest.mark.parametrize("command", [("check",), ("fix",), ("smoke",)])
def test_quiet_leaves_the_exit_code_and_json(command: tuple[str, ...]) -> None:
    loud, quiet = run(*command, "--replay", host(NOUVEAU)), run(*command, "--replay", host(NOUVEAU), "--quiet")
    assert (quiet.code, quiet.out) == (loud.code, "")
    assert json.loads(run(*command, "--replay", host(NOUVEAU), "--quiet", "--format", "json").out)


def test_quiet_holds_for_explain_and_causes() -> None:
    assert run("explain", "cuda 100", "--quiet").out == ""
    assert run("causes", "--quiet").out == ""


# ---------------------------------------------------------------- rows
def test_list_names_every_row_once_and_what_it_looks_at() -> None:
    listed = run("check", "--list").out.splitlines()
    assert [line.split()[0] for line in listed] == list(ROWS)
    assert all(check.looks_at in line for check, line in zip(CHECKS, listed, strict=True))


def test_only_and_skip_choose_rows() -> None:
    only = json.loads(run("check", "--replay", host(NOUVEAU), "--only", "gpu", "--only", "driver", "--format", "json").out)
    assert [row["id"] for row in only["checks"]] == ["gpu", "driver"]
    skip = json.loads(run("check", "--replay", host(NOUVEAU), "--skip", "gpu", "--format", "json").out)
    assert [row["id"] for row in skip["checks"]] == [row for row in ROWS if row != "gpu"]
    assert only["diagnosis"]["root"]["cause"] == skip["diagnosis"]["root"]["cause"] == "nouveau-bound"


def test_rows_choose_the_evidence_of_a_live_run() -> None:
    """What no chosen row reads is not asked; without the ladder nothing is called healthy."""
    report = json.loads(run("check", "--only", "cuda-home", "--format", "json", "--timeout", "20").out)
    assert [row["id"] for row in report["checks"]] == ["cuda-home"]
    assert report["verdict"] != "healthy"
    assert report["smoke"] == []


# ---------------------------------------------------------------- recordings and texts
def test_a_recording_that_is_missing() -> None:
    result = run("check", "--replay", "/no/such/recording")
    assert result.code == 2
    assert "/no/such/recording: no such file" in result.err


def test_a_text_is_no_recording(tmp_path: Path) -> None:
    (tmp_path / "error.txt").write_text("cudaErrorNoDevice", "utf-8")
    result = run("check", "--replay", str(tmp_path / "error.txt"))
    assert result.code == 2
    assert "error.txt" in result.err


def test_a_truncated_archive(tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole.tar.gz", tmp_path / "cut.tar.gz"
    recording.write(recording.read(host(NOUVEAU)), str(whole))
    content = whole.read_bytes()
    for part in (0, 3, len(content) // 4, len(content) // 2):
        cut.write_bytes(content[:part])
        result = run("check", "--replay", str(cut))
        assert result.code == 2
        assert "Traceback" not in result.err
    assert run("check", "--replay", str(whole)).code == 1


def test_words_of_a_recording_cannot_steer_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "recording.json").write_text(json.dumps({"format": "\x1b]0;owned\x07\u202e"}), "utf-8")
    result = run("check", "--replay", str(tmp_path))
    assert result.code == 2
    assert "\x1b" not in result.err
    assert "\u202e" not in result.err


@pytest.mark.parametrize("target", ["folder", "file.tar.gz"])
def test_what_a_run_records_gives_its_report_again(target: str, tmp_path: Path) -> None:
    path = str(tmp_path / target)
    live = run("check", "--quick", "--record", path, "--no-redact", "--format", "json")
    again = run("check", "--replay", path, "--format", "json")
    assert again.code == live.code
    first, second = json.loads(live.out), json.loads(again.out)
    assert first.pop("origin")["kind"] == "live"
    assert second.pop("origin")["kind"] == "recording"
    first.pop("timing"), second.pop("timing")
    assert first == second


def test_a_run_with_bytes_that_are_no_text_is_recorded_and_told(tmp_path: Path) -> None:
    path = str(tmp_path / "recording")
    odd = os.fsdecode(b"/opt/\xff\xfe")
    live = run("check", "--quick", "--record", path, "--no-redact", "--format", "json", variables={"CUDA_HOME": odd})
    again = run("check", "--replay", path, "--format", "json")
    assert json.loads(live.out)["diagnosis"] == json.loads(again.out)["diagnosis"]
    assert run("check", "--quick", variables={"CUDA_HOME": odd}).code == live.code


def test_a_recording_is_not_overwritten_and_that_is_told_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "recording"
    assert f"written to {target}, redacted\nReplaced: " in run("record", "-o", str(target), "--quick").out
    assert recording.read(str(target)).redacted
    monkeypatch.setattr("cudadoctor.commands.gathering.live", lambda *_: pytest.fail("it ran"))
    for arguments in (("record", "-o"), ("check", "--record")):
        result = run(*arguments, str(target))
        assert result.code == 2
        assert "already holds a recording" in result.err


def test_record_without_redaction(tmp_path: Path) -> None:
    target = str(tmp_path / "recording.tar.gz")
    result = run("record", "-o", target, "--quick", "--no-redact")
    assert (result.code, result.out.endswith(", not redacted\n")) == (0, True)
    assert not recording.read(target).redacted


def test_a_log_is_read_from_a_file_and_from_stdin(tmp_path: Path) -> None:
    words = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8589934592 bytes.\n"
    (tmp_path / "log.txt").write_text(words, "utf-8")
    from_file = run("check", "--replay", host(HEALTHY), "--log", str(tmp_path / "log.txt"))
    from_stdin = run("check", "--replay", host(HEALTHY), "--log", "-", stdin=words.encode())
    assert from_file.code == from_stdin.code == 1
    assert "[program-out-of-memory]" in from_file.out.splitlines()[0]
    assert from_file.out.split("All")[0] == from_stdin.out.split("All")[0]  # what other commands are told differs


def test_explain_reads_what_is_piped_into_it(tmp_path: Path) -> None:
    text = "Failed to initialize NVML: Driver/library version mismatch\n"
    asked = [sys.executable, "-m", "cudadoctor", "explain", "--format", "json"]
    piped = subprocess.run(asked, input=text, text=True, capture_output=True, check=False, timeout=120)
    assert json.loads(piped.stdout)["diagnosis"]["root"]["cause"] == "driver-version-mismatch"
    (tmp_path / "log").write_text(text)
    with (tmp_path / "log").open() as stream:
        read = subprocess.run(asked, stdin=stream, text=True, capture_output=True, check=False, timeout=120)
    assert read.returncode == piped.returncode == 1
    empty = subprocess.run(asked, stdin=subprocess.DEVNULL, text=True, capture_output=True, check=False, timeout=120)
    assert empty.returncode == 2
    assert "Missing argument" in empty.stderr


def test_a_log_that_is_missing() -> None:
    result = run("check", "--replay", host(HEALTHY), "--log", "/no/such/log")
    assert result.code == 2
    assert "/no/such/log: No such file" in result.err


# ---------------------------------------------------------------- what stdout takes
def coloured(*arguments: str, **variables: str) -> bool:
    return "\x1b[" in run("check", "--replay", host(NOUVEAU), *arguments, variables=variables).out


def test_colour_follows_option_and_variables() -> None:
    assert not coloured()  # no terminal
    assert coloured("--color", "always")
    assert coloured("--color", "always", NO_COLOR="1")
    assert coloured(FORCE_COLOR="1")
    assert not coloured(FORCE_COLOR="1", NO_COLOR="1")
    assert not coloured("--color", "never", FORCE_COLOR="1")
    assert coloured("--color", "always", TERM="dumb")


def test_explain_follows_them_too() -> None:
    assert "\x1b[" in run("explain", "cuda 100", "--color", "always").out
    assert "\x1b[" not in run("explain", "cuda 100").out


NAME = "GeForce™ RTX 日本 é"


@pytest.fixture
def named_oddly(tmp_path: Path) -> str:
    """A recording of a GPU whose name no old code page holds."""
    target = str(tmp_path / "odd")
    recording.write(changed(HEALTHY, {"*": lambda text: text.replace("NVIDIA GeForce RTX 3090", NAME)}), target)
    return target


def test_a_terminal_of_unicode_gets_the_name_as_it_is(named_oddly: str) -> None:
    assert NAME in run("check", "--replay", named_oddly).out


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "latin-1", "cp437"])
def test_a_terminal_of_another_encoding(encoding: str, named_oddly: str) -> None:
    result = run("check", "--replay", named_oddly, encoding=encoding)
    assert result.code == 0
    assert "\\u2122" in result.out
    report = json.loads(run("check", "--replay", named_oddly, "--format", "json", encoding=encoding).out)
    assert report["machine"]["gpus"][0]["name"] == NAME


def test_an_encoding_that_the_environment_sets(named_oddly: str) -> None:
    result = finished("check", "--replay", named_oddly, variables={"PYTHONIOENCODING": "cp1252"})
    assert (result.code, result.err) == (0, "")


@pytest.mark.parametrize(
    "arguments",
    [("check",), ("check", "--format", "json"), ("fix",), ("smoke",), ("check", "-v"), ("fix", "--script")],
    ids=" ".join,
)
def test_ascii_is_ascii(arguments: tuple[str, ...], named_oddly: str) -> None:
    assert run(*arguments, "--replay", named_oddly, "--ascii").out.isascii()


@pytest.mark.parametrize(
    "arguments", [("explain", "é " + NAME), ("explain", "100"), ("causes",), ("schema",), ("causes", "--format", "json")]
)
def test_ascii_is_ascii_everywhere(arguments: tuple[str, ...]) -> None:
    assert run(*arguments, "--ascii").out.isascii()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(("check", "--replay", host(NOUVEAU), "--format", "json"), 1), (("causes",), 0), (("schema",), 0), (("check", "--list"), 0)],
    ids=lambda value: value[0] if isinstance(value, tuple) else str(value),
)
def test_a_reader_that_leaves_early(arguments: tuple[str, ...], code: int) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = start(*arguments, stdout=writer, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    os.close(writer)
    _, err = process.communicate(timeout=60)
    assert err == b""
    assert process.returncode == code


def test_a_closed_stdout() -> None:
    result = finished("check", "--replay", host(NOUVEAU), stdout=None, preexec_fn=lambda: os.close(1))
    assert (result.code, result.err) == (1, "")


def test_completion_without_the_shells_words_lists_the_commands() -> None:
    result = run("check", variables={"_CUDADOCTOR_COMPLETE": "bash_complete"})
    assert (result.code, "plain,explain" in result.out) == (0, True)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
@pytest.mark.parametrize("arguments", [("check", "--replay", host(NOUVEAU)), ("check", "--help")])
def test_a_full_disk(arguments: tuple[str, ...]) -> None:
    with open("/dev/full", "wb") as full:
        result = finished(*arguments, stdout=full)
    assert result.code == 2
    assert result.err == "Error: standard output: No space left on device\n"


# ---------------------------------------------------------------- progress
def test_piped_stderr_stays_empty() -> None:
    result = finished("check", "--quick")
    assert result.err == ""
    assert result.out


def on_terminal(*arguments: str, stdout: bool = False, **variables: str) -> tuple[str, str]:
    """What reaches a terminal on stderr (or on both streams), and what reaches a pipe on stdout."""
    leader, follower = pty.openpty()
    out = follower if stdout else subprocess.PIPE
    process = start(*arguments, variables=variables, stdin=subprocess.DEVNULL, stdout=out, stderr=follower)
    os.close(follower)
    shown = b""
    while True:
        ready, _, _ = select.select([leader], [], [], 60)
        try:
            chunk = os.read(leader, 1 << 16) if ready else b""
        except OSError:  # Linux says EIO when the last writer has gone
            chunk = b""
        if not chunk:
            break
        shown += chunk
    piped = b"" if process.stdout is None else process.stdout.read()
    process.wait(60)
    if process.stdout is not None:
        process.stdout.close()
    os.close(leader)
    return shown.decode(), piped.decode()


def test_rows_appear_on_a_terminal_while_it_runs() -> None:
    shown, piped = on_terminal("check", "--quick", "--color", "never")
    rows = [line.split()[0] for line in shown.splitlines()]
    assert sorted(rows) == sorted(ROWS)
    assert piped.split()[0] in ("HEALTHY", "DEGRADED", "BROKEN", "UNDECIDED")


def test_the_report_takes_the_place_of_the_rows_on_the_same_terminal() -> None:
    """Each row is one line with its time; then they are gone, so that the screen stands alone above the prompt."""
    shown, _ = on_terminal("check", "--quick", "--only", "cuda-home", "--only", "gpu", stdout=True, COLUMNS="60", LINES="24")
    rows, erased, rest = shown.partition("\x1b[2A\x1b[J")
    assert erased
    assert sorted(line.split()[0] for line in plain(rows).splitlines()) == ["cuda-home", "gpu"]
    assert all(re.match(r"[\w-]+ +\d+\.\d s  ", line) and len(line) < 60 for line in plain(rows).splitlines())
    assert "exit code" in rest
    assert "\x1b[2A" not in on_terminal("check", "--quick", "--only", "cuda-home", "--only", "gpu", stdout=True, TERM="dumb")[0]


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_progress_keeps_to_the_chosen_rows_and_to_plain_terminals() -> None:
    shown, _ = on_terminal("check", "--quick", "--only", "cuda-home", "--only", "gpu", TERM="dumb")
    assert sorted(line.split()[0] for line in shown.splitlines()) == ["cuda-home", "gpu"]
    assert "\x1b" not in shown


def test_quiet_and_replay_show_no_progress() -> None:
    assert on_terminal("check", "--quick", "--quiet") == ("", "")
    assert on_terminal("check", "--replay", host(HEALTHY))[0] == ""


def test_a_terminal_gets_colour_unless_it_is_dumb() -> None:
    assert "\x1b[" in on_terminal("check", "--replay", host(NOUVEAU), stdout=True)[0]
    assert "\x1b[" not in on_terminal("check", "--replay", host(NOUVEAU), stdout=True, TERM="dumb")[0]
    assert "\x1b[" not in on_terminal("check", "--replay", host(NOUVEAU), stdout=True, NO_COLOR="1")[0]


# ---------------------------------------------------------------- Ctrl-C
def marked(marker: str) -> list[int]:
    """The processes that carry this marker in their environment."""
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and marker.encode() in Path(f"/proc/{name}/environ").read_bytes():
                found.append(int(name))
        except OSError:
            continue
    return found


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")
@pytest.mark.parametrize("many", [3, pytest.param(50, marks=pytest.mark.long)])
def test_ctrl_c_at_any_moment_leaves_nothing(many: int, tmp_path: Path) -> None:
    """At so many seeded moments of a check whose nvidia-smi hangs."""
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\nsleep 300 & sleep 300\n", "utf-8")
    tool.chmod(0o755)
    moments = random.Random(7)
    for number in range(many):
        folder, marker = tmp_path / str(number), f"CUDADOCTOR_TEST={tmp_path}/{number}"
        folder.mkdir()
        variables = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "CUDADOCTOR_TEST": str(folder), "TMPDIR": str(folder)}
        process = start("check", variables=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(0.15 + moments.random())
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        started = os.path.dirname(cudadoctor.__file__).encode() in err
        if (process.returncode == 1 and b"Traceback" in err and not started) or (process.returncode == -signal.SIGINT and not err):
            continue  # on a busy machine Python itself had not started yet: the doctor had no say
        assert process.returncode == 130
        assert b"Traceback" not in err
        assert out.startswith(b"UNDECIDED") or err.strip() == b"interrupted"
        end = time.monotonic() + 60
        while marked(marker) and time.monotonic() < end:
            time.sleep(0.02)
        assert marked(marker) == []
        assert list(folder.iterdir()) == []


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="signals of POSIX")
def test_signals_that_the_shell_blocks_hang_no_child() -> None:
    """A child that waited for a signal was taken for a driver that does not answer."""
    done = finished("check", "-v", preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals()))
    assert "verdict" in done.out
    assert "could not be ended" not in done.out


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")
@pytest.mark.parametrize(
    ("command", "sent", "code", "said"),
    [
        ("check", signal.SIGINT, 130, b"interrupted: what had not answered by then is not known"),
        ("check", signal.SIGTERM, 143, b""),
        ("fix", signal.SIGINT, 130, b"the cause is not certain, so no steps are given"),
    ],
)
def test_an_interrupt_leaves_no_process_behind(command: str, sent: signal.Signals, code: int, said: bytes, tmp_path: Path) -> None:
    started, marker = tmp_path / "started", f"CUDADOCTOR_TEST={tmp_path}"
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\necho $$ > {started}\nsleep 300 & sleep 300\n", "utf-8")
    tool.chmod(0o755)
    variables = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "CUDADOCTOR_TEST": str(tmp_path)}
    process = start(command, variables=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    end = time.monotonic() + 60
    while not started.exists() and time.monotonic() < end:
        time.sleep(0.02)
    assert len(marked(marker)) >= 2
    time.sleep(1)  # by now all else has answered, and the run waits for nvidia-smi
    process.send_signal(sent)
    out, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert err == b""
    assert said in out
    assert out.startswith(b"UNDECIDED") == bool(said)  # Ctrl-C: what is known so far
    while marked(marker) and time.monotonic() < end:  # killed processes need a moment to go
        time.sleep(0.02)
    assert marked(marker) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("check", "--only", "gpu", "--skip", "gpu"), "--only and --skip both name gpu"),
        (("check", "--quick", "--python", "/no/such/python"), "--python: there is no /no/such/python"),
        (("check", "--quick", "--python", ""), "--python names no interpreter"),
        (("run", "--python", "x", "--", "true"), "--python is no option of `run`"),
        (("explain", "Xdi 79"), "'Xdi 79' is no code. Nearest: Xid 79, SXid 79"),
        (("explain", "train.log"), "there is no file train.log in this folder"),
        (("hook", "slurm"), "Nearest: slurm-prolog, slurm-healthcheck."),
    ],
)
def test_what_cannot_be_meant_is_a_usage_error(arguments: tuple[str, ...], said: str) -> None:
    result = run(*arguments)
    assert (result.code, result.out) == (2, "")
    assert said in " ".join(result.err.split())
