"""Recordings of odd surroundings, made from healthy ones: what is no fault of the GPU's accuses nothing, what is one is named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from cudadoctor.commands import cli, examining
from cudadoctor.judge.stages import judge
from cudadoctor.model import exit_codes
from cudadoctor.model.evidence import SPARED, Evidence, Item
from cudadoctor.model.report import Report
from cudadoctor.sources import host, inherited, programs, readers
from cudadoctor.sources.children import Child
from cudadoctor.sources.interpreters import worker_path
from tests.command_line import ROOT, evidence_of
from tests.judging import KNOWLEDGE, cause_of


def judged(evidence: Evidence, **changes: dict[str, object]) -> Report:
    items = tuple(msgspec.structs.replace(item, **changes.get(item.id.replace("-", "_"), {})) for item in evidence.items)
    return judge(msgspec.structs.replace(evidence, items=items), KNOWLEDGE)


def test_without_a_path_a_missing_nvidia_smi_is_no_finding() -> None:
    evidence = evidence_of("h200-nvidia-smi-absent")
    assert judged(evidence).diagnosis.root is not None
    text = next(item.stdout or "" for item in evidence.items if item.id == "environment")
    empty = "".join("PATH=\n" if line.startswith("PATH=") else line for line in text.splitlines(keepends=True))
    report = judged(evidence, environment={"stdout": empty})
    assert (report.verdict, report.diagnosis.root) == ("healthy", None)
    assert next(row for row in report.checks if row.id == "nvidia-smi").status == "skip"


def test_a_tool_that_prints_without_end_is_no_driver_that_hangs() -> None:
    evidence = evidence_of("h200-nvidia-smi-hangs")
    silent = judged(evidence, nvml={"status": "timed-out", "stdout": None, "why": "no answer within 10 s"})
    assert silent.diagnosis.root is not None
    assert "driver-hung" in {finding.cause for finding in (silent.diagnosis.root, *silent.diagnosis.explains, *silent.diagnosis.also)}
    said = [note for note in judged(evidence).notes if note.startswith("nvidia-smi gave no answer")]
    assert len(said) == 1
    assert "NVML and cuInit answered" in said[0]
    report = judged(evidence, nvidia_smi={"stdout": "y\n" * 1000, "dropped_bytes": 1 << 30})
    assert (report.verdict, report.diagnosis.root) == ("healthy", None)
    assert next(row for row in report.checks if row.id == "nvidia-smi").status == "unknown"


def test_a_library_of_another_processor_is_named() -> None:
    evidence = evidence_of("h200-libcuda-hidden")
    line = "-rwxr-xr-x 1 root root 90000000 /usr/lib64/libcuda.so.1\n/usr/lib64/libcuda.so.1: ELF for AArch64, this machine runs x86-64\n"
    item = Item(id="driver-libraries", kind="listing", what="driver libraries", status="ok", stdout=line)
    items = (*(one for one in evidence.items if one.id != "driver-libraries"), item)
    report = judge(msgspec.structs.replace(evidence, items=items), KNOWLEDGE)
    assert cause_of(report) == "driver-libraries-incomplete"
    assert any("ELF for AArch64" in quote.text for quote in report.diagnosis.root.evidence)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ELF")
def test_the_processor_of_a_library_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head = bytearray(Path(sys.executable).resolve().read_bytes()[:64])
    (tmp_path / "libcuda.so.2").write_bytes(bytes(head))
    head[18:20] = (8).to_bytes(2, "little")  # MIPS
    (tmp_path / "libcuda.so.1").write_bytes(bytes(head))
    (tmp_path / "libcuda.so.3").write_bytes(b"\x7fELF")
    monkeypatch.setattr(readers, "LIBRARY_FOLDERS", (str(tmp_path),))
    said = [line for line in readers.list_driver_libraries("").splitlines() if ": ELF for " in line]
    assert len(said) == 1
    assert said[0].startswith(f"{tmp_path}/libcuda.so.1: ELF for 8, this machine runs ")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps a folder that is in use")
def test_a_working_directory_that_is_gone_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    monkeypatch.setattr(inherited, "_deleted", [])
    monkeypatch.setattr(inherited, "left", [])
    assert inherited.stand_somewhere() == ()
    gone.rmdir()
    evidence = host.collect(host.Plan(quick=True))
    assert os.getcwd() == "/"
    assert any("the working directory was deleted" in remark for remark in evidence.remarks)
    kept = inherited.environment()[inherited.FOLDER]
    assert (os.listdir(kept), os.readlink(kept)) == ([], f"{gone} (deleted)")
    assert next(item for item in evidence.items if item.id == "processes").status == "ok"


@pytest.mark.skipif(sys.platform == "win32", reason="permissions of POSIX")
def test_a_program_in_no_folder_is_absent_whatever_the_folders_forbid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = tmp_path / "nvcc"
    there.write_text("#!/bin/sh\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:/nonexistent")
    assert programs.lying("nvcc")  # not executable: the answer is that it is denied
    assert not programs.lying("no-such-program")
    items = {item.id: item for item in host.collect(host.Plan(quick=True)).items}
    assert items["nvcc"].status == "denied"
    assert items["dkms"].status == "absent"


ANSWERS, SILENT, LACKS = '{"event": "gpu"}', '{"event": "nvml", "code": 999}', '{"event": "end", "step": "init", "status": "fail"}'
PASSES = '{"event": "end", "step": "devices", "status": "pass"}'


@pytest.mark.skipif(sys.platform != "linux", reason="a program that is a script")
@pytest.mark.parametrize(
    ("nvml", "ladder", "quick", "status"),
    [
        (ANSWERS, PASSES, True, "not-run"),
        (ANSWERS, PASSES, False, "ok"),
        (SILENT, PASSES, True, "ok"),
        (ANSWERS, LACKS, True, "ok"),
    ],
)
def test_quick_runs_nvidia_smi_only_where_the_driver_does_not_answer_otherwise(
    nvml: str, ladder: str, quick: bool, status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers = {}
    for name, line in (("nvml.py", nvml), ("ladder.py", ladder)):
        workers[name] = tmp_path / name
        workers[name].write_text(f"print({line!r})")
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho ran\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(host, "worker_path", lambda name: str(workers.get(name, worker_path(name))))
    leave_out = frozenset(probe.id for probe in host.PROBES["linux"] if probe.id not in ("nvml", "ladder", "nvidia-smi"))
    items = {item.id: item for item in host.collect(host.Plan(python=sys.executable, quick=quick, leave_out=leave_out)).items}
    assert items["nvidia-smi"].status == status
    smi.unlink()
    items = {item.id: item for item in host.collect(host.Plan(python=sys.executable, quick=quick, leave_out=leave_out)).items}
    assert items["nvidia-smi"].status == "absent"


def test_where_quick_spared_nvidia_smi_its_row_says_so_and_no_other_lacks_it() -> None:
    spared = {"status": "not-run", "exit": None, "stdout": None, "why": SPARED}
    report = judged(msgspec.structs.replace(evidence_of("h200-healthy"), quick=True), nvidia_smi=spared)
    rows = {row.id: (row.status, row.because) for row in report.checks}
    assert report.verdict == "healthy"
    assert rows.pop("nvidia-smi") == ("skip", "--quick")
    assert {status for status, because in rows.values() if because != "--quick"} == {"pass"}


def test_an_nvidia_smi_that_cannot_be_executed_is_a_warning_and_no_fault_of_the_driver() -> None:
    said = {"status": "failed", "exit": 126, "stdout": "", "stderr": "nvidia-smi: cannot execute binary file: Exec format error\n"}
    report = judged(evidence_of("h200-healthy"), nvidia_smi=said)
    row = next(row for row in report.checks if row.id == "nvidia-smi")
    title = "The driver works, but nvidia-smi is not installed, or is no program for this machine"
    assert (report.verdict, row.status, row.summary) == ("degraded", "warn", f"{title}; nvidia-smi cannot be executed here")
    assert cause_of(report) == "nvidia-smi-missing"
    assert report.prescription is not None
    assert "damaged" in report.prescription.steps[0].text


def test_what_the_kernel_does_not_take_for_a_program_is_said_as_a_shell_says_it(tmp_path: Path) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_bytes(b"\x7fELF and nothing else")
    program.chmod(0o755)
    child = Child("nvidia-smi", "command", [str(program)], limit=5, environment={}, shown=("nvidia-smi",))
    item = child.as_item()
    assert (item.status, item.exit, item.stderr) == ("failed", 126, "nvidia-smi: cannot execute binary file: Exec format error\n")


@pytest.mark.skipif(sys.platform != "linux", reason="names of bytes are Linux's")
def test_names_that_are_not_utf8_stop_nothing(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/d\xe9p\nt"
    os.mkdir(folder)
    variables = {**os.environb, b"HOME": folder, b"ODD": b"\xff", b"PATH": os.environb[b"PATH"] + b":/x\xff", b"LC_ALL": b"C"}
    variables.update({b"PYTHONUTF8": b"0", b"PYTHONCOERCECLOCALE": b"0", b"PYTHONPATH": os.fsencode(ROOT)})
    argv = [sys.executable, "-P", "-m", "cudadoctor", "check", "--quick", "--format", "json"]
    done = subprocess.run(argv, cwd=folder, env=variables, capture_output=True, timeout=60, check=False)
    assert done.returncode in (0, 1, 2, 3), done.stderr
    assert json.loads(done.stdout)["verdict"] in ("healthy", "degraded", "broken", "undecided")


_WITH_LITTLE_TIME = """
import resource, sys, time
resource.setrlimit(resource.RLIMIT_CPU, (1, 60))
sys.argv = ["cudadoctor", "--version"]
from cudadoctor.commands import cli
try:
    cli.main()
