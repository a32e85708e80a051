"""The workers nvml and processes, run as children against a stand-in for libnvidia-ml and real processes; what holds for all workers."""

from __future__ import annotations

import glob
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cudadoctor.model.facts import Fact
from cudadoctor.parsers import worker_processes
from cudadoctor.parsers.base import Text
from tests.worker_runs import LIMIT, STUBS, WORKERS, letter, load, of, raising, run, run_raw, stat_fields, wait_until

OWN = ("nvml", "processes", "python_env", "toolkit_search", "toolkit_search_linux")


def old_python() -> str | None:
    """A Python 3.8 that starts."""
    found = [shutil.which("python3.8"), *sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.8.*/bin/python")))]
    starts = (path for path in found if path and subprocess.run([path, "-c", ""], check=False, capture_output=True).returncode == 0)
    return next(starts, None)


# ---------------------------------------------------------------- nvml
@pytest.fixture(scope="module")
def nvml_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    folder = tmp_path_factory.mktemp("nvml")
    library = folder / "libnvidia-ml.so.1"
    flags = ["-Wall", "-Werror", "-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1"]
    subprocess.run(["gcc", *flags, "-o", str(library), str(STUBS / "fakenvml.c")], check=True)
    return str(folder)


def test_nvml_describes_a_gpu(nvml_folder: str) -> None:
    head, gpu = run("nvml", LD_LIBRARY_PATH=nvml_folder)
    assert head["code"] == 0
    assert head["library"] == "535.129.03"
    assert head["cuda"] == "12.2"
    assert head["provider"].startswith("nvidia-ml-py ")
    assert head["provider_error"] is None
    assert gpu["address"] == "0000:0a:00.0"
    assert gpu["compute_capability"] == "8.6"
    assert (gpu["memory_used_bytes"], gpu["memory_reserved_bytes"]) == (300000000, 469803776)
    assert gpu["throttle_reasons"] == ["sw-power-cap", "hw-thermal-slowdown"]
    assert (gpu["remap_pending"], gpu["remap_failed"]) == (True, False)
    assert (gpu["pcie_width"], gpu["pcie_width_max"]) == (8, 16)
    assert (gpu["nvlinks_active"], gpu["nvlinks_inactive"]) == (3, 1)
    assert gpu["recovery_action"] == "gpu-reset"
    assert gpu["compute_mode"] == "exclusive-process"
    assert gpu["ecc_uncorrected_volatile"] == 2


def test_nvml_tells_of_health_and_place(nvml_folder: str) -> None:
    head, gpu = run("nvml", LD_LIBRARY_PATH=nvml_folder, FAKE_NVML_FABRIC="3", FAKE_NVML_CC="1")
    assert (head["confidential_compute"], head["confidential_compute_ready"]) == ("on", False)
    assert (gpu["fabric_state"], gpu["fabric_status"]) == ("completed", "Success")
    assert (gpu["retired_pages_pending"], gpu["remap_uncorrectable"]) == (True, 1)
    assert (gpu["temperature_slowdown_c"], gpu["pcie_generation_card"]) == (93.0, 5)
    assert (gpu["vgpu_mode"], "vgpu_license" in gpu) == ("passthrough", False)
    waiting = run("nvml", LD_LIBRARY_PATH=nvml_folder, FAKE_NVML_FABRIC="2")
    assert (waiting[0]["confidential_compute"], waiting[0]["confidential_compute_ready"]) == ("off", None)
    assert (waiting[1]["fabric_state"], "fabric_status" in waiting[1]) == ("in-progress", False)


def test_nvml_each_word_about_health_is_asked_on_its_own(nvml_folder: str) -> None:
    failing = "nvmlDeviceGetRetiredPagesPendingStatus,nvmlDeviceGetGpuFabricInfoV,nvmlSystemGetConfComputeState"
    head, gpu = run("nvml", LD_LIBRARY_PATH=nvml_folder, FAKE_NVML_FAIL=failing)
    assert head["confidential_compute"] is None
    assert (gpu["errors"]["retired_pages_pending"], gpu["errors"]["fabric"]) == ("Unknown Error", "Unknown Error")
    assert (gpu["recovery_action"], gpu["nvlinks_active"], gpu["vgpu_mode"]) == ("gpu-reset", 3, "passthrough")


def test_nvml_a_failing_query_costs_one_value(nvml_folder: str) -> None:
    whole = run("nvml", LD_LIBRARY_PATH=nvml_folder)[1]
    less = run("nvml", LD_LIBRARY_PATH=nvml_folder, FAKE_NVML_FAIL="nvmlDeviceGetPowerUsage,nvmlSystemGetCudaDriverVersion_v2")
    assert less[0]["cuda"] is None
    assert less[0]["library"] == "535.129.03"
    assert less[1]["errors"]["power_w"] == "Unknown Error"
    assert {key: value for key, value in whole.items() if key not in ("power_w", "errors")} == {
        key: value for key, value in less[1].items() if key != "errors"
    }


def test_nvml_an_old_driver_knows_no_reserve(nvml_folder: str) -> None:
    gpu = run("nvml", LD_LIBRARY_PATH=nvml_folder, FAKE_NVML_OLD="1")[1]
    assert gpu["memory_used_bytes"] == 769803776
    assert "memory_reserved_bytes" not in gpu


def test_nvml_a_lost_gpu_is_counted(nvml_folder: str) -> None:
    gpus = of(run("nvml", LD_LIBRARY_PATH=nvml_folder, FAKE_NVML_GPUS="2", FAKE_NVML_LOST="0"), "gpu")
    assert gpus[0] == {"event": "gpu", "index": 0, "handle_error": "GPU is lost"}
    assert gpus[1]["address"] == "0000:0b:00.0"


def test_nvml_without_a_count_says_so(nvml_folder: str) -> None:
    events = run("nvml", LD_LIBRARY_PATH=nvml_folder, FAKE_NVML_FAIL="nvmlDeviceGetCount_v2")
    assert [entry["event"] for entry in events] == ["nvml", "error"]


@pytest.mark.parametrize("code", ["9", "18", "999"])
def test_nvml_says_why_it_does_not_start(nvml_folder: str, code: str) -> None:
    (head,) = run("nvml", LD_LIBRARY_PATH=nvml_folder, FAKE_NVML_ERR=code)
    assert head["code"] == int(code)
    assert head["message"]


def test_nvml_library_that_is_not_there() -> None:
    folders = ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/lib", "/usr/lib/wsl/lib")
    if any(Path(folder, "libnvidia-ml.so.1").exists() for folder in folders):
        pytest.skip("a driver is installed")
    (head,) = run("nvml", LD_LIBRARY_PATH=None)
    assert head["code"] == 12
    assert "cannot open shared object file" in head["message"]


def test_nvml_processes_in_both_lists(nvml_folder: str) -> None:
    (process,) = of(run("nvml", LD_LIBRARY_PATH=nvml_folder, FAKE_NVML_PID="77"), "process")
    assert process == {
        "event": "process", "gpu": "0000:0a:00.0", "pid": 77, "kind": "C+G", "memory_bytes": 1 << 30, "name": "/usr/bin/train",
    }  # fmt: skip


def test_nvml_noise_does_not_mix(nvml_folder: str) -> None:
    events, done = run_raw("nvml", LD_LIBRARY_PATH=nvml_folder, FAKE_NVML_NOISE='{"event": "nvml", "code": 5}')
    assert [entry["event"] for entry in events] == ["nvml", "gpu"]
    assert events[0]["code"] == 0
    assert '"code": 5' in done.stderr


def test_nvml_a_crash_leaves_what_was_said(nvml_folder: str) -> None:
    events, done = run_raw("nvml", LD_LIBRARY_PATH=nvml_folder, FAKE_NVML_CRASH="1")
    assert done.returncode == -signal.SIGABRT
    assert [entry["event"] for entry in events] == ["nvml"]


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("x = 1", "has no nvmlInit"),
        ("raise RuntimeError('broken on purpose')", "RuntimeError: broken on purpose"),
        ("import sys; print('bye'); sys.exit(3)", "SystemExit: 3"),
    ],
)
def test_nvml_a_wrong_binding_is_named_and_done_without(nvml_folder: str, tmp_path: Path, source: str, complaint: str) -> None:
    (tmp_path / "pynvml.py").write_text(source)
    events = run("nvml", LD_LIBRARY_PATH=nvml_folder, PYTHONPATH=str(tmp_path), FAKE_NVML_PID="77")
    head, gpu, process = events
    assert head["provider"] == "ctypes"
    assert complaint in head["provider_error"]
    assert (head["code"], head["library"], head["cuda"]) == (0, "535.129.03", "12.2")
    assert (gpu["address"], gpu["memory_used_bytes"], gpu["memory_reserved_bytes"]) == ("0000:0a:00.0", 300000000, 469803776)
    assert gpu["uuid"] == "GPU-00000000-1111-2222-3333-444444444440"
    assert (process["pid"], process["memory_bytes"]) == (77, 1 << 30)


