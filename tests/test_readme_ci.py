"""What the manual says of demands, formats and Python is so: its tables are the code's, its examples run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from cudadoctor.commands.policy_file import gathered
from cudadoctor.knowledge.load import load
from cudadoctor.policy.questions import QUESTIONS
from cudadoctor.report.formats import FORMATS
from cudadoctor.sources import host as live
from tests.command_line import ROOT, evidence_of, host, run

GUIDE = ROOT / "cudadoctor" / "guide"
CI, DEMANDS, PYTHON = ((GUIDE / f"{name}.md").read_text("utf-8") for name in ("ci", "demands", "python"))


def block(kind: str, word: str) -> str:
    """The first block of this language that holds this word."""
    found, *_ = (
        body for language, body in re.findall(r"```(\w+)\n(.*?)```", CI + DEMANDS + PYTHON, re.DOTALL) if language == kind and word in body
    )
    return str(found)


def test_the_table_of_demands_is_the_codes() -> None:
    rows = [
        (name, f"{entry.kind} | {entry.meaning}{'; the name alone is a demand' if entry.alone else ''}")
        for name, entry in QUESTIONS.items()
    ]
    assert (
        re.findall(
            r"^\| `([a-z0-9-]+)` \| ((?:count|version|size|rate|time|flops|operations|switch|words) \| .*?) \|$", DEMANDS, re.MULTILINE
        )
        == rows
    )


def test_the_table_of_formats_is_the_codes() -> None:
    table = CI[CI.index("| format | for whom |") :]
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", table, re.MULTILINE)
    assert [name for name, _ in rows] == list(FORMATS)
    assert {name for name, words in rows if "stdout only" in words} == {name for name, form in FORMATS.items() if form.only_stdout}


def test_the_command_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    line = next(line for line in block("sh", "--require").splitlines() if "--require" in line)
    result = run(*shlex.split(line)[1:], "--replay", host("h200-healthy"))
    assert result.code == 1  # one GPU, two are demanded
    assert "Required: 1 of 3 not met" in result.out
    assert (tmp_path / "gpu.xml").exists()


def test_the_policy_is_one(tmp_path: Path) -> None:
    path = tmp_path / "cudadoctor.toml"
    path.write_text(block("toml", "require = "))
    found = gathered(str(path), (), load().causes)
    assert found.strict
    assert len(found.policy.requirements) == 8
    assert [one.cause for one in found.policy.ignores] == ["driver-libraries-incomplete", "pcie-link-degraded"]


def test_the_python_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def collect(plan: Any, watcher: Any) -> Any:
        return evidence_of("h200-healthy")

    monkeypatch.setattr(live, "collect", collect)
    exec(block("python", "cudadoctor.require"), {})
    out = capsys.readouterr().out
    assert out.startswith("healthy none\nUNDECIDED  ")
