"""What sections of `nvidia-smi -q` (whole, `-d ...`, one section cut out), its XML and `nvidia-smi nvlink -s` say of each GPU's health.

Fields are known by their own name; those whose name several sections have count only below their section's heading. History (aggregate
counters, the time spent with low clocks) is left alone: it says nothing of now.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import SMI_DETAILS, GpuDetails
from cudadoctor.parsers.base import Output, Parser, Text
from cudadoctor.parsers.nvidia_smi_table import address_of

_FIELD = lazy(r"^\s{0,60}(?P<name>[A-Za-z][^:<>]{0,58}?)\s{0,60}: (?P<value>[^\s:<].{0,100}?)(?:\s{2,}\S.{0,80})?$")
_HEADING = lazy(r"^\s{0,60}(?P<name>[A-Za-z][\w ./()-]{1,58}?)\s{0,20}$")
_GPU = lazy(r"^\s{0,20}GPU (?P<address>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\s{0,9}$")
_NUMBERED = lazy(r"^\s{0,16}GPU (?P<index>\d{1,3}): .{1,100}? \(UUID: GPU-[0-9A-Fa-f-]{4,40}\)")
_LINK = lazy(r"^\s{0,20}Link (?P<link>\d{1,2}): (?P<state><inactive>|inactive|[\d.]{1,8} GB/s)\s{0,9}$")
_TAG = lazy(r"<(?P<end>/?)(?P<name>[a-zA-Z_]\w{0,80})(?P<attributes>[^<>]{0,200})>(?P<text>[^<]{0,120})")
_NUMBER = lazy(r"^\d{1,12}$")
_ACTIVE = ("Active", "Not Active")
_NOTHING = ("N/A", "[N/A]", "None", "")

# Name of a field, and of the XML's element, that stands for itself -> the reason for low clocks that it speaks of.
_REASONS = {
    "HW Slowdown": "hw-slowdown", "HW Thermal Slowdown": "hw-thermal-slowdown", "HW Power Brake Slowdown": "hw-power-brake-slowdown",
    "SW Thermal Slowdown": "sw-thermal-slowdown", "SW Power Cap": "sw-power-cap", "Board Limit": "board-limit",
    "Reliability Violation": "reliability",
}  # fmt: skip
_REASON_TAG = lazy(r"^clocks_(?:event|throttle)_reason_([hs]w_(?:slowdown|thermal_slowdown|power_brake_slowdown))$")
_ACTIONS = {
    "none": "none", "reset": "gpu-reset", "gpu reset": "gpu-reset", "gpu reset required": "gpu-reset", "reboot": "node-reboot",
    "node reboot": "node-reboot", "node reboot required": "node-reboot", "drain p2p": "drain-p2p", "drain and reset": "drain-and-reset",
    "recover imex domain": "recover-imex-domain", "bus reset": "bus-reset", "system reboot": "system-reboot",
}  # fmt: skip


def _part(pattern: str, kind: type = int) -> Callable[[str], Any]:
    """Reads what stands in the pattern's group."""
    form = lazy(pattern)
    return lambda value: kind(found[1]) if (found := form.match(value)) is not None else None


def _action(value: str) -> str:
    return _ACTIONS.get(value.lower(), value.lower())


def _hyphened(value: str) -> str:
    return value.lower().replace(" ", "-")


