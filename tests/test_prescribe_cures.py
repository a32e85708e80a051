"""What can be cured on the spot, run by a shell; processes are ended only while they are the ones that were seen."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from cudadoctor.model.recipe import Prescription
from cudadoctor.model.values import (
    CAP_DAC_OVERRIDE,
    CAPABILITIES,
    DEVICE_NODES,
    ENVIRONMENT,
    KEEPING_FILES,
    MODULE_FILES,
    NVIDIA_MODPROBE,
    PROCESSES,
    PYTHON,
    TOOLKITS,
    USER,
    ConfigLine,
    Environment,
    Process,
    Processes,
    PythonEnvironment,
    Toolkit,
    Toolkits,
)
from cudadoctor.model.version import ToolkitVersion
from tests import command_line
from tests.facts_builder import fact, nodes, user
from tests.judging import KNOWLEDGE
from tests.prescriptions import (
    LINUX,
    ROOT_USER,
    commands,
    shells,
    written,
)


# ---------------------------------------------------------------- what can be cured on the spot, run by a shell
def run(script: str, environment: dict[str, str] | None = None, cwd: Path | None = None) -> str:
    result = subprocess.run(
        ["bash", "-c", script],
        env={"PATH": "/usr/bin:/bin", **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        timeout=60,
    )
    return result.stdout.strip()


unix = pytest.mark.skipif(sys.platform != "linux", reason="runs commands for Linux")


@unix
@pytest.mark.parametrize(
    ("cause", "variable"),
    [
        ("cuda-visible-devices-hides-all", "CUDA_VISIBLE_DEVICES"),
        ("cuda-visible-devices-invalid", "CUDA_VISIBLE_DEVICES"),
        ("numba-simulator-enabled", "NUMBA_ENABLE_CUDASIM"),
        ("numba-cuda-disabled", "NUMBA_DISABLE_CUDA"),
    ],
)
def test_variables_are_taken_away(cause: str, variable: str) -> None:
    found = commands(written(cause, {ENVIRONMENT: Environment(variables={variable: "1"}, lines={})}))
    assert run(f"{found}\necho ${{{variable}-gone}}", {variable: "1"}).endswith("gone")


@unix
def test_an_empty_device_order_is_taken_away() -> None:
    found = commands(written("cuda-visible-devices-invalid", {}, {"variable": "CUDA_DEVICE_ORDER", "value": ""}))
    assert run(f"{found}\necho ${{CUDA_DEVICE_ORDER-gone}}", {"CUDA_DEVICE_ORDER": ""}).endswith("gone")


@unix
def test_cuda_home_points_to_the_toolkit_that_is_there() -> None:
    here = {TOOLKITS: Toolkits(toolkits=(Toolkit(path="/usr/local/cuda", version=ToolkitVersion("12.4"), has_nvcc=True),))}
    same = {ENVIRONMENT: Environment(variables={"CUDA_HOME": "/gone", "CUDA_PATH": "/gone"}, lines={})}
    found = commands(written("cuda-home-wrong", {**here, **same}, {"variable": "CUDA_HOME", "value": "/gone"}))
    assert run(f"{found}\necho $CUDA_HOME:$CUDA_PATH", {"CUDA_HOME": "/gone", "CUDA_PATH": "/gone"}).endswith(
        "/usr/local/cuda:/usr/local/cuda"
    )
    nowhere = commands(written("cuda-home-wrong", {}, {"variable": "CUDA_PATH", "value": "/gone", "path": ""}))
    assert run(f"{nowhere}\necho ${{CUDA_PATH-gone}}", {"CUDA_PATH": "/gone"}).endswith("gone")
    stated = commands(written("cuda-home-wrong", here, {"variable": "CUDA_HOME", "value": "x:", "path": "/opt/cuda 12"}))
    assert run(f"{stated}\necho $CUDA_HOME").endswith("/opt/cuda 12")


@unix
@pytest.mark.parametrize(
    ("values", "before", "after"),
    [
        ({"kept": "/a:/b c", "path": "/x/stubs/libcuda.so.1"}, "/x/stubs:/a:/b c", "/a:/b c"),
        ({"kept": "", "path": "/x/stubs/libcuda.so.1"}, "/x/stubs", "gone"),
        ({"path": "/tmp/link to stub/libcuda.so.1"}, "/tmp/link to stub/:/a:/x/stubs/:/b", "/a:/b"),
        ({}, "/usr/local/cuda/lib64/stubs:/a", "/a"),
    ],
)
def test_stubs_leave_the_library_path(values: dict[str, str], before: str, after: str) -> None:
    found = commands(written("libcuda-stub-loaded", {}, values))
    assert run(f"{found}\necho ${{LD_LIBRARY_PATH-gone}}", {"LD_LIBRARY_PATH": before}).endswith(after)
    assert "stubs" not in run(f"{found}\necho ${{LD_LIBRARY_PATH-gone}}", {"LD_LIBRARY_PATH": before})


@unix
def test_compat_leaves_the_library_path() -> None:
    found = shells(written("forward-compat-unsupported", {USER: ROOT_USER}))[0]
    assert run(f"{found}\necho $LD_LIBRARY_PATH", {"LD_LIBRARY_PATH": "/usr/local/cuda-12/compat:/a:/compatible"}) == "/a:/compatible"


@unix
def test_libcuda_outside_the_loaders_path_is_put_on_it() -> None:
    found = written("libcuda-missing", {USER: ROOT_USER}, {"path": "/opt/driver lib/libcuda.so.1"})
    exports = next(line for line in shells(found) if line.startswith("export"))
    assert run(f"{exports}\necho $LD_LIBRARY_PATH", {"LD_LIBRARY_PATH": "/a"}) == "/opt/driver lib:/a"
    assert run(f"{exports}\necho $LD_LIBRARY_PATH") == "/opt/driver lib"
    standard = written("libcuda-missing", {USER: ROOT_USER}, {"path": "/usr/lib/x86_64-linux-gnu/libcuda.so.580.1"})
    assert shells(standard)[0] == "ldconfig"
    assert "export" not in commands(standard)
    assert "apt-get" not in commands(standard)
    for strange in ("/tmp/.evil/lib/libcuda.so.1", "/home/mallory/lib/libcuda.so.1", "/opt/../tmp/x/libcuda.so.1"):
        assert "export" not in commands(written("libcuda-missing", {USER: ROOT_USER}, {"path": strange})), "it would be loaded by everybody"


@pytest.fixture
def anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests' own folder lies in /tmp, which no command names."""
    for name in ("numba_config", "path", "new_path"):
        monkeypatch.setitem(KNOWLEDGE.placeholder_forms, name, re.compile("/.+"))


