"""Experiments: what is tried next, what it proves, what it never touches; on made-up machines, and with a stub driver for real."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import venv
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cudadoctor.commands import examining
from cudadoctor.inventory.rungs import LADDER_ORDER
from cudadoctor.judge import experiments, stages
from cudadoctor.judge.experiments import planning
from cudadoctor.model.evidence import Evidence, Item
from cudadoctor.model.experiments import SAME, Change, Entry, Failure, Plan, Proposal, Ran, Try
from cudadoctor.model.facts import Facts
from cudadoctor.model.findings import Conclusion
from cudadoctor.model.guard import Guard
from cudadoctor.model.judgement import Answer, Question
from cudadoctor.model.report import Report
from cudadoctor.model.requirements import Requirements
from cudadoctor.model.values import LADDER
from cudadoctor.parsers import tries
from cudadoctor.report import formats
from cudadoctor.report.text import Style, render
from cudadoctor.sources import experiments as laboratories
from cudadoctor.sources import recording
from cudadoctor.sources.experiments import Laboratory
from cudadoctor.within import judging
from tests.command_line import changed, evidence_of
from tests.facts_builder import facts_of, ladder
from tests.judging import KNOWLEDGE, cause_of
from tests.prescriptions import shells, written
from tests.worker_runs import driver_stubs

HIDDEN = "h200-visible-devices-minus-one"
UNFORESEEN = experiments.UNFORESEEN
FAILED = Failure(rung="init", kind="fail 999", words="init: 999 CUDA_ERROR_UNKNOWN")
Machine = Callable[[Change, int], bool]  # whether the rung works, by the change and the number of the run


# ---------------------------------------------------------------- made-up machines
def ran(what: Try, *, works: bool, failure: Failure = FAILED) -> Ran:
    below = LADDER_ORDER[LADDER_ORDER.index("libcuda") : LADDER_ORDER.index("init")]
    if works:
        return Ran(what=what, passed=(*below, "init", "devices"), failed=None, seconds=0.3)
    return Ran(what=what, passed=below, failed=failure, seconds=0.2)


def runs_on(machine: Machine, plan: Plan) -> list[Ran]:
    runs: list[Ran] = []
    while (wanted := experiments.next_try(plan, runs)) is not None:
        runs.append(ran(wanted, works=machine(wanted.change, len(runs))))
        assert len(runs) <= experiments.MOST
    return runs


def without(*names: str) -> Machine:
    """The rung works once all of these are gone."""
    return lambda change, _: set(names) <= set(change.unset)


def plan_of(*names: str, proposals: Iterable[Proposal] = (), entries: dict[str, int] | None = None) -> Plan:
    units = KNOWLEDGE.experiments.grouped(names, FAILED.rung)
    return Plan(
        failure=FAILED,
        goal="devices",
        step="first",
        proposals=tuple(proposals),
        units=units.groups,
        likely=units.likely,
        entries=entries or {},
    )


def concluded(plan: Plan, runs: list[Ran]) -> Conclusion:
    return experiments.concluded(plan, runs, Facts(()), KNOWLEDGE)


@given(st.integers(min_value=1, max_value=90), st.data())
@settings(max_examples=60, deadline=None)
def test_one_variable_at_fault_is_found_among_many(count: int, data: st.DataObject) -> None:
    names = [f"{data.draw(st.sampled_from(('CUDA_', 'NUMBA_', 'LD_', 'PYTHON', 'SITE_')))}X{number}" for number in range(count)]
    culprit = data.draw(st.sampled_from(names))
    plan = plan_of(*names)
    runs = runs_on(without(culprit), plan)
    found = concluded(plan, runs)
    assert [clue.values["variable"] for clue in found.clues] == [culprit], [run.what.change for run in runs]
    assert found.clues[0].proof is not None
    assert runs[-1].what.change == SAME  # and failed again without it


@given(st.integers(min_value=2, max_value=9), st.data())
@settings(max_examples=30, deadline=None)
def test_one_entry_of_a_list_is_found(count: int, data: st.DataObject) -> None:
    culprit = data.draw(st.integers(min_value=0, max_value=count - 1))
    plan = plan_of("LD_LIBRARY_PATH", "A", "B", entries={"LD_LIBRARY_PATH": count})

    def machine(change: Change, _: int) -> bool:
        return "LD_LIBRARY_PATH" in change.unset or Entry(variable="LD_LIBRARY_PATH", number=culprit) in change.left_out

    runs = runs_on(machine, plan)
    assert runs[-2].what.change == Change(left_out=(Entry(variable="LD_LIBRARY_PATH", number=culprit),))
    assert len(concluded(plan, runs).clues) == 1


def test_two_that_only_help_together_are_a_suspicion() -> None:
    plan = plan_of("CUDA_A", "SITE_B", "SITE_C", "SITE_D")
    found = concluded(plan, runs_on(without("CUDA_A", "SITE_C"), plan))
    assert [(clue.cause, clue.basis, clue.proof) for clue in found.clues] == [(UNFORESEEN, "suspected", None)]


def test_nothing_is_concluded_where_a_bare_environment_fails_too() -> None:
    plan = plan_of("CUDA_A", "SITE_B")
    runs = runs_on(lambda _change, _number: False, plan)
    assert [run.what.change.unset for run in runs] == [("CUDA_A",), ("CUDA_A", "SITE_B")]  # the likeliest, then all
    assert concluded(plan, runs).clues == ()
    assert [one.worked for one in concluded(plan, runs).tried] == [False, False]


def test_the_likeliest_variables_cost_one_run_and_come_before_the_files_of_the_start() -> None:
    starts = [Proposal(cause="python-startup-breaks-cuda", change=Change(without_start=number)) for number in range(3)]
    plan = plan_of("CUDA_A", "CUDA_B", "SITE_C", proposals=starts)
    runs = runs_on(without("CUDA_B"), plan)
    assert [run.what.change for run in runs[:2]] == [Change(unset=("CUDA_A", "CUDA_B")), Change(unset=("CUDA_A",))]
    assert not any(run.what.change.without_start is not None for run in runs)
    runs = runs_on(lambda change, _: change.without_start == 1, plan)
    assert [run.what.change for run in runs] == [Change(unset=("CUDA_A", "CUDA_B")), starts[0].change, starts[1].change, SAME]


def test_the_likeliest_group_is_asked_first() -> None:
    """Numba's own variables where Numba failed: two runs and the control in place of the halving of all."""
    failed = msgspec.structs.replace(FAILED, rung="numba-kernel")
    units = KNOWLEDGE.experiments.grouped(["CUDA_A", "NUMBA_B", *(f"SITE_{number}" for number in range(60))], "numba-kernel")
    assert (units.groups[0], units.likely) == (("NUMBA_B",), 1)
    plan = Plan(failure=failed, goal="numba-kernel", step="first", units=units.groups, likely=units.likely)
    runs: list[Ran] = []
    while (wanted := experiments.next_try(plan, runs)) is not None:
        works = "NUMBA_B" in wanted.change.unset
        passed = ("init", "devices", *(("numba-kernel",) if works else ()))
        runs.append(Ran(what=wanted, passed=passed, failed=None if works else failed, seconds=1.0))
    assert [run.what.change for run in runs] == [Change(unset=("NUMBA_B",)), SAME]
    assert all(run.what.straight for run in runs)


