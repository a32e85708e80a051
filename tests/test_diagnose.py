"""Clues to the root cause: effects by rungs, what explains what, order, logs, several GPUs, and parts that crash."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import pytest

from cudadoctor.checks.rows import CHECKS
from cudadoctor.inventory.rungs import observe
from cudadoctor.judge import stages
from cudadoctor.judge.cases import cases_of, explains
from cudadoctor.judge.diagnose import Seen, diagnose
from cudadoctor.model.evidence import Evidence
from cudadoctor.model.facts import Facts, Quote
from cudadoctor.model.findings import Clue, Crash, Judged, Outcome
from cudadoctor.model.requirements import Requirements
from cudadoctor.model.values import DEVICE_NODES, LADDER, LOADED_DRIVER, NVML, PCI
from cudadoctor.sources import pasted
from tests.command_line import HEALTHY, HUNG, NOUVEAU, changed, evidence_of
from tests.facts_builder import ADDRESS, bus, gpu, host, ladder, nodes, nvml, nvml_gpu
from tests.judging import KNOWLEDGE, cause_of
from tests.test_rungs import OTHER, two_gpus


def clue(cause: str, **more: Any) -> Clue:
    return Clue(cause=cause, quotes=(Quote(source=cause, first=1, last=1, text=f"a line of {cause}"),), **more)


def judged(clues: Iterable[Clue], facts: Facts | None = None, outcomes: Sequence[Outcome] = (), **more: Any) -> Judged:
    known = facts if facts is not None else host()
    options = {"goal": "numba-kernel", **more}
    return diagnose(Seen(clues=clues, outcomes=outcomes, facts=known, rungs=observe(known), **options), KNOWLEDGE, Requirements())


def ids(findings: Iterable[Any]) -> list[str]:
    return [finding.cause for finding in findings]


# ---------------------------------------------------------------- effects
@pytest.mark.parametrize(
    ("cause", "changes", "effect"),
    [
        ("device-nodes-missing", {}, "degrades"),  # a kernel ran, so nothing below it can block
        ("device-nodes-missing", {DEVICE_NODES: nodes(), LADDER: ladder("init", code=100), NVML: nvml(9)}, "blocks"),
        ("nvidia-smi-missing", {}, "degrades"),
        ("gpu-memory-held-by-others", {LADDER: ladder("context", code=2)}, "blocks"),
        ("gpu-memory-held-by-others", {}, "degrades"),
        ("nvidia-smi-missing", {NVML: nvml(9), LADDER: ladder("context")}, "degrades"),  # NVML stands beside the ladder
    ],
)
def test_rungs_decide_the_effect(cause: str, changes: Any, effect: str) -> None:
    found = judged([clue(cause)], host(changes)).diagnosis
    every = (*((found.root,) if found.root else ()), *found.also, *found.explains)
    assert [finding.effect for finding in every] == [effect]


def test_where_nobody_looked_the_file_decides() -> None:
    found = judged([clue("vfio-bound")], Facts(()))
    assert (found.verdict, cause_of(found)) == ("broken", "vfio-bound")


def test_a_failing_rung_that_states_its_cause_blocks_whatever_else_is_seen() -> None:
    found = judged([clue("toolkit-missing", basis="stated", from_rung="numba-kernel")], host({LADDER: ladder("numba-kernel")}))
    assert (found.verdict, cause_of(found)) == ("broken", "toolkit-missing")


def test_advice_never_changes_the_verdict() -> None:
    causes = [cause for cause in KNOWLEDGE.causes.values() if cause.effect == "advises"]
    for cause in causes:
        found = judged([clue(cause.id)])
        assert found.verdict == "healthy"
        assert ids(found.diagnosis.also) == [cause.id]


# ---------------------------------------------------------------- verdicts
def test_verdicts() -> None:
    assert judged([]).verdict == "healthy"
    assert judged([], host({LADDER: ladder("context")})).verdict == "undecided"
    assert judged([], host(unknown=(LADDER,))).verdict == "undecided"
    assert judged([clue("nvidia-smi-missing")]).verdict == "degraded"
    assert judged([], crashes=(Crash(stage="parse", name="x", error="y"),)).verdict == "undecided"
    crashed = judged([clue("vfio-bound")], Facts(()), crashes=(Crash(stage="parse", name="x", error="y"),))
    assert crashed.verdict == "broken"
    assert judged([], host({LADDER: ladder(devices=())})).verdict == "undecided"


def test_a_quick_look_ends_at_the_devices() -> None:
    quick = msgspec.structs.replace(ladder(), rungs=ladder().rungs[:3], quick=True)
    assert judged([], host({LADDER: quick}), goal="devices").verdict == "healthy"
    assert judged([], host({LADDER: quick}), goal="numba-kernel").verdict == "undecided"


def test_a_suspect_is_no_root() -> None:
    facts = host({LADDER: ladder("context", code=2)})
    found = judged([clue("program-out-of-memory", basis="suspected"), clue("gpu-memory-held-by-others", basis="suspected")], facts)
    assert (found.verdict, cause_of(found)) == ("undecided", None)
    assert ids(found.diagnosis.suspects) == ["program-out-of-memory", "gpu-memory-held-by-others"]
    assert {command for ask in found.diagnosis.ask for command in (ask.command,)} == {
        KNOWLEDGE.cause("program-out-of-memory").tell_apart,
        KNOWLEDGE.cause("gpu-memory-held-by-others").tell_apart,
    }


def test_a_rule_that_ran_to_its_end_drops_a_suspect() -> None:
    facts = host({LADDER: ladder("context", code=2)})
    suspects = [clue("gpu-memory-held-by-others", basis="suspected"), clue("zombie-gpu-process", basis="suspected")]
    cleared = Outcome(row="processes", causes=("gpu-memory-held-by-others",))
    open_ = Outcome(row="processes", causes=("zombie-gpu-process",), missing="processes", why="not recorded")
    found = judged(suspects, facts, [cleared, open_])
    assert ids(found.diagnosis.suspects) == ["zombie-gpu-process"]
    assert found.diagnosis.undecided[0].missing == ("processes",)


def test_a_clue_with_a_stronger_basis_replaces_the_suspicion_and_keeps_its_own_lines() -> None:
    facts = host({LADDER: ladder("context", code=2)})
    found = judged([clue("gpu-memory-held-by-others", basis="suspected"), clue("gpu-memory-held-by-others")], facts)
    assert found.diagnosis.root is not None
    assert found.diagnosis.root.basis == "derived"
    assert len(found.diagnosis.root.evidence) == 1


def test_a_cause_without_a_file_is_left_out() -> None:
    assert judged([clue("no-such-cause")]).verdict == "healthy"


# ---------------------------------------------------------------- what explains what
def explained(a: Clue, b: Clue, facts: Facts) -> tuple[bool, bool]:
    """Whether a explains b, and b a."""
    found = {case.cause.id + case.finding.subject: case for case in cases_of([a, b], facts, KNOWLEDGE, observe(facts))}
    first, second = (
        next(case for case in found.values() if case.cause.id == one.cause and (len(found) == 1 or case.finding.subject == one.subject))
        for one in (a, b)
    )
    return explains(first, second), explains(second, first)


DOWN = {PCI: bus(gpu(driver=None)), LOADED_DRIVER: None, DEVICE_NODES: nodes(), LADDER: ladder("init", code=100), NVML: nvml(9)}


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("driver-not-installed", "device-nodes-missing"),  # an earlier rung
        ("nouveau-bound", "driver-not-loaded"),  # same rung, b yields to a
        ("secure-boot-blocks-module", "driver-module-missing-for-kernel"),
        ("container-no-gpu-access", "libcuda-missing"),
        ("container-no-gpu-access", "driver-not-loaded"),  # b yields, although its rung comes first
        ("no-nvidia-gpu", "driver-not-installed"),
        ("driver-not-loaded", "pynvml-conflict"),  # nvml needs nodes
    ],
)
def test_what_explains_what(a: str, b: str) -> None:
    here = {**DOWN, PCI: bus()} if a == "no-nvidia-gpu" else DOWN
    assert explained(clue(a), clue(b), host(here)) == (True, False)


def test_two_that_need_nothing_of_each_other_stand_side_by_side() -> None:
    facts = host({LADDER: ladder("numba-kernel"), NVML: nvml(9)})
    broken_nvml, broken_numba = clue("pynvml-conflict"), clue("numba-cuda-disabled")
    assert explained(broken_nvml, broken_numba, facts) == (False, False)


def test_what_only_degrades_explains_nothing() -> None:
    assert explained(clue("device-nodes-missing"), clue("uvm-unavailable"), host()) == (False, False)


def test_on_one_rung_the_cause_that_the_rung_states_comes_first() -> None:
    facts = host({LADDER: ladder("numba-kernel")})
    stated = clue("python-abi-mismatch", basis="stated", from_rung="numba-kernel")
    derived = clue("numba-cuda-disabled")
    assert not set(KNOWLEDGE.cause("python-abi-mismatch").yields_to) & {"numba-cuda-disabled"}
    assert explained(stated, derived, facts) == (True, False)


@pytest.mark.parametrize(
    ("cause", "others"),
    [
        ("driver-not-loaded", [cause.id for cause in KNOWLEDGE.causes.values() if cause.layer == "kernel" and cause.id != "driver-not-loaded" and "driver" in cause.breaks]),
        ("driver-module-missing-for-kernel", ["driver-build-failed", "secure-boot-blocks-module"]),
        ("driver-not-installed", ["nouveau-bound", "driver-module-missing-for-kernel"]),
        ("numba-cuda-target-missing", ["python-module-shadowed"]),
        *(
            (cause, ["container-no-gpu-access", "container-lost-devices", "scheduler-gave-no-gpu", "wsl-gpu-unavailable", "wsl-linux-driver-installed"])
            for cause in ("device-nodes-missing", "libcuda-missing", "driver-not-loaded", "driver-not-installed")
        ),
        ("gpu-init-failed", [cause.id for cause in KNOWLEDGE.causes.values() if cause.layer in ("kernel", "bus") and cause.id != "gpu-init-failed"]),
    ],
)  # fmt: skip
def test_the_yielding_that_the_design_asks_for(cause: str, others: list[str]) -> None:
    missing = set(others) - set(KNOWLEDGE.cause(cause).yields_to)
    assert not missing, f"{cause}.toml: yields_to lacks {sorted(missing)}"


def test_nothing_yields_in_a_circle() -> None:
    for cause in KNOWLEDGE.causes.values():
        both = [other for other in cause.yields_to if other in KNOWLEDGE.causes and cause.id in KNOWLEDGE.causes[other].yields_to]
        assert not both, f"{cause.id} and {both} yield to each other"


def test_what_the_root_explains_is_folded_through() -> None:
    clues = [clue("nouveau-bound"), clue("driver-not-loaded"), clue("device-nodes-missing"), clue("libcuda-missing")]
    found = judged(clues, host(DOWN))
    assert cause_of(found) == "nouveau-bound"
    assert sorted(ids(found.diagnosis.explains)) == ["device-nodes-missing", "driver-not-loaded", "libcuda-missing"]
    assert found.diagnosis.also == ()


def test_an_independent_fault_stays_beside_the_root() -> None:
    facts = host({LADDER: ladder("numba-kernel"), NVML: nvml(9)})
    found = judged([clue("nvidia-smi-missing"), clue("numba-cuda-disabled")], facts)
    assert cause_of(found) == "numba-cuda-disabled"
    assert ids(found.diagnosis.also) == ["nvidia-smi-missing"]


def test_the_order_of_the_clues_does_not_matter() -> None:
    names = ["device-nodes-missing", "libcuda-missing", "nouveau-bound", "driver-not-loaded", "nvidia-smi-missing", "cuda-home-wrong"]
    clues = [clue(name) for name in names]
    first = judged(clues, host(DOWN)).diagnosis
    for seed in range(20):
        random.Random(seed).shuffle(clues)
        assert judged(clues, host(DOWN)).diagnosis == first


def test_the_gravest_of_what_degrades_is_the_root() -> None:
    found = judged([clue("nvidia-smi-missing"), clue("device-nodes-missing")])
    assert (found.verdict, cause_of(found)) == ("degraded", "device-nodes-missing")
    assert ids(found.diagnosis.also) == ["nvidia-smi-missing"]


def test_what_was_ruled_out_lies_at_the_root_or_below() -> None:
    outcomes = [
        Outcome(row="gpu", causes=("no-nvidia-gpu",)),
        Outcome(row="toolkit", causes=("toolkit-missing",)),
        Outcome(row="driver", causes=("vfio-bound",), missing="pci", why="not recorded"),
        Outcome(row="driver", causes=("driver-not-installed",), crashed=True),
        Outcome(row="driver", causes=("nouveau-bound",), clues=(clue("nouveau-bound"),)),
    ]
    found = judged([clue("nouveau-bound")], host(DOWN), outcomes)
    assert found.diagnosis.ruled_out == ("no-nvidia-gpu",)


# ---------------------------------------------------------------- a log beside a machine
def with_log(name: str, text: str) -> Any:
    return stages.judge(evidence_of(name).completed((pasted.output_of(text.encode()),)), KNOWLEDGE)


@pytest.mark.parametrize(
    "text",
    [
        "Failed to initialize NVML: Driver/library version mismatch\n",  # states its cause
        "numba.cuda.cudadrv.error.CudaSupportError: Error at driver init: [100] Call to cuInit results in CUDA_ERROR_NO_DEVICE\n",  # several
    ],
)
def test_a_driver_fault_of_the_log_whose_rung_works_is_not_so_at_present(text: str) -> None:
    report = with_log(HEALTHY, text)
    assert (report.verdict, report.exit_code, report.diagnosis.root) == ("undecided", 3, None)
    assert any("not so at present" in note and "Run the program again" in note for note in report.notes)
    assert report.diagnosis.ask
    assert report.checks[-1].id == "text"
    assert report.checks[-1].summary.endswith("not so at present")


def test_a_fault_of_the_program_is_the_root() -> None:
    report = with_log(HEALTHY, "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8589934592 bytes.\n")
    assert (report.verdict, report.exit_code) == ("broken", 1)
    assert cause_of(report) == "program-out-of-memory"
    assert report.diagnosis.root.evidence[0].source == "text"


def test_what_the_machine_shows_is_the_root_whatever_the_log_says() -> None:
    report = with_log(NOUVEAU, "CUDA error: CUDA_ERROR_NO_DEVICE\n")
    assert cause_of(report) == "nouveau-bound"
    assert report.verdict == "broken"


def test_a_log_that_says_nothing_changes_no_verdict() -> None:
    report = with_log(HEALTHY, "epoch 1 loss 0.3\nepoch 2 loss 0.2\n")
    assert report.verdict == "healthy"
    assert (report.checks[-1].id, report.checks[-1].status) == ("text", "unknown")
    assert report.checks[-1].summary.startswith("2 lines, ")


def test_a_log_never_changes_what_the_machine_shows() -> None:
    report = with_log(
        HEALTHY, "$ lspci -nnk -d 10de:\n$ nvidia-smi\nNVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n"
    )
    assert {row.id: row.status for row in report.checks if row.id != "text"} == {
        row.id: row.status for row in stages.judge(evidence_of(HEALTHY), KNOWLEDGE).checks
    }


# ---------------------------------------------------------------- several GPUs
PAIR = {PCI: bus(gpu(), gpu(address=OTHER))}


def test_a_fault_of_one_gpu_does_not_hide_that_of_another() -> None:
    facts = host({**PAIR, LADDER: ladder("devices"), NVML: nvml(gpus=(nvml_gpu(), nvml_gpu(1, OTHER)))})
    lost, failed = clue("gpu-fell-off-bus", subject=f"gpu:{ADDRESS}"), clue("gpu-init-failed", subject=f"gpu:{OTHER}")
    found = judged([lost, failed], facts)
    assert cause_of(found) == "gpu-fell-off-bus"
    assert found.diagnosis.explains == ()
    assert [(finding.cause, finding.subject) for finding in found.diagnosis.also] == [("gpu-init-failed", f"gpu:{OTHER}")]


def test_one_cause_on_two_gpus_is_two_findings() -> None:
    facts = host({**PAIR, LADDER: ladder("devices")})
    found = judged([clue("gpu-fell-off-bus", subject=f"gpu:{address}") for address in (OTHER, ADDRESS)], facts).diagnosis
    assert found.root is not None
    assert [found.root.subject, *(finding.subject for finding in found.also)] == [f"gpu:{ADDRESS}", f"gpu:{OTHER}"]


def test_the_only_gpu_is_the_machine() -> None:
    facts = host({LADDER: ladder("devices")})
    found = judged([clue("gpu-fell-off-bus", subject=f"gpu:{ADDRESS}"), clue("gpu-init-failed")], facts)
    assert cause_of(found) == "gpu-fell-off-bus"
    assert ids(found.diagnosis.explains) == ["gpu-init-failed"]
    assert found.diagnosis.root is not None
    assert found.diagnosis.root.subject == f"gpu:{ADDRESS}"


def test_a_gpu_that_is_gone_degrades_while_the_visible_one_computes() -> None:
    """The goal is every visible GPU: one that is gone is no reason to call the machine broken."""
    facts = host({PCI: bus(gpu(), gpu(driver="vfio-pci", address=OTHER))})
    found = judged([clue("gpu-fell-off-bus", subject=f"gpu:{OTHER}")], facts)
    assert (found.verdict, cause_of(found)) == ("degraded", "gpu-fell-off-bus")


@pytest.mark.parametrize("cause", ["vfio-bound", "nouveau-bound", "driver-too-new-for-gpu"])
def test_a_gpu_that_is_set_aside_is_advice_while_the_other_computes(cause: str) -> None:
    """A card for a virtual machine or for the display may be meant: nothing is undone there."""
    facts = host({PCI: bus(gpu(), gpu(driver="vfio-pci", address=OTHER))})
    found = judged([clue(cause, subject=f"gpu:{OTHER}")], facts)
    assert (found.verdict, cause_of(found)) == ("healthy", None)
    assert [(finding.cause, finding.effect) for finding in found.diagnosis.also] == [(cause, "advises")]


def test_a_visible_gpu_that_fails_breaks_the_machine_although_the_other_computes() -> None:
    facts = host({**PAIR, LADDER: two_gpus(first_fails="memory")})
    found = judged([clue("gpu-memory-held-by-others", subject=f"gpu:{ADDRESS}")], facts)
    assert (found.verdict, cause_of(found)) == ("broken", "gpu-memory-held-by-others")
    assert judged([], facts).verdict == "undecided"


def test_gpus_are_kept_apart_where_the_bus_is_not_seen() -> None:
    facts = host({LADDER: two_gpus(first_fails="memory")}, unknown=(PCI,))
    found = judged([clue("gpu-memory-held-by-others", subject=f"gpu:{address}") for address in (ADDRESS, OTHER)], facts).diagnosis
    assert found.root is not None
    assert len([found.root, *found.also]) == 2


# ---------------------------------------------------------------- parts that crash
def fall_over(*_: Any, **__: Any) -> Any:
    raise RuntimeError("made to fail")


def test_a_parser_that_crashes_loses_its_own_facts_only(monkeypatch: pytest.MonkeyPatch) -> None:
    from cudadoctor.parsers import read

    before = stages.judge(evidence_of(HEALTHY), KNOWLEDGE)
    failing = tuple(msgspec.structs.replace(parser, parse=fall_over) if "nvcc" in parser.name else parser for parser in read.PARSERS)
    monkeypatch.setattr(read, "PARSERS", failing)
    evidence = changed(HEALTHY, {})
    items = tuple(
        msgspec.structs.replace(item, status="ok", stdout="Cuda compilation tools, release 12.4, V12.4.131\n")
        if item.id == "nvcc"
        else item
        for item in evidence.items
    )
    report = stages.judge(msgspec.structs.replace(evidence, items=items), KNOWLEDGE)
    assert before.verdict == "healthy"
    assert (report.verdict, report.exit_code) == ("undecided", 4)
    assert [(crash.stage, crash.name) for crash in report.diagnosis.crashes] == [("parse", "nvcc")]
    assert "made to fail" in report.diagnosis.crashes[0].error
    assert {row.id: row.status for row in report.checks}["gpu"] == "pass"


def test_a_rule_that_crashes_rules_nothing_out_and_hides_no_other_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    from cudadoctor.checks import rows

    def with_crash(row: str) -> Any:
        def alter(check: Any) -> Any:
            if check.id != row:
                return check
            return msgspec.structs.replace(check, rules=tuple(msgspec.structs.replace(rule, function=fall_over) for rule in check.rules))

        return tuple(alter(check) for check in CHECKS)

    monkeypatch.setattr(rows, "CHECKS", with_crash("visible-devices"))
    broken = stages.judge(evidence_of(NOUVEAU), KNOWLEDGE)
    assert (broken.verdict, broken.exit_code) == ("broken", 1)
    assert broken.diagnosis.crashes
    assert "cuda-visible-devices-hides-all" not in broken.diagnosis.ruled_out
    healthy = stages.judge(evidence_of(HEALTHY), KNOWLEDGE)
    assert (healthy.verdict, healthy.exit_code, healthy.diagnosis.root) == ("undecided", 4, None)


@pytest.mark.parametrize(
    "stage",
    ["cudadoctor.judge.stages.read.read", "cudadoctor.judge.stages.observe", "cudadoctor.judge.stages.diagnose", "cudadoctor.judge.stages.assemble.machine",
     "cudadoctor.judge.stages.assemble.smoke", "cudadoctor.judge.stages.assemble.notes", "cudadoctor.judge.stages.prescribe.prescribe", "cudadoctor.judge.stages.assemble.benchmark"],
)  # fmt: skip
def test_every_stage_may_crash(stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, fall_over)
    for name in (HEALTHY, HUNG):
        report = stages.judge(evidence_of(name), KNOWLEDGE)
        assert report.diagnosis.crashes
        assert report.exit_code in (1, 4)
        assert report.verdict in ("broken", "undecided")


def test_nothing_at_all_is_undecided() -> None:
    report = stages.judge(Evidence(items=()), KNOWLEDGE)
    assert (report.verdict, report.exit_code) == ("undecided", 3)
    assert "pass" not in {row.status for row in report.checks}


# ---------------------------------------------------------------- a text beside a machine
def test_where_the_machine_shows_a_fault_no_word_of_a_text_is_used_and_one_of_its_lines_stays_to_be_seen() -> None:
    lines = tuple(Quote(source=f"rung {number}", text="CUDA_ERROR_MPS_CONNECTION_FAILED (805)") for number in range(6))
    shown = Clue(cause="mps-problem", quotes=lines, basis="derived")
    said = Clue(
        cause="mps-problem",
        quotes=(Quote(source="text", first=1, text="x"),),
        basis="stated",
        text=True,
        values={"unit": "tailscaled.service"},
    )
    (case,) = cases_of([said, shown], host(), KNOWLEDGE, observe(host()))
    assert case.values == {}
    assert [quote.source for quote in case.finding.evidence] == ["rung 0", "rung 1", "rung 2", "text"]
    (alone,) = cases_of([said], host(), KNOWLEDGE, observe(host()))
    assert alone.values == {"unit": "tailscaled.service"}
