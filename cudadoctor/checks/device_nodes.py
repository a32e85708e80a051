"""Row `device-nodes`: the files /dev/nvidia* through which every program reaches the driver, whether they are there and are what their
names say. Who may open them: node_access.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from cudadoctor.checks import node_access, traces
from cudadoctor.checks.base import Check, Line, Rule
from cudadoctor.checks.common import variables_of
from cudadoctor.checks.node_access import CONTROL, FIRST, UVM, gpu_nodes, needed, opening_quote, refused_nodes, rights
from cudadoctor.checks.reading import (
    WINDOWS,
    Quotes,
    broken,
    driver_runs,
    elsewhere,
    gpus,
    listed,
    marks_of_container,
    merged,
    module_named,
    not_loaded_line,
    passed,
    told,
)
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Facts, Key, Quote
from cudadoctor.model.findings import Clue
from cudadoctor.model.values import (
    CONTAINER_MARKS,
    DEVICE_NODES,
    DEVICE_NODES_AFTER,
    ENVIRONMENT,
    LADDER,
    MAJORS,
    NVIDIA_MAJOR,
    NVIDIA_MODPROBE,
    PCI,
    DeviceNode,
    DeviceNodes,
)

MISSING, NO_UVM = "device-nodes-missing", "uvm-unavailable"
WSL_DEVICE = "/dev/dxg"
_MINORS = {CONTROL: 255, UVM: 0}
UNKNOWN_ERROR = 999  # CUDA_ERROR_UNKNOWN: cuInit's answer where nvidia-uvm does not serve
_STALE = ("ENODEV", "ENXIO", "EIO")  # opening a node whose module is gone or broken


# ---------------------------------------------------------------- what is there


def missing(facts: Facts, key: Key[DeviceNodes] = DEVICE_NODES) -> tuple[str, ...]:
    """Which of the control node, any GPU's node and the memory node are known not to be there."""
    fact = facts[key]
    nodes = fact.value
    gone = []
    for path, there in ((CONTROL, has(nodes, CONTROL)), (FIRST, bool(gpu_nodes(nodes))), (UVM, has(nodes, UVM))):
        if there:
            continue
        if not (fact.whole or nodes is None or nodes.said_absent(path)):
            raise key.unknown(f"{path}: the listing is not whole")
        gone.append(path)
    return tuple(gone)


def has(nodes: DeviceNodes | None, path: str) -> bool:
    """Whether a listing shows this node."""
    return nodes is not None and nodes.find(path) is not None


def _missing_clue(cause: str, facts: Facts, paths: tuple[str, ...], *others: Quotes) -> Clue:
    """The clue to nodes that are not there. `others`: the lines by which they should be."""
    fact = facts[DEVICE_NODES]
    stated = fact.lines_with(*paths) if fact.value is not None and all(fact.value.said_absent(path) for path in paths) else ()
    gone = stated or tuple(Quote(source=fact.source("/dev"), text=f"{path}: no such file") for path in paths)
    return Clue(cause=cause, quotes=merged(gone, *others))


