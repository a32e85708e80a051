"""A machine without an NVIDIA GPU: what it has instead is named and quoted, and what works without one is offered as a choice."""

from __future__ import annotations

import json
import os
from typing import Any

import msgspec
import pytest

from cudadoctor.checks import gpu
from cudadoctor.judge.stages import judge
from cudadoctor.model.evidence import Evidence, Item
from cudadoctor.model.recipe import Prescription
from cudadoctor.model.values import ENVIRONMENT, PCI, SLURM_CLIENT, Environment, PciBus, PciFunction
from cudadoctor.parsers import lspci
from cudadoctor.parsers.base import Text
from cudadoctor.prescribe import prescribe
from cudadoctor.sources.readers import READERS
from tests.command_line import changed, evidence_of, host, run
from tests.facts_builder import facts_of, no_driver
from tests.facts_builder import host as facts_of_host
from tests.judging import KNOWLEDGE
from tests.pasted import report as report_of_text
from tests.prescriptions import finding, shells

CAUSE = "no-nvidia-gpu"
BRIDGE = PciFunction(address="0000:00:00.0", vendor="8086", device="0c04", class_code="0600", driver_known=True, line=1)


def adapter(vendor: str | None, device: str = "744c", **more: Any) -> PciFunction:
    return PciFunction(**{"address": "0000:0d:00.0", "vendor": vendor, "device": device, "class_code": "0300", "line": 2, **more})


def clue_of(*functions: PciFunction) -> Any:
    (clue,) = gpu.no_gpu(facts_of_host({**no_driver(), PCI: PciBus(functions=(BRIDGE, *functions))}), KNOWLEDGE)
    return clue


def steps(
    values: dict[str, str] | None = None,
    variables: dict[str, str] | None = None,
    *lines: str,
    srun: str | None = None,
    distro: str | None = None,
) -> Prescription:
    state = {ENVIRONMENT: Environment(variables=variables or {}, lines={}), SLURM_CLIENT: srun}
    found = prescribe(finding(CAUSE, *lines), values or {}, facts_of(state), KNOWLEDGE, distro or "ubuntu-24.04")
    assert found is not None
    assert found.action == "none"
    assert found.no_software_fix == KNOWLEDGE.cause(CAUSE).no_software_fix
    return found


def words(found: Prescription) -> str:
    return " ".join(step.text for step in found.steps)


# ---------------------------------------------------------------- what is there
@pytest.mark.parametrize(
    ("function", "called"),
    [
        (adapter("1002", driver="amdgpu"), "AMD 1002:744c (amdgpu)"),
        (adapter("8086", "4680", driver="i915"), "Intel 8086:4680 (i915)"),
        (adapter("106b", "0086"), "Apple 106b:0086"),
        (adapter("102b", "0536"), "Matrox 102b:0536"),
        (adapter("1a03", "2000", driver="ast"), "ASPEED 1a03:2000 (ast)"),
        (adapter("1af4", "1050", driver="virtio-pci"), "virtio 1af4:1050 (virtio-pci)"),
        (adapter("15ad", "0405"), "VMware 15ad:0405"),
        (adapter("1002", "74a1", class_code="1200", driver="amdgpu"), "AMD 1002:74a1 (amdgpu)"),  # an accelerator has no screen
        (adapter("1002", name="Advanced Micro Devices, Inc. [AMD/ATI] Navi 31"), "Advanced Micro Devices, Inc. [AMD/ATI] Navi 31"),
        (adapter("8086", "46a6", name="Intel(R) Iris(R) Xe Graphics"), "Intel(R) Iris(R) Xe Graphics"),  # as Windows lists it
        (adapter("abcd", "0001"), "abcd:0001"),
    ],
)
def test_adapters_are_called_by_their_makers(function: PciFunction, called: str) -> None:
    assert clue_of(function).values["adapters"] == called


def test_several_adapters_stand_in_one_sentence() -> None:
    clue = clue_of(adapter("8086", "4680", address="0000:00:02.0"), adapter("1002"))
    assert clue.values == {"adapters": "Intel 8086:4680 and AMD 1002:744c", "makers": "Intel,AMD"}


