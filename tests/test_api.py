"""The functions for programs and notebooks, and what their reports look like there."""

from __future__ import annotations

import json
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

import cudadoctor
from cudadoctor import api
from cudadoctor.report.json import render
from tests.command_line import HEALTHY, NOUVEAU, ROOT, changed, environment, host, run
from tests.judging import cause_of
from tests.test_report_text import HOSTILE


def test_check_is_what_the_command_prints() -> None:
    report = cudadoctor.check(replay=host(NOUVEAU))
    assert report.verdict == "broken"
    assert cause_of(report) == "nouveau-bound"
    assert json.loads(render(report)) == json.loads(run("check", "--replay", host(NOUVEAU), "--format", "json").out)
    assert str(report).splitlines()[0] == run("check", "--replay", host(NOUVEAU)).out.splitlines()[0]
    assert report.prescription is not None
    assert all(line in str(report) for step in report.prescription.steps for line in (step.shell or "").split("\n"))


def test_explain_is_what_the_command_prints() -> None:
    text = "Failed to initialize NVML: Driver/library version mismatch"
    report = cudadoctor.explain(text)
    assert cause_of(report) == "driver-version-mismatch"
    printed = run("explain", "-v", "-", stdin=text.encode()).out.replace(f"Page of this cause: {report.diagnosis.root.url}\n", "")
    told = str(report).partition("\n\nfail ")[0]  # what follows are rows, which -v lists with their evidence
    assert "Restart" in told
    assert printed.startswith(told)


def test_requirements_that_are_met_give_the_report() -> None:
    report = cudadoctor.require("gpus>=1", "driver>=535", replay=host("h200-healthy"))
    assert [result.met for result in report.requirements] == [True, True]
    assert cudadoctor.require(replay=host("h200-healthy")).requirements[0].text == "gpus>=1"


def test_the_exception_is_the_diagnosis_and_the_fix() -> None:
    with pytest.raises(cudadoctor.RequirementNotMet) as error:
        cudadoctor.require("gpus>=1", "driver>=535", replay=host(NOUVEAU))
    said, report = str(error.value), error.value.report
    assert said.startswith("gpus>=1: not met (0 visible to CUDA)\ndriver>=535: not met (no driver is loaded)\n")
    assert report.diagnosis.root is not None
    assert report.prescription is not None
    assert f"{report.diagnosis.root.title} [nouveau-bound]" in said
    assert report.diagnosis.root.evidence[0].text.splitlines()[0] in said
    assert all((step.shell or "").splitlines()[0] in said for step in report.prescription.steps if step.shell)


def test_a_policy_file_counts_where_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "cudadoctor.toml"
    path.write_text("require = ['gpus>=9']\nignore = ['nouveau-bound']\n")
    monkeypatch.chdir(tmp_path)
    assert cudadoctor.check(replay=host(HEALTHY)).exit_code == 0
    report = cudadoctor.check(replay=host(HEALTHY), policy=str(path), require=["gpus>=1"])
    assert [result.met for result in report.requirements] == [False, True]
    assert cudadoctor.check(replay=host(NOUVEAU), policy=str(path)).verdict == "healthy"


def test_a_log_is_read_beside_the_machine() -> None:
    report = cudadoctor.check(replay=host(HEALTHY), log="CUDA error: CUDA_ERROR_NO_DEVICE\n")
    assert report.verdict == "undecided"


def test_what_means_nothing_is_an_error() -> None:
    with pytest.raises(cudadoctor.RequirementError) as error:
        cudadoctor.check(replay=host(HEALTHY), require=["gpus=>1"])
    assert error.value.column == 5
    with pytest.raises(cudadoctor.RequirementError):
        cudadoctor.require("gpuz>=1", replay=host(HEALTHY))
    with pytest.raises(ValueError, match="no such file"):
        cudadoctor.check(replay=str(ROOT / "nothing"))
    with pytest.raises(ValueError, match=r"nothing\.toml"):
        cudadoctor.check(replay=host(HEALTHY), policy=str(ROOT / "nothing.toml"))


def test_only_what_needs_a_kernel_runs_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from cudadoctor.sources import host as live

    plans = []

    def collect(plan: live.Plan, watcher: object) -> object:
        plans.append(plan)
        return changed(HEALTHY, {})

    monkeypatch.setattr(live, "collect", collect)
    cudadoctor.require("gpus>=1", "driver>=535", "memory>=1GiB")
    cudadoctor.require("smoke")
    cudadoctor.require("h2d-bandwidth>=1GB/s")
    assert [plan.quick for plan in plans] == [True, False, False]
    assert {plan.python for plan in plans} == {sys.executable}  # the calling interpreter is the one that fails


# ---------------------------------------------------------------- notebooks
class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.words = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.words += data


def test_a_notebook_shows_the_same_page() -> None:
    report = cudadoctor.check(replay=host(NOUVEAU))
    page = Tags()
    page.feed(report._repr_html_())
    assert page.tags == ["div", "strong", "pre"]
    assert page.words == str(report).replace("\n", "", 1)


def test_words_of_a_machine_stay_words_in_a_notebook() -> None:
    report = cudadoctor.explain(f"Failed to initialize NVML: Driver/library version mismatch <script>alert(1)</script> {HOSTILE}")
    page = Tags()
    page.feed(report._repr_html_())
    assert page.tags == ["div", "strong", "pre"]
    assert "<script>" in page.words


# ---------------------------------------------------------------- the package's door
def test_the_names_are_documented_and_typed() -> None:
    assert (ROOT / "cudadoctor" / "py.typed").exists()
    assert set(cudadoctor.__all__) <= set(dir(cudadoctor))
    for name in ("check", "explain", "require", "Report", "RequirementNotMet", "RequirementError"):
        assert getattr(cudadoctor, name).__doc__
    with pytest.raises(AttributeError):
        cudadoctor.no_such_name  # noqa: B018
    assert isinstance(cudadoctor.check(replay=host(HEALTHY)), msgspec.Struct)


def test_nothing_is_imported_before_it_is_used_and_no_gpu_library_ever() -> None:
    code = f"""
import sys, cudadoctor
assert not {{name for name in sys.modules if name.startswith("cudadoctor.") or name == "msgspec"}}
cudadoctor.check(replay={host(HEALTHY)!r})
assert not {{"numba", "cuda", "pynvml", "numpy"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, env={**environment(), "PYTHONPATH": str(ROOT)})


def test_what_other_programs_print_passes_the_gate_too() -> None:
    """A job's log takes lines for commands, whoever prints them."""
    report = cudadoctor.explain("##vso[task.complete result=Failed;] Failed to initialize NVML: Driver/library version mismatch")
    for said in (str(report), api.diagnosis(report), str(api.RequirementNotMet(report))):
        assert "Driver/library version mismatch" in said
        assert "##vso[" not in said
