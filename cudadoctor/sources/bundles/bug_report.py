"""NVIDIA's nvidia-bug-report.log, of all its versions: cut at its own marks into the items that live probes give.

A section begins with a line of 44 underscores. A file is headed by `*** /path` (before 2011 by the path alone), its listing and its
content; or by `*** /path does not exist`. A command is headed by its command line, `dmesg:` among them; several may share a section.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from cudadoctor.model.evidence import Evidence, Item
from cudadoctor.sources.bundles import items
from cudadoctor.sources.decoding import NARROWED

NAME = "nvidia-bug-report"
MARK = "_" * 44
START = "Start of NVIDIA bug report log file"
MOST = 10_000  # commands and files that are read; a report has some hundreds
_HEAD = 64 << 10  # bytes within which a report shows that it is one
_FILE = re.compile(r"^(?:\*\*\* )?(?P<path>/[^\s:]+)(?P<gone> does not exist| is not readable)?$")
_LISTING = re.compile(r"^\*\*\* ls: ")
_COMMAND = re.compile(r"^(?:/\S*/)?(?P<program>nvidia-smi|lspci|modinfo|lsmod|dmesg|nvcc|uname)(?P<rest>(?: .*)?):?$", re.MULTILINE)
_SKIPPED = re.compile(r"^Skipping:? (?P<what>.{1,80}?) output\b(?: \((?P<why>[^)]*)\))?")
_BY_SYSFS = "PCI devices configuration space dump using sysfs"
_SCANNED = "Scanning kernel log files for NVIDIA kernel messages:"
_JOURNAL = re.compile(r"^ {2,16}journalctl -b -0: {0,16}$", re.MULTILINE)
_OTHER_LOG = re.compile(r"^  .*:$", re.MULTILINE)
_FILES = {
    "/proc/modules": "modules",
    "/proc/version": "proc-version",
    "/proc/driver/nvidia/version": "driver-version",
    "/etc/os-release": "os-release",
    "/etc/issue": "issue",
    "/etc/nv_tegra_release": "tegra",
}
_ABSENT = ("driver-version",)  # of which "does not exist" is knowledge about the driver; a sandbox may hide the others


_EMPTY = re.compile(r"\n*")
_AGAIN = re.compile(rf"^{MARK}\s{{1,8}}{START}", re.MULTILINE)


class Section(NamedTuple):
    """What stands between two marks: its first line, and the rest."""

    title: str
    body: str


def is_report(content: bytes) -> bool:
    return START in items.text_of(content[:_HEAD])


def evidence(content: bytes, remarks: tuple[str, ...] = (), node: str | None = None, most: int = NARROWED) -> Evidence:
    found: dict[str, Item] = {}
    ranks: dict[str, tuple[bool, int, bool, bool]] = {}
    others: list[Item] = []
    text = items.text_of(content, most)
    again = _AGAIN.search(text, text.find(START) + 1)
    if again is not None:
        text = text[: again.start()]
        remarks = (*remarks, "Another report follows in the same file and was not read: give each as a file of its own.")
    pieces = (item for section in sections(text) for item in _of_section(section))
    for item in islice(pieces, MOST):
        rank = _rank(item)  # of a large one it costs time
        if item.id in ranks:
            others.append(found[item.id] if rank < ranks[item.id] else item)
        if item.id not in ranks or rank < ranks[item.id]:
            found[item.id], ranks[item.id] = item, rank
    # Debian's module is called nvidia-current, so that `modinfo nvidia` finds none there and proves nothing.
    may_be_debian = "uname" not in found or re.search(r"[-+](?:amd64|arm64|deb\d\d)", found["uname"].stdout or "") is not None
    if "modinfo" in found and may_be_debian and not (found["modinfo"].stdout or "").strip():
        del found["modinfo"]
    if "End of NVIDIA bug report log file" not in text[-_HEAD:]:
        remarks = (*remarks, "The report has no end: nvidia-bug-report.sh hung or was ended, or the file was cut.")
    if next(pieces, None) is not None:
        remarks = (*remarks, f"Only the first {MOST} commands and files of the report were read.")
    if "kernel-log" in found:
        found["kernel-log"] = items.merged([found["kernel-log"], *(one for one in others if one.id == "kernel-log")])
    return Evidence(
        items=(*found.values(), *items.contradicting(found.values(), others)), origin="recording", bundle=NAME, node=node, remarks=remarks
    )


def _rank(item: Item) -> tuple[bool, int, bool, bool]:
    """Of two pieces of the same evidence the lower one says more: the whole of it, or what is there at all."""
    output = item.stdout or ""
    return item.excerpt, {"ok": 0, "failed": 1}.get(item.status, 2), not output.strip(), "Kernel driver in use" not in output


# ---------------------------------------------------------------- sections
def sections(text: str) -> Iterator[Section]:
    """The report's sections. Marks in a Markdown quotation count too; what is quoted as base64 has none."""
    text = text.replace("\r\n", "\n") if "\r\n" in text else text
    at = 0 if text.startswith(MARK) else text.find(f"\n{MARK}") + 1
    while at < len(text):
        begin = text.find("\n", at)
        if begin < 0:
            return
        end = text.find(f"\n{MARK}", begin)
        end = len(text) if end < 0 else end
        begin = _EMPTY.match(text, begin, end).end()  # type: ignore[union-attr]
        line = text.find("\n", begin, end)
        yield Section(text[begin : line if line >= 0 else end].rstrip(), text[line + 1 : end] if line >= 0 else "")
        at = end + 1


