"""Bundles: what support asks for, taken as it is. Each machine in one becomes evidence like that of a recording.

    bug_report.py   nvidia-bug-report.log and .log.gz
    sos.py          an archive of `sos report`
    must_gather.py  the GPU operator's must-gather, a node each
    unpacking.py    files, archives and folders, in memory
    packed.py       compressions, within limits
    items.py        pieces of evidence with the ids of the live probes

Files that hold the output of one tool and nothing else (`nvidia-smi -q`, `-q -x`, `dcgmi diag -j`) are read here; one that holds anything
beside it, a prompt or a program's error, is a text and is read as one.

A bundle is recognised by its content. `opened` gives the machines' evidence, or the text in a file that holds none.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from typing import IO

import msgspec

from cudadoctor.model.evidence import Evidence
from cudadoctor.sources import inputs, recording
from cudadoctor.sources.bundles import bug_report, items, must_gather, packed, sos, unpacking
from cudadoctor.sources.bundles.packed import BundleError as BundleError
from cudadoctor.sources.decoding import json_object

RECORDING = recording.MEMBER
_FOLDERS = ("sos_commands", "must-gather")  # a folder that somebody unpacked shows one of these, or files of a must-gather
# What a tool's own output looks like.
_BANNER = re.compile(r"\s{0,16}={8,20}NVSMI LOG={8,20}\s*\n")
_LAST = re.compile(r"(?m)^ {4}Processes\b")  # the last section of a GPU in every release
_ENDS = re.compile(r"</nvidia_smi_log>\s*\Z")
_XML = re.compile(r"\s{0,16}(?:<\?xml[^>]{0,200}\?>\s{0,16})?(?:<!DOCTYPE nvidia_smi_log[^>]{0,200}>\s{0,16})?<nvidia_smi_log>")
_DCGM = re.compile(r'"DCGM (?:GPU )?Diagnostic"\s*:')
_FIELD = re.compile(r"^\s{0,80}[A-Za-z0-9][^:]{0,80}(?: :(?: .*)?)?$")
_COUNTED = re.compile(r"^\s{0,8}(?:<attached_gpus>|Attached GPUs\s{1,60}: )(\d{1,5})\b", re.MULTILINE)
_GPU = re.compile(r"^[ \t]{0,8}(?:<gpu id=|GPU [0-9A-Fa-f]{4,8}:)", re.MULTILINE)
_PLAIN = re.compile(r"[\w./:+][\w./:+-]{0,1000}")  # a path that no shell reads as anything else
_HEAD = 64 << 10  # characters within which a file shows what it is
_SHOWN = 1 << 20  # characters by which -q is told from another text
_FOREIGN = 2  # lines of -q that are neither field nor heading: a notice of the driver's; more are another text
_TORN = "The output of dcgmi diag was cut: it is no whole document."
_REMARKS = 3  # on members of an archive of which nothing is known


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """What a file holds: machines; or a recording of the doctor's; or a text, without the compression around it."""

    machines: tuple[Evidence, ...] = ()
    recording: bool = False
    text: inputs.Content | None = None


def replayed(path: str) -> tuple[Evidence, ...]:
    """What `--replay` reads: a recording, or the machines of a bundle. RecordingError or BundleError with what is wrong."""
    if not os.path.exists(path):
        raise BundleError(f"{path}: no such file or directory")
    if os.path.isdir(path) and not _shows_a_bundle(path):
        return (recording.read(path),)
    whole = unpacking.read_file(path, bug_report.is_report) if not os.path.isdir(path) else None
    found = _of_content(whole, path) if whole is not None else opened(path)
    if found.recording:
        return (recording.read(path, whole.body if whole is not None else None),)
    if found.text is not None:
        named = path if _PLAIN.fullmatch(path) else "PATH"
        raise BundleError(f"{path}: neither a recording nor a bundle. If it is the text of a failure: `cudadoctor explain {named}`")
    return found.machines


def opened(path: str) -> Opened:
    """A file or a folder. BundleError where it cannot be read, or is an archive in which nothing is known."""
    if not os.path.isdir(path):
        return _of_content(unpacking.read_file(path, bug_report.is_report), path)
    if os.path.exists(os.path.join(path, RECORDING)):
        return Opened(recording=True)
    if not _shows_a_bundle(path):
        raise BundleError(f"{path} is a folder; name a file with the text of a failure")
    found = unpacking.folder(path, _wanted)
    return _of_members(found, path, packed.Allowance(found.kept))