ORDINARY = [
    line.partition("=")[0] for line in str(getattr(evidence_of("h200-nodes-exchanged").get("environment"), "stdout", "")).splitlines()
]


@pytest.mark.parametrize(
    ("culprit", "most"), [("LLVMLITE_ENABLE_X", 6), ("NPY_X", 6), ("SCIPY_X", 6), ("SITE_X", 9), ("NV_LIBNCCL_VERSION", 12)]
)
def test_a_variable_is_found_within_the_budget(culprit: str, most: int) -> None:
    """Among the seventy of a container; a run of Numba takes a second, and there are eight, of which failing ones take half. SciPy is what the traceback goes through."""
    failed = msgspec.structs.replace(FAILED, rung="numba-kernel")
    names = {
        name for name in (*ORDINARY, "NUMBA_CACHE_DIR", "OMP_NUM_THREADS", culprit) if not KNOWLEDGE.experiments.fixed(name, job=False)
    }
    units = KNOWLEDGE.experiments.grouped(names | {f"SITE_{number}" for number in range(4)}, "numba-kernel", ["numba", "scipy"])
    plan = Plan(failure=failed, goal="numba-kernel", step="first", units=units.groups, likely=units.likely)
    runs: list[Ran] = []
    while (wanted := experiments.next_try(plan, runs)) is not None:
        works = culprit in wanted.change.unset
        runs.append(
            Ran(what=wanted, passed=("devices", *(("numba-kernel",) if works else ())), failed=None if works else failed, seconds=1.0)
        )
    assert [clue.values["variable"] for clue in concluded(plan, runs).clues] == [culprit]
    assert len(runs) <= most, [len(run.what.change.unset) for run in runs]


