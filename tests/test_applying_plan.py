"""What `fix --apply` may do at all: pure, over reports and steps."""

from __future__ import annotations

import re

import msgspec
import pytest

from cudadoctor.model.facts import Quote
from cudadoctor.model.recipe import Prescription, Step
from cudadoctor.model.report import Report
from cudadoctor.prescribe import applying
from tests.command_line import HEALTHY
from tests.judging import KNOWLEDGE, report_of

WORD = "h200-visible-devices-word"  # a machine of one's own, not a container


def live(name: str = WORD) -> Report:
    """As if the fault had been found here."""
    report = report_of(name)
    origin = msgspec.structs.replace(report.origin, kind="live")
    return msgspec.structs.replace(report, origin=origin, machine=msgspec.structs.replace(report.machine, container=None))


def step(shell: str | None, kind: str | None = "environment", **more: object) -> Step:
    return msgspec.convert({"id": "remove-setting/1", "text": "Do it.", "shell": shell, "kind": kind, **more}, Step)


def decided(*steps: Step, report: Report | None = None, variables: dict[str, str] | None = None, held: str | None = None) -> list[str]:
    found = Prescription(cause="x", action="set-environment", steps=steps)
    return [planned.does for planned in applying.plan(found, report or live(), variables or {}, held)]


# ---------------------------------------------------------------- whether anything is done
def test_what_was_found_here_is_carried_out() -> None:
    assert applying.refusal(live(), KNOWLEDGE.causes) is None


def test_a_recording_is_never_carried_out() -> None:
    assert "found on this machine" in (applying.refusal(report_of(WORD), KNOWLEDGE.causes) or "")


def test_nothing_wrong_and_nothing_certain() -> None:
    assert applying.refusal(live(HEALTHY), KNOWLEDGE.causes) == "nothing is wrong"
    report = live()
    open_ = msgspec.structs.replace(report, verdict="undecided", diagnosis=msgspec.structs.replace(report.diagnosis, root=None))
    assert applying.refusal(open_, KNOWLEDGE.causes) == "the cause is not certain"


def with_root(**changes: object) -> Report:
    report = live()
    assert report.diagnosis.root is not None
    root = msgspec.structs.replace(report.diagnosis.root, **changes)
    return msgspec.structs.replace(report, diagnosis=msgspec.structs.replace(report.diagnosis, root=root))


def test_a_suspicion_is_not_acted_on() -> None:
    assert applying.refusal(with_root(basis="suspected"), KNOWLEDGE.causes) == "the cause is only suspected"


def test_a_text_is_not_acted_on() -> None:
    quote = Quote(source="text", first=1, last=1, text="CUDA_VISIBLE_DEVICES=x")
    assert "rests on a text" in (applying.refusal(with_root(evidence=(quote,)), KNOWLEDGE.causes) or "")


def test_an_extensions_cause_is_not_acted_on() -> None:
    report = live()
    assert report.diagnosis.root is not None
    own = set(KNOWLEDGE.causes) - {report.diagnosis.root.cause}
    assert "comes from an extension" in (applying.refusal(report, own) or "")


def test_hardware_is_not_repaired_and_one_full_stop_ends_the_sentence() -> None:
    report = live()
    assert report.prescription is not None
    hopeless = msgspec.structs.replace(report.prescription, no_software_fix="No command repairs it.")
    assert applying.refusal(msgspec.structs.replace(report, prescription=hopeless), KNOWLEDGE.causes) == "No command repairs it"


# ---------------------------------------------------------------- each step
@pytest.mark.parametrize(
    ("given", "does"),
    [
        (step("true", "reads"), "run"),
        (step("true", "environment"), "run"),
        (step("true", "system"), "run"),
        (step("true", "destructive"), "run"),
        (step("systemctl restart docker", "restart"), "run"),
        (step("unset X", "session"), "show"),
        (step(None, None), "show"),
        (step(None, "restart"), "stop"),
        (step(None, "restart", mode="if", when="it hangs"), "show"),
        (step("sudo reboot", "restart"), "stop"),
        (step("true\nsystemctl reboot", "system"), "stop"),
        (step("true", "system", who="administrator"), "refuse"),
    ],
)
def test_each_step_by_its_kind(given: Step, does: str) -> None:
    assert decided(given) == [does]


@pytest.mark.parametrize("name", ["SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "KUBERNETES_SERVICE_HOST"])
def test_a_node_of_others_keeps_its_system(name: str) -> None:
    steps = (step("true", "environment"), step("true", "system"), step("true", "restart"), step("true", "destructive"))
    assert decided(*steps, variables={name: "1"}) == ["run", "refuse", "refuse", "refuse"]


def test_a_container_and_a_configured_system_keep_theirs() -> None:
    inside = msgspec.structs.replace(live(), machine=msgspec.structs.replace(live().machine, container="docker"))
    assert decided(step("true", "system"), report=inside) == ["refuse"]
    nixos = msgspec.structs.replace(live(), machine=msgspec.structs.replace(live().machine, distribution="nixos-25.05"))
    assert decided(step("true", "system"), report=nixos) == ["refuse"]


@pytest.mark.parametrize("shell", ["sudo rmmod nvidia", "nvidia-smi --gpu-reset -i 0", "echo 1 > /sys/bus/pci/drivers/driver/unbind"])
def test_a_gpu_that_others_use_is_left_alone(shell: str) -> None:
    assert decided(step(shell, "destructive"), held="process 7 holds a GPU") == ["refuse"]
    assert decided(step(shell, "destructive")) == ["run"]


def test_only_unconditional_steps_of_the_shell_make_an_environment() -> None:
    steps = (step("export A=1", "session"), step("export B=1", "session", mode="or", when="x"), step("true", "environment"))
    found = Prescription(cause="x", action="set-environment", steps=steps)
    assert applying.of_the_shell(found) == "export A=1"
    assert applying.of_the_shell(None) == ""


@pytest.mark.parametrize(
    "program", ["srun --gpus=1 --pty bash", "docker run --rm x", "cmake -B build", ". /opt/x", "export A=1\nmake", "A= make"]
)
def test_no_program_is_started_to_see_what_a_shell_would_have(program: str) -> None:
    """Nobody was asked about it: a question is put for each step that runs, and of the shell's steps there is none."""
    found = Prescription(cause="x", action="set-environment", steps=(step(program, "session"), step("unset A", "session")))
    assert applying.of_the_shell(found) == "unset A"
    assert ["--cured" in planned.why for planned in applying.plan(found, live(), {}, None)] == [False, True]


def test_what_is_asked_for_a_variable_only_reads() -> None:
    """The programs in $(...) of the steps that are carried out without a question."""
    scripts = [each.shell for recipe in KNOWLEDGE.recipes.values() for each in recipe.steps if each.kind == "session" and each.mode == "do"]
    steps = [step(script, "session") for script in scripts if script]
    told = applying.of_the_shell(Prescription(cause="x", action="set-environment", steps=tuple(steps)))
    started = {word for inner in re.findall(r"\$\(([^)]*)", told) for word in re.findall(r"(?:^|\| )([a-z][\w-]*)", inner)}
    assert started <= {"conda", "nvidia-smi", "grep", "head", "paste", "printf", "sed", "sort", "tr", "ulimit"}
    assert "unset NUMBA_DISABLE_CUDA" in told
