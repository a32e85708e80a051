"""What Windows' inventory says becomes a cause, a row and steps; what it does not say accuses nobody."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cudadoctor.checks import windows
from cudadoctor.checks.cuda_home import malformed
from cudadoctor.checks.rows import CHECKS
from cudadoctor.judge.stages import judge
from cudadoctor.model.evidence import Evidence
from cudadoctor.model.facts import Fact, NotKnown
from cudadoctor.model.findings import Clue
from cudadoctor.model.report import Report
from cudadoctor.model.values import (
    DISPLAY_ADAPTERS,
    KERNEL,
    LADDER,
    NVML,
    PYTHON,
    SMI,
    DisplayAdapter,
    Kernel,
    PythonEnvironment,
)
from cudadoctor.model.version import ModuleVersion
from cudadoctor.parsers import video_controllers, worker_ladder
from cudadoctor.parsers.base import Text
from cudadoctor.prescribe.dialect import for_cmd, in_powershell, portable
from tests.cases import every
from tests.command_line import changed, evidence_of, lines, records, run
from tests.facts_builder import fact, facts_of, host, ladder, nvml
from tests.judging import KNOWLEDGE, cause_of
from tests.pasted import report as pasted_report
from tests.pasted import root
from tests.prescriptions import shells, written

HEALTHY, BASIC = "windows-healthy-rtx3060", "windows-basic-display-adapter"
SYSTEM = Kernel(system="Windows", release="10.0.19045")
INSTANCE = "PCI\\VEN_10DE&DEV_1299&SUBSYS_39C817AA&REV_A1\\4&1F4B2C05&0&00E0"
ADDRESS = "0000:01:00.0"


def adapter(**more: Any) -> DisplayAdapter:
    fields = {"name": "x", "instance": INSTANCE, "vendor": "10de", "device": "1299", "address": ADDRESS, "problem": 0, **more}
    return DisplayAdapter(**fields)


def test_an_adapter_that_is_told_a_thousand_times_has_a_few_lines() -> None:
    """Each would make the next one dearer."""
    listings = [fact(DISPLAY_ADAPTERS, (adapter(),), f"listing {place}") for place in range(1000)]
    ((_, shown),) = windows.nvidia_adapters(facts_of({KERNEL: SYSTEM, DISPLAY_ADAPTERS: listings}))
    assert len(shown) == 1
    listings.append(fact(DISPLAY_ADAPTERS, (adapter(problem=43),), "the one that complains"))
    ((known, shown),) = windows.nvidia_adapters(facts_of({KERNEL: SYSTEM, DISPLAY_ADAPTERS: listings}))
    assert known.problem == 43
    assert [quote.text for quote in shown] == ["listing 0", "the one that complains"]


def found(*adapters: DisplayAdapter) -> list[Clue]:
    """What the rules find where each adapter stands in a listing of its own, and neither NVML nor CUDA gets anything out of them."""
    listings = [fact(DISPLAY_ADAPTERS, (one,), f"listing {place}") for place, one in enumerate(adapters)]
    facts = facts_of({KERNEL: SYSTEM, DISPLAY_ADAPTERS: listings, NVML: nvml(12, library=None), LADDER: ladder("libcuda"), SMI: None})
    return [clue for rule in windows.RULES for clue in rule.function(facts, KNOWLEDGE)]


# ---------------------------------------------------------------- codes and drivers
@every("row", KNOWLEDGE.device_problems)
def test_each_code_leads_to_its_causes(row: Any) -> None:
    clues = found(adapter(problem=row.code, service=""))
    assert [clue.cause for clue in clues] == list(row.causes)
    assert {clue.basis for clue in clues} == {"derived" if len(row.causes) == 1 else "suspected"}
    assert all(clue.subject == f"gpu:{ADDRESS}" and clue.values["instance"] == INSTANCE for clue in clues)
    assert any(f"code {row.code} " in quote.text for quote in clues[0].quotes)


def test_every_cause_of_a_code_is_looked_for_in_its_row() -> None:
    rows = {rule.row: set(rule.causes) for rule in windows.RULES[1:]}
    for row in KNOWLEDGE.device_problems:
        for cause in row.causes:
            assert cause in rows[KNOWLEDGE.cause(cause).row]


def test_a_code_that_is_not_in_the_table_accuses_nobody() -> None:
    assert found(adapter(problem=9999, service="nvlddmkm")) == []


@pytest.mark.parametrize(
    ("adapter_", "cause"),
    [
        (adapter(service="BasicDisplay"), "driver-not-installed"),
        (adapter(service=""), "driver-not-installed"),
        (adapter(driver_text="10.0.19041.3636"), "driver-not-installed"),
        (adapter(service="nvlddmkm"), None),
        (adapter(service="nvlddmkm", driver=ModuleVersion("546.01")), None),
        (adapter(driver_text="31.0.15.4601", driver=ModuleVersion("546.01")), None),
        (adapter(), None),  # neither listing says who drives it
        (adapter(service="someoneelse"), None),
        (adapter(vendor="8086", service="BasicDisplay"), None),
    ],
)
def test_who_drives_the_adapter(adapter_: DisplayAdapter, cause: str | None) -> None:
    assert [clue.cause for clue in found(adapter_)] == ([cause] if cause else [])


def test_both_listings_are_read_as_one() -> None:
    """Win32_VideoController knows the driver's version, Win32_PnPEntity the service."""
    (clue,) = found(adapter(driver_text="10.0.19041.1"), adapter(service="BasicDisplay", name=None))
    assert clue.cause == "driver-not-installed"
    assert {"listing 0", "listing 1"} <= {quote.text for quote in clue.quotes}
    assert found(adapter(service="nvlddmkm"), adapter(driver=ModuleVersion("546.01"))) == []
    assert [one.cause for one in found(adapter(service="nvlddmkm"), adapter(problem=43))] == ["gpu-init-failed"]


