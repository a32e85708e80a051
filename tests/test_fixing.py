"""`cudadoctor fix`: steps as text and as a script, for the root cause or a named one; and what `smoke` requires."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cudadoctor.commands import measuring
from cudadoctor.judge import asked_for
from cudadoctor.judge.stages import Judgement, judge, weighed
from cudadoctor.model.evidence import Evidence
from cudadoctor.model.guard import Guard
from cudadoctor.model.recipe import Prescription, Step
from cudadoctor.model.requirements import Requirements
from cudadoctor.report import fixing, smoke_text
from cudadoctor.report.text import Style
from tests.cases import every
from tests.command_line import HEALTHY, HUNG, NAMES, NOUVEAU, changed, evidence_of, host, lines, records, run
from tests.judging import KNOWLEDGE, report_of

BASH = shutil.which("bash") or ""


@functools.cache
def parses(script: str) -> None:
    for shell in (["bash", "-n"], ["sh", "-n"]):
        done = subprocess.run(shell, input=script, text=True, capture_output=True, check=False)
        assert done.returncode == 0, f"{done.stderr}\n{script}"


# ---------------------------------------------------------------- steps
def test_fix_and_suggest_are_the_same() -> None:
    assert run("fix", "--replay", host(NOUVEAU)) == run("fix", "--suggest", "--replay", host(NOUVEAU))


def test_the_steps_are_those_of_the_report() -> None:
    out = run("fix", "--replay", host(NOUVEAU)).out
    report = report_of(NOUVEAU)
    assert out.splitlines()[0] == f"BROKEN  {report.diagnosis.root.title} [nouveau-bound]"  # type: ignore[union-attr]
    assert report.prescription is not None
    for step in report.prescription.steps:
        for line in (step.shell or "").splitlines():
            assert f"\n      {line}\n" in out
    assert "cudadoctor check" in out


def test_a_healthy_machine_needs_no_fix() -> None:
    result = run("fix", "--replay", host(HEALTHY))
    assert (result.code, result.out) == (0, "HEALTHY  nothing is wrong, so there is nothing to fix\n")


def test_a_cause_without_a_cure_says_why() -> None:
    result = run("fix", "--replay", host("no-gpu-container-marks"))
    assert result.code == 3
    assert (KNOWLEDGE.cause("no-nvidia-gpu").no_software_fix or "-") in " ".join(result.out.split())


def test_what_is_undecided_gets_questions_and_no_steps() -> None:
    result = run("fix", "--replay", host(HEALTHY), "--log", "-", stdin=b"CUDA error: CUDA_ERROR_NO_DEVICE")
    assert result.code == 3
    assert result.out.startswith("UNDECIDED  the cause is not certain, so no steps are given\n")
    assert "it shows whether it is driver-not-loaded" in result.out


def test_a_named_cause_is_not_passed_off_as_the_machines() -> None:
    healthy = run("fix", "driver-hung", "--replay", host(HEALTHY))
    assert healthy.code == 0
    assert healthy.out.splitlines()[0] == "HEALTHY  nothing that was seen here points to driver-hung"
    assert f"Asked for: {KNOWLEDGE.cause('driver-hung').title} [driver-hung]" in healthy.out
    assert "sudo reboot" in healthy.out
    other = run("fix", "libcuda-missing", "--replay", host(NOUVEAU))
    assert other.out.startswith("BROKEN  ")
    assert other.out.splitlines()[0].endswith("[nouveau-bound]")
    assert "[libcuda-missing]" in other.out


def beside_the_root(kind: str) -> list[tuple[str, str]]:
    """Each host with the first cause that its report names beside the root, or as a consequence of it."""
    return [(name, finding.cause) for name in NAMES for finding in getattr(report_of(name).diagnosis, kind)[:1]]


@every("name, cause", lambda: [*beside_the_root("also"), *beside_the_root("explains")], share=3)
def test_what_is_said_of_a_named_cause_is_what_check_says(name: str, cause: str) -> None:
    out = run("fix", cause, "--replay", host(name)).out
    assert "was not found here" not in out
    assert f"{cause} was found here" in " ".join(out.split())


def test_the_named_root_is_the_root() -> None:
    assert run("fix", "nouveau-bound", "--replay", host(NOUVEAU)) == run("fix", "--replay", host(NOUVEAU))


def test_a_named_cause_without_a_cure_ends_with_3_on_a_healthy_machine_too() -> None:
    result = run("fix", "no-nvidia-gpu", "--replay", host(HEALTHY))
    assert result.code == 3
    assert "No software can help" in result.out


def test_an_unknown_cause_names_the_nearest() -> None:
    result = run("fix", "nouveau", "--replay", host(HEALTHY))
    assert (result.code, result.out) == (2, "")
    assert "nouveau-bound" in result.err


def test_a_distribution_of_the_users_choice() -> None:
    assert "apt-get" in run("fix", "--replay", host(NOUVEAU)).out
    out = run("fix", "--replay", host(NOUVEAU), "--distro", "fedora-41").out
    assert "dnf" in out
    assert "apt-get" not in out


def test_a_named_cause_whose_steps_do_not_apply_here_says_so() -> None:
    result = run("fix", "driver-not-installed", "--replay", host(HEALTHY))
    assert result.code == 3
    assert "No step of its fix applies to this machine." in result.out


@pytest.mark.parametrize("options", [("--quick",), ("--python", "/usr/bin/python3"), ("--quick", "--format", "json")])
def test_the_options_about_evidence_are_taken(options: tuple[str, ...]) -> None:
    assert run("fix", "--replay", host(NOUVEAU), *options).code == 0


def test_a_live_machine() -> None:
    result = run("fix", "--quick", "--format", "json")
    report = json.loads(result.out)
    prescription = report["prescription"] or {"steps": [], "no_software_fix": None}
    given = bool(prescription["steps"]) and prescription["no_software_fix"] is None
    assert result.code == (0 if given or report["verdict"] == "healthy" else 3)


# ---------------------------------------------------------------- script
@pytest.mark.skipif(not BASH, reason="no bash")
@every("name", NAMES)
def test_the_script_of_every_host_parses(name: str) -> None:
    report = report_of(name)
    script = fixing.as_script(report, report.prescription)
    assert script.startswith("#!/bin/sh\n")
    parses(script)
    for step in report.prescription.steps if report.prescription else ():
        cured = report.prescription is not None and report.prescription.no_software_fix is None
        lead = "# One way: " if not cured else "# In your shell: " if step.kind == "session" else ""
        for line in (step.shell or "").splitlines():
            assert f"\n{lead}{line}\n" in script


@functools.cache
def weighed_for(distro: str | None) -> Judgement:
    return weighed(msgspec.structs.replace(evidence_of(HEALTHY), distro=distro), KNOWLEDGE, Requirements(), Guard())


@pytest.mark.skipif(not BASH, reason="no bash")
@every("cause", sorted(KNOWLEDGE.causes))
def test_the_script_of_every_cause_parses(cause: str) -> None:
    report = report_of(HEALTHY)
    for distro in ("ubuntu-24.04", "fedora-41", None):
        parses(fixing.as_script(report, asked_for.for_cause(cause, report, weighed_for(distro), KNOWLEDGE)))


def test_a_script_of_powershell_commands_nothing_that_an_old_one_reads_differently() -> None:
    """Without a mark, Windows PowerShell 5.1 takes a byte of this letter for a closing quote."""
    step = Step(id="x/1", text="Rename it.", shell="Move-Item 'C:\\d\u0412; calc; \u0412' 'C:\\e'", kind="environment")
    script = fixing.as_script(report_of(HEALTHY), Prescription(cause="x", action="fix-program", steps=(step,)), powershell=True)
    assert not [line for line in script.splitlines() if line and not line.startswith("#") and not line.isascii()]
    assert "Move-Item" in script


def test_the_command_prints_the_script() -> None:
    result = run("fix", "--script", "--replay", host(NOUVEAU))
    assert result.code == 0
    assert "# cause: nouveau-bound, action: install-driver" in result.out
    assert "\nset -eu\n" in result.out


def test_a_script_without_steps_says_so() -> None:
    out = run("fix", "--script", "--replay", host(HEALTHY)).out
    assert out.splitlines()[-1] == "# No steps: nothing is wrong."


@pytest.mark.skipif(not BASH, reason="no bash")
def test_no_word_of_a_step_leaves_its_comment() -> None:
    report = report_of(HUNG)
    step = Step(
        text="words\nrm -rf /words",
        shell="echo 'a\nb'",
        needs_root=True,
        kind="reads",
        verify="true\nrm -rf /verify",
        undo="x\rrm -rf /undo",
    )
    odd = msgspec.structs.replace(step, shell="echo \x1b[2J", text="second")
    script = fixing.as_script(report, Prescription(cause="driver-hung", action="reboot", steps=(step, odd)))
    parses(script)
    commands = [line for line in script.splitlines() if line and not line.startswith("#")]
    assert commands == [*(line for line in fixing._SH if not line.startswith("#")), "echo 'a", "b'"]
    assert "\x1b" not in script
    assert "\r" not in script


# ---------------------------------------------------------------- smoke
def ladder_with(change: Any, name: str = HEALTHY) -> Evidence:
    """A healthy host whose ladder's lines are changed."""

    def alter(text: str) -> str:
        found = records(text)
        change(found)
        return lines(found)

    return changed(name, {"ladder": alter})


