"""What `nvidia-smi -q` prints (whole, `-d ...`, one section cut out), `-q -x` (XML) and `nvlink -s`.

Fields are known by their own name, wherever they stand; those whose name several sections have count only below their section's heading.
History (aggregate counters, the time spent with low clocks) is left alone: it says nothing of now.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import SMI_DETAILS, GpuDetails, GpuProcess, Smi, SmiGpu
from cudadoctor.model.version import CudaVersion, ModuleVersion
from cudadoctor.parsers.base import Output, Text, parser
from cudadoctor.parsers.nvidia_smi_lists import LISTED
from cudadoctor.parsers.nvidia_smi_table import address_of, bytes_of

BANNER = lazy(r"={8,20}NVSMI LOG={8,20}")
_FIELD = lazy(r"^\s{0,60}(?P<name>[A-Za-z][^:<>]{0,58}?)\s{0,60}: (?P<value>.{0,300})$")
_HEADING = lazy(r"^\s{0,60}(?P<name>[A-Za-z][\w ./()-]{1,58})$")
_GPU = lazy(r"^\s{0,20}GPU (?P<address>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])$")
_LINK = lazy(r"^\s{0,20}Link (?P<link>\d{1,2}): (?P<state><inactive>|inactive|[\d.]{1,8} GB/s)$")
_TAG = lazy(r"<(?P<end>/?)(?P<name>[a-zA-Z_]\w{0,80})(?P<attributes>[^<>]{0,200})>(?P<text>[^<]{0,300})")
_AMOUNT = lazy(r"^(?P<number>\d{1,12}(?:\.\d{1,3})?) (?P<unit>[MG]i?B)$")
_FAILED = lazy(r"^\[?(?:Unknown Error|GPU is lost|GPU requires reset|ERR!)\]?$")
_NUMBER = lazy(r"^\d{1,18}$")
_NOTHING = ("N/A", "[N/A]", "None", "", "Requested functionality has been deprecated")
_REMARK = "  "  # what people write behind a value begins so

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


_truth = {"Yes": True, "No": False}.get
_generation, _width = _part(r"^(\d{1,2})$"), _part(r"^(\d{1,2})x$")
_degrees = _part(r"^(-?\d{1,4}(?:\.\d)?) C$", float)
# What is told, how it is read, and the names of its field and element: with the heading or element around it where others have that name.
_FIELDS: dict[str | tuple[str, str], tuple[str, Callable[[str], Any]]] = {
    name: (field, read)
    for field, read, names in (
        ("name", str, ("Product Name", "product_name")),
        ("uuid", str, ("GPU UUID", ("gpu", "uuid"))),
        ("compute_mode", str, ("Compute Mode", "compute_mode")),
        ("mig", str, (("MIG Mode", "Current"), "current_mig")),
        ("remap_failed", _truth, ("Remapping Failure Occurred", "remapped_row_failure")),
        ("remap_pending", _truth, (("Remapped Rows", "Pending"), "remapped_row_pending")),
        (
            "retired_pages_pending",
            _truth,
            (("Retired Pages", "Pending"), "Pending Page Blacklist", "pending_blacklist", "pending_retirement"),
        ),
        ("recovery_action", lambda value: _ACTIONS.get(value.lower(), value.lower()), ("GPU Recovery Action", "gpu_recovery_action")),
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
        ("fabric_state", lambda value: value.lower().replace(" ", "-"), (("Fabric", "State"), ("fabric", "state"))),
        ("fabric_status", lambda value: value.lower().replace(" ", "-"), (("Fabric", "Status"), ("fabric", "status"))),
    )
    for name in names
}
_OF_LOG = ("name", "uuid", "compute_mode", "mig", "temperature_c")  # which of them an Smi tells too, or alone
_UNCORRECTED = lazy(r"^(?:SRAM|DRAM|sram|dram)[ _](?:U|u)ncorrectable")
_BITS = ("Single Bit", "Double Bit", "double_bit")  # branches up to 410 total the errors below these
# What belongs to a heading's section goes on below these headings of its own.
_INNER = ("Bank Remap Availability Histogram", "Health")
_MEMORY_SECTIONS = ("FB Memory Usage", "Shared FB Memory Usage", "fb_memory_usage", "shared_fb_memory_usage")
_MEMORY_PARTS = ("total", "reserved", "used", "free")  # in this order; the first is the sum of the others, each rounded
_ROUNDING = 4 << 20
_MODULE_NAMES = ("Driver Version", "KMD Version", "driver_version", "kmd_version")
_CUDA_NAMES = ("CUDA Version", "CUDA UMD Version", "cuda_version", "cuda_umd_version")
_COUNT_NAMES = ("Attached GPUs", "attached_gpus")
_MOST_GPUS = 1024  # far more than a driver counts
_TOO_STRANGE = 4  # "ECC Errors", "Volatile", "Double Bit" may follow one another
_PROCESS_NAMES = {
    "Process ID": "pid", "pid": "pid", "Type": "kind", "type": "kind", "Name": "name", "process_name": "name",
    "Used GPU Memory": "memory", "used_memory": "memory",
}  # fmt: skip


class _Gpu:
    """What is told of one GPU: `said` for the log as a whole, `values` of its health, each with its line."""

    def __init__(self, number: int, *, address: str | None = None, index: int | None = None) -> None:
        self.line, self.address, self.index = number, address, index
        self.said: dict[str, Any] = {}
        self.errors: list[str] = []
        self.processes: list[dict[str, str]] = []
        self.memory: dict[str, int] = {}  # its parts as they come
        self.values: dict[str, Any] = {}
        self.lines: dict[str, int] = {}
        self.reasons: list[str] = []
        self.links: list[bool] = []
        self.uncorrected: list[int] = []  # volatile counters as they come

    def take(self, section: str, name: str, value: str) -> None:
        """One named value, as far as a log as a whole tells it."""
        field, told = _value(section, name, value)
        if _FAILED.match(value):
            self.errors += [f"{name}: {value.strip('[]')}"] if len(self.errors) < 40 else ()
        elif name in _PROCESS_NAMES and section in ("Processes", "process_info"):
            if _PROCESS_NAMES[name] == "pid":
                self.processes.append({})
            if self.processes:
                self.processes[-1].setdefault(_PROCESS_NAMES[name], value)
        elif section in _MEMORY_SECTIONS:
            self._of_memory(name.lower(), value)
        elif field in _OF_LOG:
            self.said[field] = told

    def _of_memory(self, part: str, value: str) -> None:
        """Memory counts once its parts add up: the heading of the next section, which has parts of the same names, may be lost."""
        amount = _AMOUNT.match(value)
        size = bytes_of(amount["number"], amount["unit"]) if amount else None
        if part == "total":
            self.memory = {}
        if size is None or part not in _MEMORY_PARTS:
            return
        self.memory[part] = size
        if part != "free":
            return
        parts, self.memory = self.memory, {}
        if not {"total", "used"} <= parts.keys() or "memory_total_bytes" in self.said:
            return
        if abs(parts["total"] - sum(parts.get(name, 0) for name in _MEMORY_PARTS[1:])) <= _ROUNDING:
            self.said |= {"memory_total_bytes": parts["total"], "memory_used_bytes": parts["used"]}

    def close_counters(self) -> None:
        """The volatile counters end here; without this end they could be those since the GPU was made."""
        if self.uncorrected:
            self.said.setdefault("ecc_uncorrected", sum(self.uncorrected))

    def put(self, field: str, value: Any, number: int) -> bool:
        """Keeps a value. False where this GPU has told it already: another GPU's begins."""
        if field in self.values:
            return self.values[field] == value and number - self.lines[field] == 1  # "Pending" and "Pending Page Blacklist"
        self.values[field], self.lines[field] = value, number
        return True

    # ------------------------------------------------------------ the finished values
    def details(self) -> GpuDetails:
        told = dict(self.values)
        if self.links:
            told.update(nvlinks_active=sum(self.links), nvlinks_inactive=len(self.links) - sum(self.links))
        if self.uncorrected:
            told["ecc_uncorrected"] = sum(self.uncorrected)
        told |= {"throttle_reasons": tuple(dict.fromkeys(self.reasons)), "lines": self.lines}
        return GpuDetails(address=self.address, index=self.index, line=self.line, **told)

    def smi(self, index: int | None) -> SmiGpu:
        return SmiGpu(index=index, address=self.address, errors=tuple(self.errors), line=self.line, **self.said)

    def running(self, number: int) -> Iterator[GpuProcess]:
        for process in self.processes:
            amount, pid = _AMOUNT.match(process.get("memory", "")), process["pid"]
            if pid.isdecimal() and len(pid) < 11:
                yield GpuProcess(
                    gpu=self.address or str(number),
                    pid=int(pid),
                    kind=process.get("kind"),
                    name=process.get("name"),
                    memory_bytes=bytes_of(amount["number"], amount["unit"]) if amount else None,
                )