def test_what_works_is_not_accused() -> None:
    assert found(adapter(problem=43)) != []
    facts = host({KERNEL: SYSTEM, DISPLAY_ADAPTERS: (adapter(problem=43),), LADDER: ladder()})
    assert [clue for rule in windows.RULES for clue in rule.function(facts, KNOWLEDGE)] == []


def test_on_linux_the_rules_say_nothing_and_are_decided() -> None:
    assert [clue for rule in windows.RULES for clue in rule.function(host(), KNOWLEDGE)] == []


def test_on_windows_without_its_inventory_nobody_knows() -> None:
    facts = facts_of({KERNEL: SYSTEM}, (DISPLAY_ADAPTERS,))
    for rule in windows.RULES:
        with pytest.raises(NotKnown):
            list(rule.function(facts, KNOWLEDGE))


# ---------------------------------------------------------------- texts
LIST = f"""PS C:\\Users\\ada> Get-CimInstance Win32_VideoController | Format-List Name, PNPDeviceID, DriverVersion, ConfigManagerErrorCode

Name                   : Carte graphique de base Microsoft
PNPDeviceID            : {INSTANCE}
DriverVersion          : 10.0.19041.3636
ConfigManagerErrorCode : 0
"""
PROBLEM = LIST.replace("Carte graphique de base Microsoft", "NVIDIA GeForce 920M").replace("10.0.19041.3636", "30.0.14.7414")


def test_a_pasted_listing_names_the_cause_in_any_language() -> None:
    assert root(LIST) == "driver-not-installed"
    assert root(PROBLEM) is None
    assert root(PROBLEM.replace(": 0", ": 43")) == "gpu-init-failed"
    assert root(PROBLEM.replace(": 0", ": 22")) == "driver-not-loaded"
    assert root(PROBLEM.replace(": 0", ": 12")) == "pci-bar-unassigned"


@pytest.mark.parametrize(
    ("shown", "number"),
    [
        ("31.0.15.4601", "546.01"), ("32.0.15.6094", "560.94"), ("30.0.14.7141", "471.41"), ("27.21.14.5671", "456.71"), ("10.18.13.9135", "391.35"),
        ("9.18.13.4192", "341.92"), ("32.0.16.46", "600.46"), ("10.0.19041.3636", None), ("27.20.100.9664", None), ("31.0.101.2111", None), ("", None), ("546.01", None),
    ],
)  # fmt: skip
def test_nvidias_number_of_a_driver(shown: str, number: str | None) -> None:
    made = video_controllers.nvidia_version(shown)
    assert (made.text if made is not None else None) == number


def test_wmic_and_tables_are_read_too() -> None:
    wmic = f"\r\r\nDriverVersion=10.0.19041.3636\r\r\nName=Microsoft Basic Display Adapter\r\r\nPNPDeviceID={INSTANCE}\r\r\n\r\r\n"
    (one,) = adapters_of(wmic)
    assert (one.device, one.driver, one.driver_text) == ("1299", None, "10.0.19041.3636")
    table = "Name                      DriverVersion   Status\n----                      -------------   ------\nNVIDIA GeForce RTX 3060   31.0.15.4601    OK\n"
    (one,) = adapters_of(table)
    assert (one.vendor, one.driver, one.problem) == ("10de", ModuleVersion("546.01"), 0)
    assert adapters_of("Name     Size\n----     ----\nNVIDIA   3\n") == ()