def smoke_of(evidence: Evidence) -> Any:
    return measuring.required(judge(evidence, KNOWLEDGE, Requirements(needs_kernel=True)))


def test_smoke_passes_where_every_kernel_was_right() -> None:
    report = smoke_of(evidence_of(HEALTHY))
    assert smoke_text.passed(report)
    assert report.exit_code == 0
    out = smoke_text.render(report, KNOWLEDGE, Style())
    assert out.splitlines()[-1] == "Every kernel ran on 1 GPU and its result was right."


def no_gpu(found: list[dict[str, Any]]) -> None:
    del found[next(place for place, line in enumerate(found) if line.get("step") == "init" and line["event"] == "end") :]
    found.append({"event": "end", "step": "init", "status": "fail", "gpu": None, "code": 100, "name": "CUDA_ERROR_NO_DEVICE", "output": ""})


def simulator(found: list[dict[str, Any]]) -> None:
    for line in found:
        if line.get("event") == "numba":
            line["simulator"] = True
        if line.get("step") == "numba-kernel" and line["event"] == "end":
            line.update(status="fail", output="Numba's CUDA simulator is on: NUMBA_ENABLE_CUDASIM=1 in the environment.")
    found[:] = [line for line in found if line.get("event") != "smoke"]


def skipped_step(found: list[dict[str, Any]]) -> None:
    next(line for line in found if line.get("event") == "smoke").update(status="skip", why="not enough memory")


