"""Rules about a device that is there and refuses work: MIG, compute mode, MPS, NVSwitch fabric, confidential computing, vGPU.

Each rule shows itself in the row of its cause; the rows take them over from here.
"""

from __future__ import annotations

from collections.abc import Iterator

from cudadoctor.checks.base import Rule
from cudadoctor.checks.common import broken, line_with, passed, rung_quote, variable_quote, variables_of
from cudadoctor.checks.processes import holders
from cudadoctor.checks.reading import plain_address, same_address, told, unknown
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Fact, Facts, Quote
from cudadoctor.model.findings import Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import ENVIRONMENT, LADDER, MODULES, NVML, PCI, PROCESSES, CudaDevice, Ladder, Nvml, NvmlGpu, RungResult

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


def _nvml(facts: Facts) -> tuple[Fact[Nvml], tuple[NvmlGpu, ...]]:
    """NVML's GPUs; unknown where it does not start."""
    fact = facts[NVML]
    if fact.value is None or fact.value.code != 0:
        raise unknown(NVML, "NVML does not start")
    return fact, tuple(gpu for gpu in fact.value.gpus if gpu.handle_error is None)


def _subject(gpu: NvmlGpu) -> str:
    return f"gpu:{plain_address(gpu.address)}" if gpu.address is not None else "machine"


def _said(fact: Fact[Nvml], gpu: NvmlGpu, words: str, *needles: str) -> Quote:
    """NVML's line about one value of a GPU."""
    return line_with(fact, f"GPU {gpu.index}", *needles, words=f"GPU {gpu.index}: {words}")


def _device(ladder: Ladder | None, gpu: NvmlGpu) -> CudaDevice | None:
    return next((entry for entry in ladder.devices if same_address(entry.address, gpu.address)), None) if ladder is not None else None


def _broken_on(ladder: Ladder | None, gpu: NvmlGpu, codes: tuple[int, ...]) -> RungResult | None:
    """The try to use this GPU that ended with one of these codes."""
    device = _device(ladder, gpu)
    if ladder is None or device is None:
        return None
    results = (*broken(ladder, "context"), *broken(ladder, "memory"))
    return next((result for result in results if result.gpu == device.index and result.code in codes), None)


def _serves(ladder: Ladder | None, gpu: NvmlGpu) -> bool:
    """Whether a context was seen to work on this GPU."""
    device = _device(ladder, gpu)
    results = (
        [entry for entry in ladder.result("context") if device is not None and entry.gpu == device.index] if ladder is not None else []
    )
    return bool(results) and all(entry.status == "pass" for entry in results)