def adapters_of(body: str) -> tuple[DisplayAdapter, ...]:
    made = video_controllers.parse_controllers(Text(body, source="text", origin="text", whole=False))
    return next((one.value for one in made if isinstance(one, Fact) and one.key == DISPLAY_ADAPTERS.name), ())


# ---------------------------------------------------------------- hosts
def report(evidence: Evidence) -> Report:
    made = judge(evidence, KNOWLEDGE)
    assert made.diagnosis.crashes == ()
    return made


def test_no_rule_is_undecided_on_a_healthy_windows() -> None:
    made = report(evidence_of(HEALTHY))
    assert made.verdict == "healthy"
    assert made.diagnosis.undecided == ()
    assert made.machine.driver.module == "546.01"


def test_a_desktops_programs_hold_no_memory_that_anybody_could_name() -> None:
    """Under WDDM nvidia-smi and NVML show N/A in place of a process's memory."""
    assert [finding.cause for finding in report(evidence_of(HEALTHY)).diagnosis.also] == []

    def full(text: str) -> str:
        entries = records(text)
        for entry in entries:
            if entry["event"] == "end" and entry["step"] == "memory":
                entry.update(
                    status="fail", code=2, name="CUDA_ERROR_OUT_OF_MEMORY", output="cuMemAlloc_v2 returned 2 (CUDA_ERROR_OUT_OF_MEMORY)"
                )
        end = next(place for place, entry in enumerate(entries) if entry.get("code") == 2)
        return lines([*entries[: end + 1], {"event": "done"}])

    found_ = report(changed(HEALTHY, {"ladder": full})).diagnosis.root
    assert found_ is not None
    assert found_.cause == "gpu-memory-held-by-others"
    assert not [quote for quote in found_.evidence if "explorer.exe" in quote.text], "no program is named"


def test_cuda_path_that_leads_nowhere() -> None:
    wrong = "C:\\Program Files\\NVIDIA GPU Computing Toolkit\\CUDA\\v11.8"

    def moved(text: str) -> str:
        return text.replace("CUDA_PATH=C:\\Program Files\\NVIDIA GPU Computing Toolkit\\CUDA\\v12.3\n", f"CUDA_PATH={wrong}\n")

    def stale(text: str) -> str:
        entries = records(text)
        for entry in entries:
            if entry["event"] == "toolkit" and entry["rule"] == "CUDA_PATH":
                entry.update(path=wrong, version=None, has_nvcc=False, has_nvvm=False, has_libdevice=False, stale=True)
        return lines(entries)

    made = report(changed(HEALTHY, {"environment": moved, "python-env": stale}))
    root_ = made.diagnosis.root
    assert root_ is not None
    assert root_.cause == "cuda-home-wrong"
    assert made.prescription is not None
    assert made.prescription.steps[0].shell == "$Env:CUDA_PATH = 'C:\\Program Files\\NVIDIA GPU Computing Toolkit\\CUDA\\v12.3'"
    assert 'in cmd: set "CUDA_PATH=C:\\Program Files\\NVIDIA GPU Computing Toolkit\\CUDA\\v12.3"' in made.prescription.steps[0].text


@pytest.mark.parametrize(
    ("value", "wrong"),
    [
        ("C:\\CUDA\\v12.4", None), ("C:\\CUDA\\v12.4\\", None), ("C:/CUDA/v12.4", None), ("C:\\a;C:\\b", "several paths joined by a semicolon"),
        ("C:\\a;", "a semicolon that joins it to nothing"), ("%CUDA_PATH_V12_4%", "a variable that was not replaced"),
        ('"C:\\CUDA"', "quotation marks are part of the value"),
    ],
)  # fmt: skip
def test_the_form_of_cuda_path(value: str, wrong: str | None) -> None:
    assert malformed(value) == wrong


def test_the_branch_for_the_seeds_gpu() -> None:
    made = report(evidence_of(BASIC))
    assert made.prescription is not None
    assert "branch 470" in made.prescription.steps[0].text
    assert "475.14, of notebooks 425.31" in made.prescription.steps[0].text  # it is one
    assert made.prescription.action == "install-driver"


