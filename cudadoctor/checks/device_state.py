"""Rules about a device that is there and refuses work: MIG, compute mode, MPS, NVSwitch fabric, confidential computing, vGPU.

Each rule shows itself in the row of its cause; the rows take them over from here.
"""

from __future__ import annotations

from collections.abc import Iterator

from cudadoctor.checks.base import Rule
from cudadoctor.checks.common import answering_gpus, rung_quote, variable_quote, variables_of
from cudadoctor.checks.processes import computing, holders
from cudadoctor.checks.reading import broken, hung, passed, same_address, subject_of, told
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Fact, Facts, Quote
from cudadoctor.model.findings import Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import ENVIRONMENT, LADDER, MODULES, NVML, PCI, PROCESSES, Ladder, Nvml, NvmlGpu, RungResult

MODE, MPS, MIG = "compute-mode-blocks", "mps-problem", "mig-without-instances"
FABRIC, CONFIDENTIAL, VGPU = "fabric-manager-not-running", "confidential-compute-not-ready", "vgpu-problem"
SUBNET, REFUSED = "nvlink-subnet-manager-missing", "nvlink-fabric-incomplete"
UNAVAILABLE = 46  # CUDA_ERROR_DEVICE_UNAVAILABLE
NOT_READY = 802  # CUDA_ERROR_SYSTEM_NOT_READY
MPS_CODES = range(805, 811)
OLD_MPS_CODES = (3, 46, 304, 999)  # what drivers before 470 answer where MPS does not serve
PIPES = "CUDA_MPS_PIPE_DIRECTORY"
_UNREADY_FABRIC = ("not-started", "in-progress")
_REGISTERED = ("Success", "N/A")
_OVER_INFINIBAND = lazy(r"\bB[123]00\b")  # HGX B200 and its like manage their switches so; those of a GB200 stand in the rack
_SUBNET_MODULES = ("mlx5_ib", "ib_umad")
MELLANOX = "15b3"  # PCI vendor of the ports through which the switches are managed
_UNLICENSED = ("unlicensed", "expired")


def _said(fact: Fact[Nvml], gpu: NvmlGpu, words: str, *needles: str) -> Quote:
    """NVML's line about one value of a GPU."""
    return fact.line_with(f"GPU {gpu.index}", *needles, words=f"GPU {gpu.index}: {words}")


def _tries(ladder: Ladder | None, gpu: NvmlGpu) -> list[RungResult]:
    """The rungs that were climbed on this GPU."""
    if ladder is None:
        return []
    numbers = [device.index for device in ladder.devices if same_address(device.address, gpu.address)]
    return [entry for entry in ladder.rungs if entry.gpu in numbers[:1]]


def _unavailable(climb: Fact[Ladder], gpu: NvmlGpu) -> tuple[Quote, ...]:
    """The ladder's line where this GPU was not available to it."""
    refused = [entry for entry in _tries(climb.value, gpu) if entry.rung in ("context", "memory") and entry.code == UNAVAILABLE]
    return tuple(rung_quote(climb, entry) for entry in refused[:1])