class _Reader:
    """Walks down the lines. `whole`: of one log, which names each GPU; of other texts each may be a part that names none."""

    def __init__(self, number: int = 1, *, whole: bool = False) -> None:
        self.first = self.last = number
        self.whole = whole
        self.head: dict[str, Any] = {}
        self.gpus: list[_Gpu] = []
        self.nobody = False  # a list of processes was empty
        self.section = self.group = ""
        self.path: list[str] = []
        self.strange = 0  # headings at the margin on end

    def _begin(self, gpu: _Gpu, section: str = "", group: str = "") -> _Gpu:
        """Where nothing but a field names the GPU, that field's section goes on. Beyond what a machine has, the last takes the place."""
        self.gpus[_MOST_GPUS:] = [gpu]
        self.section, self.group, self.path, self.strange = section, group, [], 0
        return gpu

    def take(self, number: int, line: str) -> bool:
        """Takes in one line; False where it is none of nvidia-smi's."""
        gpu = _GPU.match(line) if "GPU " in line else None
        listed = LISTED.match(line) if "UUID: GPU-" in line else None
        link = _LINK.match(line) if "Link " in line else None
        field = _FIELD.match(line) if ": " in line else None
        if gpu is not None:
            self._begin(_Gpu(number, address=address_of(gpu["address"])))
        elif listed is not None:
            self._begin(_Gpu(number, index=int(listed["index"])))
        elif link is not None:
            up, linked = "inactive" not in link["state"], self.gpus[-1] if self.gpus else self._begin(_Gpu(number))
            linked.links.append(up)
            linked.lines.setdefault("nvlinks_active" if up else "nvlinks_inactive", number)
        elif field is not None:
            self.field(self.section, field["name"], field["value"].strip(), number, volatile=self.group == "Volatile")
            self.strange = 0
        elif heading := _HEADING.match(line):
            self._heading(heading["name"].strip())
            # One heading at the margin is due to lost indentation; several on end are another text.
            self.strange = self.strange + 1 if line[:1] not in " \t" else 0
            return self.strange < _TOO_STRANGE
        elif line.strip():  # a prompt or prose
            self.section = self.group = ""
            return False
        return True

    def _heading(self, name: str) -> None:
        if name == "Aggregate" and self.gpus:
            self.gpus[-1].close_counters()
        if name not in _BITS:
            self.group = name
        if name not in _INNER:
            self.section = name

    def tag(self, tag: re.Match[str], number: int) -> None:
        """Takes in one element of XML."""
        name, text = tag["name"], tag["text"].strip()
        if tag["end"]:
            if name == "volatile" and self.gpus:
                self.gpus[-1].close_counters()
            if name in self.path:
                while self.path.pop() != name:
                    pass
            return
        if name == "gpu":
            self._begin(_Gpu(number, address=address_of(tag["attributes"])))
        elif text:
            self.field(self.path[-1] if self.path else "", name, text, number, volatile="volatile" in self.path)
        if len(self.path) < 40 and not tag["attributes"].endswith("/"):
            self.path.append(name)

    def field(self, section: str, name: str, value: str, number: int, *, volatile: bool) -> None:
        """Takes in one named value; `section` is the heading or element around it."""
        self.last = number
        if self.gpus:
            self.gpus[-1].take(section, name, value)
        elif name in _MODULE_NAMES and value[:1].isdigit():
            self.head["module"] = ModuleVersion(value)
        elif name in _CUDA_NAMES and value[:1].isdigit():
            self.head["cuda"] = CudaVersion(value)
        elif name in _COUNT_NAMES:
            self.head["attached"] = value
        self.nobody = value == "None" if name == "Processes" and self.gpus else self.nobody
        self._health(section, name, value.partition(_REMARK)[0], number, volatile=volatile)

    def _health(self, section: str, name: str, value: str, number: int, *, volatile: bool) -> None:
        field, told = _value(section, name, value)
        reason = _REASONS.get(name) or ((tag := _REASON_TAG.match(name)) and tag[1].replace("_", "-"))
        counted = volatile and _NUMBER.match(value) and (_UNCORRECTED.match(name) or (section in _BITS[1:] and name in ("Total", "total")))
        stated = told is not None and field in GpuDetails.__struct_fields__
        if not stated and not (reason and value in ("Active", "Not Active")) and not counted:
            return
        gpu = self.gpus[-1] if self.gpus else self._begin(_Gpu(number), section, self.group)
        if stated:
            if not gpu.put(field, told, number) and not self.whole:
                index = None if gpu.index is None else gpu.index + 1
                self._begin(_Gpu(number, index=index), section, self.group).put(field, told, number)
        elif reason:
            gpu.lines.setdefault("throttle_reasons", number)
            if value == "Active":
                gpu.reasons.append(reason)
                gpu.lines[reason] = number
        else:
            gpu.uncorrected.append(int(value))
            gpu.lines["ecc_uncorrected"] = number if int(value) else gpu.lines.get("ecc_uncorrected", number)

    def smi(self) -> Smi:
        """The finished value. GPUs are numbered only where the log shows all of them; one of which nothing is said was cut off."""
        gpus = [gpu for gpu in self.gpus if gpu.address or gpu.said.keys() & {"name", "uuid"}]
        all_there = self.head.get("attached") == str(len(gpus))
        processes = tuple(process for number, gpu in enumerate(self.gpus) for process in gpu.running(number))
        return Smi(
            module=self.head.get("module"),
            cuda=self.head.get("cuda"),
            gpus=tuple(gpu.smi(index if all_there else None) for index, gpu in enumerate(gpus)),
            processes=processes,
            process_list=self.nobody or bool(processes),
        )