def test_their_lines_are_quoted() -> None:
    report = judge(evidence_of("no-gpu-amd-desktop"), KNOWLEDGE)
    assert report.diagnosis.root is not None
    text = "\n".join(quote.text for quote in report.diagnosis.root.evidence)
    assert "vendor:0x1002" in text
    assert "drivers/amdgpu" in text
    assert next(row for row in report.checks if row.id == "gpu").summary.endswith("but AMD 1002:744c (amdgpu)")


def test_lspci_quotes_them_too() -> None:
    listing = (
        "00:00.0 Host bridge [0600]: Intel Corporation Device [8086:4660]\n"
        "00:02.0 VGA compatible controller [0300]: Intel Corporation AlderLake-S GT1 [8086:4680] (rev 0c)\n\tKernel driver in use: i915\n"
    )
    (fact,) = lspci.parse(Text(listing, source="lspci -nnk"))
    assert [quote.text.split("\n")[0][:7] for quote in fact.quotes] == ["2 funct", "00:02.0"]  # type: ignore[union-attr]


# ---------------------------------------------------------------- what it says of them
@pytest.mark.parametrize(
    ("maker", "said"), [("AMD", True), ("Intel", True), ("Apple", True), ("ASPEED", False), ("Matrox", False), ("VMware", False)]
)
def test_gpus_of_other_makers_run_no_cuda(maker: str, said: bool) -> None:
    found = steps({"adapters": f"{maker} 1:2", "makers": maker})
    assert (f"not on this machine's {maker} 1:2" in words(found)) == said
    assert ("since 0.54" in words(found)) == said


def test_a_text_names_them_by_its_words() -> None:
    assert "GPUs of AMD" in words(steps(None, None, "VGA compatible controller: Advanced Micro Devices, Inc. Radeon"))
    assert "GPUs of Apple" in words(steps(None, None, "OS: macOS 14.5 (arm64)"))
    assert "0.54" not in words(steps(None, None, "no CUDA-capable device is detected"))


# ---------------------------------------------------------------- what works without
def test_the_simulator_is_a_choice_in_each_shell() -> None:
    bash, windows = steps(), steps(distro="windows-11")
    assert "export NUMBA_ENABLE_CUDASIM=1" in shells(bash)
    assert bash.steps[-2].undo == "unset NUMBA_ENABLE_CUDASIM"
    assert "cmd" not in words(bash)
    assert "$env:NUMBA_ENABLE_CUDASIM=1" in shells(windows)
    assert "set NUMBA_ENABLE_CUDASIM=1, without blanks" in words(windows)
    assert "by choice" in words(bash)


@pytest.mark.parametrize(
    ("variables", "srun", "offered"),
    [({}, "/usr/bin/srun", True), ({"SLURM_CONF": "/etc/slurm.conf"}, None, True), ({"SLURM_JOB_ID": "7"}, None, True), ({}, None, False)],
)
def test_slurm_is_offered_where_it_is(variables: dict[str, str], srun: str | None, offered: bool) -> None:
    assert ("srun --gres=gpu:1 cudadoctor check" in shells(steps(None, variables, srun=srun))) == offered


@pytest.mark.parametrize(
    ("variables", "lines", "menu"),
    [
        ({"COLAB_RELEASE_TAG": "x"}, (), "Colab: choose"),
        ({"KAGGLE_KERNEL_RUN_TYPE": "Interactive"}, (), "Kaggle: choose"),
        ({}, ('  File "/content/a.py", line 1',), "Colab: choose"),
        ({}, ("/kaggle/working/a.py",), "Kaggle: choose"),
        ({}, (), "is lent by Colab (menu Runtime, Change runtime type) and Kaggle"),
    ],
)
def test_the_menu_of_a_notebook(variables: dict[str, str], lines: tuple[str, ...], menu: str) -> None:
    said = words(steps(None, variables, *lines))
    assert menu in said
    assert sum(form in said for form in ("Colab: choose", "Kaggle: choose", "is lent by Colab")) == 1