def wrong_result(found: list[dict[str, Any]]) -> None:
    next(line for line in found if line.get("event") == "smoke").update(status="fail", why="element 3 is 7, 4 is right")


def second_gpu(status: str | None) -> Any:
    """A second visible GPU whose Numba kernel ends like this; None: nothing ran on it."""

    def change(found: list[dict[str, Any]]) -> None:
        devices = next(line for line in found if line.get("step") == "devices" and line["event"] == "end")
        devices["devices"].append({**devices["devices"][0], "index": 1, "address": "0000:02:00.0", "uuid": "GPU-2"})
        copies = [dict(line, gpu=1) for line in found if line.get("gpu") == 0 and line["event"] in ("end", "smoke")]
        for line in copies:
            if line.get("step") == "numba-kernel" and status is not None:
                line.update(status=status, output="wrong" if status == "fail" else "", why="skipped" if status == "skip" else None)
        if status is not None:
            last = next(place for place, line in enumerate(found) if line["event"] == "done")
            found[last:last] = copies

    return change


@pytest.mark.parametrize(
    "change",
    [no_gpu, simulator, skipped_step, wrong_result, second_gpu("fail"), second_gpu("skip"), second_gpu(None)],
    ids=["no GPU", "simulator", "skipped step", "wrong result", "second GPU fails", "second GPU skipped", "second GPU untouched"],
)
def test_smoke_fails_unless_all_ran_and_were_right(change: Any) -> None:
    report = smoke_of(ladder_with(change))
    assert not smoke_text.passed(report)
    assert report.exit_code != 0
    assert "Every kernel ran" not in smoke_text.render(report, KNOWLEDGE, Style())


