"""A machine shared with others: CUDA's numbers beside nvidia-smi's, the free GPU first, and what goes to the administrator."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from cudadoctor.checks import processes, visible_devices
from cudadoctor.inventory.devices import devices_of
from cudadoctor.judge.stages import judge
from cudadoctor.knowledge.load import load
from cudadoctor.model.evidence import Evidence, Item
from cudadoctor.model.recipe import Prescription
from cudadoctor.model.report import Report
from cudadoctor.model.values import (
    ENVIRONMENT,
    LADDER,
    NVML,
    PROCESSES,
    CudaDevice,
    GpuProcess,
    Ladder,
    Nvml,
    NvmlGpu,
    Process,
    Processes,
    RungResult,
)
from cudadoctor.prescribe import prescribe
from cudadoctor.report.text import Style, render
from cudadoctor.sources.redact import redact
from tests.command_line import changed, evidence_of
from tests.facts_builder import environment, facts_of
from tests.judging import KNOWLEDGE, cause_of
from tests.prescriptions import commands, finding

FULL, MIXED = "shared-default-gpu-full", "two-gpus-mixed-healthy"
FAST, SLOW = "0000:41:00.0", "0000:01:00.0"
UUIDS = {FAST: "GPU-8d3f0c61-52b7-4e0a-9c1d-7a60b2f4e915", SLOW: "GPU-2c94a7e0-13fd-4b68-8e57-d10b6c3a7f42"}
THIRD, THIRD_UUID = "0000:61:00.0", "GPU-77777777-1111-2222-3333-444444444444"
GIB = 1 << 30
OTHERS = "gpu-memory-held-by-others"


def report_of(name: str) -> Report:
    report = judge(evidence_of(name), KNOWLEDGE)
    assert report.diagnosis.crashes == ()
    return report


def row(report: Report, name: str) -> Any:
    return next(entry for entry in report.checks if entry.id == name)


# ---------------------------------------------------------------- which GPU is device 0
def test_numbers_of_cuda_and_nvidia_smi_are_joined_by_address() -> None:
    report = report_of(MIXED)
    assert row(report, "visible-devices").details == (
        "CUDA 0 (default): nvidia-smi 1, 0000:41:00.0, GPU-8d3f0c61, GeForce RTX 4090",
        "CUDA 1: nvidia-smi 0, 0000:01:00.0, GPU-2c94a7e0, GeForce GT 1030",
    )
    assert {gpu.address: (gpu.index, gpu.cuda_index, gpu.uuid) for gpu in report.machine.gpus} == {
        SLOW: (0, 1, UUIDS[SLOW]),
        FAST: (1, 0, UUIDS[FAST]),
    }


def test_the_lines_stand_in_the_verbose_report_within_80_columns() -> None:
    out = render(report_of(MIXED), load(), Style(width=80, verbose=True))
    lines = [line for line in out.split("\n") if line.startswith("    CUDA ")]
    assert [line.strip()[:6] for line in lines] == ["CUDA 0", "CUDA 1"]
    assert all(len(line) <= 80 for line in lines)
    assert "    CUDA " not in render(report_of(MIXED), load(), Style(width=80))


def test_another_order_is_said_and_no_finding() -> None:
    report = report_of(MIXED)
    assert (report.verdict, report.diagnosis.also) == ("healthy", ())
    (note,) = [note for note in report.notes if "another order" in note]
    assert "nvidia-smi's GPU 1 (GeForce RTX 4090, 0000:41:00.0)" in note


def test_where_the_order_is_the_same_nothing_is_said() -> None:
    report = report_of("nvlink-one-link-down")
    assert not [note for note in report.notes if "order" in note]
    assert row(report, "visible-devices").details[0].startswith("CUDA 0 (default): nvidia-smi 0, ")


def test_one_gpu_has_no_list_of_numbers() -> None:
    report = report_of("desktop-rtx3090-healthy")
    assert row(report, "visible-devices").details == ()
    assert row(report, "visible-devices").summary == "CUDA_VISIBLE_DEVICES is not set: it hides no GPU"


def gpu(index: int, address: str, uuid: str | None, *, used: int = 0, total: int = 80 * GIB, **more: Any) -> NvmlGpu:
    return NvmlGpu(index=index, address=address, uuid=uuid, memory_used_bytes=used, memory_total_bytes=total, **more)


def test_the_uuid_joins_where_an_address_is_missing() -> None:
    ladder = Ladder(devices=(CudaDevice(index=0, uuid="GPU-b"), CudaDevice(index=1, address=SLOW)))
    nvml = Nvml(code=0, gpus=(gpu(0, SLOW, "GPU-a"), gpu(1, FAST, "GPU-b")))
    assert [(device.number, device.index) for device in devices_of(facts_of({LADDER: ladder, NVML: nvml}))] == [(0, 1), (1, 0)]


def test_a_hidden_gpu_and_one_that_nobody_asked_about_are_told_apart() -> None:
    nvml = Nvml(code=0, gpus=(gpu(0, SLOW, "GPU-aaaaaaaa-1"), gpu(1, FAST, "GPU-aaaaaaaa-2")))
    hidden = facts_of({NVML: nvml, LADDER: climb(FAST), ENVIRONMENT: environment(CUDA_VISIBLE_DEVICES="1")})
    assert visible_devices.numbers(hidden) == (
        f"CUDA 0 (default): nvidia-smi 1, {FAST}, {UUIDS[FAST][:12]}",
        f"hidden: nvidia-smi 0, {SLOW}, GPU-aaaaaaaa",
    )
    assert visible_devices.note(hidden) is None, "who chooses GPUs knows that their numbers change"
    unasked = visible_devices.numbers(facts_of({NVML: nvml}, unknown=(LADDER,)))
    assert unasked[0].startswith("CUDA's own numbers are not known")
    # Both UUIDs begin alike: each is shown whole, for its beginning names no GPU.
    assert unasked[1:] == (f"nvidia-smi 0, {SLOW}, GPU-aaaaaaaa-1", f"nvidia-smi 1, {FAST}, GPU-aaaaaaaa-2")
    ordered = facts_of({NVML: nvml, ENVIRONMENT: environment(CUDA_DEVICE_ORDER="PCI_BUS_ID")}, unknown=(LADDER,))
    assert "CUDA counts likewise" in visible_devices.numbers(ordered)[0]


# ---------------------------------------------------------------- the free GPU first
def test_the_first_advice_is_the_free_gpu() -> None:
    report = report_of("h200x2-default-gpu-full")
    assert (cause_of(report), report.action) == (OTHERS, "free-gpu")
    assert report.prescription is not None
    first = report.prescription.steps[0]
    assert first.shell == f"export CUDA_VISIBLE_DEVICES={report.machine.gpus[1].uuid}"
    assert "NVIDIA H200" in first.text
    assert first.undo == "unset CUDA_VISIBLE_DEVICES"


def test_a_card_of_2_gib_is_no_place_for_what_was_on_one_of_24() -> None:
    prescription = report_of(FULL).prescription
    assert prescription is not None
    assert all(UUIDS[SLOW] not in (step.shell or "") for step in prescription.steps)


def test_after_the_advice_the_machine_is_healthy_for_this_shell() -> None:
    """What is on a GPU that CUDA does not show any more stands in nobody's way."""

    def only_the_slow_one(text: str) -> str:
        kept = []
        for line in text.splitlines():
            entry = json.loads(line)
            if entry.get("step") == "devices" and entry["event"] == "end":
                entry["devices"] = [{**entry["devices"][1], "index": 0}]
            if entry.get("gpu") == 1:
                entry["gpu"] = 0
            elif entry.get("gpu") == 0:
                continue
            kept.append(json.dumps(entry))
        return "\n".join(kept) + "\n"

    set_ = f"CUDA_VISIBLE_DEVICES={UUIDS[SLOW]}\n"
    report = judge(changed(FULL, {"environment": lambda text: text + set_, "ladder": only_the_slow_one}), KNOWLEDGE)
    assert (report.verdict, [entry.cause for entry in report.diagnosis.also]) == ("healthy", [])
    assert row(report, "visible-devices").summary == f"CUDA_VISIBLE_DEVICES={UUIDS[SLOW]} shows 1 GPU of 2"


