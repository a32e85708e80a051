"""The pipelines that the manual shows: their YAML fits the systems' own schemas, and each command line of theirs runs."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases import every
from tests.command_line import ROOT, host, run

PAGE = (ROOT / "cudadoctor" / "guide" / "ci.md").read_text("utf-8")
PART = PAGE[PAGE.index("## In a pipeline") : PAGE.index("## A runner that refuses jobs")]
BLOCKS = re.findall(r"^(GitHub|GitLab|Buildkite|Jenkins)\b.*?```(?:yaml|groovy)\n(.*?)```", PART, re.DOTALL | re.MULTILINE)
SCHEMAS = {"GitHub": "github-workflows", "GitLab": "gitlab-ci", "Buildkite": "buildkite"}
LINES = sorted({line.rstrip('"') for _, body in BLOCKS for line in re.findall(r"cudadoctor check [^\n]*?(?=\" }|\n)", body)})


def test_all_four_are_there() -> None:
    assert [name for name, _ in BLOCKS] == ["GitHub", "GitLab", "Buildkite", "Jenkins"]
    assert len(LINES) == 3


@pytest.mark.parametrize(("name", "body"), [block for block in BLOCKS if block[0] in SCHEMAS])
def test_it_fits_the_schema_of_its_system(name: str, body: str, tmp_path: Path) -> None:
    path = tmp_path / "pipeline.yml"
    path.write_text(f"on: push\n{body}" if name == "GitHub" else body)
    argv = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{SCHEMAS[name]}", str(path)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@every("line", LINES)
def test_its_command_fails_on_a_broken_runner_alone(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = shlex.split(line)[1:]
    assert run(*arguments, "--replay", host("h200-healthy")).code == 0
    assert run(*arguments, "--replay", host("driver-not-loaded")).code == 1
    written = [word.partition("=")[2] for word in arguments if re.match(r"(?:junit|html|gitlab)=", word)]
    assert written
    assert all((tmp_path / name).stat().st_size for name in written)


def test_what_github_is_told_is_an_input_of_the_action() -> None:
    action = (ROOT / ".github" / "actions" / "cudadoctor" / "action.yml").read_text("utf-8")
    body = dict(BLOCKS)["GitHub"]
    for name in re.findall(r"^          (\w+):", body, re.MULTILINE):
        assert re.search(rf"^  {name}:$", action, re.MULTILINE), name