def _value(section: str, name: str, value: str) -> tuple[str, Any]:
    """The field that a name stands for, and its value; None where it is none of ours or says nothing."""
    field, read = _FIELDS.get(name) or _FIELDS.get((section, name)) or ("", str)
    return (field, read(value)) if field and (value not in _NOTHING or field == "recovery_action") else ("", None)


def logs(lines: list[str]) -> Iterator[tuple[Smi, int, int]]:
    """Every `nvidia-smi -q` of the text, with its first and last line."""
    reader: _Reader | None = None
    for number, line in enumerate(lines, 1):
        begins = "NVSMI LOG" in line and BANNER.search(line) is not None
        if reader is not None and line.strip() and (begins or not reader.take(number, line)):
            yield reader.smi(), reader.first, reader.last
            reader = None
        if begins:
            reader = _Reader(number, whole=True)
    if reader is not None:
        yield reader.smi(), reader.first, reader.last


def documents(lines: list[str]) -> Iterator[tuple[Smi, int, int]]:
    """Every `nvidia-smi -q -x` of the text. A cut document counts as far as it goes."""
    reader: _Reader | None = None
    for number, line in enumerate(lines, 1):
        for tag in _TAG.finditer(line) if "<" in line else ():
            if tag["name"] == "nvidia_smi_log":
                if reader is not None:
                    yield reader.smi(), reader.first, number
                reader = None if tag["end"] else _Reader(number, whole=True)
            elif reader is not None:
                reader.tag(tag, number)
    if reader is not None:
        yield reader.smi(), reader.first, reader.last