def climb(*addresses: str, fails: int | None = None) -> Ladder:
    """A climb on these GPUs in CUDA's order; one of them has no memory left."""
    uuids = {**UUIDS, THIRD: THIRD_UUID}
    rungs = [RungResult(rung="devices", status="pass")]
    for number in range(len(addresses)):
        failed = number == fails
        rungs.append(RungResult(rung="context", gpu=number, status="fail" if failed else "pass", code=2 if failed else None))
    devices = tuple(CudaDevice(index=number, address=address, uuid=uuids[address]) for number, address in enumerate(addresses))
    return Ladder(rungs=tuple(rungs), devices=devices)


ALL = (FAST, SLOW, THIRD)


def three(
    used: tuple[int, int, int] = (79, 1, 0), fails: int | None = 0, /, shown: tuple[str, ...] = ALL, **variables: str
) -> dict[Any, Any]:
    """Three GPUs, whose memory in use is given in GiB; those in `shown` are what CUDA shows, in this order."""
    uuids = {**UUIDS, THIRD: THIRD_UUID}
    gpus = tuple(
        gpu(number, address, uuids[address], used=size * GIB) for number, (address, size) in enumerate(zip(ALL, used, strict=True))
    )
    return {NVML: Nvml(code=0, gpus=gpus), LADDER: climb(*shown, fails=fails), ENVIRONMENT: environment(**variables)}


