"""Who may open the driver's device nodes: mode, owner and capabilities, mounts, policies, preloaded libraries, and a container's rules.

Row device-nodes (device_nodes.py) says what is there.
"""

from __future__ import annotations

from collections.abc import Iterator

from cudadoctor.checks.base import Rule
from cudadoctor.checks.common import plural, variable_quote, variables_of
from cudadoctor.checks.reading import Quotes, elsewhere, listed, merged, passed, told
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Fact, Facts, Quote
from cudadoctor.model.findings import Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import (
    CAP_DAC_OVERRIDE,
    CAPABILITIES,
    CONTAINER_MARKS,
    DEVICE_NODES,
    DEVICE_RULES,
    ENVIRONMENT,
    LADDER,
    NVIDIA_MAJOR,
    USER,
    DeviceNode,
    DeviceNodes,
    Ladder,
    Opening,
    User,
)

CONTROL, UVM, FIRST = "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia0"
PRELOAD = "LD_PRELOAD"
LOST = "container-lost-devices"
_DYNAMIC = (*range(234, 255), *range(384, 512))  # the numbers that are drawn (the same file)
_GPU_NODE = lazy(r"/dev/nvidia\d+$")


def needed(nodes: DeviceNodes) -> tuple[DeviceNode, ...]:
    """The nodes that every CUDA program opens. nvidia-caps and nvidia-modeset are others' business."""
    fixed = (node for node in (nodes.find(CONTROL), nodes.find(UVM)) if node is not None)
    return (*fixed, *gpu_nodes(nodes))


def gpu_nodes(nodes: DeviceNodes | None) -> tuple[DeviceNode, ...]:
    """/dev/nvidia0, /dev/nvidia1 ..."""
    return tuple(node for node in nodes.nodes if _GPU_NODE.match(node.path)) if nodes is not None else ()


def refused_nodes(climb: Fact[Ladder], *errnos: str) -> list[Opening]:
    """The nodes that the kernel refused to open so."""
    openings = climb.value.openings if climb.value is not None else ()
    return [opening for opening in openings if opening.errno_name in errnos and not opening.intercepted]


def opening_quote(fact: Fact[Ladder], opening: Opening) -> Quotes:
    lines = [quote for quote in fact.lines_with(opening.path) if opening.path in quote.text]
    return tuple(lines[:1]) or (Quote(source="ladder", text=f"open {opening.path}: {opening.errno_name}"),)


def rights(node: DeviceNode) -> str:
    if node.mode[7:9] == "rw":
        return "read and write for everyone"
    if node.mode[4:6] == "rw":
        return f"read and write for group {node.group}"
    return f"{node.mode} {node.owner} {node.group}"


def allowed(node: DeviceNode, user: User, facts: Facts) -> bool:
    """Whether this user may read and write, as the kernel decides it: by mode, owner and group, or by a capability."""
    if node.owner in (user.name, str(user.uid)):
        bits = node.mode[1:3]
    elif node.group in user.groups or node.group == str(user.gid):
        bits = node.mode[4:6]
    else:
        bits = node.mode[7:9]
    return bits == "rw" or _overrides(user, facts)


def _overrides(user: User, facts: Facts) -> bool:
    """Whether no mode binds this process: the kernel asks for CAP_DAC_OVERRIDE, not for the user 0. A text shows none, and its root has it.

    Source: Linux, fs/namei.c (generic_permission).
    """
    if user.uid != 0 or facts[DEVICE_NODES].origin == "text":
        return user.uid == 0
    return CAP_DAC_OVERRIDE in facts[CAPABILITIES].need()


def note(facts: Facts) -> str | None:
    """GPUs that this user may not open, where others serve. A batch system means it so, a rule of udev may not: nothing tells which."""
    fact, user, climb = facts.there(DEVICE_NODES), facts.value(USER), facts.value(LADDER)
    if fact is None or fact.value is None or user is None or user.uid == 0 or not passed(climb, "devices"):
        return None
    nodes = gpu_nodes(fact.value)
    closed = [node for node in nodes if not node.mode.endswith(("+", "?")) and not allowed(node, user, facts)]
    if not closed or len(closed) == len(nodes):
        return None
    which = listed([f"{node.path} ({rights(node)})" for node in closed[:4]])
    return (
        f"This user ({user.name}) may not open {which}: programs see {plural(len(nodes) - len(closed), 'GPU')} of {len(nodes)}. "
        "A batch system means it so; where there is none, the node's mode is wrong."
    )


