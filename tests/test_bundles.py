"""Bundles: what support asks for is taken as it is, and says as much as a recording does."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import random
import re
import struct
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import pytest

from cudadoctor.judge import machines as nodes
from cudadoctor.judge.stages import judge
from cudadoctor.model.report import Report
from cudadoctor.report.json import render
from cudadoctor.sources import bundles, inputs, pasted, recording
from cudadoctor.sources.bundles import bug_report, items, must_gather, packed, unpacking
from cudadoctor.sources.inputs import Content
from cudadoctor.sources.redact import redact
from tests import bug_reports
from tests.bug_reports import BUNDLES, HOSTS, MARK, h200, host, of_host, parts_of, replaced
from tests.cases import every
from tests.command_line import MISLED, run
from tests.judging import KNOWLEDGE, cause_of
from tests.judging import report_of as of_recording
from tests.test_hosts import blamed, found

# What a report of NVIDIA's script shows: bus, kernel log, versions, modules, nvidia-smi. All else (Python, variables, nodes) it has not.
SHOWN = {
    "driver-upgraded-under-running-kernel": "driver-version-mismatch",
    "laptop-gt740m-nouveau-nothing-installed": "nouveau-bound",
    "seed-gt740m-nouveau": "nouveau-bound",
    "gpu-fell-off-bus": "gpu-fell-off-bus",
    "vfio-bound": "vfio-bound",
    "driver-not-loaded": "driver-not-loaded",
    "driver-module-missing-for-kernel": "driver-module-missing-for-kernel",
    "secure-boot-blocks-module": "secure-boot-blocks-module",
    "driver-too-new-kepler-535": "driver-too-new-for-gpu",
    "driver-too-old-blackwell-535": "driver-too-old-for-gpu",
    "open-module-required-blackwell": "open-module-required",
    "open-module-unsupported-pascal": "open-module-unsupported-gpu",
    "power-cable-missing": "gpu-power-cable-missing",
    "pci-bar-unassigned": "pci-bar-unassigned",
    "gpu-init-failed": "gpu-init-failed",
    "gsp-firmware-stuck": "gsp-firmware-failure",
    "gpu-needs-reset": "gpu-needs-reset",
    "row-remapping-failed": "row-remap-needed",
    "ecc-error-of-this-boot": "ecc-uncorrectable",
    "clocks-held-by-heat": "thermal-or-power-throttling",
    "fabric-manager-not-running": "fabric-manager-not-running",
    "vgpu-unlicensed": "vgpu-problem",
}
HEALTHY = (
    "h200-healthy", "cloud-t4-healthy", "desktop-rtx3090-healthy", "laptop-prime-on-demand-healthy", "seed-mx250-healthy", "vgpu-guest-healthy",
    "xids-of-the-past-healthy", "mig-slice-healthy",
)  # fmt: skip


def expanded(content: bytes) -> tuple[bytes, list[str]]:
    return unpacking.expanded(content, packed.Allowance(len(content)))


def unpacked(content: bytes, wanted: Callable[[str], bool]) -> unpacking.Unpacked:
    return unpacking.unpacked(content, wanted, packed.Allowance(len(content)))


def of_bytes(content: bytes, name: str = "standard input") -> bundles.Opened:
    return bundles._of_content(Content(content), name)


def of(content: str | bytes) -> Report:
    """The report on a bundle of one machine, or of several."""
    opened = of_bytes(content.encode() if isinstance(content, str) else content)
    report, _ = nodes.judged(opened.machines, KNOWLEDGE)
    assert report.diagnosis.crashes == ()
    return report


def statuses(report: Report) -> dict[str, str]:
    return {row.id: row.status for row in report.checks}


# ---------------------------------------------------------------- nvidia-bug-report
def test_a_report_of_a_machine_without_a_gpu() -> None:
    report = of((BUNDLES / "no-gpu" / "nvidia-bug-report.log").read_bytes())
    assert (report.verdict, cause_of(report)) == ("broken", "no-nvidia-gpu")


@pytest.mark.parametrize("written", ["h200", "h200-recorded"])
def test_the_h200_is_healthy_and_nothing_of_it_is_called_seen_that_was_not(written: str) -> None:
    report = of(h200(written))
    assert (report.verdict, report.exit_code, report.origin.bundle) == ("healthy", 0, "nvidia-bug-report")
    shown = statuses(report)
    assert {row for row, status in shown.items() if status == "pass"} == {"gpu", "driver", "nvidia-smi", "nvml", "health"}
    assert {status for row, status in shown.items() if row in ("libcuda", "python", "numba", "smoke", "device-nodes")} == {"unknown"}
    assert report.machine.distribution == "ubuntu 24.04"
    assert report.machine.gpus[0].visible is None


@every("name", SHOWN)
def test_a_report_names_the_cause_that_the_recording_names(name: str) -> None:
    report = of(of_host(name))
    assert cause_of(report) == SHOWN[name]
    assert report.prescription is not None or report.action == "none"


@pytest.mark.parametrize("name", HEALTHY)
def test_a_report_of_a_healthy_machine_is_healthy(name: str) -> None:
    report = of(of_host(name))
    assert (report.verdict, cause_of(report)) == ("healthy", None)


@every("name", [name for name in HOSTS if name not in MISLED], share=6)
def test_a_report_accuses_nothing_that_the_recording_does_not_show(name: str) -> None:
    assert blamed(of(of_host(name))) <= found(of_recording(name))


@pytest.mark.parametrize("written", ["h200", "h200-recorded"])
@pytest.mark.parametrize("name", ["driver-upgraded-under-running-kernel", "laptop-gt740m-nouveau-nothing-installed", "gpu-fell-off-bus"])
def test_the_h200s_report_with_kernel_log_versions_and_bus_of_another(name: str, written: str) -> None:
    """Only these parts are another machine's: distribution, kernel and all else stay the H200's."""
    versions = (
        "*** /proc/driver/nvidia/./version",
        "*** /proc/modules",
        "/usr/bin/nvidia-smi --query",
        "/usr/bin/modinfo nvidia | grep vermagic",
    )
    wanted = {title: body for title, body in parts_of(host(name)).items() if title in versions or "lspci" in title or title == "dmesg:"}
    report = of(replaced(h200(written), wanted))
    assert (report.verdict, cause_of(report)) == ("broken", SHOWN[name])
    assert report.machine.kernel == "6.18.44-gpu"


@pytest.mark.parametrize("name", ["h200-healthy", "gpu-fell-off-bus", "driver-not-loaded", "laptop-gt740m-nouveau-nothing-installed"])
def test_what_a_report_lacks_accuses_nobody(name: str) -> None:
    evidence = of_bytes(of_host(name).encode()).machines[0]
    everything = found(judge(evidence, KNOWLEDGE))
    drawn = random.Random(name)
    names = [item.id for item in evidence.items]
    for dropped in [{one} for one in names] + [set(drawn.sample(names, drawn.randint(2, len(names) - 1))) for _ in range(60)]:
        less = judge(msgspec.structs.replace(evidence, items=tuple(item for item in evidence.items if item.id not in dropped)), KNOWLEDGE)
        assert blamed(less) <= everything, f"without {sorted(dropped)}"


def test_an_empty_report_is_undecided() -> None:
    report = of(f"{MARK}\n\nStart of NVIDIA bug report log file.  Please include this file, along\n")
    assert (report.verdict, report.exit_code) == ("undecided", 3)
    assert any("has no end" in note for note in report.notes)


# ---------------------------------------------------------------- forms of the report
def _members(text: str) -> bytes:
    """As the script writes it: one gzip member after another."""
    parts = text.split(f"{MARK}\n")
    return b"".join(gzip.compress((f"{MARK}\n" + part).encode()) for part in parts[1:])


FORMS: dict[str, Callable[[str], bytes]] = {
    "plain": str.encode,
    "gzip members": _members,
    "windows line ends": lambda text: text.replace("\n", "\r\n").encode(),
    "in a forum's quotation": lambda text: f"Here is my report:\n\n```\n{text}\n```\n".encode(),
    "utf-16": lambda text: text.encode("utf-16"),
    "in a zip": lambda text: _zip({"upload/nvidia-bug-report.log.gz": _members(text)}),
    "in a tar": lambda text: _tar({"nvidia-bug-report.log": text.encode()}, "w"),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_says_the_same(form: str) -> None:
    for name in ("h200-healthy", "gpu-fell-off-bus"):
        plain, other = of(of_host(name)), of(FORMS[form](of_host(name)))
        assert (other.verdict, cause_of(other), statuses(other)) == (plain.verdict, cause_of(plain), statuses(plain))


def ids(content: str) -> dict[str, str]:
    """Items of a report by their ids: the command or path, and how it went."""
    evidence = bug_report.evidence(content.encode())
    return {item.id: f"{item.source}: {item.status}{' (excerpt)' if item.excerpt else ''}" for item in evidence.items}


def report_of(*sections: str) -> str:
    return f"{MARK}\n\nStart of NVIDIA bug report log file.\n\n" + "".join(f"{MARK}\n\n{section}\n\n" for section in sections)


def test_a_report_of_more_commands_than_any_has_is_read_up_to_a_bound() -> None:
    content = f"{bug_report.START}.\n\n{MARK}\n\nnvidia-smi\n" + "nvidia-smi\n" * (2 * bug_report.MOST)
    assert "Only the first 10000 commands and files of the report were read." in bug_report.evidence(content.encode()).remarks


def test_sections_of_old_and_new_scripts() -> None:
    """2009: a path alone. 390: NVIDIA's devices apart. 2025: skipped parts on two lines, several commands in one section."""
    assert ids(
        report_of(
            "/etc/issue\nUbuntu 9.10 \\n \\l\n", "/proc/driver/nvidia/version\nNVRM version: NVIDIA UNIX x86_64 Kernel Module  185.18.36\n"
        )
    ) == {
        "issue": "/etc/issue: ok",
        "driver-version": "/proc/driver/nvidia/version: ok",
    }
    gpu = "01:00.0 3D controller: NVIDIA Corporation GK208M [GeForce GT 740M] (rev a1)\n\tKernel driver in use: nouveau\n00: de 10 92 12"
    old = report_of(
        f'/sbin/lspci -d "10de:*" -v -xxx\n\n{gpu}', '/sbin/lspci -d "10b5:*" -v -xxx\n\n', "/sbin/lspci -t\n\n-[0000:00]-+-00.0",
        "/sbin/lspci -nn\n\n00:00.0 Host bridge [0600]: Intel Corporation Device [8086:0c04]\n01:00.0 3D controller [0302]: NVIDIA Corporation GK208M [10de:1292] (rev a1)",
    )  # fmt: skip
    assert ids(old) == {"lspci-nvidia": "lspci -d 10de:* -v -xxx: ok (excerpt)", "lspci": "lspci -nn: ok"}
    machine = f"uname: Linux host 5.15.0-56-generic #62-Ubuntu SMP x86_64 GNU/Linux\n{MARK}"
    assert cause_of(of(old.replace(MARK, machine, 1).replace(machine, f"{MARK}\n\nStart of NVIDIA bug report\n\n{machine}", 1))) in (
        "nouveau-bound",
        None,
    )
    new = report_of(
        "Skipping: nvidia-smi output\nnvidia-smi not found", "*** /proc/driver/nvidia/version does not exist", "*** /proc/modules is not readable",
        "*** /proc/pci does not exist",
    )  # fmt: skip
    assert ids(new) == {"nvidia-smi-query": "nvidia-smi --query: absent", "driver-version": "/proc/driver/nvidia/version: absent"}
    several = report_of(
        "/usr/bin/nvidia-smi --query\n\n==============NVSMI LOG==============\n\n/usr/bin/nvidia-smi --query --unit\n\n/usr/bin/nvidia-smi nvlink --status\n\nGPU 0: NVIDIA H200 (UUID: GPU-1)"
    )
    assert ids(several) == {
        "nvidia-smi-query": "nvidia-smi --query: ok",
        "nvidia-smi-nvlink": "nvidia-smi nvlink --status: ok (excerpt)",
    }


