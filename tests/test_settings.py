"""The line that sets a variable is commented out where it was found, only there, and put back again."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from cudadoctor.model.values import ENVIRONMENT, SET_IN, USER, Environment, SetIn
from cudadoctor.prescribe import prescribe
from cudadoctor.prescribe.shells import sh
from cudadoctor.sources import setting_files
from tests.facts_builder import facts_of, user
from tests.judging import KNOWLEDGE
from tests.prescriptions import finding

NAME = "CUDA_VISIBLE_DEVICES"


def steps_for(*places: SetIn, values: dict[str, str] | None = None) -> dict[str, list[str]]:
    """The commands of the fix by kind."""
    state = {SET_IN: places, ENVIRONMENT: Environment(variables={NAME: "x"}, lines={}), USER: user()}
    found = prescribe(
        finding("cuda-visible-devices-hides-all"), {"variable": NAME, **(values or {})}, facts_of(state), KNOWLEDGE, "debian-13"
    )
    assert found is not None
    told: dict[str, list[str]] = {}
    for step in found.steps:
        told.setdefault(step.kind or "", []).append(step.shell or step.text)
        if step.undo:
            told.setdefault("undo", []).append(step.undo)
    return told


def run(script: str, there: Path | None = None) -> str:
    if there is not None:
        script = script.replace(sh(THERE), sh(str(there)))
    done = subprocess.run(["bash", "-euc", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


THERE = "/home/ada/it's a .bashrc"  # a temporary folder is everybody's, and nothing is edited there
PROFILE = f"alias ll='ls -l'\nif [ -n \"$HOME\" ]; then\n    export {NAME}=7\nfi\nexport OTHER=1\n"


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    path = tmp_path / "it's a .bashrc"
    path.write_text(PROFILE)
    return path


def test_the_line_alone_is_taken_out_and_put_back(profile: Path) -> None:
    told = steps_for(SetIn(name=NAME, path=THERE, line=3))
    run("\n".join(told["environment"]), profile)
    changed = profile.read_text()
    assert changed.replace(f": #     export {NAME}=7", f"    export {NAME}=7") == PROFILE
    assert run(f'. "{profile}"; echo "${{{NAME}-gone}}$OTHER"') == "gone1\n"
    run("\n".join(told["undo"][-1:]), profile)
    assert profile.read_text() == PROFILE


def test_a_line_that_is_another_by_now_stays(profile: Path) -> None:
    profile.write_text(f"# new first line\n{PROFILE}")
    run("\n".join(steps_for(SetIn(name=NAME, path=THERE, line=3))["environment"]), profile)
    assert profile.read_text() == f"# new first line\n{PROFILE}"


@pytest.mark.parametrize(
    ("written", "left"),
    [
        ('export LD_LIBRARY_PATH="/opt/x/lib64/stubs:$LD_LIBRARY_PATH"', 'export LD_LIBRARY_PATH="$LD_LIBRARY_PATH"'),
        ("export LD_LIBRARY_PATH=/opt/y/lib:/opt/x/lib64/stubs/:/opt/z", "export LD_LIBRARY_PATH=/opt/y/lib:/opt/z"),
    ],
)
def test_the_stub_folder_alone_leaves_the_line_and_comes_back(written: str, left: str, profile: Path, tmp_path: Path) -> None:
    before = f"alias ll='ls -l'\n{written}\nexport OTHER=/a/stubs\n"
    profile.write_text(before)
    (tmp_path / "link").symlink_to(profile)
    state = {SET_IN: (SetIn(name="LD_LIBRARY_PATH", path=THERE, line=2),), USER: user()}
    found = prescribe(finding("libcuda-stub-loaded"), {}, facts_of(state), KNOWLEDGE, "debian-13")
    (step,) = [step for step in (found.steps if found is not None else ()) if "sed -i" in (step.shell or "")]
    assert step.shell
    assert step.verify
    assert step.undo
    with pytest.raises(AssertionError):
        run(step.verify, tmp_path / "link")
    run(f"{step.shell}\n{step.verify}", tmp_path / "link")
    assert profile.read_text() == before.replace(written, left)
    run(step.undo, tmp_path / "link")
    assert (profile.read_text(), (tmp_path / "link").is_symlink()) == (before, True)


def test_a_link_stays_one(profile: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(profile)
    run("\n".join(steps_for(SetIn(name=NAME, path=THERE, line=3))["environment"]), link)
    assert link.is_symlink()
    assert ": # " in profile.read_text()


def test_every_place_is_named_and_what_is_roots_needs_root() -> None:
    told = steps_for(
        SetIn(name=NAME, path="/etc/environment", line=2),
        SetIn(name=NAME, path="/home/ada/.bashrc", line=12),
        SetIn(name=NAME, path="/home/ada/.profile", line=4, alone=False),
        SetIn(name="OTHER", path="/home/ada/.zshrc", line=1),
        SetIn(name=NAME, path="/etc/systemd/system/train.service.d/gpu.conf", line=3),
    )
    assert len(told["environment"]) == 1
    assert told["environment"][0].count("sed ") == 1
    assert all(line.startswith("sudo sed ") and "s/^/# /" in line for line in told["system"][0].splitlines())
    assert "/home/ada/.profile" in told["reads"][0]
    assert ".zshrc" not in str(told)
    assert told["restart"][0] == "sudo systemctl daemon-reload\nsudo systemctl restart train.service"


def test_a_value_that_stays_in_part_is_left_to_the_reader() -> None:
    told = steps_for(SetIn(name=NAME, path="/home/ada/.bashrc", line=12), values={"kept": "/opt/lib"})
    assert "environment" not in told
    assert "/home/ada/.bashrc" in told["reads"][0]


@pytest.mark.parametrize(
    ("line", "alone"),
    [
        (f"export {NAME}=0", True),
        (f"  {NAME}=0", True),
        (f"export {NAME}=0 OTHER=1", False),
        (f"export {NAME}=0; echo set", False),
        (f"export {NAME}=$(pick)", False),
        (f"export {NAME}=0 && true", False),
        (f"{NAME}=0 \\", False),
    ],
)
def test_a_line_that_does_more_is_told_apart(line: str, alone: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".bashrc").write_text(line + "\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(NAME, "0")
    mine = [told for told in setting_files.list_settings("").splitlines() if str(tmp_path) in told and NAME in told]
    assert mine == [f"{tmp_path}/.bashrc:1: {NAME}{'' if alone else ' ...'}"]