def parse(text: Text) -> Output:
    """The health of each GPU, from whatever parts of such output the text shows."""
    reader = _Reader()
    for number, line in enumerate(text.plain_lines, 1):
        if "<" in line and ">" in line and (reader.path or "<gpu" in line or "</" in line):
            for tag in _TAG.finditer(line):
                reader.tag(tag, number)
        elif line:
            reader.take(number, line)
    found = tuple(gpu.details() for gpu in reader.gpus if gpu.lines)
    if found:
        shown = sorted({place for gpu in found[:8] for place in list(gpu.lines.values())[:8]})
        yield text.fact(SMI_DETAILS, found, *(text.quote(place) for place in shown[:24]), whole=False)


PARSER = parser(
    "nvidia_smi_details", parse, SMI_DETAILS, reads=("nvidia-smi-query", "nvidia-smi-nvlink"),
    wakes=(
        "Remapped Rows", "Retired Pages", "Clocks Throttle Reasons", "Clocks Event Reasons", "PCIe Generation", "GPU Recovery Action",
        "<inactive>", "    Fabric", "ECC Errors", "remapped_rows", "gpu_recovery_action", "nvidia_smi_log", "Virtualization",
        "HW Slowdown", "HW Thermal Slowdown", "Remapping Failure", "Pending Page Blacklist", "GPU Current Temp",
    ),
)  # fmt: skip
