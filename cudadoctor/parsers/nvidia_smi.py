"""Everything nvidia-smi prints: its table, `-q`, XML, `-L`, `--version`, its failures, and a shell that does not find it.

A text may show several runs. Each is a fact of its own: failed ones first, and of those the last first, so that the one that a
user complains of is the first known.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from cudadoctor.model.facts import Fact
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import SMI, GpuProcess, Smi, SmiGpu
from cudadoctor.model.values.driver import UNFIT
from cudadoctor.model.version import CudaVersion, LibraryVersion, ModuleVersion
from cudadoctor.parsers import nvidia_smi_lists as lists
from cudadoctor.parsers import nvidia_smi_query as query
from cudadoctor.parsers import nvidia_smi_table as table
from cudadoctor.parsers.base import Output, Text, parser
from cudadoctor.parsers.shell import exit_code, is_prompt, not_found

_STATEMENTS = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver",
    "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system",
    "Mismatch in versions between nvidia-smi and NVML",
    "Failed to initialize NVML: Driver/library version mismatch",
    "Failed to initialize NVML: Unknown Error",
    "Failed to initialize NVML: GPU access blocked by the operating system",
    "Failed to initialize NVML: Insufficient Permissions",
    "Failed to initialize NVML: Driver Not Loaded",
    "Failed to initialize NVML: No supported GPUs were found",
    "Failed to initialize NVML: GPU is lost",
    "Failed to initialize NVML: RM has detected an NVML/RM version mismatch",
)
_ANCHORED = lazy(
    r"^(?P<said>No devices were found(?:\. Please make sure /dev/nvidia\* files are readable by current user)?|No devices found\.?$"
    r"|Unable to determine the device handle for (?:GPU|gpu).{0,160}"
    r"|GPU is lost\.\s{1,4}Reboot the system.{0,60}|Failed to initialize NVML: .{1,120})"
)
_HANDLE = lazy(
    r"device handle for (?:GPU|gpu) ?(?:(?P<index>\d{1,2})(?=: |:?$))?[: ]{0,3}"
    r"(?P<address>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)?"
)
_NVML_LIBRARY = lazy(r"^NVML library version: (\d{1,4}(?:\.\d{1,4}){1,3})")
_EXIT_WORDS = lazy(r"(?:exit(?:ed)?|returned|rc)\b[ \w]{0,30}?[ :=]{1,3}(\d{1,3})\b")
_NOT_FOUND = not_found("nvidia-smi")
_OF_MESSAGES = ("NVIDIA-SMI", "NVML", "evice", "GPU is lost")
_LEAD = " \t>#*`\"'"
_FORMS = (("NVSMI LOG", query.logs), ("nvidia_smi_log", query.documents), ("UUID: GPU-", lists.lists),
          ("DRIVER version", lists.versions))  # fmt: skip
_NEAR = 3  # lines within which messages belong to one run
_BEFORE = 6  # lines that may stand between a complaint about one GPU and the table of the others

_Found = tuple[Smi, list[tuple[int, int]], int]  # what a run said, the lines to quote, its first line


class Run(msgspec.Struct):
    first: int
    last: int
    library: LibraryVersion | None = None
    module: ModuleVersion | None = None
    cuda: CudaVersion | None = None
    rows: list[table.Row] = []
    lost: list[SmiGpu] = []  # GPUs named only by a message
    processes: list[GpuProcess] = []
    process_list: bool = False
    failure: str | None = None
    lines: list[tuple[int, int]] = []  # what to quote

    def smi(self, exit_status: int | None) -> Smi:
        return Smi(
            library=self.library,
            module=self.module,
            cuda=self.cuda,
            gpus=tuple(sorted((*(row.gpu for row in self.rows), *self.lost), key=lambda gpu: 1 << 10 if gpu.index is None else gpu.index)),
            processes=tuple(self.processes),
            process_list=self.process_list,
            failure=self.failure,
            exit=exit_status,
        )


def parse(text: Text) -> Output:
    """Every run that the text shows. The output of nvidia-smi itself that is none of its known forms is said to be not recognised."""
    lines = text.plain_lines
    found = [(run.smi(_exit(text, lines, run.last)), run.lines, run.first) for run in _runs(lines)]
    for literal, form in _FORMS:
        for smi, first, last in form(lines) if literal in text.text else ():
            numbers = (first, *(gpu.line for gpu in smi.gpus if gpu.line != first))
            found.append((msgspec.structs.replace(smi, exit=_exit(text, lines, last)), [(number, number) for number in numbers], first))
    found = _joined(found)
    found.sort(key=lambda entry: (not _failed(entry[0]), entry[0].module is None, -entry[2]))
    for smi, shown, _ in found:
        quotes = (text.quote(first, last) for first, last in shown)
        yield text.fact(SMI, smi, *quotes, whole=text.whole and smi.failure is None)
    missing = list(_missing(text))
    yield from missing
    if not found and not missing and not text.pasted:
        yield _not_recognised(text)


def _joined(found: list[_Found]) -> list[_Found]:
    """A list of GPUs (-L) says no versions and --version no GPUs: the two are one answer."""
    said = next((entry for entry in found if entry[0].module is not None and not entry[0].gpus and entry[0].failure is None), None)
    lists = [entry for entry in found if entry[0].gpus and entry[0].module is None and entry[0].failure is None]
    if said is None or not lists:
        return found
    versions = {"module": said[0].module, "cuda": said[0].cuda}
    joined = [(msgspec.structs.replace(smi, **versions), lines + said[1], first) for smi, lines, first in lists]
    return [entry for entry in found if entry is not said and entry not in lists] + joined


def _failed(smi: Smi) -> bool:
    return smi.failure is not None or any(gpu.errors for gpu in smi.gpus)


def _not_recognised(text: Text) -> Fact[Smi]:
    number = next((index for index, line in enumerate(text.lines, 1) if line.strip()), None)
    quote = text.absent("nvidia-smi printed nothing") if number is None else text.quote(number)
    return text.fact(SMI, Smi(recognised=False, exit=_exit(text, [], 0)), quote, whole=False)


def _missing(text: Text) -> Iterator[Fact[Smi]]:
    """A shell that found no nvidia-smi, or one that is no program of this machine."""
    if "nvidia-smi" not in text.text:
        return
    for number, line in enumerate(text.lines, 1):
        if "nvidia-smi" in line and len(line) < 400 and (_NOT_FOUND.search(line) or UNFIT in line):
            yield text.fact(SMI, None, text.quote(number), whole=False)


def _exit(text: Text, lines: list[str], last: int) -> int | None:
    """The exit status: the item's own, or what the pasted lines below the run tell."""
    if not text.pasted:
        return text.item.exit if text.item is not None else None
    told = exit_code(lines, last)
    if told is not None:
        return told
    for line in lines[last : last + _NEAR]:
        found = _EXIT_WORDS.search(line) if len(line) < 200 else None
        if found is not None and int(found[1]) < 256:
            return int(found[1])
    return None