def test_a_list_without_drivers_does_not_say_that_there_is_none() -> None:
    """`lspci -nn` names no driver. The loaded modules then tell which one it is."""
    only = {"/usr/bin/lspci -nnDvvvxxxx": "\n"}
    report = of(replaced(h200(), only))
    assert statuses(report)["driver"] == "pass"
    assert not {"driver-not-loaded", "driver-not-installed"} & blamed(report)
    modules = {"*** /proc/modules": f"{bug_reports.listing('/proc/modules')}nouveau 2400256 1 - Live 0x0000000000000000\n"}
    assert cause_of(of(replaced(of_host("laptop-gt740m-nouveau-nothing-installed"), {**only, **modules}))) == "nouveau-bound"


def test_the_bus_as_sysfs_shows_it_where_lspci_is_missing() -> None:
    bus = "PCI devices configuration space dump using sysfs\n\n0000:00:00.0 060000: Vendor 8086 Device 0d57 (rev 00)\n00: 86 80 57 0d\n\n0000:00:06.0 030200: Vendor 10de Device 2335 (rev a1)\n00: de 10 35 23\n"
    text = re.sub(rf"{MARK}\n\n/usr/bin/lspci -nntv\n.*?(?={MARK}\n\n\*\*\*)", f"{MARK}\n\n{bus}\n", h200(), flags=re.DOTALL)
    assert "lspci" not in text
    report = of(text)
    assert (report.verdict, report.machine.gpus[0].address, report.machine.gpus[0].architecture) == ("healthy", "0000:00:06.0", "hopper")


def test_safe_mode_asks_no_nvidia_smi_and_so_decides_nothing_about_a_sound_machine() -> None:
    start = h200().index("/usr/bin/nvidia-smi --query")
    end = h200().index(MARK, start)
    text = h200()[:start] + "Skipping nvidia-smi, vulkaninfo etc. due to --safe-mode argument.\n\n" + h200()[end:]
    assert "nvidia-smi-query" not in ids(text)
    report = of(text)
    assert (report.verdict, blamed(report)) == ("undecided", set())


def test_the_journals_excerpt_serves_where_dmesg_was_refused() -> None:
    """Of this boot only, and only the kernel's own lines."""
    lines = "\n".join(
        [
            "Scanning kernel log files for NVIDIA kernel messages:", "", "  journalctl -b -0:",
            "Nov 21 10:00:00 host kernel: NVRM: Xid (PCI:0000:01:00): 79, pid=1, name=python3, GPU has fallen off the bus.",
            "Nov 21 10:00:00 host nvidia-powerd[1]: NVRM is mentioned by a service", "", "  journalctl -b -1:",
            "Nov 20 10:00:00 host kernel: NVRM: Xid (PCI:0000:01:00): 48, of the boot before", "",
        ]
    )  # fmt: skip
    text = of_host("gpu-fell-off-bus")
    start = text.index("Scanning kernel log files")
    text = text[:start] + lines + "\n" + text[text.index(MARK, start) :]
    log = bug_report.evidence(replaced(text, {"dmesg:": "\n"}).encode()).get("kernel-log")
    assert log is not None
    assert (log.source, log.excerpt) == ("journalctl -b -0", True)
    assert (log.stdout or "").count("\n") == 1
    assert cause_of(of(replaced(text, {"dmesg:": "\n"}))) == "gpu-fell-off-bus"


XID = "NVRM: Xid (PCI:0000:04:00): 79, pid=4121, name=python3, GPU has fallen off the bus."
LOST = "Unable to determine the device handle for GPU0000:04:00.0: GPU is lost.  Reboot the system to recover this GPU"


@pytest.mark.parametrize(
    "section",
    [
        f"dmesg:\n\n[ 9999.000001] {XID}",
        f"Scanning kernel log files for NVIDIA kernel messages:\n\n  journalctl -b -0:\nNov 21 10:00:00 gpu kernel: {XID}\n",
    ],
)
def test_no_piece_of_the_kernel_log_is_passed_over(section: str) -> None:
    text = h200("h200-recorded")
    assert cause_of(of(text)) is None
    assert cause_of(of(text + f"{MARK}\n\n{section}\n\n")) == "gpu-fell-off-bus"


