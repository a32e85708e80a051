"""The GPU's device nodes: the listing of /dev before and after the driver was asked, or `ls -l /dev/nvidia*` in a pasted text."""

from __future__ import annotations

from functools import partial

from cudadoctor.model.facts import Key
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import (
    DEVICE_NODES,
    DEVICE_NODES_AFTER,
    DEVICE_RULES,
    MAJORS,
    NVIDIA_MAJOR,
    DeviceNode,
    DeviceNodes,
    DeviceRule,
    DeviceRules,
)
from cudadoctor.parsers.base import Output, Text, parser
from cudadoctor.parsers.listing import Entry, Folder, entry_of, missing_path
from cudadoctor.parsers.shell import root_command

_NAME = lazy(r"^(?:nvidia|nvhost|nvmap|dxg|kfd|dri|card\d|renderD\d)")
_OF_GPU = lazy(r"^/dev/nvidia(?:ctl|-uvm|\d{1,4})$")
_INSIDE = lazy(r"^(?:nvidia-cap\d|nvidia-cap-|card\d|renderD\d|by-path)")
_MAJOR = lazy(r"^\s{0,8}(?P<major>\d{1,6}) (?P<name>nvidia[\w-]{0,40})$")
_ALL = "/dev/nvidia*"
_HINTS = ("/dev", "nvidia", "nvhost", "nvmap", "card", "renderD", "dxg", "kfd", "ls ", "cd ")  # no other line bears on device nodes


def _path(entry: Entry, folder: str | None) -> str | None:
    """The full path of a listed node; a bare name needs the folder that was listed, and is taken for /dev where none is known."""
    if entry.path.startswith("/"):
        return entry.path if entry.path.startswith("/dev/") and _NAME.match(entry.path[5:]) else None
    if "/" in entry.path or not _NAME.match(entry.path):
        return None
    if folder is not None:
        return f"{folder}/{entry.path}" if folder.startswith("/dev") else None
    return None if _INSIDE.match(entry.path) else f"/dev/{entry.path}"


def _stands_for_node(path: str, entry: Entry, *, pasted: bool) -> bool:
    """A device, or what stands where a GPU's node belongs; /dev/dri is none. A link that somebody pasted may lead to one."""
    return entry.mode[0] in "cb" or (_OF_GPU.match(path) is not None and not (pasted and entry.mode[0] == "l"))


def _parse(text: Text, key: Key[DeviceNodes]) -> Output:
    nodes: dict[str, DeviceNode] = {}
    absent: dict[str, int] = {}
    folder = Folder()
    unread = False  # an entry that could not be looked at: the listing is not whole
    for number, line in enumerate(text.plain_lines, 1):
        if not line or not any(hint in line for hint in _HINTS):
            continue
        missing = missing_path(line)
        if missing is not None:
            if missing.startswith("/dev/") and _NAME.match(missing[5:]):
                absent.setdefault(missing, number)
            continue
        unread = unread or "cannot access" in line
        if folder.header(line):
            continue
        entry = entry_of(line)
        if entry is None:
            typed = root_command(line)
            if typed is not None:
                folder.typed(typed)
            continue
        path = _path(entry, folder.listed)
        if path is not None and _stands_for_node(path, entry, pasted=text.pasted):
            nodes[path] = DeviceNode(
                path=path, mode=entry.mode, owner=entry.owner, group=entry.group, major=entry.major, minor=entry.minor, line=number
            )
    # Nodes made later in the same text win over an earlier "no such file".
    gone = {path: number for path, number in absent.items() if not _seen_later(path, number, nodes)}
    quotes = tuple(text.quote(number) for number in sorted({*(node.line for node in nodes.values()), *gone.values()}))
    if not nodes and not gone:
        if text.whole and not text.text.strip():  # a whole listing without an entry says that there is none
            yield text.fact(key, DeviceNodes(nodes=()), text.absent("/dev: no nvidia, dri or dxg entry"))
    elif not nodes and set(gone) == {_ALL}:
        yield text.fact(key, None, *quotes, whole=False)
    else:
        yield text.fact(key, DeviceNodes(nodes=tuple(nodes.values()), absent=tuple(gone)), *quotes, whole=text.whole and not unread)


def _seen_later(path: str, number: int, nodes: dict[str, DeviceNode]) -> bool:
    if path.endswith("*"):
        return any(node.line > number and name.startswith(path[:-1]) for name, node in nodes.items())
    return path in nodes and nodes[path].line > number


def parse_majors(text: Text) -> Output:
    """/proc/devices: the major number under which each of the driver's devices is registered; without the heading it is another text."""
    heading = next((number for number, line in enumerate(text.lines, 1) if line.startswith("Character devices")), None)
    if heading is None:
        return
    found: dict[str, tuple[int, int]] = {}
    for number, entry in text.rows(_MAJOR):
        found.setdefault(entry["name"], (int(entry["major"]), number))
    lines = [line for _, line in found.values()] or [heading]
    yield text.fact(MAJORS, {name: major for name, (major, _) in found.items()}, *map(text.quote, lines))


# lxc.container.conf(5); lxc.cgroup is of the first version of control groups.
# pct.conf(5): dev0 hands in a device by its name.
_RULE = lazy(
    r"^\s{0,8}(?:lxc\.cgroup2?\.devices\.allow\s{0,4}[:=]\s{0,4}c (?P<major>\d{1,4}):|dev\d{1,3}: (?:path=)?/dev/nvidia(?:\d{1,2}|ctl)\b)"
)
_LETS_IN = lazy(r"^\s{0,8}(?:lxc\.cgroup2?\.devices\.allow\s{0,4}[:=]\s{0,4}(?:a\b|c \*:)|dev\d{1,3}: (?:path=)?/dev/nvidia-uvm\b)").match
_OF_PROXMOX = lazy(r"/etc/pve/lxc/(?P<number>\d{3,9})\.conf\b")


def parse_rules(text: Text) -> Output:
    """What an LXC container's configuration lets it open, by number; nothing where it lets in all, or nvidia-uvm by its name."""
    rules = tuple(DeviceRule(major=int(found["major"] or NVIDIA_MAJOR), line=number) for number, found in text.rows(_RULE))
    if rules and not any(map(_LETS_IN, text.plain_lines)):
        named = _OF_PROXMOX.findall("\n".join(text.plain_lines[: rules[0].line]))  # the last that is named above
        value = DeviceRules(rules=rules, container=named[-1] if named else None)
        whole = any(line.startswith("arch: ") for line in text.plain_lines)  # which Proxmox writes first; a search leaves it out
        yield text.fact(DEVICE_RULES, value, *(text.quote(rule.line) for rule in rules), whole=whole)


PARSERS = (
    parser(
        "dev",
        partial(_parse, key=DEVICE_NODES),
        DEVICE_NODES,
        reads=("dev",),
        wakes=("/dev/nvidia", "/dev/dxg", " nvidiactl", " nvidia0", " nvidia-uvm"),
    ),
    # The nodes once the driver was asked; no paste tells that, so nothing wakes this one.
    parser("dev_after", partial(_parse, key=DEVICE_NODES_AFTER), DEVICE_NODES_AFTER, reads=("dev-after",)),
    parser("device_rules", parse_rules, DEVICE_RULES, wakes=(".devices.allow", ": /dev/nvidia", ": path=/dev/nvidia")),
    parser("majors", parse_majors, MAJORS, reads=("devices",), absent=True),
)