def message(line: str) -> str | None:
    """The failure that this line states, in nvidia-smi's words; None for any other line."""
    if len(line) > 2000:
        return None
    plain = line.replace("’", "'") if "’" in line else line
    stated = next((statement for statement in _STATEMENTS if statement in plain), None)
    if stated is not None:
        return stated
    found = _ANCHORED.match(plain.strip(_LEAD))
    return found["said"].rstrip(_LEAD) if found else None


def _runs(lines: list[str]) -> list[Run]:
    reader = _Reader()
    for number, line in table.unwrap(lines):
        reader.take(number, line)
    return [run for run in reader.runs if run.failure or run.rows or run.module or run.library]


class _Reader:
    """Walks down the lines once, and knows which run and which GPU they belong to."""

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.row: table.Row | None = None
        self.processes = False
        self.open = False  # a further message would belong to the last run

    def take(self, number: int, line: str) -> None:
        if (versions := table.versions(line)) is not None:
            self._header(number, versions)
        elif "|" in line and (row := table.cells(line)) is not None:
            self._table_line(number, row)
        elif "+--" in line and line.lstrip(_LEAD).startswith("+--"):
            self.row = None
        elif any(word in line for word in _OF_MESSAGES) and (said := message(line)) is not None:
            self._message(number, said)
        elif "NVML library" in line and (library := _NVML_LIBRARY.match(line.strip(_LEAD))) is not None:
            if self.runs and number - self.runs[-1].last <= _NEAR:
                self.runs[-1].library = LibraryVersion(library[1])
                self._show(number)
        elif self.open and is_prompt(line):
            self.open = False

    def _start(self, number: int) -> Run:
        run = Run(first=number, last=number)
        self.runs.append(run)
        self.row, self.processes, self.open = None, False, False
        return run

    def _show(self, number: int) -> None:
        """The line is to be quoted for the last run."""
        self.runs[-1].lines.append((number, number))
        self.runs[-1].last = number

    def _header(self, number: int, versions: tuple[LibraryVersion | None, ModuleVersion | None, CudaVersion | None]) -> None:
        before = self.runs[-1] if self.runs else None
        run = self._start(number)
        run.library, run.module, run.cuda = versions
        # One GPU could not be opened, the others are in the table below.
        if before is not None and before.lost and not before.rows and number - before.last <= _BEFORE:
            self.runs.remove(before)
            run.lost, run.first, run.lines = before.lost, before.first, before.lines
        self._show(number)

    def _table_line(self, number: int, cells: list[str]) -> None:
        if "Processes:" in cells[0]:
            self.processes, self.row = True, None
            if self.runs:
                self.runs[-1].process_list = True
            return
        if self.processes and self.runs:
            process = table.process_line(cells)
            if process is not None:
                self.runs[-1].processes.append(process)
                self._show(number)
                return
        first = table.first_line(cells, number) if len(cells) > 1 else None
        if first is not None:
            run = self.runs[-1] if self.runs else None
            if run is None or run.failure is not None or self.processes or any(row.gpu.address == first.gpu.address for row in run.rows):
                run = self._start(number)
            run.rows.append(first)
            self._show(number)
            self.row, self.processes = first, False
        elif self.row is not None:
            table.further_line(self.row, cells, number)
            run = self.runs[-1]
            if self.row.last == number:
                run.lines[-1] = (run.lines[-1][0], number)
                run.last = number

    def _message(self, number: int, said: str) -> None:
        run = self.runs[-1] if self.runs and self.open and number - self.runs[-1].last <= _NEAR else None
        if run is None:
            run = self._start(number)
        run.failure = run.failure or said
        self._show(number)
        self.open, self.row = True, None
        handle = _HANDLE.search(said)
        if handle is not None:
            index = handle["index"]
            address = table.address_of(handle["address"] or "")
            run.lost.append(SmiGpu(index=int(index) if index else None, address=address, errors=(said,), line=number))


PARSER = parser(
    "nvidia_smi", parse, SMI, reads=("nvidia-smi", "nvidia-smi-query"), absent=True, reads_stderr=True,
    wakes=(
        "NVIDIA-SMI", "nvidia-smi", "Failed to initialize NVML", "No devices were found", "Unable to determine the device handle",
        "nvidia_smi_log", "NVSMI LOG", "(UUID: GPU-", "ERR! |", "running processes found",
    ),
)  # fmt: skip