@unix
@pytest.mark.usefixtures("anywhere")
def test_the_line_leaves_numbas_file_and_comes_back(tmp_path: Path) -> None:
    config = tmp_path / "my work" / ".numba_config.yaml"
    config.parent.mkdir()
    config.write_text("opt: 3\n  Enable_CUDASIM : 1\nthreading_layer: omp\n")
    environment = PythonEnvironment(
        path="/p", version="3.12", numba_config=(ConfigLine(path=str(config), line=2, text="Enable_CUDASIM : 1"),)
    )
    state = {PYTHON: environment, ENVIRONMENT: Environment(variables={}, lines={})}
    found = written("numba-simulator-enabled", state, {"variable": "enable_cudasim", "path": str(config)})
    run(commands(found))
    assert config.read_text() == "opt: 3\nthreading_layer: omp\n"
    (undo,) = [step.undo for step in found.steps if step.undo]
    run(undo)
    assert "CUDASIM" in config.read_text()


@unix
@pytest.mark.usefixtures("anywhere")
def test_the_file_is_renamed_and_nothing_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "numba.py"
    path.write_text("mine")
    found = commands(written("python-module-shadowed", {}, {"path": str(path)}))
    run(found)
    assert (tmp_path / "my_numba.py").read_text() == "mine"
    path.write_text("second")
    run(found)
    assert path.read_text() == "second"


def test_a_file_that_a_variable_brought_in_goes_with_the_variable() -> None:
    """The file may be another user's: the variable is what the user has in hand."""
    values = {"path": "/opt/old/numba/__init__.py", "variable": "PYTHONPATH", "value": "/opt/old", "kept": ""}
    whole = {name: value for name, value in values.items() if name != "kept"}
    steps = written("python-module-shadowed", {}, {**values, "kept": "/opt/a:/opt/b"}).steps
    assert steps[0].shell == "export PYTHONPATH=/opt/a:/opt/b"
    steps = written("python-module-shadowed", {}, whole).steps
    assert steps[0].shell == "unset PYTHONPATH"
    assert [step.mode for step in steps if "mv " in (step.shell or "")] == ["or"]


def test_a_recording_uninstalls_no_package_by_the_name_that_it_gives() -> None:
    values = {"path": "/v/lib/python3.12/site-packages/cuda", "owning_package": "torch-evil"}
    seen = fact(PYTHON, PythonEnvironment(path="/v/bin/python", version="3.12.3"), origin="recording")
    assert "torch-evil" not in commands(written("python-module-shadowed", {PYTHON: seen}, values))


# ---------------------------------------------------------------- processes
@pytest.mark.parametrize("name", ["cuda-stubs", "cuda;reboot", "-r/etc/passwd"])
def test_the_package_that_closes_a_name_is_uninstalled_if_its_name_is_one(name: str) -> None:
    found = written("python-module-shadowed", {}, {"path": "/v/lib/python3.12/site-packages/cuda", "owning_package": name})
    assert ("pip uninstall -y cuda-stubs" in commands(found)) == (name == "cuda-stubs")
    assert name == "cuda-stubs" or name not in commands(found)
    assert "mv " not in commands(found), "the file is not the user's to rename"


def ending(process: Process, cause: str = "zombie-gpu-process", who: Any = None) -> Prescription:
    others = (Process(pid=process.ppid, start_time=process.start_time),) if process.ppid and process.ppid > 1 else ()
    state = {PROCESSES: Processes(processes=(process, *others)), USER: who or user()}
    return written(cause, state, {"pid": str(process.pid), "pids": str(process.pid)})


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(["sleep", "300"])
    yield child
    child.kill()
    child.wait()


_SLOW = "import signal, time\nsignal.signal(15, lambda *_: (time.sleep(1), exit()))\nprint(flush=True)\nwhile True: time.sleep(1)"