def test_srun_is_looked_for(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "srun"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert READERS["find_program"]("srun") == f"{program}\n"


def test_a_login_node() -> None:
    report = judge(evidence_of("no-gpu-slurm-login"), KNOWLEDGE)
    assert report.prescription is not None
    assert "srun --gres=gpu:1 cudadoctor check" in shells(report.prescription)
    assert "0.54" not in words(report.prescription)


# ---------------------------------------------------------------- no cure, and no command that claims one
def test_what_can_be_done_is_no_fix() -> None:
    result = run("fix", "--replay", host("no-gpu-amd-desktop"))
    assert result.code == 3
    flat = " ".join(result.out.split())
    assert (KNOWLEDGE.cause(CAUSE).no_software_fix or "-") in flat
    assert "What can be done without:" in flat
    found = json.loads(run("check", "--replay", host("no-gpu-amd-desktop"), "--format", "json").out)
    assert (found["action"], found["exit_code"], found["prescription"]["action"]) == ("none", 1, "none")
    assert found["prescription"]["no_software_fix"] == KNOWLEDGE.cause(CAUSE).no_software_fix


def test_a_script_runs_none_of_the_alternatives() -> None:
    lines = run("fix", "--script", "--replay", host("no-gpu-slurm-login")).out.splitlines()
    assert [line for line in lines if line and not line.startswith("#")][-1] == "}"  # of the question that no step asks
    assert "# One way: srun --gres=gpu:1 cudadoctor check" in lines


# ---------------------------------------------------------------- a blank beside a name
def notes(text: str) -> list[str]:
    return [note for note in report_of_text(text).notes if "blank" in note]


def test_the_command_of_the_seed_does_nothing() -> None:
    (note,) = notes("Windows\n\nSET NUMBA_ENABLE_CUDASIM = 1\n")
    assert note.startswith('"SET NUMBA_ENABLE_CUDASIM = 1" sets a variable whose name ends in a blank')
    for form in ("set NUMBA_ENABLE_CUDASIM=VALUE", '$env:NUMBA_ENABLE_CUDASIM="VALUE"', "export NUMBA_ENABLE_CUDASIM=VALUE"):
        assert form in note


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("C:\\Users\\a>set NUMBA_ENABLE_CUDASIM =1", True),
        ("$ export CUDA_VISIBLE_DEVICES = 0", True),
        ("export CUDA_VISIBLE_DEVICES =0", True),
        ("export CUDA_VISIBLE_DEVICES=0", False),
        ("set NUMBA_ENABLE_CUDASIM=1", False),
        ('PS C:\\> $env:NUMBA_ENABLE_CUDASIM = "1"', False),
        ("NUMBA_ENABLE_CUDASIM = 1", False),
        ("set MY_CUDA_FLAG = 1", False),
        ("set PATH = (/usr/local/cuda/bin $PATH)", False),
        ("if set CUDA_HOME == 1", False),
    ],
)
def test_only_known_names_that_a_shell_was_told_so(line: str, said: bool) -> None:
    assert bool(notes(f"{line}\n")) == said


def test_a_live_environment_is_read_too() -> None:
    odd = "NUMBA_ENABLE_CUDASIM = 1\n SECRET_OF_MINE =x\n"
    report = judge(changed("desktop-rtx3090-healthy", {"environment": lambda text: text + odd}), KNOWLEDGE)
    (note,) = [note for note in report.notes if "blank" in note]
    assert 'has a blank beside it ("NUMBA_ENABLE_CUDASIM = 1")' in note
    assert "SECRET" not in note
    assert report.verdict == "healthy"


def test_a_recording_keeps_the_name_and_not_the_value() -> None:
    from cudadoctor.sources.redact import redact

    item = Item(id="environment", kind="environment", what="environment", status="ok", stdout="NUMBA_ENABLE_CUDASIM =secret\n")
    kept = redact(Evidence(items=(item,)))
    assert kept.items[0].stdout == "NUMBA_ENABLE_CUDASIM =<redacted>\n"
    assert len(judge(msgspec.structs.replace(kept, redacted=True), KNOWLEDGE).notes) == 1
