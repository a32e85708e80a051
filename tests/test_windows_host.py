"""A live check's questions on Windows, asked here of programs that answer as Windows' own do; children, code pages, programs, interpreters."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cudadoctor.judge.stages import judge
from cudadoctor.knowledge.load import load
from cudadoctor.model.evidence import Evidence
from cudadoctor.model.report import Report
from cudadoctor.sources import children, decoding, interpreters, programs, recording, spawning
from cudadoctor.sources.host import Plan, collect
from cudadoctor.sources.probes import PROBES
from cudadoctor.sources.readers import READERS
from tests.command_line import HOSTS
from tests.judging import cause_of

unix = pytest.mark.skipif(sys.platform == "win32", reason="stands in for Windows with programs of a Linux shell")
VERSION = "Microsoft Windows [Version 10.0.19045]\nEdition: Core\nMachine: AMD64\n"


# ---------------------------------------------------------------- the questions
def test_each_system_has_its_questions() -> None:
    assert set(PROBES) == {"linux", "win32"}
    for platform in ("linux", "win32"):
        probes = PROBES[platform]
        assert {"nvml", "ladder", "python-env", "processes", "nvidia-smi", "nvcc", "environment"} <= {probe.id for probe in probes}
        assert all(probe.reader in READERS for probe in probes if probe.reader is not None)
        first: set[str] = set()
        for probe in probes:
            assert set(probe.instead_of) <= first | {probe.id}, f"{probe.id} stands in for what comes later"
            assert (probe.id in first) <= bool(probe.instead_of), f"{probe.id} is asked twice"
            first.add(probe.id)


def test_the_scripts_survive_windows_command_line() -> None:
    """Python joins the words of a command line with double quotes around; PowerShell's own quotes are single ones."""
    scripts = [probe.run[-1] for probe in PROBES["win32"] if probe.run is not None]
    assert len(scripts) == 4
    for script in scripts:
        assert '"' not in script
        assert subprocess.list2cmdline(["powershell", script]) == f'powershell "{script}"'
        assert script.count("{") == script.count("}")
        assert script.count("(") == script.count(")")
        assert script.count("'") % 2 == 0
        for word in ("[pscustomobject]", "New-Object", "Add-Type"):
            assert word not in script, "a locked-down PowerShell refuses it"


# ---------------------------------------------------------------- a whole run
def answer_of(host: str, item: str) -> str:
    return (HOSTS / host / "evidence" / f"{item}.out.txt").read_text("utf-8")


def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, *, smi: str | None = None) -> Evidence:
    """Evidence of this machine, whose PowerShell is that of a recorded host."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for item in ("pnp-devices", "video-controllers"):
        (folder / f"{item}.txt").write_text(answer_of(host, item))
    shell = f'#!/bin/sh\ncase "$*" in\n*Win32_PnPEntity*) exec /bin/cat {folder}/pnp-devices.txt;;\n*Win32_VideoController*) exec /bin/cat {folder}/video-controllers.txt;;\nesac\nexit 1\n'
    (folder / "powershell").write_text(shell)
    if smi is not None:
        (folder / "nvidia-smi").write_text(f"#!/bin/sh\n{smi}\n")
    for program in folder.glob("[!.]*"):
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setitem(READERS, "read_windows_version", lambda _: VERSION)
    monkeypatch.setitem(READERS, "list_driver_dlls", lambda _: "")
    return collect(Plan(platform="win32", python=sys.executable, quick=True, timeout=40))


def judged(evidence: Evidence) -> Report:
    report = judge(evidence, load())
    assert report.diagnosis.crashes == ()
    return report


@unix
def test_an_adapter_with_windows_own_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evidence = machine(tmp_path, monkeypatch, "windows-basic-display-adapter")
    assert evidence.platform == "win32"
    assert {item.id for item in evidence.items} == {probe.id for probe in PROBES["win32"]}
    inventory = evidence.get("pnp-devices")
    assert inventory is not None
    assert (inventory.status, inventory.source) == ("ok", "Get-CimInstance Win32_PnPEntity")
    report = judged(evidence)
    assert (report.verdict, cause_of(report)) == ("broken", "driver-not-installed")
    assert (report.machine.system, report.machine.distribution) == ("Windows", "windows 10")
    recording.write(evidence, str(tmp_path / "recording"))
    assert judged(recording.read(str(tmp_path / "recording"))).diagnosis.root == report.diagnosis.root


@unix
def test_the_newer_powershell_is_asked_where_the_old_one_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "bin"
    original = Path.glob

    def renamed(self: Path, pattern: str) -> list[Path]:
        (folder / "powershell").rename(folder / "pwsh")
        return list(original(self, pattern))

    monkeypatch.setattr(Path, "glob", renamed)
    evidence = machine(tmp_path, monkeypatch, "windows-basic-display-adapter")
    found = evidence.get("video-controllers")
    assert found is not None
    assert "Microsoft Basic Display Adapter" in (found.stdout or "")


@unix
def test_without_an_inventory_nothing_is_accused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No PowerShell: nobody knows which adapters there are. That no nvcuda.dll is found is all that is known."""
    monkeypatch.setattr(Path, "write_text", _without_powershell(Path.write_text))
    report = judged(machine(tmp_path, monkeypatch, "windows-basic-display-adapter"))
    named = {finding.cause for finding in (report.diagnosis.root, *report.diagnosis.also) if finding is not None}
    assert not named & {"driver-not-installed", "no-nvidia-gpu", "driver-not-loaded"}