def test_nvml_the_deprecated_distribution_is_named(nvml_folder: str, tmp_path: Path) -> None:
    """The old distribution is a package, and a package hides nvidia-ml-py's module."""
    import pynvml

    (tmp_path / "pynvml").mkdir()
    shutil.copy(pynvml.__file__, tmp_path / "pynvml" / "__init__.py")
    for name in ("pynvml-11.5.0.dist-info", "nvidia_ml_py-12.535.108.dist-info"):
        (tmp_path / name).mkdir()
    head, gpu = run("nvml", LD_LIBRARY_PATH=nvml_folder, PYTHONPATH=str(tmp_path))
    assert head["provider"] == "pynvml 11.5.0"
    assert "deprecated" in head["provider_error"]
    assert "hides nvidia-ml-py 12.535.108" in head["provider_error"]
    assert gpu["name"] == "NVIDIA GeForce RTX 3090"


def test_a_worker_dies_with_its_parent(nvml_folder: str) -> None:
    code = (
        "import subprocess, sys\n"
        "child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, start_new_session=True)\n"
        "print(child.pid, flush=True)\nchild.wait()\n"
    )
    environ = {**os.environ, "LD_LIBRARY_PATH": nvml_folder, "FAKE_NVML_SLEEP": "50", "FAKE_NVML_NOISE": "asleep"}
    argv = [sys.executable, "-c", code, sys.executable, "-u", "-B", str(WORKERS / "nvml.py")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ) as parent:
        assert parent.stdout is not None
        assert parent.stderr is not None
        worker = int(parent.stdout.readline())
        assert parent.stderr.readline().strip() == "asleep"
        parent.kill()
    wait_until(lambda: letter(worker) in ("Z", "gone"))


