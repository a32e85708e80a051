"""What a release is made of: one version, archives that hold what they should and nothing else, the same bytes from the same source."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from cudadoctor import __version__
from tests.command_line import ROOT
from tests.test_readme import PROJECT

RECIPE = (ROOT / ".github" / "conda" / "recipe.yaml").read_text("utf-8")


def test_the_version_stands_in_one_place_and_what_names_it_agrees() -> None:
    assert f'version: "{__version__}"' in RECIPE
    assert f"\n## {__version__} " in (ROOT / ".github" / "CHANGELOG.md").read_text("utf-8")


def test_conda_asks_for_what_the_project_asks_for() -> None:
    ours = {re.sub(r"\s", "", line.partition(";")[0]) for line in PROJECT["dependencies"]}
    asked = {line.replace(" ", "") for line in re.findall(r"^    - ([a-z][\w-]* [<>=].*)$", RECIPE.partition("  run:")[2], re.MULTILINE)}
    assert asked - {"python>=3.10"} == ours


def test_nothing_is_published_before_a_name_is_chosen() -> None:
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8")
    assert "vars.PUBLISH == 'true'" in text
    assert "password" not in text.replace("without a password", "")


@pytest.mark.long
def test_the_wheel_is_the_same_twice_and_holds_the_package_alone(tmp_path: Path) -> None:
    """Built from two copies whose files have other times and are listed in another order."""
    digests, wheel = [], tmp_path
    for number in range(2):
        source = tmp_path / f"source{number}"
        shutil.copytree(ROOT / "cudadoctor", source / "cudadoctor", ignore=shutil.ignore_patterns("__pycache__"))
        (source / ".github" / "scripts").mkdir(parents=True)
        for name in ("pyproject.toml", "README.md", "LICENSE", ".github/scripts/compiled.py"):
            shutil.copy(ROOT / name, source / name)
            os.utime(source / name, (10**9 + number, 10**9 + number))
        argv = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(tmp_path / f"out{number}"), str(source)]
        subprocess.run(argv, check=True, timeout=300)
        (wheel,) = (tmp_path / f"out{number}").iterdir()
        digests.append(hashlib.sha256(wheel.read_bytes()).hexdigest())
    assert digests[0] == digests[1]
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names} == {"cudadoctor", f"cudadoctor-{__version__}.dist-info"}
    for needed in (
        "guide/index.md",
        "guide/skill/SKILL.md",
        "knowledge/causes/nouveau-bound.toml",
        "report/templates/report.css",
        "py.typed",
    ):
        assert f"cudadoctor/{needed}" in names