PROPOSED = Proposal(cause="cuda-visible-devices-hides-all", change=Change(unset=("CUDA_VISIBLE_DEVICES",)))


@pytest.mark.parametrize("from_run", [0, 1, 2])
def test_a_fault_that_goes_by_itself_proves_nothing(from_run: int) -> None:
    """The change came first and the cure would have come anyway."""
    plan = plan_of(proposals=[PROPOSED])
    runs = runs_on(lambda _change, number: number >= from_run, plan)
    assert [clue for clue in concluded(plan, runs).clues if clue.proof is not None] == []


def test_another_failure_without_the_change_proves_nothing() -> None:
    plan = plan_of(proposals=[PROPOSED])
    first = experiments.next_try(plan, [])
    assert first is not None
    helped = ran(first, works=True)
    again = experiments.next_try(plan, [helped])
    assert again is not None
    other = ran(again, works=False, failure=Failure(rung="init", kind="fail 100"))
    assert concluded(plan, [helped, other]).clues == ()
    assert len(concluded(plan, [helped, ran(again, works=False)]).clues) == 1


def test_a_hang_ends_the_experiments() -> None:
    plan = plan_of("A", "B", proposals=[PROPOSED])
    first = experiments.next_try(plan, [])
    assert first is not None
    hung = Ran(what=first, passed=(), failed=None, seconds=8.0, hung=True)
    assert experiments.next_try(plan, [hung]) is None
    assert [one.worked for one in concluded(plan, [hung]).tried] == [None]


# ---------------------------------------------------------------- plans of recorded machines
def plan_for(evidence: Evidence) -> Plan | None:
    return stages.weighed(evidence, KNOWLEDGE, Requirements(), Guard()).plan


def live(name: str, changes: dict[str, Callable[[str], str]] | None = None) -> Evidence:
    return msgspec.structs.replace(changed(name, changes) if changes else evidence_of(name), origin="live")


def test_the_change_of_the_cause_is_proposed() -> None:
    plan = plan_for(live(HIDDEN))
    assert plan is not None
    assert plan.proposals == (Proposal(cause="cuda-visible-devices-hides-all", change=Change(unset=("CUDA_VISIBLE_DEVICES",))),)
    assert plan.goal == "numba-kernel"


def test_a_value_that_another_begins_with_is_not_named() -> None:
    """What the failure names is tried first; `/usr/local/cuda` is not named by a path below `/usr/local/cuda-13.0`."""
    named = [
        said for said in ("/opt/cuda/lib64/a.so", "at /opt/cuda: gone", "/opt/cuda-13.0/lib64/a.so") if planning._names(said, "/opt/cuda/")
    ]
    assert named == ["/opt/cuda/lib64/a.so", "at /opt/cuda: gone"]