# ---------------------------------------------------------------- nodes that are missing
def nodes_missing(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """The driver runs, but its control node or every GPU's node is missing.

    In a container without the driver's libraries nothing was passed in: that is container-no-gpu-access.
    """
    nodes = facts[DEVICE_NODES]
    if elsewhere(facts, nodes) is not None:
        return
    gone = tuple(path for path in missing(facts) if path != UVM)
    if not gone:
        return
    driver = driver_runs(facts)
    if not driver or not _holds_a_gpu(facts) or without_nodes_in_lxc(facts, knowledge, gone):
        return
    if marks_of_container(facts, nodes) and not traces.any_library(facts):
        return
    if not _made_on_demand(facts, gone):
        yield _missing_clue(MISSING, facts, gone, driver[:1])


def without_nodes_in_lxc(facts: Facts, knowledge: Knowledge, gone: Collection[str]) -> bool:
    """Whether a container of LXC has no node at all: its libraries are installed in it, its nodes are handed in when it starts."""
    marks = facts.value(CONTAINER_MARKS)
    return {CONTROL, FIRST} <= set(gone) and any(map(knowledge.conditions["engines"]["lxc"].search, marks or ()))


def _holds_a_gpu(facts: Facts) -> bool:
    """Whether NVIDIA's driver holds a GPU: it makes no nodes where it passes every GPU by. Without a bus to look at it is taken to."""
    if facts[DEVICE_NODES].origin == "text" or facts[PCI].value is None:
        return True
    return any(gpu.driver == "nvidia" or not gpu.driver_known for gpu in gpus(facts))


def some_nodes_missing(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """The driver holds more GPUs than there are nodes: the others serve nobody. A container that was given a part of them is meant so."""
    nodes = facts[DEVICE_NODES]
    if elsewhere(facts, nodes) is not None or nodes.origin == "text" or missing(facts):
        return
    held = [gpu for gpu in gpus(facts) if gpu.driver == "nvidia"]
    if len(gpu_nodes(nodes.value)) >= len(held):
        return
    if marks_of_container(facts, nodes) and _given_to_container(facts) < len(held):
        return
    if facts[NVIDIA_MODPROBE].present and len(gpu_nodes(facts[DEVICE_NODES_AFTER].value)) >= len(held):
        return  # made on demand, for every user
    there = {node.path for node in gpu_nodes(nodes.value)}
    gone = tuple(path for path in (f"/dev/nvidia{number}" for number in range(len(held))) if path not in there)
    yield _missing_clue(MISSING, facts, gone, *(gpu.quotes[:1] for gpu in held))


def _given_to_container(facts: Facts) -> float:
    """How many GPUs NVIDIA_VISIBLE_DEVICES gives to a container; nobody can say without it."""
    value = variables_of(facts[ENVIRONMENT]).get("NVIDIA_VISIBLE_DEVICES", "")
    if value == "all":
        return float("inf")
    return len([entry for entry in value.split(",") if entry.strip() not in ("", "void", "none")])


def uvm_missing(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """Only nvidia-uvm is missing: nvidia-smi works, CUDA does not start."""
    nodes = facts[DEVICE_NODES]
    if elsewhere(facts, nodes) is not None or missing(facts) != (UVM,) or not driver_runs(facts) or _made_on_demand(facts, (UVM,)):
        return
    control = nodes.need().find(CONTROL)
    yield _missing_clue(NO_UVM, facts, (UVM,), nodes.line_of(control.line) if control is not None else ())


def _made_on_demand(facts: Facts, gone: tuple[str, ...]) -> bool:
    """Whether nvidia-modprobe made the nodes once the driver was asked, as it does for every user. Root's rights do it for root alone."""
    nodes = facts[DEVICE_NODES]
    if told(facts, NVIDIA_MODPROBE, nodes) is None or nodes.origin == "text":
        return False
    still = missing(facts, DEVICE_NODES_AFTER)
    return not any(path in still for path in gone)


def uvm_fails(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """The node of nvidia-uvm is there, but its module is not, or opening it fails while the others open."""
    nodes, climb = facts[DEVICE_NODES], facts[LADDER]
    if nodes.value is None or climb.value is None or elsewhere(facts, nodes) is not None or passed(climb.value, "init"):
        return
    node = nodes.value.find(UVM)
    if node is None:
        return
    bad = refused_nodes(climb, *_STALE)
    if bad and all(opening.path.startswith(UVM) for opening in bad):
        yield Clue(cause=NO_UVM, quotes=merged(opening_quote(climb, bad[0]), nodes.line_of(node.line)))
        return
    refused = any(result.code == UNKNOWN_ERROR for result in climb.value.result("init"))
    if refused and module_named(facts, "nvidia") and not module_named(facts, "nvidia_uvm"):
        quotes = merged(nodes.line_of(node.line), not_loaded_line(facts, "nvidia_uvm"), climb.lines_with(str(UNKNOWN_ERROR))[:1])
        yield Clue(cause=NO_UVM, quotes=quotes)


def lead_elsewhere(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """A node is no device, or has another number than the driver's device of that name. A /dev that outlives a restart keeps such nodes."""
    nodes = facts[DEVICE_NODES]
    failed = broken(told(facts, LADDER, nodes), "init")
    if nodes.value is None or elsewhere(facts, nodes) is not None or not failed:
        return  # where cuInit passes, root's rights or nvidia-modprobe have put it right
    wrong = [node for node in needed(nodes.value) if node.path != UVM and not _is_at(node, NVIDIA_MAJOR)]
    if wrong:
        yield Clue(cause=MISSING, quotes=merged(*(nodes.line_of(node.line) for node in wrong[:2])), from_rung="init")
    uvm = nodes.value.find(UVM)
    if uvm is None or (facts.why_unknown(MAJORS) is not None and all(result.code != UNKNOWN_ERROR for result in failed)):
        return  # a node of nvidia-uvm that does not serve shows as 999 alone
    majors = facts[MAJORS]
    now = majors.value.get("nvidia-uvm") if majors.value is not None else None
    if now is not None and not _is_at(uvm, now):
        shown = (quote for quote in majors.quotes if quote.text.endswith(" nvidia-uvm"))
        yield Clue(cause=NO_UVM, quotes=merged(nodes.line_of(uvm.line), tuple(shown)), from_rung="init")


def _is_at(node: DeviceNode, major: int) -> bool:
    """Whether it is the device that its name says. Sources: Linux, Documentation/admin-guide/devices.txt; nvidia-modprobe, which gives the
    node of GPU N the minor number N.
    """
    last = node.path.removeprefix("/dev/nvidia")
    minor = int(last) if last.isdigit() else _MINORS[node.path]
    return node.mode[:1] == "c" and node.major in (None, major) and node.minor in (None, minor)


# ---------------------------------------------------------------- the line
def describe(facts: Facts, knowledge: Knowledge) -> Line:
    fact = facts[DEVICE_NODES]
    place = elsewhere(facts, fact)
    if place == WINDOWS:
        return Line("Windows reaches the GPU without device files", skip=place)
    if place == "Jetson":
        return Line("Jetson: the GPU is reached through /dev/nvhost-* and /dev/nvmap", skip=place)
    if place == "WSL":
        device = fact.value.find(WSL_DEVICE) if fact.value is not None else None
        if device is None:
            return Line(f"no {WSL_DEVICE}", fact.some()[:1])
        return Line(f"{WSL_DEVICE}: {rights(device)}", fact.line_of(device.line))
    if fact.value is None or not fact.value.nodes:
        return Line("no /dev/nvidia* node", fact.some()[:1])
    found = needed(fact.value)
    by_rights: dict[str, list[str]] = {}
    for node in sorted(found, key=lambda node: (node.path != CONTROL, node.path == UVM, node.path)):
        by_rights.setdefault(rights(node), []).append(node.path.removeprefix("/dev/"))
    words = [f"{', '.join(names)}: {rights}" for rights, names in by_rights.items()]
    gone = [path for path in (CONTROL, UVM) if fact.whole and fact.value.find(path) is None]
    if fact.whole and not gpu_nodes(fact.value):
        gone.insert(1, FIRST)
    if gone:
        words.append(f"{listed(gone)} missing" + _note(facts, tuple(gone)))
    return Line("; ".join(words), merged(*(fact.line_of(node.line) for node in found[:4])) or fact.some()[:1])


def _note(facts: Facts, gone: tuple[str, ...]) -> str:
    """Nodes that were made while the doctor asked, and by what."""
    if not all(has(facts.value(DEVICE_NODES_AFTER), path) for path in gone):
        return ""
    by = "nvidia-modprobe" if facts.there(NVIDIA_MODPROBE) is not None else "root's rights"
    return f" before the driver was asked, made by {by} since"


CHECK = Check(
    id="device-nodes",
    title="Device nodes",
    looks_at="/dev/nvidiactl, /dev/nvidia<N>, /dev/nvidia-uvm before and after the driver was asked: there, and open to this user",
    items=(
        "dev", "dev-after", "devices", "user", "capabilities", "modules", "lsmod", "sys-modules",
        "driver-version", "sys-driver-version", "pci",
        "proc-version", "tegra", "cgroup", "dockerenv", "containerenv", "ldconfig", "driver-libraries", "nvidia-modprobe", "ladder",
    ),
    rules=(
        Rule("device-nodes", (MISSING,), nodes_missing),
        Rule("device-nodes", (MISSING,), some_nodes_missing),
        Rule("device-nodes", (NO_UVM,), uvm_missing),
        Rule("device-nodes", (NO_UVM,), uvm_fails),
        Rule("device-nodes", (MISSING, NO_UVM), lead_elsewhere),
        *node_access.RULES,
    ),
    describe=describe,
)  # fmt: skip