def test_lines_that_only_another_log_has_stand_where_they_were_said() -> None:
    log = items.kernel_log("x", text="[ 1.0] Linux version 6\n[ 2.0] NVRM: b\n[ 4.0] NVRM: d\n")
    at = "Nov 21 10:00:00 gpu kernel: "
    more = items.kernel_log(
        "y", text="".join(f"{at}{said}\n" for said in ("NVRM: a", "NVRM: b", "usb 1-1: new", "NVRM: c", "NVRM: d", "NVRM: e"))
    )
    said = (items.merged([log, more]).stdout or "").split("\n")
    assert said == ["[ 1.0] Linux version 6", f"{at}NVRM: a", "[ 2.0] NVRM: b", f"{at}NVRM: c", "[ 4.0] NVRM: d", "", f"{at}NVRM: e"]
    assert items.merged([log, log]) is log


def journal_of(*said: str) -> bytes:
    return "".join(f"Nov 21 10:00:00 gpu {line}\n" for line in said).encode()


JOURNAL = "sos_commands/logs/journalctl_--no-pager_--boot"


@pytest.mark.parametrize(
    ("path", "said", "cause"),
    [
        (JOURNAL, (f"kernel: {XID}",), "gpu-fell-off-bus"),
        (JOURNAL, ("kernel: nvidia 0000:04:00.0: AER: PCIe Bus Error: severity=Uncorrected (Fatal)",), "gpu-fell-off-bus"),
        (JOURNAL, (f"bob[12]: my kernel: {XID}",), None),
        (JOURNAL, (f"kernel: {XID}", "bob[12]: see kernel: Linux version 6.18"), "gpu-fell-off-bus"),
        # Nobody knows of which boot it is.
        ("var/log/kern.log", ("kernel: Linux version 5.10", f"kernel: {XID}"), None),
    ],
)
def test_of_a_report_of_sos_the_kernels_lines_of_this_boot_count(path: str, said: tuple[str, ...], cause: str | None) -> None:
    files = sos_of("h200-healthy")
    root = next(iter(files)).partition("/")[0]
    assert cause_of(of(_tar({**files, f"{root}/{path}": journal_of(*said)}, "w:gz"))) == cause


@pytest.mark.parametrize("command", ["/usr/bin/nvidia-smi --query", "/usr/bin/nvidia-smi"])
def test_a_gpu_that_one_of_two_answers_of_nvidia_smi_calls_lost_is_not_passed_over(command: str) -> None:
    report = of(h200("h200-recorded") + f"{MARK}\n\n{command}\n\n{LOST}\n\n")
    assert report.verdict == "undecided"
    assert any("The GPU dropped off the PCIe bus" in note for note in report.notes)


def test_of_two_reports_in_one_file_the_second_is_named() -> None:
    one = h200("h200-recorded")
    for content in ((one + of_host("gpu-fell-off-bus")).encode(), gzip.compress(one.encode()) + gzip.compress(one.encode())):
        report = of(content)
        assert report.verdict == "undecided"
        assert any(note.startswith("Another report follows in the same file") for note in report.notes)


def test_debians_module_has_another_name_so_modinfo_proves_nothing_there() -> None:
    text = of_host("driver-module-missing-for-kernel")
    assert cause_of(of(text)) == "driver-module-missing-for-kernel"
    debian = re.sub(r"^uname: .*$", "uname: Linux host 6.1.0-18-amd64 #1 SMP Debian 6.1.76-1 x86_64 GNU/Linux", text, flags=re.MULTILINE)
    assert cause_of(of(debian)) == "driver-not-loaded"


# ---------------------------------------------------------------- sos
def _tar(files: Mapping[str, bytes], mode: str = "w:xz", more: Callable[[tarfile.TarFile], None] | None = None) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        if more is not None:
            more(archive)
    return out.getvalue()