def _without_powershell(write):  # type: ignore[no-untyped-def]
    return lambda path, text, *more: write(path, "#!/bin/sh\nexit 1\n" if path.name == "powershell" else text, *more)


# ---------------------------------------------------------------- children
def child(code: str, *, limit: float = 10.0, talks: bool = False) -> children.Child:
    return children.Child(
        "x", "command", [sys.executable, "-c", code], limit=limit, environment=dict(os.environ), shown=("x",), talks=talks
    )


@pytest.fixture
def as_on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pipes handed on by threads, and no process groups."""
    monkeypatch.setattr(children, "stream_of", lambda pipe: spawning.PumpedStream(pipe))
    monkeypatch.setattr(children, "end_tree", lambda process: spawning.end_tree(process, groups=False))


def test_windows_sets_a_child_apart_by_flags() -> None:
    assert spawning.apart(windows=True) == {"creationflags": 0x08000200, "cwd": "C:\\Windows"}
    assert spawning.apart(windows=False) == {"start_new_session": True, "cwd": "/"}


@pytest.mark.usefixtures("as_on_windows")
def test_output_by_threads() -> None:
    one = child("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")
    children.watch([one])
    assert (one.status, one.text("stdout").split(), one.text("stderr").split()) == ("failed", ["out"], ["err"])


@pytest.mark.usefixtures("as_on_windows")
def test_a_flood_by_threads_is_whole_up_to_its_bound() -> None:
    one = child("import sys; sys.stdout.write('x' * (9 << 20))", limit=30)
    children.watch([one])
    assert (one.status, len(one.text("stdout"))) == ("ok", children.OUTPUT_LIMIT)
    assert one.dropped == (9 << 20) - children.OUTPUT_LIMIT


@pytest.mark.usefixtures("as_on_windows")
def test_a_child_that_waits_for_a_line_by_threads() -> None:
    one = child("import sys; print('ready', flush=True); print(sys.stdin.readline().strip())", talks=True)
    seen: list[str] = []
    one.on_line = lambda line: seen.append(line.strip())
    children.watch([one], until=lambda: bool(seen))
    one.say("go\n")
    children.watch([one])
    assert (one.status, seen) == ("ok", ["ready", "go"])


@pytest.mark.usefixtures("as_on_windows")
def test_an_open_pipe_of_a_grandchild_does_not_hold_the_doctor() -> None:
    code = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(20)']); print('done', flush=True)"
    one = child(code, limit=15)
    started = time.monotonic()
    children.watch([one])
    assert (one.status, one.text("stdout").split()) == ("ok", ["done"])
    assert time.monotonic() - started < 10


@pytest.mark.usefixtures("as_on_windows")
def test_the_whole_tree_is_ended() -> None:
    import psutil

    code = "import subprocess, sys, time; p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']); print(p.pid, flush=True); time.sleep(60)"
    one = child(code, limit=1.5)
    children.watch([one])
    assert one.status == "timed-out"
    grandchild = int(one.text("stdout"))
    for _ in range(100):
        if not psutil.pid_exists(grandchild) or psutil.Process(grandchild).status() == psutil.STATUS_ZOMBIE:
            return
        time.sleep(0.05)
    pytest.fail(f"process {grandchild} is still there")


# ---------------------------------------------------------------- code pages
@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("Größe 3\r\n".encode(), "Größe 3\r\n"),
        (b"\xef\xbb\xbf{}", "{}"),
        ("Name=NVIDIA".encode("utf-16"), "Name=NVIDIA"),
        ("Name=Größe\r\n".encode("utf-16-le"), "Name=Größe\r\n"),
        ("Name=NVIDIA\r\n".encode("utf-16-be"), "Name=NVIDIA\r\n"),
        (b"a\x00b, one zero byte among many letters", "a\x00b, one zero byte among many letters"),
        (b"", ""),
        (b"\x00\x00\x00\x00", "\x00\x00\x00\x00"),
    ],
)
def test_bytes_become_text(raw: bytes, text: str) -> None:
    assert decoding.decoded(raw, windows=False) == text
    assert decoding.decoded(raw, windows=True) == text


def test_the_consoles_code_page_is_asked_for_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python knows it as `oem` on Windows alone. Elsewhere, and in a text that was cut within a letter, a sign stands for what is lost."""
    import codecs

    page = codecs.lookup("cp850")
    name = "oem"
    if sys.platform != "win32":
        codecs.register(lambda asked: page if asked == name else None)
    umlaut = "Größe".encode("cp850")
    assert decoding.decoded(umlaut, windows=False) == "Gr\ufffd\ufffde"
    if sys.platform != "win32":
        assert decoding.decoded(umlaut, windows=True) == "Größe"
    assert decoding.decoded("viel Text, Größe"[:-2].encode()[:-1], windows=True) == "viel Text, Gr\ufffd"


