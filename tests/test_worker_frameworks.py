"""The worker frameworks.py with a stand-in for PyTorch: which step breaks, in whose words, and that it costs its own line only."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from cudadoctor.judge.stages import judge
from cudadoctor.knowledge.load import load as load_knowledge
from cudadoctor.model.evidence import Evidence
from cudadoctor.model.facts import Unknown
from cudadoctor.model.guard import Guard
from cudadoctor.model.values import FRAMEWORK_RUNS, FrameworkRun
from cudadoctor.parsers.read import read
from cudadoctor.sources.host import Collector, Plan
from cudadoctor.sources.probes import framework
from tests.test_worker_python_env import Patient
from tests.worker_runs import STUBS, load, of, run, run_raw

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the tests' stand-ins are for POSIX")
FAKES = str(STUBS / "fake_frameworks")
Events = list[dict[str, Any]]


def tried(mode: str, *arguments: str) -> Events:
    return run("frameworks", "torch", *(arguments or ("--devices",)), FAKE_TORCH=mode, PYTHONPATH=FAKES)


def ends(events: Events) -> list[tuple[str, str]]:
    return [(entry["step"], entry["status"]) for entry in of(events, "end")]


def test_a_framework_that_computes() -> None:
    events = tried("works")
    assert ends(events) == [("import", "pass"), ("devices", "pass"), ("compute", "pass")]
    assert of(events, "end")[1]["devices"] == ["Fake GPU"]
    assert of(events, "end")[0]["version"] == "2.11.0+cu130"


def test_without_a_gpu_a_build_for_cuda_is_imported_and_no_more() -> None:
    events = tried("works", "")
    assert ends(events) == [("import", "pass"), ("devices", "skip")]


def test_a_build_without_cuda_says_so_with_and_without_a_gpu() -> None:
    for arguments in ((), ("",)):
        events = tried("cpu", *arguments)
        assert ends(events) == [("import", "pass"), ("devices", "fail")]
        assert "Torch not compiled with CUDA enabled" in events[-2]["output"]


def test_a_failed_import_is_told_as_the_users_program_would_tell_it() -> None:
    end = of(tried("cudnn"), "end")[-1]
    assert (end["step"], end["status"]) == ("import", "fail")
    assert end["why"] == "ImportError: libcudnn.so.9: cannot open shared object file: No such file or directory"
    assert "frameworks.py" not in end["output"]
    assert end["output"].rstrip().endswith(end["why"])


def test_what_passing_steps_printed_stands_before_the_failure() -> None:
    end = of(tried("noisy"), "end")[-1]
    assert end["step"] == "devices"
    assert end["output"].startswith("a warning at the import")
    assert "RuntimeError: it cannot go on" in end["output"]


def test_a_framework_that_ends_the_interpreter_is_a_failed_import() -> None:
    assert ends(tried("exits")) == [("import", "fail")]


def test_a_wrong_result_is_a_failure() -> None:
    end = of(tried("wrong"), "end")[-1]
    assert (end["step"], end["status"]) == ("compute", "fail")
    assert "which should be 20.0" in end["why"]


def test_a_crash_leaves_the_step_open_and_its_stack_on_stderr() -> None:
    events, done = run_raw("frameworks", "torch", "--devices", FAKE_TORCH="crashes", PYTHONPATH=FAKES)
    assert done.returncode < 0
    assert events[-1]["event"] == "begin"
    assert "Segmentation fault" in done.stderr


def test_a_name_that_nobody_knows_imports_nothing() -> None:
    assert [entry["event"] for entry in run("frameworks", "os", "--devices")] == ["start", "done"]


def test_the_model_is_what_onnx_writes() -> None:
    """Tags and lengths of the hand-made protobuf: ir_version, the graph with its one node, the operator set."""
    model = load("frameworks").Onnxruntime.model()
    assert model[:2] == b"\x08\x08"
    assert model[2] == 7 << 3 | 2
    assert len(model) == 2 + 2 + model[3] + 4
    assert b"Add" in model
    assert model[-4:] == b"\x42\x02\x10\x0d"


# ---------------------------------------------------------------- as the host runs it
def collected(patient: Patient, monkeypatch: pytest.MonkeyPatch, mode: str, *frameworks: str, **more: Any) -> Evidence:
    monkeypatch.setenv("FAKE_TORCH", mode)
    monkeypatch.setenv("PYTHONPATH", FAKES)
    monkeypatch.chdir(patient.project)
    return Collector(Plan(python=patient.python, frameworks=frameworks, benchmark=False, **more)).collect()


def runs(evidence: Evidence) -> dict[str, FrameworkRun]:
    found = read(evidence, Guard(), load_knowledge()).get(FRAMEWORK_RUNS)
    return {} if isinstance(found, Unknown) or found.value is None else {run.name: run for run in found.value.runs}


@pytest.fixture
def patient(tmp_path: Path) -> Patient:
    one = Patient(tmp_path)
    one.install("torch", "2.11.0+cu130")
    one.install("jax", "0.8.1")
    return one


def test_no_framework_is_imported_unless_the_user_asks(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    evidence = collected(patient, monkeypatch, "sleeps")
    assert not [item.id for item in evidence.items if item.id.startswith("framework-")]
    assert runs(evidence) == {}


def test_nor_by_a_quick_check(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    assert runs(collected(patient, monkeypatch, "sleeps", "torch", quick=True)) == {}


def test_only_what_is_installed_is_tried(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    found = runs(collected(patient, monkeypatch, "works", "torch", "tensorflow", "cupy"))
    assert list(found) == ["torch"]
    assert found["torch"].status in ("pass", "idle")


@pytest.mark.parametrize(("mode", "status"), [("sleeps", "hang"), ("crashes", "crash")])
def test_a_hang_and_a_crash_cost_their_own_line(patient: Patient, monkeypatch: pytest.MonkeyPatch, mode: str, status: str) -> None:
    monkeypatch.setattr("cudadoctor.sources.host.framework", lambda name: _short(name))
    evidence = collected(patient, monkeypatch, mode, "torch", "jax")
    found = runs(evidence)
    assert found["torch"].status == status
    assert found["torch"].step == "import"
    assert found["jax"].status == "fail"  # it is not really there: the next one was tried all the same
    report = judge(evidence, load_knowledge())
    assert report.diagnosis.crashes == ()
    row = next(row for row in report.checks if row.id == "python")
    assert "torch 2.11.0 for CUDA 13.0: its import" in (row.summary or "")


def _short(name: str) -> Any:
    import msgspec

    return msgspec.structs.replace(framework(name), limit=3.0)


def test_nothing_else_of_ours_runs_beside_a_framework(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    busy: list[str] = []
    start = Collector.start

    def watched(self: Collector, probe: Any) -> Any:
        if probe.id.startswith("framework-"):
            busy.extend(child.item for child in self.children if not child.over)
        return start(self, probe)

    monkeypatch.setattr(Collector, "start", watched)
    assert len(runs(collected(patient, monkeypatch, "works", "torch", "jax"))) == 2
    assert busy == []


def test_without_time_a_framework_is_not_started(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    collector = Collector(Plan(python=patient.python, frameworks=("torch",)))
    from cudadoctor.model.evidence import Item

    line = '{"event": "framework", "name": "torch"}\n'
    collector.keep(Item(id="python-env", kind="worker", what=("python", "python_env.py"), status="ok", stdout=line))
    collector.end = 0.0
    collector.try_frameworks()
    assert collector.items["framework-torch"].status == "not-run"
    assert "longer --timeout" in (collector.items["framework-torch"].why or "")


def test_the_worker_leaves_no_compiled_file(tmp_path: Path) -> None:
    copied = tmp_path / "torch.py"
    copied.write_text((Path(FAKES) / "torch.py").read_text())
    run("frameworks", "torch", FAKE_TORCH="works", PYTHONPATH=str(tmp_path))
    assert os.listdir(tmp_path) == ["torch.py"]
