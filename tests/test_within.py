"""What takes too long, or too much memory, is left out; the rest is judged, and the report says so."""

from __future__ import annotations

import datetime as dt
import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

import cudadoctor
from cudadoctor import policy
from cudadoctor.knowledge.load import load
from cudadoctor.model.evidence import Evidence
from cudadoctor.model.judgement import Answer, Question, RowsWanted
from cudadoctor.model.requirements import Policy
from cudadoctor.report import json
from cudadoctor.sources import pasted
from cudadoctor.within import asking, judging, less
from cudadoctor.within.asking import Judge
from cudadoctor.within.judging import answered
from tests.command_line import NAMES, evidence_of, host
from tests.judging import cause_of
from tests.worker_runs import wait_until

pytestmark = [pytest.mark.judge_child, pytest.mark.skipif(sys.platform == "win32", reason="a limit of CPU time")]
FAULT = "CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected\n"
# Makes the child slow, greedy or mortal where a text says so, wherever it stands in the work.
MEDDLE = """
import os
from cudadoctor.parsers import attempts
before = attempts.present
def present(text, speech):
    while "SLOW" in text.text: pass
    if "GREEDY" in text.text: bytearray(4 << 30)
    if "CRASH" in text.text: os.kill(os.getpid(), 11)
    return before(text, speech)
attempts.present = present
"""