@pytest.fixture
def slow() -> Iterator[subprocess.Popen[str]]:
    """A process that ends one second after it was asked to."""
    with subprocess.Popen([sys.executable, "-c", _SLOW], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        child.stdout.readline()
        threading.Thread(target=child.wait, daemon=True).start()  # a dead process stays in the table until its parent asks
        yield child
        child.kill()


@unix
@pytest.mark.parametrize("cause", ["zombie-gpu-process", "gpu-memory-held-by-others"])
def test_a_process_is_ended_only_while_it_is_the_one_that_was_seen(cause: str, sleeper: subprocess.Popen[bytes]) -> None:
    start = psutil.Process(sleeper.pid).create_time()
    for moved in (-60, 60):
        other = ending(Process(pid=sleeper.pid, own=True, start_time=start + moved), cause)
        run(next(line for line in shells(other) if "kill " in line))
        time.sleep(0.2)
        assert sleeper.poll() is None
    fresh = ending(Process(pid=sleeper.pid, own=True, start_time=start), cause)
    run(next(line for line in shells(fresh) if "kill " in line))
    assert sleeper.wait(10) == -15


@unix
def test_the_check_of_a_process_waits_for_its_end_and_that_of_force_fails_while_it_runs(slow: subprocess.Popen[str]) -> None:
    steps = ending(Process(pid=slow.pid, own=True, start_time=psutil.Process(slow.pid).create_time())).steps
    asked, forced = (step for step in steps if "kill " in (step.shell or ""))

    def checked(verify: str | None) -> tuple[int, bool]:
        assert verify is not None
        done = subprocess.run(["bash", "-c", verify], capture_output=True, text=True, check=False)
        return done.returncode, str(slow.pid) in done.stdout

    assert (checked(asked.verify), checked(forced.verify)) == ((0, True), (1, True)), "it runs"
    run(asked.shell or "")
    assert (checked(asked.verify), checked(forced.verify)) == ((0, False), (0, False))


@unix
def test_the_models_of_ollama_are_taken_out_one_by_one(tmp_path: Path) -> None:
    """By a program in Ollama's place that prints its table and keeps what it was called with."""
    table = (
        "NAME               ID              SIZE     PROCESSOR    CONTEXT    UNTIL\nqwen3:8b           500a1f067a9f    10 GB    100% GPU     40960      Forever\n"
        "llama3.2:latest    a80c4f17acd5    3.4 GB   100% GPU     4096       4 minutes from now\n"
    )
    program = tmp_path / "ollama"
    program.write_text(f'#!/bin/sh\n[ "$1" = ps ] && cat {tmp_path}/table || echo "$@" >> {tmp_path}/calls\n')
    program.chmod(0o755)
    seen = Process(pid=4711, own=False, user="ollama", command="/usr/local/bin/ollama runner --port 40001", start_time=1.7e9)
    (step,) = [step for step in ending(seen).steps if "ollama stop" in (step.shell or "")]
    for printed, calls in ((table, "stop qwen3:8b\nstop llama3.2:latest\n"), (table.splitlines()[0] + "\n", "")):
        (tmp_path / "table").write_text(printed)
        (tmp_path / "calls").write_text("")
        run(step.shell or "", {"PATH": f"{tmp_path}:/usr/bin:/bin"})
        assert (tmp_path / "calls").read_text() == calls


@unix
@pytest.mark.parametrize(
    ("bar", "status"), [("Memory at <unassigned> (64-bit, prefetchable)", 1), ("Memory at 38000000000 (64-bit)", 0), (None, 127)]
)
def test_a_window_without_an_address_fails_the_check_and_so_does_a_missing_lspci(bar: str | None, status: int, tmp_path: Path) -> None:
    (verify,) = [step.verify for step in KNOWLEDGE.recipe("open-pci-window").steps if step.verify]
    lspci = tmp_path / "lspci"
    if bar is not None:
        lspci.write_text(f"#!/bin/sh\necho '01:00.0 3D controller: NVIDIA Corporation GH100\n\t{bar}'\n")
        lspci.chmod(0o755)
    assert subprocess.run(["/bin/bash", "-c", verify.replace("lspci", str(lspci))], check=False).returncode == status


@unix
@pytest.mark.parametrize("cause", ["zombie-gpu-process", "gpu-memory-held-by-others"])
@pytest.mark.parametrize("known", [True, False])
def test_a_stopped_process_goes_on_so_that_the_signal_reaches_it(cause: str, known: bool, sleeper: subprocess.Popen[bytes]) -> None:
    """`known`: since when it runs; a text's table may not say so."""
    sleeper.send_signal(signal.SIGSTOP)
    seen = Process(pid=sleeper.pid, own=True, state="stopped", start_time=psutil.Process(sleeper.pid).create_time() if known else None)
    state = {PROCESSES: Processes(processes=(seen,), provider=None if known else "ps"), USER: user()}
    found = written(cause, state, {"pid": str(sleeper.pid), "pids": str(sleeper.pid)})
    run(next(line for line in shells(found) if "kill " in line))
    assert sleeper.wait(10) == -15


def test_looking_comes_before_ending_and_force_last() -> None:
    found = ending(Process(pid=4711, own=True, start_time=1.7e9))
    lines = [step for step in found.steps if step.shell and "4711" in step.shell]
    assert [bool(re.search(r"kill 4711", line.shell or "")) for line in lines] == [False, True, False]
    assert "kill -9 4711" in (lines[2].shell or "")
    assert [line.kind for line in lines] == ["reads", "destructive", "destructive"]
    assert "fuser" in commands(found)


@pytest.mark.parametrize(
    ("process", "who", "words"),
    [
        (Process(pid=4711, own=False, user="bob", start_time=1.7e9), user(), "bob"),
        (Process(pid=4711, own=True, service=True, start_time=1.7e9), user(), "systemctl stop"),
        (Process(pid=4711, own=True, namespaced=True, start_time=1.7e9), user(), "container"),
        (Process(pid=4711, own=True), user(), "4711"),
    ],
)
def test_a_process_that_is_not_ours_to_end_is_not_ended(process: Process, who: Any, words: str) -> None:
    found = ending(process, who=who)
    assert "kill" not in commands(found)
    assert any(words in step.text for step in found.steps)


@pytest.mark.parametrize("cause", ["zombie-gpu-process", "gpu-memory-held-by-others"])
def test_no_step_speaks_of_a_command_that_compares_a_start_where_none_is_known(cause: str) -> None:
    steps = ending(Process(pid=4711, own=True), cause).steps
    assert [step for step in steps if step.kind == "reads" and "4711" in (step.shell or "")], "it can be looked at"
    assert not [step.text for step in steps if step.kind == "destructive" and step.shell is None]


def test_where_no_table_was_read_nobody_knows_where_a_process_is() -> None:
    found = written("zombie-gpu-process", {PROCESSES: None, USER: user()}, {"pid": "4711", "pids": "4711"})
    assert not [step.text for step in found.steps if "not visible from here" in step.text]


def test_root_may_end_the_process_of_another_user() -> None:
    assert "kill 4711" in commands(ending(Process(pid=4711, own=False, user="bob", start_time=1.7e9), who=ROOT_USER))


def test_a_dead_process_is_collected_through_its_parent() -> None:
    found = commands(ending(Process(pid=4711, ppid=4000, own=True, state="defunct", start_time=1.7e9)))
    assert "kill 4000" in found
    assert "kill 4711" not in found


def test_several_processes_each_get_their_steps() -> None:
    table = Processes(processes=tuple(Process(pid=pid, own=True, start_time=1.7e9) for pid in (11, 12)))
    found = commands(written("gpu-memory-held-by-others", {PROCESSES: table}, {"pid": "11", "pids": "11 12"}))
    assert found.index("kill 11") < found.index("kill -9 11") < found.index("kill 12")


def test_nobody_known_to_hold_the_memory() -> None:
    found = written("zombie-gpu-process", {}, {"pid": "", "pids": ""})
    assert "kill" not in commands(found)
    assert any("Reset the GPU" in step.text for step in found.steps)


# ---------------------------------------------------------------- device files, schedulers
def test_device_files_are_made_by_the_helper_where_it_is_there() -> None:
    assert "nvidia-modprobe -u" in commands(written("device-nodes-missing", {NVIDIA_MODPROBE: "/usr/bin/nvidia-modprobe"}))
    by_hand = commands(written("device-nodes-missing", {NVIDIA_MODPROBE: None, USER: ROOT_USER}))
    assert "mknod -m 666 /dev/nvidiactl c 195 255" in by_hand
    assert "nvidia-modprobe" not in by_hand
    assert any("--gpus all" in step.text for step in written("device-nodes-missing", {CAPABILITIES: ()}).steps)


@unix
def test_the_number_of_nvidia_uvm_is_read_when_the_command_runs(tmp_path: Path) -> None:
    (tmp_path / "devices").write_text("Character devices:\n195 nvidia\n238 nvidia-uvm\n239 nvidia-uvm-x\n")
    found = commands(written("uvm-unavailable", {USER: ROOT_USER}))
    lines = [line for line in found.split("\n") if line.startswith("mknod")]
    script = "\n".join(lines).replace("/proc/devices", str(tmp_path / "devices")).replace("mknod", "echo")
    assert run(script) == "-m 666 /dev/nvidia-uvm c 238 0\n-m 666 /dev/nvidia-uvm-tools c 238 1"


def test_a_group_that_may_open_the_files_is_joined() -> None:
    state = {DEVICE_NODES: nodes("nvidia0", "nvidiactl", mode="crw-rw----", group="video"), USER: user("ada lovelace")}
    found = commands(written("device-permission-denied", state))
    assert "sudo usermod -aG video 'ada lovelace'" in found
    assert "chmod" not in found
    closed = {DEVICE_NODES: nodes("nvidia0", "nvidiactl", mode="crw-------"), USER: ROOT_USER}
    assert "chmod a+rw /dev/nvidiactl" in commands(written("device-permission-denied", closed))
    bounded = {**state, USER: ROOT_USER, CAPABILITIES: tuple(range(CAP_DAC_OVERRIDE + 1, 38))}
    assert [step.text for step in written("device-permission-denied", bounded).steps if "--cap-add DAC_OVERRIDE" in step.text]
    assert "usermod" not in commands(written("device-permission-denied", bounded))


@pytest.mark.parametrize("system", LINUX)
def test_an_access_list_is_taken_off_by_one_command_everywhere(system: str) -> None:
    """An image brings setfacl: rpm-ostree refuses a package that is part of it, and what transactional-update adds is there after a restart."""
    found = commands(written("device-permission-denied", {USER: user()}, {"acl": "yes", "place": "/dev/nvidia0"}, system))
    assert "sudo setfacl -b /dev/nvidia0" in found
    assert "rpm-ostree" not in found
    assert "transactional-update" not in found
    assert ("apt-get install -y acl" in found) == (system.startswith(("ubuntu", "debian", "pop", "linuxmint", "lmde", "kali", "wsl")))


@pytest.mark.parametrize(
    ("variable", "command"), [("SLURM_JOB_ID", "srun --gpus=1"), ("PBS_JOBID", "qsub"), ("LSB_JOBID", "bsub"), ("JOB_ID", None)]
)
def test_the_scheduler_is_asked_in_its_own_words(variable: str, command: str | None) -> None:
    found = shells(written("scheduler-gave-no-gpu", {ENVIRONMENT: Environment(variables={variable: "17"}, lines={})}))
    assert [line for line in found if command and line.startswith(command)] == found
    assert bool(found) == (command is not None)


def test_a_stub_that_the_loaders_cache_names_leaves_its_configuration() -> None:
    """No variable leads there, so none is changed."""
    out = command_line.run("fix", "--replay", command_line.host("h200-stub-in-the-loader-cache")).out
    assert "      ldconfig\n" in out
    assert "grep -rn stubs /etc/ld.so.conf" in out
    assert "LD_LIBRARY_PATH" not in out


@unix
def test_the_gpu_of_a_wsl_distribution_is_switched_on_in_its_own_section(tmp_path: Path) -> None:
    """As bash carries the step out, on a file in place of /etc/wsl.conf."""
    conf = tmp_path / "wsl.conf"
    before = "[boot]\nsystemd=true\n\n[gpu]\nenabled = false\n\n[interop]\nenabled=false\n"
    conf.write_text(before)
    steps = KNOWLEDGE.recipe("switch-wsl-gpu-on").steps
    for command, after in ((steps[0].shell, before.replace("enabled = false", "enabled=true")), (steps[0].undo, before)):
        assert command is not None
        subprocess.run(["sh", "-ec", command.replace("/etc/wsl.conf", str(conf))], check=True)
        assert conf.read_text() == after


@unix
def test_the_files_of_modprobe_let_a_gpu_go_and_take_it_back(tmp_path: Path) -> None:
    """As a shell carries the step out, on files in place of /etc/modprobe.d: a controller's line and somebody's own comment stay."""
    gpu = "options vfio-pci ids=10de:1f02,10de:10f9 disable_vga=1\nsoftdep nvidia_drm pre: vfio-pci\n"
    others = "options vfio-pci ids=8086:1533\nsoftdep nvidia post: nvidia-uvm\n# a softdep\n# options vfio-pci ids=10de:1b80\n"
    (tmp_path / "vfio.conf").write_text(gpu)
    (tmp_path / "more.conf").write_text(others)
    (step,) = [step for step in KNOWLEDGE.recipe("release-from-vfio").steps if step.when == "vfio-in-files own-files !windows"]

    def carried_out(command: str | None) -> int:
        assert command is not None
        return subprocess.run(["sh", "-ec", command.replace("/etc/modprobe.d", str(tmp_path))], check=False).returncode

    assert carried_out(step.verify) == 1, "nothing was done yet"
    assert carried_out(step.shell) == carried_out(step.verify) == 0
    assert (tmp_path / "vfio.conf").read_text() == "".join(f"#vfio# {line}\n" for line in gpu.splitlines())
    assert carried_out(step.undo) == 0
    assert ((tmp_path / "vfio.conf").read_text(), (tmp_path / "more.conf").read_text()) == (gpu, others)
    (tmp_path / "mixed.conf").write_text("options vfio-pci ids=8086:1533,10de:1f02\n")
    assert carried_out(f"{step.shell}\n{step.verify}") == 1, "a line that names another device too is left, and said"


@unix
@pytest.mark.skipif(shutil.which("systemctl") is None, reason="systemd is not here")
def test_the_unit_that_makes_the_files_of_uvm_is_one_that_systemd_takes(tmp_path: Path) -> None:
    """Written, enabled and taken back in a folder in place of the root file system."""
    units = tmp_path / "etc/systemd/system"
    units.mkdir(parents=True)
    (step,) = [step for step in KNOWLEDGE.recipe("load-uvm").steps if "nvidia-uvm-nodes.service" in (step.shell or "")]

    def carried_out(command: str | None) -> str:
        assert command is not None
        here = command.replace("systemctl ", f"systemctl --root={tmp_path} ").replace("/etc/systemd/system", str(units))
        return subprocess.run(["sh", "-ec", here], check=True, capture_output=True, text=True).stdout

    carried_out(step.shell)
    assert carried_out(step.verify) == "enabled\n"
    found = subprocess.run(["systemd-analyze", "verify", units / "nvidia-uvm-nodes.service"], check=False, capture_output=True, text=True)
    assert [line for line in found.stderr.splitlines() if "is not executable" not in line] == [], "the program is not on this machine"
    carried_out(step.undo)
    assert [path for path in units.rglob("*") if not path.is_dir()] == []


def test_a_gpu_for_guests_is_given_to_no_driver_that_is_not_there() -> None:
    known = {"address": "0000:01:00.0"}
    assert "modprobe nvidia" in commands(written("vfio-bound", {}, known))
    found = written("vfio-bound", {MODULE_FILES: ()}, known)
    assert "modprobe nvidia" not in commands(found)
    assert any(step.text.startswith("No NVIDIA driver is installed on this machine") for step in found.steps)


# ---------------------------------------------------------------- steps, tried on files and with programs that stand in
def step_of(recipe: str, words: str) -> Any:
    """The one step of a recipe in whose commands or text these words stand."""
    (found,) = [step for step in KNOWLEDGE.recipe(recipe).steps if words in f"{step.text}{step.shell}{step.shells}{step.verify}"]
    return found


def stand_in(folder: Path, program: str, prints: str, *, status: int = 0) -> dict[str, str]:
    """A program that prints this and notes how it was called, and the PATH on which it is first."""
    (folder / f"{program}.out").write_text(prints)
    (folder / program).write_text(f'#!/bin/sh\necho "$@" >> {folder}/calls\ncat {folder}/{program}.out\nexit {status}\n')
    (folder / program).chmod(0o755)
    return {"PATH": f"{folder}:/usr/bin:/bin"}


def status_of(script: str | None, environment: dict[str, str] | None = None) -> int:
    """As fix --apply runs it: each line for itself, up to the first that fails."""
    assert script is not None
    for line in filter(None, script.split("\n")):
        done = subprocess.run(["sh", "-euc", line], check=False, env=environment, capture_output=True)
        if done.returncode:
            return done.returncode
    return 0


@unix
def test_the_lines_that_keep_the_module_out_are_commented_out_and_no_others(tmp_path: Path) -> None:
    keeping = "blacklist nvidia\nblacklist nvidia_drm\ninstall nvidia-uvm /bin/false\nalias nvidia off\n"
    others = "blacklist nvidiafb\ninstall nvidia modprobe -i nvidia-current $CMDLINE_OPTS\nalias nvidia nvidia-current\noptions nvidia-drm modeset=1\n"
    step = step_of("load-module", "keep the module out; comment")
    first, second = tmp_path / "a.conf", tmp_path / "b.conf"
    first.write_text(keeping + others)
    second.write_text("blacklist nvidia\n")

    def carried_out(script: str | None) -> int:
        return status_of((script or "").replace("{keeping_files}", f"{first} {second}"))

    assert carried_out(step.verify) == 1, "nothing was done yet"
    assert carried_out(step.shell) == carried_out(step.verify) == 0
    assert first.read_text() == "".join(f"#kept-out# {line}\n" for line in keeping.splitlines()) + others
    assert carried_out(step.undo) == 0
    assert (first.read_text(), second.read_text()) == (keeping + others, "blacklist nvidia\n")
    first.write_text(others)
    second.unlink()
    assert carried_out(step.verify) not in (0, 1), "what cannot be read is not known to be free of them"


@pytest.mark.parametrize(
    ("files", "edited"),
    [
        (("/etc/modprobe.d/a.conf",), True),
        (("/etc/modprobe.d/a.conf", "/etc/modprobe.d/b.conf"), True),
        (("/etc/modprobe.d/a.conf", "/usr/lib/modprobe.d/b.conf"), False),  # a package's own file: the next update writes it again
    ],
)
def test_all_files_that_keep_the_module_out_are_named_or_looked_for(files: tuple[str, ...], edited: bool) -> None:
    found = commands(written("driver-not-loaded", {KEEPING_FILES: files}))
    assert (" ".join(files) in found, "grep -rnE" in found) == (edited, not edited)


@unix
@pytest.mark.parametrize(("listed", "status", "made"), [("base", 0, True), ("gpu", 0, False), ("gpu2", 0, True), ("base", 1, False)])
@pytest.mark.parametrize(("recipe", "name"), [("make-newer-python", "gpu"), ("use-older-host-compiler", "gcc-13")])
def test_no_environment_of_condas_is_replaced(recipe: str, name: str, listed: str, status: int, made: bool, tmp_path: Path) -> None:
    """`conda create -y` takes away what has that name. Where conda cannot list its environments nobody knows whether one has it."""
    table = f"# conda environments:\n#\nbase                  *  /opt/conda\n{listed.replace('gpu', name)}    /opt/conda/envs/x\n"
    calls = stand_in(tmp_path, "conda", table, status=status)
    scripts = {step.shell for step in KNOWLEDGE.recipe(recipe).steps if "conda create" in (step.shell or "")}
    assert scripts
    for script in scripts:
        (tmp_path / "calls").write_text("")
        status_of(script.replace("{gcc}", "13").replace("{wanted_python}", "3.12"), calls)
        assert (f"create -y -n {name} " in (tmp_path / "calls").read_text()) is made


@unix
@pytest.mark.skipif(shutil.which("apt-cache") is None, reason="needs apt")
def test_a_pinned_repository_gives_no_candidate(tmp_path: Path) -> None:
    """With apt itself, and lists of two repositories that both have the driver."""
    step = step_of("put-driver-packages-right", "without-nvidia-repository")
    for folder in ("etc/apt/preferences.d", "etc/apt/sources.list.d", "lists/partial", "cache/archives/partial"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "status").touch()
    entries = ("https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/ /", "http://deb.example.org/debian bookworm main")
    (tmp_path / "etc/apt/sources.list").write_text("".join(f"deb [trusted=yes] {entry}\n" for entry in entries))
    for name, version in (
        ("developer.download.nvidia.com_compute_cuda_repos_debian12_x86%5f64_Packages", "580.1-1"),
        ("deb.example.org_debian_dists_bookworm_main_binary-amd64_Packages", "535.1-1"),
    ):
        (tmp_path / "lists" / name).write_text(
            f"Package: nvidia-driver\nVersion: {version}\nArchitecture: amd64\nFilename: a.deb\nSize: 1\n\n"
        )
    places = {"Dir::Etc": "etc/apt", "Dir::State::lists": "lists", "Dir::State::status": "status", "Dir::Cache": "cache"}
    options = " ".join(f"-o {name}={tmp_path / place}" for name, place in places.items())

    def here(words: str) -> str:
        return words.replace("/etc/apt", f"{tmp_path}/etc/apt").replace("apt-cache", f"apt-cache {options} -o APT::Architecture=amd64")

    def candidate() -> str:
        return run(here("apt-cache policy nvidia-driver | grep Candidate")).split()[-1]

    assert (candidate(), status_of(here(step.verify))) == ("580.1-1", 1)
    assert status_of(here(step.shells["debian"])) == status_of(here(step.verify)) == 0
    assert candidate() == "535.1-1"
    assert status_of(here(step.undo)) == 0
    assert candidate() == "580.1-1"


@unix
def test_an_environment_without_its_mark_is_one_again(tmp_path: Path) -> None:
    folder = tmp_path / "my env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    mark = folder / "pyvenv.cfg"
    mark.unlink()
    (folder / "lib" / f"python3.{sys.version_info.minor}" / "site-packages" / "in_it.py").write_text("__version__ = 1\n")
    step = step_of("make-environment-whole", "pyvenv.cfg")

    def carried_out(script: str | None) -> int:
        return status_of((script or "").replace("{path}", f"'{folder}'"))

    verify = step.verify.replace("import numba", "import in_it as numba")
    assert carried_out(verify) != 0
    assert carried_out(step.shell) == carried_out(verify) == 0
    assert carried_out(step.undo) == 0
    assert not mark.exists()


@unix
@pytest.mark.parametrize(
    ("before", "after"), [("/opt/a.so\n/opt/liba.so\n", "/opt/liba.so\n"), ("/opt/a.so\n", ""), ("/opt/liba.so\n", "/opt/liba.so\n")]
)
def test_a_library_alone_leaves_the_list_of_preloaded_ones_and_comes_back(before: str, after: str, tmp_path: Path) -> None:
    listed = tmp_path / "ld.so.preload"
    listed.write_text(before)
    step = step_of("take-library-out-of-preload", "grep -vxF")

    def carried_out(script: str | None) -> int:
        return status_of((script or "").replace("/etc/ld.so.preload", str(listed)).replace("{path}", "/opt/a.so"))

    assert carried_out(step.shell) == 0
    assert listed.read_text() == after
    assert carried_out(step.undo) == 0
    assert (listed.read_text(), list(tmp_path.iterdir())) == (before, [listed])
    assert carried_out(step.shell.split("\n")[-1]) != 0, "there is no copy to read"


@unix
def test_a_rule_that_allows_the_new_number_already_stays_one(tmp_path: Path) -> None:
    rules = tmp_path / "101.conf"
    step = step_of("restart-lost-container", "still allows {old_major}")

    def carried_out(script: str | None) -> int:
        return status_of(
            (script or "").replace("/etc/pve/lxc/{lxc}.conf", str(rules)).replace("{old_major}", "508").replace("{major}", "509")
        )

    old, new = (f"lxc.cgroup2.devices.allow: c {number}:* rwm\n" for number in (508, 509))
    rules.write_text(old)
    assert carried_out(step.verify) != 0
    assert carried_out(step.shell) == carried_out(step.verify) == 0
    assert rules.read_text() == new
    assert carried_out(step.undo) == 0
    assert rules.read_text() == old
    rules.write_text(old + new)
    assert carried_out(step.shell) != 0
    assert rules.read_text() == old + new


@unix
@pytest.mark.parametrize("program", ["update-grub", "grub2-mkconfig", "grub-mkconfig"])
def test_the_boot_menu_is_made_again_when_its_parameters_are_put_back(program: str, tmp_path: Path) -> None:
    """A menu that was not made again would start the kernel as the step left it."""
    step = step_of("change-kernel-parameter", "write {kept_parameter} in place of")
    (tmp_path / "grub").write_text("changed\n")
    (tmp_path / "grub.before").write_text("original\n")
    environment = stand_in(tmp_path, program, "")
    assert status_of(step.undo.replace("/etc/default", str(tmp_path)), environment) == 0
    assert (tmp_path / "grub").read_text() == "original\n"
    assert len((tmp_path / "calls").read_text().splitlines()) == 1


@unix
@pytest.mark.parametrize(
    ("recipe", "program", "cured", "faulty"),
    [
        ("put-vgpu-right", "nvidia-smi", "    License Status : Licensed (Expiry: 2027-1-1 0:0:0 GMT)\n", "    License Status : Unlicensed (Unrestricted)\n"),
        (
            "restore-jetson-driver", "ldconfig",
            "\tlibcuda.so.1 (libc6,AArch64) => /usr/lib/aarch64-linux-gnu/nvidia/libcuda.so.1\n",
            "\tlibcuda.so.1 (libc6,AArch64) => /usr/local/cuda/compat/libcuda.so.1\n",
        ),
        ("request-gpu", "scontrol", "   AllocTRES=cpu=8,mem=64G,node=1,billing=8,gres/gpu=1\n", "   AllocTRES=cpu=8,mem=64G,node=1,billing=8\n   TresPerNode=N/A\n"),
    ],
)  # fmt: skip
def test_a_verify_tells_the_cure_from_the_fault(recipe: str, program: str, cured: str, faulty: str, tmp_path: Path) -> None:
    (verify,) = {
        step.verify for step in KNOWLEDGE.recipe(recipe).steps if step.verify and f"{program} " in step.verify and "|" in step.verify
    }
    assert status_of(verify, stand_in(tmp_path, program, cured)) == 0
    assert status_of(verify, stand_in(tmp_path, program, faulty)) != 0


@unix
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('GRUB_CMDLINE_LINUX_DEFAULT="quiet splash"\n', 'GRUB_CMDLINE_LINUX_DEFAULT="{} quiet splash"\n'),
        ("GRUB_CMDLINE_LINUX_DEFAULT='quiet'\n", "GRUB_CMDLINE_LINUX_DEFAULT='{} quiet'\n"),
        ("GRUB_CMDLINE_LINUX_DEFAULT=quiet\n", "GRUB_CMDLINE_LINUX_DEFAULT=quiet\n"),  # a second word would be a command
    ],
)
@pytest.mark.parametrize(
    ("recipe", "words", "parameter"),
    [
        ("online-gpu-memory", "Set it at every boot", "memhp_default_state=online_movable"),
        ("open-pci-window", "reassign the windows", "pci=realloc"),
        ("switch-hmm-off", "kernel parameter nokaslr", "nokaslr"),
    ],
)
def test_a_kernel_parameter_comes_within_the_quotes(
    recipe: str, words: str, parameter: str, before: str, after: str, tmp_path: Path
) -> None:
    step, file = step_of(recipe, words), tmp_path / "grub"
    for shell in {shell.split("\n")[0] for shell in step.shells.values() if "/etc/default/grub" in shell}:
        file.write_text(before)
        assert status_of(shell.replace("/etc/default/grub", str(file))) == 0
        assert file.read_text() == after.format(parameter)
    if recipe == "online-gpu-memory":
        verify = step.verify.replace("/etc/default/grub", str(file)).replace("/boot/loader/entries", str(tmp_path / "none"))
        assert (status_of(verify) == 0) is (before != after)