def _zip(files: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


def sos_of(name: str) -> dict[str, bytes]:
    """The files of an sos report of a recorded machine."""
    evidence = host(name)
    top = "sosreport-gpu-7-2026-11-21-abcdefg"
    bus = bug_reports.lspci(evidence)
    files = {
        "sos_commands/pci/lspci_-nnvv": re.sub(r"^00: .*\n", "", bus, flags=re.MULTILINE) if bus.strip() else None,
        "sos_commands/kernel/dmesg": bug_reports.said(evidence, "kernel-log"),
        "sos_commands/kernel/uname_-a": bug_reports.said(evidence, "uname"),
        "sos_commands/kernel/dkms_status": bug_reports.said(evidence, "dkms"),
        "sos_commands/boot/mokutil_--sb-state": bug_reports.said(evidence, "mokutil"),
        "sos_commands/nvidia/nvidia-smi_-q": bug_reports.query(evidence),
        "sos_commands/dpkg/dpkg_-l": bug_reports.said(evidence, "packages"),
        "proc/modules": bug_reports.said(evidence, "modules"),
        "proc/version": bug_reports.said(evidence, "proc-version"),
        "proc/driver/nvidia/version": bug_reports.said(evidence, "driver-version"),
        "etc/os-release": bug_reports.said(evidence, "os-release"),
        "etc/passwd": "root:x:0:0::/root:/bin/bash\n",
        "container/proc/version": "Linux version 1.2.3-of-another-system (x) #1\n",
    }
    return {f"{top}/{path}": text.encode() for path, text in files.items() if text is not None}


@pytest.mark.parametrize("mode", ["w:xz", "w:gz", "w:bz2", "w", "zip"])
def test_a_report_of_sos(mode: str) -> None:
    files = sos_of("h200-healthy")
    report = of(_zip(files) if mode == "zip" else _tar(files, mode))
    assert (report.verdict, report.origin.bundle, report.origin.node) == ("healthy", "sos report", "gpu-7")
    assert report.machine.kernel == "6.18.44-gpu"


@pytest.mark.parametrize("name", ["driver-upgraded-under-running-kernel", "laptop-gt740m-nouveau-nothing-installed", "gpu-fell-off-bus"])
def test_a_report_of_sos_names_the_cause(name: str) -> None:
    assert cause_of(of(_tar(sos_of(name)))) == SHOWN[name]


def test_what_sos_could_not_run_is_unknown() -> None:
    files = sos_of("h200-healthy")
    top = next(iter(files)).partition("/")[0]
    files[f"{top}/sos_commands/pci/lspci_-nnvv"] = b"timeout: failed to run command 'lspci': No such file or directory\n"
    evidence = of_bytes(_tar(files)).machines[0]
    assert evidence.get("lspci") is None
    assert not blamed(judge(evidence, KNOWLEDGE))


def test_an_unpacked_report_is_read_and_any_other_folder_is_not_searched(tmp_path: Path) -> None:
    for name, content in sos_of("gpu-fell-off-bus").items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    assert bundles.opened(str(tmp_path)).machines[0].bundle == "sos report"
    (tmp_path / "other").mkdir()
    with pytest.raises(bundles.BundleError, match="is a folder"):
        bundles.opened(str(tmp_path / "other"))


# ---------------------------------------------------------------- must-gather
POD = """Name:             nvidia-driver-daemonset-x7k2p
Namespace:        gpu-operator
Node:             gpu-3/192.0.2.7
Status:           Running
Containers:
  nvidia-driver-ctr:
    State:          Waiting
      Reason:       CrashLoopBackOff
    Ready:          False
"""
POD_LOG = (
    "[pod/nvidia-driver-daemonset-x7k2p/nvidia-driver-ctr] 2026-11-21T10:00:00.000000000Z "
    "modprobe: ERROR: could not insert 'nvidia': Key was rejected by service\n"
)


def gather(**reports: str) -> dict[str, bytes]:
    """A must-gather with bug reports of these nodes."""
    top = "must-gather/nvidia-gpu-operator_20261121_1000"
    files = {f"{top}/nvidia-bug-report_{node.replace('_', '-')}.log.gz": _members(text) for node, text in reports.items()}
    files[f"{top}/gpu_operand_pods.status"] = b"NAME READY STATUS\n"
    files[f"{top}/must-gather.log"] = b"Get the operator namespaces\n"
    return files


def test_the_failing_node_of_several_is_reported_and_the_others_are_named() -> None:
    files = gather(gpu_1=of_host("h200-healthy"), gpu_2=of_host("gpu-fell-off-bus"))
    report = of(_tar(files, "w:gz"))
    assert (report.verdict, cause_of(report), report.origin.node) == ("broken", "gpu-fell-off-bus", "gpu-2")
    assert "The bundle holds 2 nodes; this is the report on gpu-2." in report.notes
    assert "Node gpu-1: healthy." in report.notes


def test_a_node_whose_driver_pod_fails_has_only_its_logs() -> None:
    files = gather(gpu_1=of_host("h200-healthy"))
    top = next(iter(files)).rpartition("/")[0]
    files[f"{top}/gpu_operand_pod_nvidia-driver-daemonset-x7k2p.descr"] = POD.encode()
    files[f"{top}/gpu_operand_pod_nvidia-driver-daemonset-x7k2p.log"] = POD_LOG.encode()
    report = of(_tar(files, "w:gz"))
    assert (report.origin.node, cause_of(report)) == ("gpu-3", "secure-boot-blocks-module")
    assert any("gpu-3 has no bug report" in note for note in report.notes)


def test_what_a_pod_says_beside_its_nodes_report_is_read_and_a_node_without_either_is_named() -> None:
    files = gather(gpu_1=h200("h200-recorded"))
    top = next(iter(files)).rpartition("/")[0]
    files[f"{top}/gpu_nodes.status"] = b"NAME    STATUS   ROLES\ngpu-1   Ready    <none>\ngpu-2   Ready    <none>\n"
    report = of(_tar(files, "w:gz"))
    assert (report.verdict, report.origin.node) == ("undecided", "gpu-2")
    assert "Node gpu-1: healthy." in report.notes
    files[f"{top}/gpu_nodes.status"] = b"NAME    STATUS   ROLES\ngpu-1   Ready    <none>\n"
    assert of(_tar(files, "w:gz")).verdict == "healthy"
    pod = f"{top}/gpu_operand_pod_nvidia-device-plugin-daemonset-x7k2p"
    files[f"{pod}.descr"] = (
        b"Node:         gpu-1/10.0.0.1\n    State:          Waiting\n      Reason:       CrashLoopBackOff\n    Ready:          False\n"
    )
    files[f"{pod}.log"] = b"E0201 failed to initialize NVML: Driver/library version mismatch\n"
    report = of(_tar(files, "w:gz"))
    assert report.verdict == "undecided"
    assert any("are of different versions" in note for note in report.notes)
    # It failed at the last start alone.
    files[f"{pod}.descr"] = (
        b"Node:         gpu-1/10.0.0.1\n    State:          Running\n      Started: x\n    Last State:     Terminated\n      Reason:       Error\n"
    )
    assert of(_tar(files, "w:gz")).verdict == "healthy"
    files[f"{top}/gpu_nodes.status"] = b"error: the server doesn't have a resource type\n"
    assert of(_tar(files, "w:gz")).verdict == "healthy"


def test_a_damaged_report_of_one_node_costs_only_that_node() -> None:
    files = gather(gpu_1=of_host("gpu-fell-off-bus"))
    top = next(iter(files)).rpartition("/")[0]
    files[f"{top}/nvidia-bug-report_gpu-2.log.gz"] = b"\x1f\x8b\x08\x00broken"
    report = of(_tar(files, "w:gz"))
    assert cause_of(report) == "gpu-fell-off-bus"
    assert any("nvidia-bug-report_gpu-2.log.gz" in note for note in report.notes)


def test_several_nodes_are_not_written_as_one_recording(tmp_path: Path) -> None:
    path = tmp_path / "gather.tar.gz"
    path.write_bytes(_tar(gather(gpu_1=of_host("h200-healthy"), gpu_2=of_host("gpu-fell-off-bus")), "w:gz"))
    result = run("check", "--replay", str(path), "--record", str(tmp_path / "out"))
    assert (result.code, "2 machines" in result.err) == (2, True)


# ---------------------------------------------------------------- one tool's output
def test_nvidia_smi_alone() -> None:
    folder = BUNDLES.parent / "parsers" / "nvidia_smi"
    for name in ("recorded--h200-580-query.txt", "recorded--h200-580-xml.txt"):
        report = of((folder / name).read_bytes())
        assert (report.verdict, report.origin.kind) == ("healthy", "recording"), name
    hot = bug_reports.query(host("row-remapping-failed"))
    assert hot is not None
    assert cause_of(of(hot)) == "row-remap-needed"


def test_a_document_that_says_nothing_of_its_gpus_is_no_sound_machine() -> None:
    """`nvidia-smi -q -x` that was cut short after the first tags."""
    report = of('<nvidia_smi_log><gpu id="1">\n' * 2)
    assert (report.verdict, report.exit_code) == ("undecided", 3)


def test_nvidia_smi_among_other_words_is_a_text() -> None:
    query = (BUNDLES.parent / "parsers" / "nvidia_smi" / "recorded--h200-580-query.txt").read_text("utf-8")
    for text in (
        f"$ nvidia-smi -q\n{query}",
        f"{query}\nTraceback (most recent call last):\n  File 'x.py', line 3\nRuntimeError: no\nwhat now?\n",
    ):
        assert of_bytes(text.encode()).text == Content(text.encode())


def diag(*results: dict[str, object]) -> str:
    tests = [{"name": "memory", "results": list(results)}]
    return json.dumps({"DCGM Diagnostic": {"test_categories": [{"category": "Hardware", "tests": tests}]}}, indent=1)


def failed(text: str, code: int, status: str = "Fail") -> dict[str, object]:
    return {"entity_group": "GPU", "entity_id": 0, "status": status, "warnings": [{"warning": text, "error_id": code}]}


PASSED: dict[str, object] = {"entity_group": "GPU", "entity_id": 1, "status": "Pass"}


@pytest.mark.parametrize(
    ("text", "code", "verdict", "cause"),
    [
        ("CUDA APIs have indicated that a double-bit ECC error has occured on GPU 0.", 57, "broken", "ecc-uncorrectable"),
        ("Detected more than 8 PCIe replays per minute for GPU 0 : 26", 3, "degraded", "pcie-link-degraded"),
        ("Detected clocks event due to thermal violation in GPU 0.", 10, "degraded", "thermal-or-power-throttling"),
        ("GPU 0's NvLink link 3 is currently down", 14, "degraded", "nvlink-error"),
        ("Found 12 faulty memory elements on GPU 0", 52, "broken", "gpu-computes-wrong"),
        ("GPU 0 had memory errors and row remappings are pending", 85, "degraded", "row-remap-needed"),
        ("Detected XID 79 for GPU 0", 101, "broken", "gpu-fell-off-bus"),
        ("There was an internal error during the test: 'x'", 44, "undecided", None),
        ("Max stress level of 100.0 did not reach desired stress level of 900.0 for GPU 0", 50, "undecided", None),
    ],
)
def test_dcgm_states_a_cause(text: str, code: int, verdict: str, cause: str | None) -> None:
    report = of(diag(failed(text, code), PASSED))
    assert (report.verdict, cause_of(report)) == (verdict, cause)
    if report.diagnosis.root is not None:
        assert text in report.diagnosis.root.evidence[0].text
        assert "memory, GPU 0" in report.diagnosis.root.evidence[0].text


def test_dcgms_skips_and_warnings_accuse_nobody() -> None:
    for status in ("Skip", "Warn"):
        report = of(diag(failed("ECC memory on GPU 0 is not currently active.", 57, status), PASSED))
        assert (report.verdict, cause_of(report), blamed(report)) == ("healthy", None, set())
    assert of(diag(failed("x", 55, "Skip"))).verdict == "undecided"


# ---------------------------------------------------------------- the command line
def test_explain_and_check_replay_say_the_same(tmp_path: Path) -> None:
    path = tmp_path / "report"  # no name helps
    for name, code in (("h200-healthy", 0), ("gpu-fell-off-bus", 1)):
        path.write_bytes(_members(of_host(name)))
        explained = run("explain", str(path), "--format", "json")
        replayed = run("check", "--replay", str(path), "--format", "json")
        assert (explained.code, replayed.code) == (code, code)
        assert explained.out == replayed.out
        assert run("explain", "-", "--format", "json", stdin=path.read_bytes()).out == explained.out
    assert "gpu-fell-off-bus" in run("explain", str(path)).out
    assert run("fix", "--suggest", "--replay", str(path)).code in (0, 3)


def test_a_gzipped_text_is_explained_as_a_text(tmp_path: Path) -> None:
    path = tmp_path / "error.txt.gz"
    path.write_bytes(gzip.compress(b"RuntimeError: CUDA error: an illegal memory access was encountered\n"))
    result = run("explain", str(path), "--format", "json")
    assert json.loads(result.out)["diagnosis"]["root"]["cause"] == "program-memory-fault"
    assert json.loads(result.out)["origin"]["kind"] == "text"
    refused = run("check", "--replay", str(path))
    assert refused.code == 2
    assert f"cudadoctor explain {path}" in refused.err


def test_a_recording_is_still_refused_by_explain(tmp_path: Path) -> None:
    path = tmp_path / "recording.tar.gz"
    recording.write(host("gpu-fell-off-bus"), str(path))
    result = run("explain", str(path))
    assert (result.code, "cudadoctor check --replay" in result.err) == (2, True)


def test_a_bundle_becomes_a_recording_that_replays_the_same(tmp_path: Path) -> None:
    for name in ("h200-healthy", "gpu-fell-off-bus", "driver-not-loaded"):
        evidence = of_bytes(of_host(name).encode()).machines[0]
        recording.write(evidence, str(tmp_path / name))
        assert render(judge(recording.read(str(tmp_path / name)), KNOWLEDGE)) == render(judge(evidence, KNOWLEDGE))


def test_a_recording_of_a_bundle_names_no_machine(tmp_path: Path) -> None:
    evidence = of_bytes(_tar(gather(gpu_7=of_host("h200-healthy")), "w:gz")).machines[0]
    recording.write(redact(evidence), str(tmp_path / "out"))
    written = "".join(path.read_text() for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert "gpu-7" not in written
    assert "1600000000001" not in written
    assert "GPU-11111111-2222-3333-4444-555555555555" not in written


# ---------------------------------------------------------------- strangers' archives
def refused(content: bytes) -> str:
    with pytest.raises(bundles.BundleError) as error:
        of_bytes(content, "given")
    return str(error.value)


def test_what_unpacks_to_far_more_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "RATIO_FROM", 2 << 20)
    zeros = {"sos_commands/kernel/dmesg": bytes(16 << 20)}
    assert "times its size" in refused(_tar(zeros, "w:xz"))
    assert "times its size" in refused(_zip(zeros))
    for method in (zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2):
        assert "not read here" in refused(_zip(zeros, method))
    carried = gzip.compress(bytes(16 << 20))
    plain, _ = expanded(gzip.compress(carried))
    assert plain == carried, "a gzip within a gzip is one level too many"
    monkeypatch.setattr(packed, "MAX_STREAM", 4 << 20)
    assert "more than 4 MiB" in refused(_tar({"sos_commands/kernel/dmesg": random.Random(1).randbytes(8 << 20)}, "w:gz"))


@pytest.mark.parametrize("zeros", [0, 4, 400_000])
def test_xz_reads_what_stands_behind_zeros(zeros: int) -> None:
    carried = lzma.compress(b"first ") + bytes(zeros) + lzma.compress(b"second") + bytes(zeros)
    stream = packed._xz(io.BytesIO(carried))
    assert b"".join(iter(lambda: stream.read(1 << 16), b"")) == b"first second"


def test_xz_is_given_no_more_than_it_asks_for() -> None:
    """What it was given and may not give yet it keeps: a whole archive, moved about in memory with each read."""
    source = io.BytesIO(lzma.compress(bytes(64 << 20)) + lzma.compress(random.Random(1).randbytes(1 << 20)))
    stream = packed._xz(source)
    for _ in range(20):
        assert len(stream.read(1000)) == 1000
    assert source.tell() <= io.DEFAULT_BUFFER_SIZE


def test_xz_gets_no_more_memory_than_its_levels_take() -> None:
    """A stream says itself how far back it looks: 11 MB of one took a gigabyte."""
    far = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 512 << 20}]
    for content in (_tar({"a.log": b"x"}, "w"), b"text\n"):
        assert "MiB of memory" in refused(lzma.compress(content, filters=far))
    plain, remarks = expanded(lzma.compress(b"one\n" * 100_000, preset=9) + bytes(8) + lzma.compress(b"two\n"))
    assert (plain, remarks) == (b"one\n" * 100_000 + b"two\n", [])
    assert expanded(lzma.compress(b"one\n" * 100_000)[:60])[1] != []