@pytest.mark.parametrize("name", ["nvml", "processes", "python_env"])
def test_nothing_of_the_working_directory_is_imported(name: str, tmp_path: Path) -> None:
    """A PYTHONPATH with an empty entry, as `PYTHONPATH=$PYTHONPATH:/x` makes it, would put it first."""
    for module in ("json", "ctypes", "signal", "psutil", "pynvml"):
        (tmp_path / f"{module}.py").write_text("raise RuntimeError('imported from the working directory')")
    events, done = run_raw(name, cwd=tmp_path, PYTHONPATH=os.pathsep + str(tmp_path / "none"))
    assert done.returncode == 0, done.stderr
    assert events
    assert "imported from the working directory" not in done.stdout + done.stderr


# ---------------------------------------------------------------- processes
HOLD = "import sys, time; held = open(sys.argv[1]); print('ready', flush=True); time.sleep(50)"


@pytest.fixture
def device(tmp_path: Path) -> Path:
    """An ordinary file that stands for /dev/nvidia0."""
    path = tmp_path / "nvidia0"
    path.write_text("")
    return path


@pytest.fixture
def holder(device: Path) -> Iterator[subprocess.Popen[str]]:
    argv = [sys.executable, "-c", HOLD, str(device), "x" * 500]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


def table(device: Path, *arguments: str, **environ: str | None) -> dict[int, dict[str, Any]]:
    doctor = () if "--doctor" in arguments else ("--doctor", "999999999")
    events = run("processes", "--device-prefix", str(device.parent / "nvidia"), *doctor, *arguments, **environ)
    assert events[-1]["event"] == "processes"
    return {entry["pid"]: entry for entry in events[:-1]}


def test_processes_a_holder_is_described(device: Path, holder: subprocess.Popen[str]) -> None:
    found = table(device)
    entry = found[holder.pid]
    assert entry["devices"] == [str(device)]
    assert entry["command"].startswith(sys.executable)
    assert len(entry["command"]) == 300
    assert (entry["ppid"], entry["sid"], entry["own"], entry["state"]) == (os.getpid(), os.getsid(0), True, "running")
    assert abs(entry["start_time"] - time.time()) < LIMIT
    assert "devices" not in found[os.getpid()]
    assert "command" not in found[os.getpid()]


