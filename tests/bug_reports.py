"""Bug reports of NVIDIA's script made from recorded machines: the script's own layout, with the parts of a machine put in their places."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cudadoctor.model.evidence import Evidence
from cudadoctor.model.facts import Unknown
from cudadoctor.model.guard import Guard
from cudadoctor.model.values import PCI
from cudadoctor.parsers import read
from tests.command_line import evidence_of as host
from tests.judging import KNOWLEDGE

ROOT = Path(__file__).resolve().parent.parent
BUNDLES = ROOT / "fixtures" / "bundles"
_FOLDERS = (path for path in (ROOT / "fixtures" / "hosts").iterdir() if (path / "expected.json").exists())
HOSTS = sorted(path.name for path in _FOLDERS if not path.name.startswith("windows"))  # NVIDIA's script is one for Linux
MARK = "_" * 44
CLASSES = {
    "0300": "VGA compatible controller", "0302": "3D controller", "0600": "Host bridge", "0180": "Mass storage controller",
    "0200": "Ethernet controller", "0403": "Audio device",
}  # fmt: skip
_FUNCTION = re.compile(r"/sys/bus/pci/devices/(?P<address>[0-9a-f:.]+)/(?P<name>\w+)(?::0x(?P<id>\w+)| -> \S+/(?P<driver>[\w-]+))")


@functools.cache
def h200(name: str = "h200") -> str:
    """The healthy machine's bug report: `h200` in the layout of a report without a GPU, `h200-recorded` as the script wrote it there."""
    return (BUNDLES / name / "nvidia-bug-report.log").read_text("utf-8")


def said(evidence: Evidence, item: str) -> str | None:
    """What an item says; None where it is not there."""
    found = evidence.get(item)
    if found is None or not found.answered:
        return None
    return (found.stdout or "") + (found.stderr or "")


# ---------------------------------------------------------------- parts
def functions(evidence: Evidence) -> dict[str, dict[str, str]]:
    """Address -> vendor, device, class, revision, driver: from /sys, or from what another listing says of the bus."""
    found: dict[str, dict[str, str]] = {}
    for match in _FUNCTION.finditer(said(evidence, "pci") or ""):
        found.setdefault(match["address"], {})[match["name"]] = match["id"] or match["driver"]
    bus = read.read(evidence, Guard(), KNOWLEDGE).get(PCI)
    for entry in () if found or isinstance(bus, Unknown) or bus.value is None else bus.value.functions:
        ids = {"vendor": entry.vendor, "device": entry.device, "class": entry.class_code, "driver": entry.driver}
        found[entry.address] = {name: value for name, value in ids.items() if value is not None}
        found[entry.address].setdefault("device", "1292")
    return found


def lspci(evidence: Evidence, *, drivers: bool = True) -> str:
    """`lspci -nnDvvvxxxx` (or, without drivers, `lspci -nn`) of the bus that this evidence shows."""
    lines = []
    for address, ids in functions(evidence).items():
        code = ids["class"][:4]
        maker = "NVIDIA Corporation" if ids["vendor"] == "10de" else "Intel Corporation"
        revision = f" (rev {ids['revision']})" if ids.get("revision", "00") != "00" else ""
        lines.append(
            f"{address} {CLASSES.get(code, 'Unassigned class')} [{code}]: {maker} Device [{ids['vendor']}:{ids['device']}]{revision}"
        )
        if drivers:
            lines.append("\tControl: I/O- Mem+ BusMaster+ SpecCycle- MemWINV- VGASnoop- ParErr- Stepping- SERR- FastB2B- DisINTx-")
            lines += [f"\tKernel driver in use: {ids['driver']}"] if "driver" in ids else []
            vendor, device = ids["vendor"], ids["device"]
            lines += [f"00: {vendor[2:]} {vendor[:2]} {device[2:]} {device[:2]} 06 04 10 00 01 00 00 00 00 00 00 00", ""]
    return "\n".join(lines) + "\n"


def listing(path: str) -> str:
    """What the script prints between a file's name and its content."""
    return f"*** ls: -r--r--r-- 1 root root 0 2026-11-21 10:34:49.260308197 +0000 {path}\n"


