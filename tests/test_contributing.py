"""A new cause is two files: the steps of CONTRIBUTING, carried out in a copy of the repository with a made-up cause."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
NAME = "gpu-eaten-by-moth"
CAUSE = """\
title = "A moth eats the GPU"
layer = "hardware"
row = "gpu"
breaks = ["pci"]
effect = "blocks"
signs = "the moth is seen on the board"
why = "A moth eats the contacts of the board. No driver finds a GPU without them."
tell_apart = "lspci -d 10de:"
recipes = ["connect-gpu-power"]

[[match]]
contains = "moth at the contacts of the board"
program = "entomologist"
example = "NVRM: GPU 0000:01:00.0: moth at the contacts of the board"
"""
CASE = """\
cause = "gpu-eaten-by-moth"
origin = "reconstructed"
source = "made up"
verdict = "broken"
note = "A moth."
"""
REPORT = "NVRM: GPU 0000:01:00.0: moth at the contacts of the board\n"
# All tests in which a cause takes part by its name, and those of whole tables that count causes.
SUITES = (
    "test_causes",
    "test_knowledge",
    "test_reports",
    "test_signs",
    "test_cause_pages",
    "test_explaining",
    "test_recipes",
    "test_readme",
)


def copied(into: Path) -> Path:
    names = ("cudadoctor", "tests", "fixtures", "pyproject.toml", "README.md", "LICENSE", ".github")
    for name in names:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, into / name, ignore=shutil.ignore_patterns("__pycache__"), copy_function=linked)
        else:
            shutil.copy(source, into / name)
    return into


def linked(source: str, target: str) -> None:
    """Nothing writes into these files, and there are thousands."""
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)


def ran(where: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(where), "PYTHONDONTWRITEBYTECODE": "1", **variables}
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--assert=plain", *arguments]
    return subprocess.run(argv, cwd=where, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_cause_is_two_files_and_a_forgotten_one_is_named(whole: bool, tmp_path: Path) -> None:
    repository = copied(tmp_path)
    (repository / "cudadoctor" / "knowledge" / "causes" / f"{NAME}.toml").write_text(CAUSE, "utf-8")
    forgotten = ran(repository, "tests/test_reports.py", "-k", "every_cause_that_a_text")
    assert forgotten.returncode == 1
    assert f"add fixtures/reports/<cause>--<slug>/ with report.txt and case.toml for ['{NAME}']" in forgotten.stdout

    report = repository / "fixtures" / "reports" / f"{NAME}--seen"
    report.mkdir()
    (report / "report.txt").write_text(REPORT, "utf-8")
    (report / "case.toml").write_text(CASE, "utf-8")
    suites = [f"tests/{name}.py" for name in SUITES]
    chosen = (("-k", "(every_case or vocabulary or every_table or every_cause) and not network"), {"CASES": NAME})
    arguments, variables = ((), {}) if whole else chosen
    result = ran(repository, *suites, *arguments, **variables)
    assert result.returncode == 0, result.stdout[-3000:]
    assert " passed" in result.stdout