@unix
@pytest.mark.parametrize("before", ['{"data-root": "/srv"}\n', None])
@pytest.mark.parametrize(
    ("words", "place"), [("Tell Docker about it", "/etc/docker/daemon.json"), ("the default of containerd", "/etc/containerd/config.toml")]
)
def test_an_engines_settings_come_back_and_a_second_undo_takes_nothing(words: str, place: str, before: str | None, tmp_path: Path) -> None:
    step, file = step_of("install-container-toolkit", words), tmp_path / "etc" / "settings"
    environment = stand_in(tmp_path, "systemctl", "")
    (tmp_path / "nvidia-ctk").write_text(f"#!/bin/sh\necho nvidia > {file}\n")
    (tmp_path / "nvidia-ctk").chmod(0o755)
    if before is not None:
        file.parent.mkdir()
        file.write_text(before)

    def here(script: str) -> str:
        return script.replace(place, str(file)).replace(place.rpartition("/")[0], str(file.parent))

    for _ in range(2):  # somebody may paste it twice
        assert status_of(here(step.shell), environment) == 0
        assert file.read_text() == "nvidia\n"
    assert status_of(here(step.undo), environment) == 0
    assert file.read_text() == (before if before is not None else "{}\n" if "docker" in place else "")
    assert file.stat().st_mode & 0o111 == 0
    own = file.read_text()
    assert status_of(here(step.undo), environment) != 0
    assert file.read_text() == own