def test_of_short_values_one_in_quotation_marks_is_named() -> None:
    """Of the variables that hold it, those that CUDA and Numba read; and no more than a few."""
    said = "ValueError: invalid literal for int() with base 10: 'on'"
    climb = ladder("numba-kernel")
    climb = msgspec.structs.replace(climb, rungs=(*climb.rungs[:-1], msgspec.structs.replace(climb.rungs[-1], output=said)))
    facts = facts_of({LADDER: climb})
    variables = {"A_SWITCH": "on", "B_SWITCH": "on", "C_SWITCH": "on", "CUDA_STREAMS": "on", "NUMBA_LEVEL": "o", "LONG": "on and off"}
    named = list(planning._named(variables, facts, live(HIDDEN), KNOWLEDGE.experiments))
    assert named == [Change(unset=(name,)) for name in ("A_SWITCH", "B_SWITCH", "CUDA_STREAMS")]


@pytest.mark.parametrize(
    "evidence",
    [
        msgspec.structs.replace(live(HIDDEN), quick=True),
        evidence_of(HIDDEN),  # a recording: nothing is there to be tried on
        live("driver-hung"),
        live("gpu-fell-off-bus"),
        live("ecc-error-of-this-boot"),
        live("container-no-gpu-access"),
        live("h200-healthy"),
    ],
    ids=["quick", "recording", "hang", "lost", "ecc", "container", "healthy"],
)
def test_nothing_is_tried(evidence: Evidence) -> None:
    assert plan_for(evidence) is None


def test_what_a_scheduler_granted_is_not_touched() -> None:
    plan = plan_for(live(HIDDEN, {"environment": lambda text: text + "SLURM_JOB_ID=7\nSLURM_JOB_GPUS=0\n"}))
    every = [] if plan is None else [name for group in plan.units for name in group] + [p.change.unset for p in plan.proposals]
    assert not any("CUDA_VISIBLE_DEVICES" in str(one) or "SLURM" in str(one) for one in every)


def test_no_context_is_made_where_others_compute() -> None:
    """A process of another's on the GPU: a try stops at the count of the devices."""
    asked = {item.id: item for item in evidence_of("h200-in-use").items if item.id in ("nvml", "nvidia-smi")}
    plan = plan_for(live(HIDDEN).completed(tuple(asked.values())))
    assert plan is not None
    assert plan.goal == "devices"