def _shows_a_bundle(path: str) -> bool:
    """Whether a folder, or the one folder in it, has what an unpacked bundle has. Any other folder is not searched through."""
    try:
        names = os.listdir(path)
        inner = os.listdir(os.path.join(path, names[0])) if len(names) == 1 and os.path.isdir(os.path.join(path, names[0])) else []
    except OSError:
        return False
    shown = (*names, *inner)
    return (
        any(name.startswith(_FOLDERS) for name in shown) or must_gather.is_gather(list(shown)) or any(map(must_gather.is_bug_report, shown))
    )


def of_stream(stream: IO[bytes]) -> Opened:
    """The same of standard input."""
    try:
        return _of_content(inputs.of_stream(stream, "standard input"), "standard input")
    except inputs.InputError as error:
        raise BundleError(str(error)) from error


def _of_content(whole: inputs.Content, name: str) -> Opened:
    content = whole.body
    allowance = packed.Allowance(len(content))
    try:
        if unpacking.is_archive(content, allowance):
            found = unpacking.unpacked(content, _wanted, allowance, _of_recording)
            found.remarks += [f"{name} is in it more than once; the last was read." for name in dict(found.earlier)]
            found.remarks += [whole.left_out] if whole.left_out is not None else []
            return _of_members(found, name, allowance)
        plain, remarks = unpacking.expanded(content, allowance)
        if plain is not content and not plain.strip(b"\x00 \t\r\n"):
            raise BundleError("there is nothing in it")
    except BundleError as error:
        said = str(error) if str(error).startswith(name) else f"{name}: {error}"
        raise BundleError(f"{said} ({whole.left_out})" if whole.left_out is not None else said) from error
    return _of_file(whole._replace(body=plain), tuple(remarks))


def _of_file(whole: inputs.Content, remarks: tuple[str, ...]) -> Opened:
    content = whole.body
    remarks = (*remarks, *((whole.left_out,) if whole.left_out is not None else ()))
    if bug_report.is_report(content):
        return Opened(machines=(_whole(bug_report.evidence(content, remarks)),))
    if len(content) > inputs.TEXT:
        said = f"Only the last {inputs.TEXT >> 20} MiB of the text were read, of {len(content) >> 20} MiB."
        whole = inputs.Content(content[-inputs.TEXT :], said)
    evidence = _of_one_tool(whole.body, remarks)
    return Opened(machines=(evidence,)) if evidence is not None else Opened(text=whole)


def _wanted(name: str) -> bool:
    """With files of one tool's output near the top of an archive: `nvidia-smi.txt`, `dcgmi-diag.json`, `report.log`."""
    of_one_tool = name.count("/") <= 1 and name.endswith((".txt", ".log", ".json", ".xml", ".gz")) and not name.startswith("evidence/")
    return of_one_tool or sos.wanted(name) or must_gather.wanted(name)


def _of_recording(name: str) -> bool:
    return name == RECORDING or name.endswith(f"/{RECORDING}")


def _of_members(found: unpacking.Unpacked, name: str, allowance: packed.Allowance) -> Opened:
    if any(map(_of_recording, found.names)):
        return Opened(recording=True)
    links = unpacking.follow_links(found, _wanted)
    plain = (one for one in sorted(found.members.items()) if packed.head(one[1]) is None)
    found.remarks += [f"{member}: {unpacking.LOST}" for member, content in plain if unpacking.HOLE.search(content)]
    if sos.is_report(found.names):
        found.remarks += _passed_over(found, sos.wanted)
        machines: tuple[Evidence, ...] = (sos.evidence(found.members, found.names, unpacking.in_short(found.remarks), links),)
    elif must_gather.is_gather(found.names) or any(map(must_gather.is_bug_report, found.names)):
        found.remarks += _passed_over(found, must_gather.wanted)
        machines = must_gather.evidence(found.members, allowance, found.remarks)
    else:
        machines = _of_singles(found, allowance)
    machines = tuple(_whole(one) for one in machines if one.items)
    if not machines:
        known = "a bug report of NVIDIA's, a report of sos, a must-gather of the GPU operator, output of nvidia-smi -q or dcgmi diag -j"
        remarks = found.remarks
        more = f" And {len(remarks) - _REMARKS} more of the kind." if len(remarks) > _REMARKS else ""
        said = f" ({' '.join(remarks[:_REMARKS])}{more})" if remarks else ""
        raise BundleError(f"{name}: {len(found.names)} files, among them neither of: {known}{said}")
    return Opened(machines=machines)