# ---------------------------------------------------------------- programs and interpreters
def test_programs_of_windows_have_endings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("nvcc.exe", "nvcc.txt", "nvidia-smi.EXE", "run.cmd"):
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATHEXT", ".COM;.EXE;.CMD")
    monkeypatch.chdir(tmp_path)
    path = os.pathsep.join((".", f'"{tmp_path}"', "relative"))
    assert programs.candidates("nvcc", path, windows=True) == [str(tmp_path / "nvcc.exe")]
    assert programs.candidates("run.cmd", path, windows=True) == [str(tmp_path / "run.cmd")]
    assert programs.candidates("nothing", path, windows=True) == []
    assert programs.candidates("nvcc", ".", windows=True) == [], "the working directory is no part of the path"


def test_windows_folders_that_a_path_may_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("SYSTEMROOT", "D:\\Windows")
    monkeypatch.setenv("PROGRAMW6432", "D:\\Program Files")
    for program, folder in (("nvidia-smi", "System32"), ("nvidia-smi", "NVSMI"), ("powershell", "v1.0")):
        assert folder in programs.search_path(program, windows=True)
    assert programs.search_path("nvcc", windows=True) == ""


def test_the_stores_door_is_no_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """WindowsApps\\python.exe opens the Store; where a Python came from there it has a folder beside."""
    store, real = tmp_path / "WindowsApps", tmp_path / "Python312"
    for folder in (store, real):
        folder.mkdir()
        (folder / "python.exe").write_text("")
        (folder / "python.exe").chmod(0o755)
    monkeypatch.setenv("PATHEXT", ".exe")
    monkeypatch.setenv("PATH", str(store))
    assert interpreters._on_path_of_windows() is None
    monkeypatch.setenv("PATH", os.pathsep.join((str(store), str(real))))
    assert interpreters._on_path_of_windows() == str(real / "python.exe")
    (store / "PythonSoftwareFoundation.Python.3.12_qbz5n2kfra8p0").mkdir()
    monkeypatch.setenv("PATH", str(store))
    assert interpreters._on_path_of_windows() == str(store / "python.exe")


@pytest.mark.usefixtures("as_on_windows")
def test_a_child_that_closed_its_pipes_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows' select refuses an empty list."""
    real = children.selectors.DefaultSelector.select

    def strict(self, timeout=None):  # type: ignore[no-untyped-def]
        assert self.get_map(), "asked to wait for nothing"
        return real(self, timeout)

    monkeypatch.setattr(children.selectors.DefaultSelector, "select", strict)
    one = child("import os, time; os.close(1); os.close(2); time.sleep(0.5)")
    children.watch([one])
    assert one.status == "ok"


@pytest.mark.usefixtures("as_on_windows")
def test_what_is_on_its_way_when_a_child_ends_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    real = spawning._pump

    def slow(pipe, sink):  # type: ignore[no-untyped-def]
        time.sleep(0.3)
        real(pipe, sink)

    monkeypatch.setattr(spawning, "_pump", slow)
    one = child("print('the last word')")
    assert one.process is not None
    one.process.wait()
    children.watch([one])
    assert one.text("stdout").strip() == "the last word"
