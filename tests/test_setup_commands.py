"""What one sets up once: scripts for runners and Slurm, completion of a shell; and a check that looks again and again."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from cudadoctor.commands import check, setup, terminal
from cudadoctor.model.report import Report
from cudadoctor.report import screen
from cudadoctor.report.page import Style
from tests.command_line import DOCTOR, ROOT, environment, host, run
from tests.judging import KNOWLEDGE, report_of

posix = pytest.mark.skipif(sys.platform == "win32", reason="a shell of POSIX")


def doctor(folder: Path, recording: str) -> str:
    """A program that is the doctor, looking at a recording."""
    path = folder / "cudadoctor"
    path.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] || set -- "$@" --replay "{host(recording)}"\nexec "{sys.executable}" "{DOCTOR}" "$@"\n'
    )
    path.chmod(0o755)
    return str(path)


def carried_out(name: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    script = folder / f"{name}.sh"
    script.write_text(run("hook", name).out)
    return subprocess.run(["sh", str(script)], env=environment(variables), capture_output=True, text=True, timeout=60, check=False)


# ---------------------------------------------------------------- hooks
def test_a_window_of_another_size_is_drawn_anew_from_its_top(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = iter([(80, 24), (80, 24), (40, 8)])

    def size(*_: object) -> os.terminal_size:
        try:
            return os.terminal_size(next(sizes))
        except StopIteration:
            raise KeyboardInterrupt from None

    monkeypatch.setattr("shutil.get_terminal_size", size)
    monkeypatch.setattr(check, "_TICK", 0.001)
    assert check.looks(lambda: report_of("h200-healthy"), lambda _: "page\n", every=60, screen=True) is not None
    assert capsys.readouterr().out.count("page\n") == 2


def test_where_not_all_has_room_the_verdict_stays() -> None:
    style = Style(width=40, height=6)
    page = screen.top(screen.render(report_of("pci-bar-unassigned"), KNOWLEDGE, style), style)
    assert page.startswith("BROKEN")
    assert len(page.splitlines()) <= 5


@posix
@pytest.mark.parametrize(("name", "refusal"), [("github-runner", 1), ("gitlab-runner", 1)])
def test_a_broken_runner_refuses_the_job(name: str, refusal: int, tmp_path: Path) -> None:
    broken = carried_out(name, tmp_path, CUDADOCTOR=doctor(tmp_path, "driver-not-loaded"))
    assert broken.returncode == refusal
    assert "[driver-not-loaded]" in broken.stdout
    assert "is not fit for the job" in broken.stdout
    healthy = carried_out(name, tmp_path, CUDADOCTOR=doctor(tmp_path, "h200-healthy"))
    assert healthy.returncode == 0
    assert "not fit" not in healthy.stdout


@posix
@pytest.mark.parametrize("name", ["github-runner", "gitlab-runner"])
def test_a_demand_that_is_not_met_refuses_and_a_doctor_that_is_not_there_does_not(name: str, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('require = ["gpus>=4"]\n')
    unmet = carried_out(name, tmp_path, CUDADOCTOR=doctor(tmp_path, "h200-healthy"), CUDADOCTOR_POLICY=str(policy))
    assert (unmet.returncode, "gpus>=4" in unmet.stdout) == (1, True)
    absent = carried_out(name, tmp_path, CUDADOCTOR="/no/such/doctor")
    assert (absent.returncode, "could not be judged (exit code 127)" in absent.stdout) == (0, True)


@posix
@pytest.mark.parametrize("name", ["github-runner", "gitlab-runner", "slurm-prolog", "slurm-healthcheck"])
def test_a_python_that_does_not_start_is_no_broken_gpu(name: str, tmp_path: Path) -> None:
    """It ends with 1, as a verdict does."""
    program = str(Path(sys.executable).with_name("cudadoctor"))
    ran = carried_out(name, tmp_path, CUDADOCTOR=program, CUDADOCTOR_DRAIN="1", PYTHONHOME="/nonexistent", SLURMD_NODENAME="tarn")
    assert ran.returncode == 0, ran.stdout
    assert "drain" not in ran.stdout
    assert "not fit" not in ran.stdout


def test_a_custom_executor_hears_of_a_failure_of_the_system(tmp_path: Path) -> None:
    done = carried_out("gitlab-runner", tmp_path, CUDADOCTOR=doctor(tmp_path, "driver-not-loaded"), SYSTEM_FAILURE_EXIT_CODE="47")
    assert done.returncode == 47


@posix
def test_a_prolog_drains_nothing_unless_it_is_told_to(tmp_path: Path) -> None:
    broken = {"CUDADOCTOR": doctor(tmp_path, "driver-not-loaded"), "SLURM_JOB_ID": "17"}
    told = carried_out("slurm-prolog", tmp_path, **broken)
    assert told.stdout.startswith("cudadoctor: job 17: driver-not-loaded")
    assert told.returncode == 0
    assert carried_out("slurm-prolog", tmp_path, **broken, CUDADOCTOR_DRAIN="1").returncode == 1
    assert carried_out("slurm-prolog", tmp_path, CUDADOCTOR="/no/such/doctor", CUDADOCTOR_DRAIN="1").returncode == 0


@posix
def test_a_health_check_drains_a_broken_node_only_where_it_is_told_to(tmp_path: Path) -> None:
    """And with the one line as its reason, whatever stands in it."""
    seen = tmp_path / "seen"
    (tmp_path / "scontrol").write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >{seen}\n')
    (tmp_path / "scontrol").chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    broken = {"CUDADOCTOR": doctor(tmp_path, "driver-not-loaded"), "SLURMD_NODENAME": "n7", "PATH": path}
    told = carried_out("slurm-healthcheck", tmp_path, **broken)
    assert told.stdout.startswith("cudadoctor: would drain n7: driver-not-loaded")
    assert (told.returncode, seen.exists()) == (0, False)
    assert carried_out("slurm-healthcheck", tmp_path, **broken, CUDADOCTOR_DRAIN="1").returncode == 0
    assert seen.read_text().splitlines()[:3] == ["update", "nodename=n7", "state=drain"]
    assert seen.read_text().splitlines()[3].startswith("reason=cudadoctor: driver-not-loaded")
    seen.unlink()
    for working in (doctor(tmp_path, "h200-healthy"), "/no/such/doctor"):
        assert carried_out("slurm-healthcheck", tmp_path, **{**broken, "CUDADOCTOR": working}, CUDADOCTOR_DRAIN="1").returncode == 0
    assert not seen.exists()


def manifest(name: str) -> Any:
    text = run("hook", name).out
    return yaml.safe_load(text.replace("NODES", "37").replace("IMAGE", "registry.example/cudadoctor").replace("REFUSE", "1"))


@pytest.mark.parametrize("name", [name for name, ending in setup.HOOKS.items() if ending == "yaml"])
@pytest.mark.parametrize("release", ["1.29", "1.37"])
@pytest.mark.long
def test_a_manifest_is_one_by_the_schemas_of_kubernetes(name: str, release: str) -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="NOT CHECKED: pip install 'cudadoctor[test-long]'")
    kubernetes_validate.validate(manifest(name), release, strict=True)


@posix
@pytest.mark.parametrize("name", ["kubernetes-job", "kubernetes-daemonset", "kubernetes-preflight"])
def test_what_a_manifest_runs_is_the_doctor(name: str, tmp_path: Path) -> None:
    """Its command, run here: a report of a broken node; only the preflight refuses, and only where the gate is closed."""
    spec = manifest(name)["spec"]["template"]["spec"]
    container = (spec.get("initContainers") or spec["containers"])[0]
    words = [word.replace("/dev/termination-log", str(tmp_path / "log")) for word in container["command"]]
    doctor(tmp_path, "driver-not-loaded")
    gate = next((one["value"] for one in container["env"] if one["name"] == "GATE"), "")
    for closed in dict.fromkeys((gate, "0" if gate else "")):
        variables = environment({"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "GATE": closed})
        done = subprocess.run(words, env=variables, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == (1 if closed == "1" else 0)
        assert "driver-not-loaded" in done.stdout
        assert json.loads((tmp_path / "log").read_text())["cause"] == "driver-not-loaded"
        assert (tmp_path / "log").stat().st_size < 4096  # what the kubelet keeps of it


def test_the_plugin_of_node_problem_detector_calls_the_doctor() -> None:
    """Within the limits that it gives a plugin: the doctor's own is shorter."""
    rule = json.loads(run("hook", "node-problem-detector").out)["rules"][0]
    arguments = rule["args"]
    assert float(arguments[arguments.index("--timeout") + 1]) < float(rule["timeout"].rstrip("s"))
    done = run(*arguments, "--replay", host("driver-not-loaded"))
    assert (done.code, len(done.out.strip()) <= 80) == (1, True)