@pytest.fixture
def meddle(monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    def with_code(code: str) -> None:
        serve = "from cudadoctor.within.answering import serve; "
        assert serve in asking._CODE
        changed = asking._CODE.replace(serve, f"exec({code!r}); {serve}")
        monkeypatch.setattr(asking, "_CODE", changed)

    with_code(MEDDLE)
    return with_code


def of(text: str) -> Question:
    return Question(machines=(pasted.evidence_of(text.encode()),))


def judged(question: Question, seconds: float = 2.5) -> Answer:
    judge = Judge()
    try:
        return judge.answer(question, seconds=seconds)
    finally:
        judge.close()


def test_of_a_slow_text_the_end_is_judged(meddle: object) -> None:
    started = time.monotonic()
    answer = judged(of("SLOW\n" * 10 + "epoch 1 loss 2\n" * 6000 + FAULT), seconds=5)
    assert time.monotonic() - started < 10
    report = answer.report
    assert "CUDA_ERROR_NO_DEVICE" in str(report.diagnosis)
    assert any("last 64 KiB" in note for note in report.notes)


def test_functions_for_programs_judge_in_a_child_too(meddle: object) -> None:
    assert cudadoctor.explain(f"CRASH\n{FAULT}").verdict == "undecided"
    assert cudadoctor.check(replay=host("h200-healthy"), log=f"CRASH\n{FAULT}").verdict != "healthy"


def test_a_short_slow_text_is_left_out(meddle: object) -> None:
    report = judged(of(f"SLOW\n{FAULT}")).report
    assert (report.verdict, report.exit_code, report.diagnosis.crashes) == ("undecided", 3, ())
    assert any("would take too long" in note for note in report.notes)


@pytest.mark.parametrize("word", ["SLOW", "CRASH"])
def test_the_rest_of_the_evidence_still_proves_a_fault(word: str, meddle: object) -> None:
    whole = evidence_of("driver-not-loaded").completed(pasted.evidence_of(f"{word}\n".encode()).items)
    report = judged(Question(machines=(whole,))).report
    assert report.verdict == "broken"
    assert cause_of(report) == "driver-not-loaded"


def test_and_never_health(meddle: object) -> None:
    whole = evidence_of("h200-healthy").completed(pasted.evidence_of(b"SLOW\n").items)
    assert judged(Question(machines=(evidence_of("h200-healthy"),))).report.verdict == "healthy"
    report = judged(Question(machines=(whole,))).report
    assert (report.verdict, report.exit_code) == ("undecided", 3)


def test_more_memory_than_there_is(meddle: object) -> None:
    report = judged(of(f"GREEDY\n{FAULT}")).report
    assert report.verdict == "undecided"
    assert report.diagnosis.crashes[0].error.startswith("MemoryError")


def test_a_part_of_the_work_that_takes_too_long_is_named(meddle) -> None:  # type: ignore[no-untyped-def]
    meddle("from cudadoctor.checks import driver, rows\nimport msgspec\n"
           "def slow(facts, knowledge):\n    while True: pass\n"
           "rule = msgspec.structs.replace(driver.CHECK.rules[0], function=slow)\n"
           "rows.CHECKS = (msgspec.structs.replace(driver.CHECK, rules=(rule,)), *rows.CHECKS)\n")  # fmt: skip
    report = judged(Question(machines=(evidence_of("h200-healthy"),))).report
    assert report.verdict == "undecided"
    assert "Left out, for it did not end in time: check: driver: slow." in report.notes


@pytest.mark.parametrize("failing", ["raise RuntimeError('broken')", "while True: pass", "os.kill(os.getpid(), 11)"])
def test_a_gate_stays_shut_where_the_policy_is_not_looked_at(failing: str, meddle) -> None:  # type: ignore[no-untyped-def]
    meddle(f"import os\nfrom cudadoctor import policy\ndef failing(*_, **__):\n    {failing}\npolicy.applied = failing\n")
    demands = Policy(requirements=policy.requirements(["gpus>=1", "driver"]))
    asked = Question(machines=(evidence_of("h200-healthy"),), policy=demands, today=dt.date(2026, 11, 21))
    report = judged(asked).report
    assert [(one.text, one.met) for one in report.requirements] == [("gpus>=1", None), ("driver", None)]
    assert (report.verdict, report.exit_code) == ("undecided", 1)
    told = [*(f"{crash.stage}: {crash.error}" for crash in report.diagnosis.crashes), *report.notes]
    assert "policy: RuntimeError: broken" in told or "Left out, for it did not end in time: policy: policy." in told


def test_where_steps_fail_the_report_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(judging.asked_for, "for_cause", broken)
    report = answered(Question(machines=(evidence_of("driver-not-loaded"),), every_step=True), load()).report
    assert [(crash.stage, crash.error) for crash in report.diagnosis.crashes] == [("prescribe", "RuntimeError: broken")]
    assert (report.verdict, report.exit_code) == ("broken", 1)


def test_where_no_process_can_be_started_this_one_judges(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    assert "CUDA_ERROR_NO_DEVICE" in str(judged(of(FAULT)).report.diagnosis)


def test_quickly_is_quick(meddle: object) -> None:
    judge = Judge()
    started = time.monotonic()
    assert judge.quickly(of("SLOW\n"), until=started + 1.0) is None
    assert time.monotonic() - started < 2.0
    assert judge.lines(RowsWanted(evidence=Evidence(items=()), rows=("gpu",)), seconds=5.0).keys() == {"gpu"}
    judge.close()


@pytest.mark.parametrize("name", [NAMES[0], "h200-healthy", "driver-hung", "windows-healthy-rtx3060"])
def test_the_answer_is_that_of_this_process(name: str) -> None:
    asked = Question(machines=(evidence_of(name),), every_step=True, shell=True)
    judge = Judge(warm=True)
    assert judge.answer(asked) == answered(asked, load())
    again = judge.answer(asked)
    assert again == answered(asked, load())
    judge.close()


def test_questions_one_after_another() -> None:
    """The child is told the next one at once; its limits are those of the work alone."""
    judge = Judge(warm=True)
    for _ in range(40):
        assert judge.lines(RowsWanted(evidence=evidence_of("h200-healthy"), rows=("gpu", "driver")), seconds=5.0).keys() == {
            "gpu",
            "driver",
        }
    judge.close()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_child_ends_with_the_doctor(how: int, meddle, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    meddle(MEDDLE.replace("def present(text, speech):", f"def present(text, speech):\n    open({str(tmp_path / 'works')!r}, 'w').close()"))
    code = f"from cudadoctor.within import asking\nasking._CODE = {asking._CODE!r}\nimport sys\nfrom cudadoctor.commands.cli import main\nmain()"
    doctor = subprocess.Popen(
        [sys.executable, "-c", code, "explain", "-"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    assert doctor.stdin is not None
    doctor.stdin.write(b"SLOW\n")
    doctor.stdin.close()
    wait_until((tmp_path / "works").exists)
    pids = [int(pid) for pid in Path(f"/proc/{doctor.pid}/task/{doctor.pid}/children").read_text().split()]
    assert pids
    doctor.send_signal(how)
    doctor.wait(10)
    wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids))


def test_what_is_left_of_a_question() -> None:
    question = Question(machines=(evidence_of("h200-healthy"), evidence_of("driver-hung")))
    smaller, parts = less.without("1/item nvml", question, frozenset())
    assert parts == frozenset()
    assert smaller.machines[0] == question.machines[0]
    gone = smaller.machines[1].get("nvml")
    assert gone is not None
    assert (gone.status, gone.stdout) == ("timed-out", None)
    assert gone.dropped_bytes, "no sign that the driver hangs"
    assert smaller.machines[1].cut_short
    assert less.without("0/check: gpu: rule", question, frozenset()) == (question, {"0/check: gpu: rule"})
    assert less.without(None, question, frozenset()) == (question, frozenset())
    assert less.without("7/item x", question, frozenset()) == (question, frozenset())
    assert msgspec.structs.asdict(less.emptied(question.machines[0]))["cut_short"]


def test_replay_of_a_host_on_the_command_line() -> None:
    name = "driver-not-loaded"
    command = [sys.executable, "-m", "cudadoctor", "check", "--replay", host(name), "--format", "json"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    expected = answered(Question(machines=(evidence_of(name),)), load()).report
    assert run.returncode == expected.exit_code == 1, run.stderr
    assert run.stdout == json.render(expected)


def test_what_is_rehearsed_changes_no_answer() -> None:
    """A part of the evidence first, for nobody; then the whole. What hangs meanwhile ends, and the question is asked anew."""
    machine = evidence_of("h200-healthy")
    with closing(Judge(warm=True)) as judge:
        judge.rehearse(msgspec.structs.replace(machine, items=machine.items[:12]))
        answer = judge.answer(Question(machines=(machine,)))
    assert answer.report.verdict == "healthy"


def test_a_rehearsal_that_does_not_end_costs_only_its_time(meddle: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "REHEARSAL", 0.3)
    with closing(Judge(warm=True)) as judge:
        judge.rehearse(of("SLOW\n").machines[0])
        started = time.monotonic()
        answer = judge.answer(of(FAULT))
        assert time.monotonic() - started < 8
    assert "CUDA_ERROR_NO_DEVICE" in str(answer.report.diagnosis)
    assert not any("too long" in note for note in answer.report.notes)
