"""Ties about device nodes and the state of a device: MIG, compute mode, licences, policies, limits, sleep and forks."""

from __future__ import annotations

from collections.abc import Iterator

from cudadoctor.checks.node_access import CONTROL, FIRST, allowed, gpu_nodes, needed
from cudadoctor.checks.node_access import UVM as MEMORY_NODE
from cudadoctor.checks.reading import Quotes
from cudadoctor.checks.withheld import tight
from cudadoctor.model.facts import Fact
from cudadoctor.model.findings import Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import CONTAINER_MARKS, DEVICE_NODES, DEVICE_RULES, LIMITS, LOADED_DRIVER, NVIDIA_MAJOR, SMI, USER, Smi
from cudadoctor.texts.tie_breakers.case import Case, codes, finding, joined, states, suspects
from cudadoctor.texts.tie_breakers.taken_back import NOT_READY
from cudadoctor.texts.tie_breakers.units import BUSY, UNKNOWN, of_unit

FABRIC, CONFIDENTIAL = "fabric-manager-not-running", "confidential-compute-not-ready"
PERMISSION, POLICY = "device-permission-denied", "security-policy-denies-devices"
MOUNT = "mount-option-forbids"
MODE, VGPU, MPS = "compute-mode-blocks", "vgpu-problem", "mps-problem"
IMEX, _CHANNELS = "imex-not-ready", "/dev/nvidia-caps-imex-channels"
NODES = "device-nodes-missing"
NVLINK, PEER = "nvlink-error", "peer-access-broken"
MIG, INVALID = "mig-without-instances", "cuda-visible-devices-invalid"
HMM = "kaslr-breaks-hmm"
UVM, FORKED, CEILING = "uvm-unavailable", "program-forked-after-init", "process-limits"
_LIBRARY = lazy(r"/[^\s:]{1,400}(?=: failed to map segment)")
_NOT_STARTED = lazy(r"CUDA failed to initialize")
_FULL = codes("cuda 2", "cuda 304", "cuda 999", words=r"(?i)out.of.memory|unknown error")
_NO_DEVICE = codes("cuda 100", "cuda 101", words=r"No CUDA GPUs are available|No devices (?:were )?found")
_ENGINE = lazy(r"(?i)\b(?:docker|podman|--rm|container)\b")
_COUNTED = lazy(r"Link \d{1,2}: \w")
_EXCLUSIVE = lazy(r"(?i)^(?:E\. ?(?:process|thread)|exclusive.*|prohibited)$")


# ---------------------------------------------------------------- services of data-centre machines
def confidential(case: Case) -> Iterator[Clue]:
    """Confidential computing is on, and the system (802) or the GPUs' ready state says that it is not ready."""
    if case.says("confidential-off") or case.says("confidential-ready"):
        return
    lines = case.stated(FABRIC, words=NOT_READY) or case.suspected(CONFIDENTIAL, words=NOT_READY)
    shown = [quotes for quotes in (lines, case.says("confidential"), case.says("confidential-not-ready")) if quotes]
    if len(shown) > 1:
        yield finding(CONFIDENTIAL, *shown)


def _mode_in_tables(case: Case) -> Quotes:
    return next((fact.line_of(gpu.line) for fact, gpu in case.gpus_of_tables() if _EXCLUSIVE.match(gpu.compute_mode or "")), ())


def _mode_in_lists(case: Case) -> Quotes:
    modes = ((fact, fact.need().column("compute_mode") or ()) for fact in case.lists())
    return next((fact.some()[:1] for fact, shown in modes if any(map(_EXCLUSIVE.match, shown))), ())


# ---------------------------------------------------------------- MIG
def mig_name(case: Case) -> Iterator[Clue]:
    """A MIG instance is named and CUDA finds no device: nvidia-smi -L says whether there are others, or none at all."""
    value, shown = case.variable("CUDA_VISIBLE_DEVICES")
    lines = case.suspected(INVALID, words=_NO_DEVICE) or case.suspected(MIG, words=_NO_DEVICE)
    if not value.startswith("MIG-") or not lines:
        return
    values = {"variable": "CUDA_VISIBLE_DEVICES", "value": value, "entry": value.split(",")[0], "reason": "no MIG device has this name"}
    listed = [fact for fact in case.facts.all(SMI) if _is_list(fact)]
    if not listed:
        for cause in (MIG, INVALID):
            yield finding(cause, lines, shown, basis="suspected")
        return
    names = {uuid for fact in listed for gpu in fact.need().gpus for uuid in gpu.mig_uuids}
    if not names:
        yield finding(MIG, lines, shown, listed[0].some()[:1])
    elif value.split(",")[0] not in names:
        yield finding(INVALID, shown, listed[0].some()[:2], values=values)