def test_where_others_compute_a_try_does_what_the_first_climb_did() -> None:
    """The driver's own kernel ran beside them, so Numba's may; not where somebody wants the GPU for himself, shares a context of
    MPS, or nobody says so, nor where little memory is left.
    """
    asked = {item.id: item for item in evidence_of("h200-in-use").items if item.id in ("nvml", "nvidia-smi")}
    shared = live("h200-numba-simulator").completed(tuple(asked.values()))
    plan = plan_for(shared)
    assert plan is not None
    assert plan.goal == "numba-kernel"
    alone = msgspec.structs.replace(shared, items=tuple(item for item in shared.items if item.id != "nvidia-smi"))
    assert plan_for(alone) is not None
    for old, new in (
        ('"compute_mode": "default"', '"compute_mode": "exclusive_process"'),
        ('"compute_mode": "default"', '"compute_mode": null'),  # not known
        ('"kind": "C"', '"kind": "M+C"'),
        ('"/opt/venv/bin/python"', "null"),
        ('"/opt/venv/bin/python"', '"nvidia-cuda-mps-server"'),
    ):
        nvml = msgspec.structs.replace(asked["nvml"], stdout=(asked["nvml"].stdout or "").replace(old, new))
        assert nvml.stdout != asked["nvml"].stdout
        assert plan_for(alone.completed((nvml,))) is None, new
    nameless = (asked["nvml"].stdout or "").replace('"/opt/venv/bin/python"', "null")  # of another PID namespace
    for clients, may in ((0, True), (2, False)):
        told = nameless.replace('"compute_mode"', f'"mps_clients": {clients}, "compute_mode"')
        assert told != nameless
        plan = plan_for(alone.completed((msgspec.structs.replace(asked["nvml"], stdout=told),)))
        assert (plan is not None and plan.goal == "numba-kernel") is may
    ladder = shared.get("ladder")
    assert ladder is not None
    beside = '{"event": "guest", "gpu": 0, "busy": 90, "others": 1}\n' + (ladder.stdout or "")  # nobody was listed, and then one came
    for clients, may in ((0, True), (2, False)):
        nobody = re.sub(r'\{"event": "process"[^\n]*\n', "", asked["nvml"].stdout or "").replace(
            '"compute_mode"', f'"mps_clients": {clients}, "compute_mode"'
        )
        assert '"process"' not in nobody
        items = (msgspec.structs.replace(asked["nvml"], stdout=nobody), msgspec.structs.replace(ladder, stdout=beside))
        assert (plan_for(alone.completed(items)) is not None) is may
    full = re.sub(r'"memory_free_bytes": \d+', '"memory_free_bytes": 1000000000', ladder.stdout or "")
    assert full != ladder.stdout
    assert plan_for(shared.completed((msgspec.structs.replace(ladder, stdout=full),))) is None


def test_it_is_said_that_nothing_was_tried_beside_others() -> None:
    asked = next(item for item in evidence_of("h200-in-use").items if item.id == "nvml")
    nameless = msgspec.structs.replace(asked, stdout=(asked.stdout or "").replace('"/opt/venv/bin/python"', "null"))
    passed = '"step": "numba-kernel", "status": "pass", "gpu": 0, "code": null, "name": null, "output": ""'
    failed = passed.replace("pass", "fail").replace('"output": ""', '"output": "ValueError: maxlen must be non-negative"')
    alone = live("h200-healthy", {"ladder": lambda text: text.replace(passed, failed)})
    nobody_lists = tuple(
        msgspec.structs.replace(item, status="denied", stdout=None) for item in alone.items if item.id in ("nvml", "nvidia-smi")
    )
    for evidence, said in ((alone.completed((nameless,)), True), (alone, False), (alone.completed(nobody_lists), False)):
        report = stages.judge(evidence, KNOWLEDGE)
        assert report.verdict == "undecided"
        assert any(note.startswith("Nothing was tried") for note in report.notes) is said


def test_who_computes_is_not_known_where_nobody_lists_it() -> None:
    evidence = live("h200-numba-simulator")
    less = tuple(
        msgspec.structs.replace(item, status="denied", stdout=None) for item in evidence.items if item.id in ("nvml", "nvidia-smi")
    )
    assert len(less) == 2
    assert plan_for(evidence) is not None
    assert plan_for(evidence.completed(less)) is None


# ---------------------------------------------------------------- the report
def item(number: int, what: Try, *, works: bool, seconds: float = 0.9) -> Item:
    """What a child would have written."""
    lines: list[dict[str, object]] = [{"event": "start", "python": "python3"}]
    steps = ["libcuda", "init", "devices", "context", "memory", "ptx-kernel", "numba-kernel"] if works else ["libcuda", "init"]
    for step in steps:
        good = works or step == "libcuda"
        fields = {"status": "pass"} if good else {"status": "fail", "code": 100, "name": "CUDA_ERROR_NO_DEVICE"}
        lines.append({"event": "end", "step": step, "gpu": None, "output": "", **fields})
    stdout = "".join(json.dumps(line) + "\n" for line in lines)
    argv = ("python3", "ladder.py", *tries.argv(what))
    return Item(id=f"try-{number}", kind="worker", what=argv, status="ok", exit=0, stdout=stdout, stderr="", seconds=seconds)