def _passed_over(found: unpacking.Unpacked, reads: Callable[[str], bool]) -> Iterator[str]:
    """A remark on each tool's output, and each report of another kind, that lies beside a report of the whole machine."""
    for member, content in found.members.items():
        if not reads(member) and (must_gather.is_bug_report(member) or _of_one_tool(content, ()) is not None):
            yield f"{member} was not read: it lies beside a report of the whole machine."


def _of_singles(found: unpacking.Unpacked, allowance: packed.Allowance) -> tuple[Evidence, ...]:
    """Each file that is one tool's output, of one machine: their pieces together."""
    parts: list[Evidence] = []
    remarks = found.remarks
    allowance.no_more_than(unpacking.MAX_KEPT)
    for name, content in sorted(found.members.items()):
        try:
            plain, cut = unpacking.expanded(content, allowance)
            allowance.count(0)  # what was read of the others counts too
        except packed.TooMuchError as error:
            remarks.append(f"{name}: {error}, nor were the files after it.")
            break
        except BundleError as error:
            remarks.append(f"{name} was not read: {error}.")
            continue
        part = _of_one_tool(plain, ())
        if part is None:
            remarks.append(f"{name} is the output of no tool that is read here.")
        elif any(part.items[0].id == other.items[0].id for other in parts):
            remarks.append(f"{name} was not read: another file holds the same tool's output.")
        else:
            parts.append(part)
            remarks += [f"{name}: {remark}" for remark in (*cut, *part.remarks)]
    if not parts:
        return ()
    others = [name for name in found.names if name not in found.members and not name.endswith("/")]
    remarks += [f"{name} was not read." for name in others]
    names = ", ".join(dict.fromkeys(part.bundle or "" for part in parts))
    together = tuple(item for part in parts for item in part.items)
    return (msgspec.structs.replace(parts[0], items=together, bundle=names, remarks=unpacking.in_short(remarks)),)


def _of_one_tool(content: bytes, remarks: tuple[str, ...]) -> Evidence | None:
    """The file as evidence of one machine; None where it is no such file."""
    text = items.text_of(content)
    argv = _printed_by(text)
    if argv is None:
        return None
    item = items.command("dcgm-diag" if argv[0] == "dcgmi" else "nvidia-smi-query", *argv, text=text)
    return _whole(Evidence(items=(item,), origin="recording", bundle=" ".join(argv).removesuffix(" -j"), remarks=remarks))


def _whole(machine: Evidence) -> Evidence:
    """The evidence, with a remark for each listing of nvidia-smi that is not whole."""
    texts = [item.stdout or "" for item in machine.items if item.id == "nvidia-smi-query" and item.status == "ok"]
    torn = [_TORN for item in machine.items if item.id == "dcgm-diag" and json_object((item.stdout or "").strip()) is None]
    return msgspec.structs.replace(machine, remarks=tuple(dict.fromkeys((*machine.remarks, *filter(None, map(_cut, texts)), *torn))))


def _cut(text: str) -> str | None:
    counted, shown = _COUNTED.search(text[:_HEAD]), sum(1 for _ in _GPU.finditer(text))
    if counted is not None and shown < int(counted[1]):
        return f"The output of nvidia-smi was cut: it counts {counted[1]} GPUs and shows fewer."
    if not (_ENDS.search(text) if _XML.match(text[:_HEAD]) else sum(1 for _ in _LAST.finditer(text)) >= shown):
        return "The output of nvidia-smi was cut, or is of some sections alone (-d): each GPU's ends with its processes."
    return None


def _printed_by(text: str) -> tuple[str, ...] | None:
    """The command line whose output this is."""
    head = text[:_HEAD]
    if _BANNER.match(head):
        lines = (line for line in items.lines(text[:_SHOWN]) if line.strip() and "NVSMI LOG" not in line)
        return ("nvidia-smi", "-q") if sum(1 for line in lines if _FIELD.match(line) is None) <= _FOREIGN else None
    if _XML.match(head):
        return ("nvidia-smi", "-q", "-x") if text.rstrip().endswith(">") else None
    return ("dcgmi", "diag", "-j") if head.lstrip()[:1] == "{" and _DCGM.search(text) else None