def test_the_limits_on_number_and_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "MAX_MEMBERS", 5)
    assert "more than 5" in refused(_tar({f"sos_commands/{number}": b"" for number in range(6)}))
    assert "more than 5" in refused(_zip({f"sos_commands/{number}": b"" for number in range(6)}))
    monkeypatch.setattr(unpacking, "MAX_MEMBER", 2 << 20)
    found = unpacked(_tar({"a": b"x" * (5 << 20), "b": b"y"}), lambda name: True)
    assert (len(found.members["a"]), found.members["b"]) == (2 << 20, b"y")
    assert "a: Of 5 MiB the beginning and the end were read, 2 MiB in all." in found.remarks
    monkeypatch.setattr(unpacking, "MAX_INPUT", 10)
    with pytest.raises(bundles.BundleError, match="larger than"):
        unpacking.read_file(str(BUNDLES / "h200" / "nvidia-bug-report.log"), bug_report.is_report)


def _linked(path: str, target: str, kind: bytes) -> Callable[[tarfile.TarFile], None]:
    def more(archive: tarfile.TarFile) -> None:
        member = tarfile.TarInfo(path)
        member.type, member.linkname = kind, target
        archive.addfile(member)

    return more


def test_a_link_in_a_report_of_sos_leads_to_what_the_archive_holds(tmp_path: Path) -> None:
    """As sos keeps the end of a long output: below sos_strings/, with a link in its place."""
    files = sos_of("h200-healthy")
    log = next(name for name in files if name.endswith("kernel/dmesg"))
    root = log.partition("sos_commands/")[0]
    kept, path = files.pop(log) + f"[ 9999.000001] {XID}\n".encode(), f"{root}sos_strings/kernel/dmesg.tailed"
    assert cause_of(of(_tar(files, "w:gz"))) is None
    files[path] = kept
    target = "../../sos_strings/kernel/dmesg.tailed"
    link = zipfile.ZipInfo(log)
    link.create_system, link.external_attr = 3, 0o120777 << 16
    zipped = io.BytesIO(_zip(files))
    with zipfile.ZipFile(zipped, "a") as archive:
        archive.writestr(link, target)
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    (tmp_path / log).symlink_to(target)
    forms = (
        _tar(files, "w:gz", _linked(log, target, tarfile.SYMTYPE)),
        _tar(files, "w", _linked(log, path, tarfile.LNKTYPE)),
        zipped.getvalue(),
    )
    machines = [*bundles.opened(str(tmp_path)).machines, *(machine for form in forms for machine in of_bytes(form).machines)]
    assert [(cause_of(nodes.judged((machine,), KNOWLEDGE)[0]), machine.remarks) for machine in machines] == [("gpu-fell-off-bus", ())] * 4


def test_a_link_to_what_is_not_read_and_a_folder_that_cannot_be_listed_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = sos_of("h200-healthy")
    log = next(name for name in files if name.endswith("kernel/dmesg"))
    more = {name: content for name, content in files.items() if name != log}
    report = of(_tar(more, "w:gz", _linked(log, "../../../../../etc/passwd", tarfile.SYMTYPE)))
    assert report.verdict == "undecided"
    assert any(note.startswith(f"{log} was not read: it is a link") for note in report.notes)
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    listed = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: listed(path if not str(path).endswith("kernel") else f"{path}/none"))
    (machine,) = bundles.opened(str(tmp_path)).machines
    assert machine.remarks == (f"{os.path.dirname(log)}: No such file or directory; not read.",)


def test_links_of_which_nothing_depends_are_silent_and_all_of_them_cost_no_more_than_members(monkeypatch: pytest.MonkeyPatch) -> None:
    files = sos_of("h200-healthy")
    root = next(iter(files)).partition("/")[0]
    kept = files.pop(f"{root}/etc/os-release")
    files[f"{root}/usr/lib/os-release"] = kept

    def more(archive: tarfile.TarFile, count: int = 4) -> None:
        for name, target in (("etc/os-release", "/usr/lib/os-release"), ("sos.log", "sos_logs"), ("var/log/messages", "/var/log/none")):
            _linked(f"{root}/{name}", target, tarfile.SYMTYPE)(archive)
        for number in range(count):
            _linked(f"{root}/sos_commands/pci/lspci_-nnvv{number}", "lspci_-nnvv", tarfile.SYMTYPE)(archive)

    report = of(_tar(files, "w:gz", more))
    assert (report.verdict, report.machine.distribution) == ("healthy", "ubuntu 24.04")
    carried = _tar(files, "w:gz", lambda archive: more(archive, 40))
    assert of(carried).verdict == "undecided"  # not all were read
    found = unpacked(carried, bundles._wanted)
    unpacking.follow_links(found, bundles._wanted)
    assert sum("lspci_-nnvv" in name for name in found.members) <= 1 + unpacking._MOST_FOLLOWED
    again = unpacked(carried, bundles._wanted)
    monkeypatch.setattr(unpacking, "MAX_KEPT", again.kept)
    unpacking.follow_links(again, bundles._wanted)
    assert sum("lspci_-nnvv" in name for name in again.members) == 1


