"""The GitHub action and the workflows: valid by their schemas (and by actionlint where it is here), and their scripts do what they say."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from junitparser import JUnitXml

from tests.command_line import DOCTOR, ROOT, environment, host

ACTION = ROOT / ".github" / "actions" / "cudadoctor"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the scripts are Bash's")


# ---------------------------------------------------------------- valid
@pytest.mark.parametrize(("schema", "paths"), [("github-actions", [ACTION / "action.yml"]), ("github-workflows", WORKFLOWS)])
def test_each_fits_its_schema(schema: str, paths: list[Path]) -> None:
    argv = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", *map(str, paths)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_actionlint_finds_nothing() -> None:
    program = shutil.which("actionlint")
    if program is None:
        pytest.skip("NOT CHECKED: actionlint is not here (seen to pass with actionlint 1.17)")
    done = subprocess.run([program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("script", sorted(path.name for path in ACTION.glob("*.sh")))
def test_a_script_parses_and_may_be_executed(script: str) -> None:
    assert subprocess.run(["bash", "-n", str(ACTION / script)], check=False).returncode == 0
    assert os.access(ACTION / script, os.X_OK)


# ---------------------------------------------------------------- check.sh
def checked(folder: Path, recording: str, **inputs: str) -> tuple[dict[str, str], subprocess.CompletedProcess[str]]:
    """The outputs of the action, with a doctor that looks at a recording."""
    programs = folder / "bin"
    programs.mkdir()
    (programs / "python").symlink_to(sys.executable)
    doctor = programs / "cudadoctor"
    doctor.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{DOCTOR}" "$@" --replay "{host(recording)}"\n')
    doctor.chmod(0o755)
    output, summary = folder / "output", folder / "summary.md"
    variables = {
        "RUNNER_TEMP": str(folder), "GITHUB_ACTION_PATH": str(ACTION), "GITHUB_OUTPUT": str(output), "GITHUB_STEP_SUMMARY": str(summary),
        "DOCTOR": str(doctor), "FORMATS": "json junit html", **inputs,
    }  # fmt: skip
    argv = ["bash", str(ACTION / "check.sh")]
    done = subprocess.run(argv, env=environment(variables), cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    return dict(line.split("=", 1) for line in output.read_text().splitlines()), done


def test_a_healthy_runner(tmp_path: Path) -> None:
    outputs, done = checked(tmp_path, "h200-healthy")
    assert (outputs["verdict"], outputs["cause"], outputs["runner-healthy"], outputs["exit-code"]) == ("healthy", "", "true", "0")
    assert done.stdout.startswith("::notice ")
    assert Path(outputs["report-json"]).exists()
    assert Path(outputs["report-html"]).exists()
    assert len(list(JUnitXml.fromfile(outputs["report-junit"]))) >= 1
    assert tarfile.is_tarfile(f"{outputs['reports']}/recording.tar.gz")
    assert "healthy" in (tmp_path / "summary.md").read_text()


@pytest.mark.parametrize(
    ("recording", "cause", "healthy"),
    [
        ("driver-not-loaded", "driver-not-loaded", "false"),  # the machine's
        ("h200-cuda-home-absent", "cuda-home-wrong", "true"),  # the job's
        ("partial-recording", None, "unknown"),
    ],
)
def test_a_broken_runner_is_told_from_a_broken_change(recording: str, cause: str | None, healthy: str, tmp_path: Path) -> None:
    outputs, done = checked(tmp_path, recording)
    assert outputs["runner-healthy"] == healthy
    assert cause is None or outputs["cause"] == cause
    assert outputs["exit-code"] in ("1", "3")
    assert done.returncode == 0  # the job fails after the recording was kept
    assert "::error " in done.stdout


def test_every_input_reaches_the_doctor(tmp_path: Path) -> None:
    policy = tmp_path / "gpu.toml"
    policy.write_text('require = ["memory>=1TiB"]\n')
    outputs, done = checked(
        tmp_path, "h200-healthy", POLICY=str(policy), REQUIRE="\n  gpus>=2  \n\ndriver>=535\n", STRICT="true", ARGUMENTS="--skip\nbenchmark\n",
        FORMATS="prometheus",
    )  # fmt: skip
    assert outputs["exit-code"] == "1"
    assert "gpus>=2" in done.stdout
    assert "memory>=1TiB" in done.stdout
    assert "driver>=535" not in done.stdout  # met
    assert outputs["report-junit"] == ""
    assert Path(outputs["reports"], "report.prometheus").exists()
    assert outputs["runner-healthy"] == "true"


def test_hostile_inputs_stay_words(tmp_path: Path) -> None:
    outputs, done = checked(tmp_path, "h200-healthy", REQUIRE="$(touch broken)\n`touch broken`; touch broken")
    assert not (tmp_path / "broken").exists()
    assert (outputs["exit-code"], outputs["verdict"]) == ("2", "undecided")  # no such demand
    assert "touch" in done.stderr


# ---------------------------------------------------------------- install.sh
@pytest.mark.parametrize(("version", "wanted"), [("", "/../../.."), ("0.1.0", "cudadoctor==0.1.0")])
def test_it_installs_into_an_environment_of_its_own(version: str, wanted: str, tmp_path: Path) -> None:
    """With a stand-in for Python; the real one was tried by hand."""
    programs = tmp_path / "bin"
    programs.mkdir()
    stand_in = programs / "python3"
    stand_in.write_text(
        '#!/bin/sh\nif [ "$2" = venv ]; then mkdir -p "$4/bin"; printf \'#!/bin/sh\\necho "$@" > "$0.said"\\n\' > "$4/bin/python"; chmod +x "$4/bin/python"; fi\n'
    )
    stand_in.chmod(0o755)
    output = tmp_path / "output"
    variables = {"RUNNER_TEMP": str(tmp_path), "GITHUB_ACTION_PATH": str(ACTION), "GITHUB_OUTPUT": str(output), "VERSION": version}
    variables["PATH"] = f"{programs}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", str(ACTION / "install.sh")], env=environment(variables), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "cudadoctor" / "venv" / "bin"
    assert output.read_text() == f"doctor={folder}/cudadoctor\n"
    said = (folder / "python.said").read_text().split()
    assert said[:3] == ["-m", "pip", "install"]
    assert said[-1] == (f"{ACTION}{wanted}" if not version else wanted)


def test_without_a_python_it_says_what_to_do(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("bash", "dirname"):
        found = shutil.which(name)
        assert found
        (programs / name).symlink_to(found)
    variables = {
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_ACTION_PATH": str(ACTION),
        "GITHUB_OUTPUT": str(tmp_path / "o"),
        "PATH": str(programs),
    }
    done = subprocess.run(["bash", str(ACTION / "install.sh")], env=variables, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "Add actions/setup-python before this step" in done.stdout