_truth = {"Yes": True, "No": False}.get
_generation, _width = _part(r"^(\d{1,2})$"), _part(r"^(\d{1,2})x$")
_degrees = _part(r"^(-?\d{1,3})(?:\.\d)? C$", float)
# What is told, how it is read, and the names of its field and element: with the heading or element around it where others have that name.
_FIELDS: dict[str | tuple[str, str], tuple[str, Callable[[str], Any]]] = {
    name: (field, read)
    for field, read, names in (
        ("remap_failed", _truth, ("Remapping Failure Occurred", "remapped_row_failure")),
        ("remap_pending", _truth, (("Remapped Rows", "Pending"), "remapped_row_pending")),
        (
            "retired_pages_pending",
            _truth,
            (("Retired Pages", "Pending"), "Pending Page Blacklist", "pending_blacklist", "pending_retirement"),
        ),
        ("recovery_action", _action, ("GPU Recovery Action", "gpu_recovery_action")),
        ("vgpu_mode", str.lower, ("Virtualization Mode", "Virtualization mode", "virtualization_mode")),
        ("vgpu_license", str.lower, ("License Status", "license_status")),
        ("temperature_c", _degrees, ("GPU Current Temp", "gpu_temp")),
        ("temperature_limit_c", _degrees, ("GPU Max Operating Temp", "gpu_temp_max_gpu_threshold")),
        ("temperature_margin_c", _degrees, ("GPU T.Limit Temp", "gpu_temp_tlimit")),
        ("pcie_generation_max", _generation, (("PCIe Generation", "Max"), ("pcie_gen", "max_link_gen"))),
        ("pcie_generation", _generation, (("PCIe Generation", "Current"), ("pcie_gen", "current_link_gen"))),
        ("pcie_width_max", _width, (("Link Width", "Max"), ("link_widths", "max_link_width"))),
        ("pcie_width", _width, (("Link Width", "Current"), ("link_widths", "current_link_width"))),
        ("utilization_percent", _part(r"^(\d{1,3}) ?%$"), (("Utilization", "Gpu"), ("Utilization", "GPU"), ("utilization", "gpu_util"))),
        ("fabric_state", _hyphened, (("Fabric", "State"), ("fabric", "state"))),
        ("fabric_status", _hyphened, (("Fabric", "Status"), ("fabric", "status"))),
    )
    for name in names
}
_UNCORRECTED = lazy(r"^(?:SRAM|DRAM|sram|dram)[ _](?:U|u)ncorrectable")
_BITS = ("Single Bit", "Double Bit", "double_bit")  # branches up to 410 total the errors below these
# What belongs to a heading's section goes on below these headings of its own.
_INNER = ("Bank Remap Availability Histogram", "Health")
_WAKES = (
    "Remapped Rows", "Retired Pages", "Clocks Throttle Reasons", "Clocks Event Reasons", "PCIe Generation", "GPU Recovery Action",
    "<inactive>", "Fabric\n", "ECC Errors", "remapped_rows", "gpu_recovery_action", "nvidia_smi_log", "Virtualization",
    "HW Slowdown", "HW Thermal Slowdown", "Remapping Failure", "Pending Page Blacklist", "GPU Current Temp",
)  # fmt: skip


class _Gpu:
    def __init__(self, number: int, *, address: str | None = None, index: int | None = None) -> None:
        self.values: dict[str, Any] = {"address": address, "index": index, "line": number}
        self.lines: dict[str, int] = {}
        self.reasons: dict[str, int] = {}
        self.links: list[bool] = []
        self.uncorrected: list[int] = []

    def put(self, field: str, value: Any, number: int) -> bool:
        """Keeps a value. False where this GPU has told it already: another GPU's begins."""
        if field in self.values and field not in ("address", "index", "line"):
            return self.values[field] == value and number - self.lines[field] == 1  # "Pending" and "Pending Page Blacklist"
        self.values[field] = value
        self.lines[field] = number
        return True

    def finished(self) -> GpuDetails | None:
        """The GPU, None where nothing was told of it."""
        told = dict(self.values)
        if self.links:
            told.update(nvlinks_active=sum(self.links), nvlinks_inactive=len(self.links) - sum(self.links))
        if self.uncorrected:
            told["ecc_uncorrected"] = sum(self.uncorrected)
        if not self.lines:
            return None
        return GpuDetails(**told, throttle_reasons=tuple(self.reasons), lines=self.lines)


