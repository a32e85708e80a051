"""What nvidia-smi prints besides its table: `-q`, `-q -x` (XML) and `-L`. Fields are found by name, wherever they stand."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import GpuProcess, Smi, SmiGpu
from cudadoctor.model.version import CudaVersion, ModuleVersion
from cudadoctor.parsers.nvidia_smi_table import address_of, bytes_of

BANNER = lazy(r"={8,20}NVSMI LOG={8,20}")
_FIELD = lazy(r"^\s{0,60}(?P<name>[A-Za-z][^:]{0,58}?)\s{0,60}: (?P<value>.{0,300})$")
_SECTION = lazy(r"^\s{0,60}(?P<name>[A-Za-z][\w ./()-]{1,58})$")
_GPU = lazy(r"^\s{0,20}GPU (?P<address>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])$")
_LISTED = lazy(r"^\s{0,16}GPU (?P<index>\d{1,3}): (?P<name>.{1,100}?) \(UUID: (?P<uuid>GPU-[0-9A-Fa-f-]{4,40})\)?")
_LISTED_MIG = lazy(r"^\s{0,16}MIG .{1,60}Device\s{1,6}\d{1,3}: \(UUID: (?P<uuid>MIG-[\w/-]{4,80})")
_VERSION = lazy(r"^\s{0,16}(?P<name>DRIVER version|CUDA(?: UMD)? Version)\s{1,20}: (?P<version>\d{1,4}(?:\.\d{1,4}){1,3})$")
_TAG = lazy(r"<(?P<end>/?)(?P<name>[a-zA-Z_]\w{0,80})(?P<attributes>[^<>]{0,200})>(?P<text>[^<]{0,300})")
_AMOUNT = lazy(r"^(?P<number>\d{1,12}(?:\.\d{1,3})?) (?P<unit>[MG]i?B)$")
_DEGREES = lazy(r"^(-?\d{1,4}(?:\.\d)?) C$")
_FAILED = lazy(r"^\[?(?:Unknown Error|GPU is lost|GPU requires reset|ERR!)\]?$")
_NONE = ("N/A", "[N/A]", "None", "", "Requested functionality has been deprecated")

# Field of `-q` (section, name) or element of the XML (parent, name) -> what it tells. Section None: any.
_FIELDS: dict[tuple[str | None, str], str] = {
    (None, "Product Name"): "name",
    (None, "GPU UUID"): "uuid",
    (None, "Compute Mode"): "compute_mode",
    (None, "GPU Current Temp"): "temperature_c",
    ("MIG Mode", "Current"): "mig",
    (None, "product_name"): "name",
    ("gpu", "uuid"): "uuid",
    (None, "compute_mode"): "compute_mode",
    (None, "gpu_temp"): "temperature_c",
    (None, "current_mig"): "mig",
}
_MEMORY_SECTIONS = ("FB Memory Usage", "Shared FB Memory Usage", "fb_memory_usage", "shared_fb_memory_usage")
_MEMORY_PARTS = ("total", "reserved", "used", "free")  # in this order; the first is the sum of the others, each rounded
_ROUNDING = 4 << 20
_MODULE_NAMES = ("Driver Version", "KMD Version", "driver_version", "kmd_version")
_CUDA_NAMES = ("CUDA Version", "CUDA UMD Version", "cuda_version", "cuda_umd_version")
_TOO_STRANGE = 4  # "ECC Errors", "Volatile", "Double Bit" may follow one another
_COUNT_NAMES = ("Attached GPUs", "attached_gpus")
_PROCESS_NAMES = {
    "Process ID": "pid", "pid": "pid", "Type": "kind", "type": "kind", "Name": "name", "process_name": "name",
    "Used GPU Memory": "memory", "used_memory": "memory",
}  # fmt: skip


class Log(msgspec.Struct):
    first: int
    last: int
    module: ModuleVersion | None = None
    cuda: CudaVersion | None = None
    attached: int | None = None
    gpus: list[SmiGpu] = []
    processes: list[GpuProcess] = []
    nobody: bool = False  # a list of processes was empty
    process: dict[str, str] = {}
    memory: dict[str, int] = {}  # the parts of the GPU's memory as they come
    counters: list[int] = []  # volatile uncorrected errors as they come

    def field(self, section: str, name: str, value: str, number: int, *, volatile: bool) -> None:
        """Takes in one named value; `section` is the heading or element around it."""
        value = value.strip()
        self.last = number
        if name in _MODULE_NAMES and not self.gpus:
            self.module = ModuleVersion(value) if value[:1].isdigit() else self.module
        elif name in _CUDA_NAMES and not self.gpus:
            self.cuda = CudaVersion(value) if value[:1].isdigit() else self.cuda
        elif name in _COUNT_NAMES and not self.gpus:
            self.attached = int(value) if value.isdecimal() and len(value) < 6 else None
        elif self.gpus:
            self._of_gpu(section, name, value, volatile=volatile)

    def _of_gpu(self, section: str, name: str, value: str, *, volatile: bool) -> None:
        gpu = self.gpus[-1]
        if _FAILED.match(value):
            if len(gpu.errors) < 40:
                self.gpus[-1] = msgspec.structs.replace(gpu, errors=(*gpu.errors, f"{name}: {value.strip('[]')}"))
            return
        if name in _PROCESS_NAMES and section in ("Processes", "process_info"):
            what = _PROCESS_NAMES[name]
            if what == "pid":
                self.close_process()
            self.process[what] = value
            return
        if name == "Processes":
            self.nobody = value == "None"
            return
        if section in _MEMORY_SECTIONS:
            self._of_memory(name.lower(), value)
            return
        if volatile and _uncorrected(section, name) and value.isdecimal() and len(value) < 19:
            self.counters.append(int(value))
            return
        field = _FIELDS.get((section, name)) or _FIELDS.get((None, name))
        if field is not None and value not in _NONE:
            degrees = _DEGREES.match(value) if field == "temperature_c" else None
            told = value if field != "temperature_c" else float(degrees[1]) if degrees else None
            self.gpus[-1] = msgspec.structs.replace(gpu, **{field: told})

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
        if not {"total", "used"} <= parts.keys() or self.gpus[-1].memory_total_bytes is not None:
            return
        if abs(parts["total"] - sum(parts.get(name, 0) for name in _MEMORY_PARTS[1:])) <= _ROUNDING:
            gpu = msgspec.structs.replace(self.gpus[-1], memory_total_bytes=parts["total"], memory_used_bytes=parts["used"])
            self.gpus[-1] = gpu

    def close_counters(self) -> None:
        """The volatile counters end here; without this end they could be those since the GPU was made."""
        if self.counters and self.gpus and self.gpus[-1].ecc_uncorrected is None:
            self.gpus[-1] = msgspec.structs.replace(self.gpus[-1], ecc_uncorrected=sum(self.counters))
        self.counters = []

    def next_gpu(self, gpu: SmiGpu) -> None:
        self.close_process()
        self.memory, self.counters = {}, []
        self.gpus.append(gpu)

    def close_process(self) -> None:
        pid = self.process.get("pid", "")
        if pid.isdecimal() and len(pid) < 11 and self.gpus:
            amount = _AMOUNT.match(self.process.get("memory", ""))
            self.processes.append(
                GpuProcess(
                    gpu=self.gpus[-1].address or str(len(self.gpus) - 1),
                    pid=int(pid),
                    kind=self.process.get("kind"),
                    name=self.process.get("name"),
                    memory_bytes=bytes_of(amount["number"], amount["unit"]) if amount else None,
                )
            )
        self.process = {}

    def smi(self) -> Smi:
        """The finished value. GPUs are numbered only where the log shows all of them; one of which nothing is said was cut off."""
        self.close_process()
        gpus = [gpu for gpu in self.gpus if gpu.name or gpu.uuid or gpu.address]
        if len(gpus) == self.attached:
            gpus = [msgspec.structs.replace(gpu, index=index) for index, gpu in enumerate(gpus)]
        return Smi(
            module=self.module,
            cuda=self.cuda,
            gpus=tuple(gpus),
            processes=tuple(self.processes),
            process_list=self.nobody or bool(self.processes),
        )


def _uncorrected(section: str, name: str) -> bool:
    """Counters of uncorrected errors: newer branches name them, older ones total them under "Double Bit"."""
    if section in ("Double Bit", "double_bit"):
        return name in ("Total", "total")
    return "ncorrectable" in name and section in ("Volatile", "volatile")


class _QueryReader:
    def __init__(self, number: int) -> None:
        self.log = Log(first=number, last=number)
        self.section = self.group = ""
        self.strange = 0

    def take(self, number: int, line: str) -> bool:
        """Takes in one line; False where the log has ended before it."""
        gpu = _GPU.match(line)
        if gpu is not None:
            self.log.next_gpu(SmiGpu(address=address_of(gpu["address"]), line=number))
            self.section, self.group, self.strange = "", "", 0
            return True
        field = _FIELD.match(line)
        if field is not None:
            self.log.field(self.section, field["name"], field["value"], number, volatile=self.group == "Volatile")
            self.strange = 0
            return True
        heading = _SECTION.match(line)
        if heading is None:  # a prompt or prose
            return False
        self._heading(heading["name"].strip())
        # One heading at the margin is due to lost indentation; several on end are another text.
        self.strange = self.strange + 1 if line[:1] not in " \t" else 0
        return self.strange < _TOO_STRANGE

    def _heading(self, name: str) -> None:
        self.section = name
        if name == "Aggregate":
            self.log.close_counters()
        if name in ("Volatile", "Aggregate", "ECC Errors"):
            self.group = name


def logs(lines: list[str]) -> Iterator[tuple[Smi, int, int]]:
    """Every `nvidia-smi -q` of the text, with its first and last line."""
    reader: _QueryReader | None = None
    for number, line in enumerate(lines, 1):
        begins = "NVSMI LOG" in line and BANNER.search(line) is not None
        if reader is not None and line.strip() and (begins or not reader.take(number, line)):
            yield reader.log.smi(), reader.log.first, reader.log.last
            reader = None
        if begins:
            reader = _QueryReader(number)
    if reader is not None:
        yield reader.log.smi(), reader.log.first, reader.log.last


def documents(lines: list[str]) -> Iterator[tuple[Smi, int, int]]:
    """Every `nvidia-smi -q -x` of the text. A cut document counts as far as it goes."""
    log: Log | None = None
    path: list[str] = []
    for number, line in enumerate(lines, 1):
        if "<" not in line:
            continue
        for tag in _TAG.finditer(line):
            name = tag["name"]
            if name == "nvidia_smi_log":
                if log is not None:
                    yield log.smi(), log.first, number
                log, path = (None if tag["end"] else Log(first=number, last=number)), []
            elif log is None:
                continue
            elif tag["end"]:
                _close(log, path, name)
            else:
                _open(log, path, tag, number)
    if log is not None:
        yield log.smi(), log.first, log.last


def _open(log: Log, path: list[str], tag: re.Match[str], number: int) -> None:
    name = tag["name"]
    if name == "gpu":
        log.next_gpu(SmiGpu(address=address_of(tag["attributes"]), line=number))
        path.clear()
    elif name == "process_info":
        log.close_process()
    elif tag["text"].strip():
        log.field(path[-1] if path else "", name, tag["text"], number, volatile="volatile" in path)
    if len(path) < 40 and not tag["attributes"].endswith("/"):
        path.append(name)


def _close(log: Log, path: list[str], name: str) -> None:
    if name == "volatile":
        log.close_counters()
    if name in path:
        while path.pop() != name:
            pass


def versions(lines: list[str]) -> Iterator[tuple[Smi, int, int]]:
    """`nvidia-smi --version`: a line each for the program, NVML, the driver and its CUDA."""
    for number, line in enumerate(lines, 1):
        driver = _VERSION.match(line) if "DRIVER version" in line else None
        cuda = _VERSION.match(lines[number]) if driver is not None and number < len(lines) else None
        if driver is not None:
            named = cuda is not None and cuda["name"] in _CUDA_NAMES
            newest = CudaVersion(cuda["version"]) if cuda is not None and named else None
            yield Smi(module=ModuleVersion(driver["version"]), cuda=newest), number, number + named


def lists(lines: list[str]) -> Iterator[tuple[Smi, int, int]]:
    """Every run of lines of `nvidia-smi -L`."""
    gpus: list[SmiGpu] = []
    last = 0
    for number, line in enumerate(lines, 1):
        found = _LISTED.match(line) if "UUID: GPU-" in line else None
        instance = _LISTED_MIG.match(line) if gpus and found is None else None
        if gpus and instance is None and (found is None or int(found["index"]) <= (gpus[-1].index or 0)):
            yield Smi(gpus=tuple(gpus)), gpus[0].line, last
            gpus = []
        if found is not None:
            gpus.append(SmiGpu(index=int(found["index"]), name=found["name"], uuid=found["uuid"], line=number))
        elif instance is not None:
            gpus[-1] = msgspec.structs.replace(gpus[-1], mig_uuids=(*gpus[-1].mig_uuids, instance["uuid"]))
        last = number if gpus else last
    if gpus:
        yield Smi(gpus=tuple(gpus)), gpus[0].line, last
