"""Ties about device nodes and the state of a device: MIG, compute mode, licences, policies, limits, sleep and forks."""

from __future__ import annotations

from collections.abc import Iterator

from cudadoctor.checks.node_access import CONTROL, FIRST, allowed, gpu_nodes, needed
from cudadoctor.checks.node_access import UVM as MEMORY_NODE
from cudadoctor.checks.reading import Quotes
from cudadoctor.checks.withheld import tight
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Fact, Facts
from cudadoctor.model.findings import Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import CONTAINER_MARKS, DEVICE_NODES, LIMITS, SMI, SMI_CSV, USER, Smi
from cudadoctor.texts.tie_breakers.joining import joined, states, suspects
from cudadoctor.texts.tie_breakers.place import place_of
from cudadoctor.texts.tie_breakers.said import Said, codes, finding, gpus_of_tables, mention, stated, suspected, variable

FABRIC, CONFIDENTIAL = "fabric-manager-not-running", "confidential-compute-not-ready"
PERMISSION, POLICY = "device-permission-denied", "security-policy-denies-devices"
MODE, VGPU, MPS = "compute-mode-blocks", "vgpu-problem", "mps-problem"
NODES, SERVICE = "device-nodes-missing", "service-without-devices"
_NO_GPU = frozenset(("driver", "nodes", "libcuda", "init", "devices", "nvml"))  # rungs that break where no device file is there
MIG, INVALID = "mig-without-instances", "cuda-visible-devices-invalid"
UVM, FORKED, CEILING = "uvm-unavailable", "program-forked-after-init", "process-limits"
_NOT_READY = lazy(r"802|not yet initialized|SYSTEM_NOT_READY|SystemNotReady")
_BUSY = codes("cuda 46")
_NOT_STARTED = lazy(r"CUDA failed to initialize")
_UNKNOWN = codes("cuda 999", "cuda 304", words=r"unknown error")
NOT_INITIALIZED, _STARTING = "cuda 3", lazy(r"cuInit")
_FULL = codes("cuda 2", "cuda 304", "cuda 999", words=r"(?i)out.of.memory|unknown error")
_NO_DEVICE = codes("cuda 100", "cuda 101", words=r"No CUDA GPUs are available|No devices (?:were )?found")
_ENGINE = lazy(r"(?i)\b(?:docker|podman|--rm|container)\b")
_EXCLUSIVE = lazy(r"(?i)^(?:E\. ?(?:process|thread)|exclusive.*|prohibited)$")