def test_links_devices_and_hostile_names() -> None:
    def more(archive: tarfile.TarFile) -> None:
        for kind, name in (
            (tarfile.SYMTYPE, "sosreport-x/proc/version"),
            (tarfile.LNKTYPE, "sosreport-x/proc/modules"),
            (tarfile.CHRTYPE, "sosreport-x/dev"),
        ):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "/etc/passwd"
            archive.addfile(member)

    hostile = {
        "../../../etc/os-release": b'ID="evil"\n',
        "/etc/os-release": b'ID="evil"\n',
        "sosreport-x/sos_commands/kernel/dmesg": b"[ 0.0] Linux version 6\n",
    }
    evidence = of_bytes(_tar(hostile, "w:gz", more)).machines[0]
    assert [item.id for item in evidence.items] == ["kernel-log"]


def test_members_of_a_zip_share_one_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each may be small beside what it unpacks to, and each may be the same one."""
    monkeypatch.setattr(packed, "RATIO_FROM", 8 << 20)
    with pytest.raises(packed.BundleError, match="times its size"):
        unpacked(_zip({f"log{number}.txt": bytes(6 << 20) for number in range(4)}), lambda name: True)


def test_of_a_zip_nothing_is_unpacked_that_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "MAX_KEPT", (3 << 20) + 500)
    found = unpacked(_zip({f"log{number}.txt": os.urandom(1 << 20) for number in range(6)}, zipfile.ZIP_STORED), lambda name: True)
    assert [len(body) for body in found.members.values()] == [1 << 20] * 3 + [0] * 3
    assert sum("was not read" in remark for remark in found.remarks) == 3


def test_a_damaged_member_costs_only_itself() -> None:
    body = _zip({"lsmod.txt": b"nvidia 1 0" * 9, "nvidia-bug-report.log": b"x" * 4000}, zipfile.ZIP_STORED)
    found = unpacked(body.replace(b"nvidia 1 0", b"nvidia 2 0", 1), lambda name: True)
    assert (list(found.members), len(found.remarks)) == (["nvidia-bug-report.log"], 1)


def test_an_encrypted_zip() -> None:
    content = bytearray(_zip({"sos_commands/kernel/dmesg": b"x"}))
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(mark) + place] |= 1
    assert "encrypted" in refused(bytes(content))


@pytest.mark.parametrize("mode", ["w:gz", "w:xz", "w:bz2", "w"])
def test_a_cut_archive_gives_what_could_be_read(mode: str) -> None:
    files = {**sos_of("h200-healthy"), "sosreport-gpu-7-2026-11-21-abcdefg/var/log/rest": random.Random(1).randbytes(2 << 20)}
    whole = _tar(files, mode)
    report = of(whole[: len(whole) // 2])
    assert any("cut off or damaged" in note for note in report.notes)
    assert report.machine.kernel == "6.18.44-gpu"


def test_members_of_gzip_are_counted_and_read_one_after_the_other() -> None:
    """A million of them without content took half a minute."""
    began = time.process_time()
    with pytest.raises(packed.BundleError, match="members of gzip"):
        expanded(gzip.compress(b"") * (packed.MAX_MEMBERS + 100_000))
    assert time.process_time() - began < 1.5
    many = gzip.compress(b"") * 5000 + gzip.compress(b"a") + b"\0" * 100_000 + gzip.compress(b"x" * (3 << 20)) + b"\0"
    assert expanded(many) == (b"a" + b"x" * (3 << 20), [])


@pytest.mark.parametrize("name", ["nvidia-bug-report.log.gz", "node/nvidia-bug-report.log", "nvidia-smi.txt.gz"])
def test_a_hole_in_what_is_packed_within_an_archive_is_seen(name: str) -> None:
    """Bytes that a crash of a file system took: what they said is not known."""
    text = (
        h200().encode()
        if "bug-report" in name
        else (BUNDLES.parent / "parsers" / "nvidia_smi" / "recorded--h200-580-query.txt").read_bytes()
    )
    holed = text[: len(text) // 2] + bytes(600) + text[len(text) // 2 + 600 :]
    for body, whole in ((text, True), (holed, False)):
        carried = _tar({f"x/{name}": gzip.compress(body) if name.endswith(".gz") else body}, "w:gz")
        (machine,) = bundles.of_stream(io.BytesIO(carried)).machines
        assert any("A part of it is lost" in remark for remark in machine.remarks) is not whole


@pytest.mark.parametrize("hole", [bytes(8), b"\xff" * 8], ids=["zeros", "ones"])
def test_a_short_hole_counts_too(hole: bytes) -> None:
    text = h200("h200-recorded").encode()
    at = text.index(b"dmesg:") + 200
    assert of(text[:at] + hole + text[at + len(hole) :]).verdict == "undecided"


QUERY = (BUNDLES.parent / "parsers" / "nvidia_smi" / "recorded--h200-580-query.txt").read_bytes()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"zz.txt.gz": gzip.compress(QUERY)[:12]}, "zz.txt.gz was not read: "),
        ({"zz.txt": QUERY}, "zz.txt was not read: another file holds the same tool's output."),
        ({"dmesg.txt": b"NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.\n"}, "dmesg.txt is the output of no tool that is read here."),
        ({"a/b/deep.txt": QUERY}, "a/b/deep.txt was not read."),
        ({"dcgm.json": b'{"DCGM Diagnostic": {"test_categories": [ {"category": "Hardware", "tests"'}, "The output of dcgmi diag was cut"),
    ],
)  # fmt: skip
def test_what_an_archive_holds_beside_a_listing_and_was_not_read_is_said(more: dict[str, bytes], said: str) -> None:
    """Without a word it would count as sound."""
    (alone,) = bundles.of_stream(io.BytesIO(_zip({"smi.txt": QUERY}))).machines
    assert alone.remarks == ()
    (machine,) = bundles.of_stream(io.BytesIO(_zip({"smi.txt": QUERY, **more}))).machines
    assert any(said in remark for remark in machine.remarks), machine.remarks
    assert judge(machine, KNOWLEDGE).verdict != "healthy"


def test_a_listing_beside_a_report_of_the_machine_is_not_passed_over() -> None:
    files = {"x/nvidia-bug-report.log.gz": gzip.compress(h200().encode()), "x/smi.txt": QUERY}
    (machine,) = bundles.of_stream(io.BytesIO(_tar(files, "w:gz"))).machines
    assert any("x/smi.txt was not read: it lies beside a report" in remark for remark in machine.remarks)


def test_a_bug_report_within_a_report_of_sos_is_named() -> None:
    files = sos_of("h200-healthy")
    root = next(iter(files)).partition("/")[0]
    files[f"{root}/sos_commands/nvidia/nvidia-bug-report.log.gz"] = gzip.compress(of_host("gpu-fell-off-bus").encode())
    report = of(_tar(files, "w:gz"))
    assert report.verdict == "undecided"
    assert any("nvidia-bug-report.log.gz was not read: it lies beside a report" in note for note in report.notes)


def test_of_two_reports_of_sos_one_is_read_and_the_other_named() -> None:
    files = sos_of("h200-healthy")
    other = {name.replace("sosreport-gpu-7", "sosreport-gpu-8"): content for name, content in files.items()}
    assert not set(files) & set(other)
    (machine,) = bundles.of_stream(io.BytesIO(_tar({**files, **other}, "w:gz"))).machines
    assert any("was not read: of several reports the one in" in remark for remark in machine.remarks)


def test_of_several_logs_of_the_kernel_the_fullest_counts() -> None:
    """The kernel's own buffer had lost its beginning, in which the GPU fell off the bus."""
    files = sos_of("h200-healthy")
    root = next(name for name in files if "sos_commands/" in name).partition("sos_commands/")[0]
    line = "Nov 26 10:00:00 gpu kernel: NVRM: Xid (PCI:0000:01:00): 79, pid=1, GPU has fallen off the bus.\n"
    files[f"{root}sos_commands/kernel/dmesg"] = b"[ 1.0] Linux version 6\n"
    files[f"{root}sos_commands/logs/journalctl_--no-pager_--boot"] = f"{line}".encode() * 2
    (machine,) = bundles.of_stream(io.BytesIO(_tar(files, "w:gz"))).machines
    log = machine.get("kernel-log")
    assert log is not None
    assert "Xid" in (log.stdout or "")