def experimented(evidence: Evidence, machine: Machine) -> Evidence:
    plan = plan_for(evidence)
    assert plan is not None
    items: list[Item] = []
    while (wanted := experiments.next_try(plan, [run for run in map(tries.ran, items) if run is not None])) is not None:
        items.append(item(len(items) + 1, wanted, works=machine(wanted.change, len(items))))
    return evidence.completed(tuple(items))


def report_on(evidence: Evidence) -> Report:
    report = stages.judge(evidence, KNOWLEDGE)
    assert report.diagnosis.crashes == ()
    return report


def test_a_proof_is_the_first_line_of_the_fix() -> None:
    report = report_on(experimented(live(HIDDEN), without("CUDA_VISIBLE_DEVICES")))
    assert report.diagnosis.root is not None
    assert report.diagnosis.root.proof is not None
    lines = render(report, KNOWLEDGE, Style(width=200)).split("\n")
    first = lines.index("Fix") + 1
    assert " ".join(line.strip() for line in lines[first : first + 2]) == (
        "Tried here: with CUDA_VISIBLE_DEVICES unset, a Numba kernel ran and was right (0.9 s); without it, the failure came back."
    )


@pytest.mark.parametrize("form", ["html", "markdown", "junit", "github"])
def test_every_format_says_what_was_tried(form: str) -> None:
    proven = report_on(experimented(live(HIDDEN), without("CUDA_VISIBLE_DEVICES")))
    page = " ".join(formats.FORMATS[form].render(proven, KNOWLEDGE, Style()).replace("\\_", "_").split())
    assert "Tried here: with CUDA_VISIBLE_DEVICES unset, a Numba kernel ran and was right (0.9 s)" in page.replace("%0A", " ")


def test_what_did_not_help_is_said() -> None:
    report = report_on(experimented(live(HIDDEN), lambda _change, _number: False))
    assert report.diagnosis.root is not None
    assert report.diagnosis.root.proof is None
    assert "Tried without effect: CUDA_VISIBLE_DEVICES unset" in render(report, KNOWLEDGE, Style(width=200))


def test_a_root_steps_down_to_what_is_proven_alone() -> None:
    evidence = live(HIDDEN, {"environment": lambda text: text + "SITE_CUDA_MODE=strange\n"})
    report = report_on(experimented(evidence, without("SITE_CUDA_MODE")))
    assert cause_of(report) == UNFORESEEN
    found = [finding.cause for finding in (*report.diagnosis.explains, *report.diagnosis.also)]
    assert "cuda-visible-devices-hides-all" in found
    assert report.prescription is not None
    assert report.prescription.steps[0].shell == "unset SITE_CUDA_MODE"


def test_a_value_that_redaction_takes_is_not_shown() -> None:
    evidence = live(HIDDEN, {"environment": lambda text: text + "SITE_CUDA_TOKEN=hunter2secret\n"})
    report = report_on(experimented(evidence, without("SITE_CUDA_TOKEN")))
    assert report.diagnosis.root is not None
    assert report.diagnosis.root.evidence[0].text == "SITE_CUDA_TOKEN is set (its value is not shown)"
    assert "hunter2secret" not in json.dumps(msgspec.to_builtins(report))


def test_experiments_feed_no_facts() -> None:
    evidence = live(HIDDEN)
    tried = experimented(evidence, lambda _change, _number: False)
    before, after = report_on(evidence), report_on(tried)
    assert msgspec.structs.replace(after.diagnosis, tried=()) == before.diagnosis
    assert (after.verdict, after.checks, after.smoke) == (before.verdict, before.checks, before.smoke)