def denied_by_mode(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """Mode, owner and group keep this user from reading and writing a node, and CUDA does not start."""
    nodes = facts[DEVICE_NODES]
    if nodes.value is None or elsewhere(facts, nodes) is not None:
        return
    fact = facts[USER]
    user = fact.need()
    closed = [node for node in needed(nodes.value) if node.mode.endswith("+") or not allowed(node, user, facts)]
    climb = told(facts, LADDER, nodes) if closed else None
    if not closed or passed(climb, "init"):
        return
    # What came of opening it counts for more than its mode; None: it opened.
    tried = {opening.path: opening.errno_name for opening in (climb.openings if climb is not None else ())}
    closed = [node for node in closed if tried.get(node.path) == "EACCES" or not allowed(node, user, facts)]
    stuck = [node for node in closed if tried.get(node.path, "not tried") is not None]
    surely = [node for node in stuck if not node.mode.endswith("+") or tried.get(node.path) == "EACCES"]
    if stuck and not surely:
        raise DEVICE_NODES.unknown(f"{stuck[0].path} has an access list that ls does not print")
    if surely:
        node = surely[0]
        quotes = merged(*(nodes.line_of(one.line) for one in surely[:2]), fact.some()[:1])
        values = {"group": node.group, "mode": node.mode, "user": user.name}
        values |= {"acl": "yes", "place": node.path} if allowed(node, user, facts) else {}
        yield Clue(cause="device-permission-denied", quotes=quotes, values=values)


def on_mount_without_devices(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """Opening a node gives EACCES, root too: it lies on a mount with the option nodev."""
    climb = facts[LADDER]
    refused = [opening for opening in refused_nodes(climb, "EACCES") if opening.nodev and opening.path.startswith("/dev/")]
    if refused and elsewhere(facts) is None:
        values = {"place": refused[0].path, "option": "nodev", "opposite": "dev", "device": "yes"}
        yield Clue(cause="mount-option-forbids", quotes=opening_quote(climb, refused[0]), values=values)


def denied_by_policy(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """Opening a node gives EACCES, although its mode, owner and group let this user in: a policy says no."""
    climb = facts[LADDER]
    refused = [opening for opening in refused_nodes(climb, "EACCES") if not opening.nodev]
    if not refused:
        return
    nodes, user = facts[DEVICE_NODES], facts[USER]
    if nodes.value is None or elsewhere(facts, nodes) is not None:
        return
    for opening in refused:
        node = nodes.value.find(opening.path)
        if node is not None and not node.mode.endswith("+") and allowed(node, user.need(), facts):
            if node.mode.endswith("?"):
                raise DEVICE_NODES.unknown(f"whether {node.path} has an access list")
            quotes = merged(opening_quote(climb, opening), nodes.line_of(node.line), user.some()[:1])
            yield Clue(cause="security-policy-denies-devices", quotes=quotes)
            return


def intercepted(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """The kernel opens a node that the C library refuses, and /etc/ld.so.preload or LD_PRELOAD lists what may stand between the two."""
    climb = facts[LADDER]
    opening = next((one for one in (climb.value.openings if climb.value is not None else ()) if one.intercepted), None)
    if opening is None or climb.value is None:
        return
    environment = facts[ENVIRONMENT]
    shells = variables_of(environment).get(PRELOAD, "").replace(":", " ").split()
    listed_here = [path for path in climb.value.preloaded if path not in shells]
    if listed_here:
        shown = Quote(source="/etc/ld.so.preload", text=" ".join(listed_here)[:300])
        values = {"path": listed_here[0]} if len(listed_here) == 1 else {}
    elif shells:
        shown, values = variable_quote(environment, PRELOAD), {"variable": PRELOAD}
    else:
        return
    yield Clue(cause="preloaded-library-interferes", quotes=merged(opening_quote(climb, opening), (shown,)), values=values)


def lost_in_container(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """In a container opening a node gives EPERM: the device rules of its cgroup no longer let it through."""
    climb = facts[LADDER]
    refused = refused_nodes(climb, "EPERM")
    marks = facts[CONTAINER_MARKS] if refused else None
    if marks is not None and marks.value and elsewhere(facts) is None:
        quotes = merged(*(opening_quote(climb, opening) for opening in refused[:2]), marks.some()[:1])
        yield Clue(cause=LOST, quotes=quotes)


def number_not_allowed(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """An LXC container's rules allow the GPU's own devices, and for nvidia-uvm a number that it no longer has: it is drawn anew when the
    module is loaded (Linux: Documentation/admin-guide/devices.txt, 234 to 254 and 384 to 511 are dynamic).
    """
    rules, nodes = facts.there(DEVICE_RULES), facts.there(DEVICE_NODES)
    uvm = nodes.need().find(UVM) if nodes is not None else None
    if rules is None or nodes is None or uvm is None or uvm.major not in _DYNAMIC:
        return  # a container's configuration is known from texts alone
    others = [rule for rule in rules.need().rules if rule.major != NVIDIA_MAJOR]
    if len(others) == len(rules.need().rules) or any(rule.major == uvm.major for rule in others):
        return
    old = next((rule for rule in others if rule.major in _DYNAMIC), None)
    if old is not None:
        values = {"major": str(uvm.major), "old_major": str(old.major), "lxc": rules.need().container or ""}
        quotes = merged(nodes.line_of(uvm.line), rules.line_of(old.line))
        yield Clue(cause=LOST, quotes=quotes, from_rung="init", values=values)


RULES = (
    Rule("device-nodes", ("device-permission-denied",), denied_by_mode),
    Rule("device-nodes", ("mount-option-forbids",), on_mount_without_devices),
    Rule("device-nodes", ("security-policy-denies-devices",), denied_by_policy),
    Rule("libcuda", ("preloaded-library-interferes",), intercepted),
    Rule("container", (LOST,), lost_in_container),
    Rule("container", (LOST,), number_not_allowed),
)