def mig_on(case: Case) -> Iterator[Clue]:
    """No device, and nvidia-smi's table says that MIG is on. `nvidia-smi -L` shows whether there is an instance."""
    lines = case.suspected(MIG, words=_NO_DEVICE)
    on = [fact.line_of(gpu.line) for fact, gpu in case.gpus_of_tables() if (gpu.mig or "").startswith("Enabled")]
    listed = [fact for fact in case.facts.all(SMI) if _is_list(fact)]
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
def policy(case: Case) -> Iterator[Clue]:
    """The nodes may not be opened, although their mode lets this user in; or the text shows a policy or a rootless container at work."""
    lines = case.stated(PERMISSION) or case.suspected(PERMISSION)
    if not lines or _closed_to_user(case):
        return
    open_ = _open_to_user(case)
    if open_ and case.stated(PERMISSION):
        yield finding(POLICY, lines, open_)
        return
    if (test := case.says("permissive")) and case.answered_below(test):
        yield finding(POLICY, lines, test)
        return
    inside = case.says("rootless") or (case.says("selinux") if _in_container(case, lines) else ())
    if inside:
        yield finding(POLICY, lines, inside)


def _open_to_user(case: Case) -> Quotes:
    """The nodes' lines where their mode lets everybody, or this user, read and write all of them."""
    found, known = case.facts.there(DEVICE_NODES), case.facts.value(USER)
    if found is None:
        return ()
    nodes = found.need()
    fitting = [
        node
        for node in needed(nodes)
        if node.mode[7:9] == "rw" or (known is not None and known.uid != 0 and allowed(node, known, case.facts))
    ]
    return found.line_of(fitting[0].line) if fitting and len(fitting) == len(needed(nodes)) else ()


def _closed_to_user(case: Case) -> bool:
    """The text shows the nodes and this user, whom their mode shuts out: no policy is needed for that."""
    nodes, user = case.facts.value(DEVICE_NODES), case.facts.value(USER)
    return nodes is not None and user is not None and user.uid != 0 and not all(allowed(node, user, case.facts) for node in needed(nodes))


def _in_container(case: Case, lines: Quotes) -> bool:
    there = case.facts.there(CONTAINER_MARKS) is not None
    return there or any(_ENGINE.search(quote.text) for quote in lines + case.says("selinux"))


def _no_channel(case: Case) -> Quotes:
    """What ls says where it finds no IMEX channel."""
    found = case.facts.there(DEVICE_NODES)
    paths = [path for path in found.need().absent if path.startswith(_CHANNELS)] if found is not None else []
    return found.lines_with(*paths[:1]) if found is not None and paths else ()


def memory_node_not_let_in(case: Case) -> Iterator[Clue]:
    """CUDA does not start in an LXC container whose configuration, shown whole, lets in the GPU's own devices alone: nvidia-uvm is missing
    there, and where no listing has it on the host too."""
    lines = case.stated(UVM) or case.suspected(UVM, words=UNKNOWN)
    rules, nodes = case.facts.there(DEVICE_RULES), case.facts.there(DEVICE_NODES)
    memory = nodes.need().find(MEMORY_NODE) if nodes is not None else None
    if not lines or rules is None or not rules.whole or nodes is None or any(rule.major != NVIDIA_MAJOR for rule in rules.need().rules):
        return
    lxc, rule = rules.need().container or "", rules.line_of(rules.need().rules[0].line)
    control = nodes.need().find(CONTROL)
    if memory is not None:
        yield finding("container-no-gpu-access", lines, nodes.line_of(memory.line), rule, values={"major": str(memory.major), "lxc": lxc})
    elif control is not None:
        yield finding(UVM, lines, nodes.line_of(control.line), rule, lxc=lxc)


# ---------------------------------------------------------------- nodes that a listing lacks
def only_uvm_missing(case: Case) -> Iterator[Clue]:
    """An unknown error of CUDA, and a listing of all nodes has those of the GPU and none of nvidia-uvm."""
    lines = case.suspected(UVM, words=UNKNOWN)
    if not lines or not case.says("all-nodes"):
        return
    bare, found = case.says("bare-nodes"), case.facts.there(DEVICE_NODES)
    if found is not None and found.need().find(CONTROL) is not None:
        nodes = gpu_nodes(found.need())
        if nodes and found.need().find(MEMORY_NODE) is None:
            yield finding(UVM, lines, found.line_of(nodes[0].line))
    elif bare and CONTROL in bare[0].text and FIRST in bare[0].text and MEMORY_NODE not in bare[0].text:
        yield finding(UVM, lines, bare)