def steps(state: dict[Any, Any], full: str = FAST, distro: str = "ubuntu-24.04", cause: str = OTHERS) -> Prescription:
    root = msgspec.structs.replace(finding(cause), subject=f"gpu:{full}")
    found = prescribe(root, {}, facts_of(state), KNOWLEDGE, distro)
    assert found is not None
    return found


def chosen(found: Prescription) -> str | None:
    """The GPU that the prescription lets a program take."""
    exports = [step.shell.partition("=")[2] for step in found.steps if step.shell and step.shell.startswith("export CUDA_VISIBLE_DEVICES=")]
    return next(iter(exports), None)


def test_the_freest_of_several_is_taken() -> None:
    found = steps(three())
    assert chosen(found) == THIRD_UUID
    assert found.steps[0].shell == f"export CUDA_VISIBLE_DEVICES={THIRD_UUID}"
    assert "CUDA device 2, nvidia-smi's GPU 2, 80.0 GiB free" in found.steps[0].text


def test_powershell_has_its_own_form() -> None:
    first = steps(three(), distro="windows-11").steps[0]
    assert first.shell == f"$Env:CUDA_VISIBLE_DEVICES = '{THIRD_UUID}'"


def changed_gpu(state: dict[Any, Any], place: int, **more: Any) -> dict[Any, Any]:
    gpus = list(state[NVML].gpus)
    gpus[place] = msgspec.structs.replace(gpus[place], **more)
    return {**state, NVML: msgspec.structs.replace(state[NVML], gpus=tuple(gpus))}


@pytest.mark.parametrize(
    "more",
    [
        {"memory_used_bytes": 9 * GIB}, {"memory_used_bytes": None}, {"mig_mode": "enabled"}, {"compute_mode": "prohibited"},
        {"handle_error": "GPU is lost"}, {"recovery_action": "reset"}, {"uuid": None, "memory_total_bytes": None},
    ],
)  # fmt: skip
def test_what_is_not_known_to_be_free_and_well_is_not_taken(more: dict[str, Any]) -> None:
    assert chosen(steps(changed_gpu(three(), 2, **more))) == UUIDS[SLOW]


def test_an_exclusive_gpu_is_taken_only_while_nobody_has_it() -> None:
    state = changed_gpu(three(), 2, compute_mode="exclusive-process")
    assert chosen(steps(state)) == THIRD_UUID
    state[NVML] = msgspec.structs.replace(state[NVML], processes=(GpuProcess(gpu=THIRD, pid=7, kind="C"),))
    assert chosen(steps(state)) == UUIDS[SLOW]


def test_a_gpu_on_which_a_rung_broke_is_not_taken() -> None:
    assert chosen(steps(three((79, 1, 0), 2))) == UUIDS[SLOW]


def test_where_none_is_free_none_is_taken() -> None:
    found = steps(three((79, 40, 20)))
    assert chosen(found) is None
    assert "nvidia-smi -L" in found.steps[-1].text


def test_a_default_that_is_free_needs_no_choice() -> None:
    found = steps(three((0, 79, 0), None), full=SLOW)
    assert chosen(found) is None
    assert found.steps[0].text.startswith("Programs take CUDA's device 0 by default, which is free")
    assert FAST in found.steps[0].text


def test_what_the_variable_hides_stays_hidden() -> None:
    shown = three(shown=(FAST, SLOW), CUDA_VISIBLE_DEVICES="0,1")
    assert chosen(steps(shown)) == UUIDS[SLOW]
    assert chosen(steps(three(shown=(FAST,), CUDA_VISIBLE_DEVICES="0"))) is None