def test_a_second_adapter_that_fails_is_named_beside_one_that_works() -> None:
    """The NVIDIA GPU works; a second one, disabled, is told and does not break the machine."""
    second = '{"Name":"NVIDIA GeForce GTX 1650","ConfigManagerErrorCode":22,"Service":"nvlddmkm","Status":"Error","PNPDeviceID":"PCI\\\\VEN_10DE&DEV_1F82&SUBSYS_00000000&REV_A1\\\\4&AAAA&0&0010","Location":"x;(2,0,0)","CompatibleID":"PCI\\\\VEN_10DE&CC_030000"}\n'
    made = report(changed(HEALTHY, {"pnp-devices": lambda text: text + second}))
    assert made.verdict == "degraded"
    everything = (made.diagnosis.root, *made.diagnosis.also)
    assert [(finding.cause, finding.subject) for finding in everything if finding] == [("driver-not-loaded", "gpu:0000:02:00.0")]


def test_rows_that_say_nothing_on_windows_are_skipped() -> None:
    rows = {row.id: row for row in report(evidence_of(HEALTHY)).checks}
    assert set(rows) == {check.id for check in CHECKS}
    assert (rows["device-nodes"].status, rows["device-nodes"].because) == ("skip", "Windows")


# ---------------------------------------------------------------- steps
# What Linux alone can have: kernel modules, device files, packages of a distribution, its containers and schedulers.
LINUX_ALONE = {
    "container-engine-sandboxed", "device-permission-denied", "driver-wrong-platform", "libcuda-stub-loaded", "vfio-bound", "wsl-linux-driver-installed",
    "nouveau-bound", "device-nodes-missing", "uvm-unavailable", "driver-module-missing-for-kernel", "driver-build-failed", "process-limits", "mps-problem",
    "file-not-readable", "mount-option-forbids", "preloaded-library-interferes", "module-unsupported-by-suse", "service-without-devices",
    "security-policy-denies-devices", "driver-version-mismatch", "fabric-manager-not-running", "zombie-gpu-process", "gpu-memory-not-onlined",
}  # fmt: skip
LINUX_WORDS = re.compile(
    r"(?<![\w/.-])/(?:etc|usr|dev|proc|sys)/|\b(?:modprobe|dmesg|lsmod|systemctl|ldconfig|modinfo|journalctl|grep)\b|~/\."
)


@every("cause", sorted(set(KNOWLEDGE.causes) - LINUX_ALONE))
def test_a_user_of_windows_gets_steps_that_say_something(cause: str) -> None:
    if not KNOWLEDGE.cause(cause).recipes:
        return
    made = written(cause, {}, {"instance": INSTANCE}, distro="windows-10")
    words = " ".join(step.text for step in made.steps)
    assert "The steps for this cause are for Linux" not in words
    for shell in (*shells(made), *(step.verify or "" for step in made.steps)):
        assert LINUX_WORDS.search(shell) is None, shell


@pytest.mark.parametrize("cause", ["driver-not-installed", "driver-not-loaded", "driver-packages-conflict", "gpu-powered-off", "nvidia-smi-missing", "secure-boot-blocks-module", "driver-libraries-incomplete", "driver-hung", "cuda-home-wrong", "library-path-conflict"])  # fmt: skip
def test_the_usual_causes_speak_of_windows_only(cause: str) -> None:
    for step in written(cause, {}, {"instance": INSTANCE, "variable": "CUDA_PATH"}, distro="windows-11").steps:
        assert LINUX_WORDS.search(step.text) is None, step.text


def test_a_disabled_adapter_is_enabled_by_its_name() -> None:
    made = written("driver-not-loaded", {}, {"instance": INSTANCE}, distro="windows-10")
    assert shells(made)[0] == f"Enable-PnpDevice -InstanceId '{INSTANCE}' -Confirm:$false"
    assert "administrator" in made.steps[0].text


def test_commands_of_several_lines_are_written_for_powershell() -> None:
    python = PythonEnvironment(path="C:\\My Files\\env\\python.exe", version="3.12.3", prefix="C:\\My Files\\env", virtual=True)
    made = shells(written("pynvml-conflict", {PYTHON: python}, distro="windows"))
    assert made[0].split("\n") == [
        "& 'C:\\My Files\\env\\python.exe' -m pip uninstall -y pynvml",
        "& 'C:\\My Files\\env\\python.exe' -m pip install --force-reinstall nvidia-ml-py",
    ]
    assert portable("nvidia-smi\nls -l") is None


