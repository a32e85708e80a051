"""`cudadoctor explain`: every form that it takes, in their order, and what stands on its pages."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cudadoctor.commands import explaining
from cudadoctor.commands.explaining import _names
from cudadoctor.commands.terminal import nearest
from cudadoctor.knowledge.lookup import explain_code
from cudadoctor.prescribe import shells
from cudadoctor.sources import recording
from tests.cases import every
from tests.command_line import NOUVEAU, ROOT, evidence_of, host, run
from tests.judging import KNOWLEDGE

MISMATCH = "Failed to initialize NVML: Driver/library version mismatch"
NO_DEVICE = (
    "no-nvidia-gpu", "nouveau-bound", "driver-not-installed", "driver-not-loaded", "cuda-visible-devices-hides-all",
    "cuda-visible-devices-invalid", "scheduler-gave-no-gpu", "container-no-gpu-access",
)  # fmt: skip


# ---------------------------------------------------------------- codes and causes
@pytest.mark.parametrize(
    ("asked", "heads"),
    [
        ("cuda 100", ["cuda 100 CUDA_ERROR_NO_DEVICE cudaErrorNoDevice"]),
        ("cudaErrorNoDevice", ["cuda 100 CUDA_ERROR_NO_DEVICE cudaErrorNoDevice"]),
        ("CUDA_ERROR_NO_DEVICE", ["cuda 100 CUDA_ERROR_NO_DEVICE cudaErrorNoDevice"]),
        ("nvml 3", ["nvml 3 NVML_ERROR_NOT_SUPPORTED NVMLError_NotSupported"]),
        ("Xid 79", ["xid 79 "]),
        ("nvidia-smi 9", ["nvidia-smi 9"]),
        ("100", ["cuda 100 ", "xid 100 "]),
        ("9", ["cuda 9 ", "nvml 9 ", "xid 9 ", "nvidia-smi 9"]),
    ],
)
def test_a_code(asked: str, heads: list[str]) -> None:
    result = run("explain", asked)
    assert (result.code, result.err) == (0, "")
    found = [line for line in result.out.splitlines() if line[:1].isalnum()]
    assert len(found) == len(heads)
    assert all(line.startswith(head) for line, head in zip(found, heads, strict=True))
    explained = json.loads(run("explain", asked, "--format", "json").out)
    assert (explained["schema"], explained["kind"]) == ("cudadoctor.explanation/1", "code")


def entries(out: str) -> dict[str, str]:
    """The part of a code's page about each cause."""
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for line in out.splitlines():
        if line.startswith("  - "):
            current = []
        current.append(line.strip())
        if line.rstrip().endswith("]"):
            found[line.rstrip()[:-1].rpartition("[")[2]] = current
    return {cause: "\n".join(part) for cause, part in found.items()}


def test_no_device_tells_its_causes_apart_and_says_the_fix_of_each() -> None:
    parts = entries(run("explain", "CUDA_ERROR_NO_DEVICE").out)
    for cause in NO_DEVICE:
        known = KNOWLEDGE.cause(cause)
        assert known.tell_apart in parts[cause], cause
        assert "fix: " in parts[cause], cause
        if known.no_software_fix is None:
            assert f"cudadoctor fix {cause}" in parts[cause]
        else:
            assert known.no_software_fix.split(":")[0] in parts[cause]


def test_every_cause_of_every_code_has_a_way_to_tell_and_a_fix() -> None:
    for error in KNOWLEDGE.cuda_errors:
        parts = entries(run("explain", f"cuda {error.code}").out)
        for cause in set(error.causes) & set(KNOWLEDGE.causes):
            assert KNOWLEDGE.cause(cause).tell_apart in parts[cause]
            assert "fix: " in parts[cause]