class _Reader:
    def __init__(self) -> None:
        self.done: list[GpuDetails] = []
        self.gpu: _Gpu | None = None
        self.section = self.group = ""
        self.path: list[str] = []

    def begin(self, gpu: _Gpu | None) -> None:
        finished = self.gpu.finished() if self.gpu is not None else None
        if finished is not None:
            self.done.append(finished)
        self.gpu, self.section, self.group, self.path = gpu, "", "", []

    def take(self, number: int, line: str) -> None:
        if "<" in line and ">" in line and (self.path or "<gpu" in line or "</" in line):
            self._xml(number, line)
            return
        header = _GPU.match(line) if "GPU " in line else None
        numbered = _NUMBERED.match(line) if "UUID: GPU-" in line else None
        if header is not None:
            self.begin(_Gpu(number, address=address_of(header["address"])))
        elif numbered is not None:
            self.begin(_Gpu(number, index=int(numbered["index"])))
        elif "Link " in line and (link := _LINK.match(line)):
            self._link(link, number)
        elif ": " in line and (field := _FIELD.match(line)):
            self.field(self.section, field["name"], field["value"].strip(), number, volatile=self.group == "Volatile")
        elif heading := _HEADING.match(line):
            self._heading(heading["name"])
        elif line.strip():
            self.section = self.group = ""

    def _heading(self, name: str) -> None:
        if name not in _BITS:
            self.group = name
        if name not in _INNER:
            self.section = name

    def _link(self, link: re.Match[str], number: int) -> None:
        if self.gpu is None:
            self.gpu = _Gpu(number)
        up = "inactive" not in link["state"]
        self.gpu.links.append(up)
        self.gpu.lines.setdefault("nvlinks_active" if up else "nvlinks_inactive", number)

    def field(self, section: str, name: str, value: str, number: int, *, volatile: bool) -> None:
        """Takes in one named value; `section` is the heading or element around it."""
        found = _value(section, name, value)
        reason = _REASONS.get(name) or ((tag := _REASON_TAG.match(name)) and tag[1].replace("_", "-"))
        counted = volatile and _NUMBER.match(value) and (_UNCORRECTED.match(name) or (section in _BITS[1:] and name in ("Total", "total")))
        if found is None and not (reason and value in _ACTIVE) and not counted:
            return
        if self.gpu is None:
            self.gpu = _Gpu(number)
        if found is not None:
            if not self.gpu.put(*found, number):
                index = self.gpu.values["index"]
                self.begin(_Gpu(number, index=None if index is None else index + 1))
                self.gpu.put(*found, number)
                self.section = section
        elif reason:
            self.gpu.lines.setdefault("throttle_reasons", number)
            if value == "Active":
                self.gpu.reasons.setdefault(reason, number)
                self.gpu.lines[reason] = number
        else:
            self.gpu.uncorrected.append(int(value))
            if value != "0":
                self.gpu.lines["ecc_uncorrected"] = number
            self.gpu.lines.setdefault("ecc_uncorrected", number)

    # ------------------------------------------------------------ XML
    def _xml(self, number: int, line: str) -> None:
        for tag in _TAG.finditer(line):
            name = tag["name"]
            if tag["end"]:
                if name in self.path:
                    while self.path.pop() != name:
                        pass
            elif name == "gpu":
                self.begin(_Gpu(number, address=address_of(tag["attributes"])))
                self.path = ["gpu"]
            else:
                around = self.path[-1] if self.path else ""
                if tag["text"].strip():
                    self.field(around, name, tag["text"].strip(), number, volatile="volatile" in self.path)
                if len(self.path) < 40 and not tag["attributes"].endswith("/"):
                    self.path.append(name)


def _value(section: str, name: str, value: str) -> tuple[str, Any] | None:
    """The field that a name stands for, and its value; None where it is none of ours or says nothing."""
    field, read = _FIELDS.get(name) or _FIELDS.get((section, name)) or (None, None)
    if field is None or read is None or (value in _NOTHING and field != "recovery_action"):
        return None
    told = read(value)
    return None if told is None else (field, told)


def parse(text: Text) -> Output:
    reader = _Reader()
    for number, line in enumerate(text.plain_lines, 1):
        if line:
            reader.take(number, line)
    reader.begin(None)
    if reader.done:
        shown = sorted({place for gpu in reader.done[:8] for place in list(gpu.lines.values())[:8]})
        quotes = (text.quote(place) for place in shown[:24])
        yield text.fact(SMI_DETAILS, tuple(reader.done), *quotes, whole=False)


PARSER = Parser(
    name="nvidia_smi_details", reads=("nvidia-smi-query", "nvidia-smi-nvlink"), keys=(SMI_DETAILS.name,), parse=parse, wakes=_WAKES
)