@pytest.mark.parametrize(
    ("shell", "cmd"),
    [
        ("Remove-Item Env:CUDA_PATH -ErrorAction SilentlyContinue", "set CUDA_PATH="),
        ("$Env:CUDA_PATH = 'C:\\Program Files\\CUDA'", 'set "CUDA_PATH=C:\\Program Files\\CUDA"'),
        ("$env:NUMBA_ENABLE_CUDASIM=1", 'set "NUMBA_ENABLE_CUDASIM=1"'),
        ("$Env:X = 'it''s'", 'set "X=it\'s"'),
        ("$Env:X = '%PATH%'", None),
        ("python -m pip install 'numba-cuda[cu12]'", 'python -m pip install "numba-cuda[cu12]"'),
        ("& 'C:\\My Files\\python.exe' -m pip install numpy", '"C:\\My Files\\python.exe" -m pip install numpy'),
        ("nvidia-smi -L", None),  # the same in both
        ("Get-ChildItem 'C:\\Windows'", None),
        ("Start-Sleep 5; Stop-Process -Id 1", None),
    ],
)
def test_the_same_for_cmd(shell: str, cmd: str | None) -> None:
    assert for_cmd(shell) == cmd


def test_a_sentence_about_a_variable_is_turned_for_powershell() -> None:
    assert in_powershell("set its number: export CUDA_VISIBLE_DEVICES=0.") == "set its number: $Env:CUDA_VISIBLE_DEVICES = '0'."
    assert in_powershell("(export CUDA_VISIBLE_DEVICES=GPU-...)") == "($Env:CUDA_VISIBLE_DEVICES = 'GPU-...')"


def test_a_crash_of_windows_is_told_by_its_name() -> None:
    item = evidence_of(HEALTHY).get("ladder")
    assert item is not None
    cut = lines([*records(item.stdout or "")[:2]])
    crashed = msgspec.structs.replace(item, stdout=cut, status="failed", exit=0xC0000005)
    (made,) = worker_ladder.parse(Text(cut, source="ladder", item=crashed))
    assert made.value.rungs[-1].why == "ended with exit code 0xc0000005 (access violation)"  # type: ignore[union-attr]


def test_windows_without_an_nvidia_gpu() -> None:
    """The whole bus was listed; a machine without a PCI bus, as many virtual ones are, has no GPU on it either."""

    def without(text: str) -> str:
        kept = [entry for entry in records(text) if "VEN_10DE" not in entry.get("PNPDeviceID", "") and "Count" not in entry]
        return lines([*kept, {"Count": len(kept)}])

    for change in (without, lambda _: '{"Count":0}\n'):
        made = report(changed(BASIC, {"pnp-devices": change, "video-controllers": change}))
        assert cause_of(made) == "no-nvidia-gpu"
    cut = report(
        changed(BASIC, {"pnp-devices": lambda text: "".join(text.splitlines(keepends=True)[:3]), "video-controllers": lambda _: ""})
    )
    everything = {finding.cause for finding in (cut.diagnosis.root, *cut.diagnosis.also, *cut.diagnosis.suspects) if finding}
    assert not everything & {"no-nvidia-gpu", "driver-not-installed"}


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ('OSError: [WinError 126] Error loading "C:\\v\\torch\\lib\\shm.dll" or one of its dependencies.', "Select-String"),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", "cudadoctor check"),
    ],
)
def test_what_is_asked_can_be_typed_there(said: str, asked: str) -> None:
    """No shell of POSIX: no grep, no ldconfig, no python3."""
    found = pasted_report(f"PS C:\\Users\\ada> python train.py\n{said}\nMicrosoft Windows [Version 10.0.22631.4317]\n")
    commands = [ask.command for ask in found.diagnosis.ask]
    assert any(asked in command for command in commands), commands
    assert not any(word in command for command in commands for word in ("grep", "ldconfig", "python3", "/dev/null", "$LD_"))


def test_the_users_word_for_windows_counts_for_what_is_asked(tmp_path: Path) -> None:
    """As for the steps: a text need not say where it is from."""
    (tmp_path / "text").write_text("CUDA error: unknown error (999)\n")
    asked = {word: run("explain", "--distro", word, "--format", "json", str(tmp_path / "text")).out for word in ("windows-11", "debian-12")}
    commands = {word: [ask["command"] for ask in json.loads(out)["diagnosis"]["ask"]] for word, out in asked.items()}
    assert any("grep" in command for command in commands["debian-12"])
    assert commands["windows-11"]
    assert not any("grep" in command for command in commands["windows-11"])