def test_codes_and_causes_name_each_other() -> None:
    """A cause's page lists the codes that may mean it, and only those."""
    tables = {
        "cuda": [(row.code, row.causes) for row in KNOWLEDGE.cuda_errors],
        "nvml": [(row.code, row.causes) for row in KNOWLEDGE.nvml_errors],
        "nvidia-smi": [(row.code, row.causes) for row in KNOWLEDGE.smi_exits],
        "xid": [(row.number, row.causes) for row in KNOWLEDGE.xids],
    }
    from_codes = {(f"{api} {code}", cause) for api, rows in tables.items() for code, causes in rows for cause in causes}
    from_causes = set()
    for cause in KNOWLEDGE.causes:
        page = explain_code(cause, KNOWLEDGE)
        assert page is not None
        assert page.cause is not None
        from_causes |= {(code, cause) for code in page.cause.codes}
    assert from_causes == {(code, cause) for code, cause in from_codes if cause in KNOWLEDGE.causes}


def placeholders_of(cause: str) -> set[str]:
    steps = [step for name in KNOWLEDGE.cause(cause).recipes for step in KNOWLEDGE.recipe(name).steps]
    texts = [text for step in steps for text in (step.text, step.shell, step.verify, step.undo, *step.shells.values()) if text]
    return {name for text in texts for name in shells.names(text)} & set(KNOWLEDGE.placeholder_words)


@every("cause", sorted(KNOWLEDGE.causes))
def test_a_cause(cause: str) -> None:
    result = run("explain", cause)
    known = KNOWLEDGE.cause(cause)
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines()[0] == f"{known.title} [{cause}]"
    assert known.tell_apart in result.out
    assert re.search(r"\nFix(?: on [^\n]+)?\n  ", result.out)
    for name in placeholders_of(cause):
        assert f"{{{name}}}" not in result.out, "a placeholder was left open"
    page = json.loads(run("explain", cause, "--format", "json").out)
    assert (page["kind"], page["cause"]["id"], page["matches"]) == ("cause", cause, [])


def test_a_cause_shows_all_that_its_file_says() -> None:
    out = run("explain", "secure-boot-blocks-module").out
    known = KNOWLEDGE.cause("secure-boot-blocks-module")
    for match in known.match:
        assert all(literal in out for literal in match.literals)
    for source in known.sources:
        assert source.split()[0] in out
    assert "breaks: driver" in out
    assert "Takes precedence over" in out
    assert "[driver-not-loaded]" in out
    assert "nvidia-smi 9" in out


def test_a_cause_shows_this_systems_commands_or_those_of_one_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explaining, "own_system", lambda knowledge: "opensuse-leap-15.6")
    own = run("explain", "secure-boot-blocks-module").out
    assert "\nFix on opensuse-leap-15.6\n" in own
    assert "nvidia-pubkeys" in own
    fedora = run("explain", "secure-boot-blocks-module", "--distro", "fedora-42").out
    assert "\nFix on fedora-42\n" in fedora
    assert "kmodgenca" in fedora
    assert "nvidia-pubkeys" not in fedora


def test_on_an_unknown_system_every_family_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explaining, "own_system", lambda knowledge: None)
    out = run("explain", "secure-boot-blocks-module").out
    for name in explaining.SYSTEMS.values():
        assert re.search(rf"\nFix on [^\n]*{re.escape(name)}", out)