def parts_of(evidence: Evidence) -> dict[str, str]:
    """Title of a section -> its body, as far as this machine shows it: bus, kernel log, versions, modules, nvidia-smi."""
    parts = {"dmesg:": "\n" + (said(evidence, "kernel-log") or "")}
    if functions(evidence):
        parts["/usr/bin/lspci -nnDvvvxxxx"] = "\n" + lspci(evidence)
        parts["/usr/bin/lspci -nn"] = "\n" + lspci(evidence, drivers=False)
    for path, item in (
        ("/proc/modules", "modules"),
        ("/proc/version", "proc-version"),
        ("/proc/driver/nvidia/./version", "driver-version"),
    ):
        text = said(evidence, item)
        parts[f"*** {path}"] = f"{listing(path)}{text}" if text is not None else "does not exist"
    smi, answered = said(evidence, "nvidia-smi"), query(evidence)
    if smi is not None and "| NVIDIA-SMI" not in smi:  # a table is no answer to --query
        parts["/usr/bin/nvidia-smi --query"] = "\n" + smi
    elif smi is None:
        parts["/usr/bin/nvidia-smi --query"] = "not found"
    elif answered is not None:
        parts["/usr/bin/nvidia-smi --query"] = "\n" + answered
    release = (said(evidence, "uname") or "? ? ?").split()[2]
    listed = re.search(rf"/{re.escape(release)}/.*/nvidia[\w-]*\.ko", said(evidence, "module-files") or "") is not None
    there = listed or "nvidia.ko" in (said(evidence, "modinfo") or "")
    parts["/usr/bin/modinfo nvidia | grep vermagic"] = f"\nvermagic:       {release} SMP preempt mod_unload modversions" if there else "\n"
    return parts


# ---------------------------------------------------------------- the report
def replaced(report: str, parts: Mapping[str, str]) -> str:
    """The report with the bodies of these sections; `does not exist` and `not found` are said as the script says them."""
    sections = re.split(rf"^{MARK}\n", report, flags=re.MULTILINE)
    out = [_section(section, parts) for section in sections]
    return f"{MARK}\n".join(out)


def _section(section: str, parts: Mapping[str, str]) -> str:
    title = section.lstrip("\n").partition("\n")[0]
    name = re.sub(r"^/\S*/", "", title.removesuffix(" does not exist"))  # programs lie in other folders elsewhere
    body = next((text for key, text in parts.items() if re.sub(r"^/\S*/", "", key) == name), None)
    if body is None:
        return section
    if body == "does not exist":
        return f"\n{title.removesuffix(' does not exist')} does not exist\n\n"
    if body == "not found":
        return "\nSkipping nvidia-smi output (nvidia-smi not found)\n\n"
    return f"\n{title.removesuffix(' does not exist')}\n{body.rstrip()}\n\n"


def of_host(name: str) -> str:
    """The bug report of a recorded machine: the H200's, with this machine's kernel log, versions, bus and nvidia-smi."""
    evidence = host(name)
    report = replaced(h200(), parts_of(evidence))
    uname = said(evidence, "uname")
    return re.sub(r"^uname: .*$", f"uname: {uname.strip()}", report, count=1, flags=re.MULTILINE) if uname else report


# ---------------------------------------------------------------- nvidia-smi -q
REASONS = {
    "sw-power-cap": "SW Power Cap", "hw-slowdown": "HW Slowdown", "hw-thermal-slowdown": "HW Thermal Slowdown",
    "hw-power-brake-slowdown": "HW Power Brake Slowdown", "sw-thermal-slowdown": "SW Thermal Slowdown",
}  # fmt: skip
CODES = {
    9: "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed "
    "and running.\n",
    18: "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: {library}\n",
    999: "Failed to initialize NVML: Unknown Error\n",
}  # fmt: skip