def test_of_very_many_remarks_every_node_repeats_a_few() -> None:
    """A hundred thousand of them took 2.2 GB with a hundred nodes."""
    said = unpacking.in_short(f"{number}: {unpacking.LOST}" for number in range(1000))
    assert (len(said), said[-1]) == (41, "and 960 more of the kind")


def test_a_cut_gzip_gives_what_could_be_read() -> None:
    whole = gzip.compress(h200().encode())
    report = of(whole[: len(whole) * 2 // 3])
    assert any("cut off or damaged" in note for note in report.notes)
    assert report.machine.kernel is not None


@pytest.mark.parametrize(
    "content",
    [
        b"\x1f\x8b\x08\x00", b"\x1f\x8bnothing", b"\xfd7zXZ\x00broken", b"BZh9broken", b"PK\x03\x04broken", b"\x28\xb5\x2f\xfd....",
        b"Rar!\x1a\x07", b"7z\xbc\xaf\x27\x1c", _tar({}, "w:gz"), _zip({}), _tar({"a.bin": b"x"}, "w:xz"), _zip({"notes.txt": b"hello"}),
    ],
)  # fmt: skip
def test_what_cannot_be_used_ends_with_two(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "bundle"
    path.write_bytes(content)
    for arguments in (("explain", str(path)), ("check", "--replay", str(path))):
        result = run(*arguments)
        assert (result.code, result.out) == (2, ""), arguments
        assert str(path) in result.err
        assert "Traceback" not in result.err


# ---------------------------------------------------------------- size
@pytest.mark.long
def test_in_a_hundred_megabytes_the_line_that_matters_is_found() -> None:
    lines = "".join(
        f"[{number / 7:12.6f}] audit: type=1400 audit(1700000000.{number}:7): apparmor=ALLOWED operation=open pid={number}\n"
        for number in range(11_000)
    )
    noise = lines * 90
    xid = "[ 9000.1] NVRM: Xid (PCI:0000:01:00): 79, pid=1432, name=python3, GPU has fallen off the bus.\n"
    log = bug_reports.said(host("gpu-fell-off-bus"), "kernel-log") or ""
    text = replaced(of_host("gpu-fell-off-bus"), {"dmesg:": "\n" + noise[: len(noise) // 2] + log + xid + noise[len(noise) // 2 :]})
    assert len(text) > 90 << 20
    carried = gzip.compress(text.encode(), 1)
    assert cause_of(of(carried)) == "gpu-fell-off-bus"


def test_of_a_very_long_log_the_lines_that_matter_are_kept() -> None:
    noise = "[ 1.0] usb 1-1: new device\n" * 400_000
    item = items.kernel_log("dmesg", text=f"[ 0.0] Linux version 6\n{noise}[ 2.0] nvidia: failed\n{noise}\n[ 3.0] NVRM: last")
    assert item.stdout == "[ 0.0] Linux version 6\n[ 2.0] nvidia: failed\n[ 3.0] NVRM: last\n"
    assert item.excerpt


def test_of_a_very_long_file_the_beginning_and_the_end_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "MAX_MEMBER", 8 << 20)
    plain, remarks = expanded(gzip.compress(b"head " + b"x" * (20 << 20) + b" tail", 1))
    assert (plain[:5], plain[-5:]) == (b"head ", b" tail")
    assert len(plain) <= 8 << 20
    assert remarks == ["Of 20 MiB the beginning and the end were read, 7 MiB in all."]


def test_what_is_beyond_all_that_is_kept_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "MAX_KEPT", 2 << 20)
    found = unpacked(_tar(dict.fromkeys("abc", b"x" * (2 << 20))), lambda name: True)
    assert [len(found.members[name]) for name in "abc"] == [2 << 20, 0, 0]
    assert "c: It was not read: what came before is more than is kept." in found.remarks


def test_letters_of_other_scripts_do_not_multiply_a_very_long_text() -> None:
    long = "NVRM: \u00e9 \u4e2d \U0001f600 Xid\n"
    assert items.text_of(long.encode()) == long
    assert items.text_of(long.encode() * 600_000)[: len(long)] == "NVRM: \u00e9 ? ? Xid\n"
    assert sys.getsizeof(items.text_of(long.encode() * 600_000)) < 600_000 * len(long) + 1000
    assert sys.getsizeof(pasted.evidence_of(long.encode() * 600_000).items[0].stdout) < 2 * 600_000 * len(long) + 1000


def test_bug_reports_that_unpack_to_too_much_are_left_out_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    first = of_host("h200-healthy")
    monkeypatch.setattr(must_gather, "MOST_UNPACKED", len(first.encode()))
    machines = of_bytes(_tar(gather(gpu_1=first, gpu_2=of_host("gpu-fell-off-bus")), "w:gz")).machines
    assert [machine.node for machine in machines] == ["gpu-1"]
    said = " ".join(machines[0].remarks)
    assert "nvidia-bug-report_gpu-2.log.gz: it unpacks to more than" in said
    assert "nor were the reports after it" in said


@pytest.mark.long
def test_reports_that_are_refused_cost_what_all_may_cost_together() -> None:
    """Each is a bomb of some hundred bytes: the first that goes beyond what the whole bundle may is the last that is unpacked."""
    bomb = bz2.compress(b"ab" * (9 << 19)) * 15
    began = time.process_time()
    with pytest.raises(bundles.BundleError, match="nor were the reports after it"):
        of_bytes(_tar({f"must-gather/nvidia-bug-report_node{number}.log.gz": bomb for number in range(20)}, "w:gz"))
    assert time.process_time() - began < 10


def test_one_budget_of_time_holds_for_all_that_is_packed_in_a_bundle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "MAX_CPU", 0.1)
    slow = gzip.compress(b"", 1) * 90_000  # takes some tenths of a second, and gives nothing
    began = time.process_time()
    with pytest.raises(bundles.BundleError, match=r"more than 0.1 s to unpack; not read, nor were the files after it"):
        of_bytes(_tar({f"{number}.log.gz": slow for number in range(6)}, "w"))
    assert time.process_time() - began < 3


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="Linux says what a process took")
@pytest.mark.parametrize("names", [("dmesg",), pytest.param(("rpm", "command", "scan", "query"), marks=pytest.mark.long)], ids=len)
def test_short_lines_do_not_multiply_the_memory_of_a_bundle(names: tuple[str, ...], tmp_path: Path) -> None:
    """A line of three bytes takes fifty in a list: bundles of 64 KB took gigabytes."""
    lines = b"ab\n" * (63 << 19)
    of_sos = {"sos_commands/kernel/uname_-a": b"Linux gpu07 5.14.0\n", "sos_commands/rpm/sh_-c_rpm_--nodigest_-qa_--qf_x_sort_-V": lines}
    head = f"{MARK}\n\n{bug_report.START}.\n\n".encode()
    hostile = {
        "rpm": lambda: _tar({f"sosreport-gpu07-2026-01-01-abc/{name}": body for name, body in of_sos.items()}, "w:gz"),
        "command": lambda: gzip.compress(head + f"{MARK}\n\nlsmod\n".encode() + lines, 1),
        "scan": lambda: gzip.compress(
            head + f"{MARK}\n\n{bug_report._SCANNED}\n\n  journalctl -b -0:\n".encode() + b" kernel: \n" * (9 << 20), 1
        ),
        "dmesg": lambda: gzip.compress(head + f"{MARK}\n\ndmesg:\n".encode() + b"xid\n" * (47 << 19), 1),
        "query": lambda: gzip.compress(b"==============NVSMI LOG==============\n\n" + b"a :\n" * (47 << 19), 1),
    }
    for name in names:
        (tmp_path / name).write_bytes(hostile[name]())
        # Not ru_maxrss, which a child has from the process that started it.
        code = "import sys; from cudadoctor.sources import bundles; bundles.opened(sys.argv[1]); print(open('/proc/self/status').read())"
        done = subprocess.run([sys.executable, "-c", code, str(tmp_path / name)], stdout=subprocess.PIPE, text=True, check=True)
        peak = re.search(r"VmHWM:\s+(\d+) kB", done.stdout)
        assert peak is not None
        assert int(peak[1]) < 600 << 10, name


def test_of_a_very_long_report_both_ends_are_read_and_of_a_stream_what_a_text_may_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpacking, "MAX_MEMBER", 1 << 20)
    monkeypatch.setattr(inputs, "TEXT", 1 << 20)
    head = f"{MARK}\n\n{bug_report.START}.\n\nuname: Linux x\n{MARK}\n\ndmesg:\n"
    (tmp_path / "report.log").write_text(f"{head}{'noise ' * 400_000}\n{MARK}\n\nlsmod\nnvidia 1 0\n")
    (machine,) = bundles.replayed(str(tmp_path / "report.log"))
    assert {"uname", "lsmod"} <= {item.id for item in machine.items}
    assert any("the beginning and the end were read" in remark for remark in machine.remarks)
    for carried in (b"\x1f\x8b\x08\x00", head.encode()):
        stream = io.BytesIO(carried + bytes(4 << 20))
        try:
            bundles.of_stream(stream)
        except bundles.BundleError:
            pass
        assert stream.tell() <= (1 << 20) + 1


def test_many_packed_files_and_many_nodes_end_soon() -> None:
    """Each by itself is within the limits."""
    carried = gzip.compress(b"a\n" * (10 << 20))
    began = time.process_time()
    with pytest.raises(bundles.BundleError):
        of_bytes(_tar({f"{number}.log.gz": carried for number in range(400)}, "w:gz"))
    assert time.process_time() - began < 10
    nodes = {f"gpu_operand_pod_p{number}.descr": f"Node: node{number}/1\n   Reason: Error\n".encode() for number in range(3000)}
    machines = of_bytes(_tar({"gpu_nodes.status": b"x\n", **nodes}, "w:gz")).machines
    assert len(machines) == must_gather.MOST_NODES
    assert any("3000 nodes are in it" in remark for remark in machines[0].remarks)
    bad = {f"nvidia-bug-report_{number}.log": b"" for number in range(500)}
    machines = of_bytes(_tar({"gpu_nodes.status": b"x\n", **nodes, **bad}, "w:gz")).machines
    assert max(len(machine.remarks) for machine in machines) < 50  # each repeats those of all: 191 KB took 2 GB


def test_what_looks_like_nvidia_smi_is_judged_by_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each member of an archive that looks so is read; together they get the time of one bundle."""
    long = b"==============NVSMI LOG==============\n\nAttached GPUs : 9\n" + b"A\n" * (8 << 20)
    began = time.process_time()
    (machine,) = of_bytes(_tar({"a.txt": long, "b.txt": long}, "w:gz")).machines
    assert [item.id for item in machine.items] == ["nvidia-smi-query"]
    assert time.process_time() - began < 12
    monkeypatch.setattr(packed, "MAX_CPU", 0.5)
    tail = b"\n".join([long[:900_000], b"$ nvidia-smi", b"no, thanks: it is slow", b"and says: nothing"])
    with pytest.raises(bundles.BundleError, match="nor were the files after it"):
        of_bytes(_tar({f"{number}.txt": tail for number in range(40)}, "w"))


# ---------------------------------------------------------------- what costs before it gives anything
def test_members_without_content_end_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "MAX_CPU", 0.05)
    with pytest.raises(packed.BundleError, match=r"more than 0.05 s to unpack"):
        expanded(gzip.compress(b"", 1) * 1_000_000)


def test_a_list_of_members_that_is_larger_than_any_is_not_made() -> None:
    entry = struct.pack("<4s4B4HL2L5H2L", b"PK\1\2", 20, 3, 20, *[0] * 7, 0, 1, *[0] * 6) + b"a"
    size = (packed.MAX_DIRECTORY // len(entry) + 1) * len(entry)
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 65535, 65535, size, 4, 0)
    with pytest.raises(packed.BundleError, match="list of its members"):
        unpacked(b"PK\3\4" + entry * (size // len(entry)) + end, lambda _: True)


# ---------------------------------------------------------------- what was cut off proves a fault, never health
@pytest.mark.parametrize("share", [0.95, 0.7, 0.5, 0.3])
@pytest.mark.parametrize("carried", [False, True])
def test_a_cut_report_is_never_healthy(share: float, carried: bool, tmp_path: Path) -> None:
    whole = (BUNDLES / "h200" / "nvidia-bug-report.log").read_bytes()
    whole = gzip.compress(whole) if carried else whole
    (tmp_path / "report").write_bytes(whole[: int(len(whole) * share)])
    (machine,) = bundles.replayed(str(tmp_path / "report"))
    assert judge(machine, KNOWLEDGE).verdict == "undecided"


QUERIED = """\
==============NVSMI LOG==============

Timestamp                                 : Tue Nov 25 10:00:00 2025
Driver Version                            : 535.54.03
CUDA Version                              : 12.2

Attached GPUs                             : 2
GPU 00000000:01:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
"""
QUERIED_XML = """\
<?xml version="1.0" ?>
<nvidia_smi_log>
\t<driver_version>535.54.03</driver_version>
\t<attached_gpus>2</attached_gpus>
\t<gpu id="00000000:01:00.0">
\t\t<product_name>NVIDIA H100 80GB HBM3</product_name>
"""


@pytest.mark.parametrize("text", [QUERIED, QUERIED_XML])
def test_a_listing_that_was_cut_is_never_healthy(text: str, tmp_path: Path) -> None:
    (tmp_path / "smi").write_text(text)
    (machine,) = bundles.replayed(str(tmp_path / "smi"))
    assert judge(machine, KNOWLEDGE).verdict == "undecided"
    one = re.sub("(?m)(Attached GPUs.*|<attached_gpus>)2", r"\g<1>1", text)
    end = "    Processes                             : None\n" if text == QUERIED else "\t</gpu>\n</nvidia_smi_log>\n"
    for whole, verdict in ((one, "undecided"), (one + end, "healthy")):
        (tmp_path / "smi").write_text(whole)
        (machine,) = bundles.replayed(str(tmp_path / "smi"))
        assert judge(machine, KNOWLEDGE).verdict == verdict


@pytest.mark.parametrize("fill", [b"\0", b"\xff"])
def test_a_bug_report_with_a_hole_is_never_healthy(fill: bytes, tmp_path: Path) -> None:
    whole = (BUNDLES / "h200-recorded" / "nvidia-bug-report.log").read_bytes()
    at = whole.index(b"Remapping Failure Occurred")
    file = tmp_path / "nvidia-bug-report.log"
    for content, verdict in ((whole, "healthy"), (whole[: at - 300] + fill * 600 + whole[at + 300 :], "undecided")):
        file.write_bytes(content)
        (machine,) = bundles.replayed(str(file))
        assert judge(machine, KNOWLEDGE).verdict == verdict


def test_a_member_without_a_name_is_passed_over() -> None:
    carried = io.BytesIO()
    with zipfile.ZipFile(carried, "w") as archive:
        archive.writestr("notes.txt", "x")
        archive.writestr(zipfile.ZipInfo(""), "y")
    content = carried.getvalue()
    held = unpacking.unpacked(content, lambda _: True, packed.Allowance(len(content)))
    assert held.names == ["notes.txt"]


def test_a_folder_of_a_thousand_floors_ends_no_reader(tmp_path: Path) -> None:
    (tmp_path / "sos_commands").mkdir()
    at = os.open(tmp_path / "sos_commands", os.O_RDONLY)
    try:
        for _ in range(1200):
            os.mkdir("a", dir_fd=at)
            below = os.open("a", os.O_RDONLY, dir_fd=at)
            os.close(at)
            at = below
    finally:
        os.close(at)
    try:
        assert unpacking.folder(str(tmp_path), lambda _: True).names == []
    finally:
        subprocess.run(["rm", "-rf", str(tmp_path / "sos_commands")], check=True)  # what Python 3.11 removes by recursion