@posix
@pytest.mark.parametrize("name", [name for name, ending in setup.HOOKS.items() if ending == "sh"])
def test_a_hook_is_a_script_for_any_shell(name: str, tmp_path: Path) -> None:
    text = run("hook", name).out
    for shell in ("sh", "bash", "dash"):
        if shutil.which(shell):
            assert subprocess.run([shell, "-n"], input=text, text=True, check=False).returncode == 0
    assert text.startswith("#!/bin/sh\n# ")
    assert f"cudadoctor hook {name} > " in text


# ---------------------------------------------------------------- completion
@posix
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("cudadoctor che", "plain,check"),
        ("cudadoctor check --only nvi", "plain,nvidia-smi"),
        ("cudadoctor fix nouv", "plain,nouveau-bound"),
        ("cudadoctor explain Xid-or-cau", ""),
        ("cudadoctor check --format jun", "plain,junit"),
    ],
)
def test_a_shell_completes(words: str, expected: str) -> None:
    variables = {
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
        "_CUDADOCTOR_COMPLETE": "bash_complete",
        "PYTHONPATH": str(ROOT),
    }
    code = "import sys; sys.argv = ['cudadoctor']; from cudadoctor.commands.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], env=environment(variables), capture_output=True, text=True, timeout=60, check=False)
    assert expected in done.stdout.split("\n")