def test_processes_a_command_line_is_read_as_far_as_it_is_shown(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", "x" * 100_000]) as process:
        try:
            assert len(load("cudadoctor_lines").command_line(process.pid)) <= load("cudadoctor_lines").COMMAND_LINE
        finally:
            process.kill()


def test_processes_what_was_known_in_time_is_kept() -> None:
    """The last line says whether all could be read: where it did not come, not all could."""
    line = json.dumps({"event": "process", "pid": 7, "ppid": 1, "user": "ada", "state": "running", "devices": ["/dev/nvidia0"]})
    facts = list(worker_processes.parse(Text(line + "\n", source="process table", origin="live")))
    assert [(fact.value.find(7) is not None, fact.value.complete) for fact in facts if isinstance(fact, Fact)] == [(True, False)]


def test_processes_a_stopped_holder(device: Path, holder: subprocess.Popen[str]) -> None:
    holder.send_signal(signal.SIGSTOP)
    wait_until(lambda: letter(holder.pid) == "T")
    assert table(device)[holder.pid]["state"] == "stopped"


def test_processes_a_child_that_waits_for_its_parent_a_moment_is_not_defunct(device: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each program is that when it ends: what counts is whom nobody waits for a moment later."""
    worker = load("processes")
    with subprocess.Popen(["true"]) as ending, subprocess.Popen(["true"]) as left:
        wait_until(lambda: letter(ending.pid) == letter(left.pid) == "Z")
        looks = iter([lambda: None, ending.wait])
        monkeypatch.setattr(worker, "time", SimpleNamespace(sleep=lambda _: next(looks)()))
        monkeypatch.setattr(sys, "argv", ["processes.py", "--looks", "2"])
        found = worker.add_stat(worker.table_from_proc())
        assert found[ending.pid]["letter"] == "Z"
        worker.leave_what_lasts(found, set(), str(device))
        assert ending.pid not in found
        assert found[left.pid]["letter"] == "Z"


VFORK = "import os, sys; os.posix_spawn('/bin/true', ['true'], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 0, sys.argv[1], os.O_RDONLY, 0)])"


@pytest.mark.skipif(sys.platform != "linux", reason="vfork's parent sleeps like this on Linux")
def test_processes_in_what_one_waits_that_cannot_be_interrupted(device: Path, tmp_path: Path) -> None:
    """The parent of a child that vfork made and that opens a FIFO before it becomes a program."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with subprocess.Popen([sys.executable, "-c", VFORK, str(fifo)]) as parent:
        try:
            wait_until(lambda: letter(parent.pid) == "D")
            entry = table(device)[parent.pid]
            assert entry["state"] == "uninterruptible"
            if os.geteuid() == 0 or Path(f"/proc/{parent.pid}/wchan").read_text() not in ("", "0"):
                assert entry["waits"] == Path(f"/proc/{parent.pid}/wchan").read_text()
                assert entry["command"].startswith(sys.executable)
        finally:
            fifo.write_text("")


STACK_OF_DRIVER = "[<0>] down+0x35/0x50\n[<0>] os_acquire_mutex+0x35/0x40 [nvidia]\n[<0>] nvidia_ioctl+0x12/0x70 [nvidia]\n"


@pytest.mark.parametrize(
    ("stack", "wchan", "told"),
    [
        (STACK_OF_DRIVER, "", ("os_acquire_mutex [nvidia]", True)),
        ("[<0>] rpc_wait_bit_killable+0x1/0x2 [sunrpc]\n[<0>] nfs_read+0x1/0x2 [nfs]\n", "", ("rpc_wait_bit_killable [sunrpc]", False)),
        (None, "os_acquire_mutex", ("os_acquire_mutex [nvidia]", True)),
        (None, "down", ("down", None)),
        (None, "0", (None, None)),
        (None, None, (None, None)),
    ],
)
def test_processes_whose_lock_one_waits_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stack: str | None, wchan: str | None, told: tuple[str | None, bool | None]
) -> None:
    """As root the stack tells; without it the function alone, which is the driver's by the list of the kernel's names, or says nothing."""
    worker = load("processes")
    names = tmp_path / "kallsyms"
    names.write_text("0000000000000000 T down\n0000000000000000 t os_acquire_mutex\t[nvidia]\n")

    said = {"/proc/7/stack": stack, "/proc/7/wchan": wchan}
    monkeypatch.setattr(worker, "beginning", lambda path: said[path] or "")
    monkeypatch.setattr(worker, "NAMES", str(names))
    assert worker.waits(7) == told


def test_processes_a_defunct_one(device: Path, holder: subprocess.Popen[str]) -> None:
    holder.kill()
    wait_until(lambda: letter(holder.pid) == "Z")
    assert table(device)[holder.pid]["state"] == "defunct"


@pytest.mark.parametrize("leader", ["gone", "itself"])
def test_processes_an_orphan_has_lost_its_session(device: Path, leader: str) -> None:
    """Its shell led the session and ended; one that leads its own session is a daemon like any other."""
    inner = shlex.join([sys.executable, "-c", HOLD, str(device)])
    script = f"{inner} & echo $!" if leader == "gone" else f"setsid {inner} & echo $!"
    with subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True) as shell:
        assert shell.stdout is not None
        pid = int(shell.stdout.readline())
        assert shell.stdout.readline() == "ready\n"
        shell.wait()
        try:
            if stat_fields(pid)[1] != "1":
                pytest.skip("a subreaper stands above the tests")
            entry = table(device)[pid]
            assert entry["devices"] == [str(device)]
            assert entry["state"] == ("orphaned" if leader == "gone" and not entry["service"] else "running")
        finally:
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("ppid", "sid", "name", "expected"),
    [
        (1, 50, "python", True),  # adopted, its session's leader is gone
        (1, 60, "python", True),  # the leader is there, but defunct
        (1, 70, "python", False),  # the leader lives: a job of a shell
        (1, 100, "python", False),  # leads its own session: a daemon
        (1, 0, "python", False),  # a session of another namespace
        (80, 50, "python", True),  # adopted by a user's systemd
        (70, 50, "python", False),  # its parent lives
        (1, 50, "nvidia-persiste", False),  # the driver's own daemon
    ],
)
def test_processes_what_may_be_left_over(ppid: int, sid: int, name: str, expected: bool) -> None:
    known = {
        60: {"pid": 60, "letter": "Z", "name": "sh"}, 70: {"pid": 70, "letter": "S", "name": "bash"},
        80: {"pid": 80, "letter": "S", "name": "systemd"},
    }  # fmt: skip
    entry = {"pid": 100, "ppid": ppid, "sid": sid, "letter": "S", "name": name}
    assert load("processes").may_be_left_over(entry, {**known, 100: entry}) is expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("0::/system.slice/nvidia-persistenced.service\n", True),
        ("1:name=systemd:/system.slice/cron.service\n0::/\n", True),
        ("0::/user.slice/user-1000.slice/session-3.scope\n", False),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/run.scope\n", False),
        ("0::/user.slice/user-1000.slice/user@1000.service\n", False),
        ("0::/\n", False),
    ],
)
def test_processes_which_group_is_a_service(monkeypatch: pytest.MonkeyPatch, body: str, expected: bool) -> None:
    module = load("processes")
    monkeypatch.setattr(module, "read", lambda path: body)
    assert module.in_service(1) is expected