@unix
@pytest.mark.parametrize("words", ["Regenerate the specification, on the host", "Let the toolkit keep it"])
def test_an_old_specification_does_not_verify(words: str, tmp_path: Path) -> None:
    step = step_of("renew-cdi-specification", words)
    (tmp_path / "version").write_text("580.95.05\n")
    for listed, status in (("/lib64/libEGL_nvidia.so.570.133.20\n", 1), ("/lib64/libEGL_nvidia.so.580.95.05\n", 0)):
        (tmp_path / "nvidia.yaml").write_text(listed)
        verify = re.sub(r"/(?:etc|var/run)/cdi/", f"{tmp_path}/", step.verify).replace(
            "/sys/module/nvidia/version", str(tmp_path / "version")
        )
        assert status_of(verify) == status


@unix
@pytest.mark.parametrize("recipe", ["install-packaged-toolkit", "use-present-toolkit"])
def test_another_nvcc_that_comes_first_does_not_verify(recipe: str, tmp_path: Path) -> None:
    step = step_of(recipe, "export CUDA_HOME=")
    other, wanted = tmp_path / "other", tmp_path / "cuda-12.9"
    for folder in (other, wanted / "bin"):
        folder.mkdir(parents=True)
        (folder / "nvcc").write_text("#!/bin/sh\n")
        (folder / "nvcc").chmod(0o755)
    fill = lambda script: re.sub(r"\{toolkit_\w+\}", str(wanted), script)  # noqa: E731
    environment = {"PATH": f"{other}:/usr/bin:/bin"}
    assert status_of(fill(step.verify), environment) == 1
    both = f"{fill(step.shell)}\n{fill(step.verify)}".replace("\n", " && ")
    assert status_of(both, environment) == 0