except SystemExit:
    pass
while time.process_time() < 1.3: pass
print("goes on")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no such limit")
def test_a_shells_limit_on_processor_time_does_not_end_the_doctor() -> None:
    done = subprocess.run([sys.executable, "-c", _WITH_LITTLE_TIME], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.endswith("goes on\n"), done


@pytest.mark.parametrize(("limit", "warned"), [("134217728", True), ("2147483648", False), ("max", False)])
def test_a_control_group_that_may_end_the_doctor_is_told_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], limit: str, warned: bool
) -> None:
    text = f"/sys/fs/cgroup/job/memory.max:{limit}\n/sys/fs/cgroup/memory.max:max\n/sys/fs/cgroup/job/pids.max:20\n"
    monkeypatch.setattr(readers, "read_control_group", lambda path: text)
    examining._mind_little_memory()
    assert ("may use 128 MiB of memory (/sys/fs/cgroup/job/memory.max)" in capsys.readouterr().err) is warned


def test_nothing_is_begun_in_a_control_group_that_would_end_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(readers, "read_control_group", lambda path: "/sys/fs/cgroup/memory.max:67108864\n")
    with pytest.raises(SystemExit) as end:
        cli.cli(["check", "--format", "json"], standalone_mode=False)
    said = capsys.readouterr()
    assert (end.value.code, said.out) == (exit_codes.UNDECIDED, "")
    assert "may use 64 MiB of memory (/sys/fs/cgroup/memory.max)" in said.err
    assert "nothing was examined" in said.err


@pytest.mark.parametrize("name", ["signal", "gc", "atexit", "re", "json", "ctypes", "msgspec"])
def test_no_module_of_the_working_directory_is_imported(name: str, tmp_path: Path) -> None:
    """Also by plain `python -m`, which puts that directory first."""
    (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    subprocess.run([sys.executable, "-m", "cudadoctor", "causes"], cwd=tmp_path, capture_output=True, check=True, timeout=60)
    assert not (tmp_path / "ran").exists()


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="Windows keeps a working directory")
def test_nothing_is_written_for_a_name_in_a_folder_that_is_gone(tmp_path: Path) -> None:
    """Children run in /, and so does the doctor then: the file would be written there, over what has that name."""
    name = f"of-{tmp_path.name}-{os.getpid()}.json"
    code = (
        f"import os; os.chdir({str(tmp_path)!r}); os.rmdir({str(tmp_path)!r}); import sys; sys.argv = ['cudadoctor', 'check', '--quick', "
    )
    code += f"'--quiet', '--output', 'json={name}']; from cudadoctor.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert not Path(os.sep, name).exists()
    assert done.returncode == exit_codes.USAGE
    assert f"--output {name}: the working directory was deleted" in done.stderr