def test_smoke_passes_on_two_gpus_and_counts_them() -> None:
    report = smoke_of(ladder_with(second_gpu("pass")))
    assert report.exit_code == 0
    assert "Every kernel ran on 2 GPUs" in smoke_text.render(report, KNOWLEDGE, Style())


def test_a_slice_without_a_kernel_is_not_covered_by_its_neighbour() -> None:
    """Two slices of one GPU have one PCI address, so one entry among the visible GPUs."""

    def slices(found: list[dict[str, Any]]) -> None:
        second_gpu("pass")(found)
        devices = next(line for line in found if line.get("step") == "devices" and line["event"] == "end")
        devices["devices"][1]["address"] = devices["devices"][0]["address"]
        found[:] = [line for line in found if line.get("gpu") != 1 or line.get("step") in ("context", "memory")]

    report = smoke_of(ladder_with(slices))
    assert len([gpu for gpu in report.machine.gpus if gpu.visible]) == 1
    assert not smoke_text.passed(report)
    assert report.exit_code != 0


def test_a_quick_recording_shows_no_kernel() -> None:
    def quick(found: list[dict[str, Any]]) -> None:
        last = next(place for place, line in enumerate(found) if line.get("step") == "devices" and line["event"] == "end")
        del found[last + 1 :]
        found.append({"event": "done"})

    evidence = msgspec.structs.replace(ladder_with(quick), quick=True)
    assert judge(evidence, KNOWLEDGE).verdict == "healthy"
    report = smoke_of(evidence)
    assert (report.verdict, report.exit_code) == ("undecided", 3)


def test_smoke_explains_an_exit_code_that_is_not_0() -> None:
    out = run("smoke", "--replay", host(HEALTHY), "--log", "-", stdin=b"CUDA error: CUDA_ERROR_NO_DEVICE")
    assert out.code == 3
    assert "not so at present" in out.out


def test_smoke_shows_each_step_and_the_diagnosis_after_a_failure() -> None:
    result = run("smoke", "--replay", host("numba-0.56-crashes-on-580"))
    assert result.code == 1
    assert "fail " in result.out
    assert "[numba-too-old]" in result.out


def test_names_of_unlike_gpus_are_not_guessed() -> None:
    """CUDA's numbers and the bus's order differ: no name stands beside a number unless all are the same."""

    def unlike(found: list[dict[str, Any]]) -> None:
        second_gpu("pass")(found)
        devices = next(line for line in found if line.get("step") == "devices" and line["event"] == "end")
        devices["devices"][1]["name"] = "NVIDIA T4"

    out = smoke_text.render(smoke_of(ladder_with(unlike)), KNOWLEDGE, Style())
    assert "T4" not in out
    assert "GPU 1:" in out


def test_words_of_a_text_enter_no_step_of_a_fault_that_the_machine_shows(tmp_path: Path) -> None:
    log = tmp_path / "e.log"
    log.write_text("$ cat /etc/systemd/system/sshd.service\n[Service]\nEnvironment=CUDA_VISIBLE_DEVICES=-1\n")
    assert "sshd" not in run("fix", "--replay", host("h200-visible-devices-word"), "--log", str(log)).out