# ---------------------------------------------------------------- compute mode and MPS
def compute_mode(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """No program may use the GPU, or only one, and one does."""
    nvml, gpus = answering_gpus(facts)
    for gpu in gpus:
        mode = gpu.compute_mode or "default"
        if mode == "default":
            continue
        climb = facts[LADDER]
        contexts = [entry.status for entry in _tries(climb.value, gpu) if entry.rung == "context"]
        if contexts and set(contexts) == {"pass"}:
            continue
        refused = _unavailable(climb, gpu)
        holder = _holder(facts, nvml, gpus, gpu) if mode != "prohibited" else ()
        if mode == "prohibited" or refused or holder:
            quotes = (_said(nvml, gpu, f"compute mode {mode}", "compute mode"), *refused, *holder)
            yield Clue(cause=MODE, quotes=quotes, subject=subject_of(gpu.address))


def _holder(facts: Facts, nvml: Fact[Nvml], gpus: tuple[NvmlGpu, ...], gpu: NvmlGpu) -> tuple[Quote, ...]:
    """The line of a compute process on this GPU."""
    table = facts[PROCESSES].value
    found = [entry.pid for entry in holders(nvml.need(), table, gpus, gpu) if computing(entry)] if table is not None else []
    return tuple(nvml.line_with(f"process {pid} ", words=f"GPU {gpu.index}: process {pid}") for pid in found[:1])


def mps(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """CUDA is sent to an MPS daemon and does not start: by its code, or, where NVML answers, by no answer at all."""
    environment, nvml = facts[ENVIRONMENT], facts.value(NVML)
    pipes = variables_of(environment).get(PIPES)
    if pipes is None and not hung(facts, "ladder"):
        return
    climb = facts[LADDER]
    if climb.value is None or passed(climb.value, "context"):
        return
    failed = broken(climb.value, "init", "context")
    refused = [result for result in failed if pipes is not None and result.code in (*MPS_CODES, *OLD_MPS_CODES)]
    silent = [result for result in failed if result.status == "hang" and nvml is not None and nvml.code == 0]
    stopped = _stopped_daemon(facts, pipes) if silent else ()
    if refused or (silent and (pipes is not None or stopped)):
        shown = (variable_quote(environment, PIPES),) if pipes is not None else ()
        quotes = (rung_quote(climb, (*refused, *silent)[0]), *shown, *stopped)
        yield Clue(cause=MPS, quotes=quotes, values={"path": pipes} if pipes is not None else {})


def _stopped_daemon(facts: Facts, pipes: str | None) -> tuple[Quote, ...]:
    """The line of a process of MPS that a signal stopped. Where the variable sends CUDA there, nobody need know the processes."""
    table = facts[PROCESSES] if pipes is None else facts.there(PROCESSES)
    listed = table.value.processes if table is not None and table.value is not None else ()
    stopped = [entry.pid for entry in listed if entry.state == "stopped" and (entry.command or "").startswith("nvidia-cuda-mps-")]
    return tuple(table.line_with(f"process {pid},", words=f"process {pid}, stopped") for pid in stopped[:1] if table is not None)


# ---------------------------------------------------------------- MIG
def mig(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """MIG is on, and the GPU has no instance."""
    nvml, gpus = answering_gpus(facts)
    for gpu in gpus:
        if gpu.mig_mode != "enabled" or gpu.mig_uuids:
            continue
        if "mig_uuids" in gpu.errors:
            raise NVML.unknown(f"GPU {gpu.index}: the MIG instances could not be listed")
        quote = _said(nvml, gpu, "MIG is enabled and no instance is listed", "MIG")
        yield Clue(cause=MIG, quotes=(quote,), subject=subject_of(gpu.address))


# ---------------------------------------------------------------- fabric, confidential computing, vGPU
def _refused(facts: Facts, base: Fact[Nvml]) -> tuple[Quote, ...] | None:
    """The ladder's line where cuInit says that the system is not ready; None where cuInit works, () where nobody looked."""
    climb = told(facts, LADDER, base)
    if climb is None:
        return ()
    if passed(climb, "init"):
        return None
    return tuple(rung_quote(facts[LADDER], result) for result in broken(climb, "init") if result.code == NOT_READY)[:1]


def fabric(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """GPUs behind NVSwitch have not joined the fabric, and CUDA does not start."""
    nvml, gpus = answering_gpus(facts)
    waiting = [gpu for gpu in gpus if gpu.fabric_state in _UNREADY_FABRIC]
    if not waiting:
        return
    refused = _refused(facts, nvml)
    if refused is not None:
        missing = _subnet_modules_missing(facts, waiting[0])
        yield Clue(cause=SUBNET if missing else FABRIC, quotes=(*refused, _fabric_line(nvml, waiting[0]), *missing))


def _fabric_line(nvml: Fact[Nvml], gpu: NvmlGpu) -> Quote:
    return _said(nvml, gpu, f"fabric state {gpu.fabric_state}, status {gpu.fabric_status}", "fabric")


def _subnet_modules_missing(facts: Facts, gpu: NvmlGpu) -> tuple[Quote, ...]:
    """The modules that reach this GPU's switches and are known not to be loaded. Where no port of the switches is seen, as in a virtual
    machine that was given some GPUs, somebody else manages them."""
    listings = [fact for fact in facts.all(MODULES) if fact.whole and fact.value is not None]
    ports = (function.vendor == MELLANOX for fact in facts.all(PCI) if fact.value is not None for function in fact.value.functions)
    if not listings or not _OVER_INFINIBAND.search(gpu.name or "") or not any(ports):
        return ()
    gone = [name for name in _SUBNET_MODULES if all(fact.need().find(name) is None for fact in listings)]
    return tuple(Quote(source=listings[0].quotes[0].source, text=f"kernel module {name}: not loaded") for name in gone)


def fabric_refused(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """The registration of a GPU with the fabric is over and has failed: alone it works, its links lead nowhere."""
    nvml, gpus = answering_gpus(facts)
    for gpu in gpus:
        if gpu.fabric_state == "completed" and (gpu.fabric_status or "Success") not in _REGISTERED:
            yield Clue(cause=REFUSED, quotes=(_fabric_line(nvml, gpu),), subject=subject_of(gpu.address))


def confidential(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """Confidential computing is on, and the GPUs accept no work yet."""
    fact = facts[NVML]
    if fact.value is None or fact.value.confidential_compute in (None, "off") or fact.value.confidential_compute_ready is not False:
        return
    refused = _refused(facts, fact)
    if refused is not None:
        words = f"confidential computing {fact.value.confidential_compute}, GPUs not ready"
        yield Clue(cause=CONFIDENTIAL, quotes=(*refused, fact.line_with("onfidential", words=words)))


def vgpu(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """A share of the host's GPU without its licence, on which CUDA is refused or was not looked at."""
    nvml, gpus = answering_gpus(facts)
    for gpu in gpus:
        if gpu.vgpu_mode != "vgpu" or not (gpu.vgpu_license or "").startswith(_UNLICENSED):
            continue
        refused = _unavailable(facts[LADDER], gpu) if told(facts, LADDER, nvml) is not None else ()
        quotes = (*refused, _said(nvml, gpu, f"vGPU, licence {gpu.vgpu_license}", "licen"))
        yield Clue(cause=VGPU, quotes=quotes, subject=subject_of(gpu.address))


OF_PROCESSES = (Rule("processes", (MODE,), compute_mode), Rule("processes", (MPS,), mps))
OF_NVML = (Rule("nvml", (MIG,), mig), Rule("nvml", (VGPU,), vgpu))
OF_HEALTH = (
    Rule("health", (FABRIC, SUBNET), fabric),
    Rule("health", (REFUSED,), fabric_refused),
    Rule("health", (CONFIDENTIAL,), confidential),
)
