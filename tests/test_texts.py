"""What the machine's own words and a user's text may be blamed for: NVML, nvidia-smi, failing rungs, the kernel log."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cudadoctor.inventory.rungs import observe
from cudadoctor.model.evidence import Evidence, Item
from cudadoctor.model.facts import Facts
from cudadoctor.model.findings import Clue
from cudadoctor.model.guard import Guard
from cudadoctor.model.values import LADDER, NVML, SMI, TEGRA
from cudadoctor.sources import pasted
from cudadoctor.texts import statements
from tests.facts_builder import ADDRESS, fact, host, ladder, nvml, smi
from tests.judging import KNOWLEDGE
from tests.test_rungs import OTHER, two_gpus

MISMATCH = "Failed to initialize NVML: Driver/library version mismatch"


def stated(facts: Facts, text: str | None = None) -> list[Clue]:
    evidence = Evidence(items=(pasted.output_of(text.encode()),) if text is not None else ())
    guard = Guard()
    found = list(statements.stated(evidence, facts, KNOWLEDGE, guard))
    assert guard.crashes == []
    return found


def causes(clues: list[Clue], basis: str = "stated") -> set[str]:
    return {clue.cause for clue in clues if clue.basis == basis}


def test_a_healthy_machine_states_nothing() -> None:
    assert stated(host()) == []


def test_nvml_and_nvidia_smi_state_a_cause() -> None:
    apart: dict[Any, Any] = {LADDER: msgspec.structs.replace(ladder(), library=None), NVML: nvml(18)}
    assert causes(stated(host(apart))) == {"driver-version-mismatch"}
    found = stated(host({**apart, SMI: smi(MISMATCH)}))
    assert causes(found) == {"driver-version-mismatch"}
    assert {(clue.from_rung, clue.text) for clue in found} == {("nvml", False)}


def test_of_what_nvidia_smi_says_a_driver_that_answers_is_no_proof() -> None:
    """NVML answered for every GPU, or the libcuda that programs load is of the module's release."""
    assert causes(stated(host({SMI: smi("GPU is lost. Reboot the system to recover this GPU")}))) == set()
    assert causes(stated(host({SMI: smi(MISMATCH), NVML: nvml(18)}))) == set()


def test_a_code_with_several_candidates_only_suspects_and_names_no_rung() -> None:
    found = stated(host({NVML: nvml(9)}))
    assert causes(found, "suspected")
    assert causes(found) == set()
    assert {clue.from_rung for clue in found} == {None}


def test_jetson_has_no_nvml_by_design() -> None:
    assert stated(host({NVML: nvml(12), TEGRA: True})) == []


def test_what_a_failing_rung_prints_is_read_like_a_text() -> None:
    climb = ladder("init", code=803)
    failing = [entry for entry in climb.rungs if entry.rung == "init"]
    assert failing
    said = msgspec.structs.replace(failing[0], output="cuInit: 803 CUDA_ERROR_SYSTEM_DRIVER_MISMATCH")
    whole = msgspec.structs.replace(climb, rungs=tuple(said if entry is failing[0] else entry for entry in climb.rungs))
    found = stated(host({LADDER: whole}))
    assert {clue.from_rung for clue in found} == {"init"}
    assert all(quote.source == "ladder: init" for clue in found for quote in clue.quotes)


def test_a_fault_of_one_device_belongs_to_its_gpu() -> None:
    climb = two_gpus(first_fails="memory")
    rungs = tuple(
        msgspec.structs.replace(entry, output="CUDA_ERROR_OUT_OF_MEMORY: out of memory") if entry.status == "fail" else entry
        for entry in climb.rungs
    )
    found = stated(host({LADDER: msgspec.structs.replace(climb, rungs=rungs)}))
    known = [clue for clue in found if clue.cause in KNOWLEDGE.causes]
    of_device = [clue for clue in known if KNOWLEDGE.causes[clue.cause].layer in statements.GPU_LAYERS]
    assert {clue.cause for clue in of_device} >= {"gpu-memory-held-by-others"}
    assert {clue.subject for clue in of_device} == {f"gpu:{ADDRESS}"}
    assert {clue.subject for clue in known if clue not in of_device} <= {"machine"}


def test_the_lowest_layers_are_one_gpus() -> None:
    clue = Clue(cause="gpu-memory-held-by-others", quotes=())
    climb = ladder(devices=(ADDRESS, OTHER))
    assert statements._of_gpu(clue, KNOWLEDGE, climb, 1).subject == f"gpu:{OTHER}"
    assert statements._of_gpu(clue, KNOWLEDGE, climb, None).subject == "machine"
    assert statements._of_gpu(Clue(cause="libcuda-missing", quotes=()), KNOWLEDGE, climb, 1).subject == "machine"


def test_a_text_speaks_for_the_program_only() -> None:
    """The same words, pasted: every clue is the text's, none counts as a failing rung of this machine."""
    from_text: dict[Any, Any] = {SMI: fact(SMI, smi(MISMATCH), MISMATCH, origin="text")}
    found = stated(host(from_text), MISMATCH)
    assert causes(found) == {"driver-version-mismatch"}
    assert all(clue.text and clue.from_rung is None for clue in found)
    assert {quote.source for clue in found for quote in clue.quotes} == {"text"}


# ---------------------------------------------------------------- the kernel log is history
LOST = (
    "[ 9000.1] NVRM: GPU at PCI:0000:01:00: GPU-1\n[ 9000.2] NVRM: Xid (PCI:0000:01:00): 79, pid='<unknown>', GPU has fallen off the bus.\n"
)


@pytest.mark.parametrize(("fails", "present"), [(None, False), ("init", True)])
def test_a_line_of_the_log_counts_where_its_rung_does_not_work(fails: str | None, present: bool) -> None:
    item = Item(id="kernel-log", kind="command", what=("dmesg",), status="ok", stdout=LOST)
    facts = host({LADDER: ladder(fails)} if fails is not None else {})
    now, past = statements.of_kernel_log(Evidence(items=(item,)), facts, KNOWLEDGE, observe(facts), Guard())
    assert ("gpu-fell-off-bus" in {clue.cause for clue in now}) is present
    assert ("gpu-fell-off-bus" in {clue.cause for clue in past}) is not present


def test_a_log_that_may_not_be_read_states_nothing() -> None:
    item = Item(id="kernel-log", kind="command", what=("dmesg",), status="denied", stdout=LOST)
    assert statements.of_kernel_log(Evidence(items=(item,)), host(), KNOWLEDGE, observe(host()), Guard()) == ([], [])