@pytest.mark.parametrize("shell", setup.SHELLS)
def test_completion_is_printed_for_each_shell(shell: str) -> None:
    text = run("completion", shell).out
    assert f"_CUDADOCTOR_COMPLETE={shell}_complete" in text.replace(' = "', "=")
    if shutil.which(shell):
        assert subprocess.run([shell, "-n"], input=text, text=True, check=False).returncode == 0


# ---------------------------------------------------------------- watch
def test_a_pipe_gets_a_line_for_each_change(capsys: pytest.CaptureFixture[str]) -> None:
    looks = iter(["driver-not-loaded", "driver-not-loaded", "h200-healthy", "h200-healthy"])

    def look() -> Report:
        try:
            return report_of(next(looks))
        except StopIteration:
            raise KeyboardInterrupt from None

    last = check.looks(look, lambda _: "page", every=0.001, screen=False)
    assert last is not None
    assert last.verdict == "healthy"
    lines = [line.split(" ", 1)[1] for line in capsys.readouterr().out.splitlines()]
    assert [line.split(":")[0] for line in lines] == ["broken", "healthy"]
    assert "[driver-not-loaded]" in lines[0]


def test_a_terminal_shows_the_last_look_alone(capsys: pytest.CaptureFixture[str]) -> None:
    def sleepless() -> Report:
        if "page" in (shown := capsys.readouterr().out):
            assert shown.startswith(terminal.CLEAR)
            raise KeyboardInterrupt
        first.append(shown)
        return report_of("h200-healthy")

    first: list[str] = []
    assert check.looks(sleepless, lambda _: "page\n", every=0.001, screen=True) is not None
    assert first[0].startswith(f"{terminal.CLEAR}Looking at this machine.")
    assert capsys.readouterr().out.endswith("\n")


@posix
def test_ctrl_c_ends_with_the_exit_code_of_the_last_look() -> None:
    argv = [sys.executable, "-m", "cudadoctor", "check", "--quick", "--watch", "0.5"]
    with subprocess.Popen(argv, env={**environment(), "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        code = process.wait(30)
    assert (code == 0) == (" healthy: " in first)
    assert code in (0, 1, 3)
    assert not os.path.exists(f"/proc/{process.pid}/task")


@posix
def test_ctrl_c_within_a_look_ends_it_too(tmp_path: Path) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\nexec sleep 300\n")
    tool.chmod(0o755)
    variables = {**environment({"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}), "PYTHONPATH": str(ROOT)}
    argv = [sys.executable, "-m", "cudadoctor", "check", "--quick", "--watch", "0.5"]
    with subprocess.Popen(argv, env=variables, stdout=subprocess.PIPE, text=True) as process:
        time.sleep(1.5)  # the first look waits for nvidia-smi
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, "")


@pytest.mark.parametrize("other", [("--replay", "x"), ("--format", "json"), ("--log", "-"), ("--record", "x")])
def test_watch_looks_at_this_machine(other: tuple[str, str]) -> None:
    result = run("check", "--watch", *other)
    assert result.code == 2
    assert "--watch looks at this machine again and again" in result.err