def test_a_replay_says_the_same(tmp_path: Path) -> None:
    evidence = experimented(live(HIDDEN), without("CUDA_VISIBLE_DEVICES"))
    recording.write(evidence, str(tmp_path / "kept"), force=False)
    live_report, replayed = report_on(evidence), report_on(recording.read(str(tmp_path / "kept")))
    empty = {"origin": live_report.origin, "timing": live_report.timing}
    assert msgspec.structs.replace(replayed, **empty) == live_report


# ---------------------------------------------------------------- for real, with a stub driver
@pytest.fixture(scope="module")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return driver_stubs(tmp_path_factory.mktemp("libcuda"), only="libcuda.so.1")


def collected(python: str = sys.executable) -> Evidence:
    """The first run: the ladder as the laboratory would climb it, with nothing changed, and the environment."""
    laboratory = Laboratory(Evidence(items=(), python=python), KNOWLEDGE.experiments, toolkits=(), timeout=20)
    try:
        first = laboratory.carry_out(Try(change=Change(), rung="devices"))
    finally:
        laboratory.close()
    assert first is not None
    ladder = msgspec.structs.replace(first, id="ladder", what=(python, "ladder.py"))
    variables = "".join(f"{name}={value}\n" for name, value in sorted(os.environ.items()) if "\n" not in value)
    environment = Item(id="environment", kind="environment", what="environment", status="ok", stdout=variables)
    return Evidence(items=(environment, ladder), python=python)


@pytest.fixture
def broken_by_a_variable(stub: Path, monkeypatch: pytest.MonkeyPatch) -> Evidence:
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        monkeypatch.setattr(
            "cudadoctor.sources.trust.as_root", lambda: False
        )  # the stub lies in /tmp, which root's children get nothing of
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/opt/nothing:{stub}")
    monkeypatch.setenv("FAKE_CUDA_INIT", "999")
    monkeypatch.setenv("SITE_NAME", "a secret of this site")
    return collected()


@pytest.mark.parametrize("late", [False, True])
def test_the_variable_that_breaks_the_driver_is_found(broken_by_a_variable: Evidence, monkeypatch: pytest.MonkeyPatch, late: bool) -> None:
    """`late`: the time for all is over when the first experiment has helped; there is more for those that narrow it down."""
    carried_out = Laboratory.carry_out

    def then_late(self: Laboratory, what: Try, **more: float) -> Item | None:
        item = carried_out(self, what, **more)
        ran = tries.ran(item) if item is not None else None
        if late and ran is not None and "init" in ran.passed and self.end == self.begun + laboratories.BUDGET:
            self.end = self.begun
        return item

    monkeypatch.setattr(Laboratory, "carry_out", then_late)
    answer = judging.answered(Question(machines=(broken_by_a_variable,)), KNOWLEDGE)
    assert isinstance(answer, Answer)
    assert answer.plan is not None
    # The stub is the driver of this machine, so its own place stays.
    plan = msgspec.structs.replace(
        answer.plan,
        goal="devices",
        units=tuple(
            tuple(name for name in group if name != "LD_LIBRARY_PATH") for group in answer.plan.units if group != ("LD_LIBRARY_PATH",)
        ),
    )
    after = examining.tried(msgspec.structs.replace(answer, plan=plan), broken_by_a_variable, KNOWLEDGE, timeout=20)
    report = report_on(after)
    assert report.diagnosis.root is not None
    assert (report.diagnosis.root.cause, report.diagnosis.root.proof is not None) == (UNFORESEEN, True)
    assert report.prescription is not None
    assert report.prescription.steps[0].shell == "unset FAKE_CUDA_INIT"
    kept = [one for one in after.items if one.id.startswith("try-")]
    assert 3 <= len(kept) <= experiments.MOST
    assert not any("a secret of this site" in f"{one.what} {one.stdout} {one.stderr}" for one in kept)


LINES = {
    "wrong.pth": "import os; os.environ['FAKE_CUDA_INIT'] = '999'\n",
    "usercustomize.py": '"""Nobody has one here."""\n',
    "sitecustomize.py": "import os\nos.environ['FAKE_CUDA_INIT'] = '999'\n",
}