# ---------------------------------------------------------------- compute mode and MPS
def compute_mode(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """No program may use the GPU, or only one, and one does."""
    nvml, gpus = _nvml(facts)
    for gpu in gpus:
        if gpu.compute_mode in (None, "default"):
            continue
        climb = facts[LADDER]
        if _serves(climb.value, gpu):
            continue
        mode = gpu.compute_mode or ""
        shown = [_said(nvml, gpu, f"compute mode {mode}", "compute mode")]
        refused = _broken_on(climb.value, gpu, (UNAVAILABLE,))
        if refused is not None:
            shown.append(rung_quote(climb, refused))
        values = {"gpu": str(gpu.index), "mode": mode}
        if mode != "prohibited":
            holder = _holder(facts, nvml, gpus, gpu)
            if refused is None and holder is None:
                continue
            if holder is not None:
                shown.append(holder)
        yield Clue(cause=MODE, quotes=tuple(shown), subject=_subject(gpu), values=values)


def _holder(facts: Facts, nvml: Fact[Nvml], gpus: tuple[NvmlGpu, ...], gpu: NvmlGpu) -> Quote | None:
    """The line of a compute process on this GPU."""
    table = facts[PROCESSES]
    if table.value is None:
        return None
    found = [
        entry for entry in holders(nvml.need(), table.value, gpus, gpu) if entry.listed is not None and "C" in (entry.listed.kind or "C")
    ]
    if not found:
        return None
    return line_with(nvml, f"process {found[0].pid} ", words=f"GPU {gpu.index}: process {found[0].pid}")


def mps(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """CUDA is sent to an MPS daemon and does not start."""
    environment = facts[ENVIRONMENT]
    if PIPES not in variables_of(environment):
        return
    climb = facts[LADDER]
    if climb.value is None or passed(climb.value, "context"):
        return
    failed = [result for rung in ("init", "context") for result in broken(climb.value, rung)]
    codes = [result for result in failed if result.code in MPS_CODES or result.code in OLD_MPS_CODES]
    if codes:
        quotes = (rung_quote(climb, codes[0]), variable_quote(environment, PIPES))
        yield Clue(cause=MPS, quotes=quotes, values={"path": variables_of(environment)[PIPES]})


# ---------------------------------------------------------------- MIG
def mig(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """MIG is on, and the GPU has no instance."""
    nvml, gpus = _nvml(facts)
    for gpu in gpus:
        if gpu.mig_mode != "enabled" or gpu.mig_uuids:
            continue
        if "mig_uuids" in gpu.errors:
            raise unknown(NVML, f"GPU {gpu.index}: the MIG instances could not be listed")
        values = {"gpu": str(gpu.index)}
        quote = _said(nvml, gpu, "MIG is enabled and no instance is listed", "MIG")
        yield Clue(cause=MIG, quotes=(quote,), subject=_subject(gpu), values=values)


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
    nvml, gpus = _nvml(facts)
    waiting = [gpu for gpu in gpus if gpu.fabric_state in _UNREADY_FABRIC]
    if not waiting:
        return
    refused = _refused(facts, nvml)
    if refused is None:
        return
    gpu = waiting[0]
    missing = _subnet_modules_missing(facts, gpu)
    quotes = (*refused, _fabric_line(nvml, gpu), *missing)
    yield Clue(cause=SUBNET if missing else FABRIC, quotes=quotes, values={"state": gpu.fabric_state or ""})


def _fabric_line(nvml: Fact[Nvml], gpu: NvmlGpu) -> Quote:
    return _said(nvml, gpu, f"fabric state {gpu.fabric_state}, status {gpu.fabric_status}", "fabric")


def _subnet_modules_missing(facts: Facts, gpu: NvmlGpu) -> tuple[Quote, ...]:
    """The modules that reach this GPU's switches and are known not to be loaded. Where no port of the switches is seen, as in a virtual
    machine that was given some GPUs, somebody else manages them."""
    listings = [fact for fact in facts.all(MODULES) if fact.whole and fact.value is not None]
    if not listings or not _OVER_INFINIBAND.search(gpu.name or "") or not _has_mellanox(facts):
        return ()
    gone = [name for name in _SUBNET_MODULES if all(fact.need().find(name) is None for fact in listings)]
    return tuple(Quote(source=listings[0].quotes[0].source, text=f"kernel module {name}: not loaded") for name in gone)


def _has_mellanox(facts: Facts) -> bool:
    return any(function.vendor == MELLANOX for fact in facts.all(PCI) if fact.value is not None for function in fact.value.functions)


def fabric_refused(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """The registration of a GPU with the fabric is over and has failed: alone it works, its links lead nowhere."""
    nvml, gpus = _nvml(facts)
    for gpu in gpus:
        if gpu.fabric_state == "completed" and (gpu.fabric_status or "Success") not in _REGISTERED:
            yield Clue(cause=REFUSED, quotes=(_fabric_line(nvml, gpu),), subject=_subject(gpu), values={"status": gpu.fabric_status or ""})


def confidential(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """Confidential computing is on, and the GPUs accept no work yet."""
    fact = facts[NVML]
    if fact.value is None or fact.value.confidential_compute in (None, "off") or fact.value.confidential_compute_ready is not False:
        return
    refused = _refused(facts, fact)
    if refused is not None:
        words = f"confidential computing {fact.value.confidential_compute}, GPUs not ready"
        yield Clue(cause=CONFIDENTIAL, quotes=(*refused, line_with(fact, "onfidential", words=words)))


def vgpu(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """A share of the host's GPU without its licence, on which CUDA is refused or was not looked at."""
    nvml, gpus = _nvml(facts)
    for gpu in gpus:
        if gpu.vgpu_mode != "vgpu" or not (gpu.vgpu_license or "").startswith(_UNLICENSED):
            continue
        quotes = [_said(nvml, gpu, f"vGPU, licence {gpu.vgpu_license}", "licen")]
        refused = _broken_on(told(facts, LADDER, nvml), gpu, (UNAVAILABLE,))
        if refused is not None:
            quotes.insert(0, rung_quote(facts[LADDER], refused))
        yield Clue(
            cause=VGPU, quotes=tuple(quotes), subject=_subject(gpu), values={"gpu": str(gpu.index), "licence": gpu.vgpu_license or ""}
        )


OF_PROCESSES = (Rule("processes", (MODE,), compute_mode), Rule("processes", (MPS,), mps))
OF_NVML = (Rule("nvml", (MIG,), mig), Rule("nvml", (VGPU,), vgpu))
OF_HEALTH = (
    Rule("health", (FABRIC, SUBNET), fabric),
    Rule("health", (REFUSED,), fabric_refused),
    Rule("health", (CONFIDENTIAL,), confidential),
)