@pytest.mark.parametrize(
    ("said", "release", "found"),
    [
        ({"ID": "ubuntu", "VERSION_ID": "24.04"}, "6.8.0-45-generic", "ubuntu-24.04"),
        ({"ID": "ubuntu", "VERSION_ID": "22.04"}, "5.15.153.1-microsoft-standard-WSL2", "wsl-ubuntu-22.04"),
        ({"ID": "arch"}, "6.12.1-arch1-1", "arch"),
        ({"ID": "no-such-system"}, "6.12.1", None),
        ({}, "6.12.1", None),
    ],
)
def test_which_system_this_is(said: dict[str, str], release: str, found: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.freedesktop_os_release", lambda: said)
    monkeypatch.setattr("platform.release", lambda: release)
    monkeypatch.setattr("sys.platform", "linux")
    assert explaining.own_system(KNOWLEDGE) == found


@pytest.mark.parametrize(
    ("word", "near"),
    [
        ("fedroa-42", "Nearest: fedora"),
        ("debain", "Nearest: debian"),
        ("ubunut-24.04", "Nearest: ubuntu"),
        ("blah", "such as ubuntu-24.04"),
    ],
)
@pytest.mark.parametrize("command", [("explain", "driver-not-installed"), ("fix", "driver-not-installed"), ("check", "--quick")])
def test_a_typing_error_in_a_distributions_name_is_no_other_system(command: tuple[str, ...], word: str, near: str) -> None:
    result = run(*command, "--distro", word)
    assert result.code == 2
    assert near in result.err


def test_words_need_no_quotes() -> None:
    assert run("explain", "Xid", "79") == run("explain", "Xid 79")
    assert run("explain", "driver", "470", "--format", "json") == run("explain", "driver 470", "--format", "json")


def test_a_distribution_changes_what_a_page_says() -> None:
    assert "akmod-nvidia" in run("explain", "driver-not-installed", "--distro", "fedora-41").out


# ---------------------------------------------------------------- things that are no code
@pytest.mark.parametrize(
    ("asked", "head", "words"),
    [
        ("kepler", "Kepler, an architecture", ["last driver: 470.256.02", "[driver-too-new-for-gpu]", "branch 470", "Source: "]),
        ("10de:1292", "10de:1292, a PCI device id", ["compute capability: 3.5", "cudadoctor fix toolkit-dropped-gpu"]),
        ("cc 8.9", "compute capability 8.9", ["first toolkit: 11.8"]),
        ("driver 470", "driver branch 470", ["newest CUDA that it supports: 11.4"]),
        ("cuda 12.4", "CUDA toolkit 12.4", ["550.54.14", "525.60.13", "newest gcc: 13"]),
        ("ptx 8.5", "PTX 8.5", ["from 555 on"]),
        ("gcc 13", "gcc 13, a host compiler", ["12.4 to 13.5", "[host-compiler-unsupported]"]),
        ("numba 0.60", "Numba 0.60", ["[numba-too-old]"]),
        ("numba-cuda 0.20", "numba-cuda 0.20", ["0.19 - 0.20"]),
        ("CUDA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", ["[cuda-visible-devices-hides-all]", "invalid device ordinal"]),
        ("8.5", "PTX 8.5", []),
    ],
)
def test_a_thing(asked: str, head: str, words: list[str]) -> None:
    result = run("explain", asked)
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines()[0] == head
    for word in words:
        assert word in result.out
    explained = json.loads(run("explain", asked, "--format", "json").out)
    assert (explained["schema"], explained["kind"]) == ("cudadoctor.explanation/1", "topic")
    assert [thing["title"] for thing in explained["topics"]] == [head]


def test_every_cause_on_a_things_page_has_a_way_to_tell_and_a_fix_for_that_thing() -> None:
    parts = entries(run("explain", "kepler").out.split("how to tell them apart")[1])
    for cause, part in parts.items():
        assert KNOWLEDGE.cause(cause).tell_apart in part
        assert "fix: " in part
    assert "branch 470" in parts["driver-too-new-for-gpu"]
    assert "numba-cuda[cu11]" in parts["toolkit-dropped-gpu"]


def test_long_lists_are_cut_unless_all_is_asked_for() -> None:
    short, long = run("explain", "cuda 100").out, run("explain", "cuda 100", "-v").out
    assert "more (-v names them)" in short
    assert "more (-v names them)" not in long
    assert len(long) > len(short)


@pytest.mark.parametrize("asked", ["cuda 12345", "Xid 999", "cc 6.5", "driver 999", "cuda 12.7", "toolkit 12", "numba", "1002:1292"])
def test_a_known_kind_with_an_unknown_value_is_no_text(asked: str) -> None:
    result = run("explain", asked)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("Usage: ")
    assert "Error: " in result.err


def test_a_file_whose_name_looks_like_an_unknown_code_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cuda 12345").write_text(MISMATCH, "utf-8")
    monkeypatch.chdir(tmp_path)
    assert run("explain", "cuda 12345").code == 1


def test_a_line_of_the_kernel_log_is_a_text() -> None:
    result = run("explain", "NVRM: Xid (PCI:0000:01:00): 79, pid=1234, GPU has fallen off the bus.")
    assert result.code == 1
    assert "[gpu-fell-off-bus]" in result.out.splitlines()[0]


def test_the_page_of_a_code_loads_no_judge_and_draws_nothing() -> None:
    """What makes it slow: the judging stages, the library that draws reports, and the parser of Python's requirements."""
    script = """
import sys
from cudadoctor.commands.cli import main
sys.argv = ["cudadoctor", "explain", "cuda 100"]
try:
    main()
except SystemExit as stop:
    assert not stop.code
slow = ("cudadoctor.judge.stages", "cudadoctor.parsers", "cudadoctor.checks", "cudadoctor.judge.diagnose", "cudadoctor.report.text",
        "cudadoctor.report.json", "cudadoctor.knowledge.lookup.topics", "cudadoctor.sources", "rich", "packaging", "difflib")
loaded = [name for name in slow if name in sys.modules]
assert not loaded, loaded
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("cuda 100 CUDA_ERROR_NO_DEVICE")


@pytest.mark.parametrize("width", [40, 60, 100])
def test_prose_wraps_and_commands_do_not(width: int) -> None:
    out = run("explain", "cuda 100", variables={"COLUMNS": str(width)}).out
    row = KNOWLEDGE.cuda_error(100)
    assert row is not None
    raw = {KNOWLEDGE.cause(cause).tell_apart for cause in row.causes} | {out.splitlines()[0]}
    assert raw <= {line.strip() for line in out.splitlines()}
    for line in out.splitlines():
        words = line.strip()
        is_raw = words in raw or "cudadoctor fix" in words or " " not in words
        assert is_raw or len(line) <= width, line


def test_colour_only_repeats_what_the_words_say() -> None:
    plain, coloured = run("explain", "driver-hung").out, run("explain", "driver-hung", "--color", "always").out
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[\d+m", "", coloured) == plain
    assert run("explain", "driver-hung", "--ascii").out.isascii()


# ---------------------------------------------------------------- files and texts
def test_stdin() -> None:
    result = run("explain", "-", stdin=MISMATCH.encode())
    assert result.code == 1
    assert "[driver-version-mismatch]" in result.out.splitlines()[0]
    assert run("explain", "-", stdin=b"").code == 3


def test_stdin_of_windows_and_of_bytes_that_are_no_text() -> None:
    assert run("explain", "-", stdin=MISMATCH.encode("utf-16")).code == 1
    assert run("explain", "-", stdin=b"\xff\xfa " + MISMATCH.encode()).code == 1


def test_a_text_gives_the_report_object() -> None:
    result = run("explain", MISMATCH, "--format", "json")
    report = json.loads(result.out)
    assert (report["schema"], report["origin"]["kind"], report["exit_code"]) == ("cudadoctor.report/1", "text", result.code)


def test_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "error.log").write_text(MISMATCH, "utf-8")
    (tmp_path / "my error").write_text(MISMATCH, "utf-8")
    assert run("explain", str(tmp_path / "error.log")).code == 1
    assert run("explain", str(tmp_path / "my error")).code == 1
    monkeypatch.chdir(tmp_path)
    assert run("explain", "error.log").code == 1
    assert run("explain", "my error").code == 1


def test_a_code_and_a_cause_come_before_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("100", "driver-hung"):
        (tmp_path / name).write_text(MISMATCH, "utf-8")
    monkeypatch.chdir(tmp_path)
    assert run("explain", "100").code == 0
    assert run("explain", "driver-hung").code == 0
    assert run("explain", "./100").code == 1  # a separator makes it a file


@pytest.mark.parametrize("path", ["/no/such/file.log", "./nope.txt", "logs/nope", "/tmp/no such file.log"])
def test_a_path_that_is_missing(path: str) -> None:
    result = run("explain", path)
    assert result.code == 2
    assert f"{path}: No such file" in result.err


def test_a_folder(tmp_path: Path) -> None:
    result = run("explain", str(tmp_path))
    assert result.code == 2
    assert "is a folder" in result.err


@pytest.mark.parametrize("form", ["folder", "its recording.json", "archive"])
def test_a_recording_is_refused_with_the_command_that_reads_it(form: str, tmp_path: Path) -> None:
    archive = str(tmp_path / "host.tar.gz")
    recording.write(evidence_of(NOUVEAU), archive)
    asked, read = {
        "folder": (host(NOUVEAU), host(NOUVEAU)),
        "its recording.json": (f"{host(NOUVEAU)}/recording.json", host(NOUVEAU)),
        "archive": (archive, archive),
    }[form]
    result = run("explain", asked)
    assert result.code == 2
    assert f"cudadoctor check --replay {read}" in result.err
    assert run("check", "--replay", read).code == 1


@pytest.mark.parametrize(
    "text",
    [
        "/usr/bin/python3: ImportError: libcuda.so.1: cannot open shared object file: No such file or directory",
        "ImportError: libcuda.so.1: cannot open shared object file: see /var/log/x.tar.gz",
        "line one\nImportError: libcuda.so.1: cannot open shared object file: No such file or directory",
    ],
)
def test_a_sentence_in_which_a_path_occurs_is_a_text(text: str) -> None:
    result = run("explain", text)
    assert result.code in (1, 3)
    assert result.out.split()[0] in ("BROKEN", "UNDECIDED")


# ---------------------------------------------------------------- nothing that fits
@pytest.mark.parametrize(
    ("asked", "near"),
    [
        ("nouveau", "nouveau-bound"),
        ("cudaErrorNoDevic", "cudaErrorNoDevice"),
        ("cuda_error_no_devise", "CUDA_ERROR_NO_DEVICE"),
        ("driver_not_loaded", "driver-not-loaded"),
        ("nvml_error_driver_not_loadd", "NVML_ERROR_DRIVER_NOT_LOADED"),
    ],
)
def test_an_unknown_word_names_the_nearest(asked: str, near: str) -> None:
    result = run("explain", asked)
    assert (result.code, result.out) == (2, "")
    assert near in result.err


@pytest.mark.parametrize("asked", ["qqqqq", "", "   ", "\t"])
def test_a_word_like_no_other(asked: str) -> None:
    result = run("explain", asked)
    assert (result.code, result.out) == (2, "")
    assert "Nearest" not in result.err


def test_names_are_unique_whatever_their_case() -> None:
    names = _names(KNOWLEDGE)
    assert len({name.lower() for name in names}) == len(set(names))
    assert nearest("qqqqq", names) == ""


def test_an_argument_that_is_no_text() -> None:
    import os

    assert run("explain", os.fsdecode(b"\xff\xfa ") + MISMATCH).code == 1


def test_a_files_name_is_no_option_of_the_command_that_shows_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "--format=json").write_text("AssertionError: Torch not compiled with CUDA enabled\n")
    assert "explain -v ./--format=json" in run("explain", "--", "--format=json").out


def test_a_path_in_a_printed_command_stays_one_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    recording.write(evidence_of("driver-not-loaded"), "r;id;")
    Path("a;id;.txt").write_text("nothing\n", "utf-8")
    assert "check --replay 'r;id;'`" in run("explain", "r;id;").err
    assert "`cudadoctor explain PATH`" in run("check", "--replay", "a;id;.txt").err