@pytest.mark.parametrize("background", [False, True])
def test_processes_the_doctor_and_its_children_are_left_out(device: Path, background: bool) -> None:
    """Also what they put into a session of its own, and what lost its parent in there."""
    hold = shlex.join([sys.executable, "-c", HOLD, str(device)])
    script = f"({hold} &); sleep 50" if background else f"{hold}; true"
    code = f"import subprocess\nsubprocess.Popen(['sh', '-c', {script!r}], start_new_session=True).wait()"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as doctor:
        assert doctor.stdout is not None
        assert doctor.stdout.readline() == "ready\n"
        (held,) = [entry for entry in table(device).values() if "devices" in entry]
        without = table(device, "--doctor", str(doctor.pid))
        os.killpg(held["sid"], signal.SIGKILL)
        assert doctor.pid not in without
        assert held["pid"] not in without
        assert os.getpid() in without


def test_processes_without_psutil_say_the_same(device: Path, holder: subprocess.Popen[str], tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "psutil.py").write_text("print('{\"event\": \"noise\"}')\nraise ImportError('no psutil today')")
    events = run("processes", "--device-prefix", str(device), PYTHONPATH=str(broken))
    assert events[-1]["provider"] == "/proc"
    assert "no psutil today" in events[-1]["provider_error"]
    plain, usual = table(device, PYTHONPATH=str(broken)), table(device)
    for pid in (holder.pid, os.getpid()):
        assert {**plain[pid], "start_time": 0} == {**usual[pid], "start_time": 0}
        assert abs(plain[pid]["start_time"] - usual[pid]["start_time"]) < 2