def query(evidence: Evidence) -> str | None:
    """`nvidia-smi -q` of this machine: the text recorded on the H200, with what NVML said here. None where NVML was not asked."""
    lines = [json.loads(line) for line in (said(evidence, "nvml") or "").splitlines() if line.startswith("{")]
    head = next((line for line in lines if line.get("event") == "nvml"), None)
    gpus = [line for line in lines if line.get("event") == "gpu"]
    if head is None:
        return None
    if head["code"] != 0:
        return CODES[head["code"]].format(library=head.get("library")) if head["code"] in CODES else None
    if any(gpu.get("handle_error") for gpu in gpus) or not gpus:
        lost = next((gpu for gpu in gpus if gpu.get("handle_error")), None)
        return (
            f"Unable to determine the device handle for GPU{lost.get('address') or '0000:01:00.0'}: {lost['handle_error']}\n"
            if lost
            else "No devices were found\n"
        )
    text = (ROOT / "fixtures" / "parsers" / "nvidia_smi" / "recorded--h200-580-query.txt").read_text("utf-8")
    above, _, block = text.partition("\nGPU 00000000:00:06.0\n")
    above = _set(_set(above, "CUDA Version", str(head.get("cuda"))), "Attached GPUs", str(len(gpus)))
    return above + "".join(f"\nGPU 0000{gpu['address'].upper()}\n{_gpu_block(block, gpu).rstrip()}\n" for gpu in gpus)


def _set(text: str, name: str, value: str, *, below: str | None = None) -> str:
    """One field with another value; `below`: the first of this name behind this heading."""
    start = re.search(rf"^ *{re.escape(below)}$", text, re.MULTILINE).end() if below is not None else 0  # type: ignore[union-attr]
    return text[:start] + re.sub(rf"^( *{re.escape(name)} *: ).*$", rf"\g<1>{value}", text[start:], count=1, flags=re.MULTILINE)


def _gpu_block(text: str, gpu: dict[str, Any]) -> str:
    total, used = ((gpu.get(f"memory_{part}_bytes") or 0) >> 20 for part in ("total", "used"))
    for name, value, below in (
        ("Product Name", gpu["name"], None),
        ("GPU UUID", gpu["uuid"], None),
        ("Current", (gpu.get("mig_mode") or "N/A").title(), "MIG Mode"),
        ("GPU Recovery Action", (gpu.get("recovery_action") or "none").replace("-", " ").title().replace("Gpu", "GPU"), None),
        ("Virtualization Mode", {"vgpu": "VGPU", "passthrough": "Pass-Through"}.get(gpu.get("vgpu_mode") or "", "None"), None),
        ("Max", str(gpu.get("pcie_generation_max")), "PCIe Generation"),
        ("Current", str(gpu.get("pcie_generation")), "PCIe Generation"),
        ("Max", f"{gpu.get('pcie_width_max')}x", "Link Width"),
        ("Current", f"{gpu.get('pcie_width')}x", "Link Width"),
        ("Total", f"{total} MiB", "FB Memory Usage"),
        ("Reserved", "0 MiB", "FB Memory Usage"),
        ("Used", f"{used} MiB", "FB Memory Usage"),
        ("Free", f"{total - used} MiB", "FB Memory Usage"),
        ("Compute Mode", (gpu.get("compute_mode") or "default").replace("-", "_").title(), None),
        ("DRAM Uncorrectable", str(gpu.get("ecc_uncorrected_volatile") or 0), "Volatile"),
        ("Pending", "Yes" if gpu.get("remap_pending") else "No", "Remapped Rows"),
        ("Remapping Failure Occurred", "Yes" if gpu.get("remap_failed") else "No", "Remapped Rows"),
        ("GPU Current Temp", f"{gpu.get('temperature_c') or 30:.0f} C", None),
        ("State", (gpu.get("fabric_state") or "n/a").replace("-", " ").title(), "Fabric"),
        ("Status", gpu.get("fabric_status") or "N/A", "Fabric"),
        *((REASONS[reason], "Active", "Clocks Event Reasons") for reason in gpu.get("throttle_reasons", ()) if reason in REASONS),
    ):
        text = _set(text, name, value, below=below)
    licence = gpu.get("vgpu_license")
    extra = (
        f"    vGPU Software Licensed Product\n        License Status                                 : {licence.title()}\n"
        if licence
        else ""
    )
    return text + extra