# ---------------------------------------------------------------- sleep, forks, limits


def _first_call_failed(case: Case) -> Quotes:
    """cuInit itself gives code 3, and nothing is said to have forked."""
    lines = case.suspected(UVM, words=lambda clue, quote: clue.code == "cuda 3" and "cuInit" in quote.text)
    return () if case.says("fork") or case.stated(FORKED) else lines


def _memory_module(case: Case) -> Quotes:
    return case.module("nvidia_uvm")


def _open_flavour(case: Case) -> Quotes:
    """The driver that is loaded says that it is made of the open modules."""
    found = case.facts.there(LOADED_DRIVER)
    return found.quotes[:1] if found is not None and found.need().flavour == "open" else ()


def limited(case: Case) -> Iterator[Clue]:
    """CUDA cannot start or ran out of memory, and the text shows a limit that is far too low for it."""
    lines, found = case.suspected(CEILING, words=_FULL), case.facts.there(LIMITS)
    low = tight(found.need()) if lines and found is not None else None
    if found is not None and low is not None:
        yield finding(CEILING, lines, found.line_of(low.line), values={"limit": low.name, "value": low.words})


def on_mount(case: Case) -> Iterator[Clue]:
    """The loader could not map a library, and the mount that holds it is shown with noexec."""
    mount = case.says("noexec-mount")
    points = tuple(f"{word.rstrip('/')}/" for quote in mount for word in quote.text.split() if word.startswith("/"))
    for quote in case.suspicions(MOUNT):
        library = _LIBRARY.search(quote.text)
        if library is not None and library[0].startswith(points):
            yield finding(MOUNT, (quote,), mount, values={"place": library[0], "option": "noexec", "opposite": "exec"})
            return


TIES = (
    confidential,
    # The device is busy or unavailable (46), and the text speaks of the licence of a vGPU.
    joined(VGPU, suspects(MODE, words=BUSY), beside=("licence",)),
    # The driver cannot initialise a GPU that is a part lent by a host: the driver of the host is of another branch.
    joined(VGPU, states("gpu-init-failed"), beside=("vgpu-profile",)),
    # The device is busy or unavailable (46), and an exclusive or prohibited mode is shown or was set.
    joined(
        MODE,
        suspects(MODE, words=BUSY),
        beside=((_mode_in_tables, _mode_in_lists, "compute-mode"),),
        unless=(of_unit,),
    ),
    # Older drivers have no code of their own for MPS: the device is unavailable (46) where programs are sent to a daemon.
    joined(
        MPS,
        suspects(MODE, words=BUSY),
        suspects(MPS, words=_NOT_STARTED),
        beside=("mps",),
        unless=(_mode_in_tables,),
        basis="suspected",
    ),
    # An operation is not permitted (800), and there is no channel over which memory is shared between machines.
    joined(IMEX, suspects(IMEX), beside=(_no_channel,)),
    *(mig_name, mig_on, policy, memory_node_not_let_in, only_uvm_missing, on_mount),
    # No GPU is found where the host's part of vGPU is loaded. Whoever speaks of a guest may show the host too.
    joined(
        "vgpu-manager-without-cuda",
        suspects("driver-not-loaded", "libcuda-missing"),
        beside=(lambda case: case.module("nvidia_vgpu_vfio"),),
        basis="suspected",
        unsettled=True,
    ),
    # Programs run without copies between GPUs, and the counters of an NVLink show many errors: it is the link.
    joined(NVLINK, suspects(NVLINK, words=_COUNTED), beside=(states(PEER),)),
    # The driver gives a GPU's minor number, and the listing of all nodes lacks the node with this number.
    joined(NODES, beside=("node-of-minor", ("bare-nodes", "all-nodes")), only_if=("all-nodes",), unless=("in container",), unsettled=True),
    # An unknown error of CUDA on a machine that was asleep: nvidia-uvm is stale.
    joined(UVM, suspects(UVM, words=UNKNOWN), beside=("suspend",), suspended="yes"),
    # The memory module of the driver failed, unless the program speaks of children. Where it is loaded, and of the open flavour, its
    # support for shared page tables found no room.
    joined(UVM, _first_call_failed, unless=("children", _memory_module, _open_flavour)),
    joined(HMM, _first_call_failed, beside=(_memory_module, _open_flavour), unless=("children",)),
    joined((UVM, HMM), _first_call_failed, beside=((_memory_module, _open_flavour),), unless=("children",), basis="suspected"),
    joined(FORKED, _first_call_failed, beside=("children",), basis="suspected"),
    limited,
)
