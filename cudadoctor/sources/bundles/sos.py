"""An archive of `sos report`: its files by their paths, below a folder that bears the machine's name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from cudadoctor.model.evidence import Evidence, Item
from cudadoctor.sources.bundles import items

NAME = "sos report"
_MARK = "sos_commands/"
_MISSING = re.compile(r"command not found|No such file or directory|^timeout: failed to run command", re.MULTILINE)
_BEHIND_A_NAME = re.compile(r"(?<=\S)[^\S\n].*")
_HOST = re.compile(r"^sosreport-(?P<host>[\w.-]+?)-(?:\d{4,}-)?\d{4}-\d\d-\d\d")


def _command(item_id: str, *argv: str, excerpt: bool = False, empty: bool = False) -> Callable[[str], Item | None]:
    """`empty`: no output is an answer."""

    def make(text: str) -> Item | None:
        if _MISSING.search(text[:400]) and len(text) < 400:
            return None  # whether the shell or the tool missed something, nobody can tell here
        return items.command(item_id, *argv, text=text, excerpt=excerpt) if text.strip() or empty else None

    return make


def _rpms(text: str) -> Item | None:
    """sos prints the date of installation behind each name."""
    names = _BEHIND_A_NAME.sub("", text[: items.LOG_LIMIT])
    return items.command("packages", "rpm", "-qa", text=names, excerpt=len(text) > items.LOG_LIMIT) if names.strip() else None


def _smi(text: str) -> Item | None:
    return items.command("nvidia-smi", "nvidia-smi", text=text, status_failed="| NVIDIA-SMI" not in text) if text.strip() else None


def _smi_query(text: str) -> Item | None:
    return items.command("nvidia-smi-query", "nvidia-smi", "-q", text=text, status_failed="NVSMI LOG" not in text) if text.strip() else None


def _log(*argv: str, excerpt: bool = False) -> Callable[[str], Item | None]:
    return lambda text: items.kernel_log(*argv, text=text, excerpt=excerpt) if text.strip() else None


def _kernel_lines(*argv: str) -> Callable[[str], Item | None]:
    """The kernel's lines of a log that holds everybody's."""

    def make(text: str) -> Item | None:
        lines = items.of_kernel(text)
        return items.kernel_log(*argv, text=lines, excerpt=True) if lines else None

    return make


# Path below the archive's own folder -> the item. Of several that give the same item the first that is there counts.
_PATHS: tuple[tuple[str, Callable[[str], Item | None]], ...] = (
    (r"sos_commands/pci/lspci_-nnvv\w*", _command("lspci", "lspci", "-nnvv")),
    (r"sos_commands/(?:pci|hardware)/lspci_-nvv\w*", _command("lspci", "lspci", "-nvv")),
    (r"sos_commands/kernel/dmesg", _log("dmesg")),
    (r"sos_commands/kernel/dmesg_-T", _log("dmesg", "-T")),
    (r"sos_commands/logs/journalctl_--no-pager_(?:--catalog_)?--boot", _kernel_lines("journalctl", "--boot")),
    (r"var/log/dmesg", _log("/var/log/dmesg", excerpt=True)),
    (r"var/log/(?:kern\.log|messages|syslog)", _kernel_lines("kernel lines of /var/log")),
    (r"proc/modules", partial(items.file, "modules", "/proc/modules")),
    (r"sos_commands/kernel/lsmod", _command("lsmod", "lsmod")),
    (r"proc/version", partial(items.file, "proc-version", "/proc/version")),
    (r"sos_commands/kernel/uname_-a", _command("uname", "uname", "-a")),
    (
        r"(?:(?:usr/lib|etc)/os-release|usr/lib/os\.release\.d/os-release-[\w.-]{1,60})",
        partial(items.file, "os-release", "/etc/os-release"),
    ),
    (r"proc/driver/nvidia/version", partial(items.file, "driver-version", "/proc/driver/nvidia/version")),
    (r"sys/module/nvidia/version", partial(items.file, "sys-driver-version", "/sys/module/nvidia/version")),
    (r"etc/nv_tegra_release", partial(items.file, "tegra", "/etc/nv_tegra_release")),
    (r"sos_commands/kernel/dkms_status", _command("dkms", "dkms", "status", empty=True)),
    (r"sos_commands/(?:kernel|boot|grub2)/mokutil_--sb-state", _command("mokutil", "mokutil", "--sb-state")),
    (r"sos_commands/kernel/modinfo_ALL_MODULES", _command("modinfo", "modinfo", excerpt=True)),
    (r"sos_commands/hardware/lshw", _command("lshw", "lshw")),
    (r"sos_commands/libraries/ldconfig_-p_-N_-X", _command("ldconfig", "ldconfig", "-p", "-N", "-X")),
    (r"sos_commands/dpkg/dpkg_-l", _command("packages", "dpkg", "-l")),
    (r"sos_commands/rpm/(?:sh_-c_)?rpm_--nodigest_-qa_--qf[^/]*sort_-V", _rpms),
    (r"sos_commands/nvidia/nvidia-smi", _smi),
    (r"sos_commands/nvidia/nvidia-smi_-q", _smi_query),
    (r"sos_commands/nvidia/nvidia-smi_-q_-d_PERFORMANCE", _smi_query),
    (r"sos_commands/nvidia/nvidia-smi_nvlink_-s", _command("nvidia-smi-nvlink", "nvidia-smi", "nvlink", "-s", excerpt=True)),
)
_WEIGHTY = ("kernel-log", "lspci", "modules", "driver-version", "nvidia-smi-query", "nvidia-smi")
_COMPILED = tuple((re.compile(path), make) for path, make in _PATHS)
_TAILED = r"sos_strings/.{1,300}\.tailed"  # what a link stands for where sos kept the end of a long output
_ANY = re.compile(rf"(?:.{{0,300}}/)?(?:{'|'.join((*(path for path, _ in _PATHS), _TAILED))})")


def is_report(names: list[str]) -> bool:
    return any(_MARK in name for name in names)


def wanted(name: str) -> bool:
    return _ANY.fullmatch(name) is not None


def evidence(members: Mapping[str, bytes], names: list[str], remarks: tuple[str, ...] = (), links: Sequence[str] = ()) -> Evidence:
    """The archive as evidence of one machine. Only paths directly below the archive's folder count: it may hold copies of other systems.
    `links`: those that lead to nothing that was read."""
    root = _root(names)
    found: dict[str, Item] = {}
    beside: list[Item] = []
    for pattern, make in _COMPILED:
        for name in sorted(members):
            if not name.startswith(root) or pattern.fullmatch(name[len(root) :]) is None:
                continue
            item = make(items.text_of(members[name]))
            if item is not None and found.setdefault(item.id, item) is not item:
                beside.append(item)
    logs = [item for item in (*found.values(), *beside) if item.id == "kernel-log" and item.what[:1] in (("dmesg",), ("journalctl",))]
    if len(logs) > 1:  # both are of this boot; what lies in /var/log may be of any
        found["kernel-log"] = items.merged(logs)
    remarks += tuple(_unread(links, root, found))
    host = _HOST.match(root)
    others = {name[: name.index(_MARK)] for name in names if _MARK in name} - {root}
    counts = root or "the archive itself"
    remarks += tuple(f"{other} was not read: of several reports the one in {counts} counts." for other in sorted(others))
    whole = (*found.values(), *items.contradicting(found.values(), beside))
    return Evidence(items=whole, origin="recording", bundle=NAME, node=host["host"] if host else None, remarks=remarks)


def _unread(links: Sequence[str], root: str, found: Mapping[str, Item]) -> Iterator[str]:
    """A remark on each link in the place of what a verdict rests on. Of a system's own files one may be such where another has the same."""
    for name in links:
        path = name[len(root) :] if name.startswith(root) else ""
        given = (make("x kernel: x") for pattern, make in _COMPILED if pattern.fullmatch(path))
        if any(item is not None and item.id in _WEIGHTY and (path.startswith(_MARK) or item.id not in found) for item in given):
            yield f"{name} was not read: it is a link to what was not read either."


def _root(names: list[str]) -> str:
    """The archive's own folder, with its slash."""
    first = min((name for name in names if _MARK in name), key=len)
    return first[: first.index(_MARK)]