def _of_section(section: Section) -> Iterator[Item]:
    title = section.title
    if title.startswith(START.partition(" log")[0]):
        unames = (line.removeprefix("uname: ") for line in items.lines(section.body) if line.startswith("uname: "))
        yield from (items.command("uname", "uname", "-a", text=f"{uname}\n") for uname in unames)
    elif title == "dmesg:":
        if section.body.strip():
            yield items.kernel_log("dmesg", text=section.body)
    elif title == _SCANNED:
        yield from _of_scan(section.body)
    elif title == _BY_SYSFS:
        yield items.command("lspci", "lspci", "-n", text=section.body)
    elif title.startswith("Skipping"):
        yield from _of_skipped(section)
    elif _COMMAND.match(title):
        yield from _of_commands(section)
    else:
        yield from _of_file(section)


def _of_file(section: Section) -> Iterator[Item]:
    match = _FILE.match(section.title)
    if match is None:
        return
    path = match["path"].replace("/./", "/")
    item_id = _FILES.get(re.sub(r"^/\.bottlerocket/rootfs", "", path))
    if item_id is None:
        return
    if match["gone"]:
        if item_id in _ABSENT and "exist" in match["gone"]:
            yield items.absent(item_id, path, f"{path} does not exist")
        return
    first, _, rest = section.body.partition("\n")
    body = rest if _LISTING.match(first) else section.body
    yield items.file(item_id, path, body.rstrip("\n") + "\n")


def _of_skipped(section: Section) -> Iterator[Item]:
    """`Skipping nvidia-smi output (nvidia-smi not found)`; since 2025 the reason stands on a line of its own."""
    match = _SKIPPED.match(section.title)
    if match is None:
        return
    why = match["why"] or section.body.partition("\n")[0].strip()
    if match["what"] == "nvidia-smi" and why == "nvidia-smi not found":
        yield items.absent("nvidia-smi-query", ("nvidia-smi", "--query"), "nvidia-smi: command not found")


# ---------------------------------------------------------------- commands
def _of_commands(section: Section) -> Iterator[Item]:
    """Each command of a section with what it printed: a line that is a command line of the same program begins the next."""
    first = _COMMAND.match(section.title)
    assert first is not None
    title, begin = section.title, 0
    for match in _COMMAND.finditer(section.body):
        if match["program"] == first["program"] and match[0].startswith(("/", "nvidia-smi", "modinfo")):
            yield from _of_command(title, section.body[begin : match.start()])
            title, begin = match[0].rstrip(), match.end()
    yield from _of_command(title, section.body[begin:])


def _of_command(title: str, output: str) -> Iterator[Item]:
    match = _COMMAND.match(title)
    assert match is not None
    program, words = match["program"], match["rest"].rstrip(":").replace('"', "").split()
    text = output.strip("\n") + "\n"
    if program == "nvidia-smi" and words in (["--query"], ["-q"], ["--query", "-x"], ["-q", "-x"]):
        failed = "NVSMI LOG" not in text and "nvidia_smi_log" not in text
        yield items.command("nvidia-smi-query", "nvidia-smi", *words, text=text, status_failed=failed)
    elif program == "nvidia-smi" and words in (["nvlink", "--status"], ["nvlink", "-s"]):
        yield items.command("nvidia-smi-nvlink", "nvidia-smi", *words, text=text, excerpt=True)
    elif program == "nvidia-smi" and not words:
        yield items.command("nvidia-smi", "nvidia-smi", text=text, status_failed="| NVIDIA-SMI" not in text)
    elif program == "lspci" and text.strip():
        yield from _of_lspci(words, text)
    elif program == "modinfo" and words[:1] == ["nvidia"]:
        yield items.command("modinfo", "modinfo", *words, text=text, excerpt=True)
    elif program == "lsmod":
        yield items.command("lsmod", "lsmod", text=text)


def _of_lspci(words: list[str], text: str) -> Iterator[Item]:
    """The list of all devices, and what is told of NVIDIA's alone. The tree (-t) and lists of others (-d 10b5:*) are no lists."""
    options = "".join(word[1:] for word in words if word.startswith("-"))
    devices = next((words[place + 1] for place, word in enumerate(words[:-1]) if word == "-d"), None)
    if "t" in options or (devices is not None and not devices.startswith("10de:")):
        return
    if devices is not None:
        yield items.command("lspci-nvidia", "lspci", *words, text=text, excerpt=True)
    else:
        yield items.command("lspci", "lspci", *words, text=text)


def _of_scan(body: str) -> Iterator[Item]:
    """What was filtered from the journal of this boot, for the case that dmesg was refused."""
    mark = _JOURNAL.search(body)
    end = _OTHER_LOG.search(body, mark.end()) if mark is not None else None
    found = items.of_kernel(body[mark.end() : end.start() if end is not None else None]) if mark is not None else ""
    if found:
        yield items.kernel_log("journalctl", "-b", "-0", text=found, excerpt=True)