# ---------------------------------------------------------------- services of data-centre machines
def confidential(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """Confidential computing is on, and the system (802) or the GPUs' ready state says that it is not ready."""
    if mention(facts, "confidential-off") or mention(facts, "confidential-ready"):
        return
    lines = stated(said, FABRIC, words=_NOT_READY) or suspected(said, CONFIDENTIAL, _NOT_READY)
    shown = [quotes for quotes in (lines, mention(facts, "confidential"), mention(facts, "confidential-not-ready")) if quotes]
    if len(shown) > 1:
        yield finding(CONFIDENTIAL, *shown)


def compute_mode(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """The device is busy or unavailable (46), and an exclusive or prohibited mode is shown or was set."""
    lines = suspected(said, MODE, _BUSY)
    shown = (_mode_in_tables(facts) or _mode_in_lists(facts) or mention(facts, "compute-mode")) if lines else ()
    if lines and shown:
        yield finding(MODE, lines, shown)


def prohibited(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """A table that shows the mode Prohibited: no program can make a context there, whatever it says itself."""
    shown = next((line for mode, line in _modes(facts) if mode.lower() == "prohibited"), ())
    if shown:
        yield finding(MODE, shown)


def _modes(facts: Facts) -> Iterator[tuple[str, Quotes]]:
    """The compute mode of each GPU in tables, with its line."""
    return ((gpu.compute_mode, fact.line_of(gpu.line)) for fact, gpu in gpus_of_tables(facts) if gpu.compute_mode is not None)


def _mode_in_tables(facts: Facts) -> Quotes:
    return next((line for mode, line in _modes(facts) if _EXCLUSIVE.match(mode)), ())


def _mode_in_lists(facts: Facts) -> Quotes:
    for fact in facts.all(SMI_CSV):
        modes = fact.value.column("compute_mode") if fact.value is not None else None
        if any(_EXCLUSIVE.match(mode) for mode in modes or ()):
            return fact.some()[:1]
    return ()


def mps_variable(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """Older drivers have no code of their own for MPS: the device is unavailable (46) where programs are sent to a daemon."""
    lines, shown = suspected(said, MODE, _BUSY) or suspected(said, MPS, _NOT_STARTED), mention(facts, "mps")
    if lines and shown and not _mode_in_tables(facts):
        yield finding(MPS, lines, shown, basis="suspected")


# ---------------------------------------------------------------- MIG
def mig_name(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """A MIG instance is named and CUDA finds no device: nvidia-smi -L says whether there are others, or none at all."""
    value, shown = variable(facts, "CUDA_VISIBLE_DEVICES")
    lines = suspected(said, INVALID, _NO_DEVICE) or suspected(said, MIG, _NO_DEVICE)
    if not value.startswith("MIG-") or not lines:
        return
    values = {"variable": "CUDA_VISIBLE_DEVICES", "value": value, "entry": value.split(",")[0], "reason": "no MIG device has this name"}
    listed = [fact for fact in facts.all(SMI) if _is_list(fact)]
    if not listed:
        for cause in (MIG, INVALID):
            yield finding(cause, lines, shown, basis="suspected")
        return
    names = {uuid for fact in listed for gpu in fact.need().gpus for uuid in gpu.mig_uuids}
    if not names:
        yield finding(MIG, lines, shown, listed[0].some()[:1])
    elif value.split(",")[0] not in names:
        yield finding(INVALID, shown, listed[0].some()[:2], values=values)


def mig_on(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """No device, and nvidia-smi's table says that MIG is on. `nvidia-smi -L` shows whether there is an instance."""
    lines = suspected(said, MIG, _NO_DEVICE)
    on = [fact.line_of(gpu.line) for fact, gpu in gpus_of_tables(facts) if (gpu.mig or "").startswith("Enabled")]
    listed = [fact for fact in facts.all(SMI) if _is_list(fact)]
    if not lines or not on:
        return
    if listed and not any(gpu.mig_uuids for fact in listed for gpu in fact.need().gpus):
        yield finding(MIG, lines, on[0])
    elif not listed:
        yield finding(MIG, lines, on[0], basis="suspected")


def _is_list(fact: Fact[Smi]) -> bool:
    """Whether this is `nvidia-smi -L`: UUIDs and nothing else."""
    return fact.value is not None and bool(fact.value.gpus) and all(gpu.uuid is not None and gpu.address is None for gpu in fact.value.gpus)


# ---------------------------------------------------------------- who may open the nodes
def policy(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """The nodes may not be opened, although their mode lets this user in; or the text shows a policy or a rootless container at work."""
    lines = stated(said, PERMISSION) or suspected(said, PERMISSION)
    if not lines or _closed_to_user(facts):
        return
    open_ = _open_to_user(facts)
    if open_ and stated(said, PERMISSION):
        yield finding(POLICY, lines, open_)
        return
    if (test := mention(facts, "permissive")) and _answers_after(facts, test):
        yield finding(POLICY, lines, test)
        return
    inside = mention(facts, "rootless") or (mention(facts, "selinux") if _in_container(facts, lines) else ())
    if inside:
        yield finding(POLICY, lines, inside)


def _answers_after(facts: Facts, quotes: Quotes) -> bool:
    """Whether nvidia-smi lists a GPU below these lines."""
    return any((fact.quotes[0].first or 0) > (quotes[0].first or 0) for fact, _ in gpus_of_tables(facts))


def closed_nodes(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """Nothing is stated, and a listing shows a node that not everybody may open."""
    found = facts.there(DEVICE_NODES)
    closed = next((node for node in needed(found.need()) if node.mode[7:9] != "rw"), None) if found is not None and not said else None
    if found is not None and closed is not None:
        yield finding(PERMISSION, found.line_of(closed.line)[:1], basis="suspected")


def _open_to_user(facts: Facts) -> Quotes:
    """The nodes' lines where their mode lets everybody, or this user, read and write all of them."""
    found, known = facts.there(DEVICE_NODES), facts.value(USER)
    if found is None:
        return ()
    nodes = found.need()
    fitting = [
        node for node in needed(nodes) if node.mode[7:9] == "rw" or (known is not None and known.uid != 0 and allowed(node, known, facts))
    ]
    return found.line_of(fitting[0].line) if fitting and len(fitting) == len(needed(nodes)) else ()


def _closed_to_user(facts: Facts) -> bool:
    """The text shows the nodes and this user, whom their mode shuts out: no policy is needed for that."""
    nodes, user = facts.value(DEVICE_NODES), facts.value(USER)
    return nodes is not None and user is not None and user.uid != 0 and not all(allowed(node, user, facts) for node in needed(nodes))


def _in_container(facts: Facts, lines: Quotes) -> bool:
    there = facts.there(CONTAINER_MARKS) is not None
    return there or any(_ENGINE.search(quote.text) for quote in lines + mention(facts, "selinux"))


def hidden_by_unit(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """A program reaches no GPU, and the unit that starts it has PrivateDevices=yes: a /dev without hardware."""
    unit = next((clue for clue in said if clue.cause == SERVICE), None)
    without = (clue for clue in said if clue.cause != SERVICE and not clue.advice and _NO_GPU & {*knowledge.causes[clue.cause].breaks})
    lines = next((clue.quotes[:1] for clue in without), ())
    if unit is not None and lines:
        yield finding(SERVICE, lines, unit.quotes, values=unit.values)


# ---------------------------------------------------------------- nodes that a listing lacks
def only_uvm_missing(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """An unknown error of CUDA, and a listing of all nodes has those of the GPU and none of nvidia-uvm."""
    lines, place = suspected(said, UVM, _UNKNOWN), place_of(facts)
    if not lines or not place.said("all-nodes"):
        return
    bare, found = place.said("bare-nodes"), facts.there(DEVICE_NODES)
    if found is not None and found.need().find(CONTROL) is not None:
        nodes = gpu_nodes(found.need())
        if nodes and found.need().find(MEMORY_NODE) is None:
            yield finding(UVM, lines, found.line_of(nodes[0].line))
    elif bare and CONTROL in bare[0].text and FIRST in bare[0].text and MEMORY_NODE not in bare[0].text:
        yield finding(UVM, lines, bare)


# ---------------------------------------------------------------- sleep, forks, limits


def not_initialised(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """cuInit itself gives code 3 and nothing forked: the memory module of the driver failed."""
    lines = suspected([clue for clue in said if clue.code == NOT_INITIALIZED], UVM, _STARTING)
    if not lines or mention(facts, "fork") or stated(said, FORKED):
        return
    if mention(facts, "children"):
        yield finding(FORKED, lines, mention(facts, "children"), basis="suspected")
    else:
        yield finding(UVM, lines)


def limited(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """CUDA cannot start or ran out of memory, and the text shows a limit that is far too low for it."""
    lines, found = suspected(said, CEILING, _FULL), facts.there(LIMITS)
    low = tight(found.need()) if lines and found is not None else None
    if found is not None and low is not None:
        yield finding(CEILING, lines, found.line_of(low.line), values={"limit": low.name, "value": low.words})


TIES = (
    confidential,
    # The device is busy or unavailable (46), and the text speaks of the licence of a vGPU.
    joined(VGPU, suspects(MODE, _BUSY), beside=("licence",)),
    # The driver cannot initialise a GPU that is a part lent by a host: the driver of the host is of another branch.
    joined(VGPU, states("gpu-init-failed"), beside=("vgpu-profile",)),
    *(compute_mode, prohibited, mps_variable, mig_name, mig_on, policy, closed_nodes, hidden_by_unit, only_uvm_missing),
    # The driver gives a GPU's minor number, and the listing of all nodes lacks the node with this number.
    joined(NODES, beside=("node-of-minor", "bare-nodes|all-nodes"), only_if=("all-nodes",), unless=("in container",), unsettled=True),
    # An unknown error of CUDA on a machine that was asleep: nvidia-uvm is stale.
    joined(UVM, suspects(UVM, _UNKNOWN), beside=("suspend",)),
    *(not_initialised, limited),
)