@pytest.mark.parametrize("wrong", ["wrong.pth", "sitecustomize.py"])
def test_the_file_that_python_runs_at_its_start_is_found(stub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    venv.create(tmp_path / "v", symlinks=True)
    python = str(tmp_path / "v" / "bin" / "python")
    (packages,) = (tmp_path / "v").glob("lib/python3*/site-packages")
    (packages / "good.pth").write_text("# a comment\nimport os; os.environ['SITE_STARTED'] = '1'\n")
    (packages / wrong).write_text(LINES[wrong])
    monkeypatch.setattr("cudadoctor.sources.trust.as_root", lambda: False)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(stub))
    monkeypatch.delenv("FAKE_CUDA_INIT", raising=False)
    evidence = collected(python)
    worker = Path(experiments.__file__).parents[2] / "workers" / "python_env.py"
    listed = subprocess.run([python, "-B", str(worker)], capture_output=True, text=True, timeout=60, check=True)
    found = Item(id="python-env", kind="worker", what=(python, "python_env.py"), status="ok", exit=0, stdout=listed.stdout, stderr="")
    evidence = evidence.completed((found,))
    answer = judging.answered(Question(machines=(evidence,)), KNOWLEDGE)
    assert isinstance(answer, Answer)
    assert answer.plan is not None
    assert {Path(path).name for path in answer.plan.startup} >= {"good.pth", wrong}
    plan = msgspec.structs.replace(answer.plan, goal="devices", units=())
    after = examining.tried(msgspec.structs.replace(answer, plan=plan), evidence, KNOWLEDGE, timeout=20)
    report = report_on(after)
    assert (cause_of(report), report.diagnosis.root and report.diagnosis.root.proof is not None) == ("python-startup-breaks-cuda", True)
    assert report.diagnosis.root is not None
    assert Path(report.diagnosis.root.evidence[0].source).name == wrong  # its line is quoted
    path = f"/home/ada/v/lib/python3.12/site-packages/{wrong}"
    found_steps = written("python-startup-breaks-cuda", values={"startup_file": path})
    assert shells(found_steps) == [f"cat {path}", f"mv -nT {path} {path}.off"]


def test_a_try_changes_its_own_environment_alone(broken_by_a_variable: Evidence) -> None:
    before = dict(os.environ)
    laboratory = Laboratory(broken_by_a_variable, KNOWLEDGE.experiments, toolkits=("/opt/cuda",), timeout=5)
    try:
        given = laboratory.environment(
            Change(unset=("FAKE_CUDA_INIT",), left_out=(Entry(variable="LD_LIBRARY_PATH", number=0),), toolkit=0)
        )
    finally:
        laboratory.close()
    assert given is not None
    assert "FAKE_CUDA_INIT" not in given
    assert given["LD_LIBRARY_PATH"] == before["LD_LIBRARY_PATH"].split(":")[1]
    assert given["CUDA_HOME"] == "/opt/cuda"
    assert dict(os.environ) == before


def test_no_time_no_try(broken_by_a_variable: Evidence) -> None:
    laboratory = Laboratory(broken_by_a_variable, KNOWLEDGE.experiments, toolkits=(), timeout=0.1)
    try:
        assert laboratory.carry_out(Try(change=Change(), rung="devices")) is None
    finally:
        laboratory.close()


# ---------------------------------------------------------------- what the causes name
def test_every_change_that_a_cause_names_is_understood() -> None:
    for cause in KNOWLEDGE.causes.values():
        for one in cause.tries:
            word, _, rest = one.partition(" ")
            assert word in ("unset", "entries", "toolkit", "limits", "no-user-site", "environment"), (cause.id, one)
            assert bool(rest) == (word in ("unset", "entries")), (cause.id, one)
            assert word != "entries" or set(rest.split()) <= set(KNOWLEDGE.experiments.lists), (cause.id, one)
