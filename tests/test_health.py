"""A GPU's health: what counts as now and what is past, memory that fails, links, clocks, and the recovery that the driver asks for."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cudadoctor.checks import gpu, health, history, links
from cudadoctor.inventory.rungs import observe
from cudadoctor.model.evidence import Evidence, Item
from cudadoctor.model.facts import Facts, NotKnown
from cudadoctor.model.findings import Clue
from cudadoctor.model.guard import Guard
from cudadoctor.model.recipe import Prescription
from cudadoctor.model.report import Report
from cudadoctor.model.values import (
    COPY_RATES,
    KERNEL_LOG,
    LADDER,
    NVML,
    PCI_LINKS,
    SMI_CSV,
    SMI_DETAILS,
    CopyRates,
    GpuDetails,
    Measurement,
    PciLink,
    PciLinks,
    SmiCsv,
)
from cudadoctor.parsers import kernel_log
from cudadoctor.parsers.base import Text
from cudadoctor.prescribe import prescribe
from cudadoctor.texts import statements
from tests.facts_builder import ADDRESS, facts_of, host, ladder, nvml, nvml_gpu
from tests.judging import KNOWLEDGE, cause_of
from tests.pasted import report as pasted
from tests.prescriptions import commands, finding

OTHER = "0000:02:00.0"
XID = f"NVRM: Xid (PCI:{ADDRESS[:-2]}): "
LOADED = "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.120  Fri Sep 13 10:10:01 UTC 2024"


def causes(clues: Any, basis: str | None = None) -> set[str]:
    return {clue.cause for clue in clues if basis is None or clue.basis == basis}


# ---------------------------------------------------------------- which lines of a log are past
def past(*lines: str) -> list[int]:
    """Numbers of the lines that are past."""
    return sorted(index + 1 for index in kernel_log.past_lines(Text("\n".join(lines), source="text", origin="text")))


BOOTS = ("-- Boot 1d3c8f0e5a2b4c6d8e9f0a1b2c3d4e5f --", "-- Reboot --", "[    0.000000] Linux version 6.8.0-45-generic (buildd@lcy02)")


@pytest.mark.parametrize("boot", BOOTS)
def test_what_stands_before_the_last_boot_is_past(boot: str) -> None:
    assert past("Linux version 6.5", f"[ 9.1] {XID}79, a", boot, f"[ 4.1] {XID}31, b") == [2]


def test_a_sentence_of_the_user_is_no_boot() -> None:
    assert past(f"[ 9.1] {XID}79, a", "I run Linux version 6.8 here") == []


def test_what_stands_before_the_drivers_last_load_is_past() -> None:
    assert past(f"[ 90.1] {XID}79, a", f"[ 500.1] {LOADED}", f"[ 600.1] {XID}31, b") == [1]


def test_a_load_begins_with_what_the_module_says_before_it_is_loaded() -> None:
    lines = (
        f"[ 90.1] {XID}79, a",
        "[ 499.9] nvidia-nvlink: Nvlink Core is being initialized, major device number 238",
        "[ 500.0] NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:",
        f"[ 500.1] {LOADED}",
    )
    assert past(*lines) == [1]


def test_lines_long_before_a_load_do_not_belong_to_it() -> None:
    assert past("[ 90.1] NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:", f"[ 500.1] {LOADED}") == [1]


def test_a_load_that_does_not_bring_the_gpu_back_clears_nothing() -> None:
    assert past(f"[ 90.1] {XID}79, a", f"[ 500.1] {LOADED}", f"[ 501.1] NVRM: GPU {ADDRESS}: RmInitAdapter failed! (0x26:0xffff:1)") == []


def test_a_reset_clears_its_own_gpu() -> None:
    reset = f"GPU 0000{ADDRESS} was successfully reset."
    assert past(f"[ 1.1] {XID}48, a", "[ 1.2] NVRM: Xid (PCI:0000:02:00): 48, b", reset, f"[ 9.1] {XID}31, c") == [1]
    well = f"[ 5.1] {XID}154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
    assert past(f"[ 1.1] {XID}62, a", "[ 1.2] NVRM: Xid (PCI:0000:02:00): 62, b", well) == [1]


def test_a_pasted_text_of_the_past_is_a_suspicion_and_a_present_line_the_cause() -> None:
    before = f"[ 90.1] {XID}79, GPU has fallen off the bus.\n[ 500.1] {LOADED}\n"
    report = pasted(before)
    assert (report.verdict, [one.cause for one in report.diagnosis.suspects]) == ("undecided", ["gpu-fell-off-bus"])
    assert report.diagnosis.ask
    assert cause_of(pasted(f"[ 500.1] {LOADED}\n" + before.split("\n")[0])) == "gpu-fell-off-bus"
    assert cause_of(pasted(before + f"[ 600.1] {XID}119, Timeout waiting for RPC from GSP! Expected function 76")) == "gsp-firmware-failure"


TABLE = """Sat Nov 21 10:45:34 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.120                Driver Version: 550.120        CUDA Version: 12.4     |
|=========================================+========================+======================|
|   0  NVIDIA GeForce RTX 3090        Off |   00000000:01:00.0 Off |                  N/A |
| 30%   41C    P8             30W /  350W |     300MiB /  24576MiB |      0%      Default |
+-----------------------------------------+------------------------+----------------------+"""


@pytest.mark.parametrize(
    ("stamp", "old"),
    [
        ("[Sat Nov 14 03:44:18 2026]", True),
        ("Nov 14 03:44:18 box kernel:", True),
        ("Dec 14 03:44:18 box kernel:", False),  # three weeks after the table
        ("2026-11-14T03:44:18.123+01:00 box kernel:", True),
        ("[Sat Nov 21 10:15:18 2026]", False),  # half an hour before: the table shows what was left
        ("Nov 30 03:44:18 box kernel:", False),
        ("[ 9000.1]", False),
    ],
)
def test_a_gpu_that_answered_days_later_has_not_fallen_off_the_bus(stamp: str, old: bool) -> None:
    line = f"{stamp} NVRM: Xid (PCI:0000:01:00): 79, pid=1, GPU has fallen off the bus."
    assert (past(line, *TABLE.split("\n")) == [1]) is old
    report = pasted(f"{line}\n{TABLE}")
    assert (cause_of(report) is None) is old
    other = line.replace("0000:01:00", "0000:02:00")
    assert past(other, *TABLE.split("\n")) == []


def test_a_december_in_january_is_last_years() -> None:
    table = TABLE.replace("Sat Nov 21 10:45:34 2026", "Tue Jan  5 10:45:34 2027").split("\n")
    assert past("Dec 29 03:44:18 box kernel: NVRM: Xid (PCI:0000:01:00): 79, a", *table) == [1]


# ---------------------------------------------------------------- the machine's own log
def judged(log: str, facts: Facts) -> tuple[list[Clue], list[Clue]]:
    item = Item(id="kernel-log", kind="command", what=("dmesg",), status="ok", stdout=log)
    parsed = [fact for fact in kernel_log.parse(Text(log, source="dmesg")) if fact.key == KERNEL_LOG.name]
    known = Facts([*(fact for key in (NVML, LADDER) for fact in facts.all(key)), *parsed])  # type: ignore[list-item]
    guard = Guard()
    found = statements.of_kernel_log(Evidence(items=(item,)), known, KNOWLEDGE, observe(facts), guard)
    assert guard.crashes == []
    return found


def test_a_gpu_that_computes_has_not_fallen_off_the_bus() -> None:
    now, over = judged(f"[ 9.1] {XID}79, GPU has fallen off the bus.", host())
    assert (causes(now), causes(over)) == (set(), {"gpu-fell-off-bus"})


def test_a_line_before_the_drivers_load_is_past_whatever_fails_now() -> None:
    log = f"[ 9.1] {XID}119, Timeout waiting for RPC from GSP! x\n[ 99.1] {LOADED}\n"
    now, over = judged(log, host({LADDER: ladder("init")}))
    assert (causes(now), causes(over)) == (set(), {"gsp-firmware-failure"})


def test_what_nobody_looked_at_is_suspected_and_not_accused() -> None:
    now, _ = judged(f"[ 9.1] {XID}119, Timeout waiting for RPC from GSP! x", facts_of({}))
    assert {(clue.cause, clue.basis) for clue in now} == {("gsp-firmware-failure", "suspected")}


def test_a_programs_fault_in_the_log_is_that_programs() -> None:
    now, over = judged(f"[ 9.1] {XID}31, pid=7, name=a, Ch 1\n[ 9.2] {XID}43, pid=7, name=a, Ch 1", host({LADDER: ladder("context")}))
    assert (causes(now), causes(over)) == (set(), {"program-memory-fault"})


@pytest.mark.parametrize(("count", "present"), [(0, False), (2, True)])
def test_memory_errors_of_the_log_are_judged_by_the_counter(count: int, present: bool) -> None:
    facts = host({NVML: nvml(gpus=(nvml_gpu(ecc_uncorrected_volatile=count),))})
    now, over = judged(f"[ 9.1] {XID}48, pid=1, An uncorrectable double bit error (DBE) has been detected on GPU", facts)
    assert ("ecc-uncorrectable" in causes(now), "ecc-uncorrectable" in causes(over)) == (present, not present)


# ---------------------------------------------------------------- the same fault in several programs
FAULT = "13, pid={pid}, name={name}, Graphics SM Warp Exception on (GPC 3, TPC {tpc}, SM 0): Illegal Instruction Encoding"


def faults(*events: tuple[int, str, int]) -> Report:
    return pasted(
        "\n".join(f"[ {9 + number}.1] {XID}" + FAULT.format(pid=pid, name=name, tpc=tpc) for number, (pid, name, tpc) in enumerate(events))
    )


def test_one_program_that_faults_is_at_fault() -> None:
    assert cause_of(faults((1, "a", 1))) == "program-memory-fault"
    assert cause_of(faults((1, "a", 1), (1, "a", 1), (1, "a", 2), (2, "a", 4))) == "program-memory-fault"


@pytest.mark.parametrize("events", [((1, "a", 1), (2, "a", 1), (3, "a", 1)), ((1, "a", 1), (2, "b", 4), (3, "c", 5))])
def test_faults_of_several_programs_in_one_place_make_the_gpu_suspect(events: tuple[tuple[int, str, int], ...]) -> None:
    report = faults(*events)
    assert cause_of(report) is None
    assert [one.cause for one in report.diagnosis.suspects] == ["gpu-computes-wrong", "program-memory-fault"]
    assert any("gpu-computes-wrong" in ask.tells_apart for ask in report.diagnosis.ask)


def test_the_rule_needs_the_unit_and_different_processes() -> None:
    assert list(history.weighed((), (), frozenset(), None)) == []


# ---------------------------------------------------------------- NVML's counters
def counted(rule: Any, **values: Any) -> list[Clue]:
    return list(rule(host({NVML: nvml(gpus=(nvml_gpu(**values),))}), KNOWLEDGE))


@pytest.mark.parametrize(
    ("rule", "values", "cause"),
    [
        (health.uncorrected_counted, {"ecc_uncorrected_volatile": 1}, "ecc-uncorrectable"),
        (health.remapping_counted, {"remap_pending": True}, "row-remap-needed"),
        (health.remapping_counted, {"remap_failed": True}, "row-remap-needed"),
        (health.remapping_counted, {"retired_pages_pending": True}, "row-remap-needed"),
        (health.remapping_counted, {"recovery_action": "drain-and-reset"}, "row-remap-needed"),
        (health.reset_asked, {"recovery_action": "node-reboot"}, "gpu-needs-reset"),
        (health.reset_asked, {"errors": {"power_w": "GPU requires reset"}}, "gpu-needs-reset"),
        (health.clocks_held, {"throttle_reasons": ("hw-slowdown",)}, "thermal-or-power-throttling"),
        (health.clocks_held, {"temperature_c": 93.0, "temperature_slowdown_c": 92.0}, "thermal-or-power-throttling"),
        (links.nvlink_counted, {"nvlinks_active": 11, "nvlinks_inactive": 1}, "nvlink-error"),
    ],
)
def test_what_nvml_counts_is_a_cause(rule: Any, values: dict[str, Any], cause: str) -> None:
    (clue,) = counted(rule, **values)
    assert (clue.cause, clue.subject, clue.basis) == (cause, f"gpu:{ADDRESS}", "derived")
    assert all(quote.text for quote in clue.quotes)
    with pytest.raises(NotKnown):
        list(rule(host(unknown=(NVML,)), KNOWLEDGE))


@pytest.mark.parametrize(
    ("rule", "values"),
    [
        (health.uncorrected_counted, {"ecc_uncorrected_volatile": 0}),
        (health.uncorrected_counted, {"ecc_uncorrected_volatile": None}),
        (health.remapping_counted, {"remap_pending": False, "remap_failed": False}),
        (health.reset_asked, {"recovery_action": "none"}),
        (health.clocks_held, {"throttle_reasons": ("sw-power-cap", "gpu-idle")}),
        (health.clocks_held, {"throttle_reasons": ("board-limit", "reliability")}),  # limits of the board itself, as a power cap
        (links.nvlink_counted, {"nvlinks_active": 0, "nvlinks_inactive": 4}),  # no bridge is plugged in
        (links.nvlink_counted, {"nvlinks_active": 12, "nvlinks_inactive": 0}),
    ],
)
def test_what_nvml_counts_is_none(rule: Any, values: dict[str, Any]) -> None:
    assert counted(rule, **values) == []


# ---------------------------------------------------------------- PCIe
def measured(why: str, limit_from: str = "PCIe 4.0 x16: the lesser of card and slot", value: float = 24.0) -> list[Clue]:
    figure = Measurement(gpu=0, name="h2d_pinned", value=value, unit="GB/s", limit=31.504, limit_from=limit_from, why=why)
    climb = msgspec.structs.replace(ladder(), benchmark=(figure,))
    return list(links.pcie_under_load(host({LADDER: climb}), KNOWLEDGE))


def test_a_narrow_link_under_load_is_degraded() -> None:
    (clue,) = measured("link while copying: PCIe 4.0 x4", value=6.0)
    assert (clue.cause, clue.subject) == ("pcie-link-degraded", f"gpu:{ADDRESS}")


def test_a_slow_generation_counts_only_with_slow_copies() -> None:
    assert measured("link while copying: PCIe 3.0 x16", value=12.0)
    assert measured("link while copying: PCIe 3.0 x16", value=24.0) == []
    assert measured("link while copying: PCIe 4.0 x16", value=5.0) == []


def shown(**facts: Any) -> dict[str, str]:
    keys = {"details": SMI_DETAILS, "links": PCI_LINKS, "rates": COPY_RATES}
    state = {keys[name]: value for name, value in facts.items()}
    return {clue.cause: clue.basis for clue in links.pcie_shown(facts_of(state, origin="text"), KNOWLEDGE)}  # type: ignore[arg-type]


def gpu_details(**values: Any) -> tuple[GpuDetails, ...]:
    return (GpuDetails(**values, lines=dict.fromkeys(values, 1), line=1),)


def link(**values: Any) -> PciLink:
    return PciLink(**{"address": ADDRESS, "rate": 16.0, "width": 16, "rate_max": 16.0, "width_max": 16, **values})


@pytest.mark.parametrize(
    ("facts", "basis"),
    [
        ({"details": gpu_details(pcie_width=1, pcie_width_max=16)}, "derived"),
        ({"details": gpu_details(pcie_width=4, pcie_width_max=16)}, "suspected"),  # Thunderbolt
        ({"details": gpu_details(pcie_width=8, pcie_width_max=16)}, "suspected"),  # the slot may have no more
        ({"details": gpu_details(pcie_generation=1, pcie_generation_max=4)}, None),  # idle
        ({"details": gpu_details(pcie_generation=1, pcie_generation_max=4, utilization_percent=97)}, "derived"),
        ({"links": PciLinks(links=(link(width=1),))}, "derived"),
        ({"links": PciLinks(links=(link(rate=2.5),))}, None),
        ({"links": PciLinks(links=(link(width=4),), slots=(link(width=4, width_max=4),))}, None),
        ({"links": PciLinks(links=(link(rate=2.5),)), "rates": CopyRates(to_device=3.0, from_device=3.1)}, "derived"),
        ({"links": PciLinks(links=(link(),)), "rates": CopyRates(to_device=25.0)}, None),
        ({"rates": CopyRates(to_device=3.0)}, None),  # nobody knows what the link can do
    ],
)
def test_links_that_a_text_shows(facts: dict[str, Any], basis: str | None) -> None:
    assert shown(**facts) == ({} if basis is None else {"pcie-link-degraded": basis})


@pytest.mark.parametrize(
    ("row", "basis"),
    [("0, 100 %, 1, 4", "derived"), ("0, 3 %, 1, 4", None), ("0, 100 %, 4, 4", None), ("0, [N/A], 1, 4", None)],
)
def test_a_slow_generation_counts_at_work(row: str, basis: str | None) -> None:
    fields = ("index", "utilization.gpu", "pcie.link.gen.current", "pcie.link.gen.max")
    table = SmiCsv(fields=fields, rows=(tuple(row.split(", ")),), closed=True, line=1)
    found = links.pcie_shown(facts_of({SMI_CSV: table}, origin="text"), KNOWLEDGE)
    assert [clue.basis for clue in found] == ([basis] if basis else [])


# ---------------------------------------------------------------- reasons that lie before the driver
@pytest.mark.parametrize(
    ("line", "cause"),
    [
        (f"NVRM: GPU {ADDRESS}: GPU does not have the necessary power cables connected.", "gpu-power-cable-missing"),
        (f"NVRM: BAR1 is 0M @ 0x0 (PCI:{ADDRESS})", "pci-bar-unassigned"),
        (f"bbswitch: Succesfully loaded. Discrete card {ADDRESS} is off", "gpu-powered-off"),
    ],
)
def test_reasons_before_the_driver(line: str, cause: str) -> None:
    logged = next(iter(kernel_log.parse(Text(f"[ 1.1] {line}", source="dmesg"))))
    assert isinstance(logged.key, str)
    fails = host({KERNEL_LOG: logged.value, LADDER: ladder("init"), NVML: nvml(9)})  # type: ignore[union-attr]
    assert causes(gpu.refused_at_start(fails, KNOWLEDGE)) == {cause}
    works = host({KERNEL_LOG: logged.value})  # type: ignore[union-attr]
    assert causes(gpu.refused_at_start(works, KNOWLEDGE)) == set()


# ---------------------------------------------------------------- the recovery that the driver asks for
def written(cause: str, state: dict[Any, Any], *quotes: str) -> Prescription:
    found = prescribe(finding(cause, *quotes), {}, facts_of(state), KNOWLEDGE, "ubuntu-24.04")
    assert found is not None
    return found


CHANGED = f"{XID}154, GPU recovery action changed from 0x0 (None) to 0x{{}} ({{}})"


@pytest.mark.parametrize(
    ("cause", "recovery", "action"),
    [
        ("ecc-uncorrectable", "none", "none"),
        ("ecc-uncorrectable", "gpu-reset", "reset-gpu"),
        ("ecc-uncorrectable", "node-reboot", "reboot"),
        ("ecc-uncorrectable", None, "reset-gpu"),
        ("gpu-needs-reset", "system-reboot", "reboot"),
        ("gpu-needs-reset", "drain-p2p", "reset-gpu"),
        ("row-remap-needed", "drain-and-reset", "reset-gpu"),
        ("nvlink-error", "node-reboot", "reboot"),
    ],
)
def test_the_recovery_decides_the_action(cause: str, recovery: str | None, action: str) -> None:
    assert written(cause, {NVML: nvml(gpus=(nvml_gpu(recovery_action=recovery),))}).action == action
    words = {"none": (0, "None"), "gpu-reset": (1, "GPU Reset Required"), "node-reboot": (2, "Node Reboot Required")}
    if recovery in words:
        assert written(cause, {}, CHANGED.format(*words[recovery])).action == action


def test_a_failed_remapping_is_no_matter_of_a_reset() -> None:
    state = {NVML: nvml(gpus=(nvml_gpu(recovery_action="gpu-reset", remap_failed=True),))}
    found = written("row-remap-needed", state)
    assert found.action == "inspect-hardware"
    assert "--gpu-reset" not in commands(found)
    assert written("row-remap-needed", {}, "GPU 3 had uncorrectable memory errors and row remapping failed.").action == "inspect-hardware"


def test_the_recovery_of_another_gpu_does_not_count() -> None:
    state = {NVML: nvml(gpus=(nvml_gpu(recovery_action="none"), nvml_gpu(index=1, address=OTHER, recovery_action="node-reboot")))}
    own = msgspec.structs.replace(finding("ecc-uncorrectable"), subject=f"gpu:{ADDRESS}")
    found = prescribe(own, {}, facts_of(state), KNOWLEDGE, None)
    assert found is not None
    assert found.action == "none"