def test_nobody_asked_cuda() -> None:
    assert chosen(steps({NVML: three()[NVML]})) is None


@pytest.mark.parametrize(
    ("variables", "taken"),
    [
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0,1,2"}, True),
        ({"SLURM_JOB_ID": "7", "SLURM_STEP_GPUS": "1-3"}, True),  # numbers of the node; the job counts its own from 0
        ({"SLURM_JOB_ID": "7", "SLURM_GPUS_ON_NODE": "3", "CUDA_VISIBLE_DEVICES": "0,1,2"}, True),
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0"}, False),  # CUDA shows more than was given
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0", "CUDA_VISIBLE_DEVICES": "0,1,2"}, False),  # a user widened it
        ({"SLURM_JOB_ID": "7"}, False),
        ({"PBS_JOBID": "7"}, False),
        ({"PBS_JOBID": "7", "CUDA_VISIBLE_DEVICES": "0,1,2"}, True),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1", "NVIDIA_VISIBLE_DEVICES": "all"}, False),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1", "NVIDIA_VISIBLE_DEVICES": ",".join((*UUIDS.values(), THIRD_UUID))}, True),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1", "NVIDIA_VISIBLE_DEVICES": UUIDS[FAST]}, False),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1", "NVIDIA_VISIBLE_DEVICES": "void"}, True),  # the engine shows what was given, and no more
    ],
)
def test_no_scheduler_is_cheated(variables: dict[str, str], taken: bool) -> None:
    assert (chosen(steps(three(**variables))) is not None) == taken


def test_a_log_names_no_gpu_so_the_default_counts() -> None:
    found = prescribe(finding(OTHERS), {}, facts_of(three((79, 1, 0), None)), KNOWLEDGE, "ubuntu-24.04")
    assert found is not None
    assert chosen(found) == THIRD_UUID
    idle = prescribe(finding(OTHERS), {}, facts_of(three((0, 0, 0), None)), KNOWLEDGE, "ubuntu-24.04")
    assert idle is not None
    assert chosen(idle) is None


def test_memory_on_a_hidden_gpu_is_nobodys_fault() -> None:
    state = {**three((79, 1, 0), None, shown=(SLOW, THIRD)), PROCESSES: Processes(processes=(Process(pid=7, user="eve", own=False),))}
    state[NVML] = msgspec.structs.replace(state[NVML], processes=(GpuProcess(gpu=FAST, pid=7, kind="C", memory_bytes=79 * GIB),))
    rule = next(rule for rule in processes.CHECK.rules if OTHERS in rule.causes)
    assert list(rule.function(facts_of(state), KNOWLEDGE)) == []
    shown = {**state, LADDER: climb(FAST, SLOW, THIRD)}
    assert [clue.cause for clue in rule.function(facts_of(shown), KNOWLEDGE)] == [OTHERS]
    unasked = facts_of(state, unknown=(LADDER,))
    assert [clue.cause for clue in rule.function(unasked, KNOWLEDGE)] == [OTHERS]


# ---------------------------------------------------------------- Slurm, and names in recordings
def test_a_job_whose_node_keeps_devices_from_it() -> None:
    report = report_of("slurm-job-without-gpu")
    assert (cause_of(report), report.action) == ("scheduler-gave-no-gpu", "request-gpu")
    assert report.prescription is not None
    assert "srun --gpus=1" in commands(report.prescription)


def test_groups_named_after_people_leave_with_a_recording() -> None:
    nodes = "crw-rw---- 1 root tumour-lab 195, 0 /dev/nvidia0\n"
    items = (
        Item(
            id="user",
            kind="command",
            what=("id",),
            status="ok",
            stdout="uid=1001(eve) gid=1001(eve) groups=1001(eve),27(sudo),2000(tumour-lab)\n",
        ),
        Item(id="dev", kind="listing", what="/dev", status="ok", stdout=nodes),
    )
    kept = redact(Evidence(items=items))
    said, listed = (kept.get(name).stdout or "" for name in ("user", "dev"))  # type: ignore[union-attr]
    assert "eve" not in said
    assert "tumour" not in said + listed
    assert "27(sudo)" in said
    pseudonym = said.rstrip("\n)").rpartition("(")[2]
    assert f"root {pseudonym} 195, 0" in listed, "equal things stay equal"