def test_processes_threads_of_one_that_ended_may_be_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """What may not be listed is not "holds nothing"; what ended meanwhile is."""
    module = load("processes")
    for wrong, readable in ((PermissionError, False), (ProcessLookupError, True)):
        monkeypatch.setattr(module.os, "listdir", raising(wrong))
        assert module.devices(1, "Z", "/dev/nvidia") == (set(), readable)


def test_processes_a_thread_that_ended_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load("processes")

    def held(folder: str, _prefixes: tuple[str, ...]) -> set[str]:
        if "/8/" in folder:
            raise FileNotFoundError(folder)
        return {"/dev/nvidia0"} if "/9/" in folder else set()

    monkeypatch.setattr(module.os, "listdir", lambda _folder: ["7", "8", "9"])
    monkeypatch.setattr(module, "held_open", held)
    assert module.devices(7, "Z", "/dev/nvidia") == ({"/dev/nvidia0"}, True)


def test_processes_kernel_threads_are_left_out(device: Path) -> None:
    if not os.path.isdir("/proc/2") or not int(stat_fields(2)[6]) & 0x00200000:
        pytest.skip("no kernel threads in this PID namespace")
    assert 2 not in table(device)


def test_processes_whether_others_could_be_read(device: Path) -> None:
    python = "/usr/bin/python3"
    if os.getuid() != 0 or shutil.which("setpriv") is None or not os.path.exists(python):
        pytest.skip("needs root and setpriv, to step down from")
    step_down = ["setpriv", "--reuid", "65534", "--clear-groups", "--bounding-set", "-all"]
    lines, source = ((WORKERS / f"{name}.py").read_text().replace("__file__.", "'/none'.") for name in ("cudadoctor_lines", "processes"))
    head, _, rest = source.partition("from cudadoctor_lines import ")
    source = f"{head}exec({lines!r})  # {rest}"
    done = subprocess.run([*step_down, python, "-u", "-B", "-"], input=source, capture_output=True, text=True, check=False, cwd="/")
    if done.returncode != 0:
        pytest.skip(f"cannot step down here: {done.stderr[-200:]}")
    assert json.loads(done.stdout.splitlines()[-1])["complete"] is False


# ---------------------------------------------------------------- all of them
@pytest.mark.parametrize("name", ["nvml", "processes", "python_env"])
def test_workers_run_on_python_3_8(name: str, tmp_path: Path) -> None:
    python = old_python()
    if python is None:
        pytest.skip("no Python 3.8 here")
    events, done = run_raw(name, python=python, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    place, event = {"nvml": (0, "nvml"), "processes": (-1, "processes"), "python_env": (0, "python")}[name]
    assert events[place]["event"] == event
    assert not of(events, "error")


@pytest.mark.parametrize("name", OWN)
def test_workers_import_nothing_of_ours(name: str) -> None:
    assert "cudadoctor." not in (WORKERS / f"{name}.py").read_text().replace("cudadoctor_", "")


@pytest.mark.parametrize("count", ["-1", "1000000000"])
def test_nvml_a_number_of_gpus_that_is_none_is_not_counted_to(count: str, nvml_folder: str) -> None:
    began = time.monotonic()
    events = run("nvml", LD_LIBRARY_PATH=nvml_folder, FAKE_NVML_GPUS=count)
    assert time.monotonic() - began < 5
    assert of(events, "gpu") == []
    assert of(events, "error")[0]["error"] == f"nvmlDeviceGetCount says {int(count) % 2**32}"


def test_the_folder_of_the_workers_leaves_the_search_path_through_a_link_too(tmp_path: Path) -> None:
    (tmp_path / "workers").mkdir()
    shutil.copy(WORKERS / "cudadoctor_lines.py", tmp_path / "workers")
    head = (WORKERS / "frameworks.py").read_text().partition("# isort: split")[0]
    (tmp_path / "workers" / "worker.py").write_text(f"{head}\nprint(sys.path)\n")
    (tmp_path / "link").symlink_to(tmp_path / "workers")
    for folder in ("workers", "link"):
        argv = [sys.executable, "-u", "-B", str(tmp_path / folder / "worker.py")]
        said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
        assert str(tmp_path) not in said
