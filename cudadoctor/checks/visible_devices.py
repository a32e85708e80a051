"""Row visible-devices: which GPUs CUDA_VISIBLE_DEVICES and its kin leave to a program.

`resolve` reads the variable as libcuda does. Its rules were measured (driver 580, two GPUs): an entry is read like C's strtol,
so blanks and signs before a number and any text behind it are ignored; a name needs `GPU-` and enough of the UUID to be unique;
the list ends at the first entry that cannot be used, and what stands before it stays; a GPU named twice is an error (101).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec

from cudadoctor.checks.base import Check, Line, Rule
from cudadoctor.checks.common import plural, rung_quote, variable_quote, variables_of
from cudadoctor.checks.node_access import gpu_nodes
from cudadoctor.checks.reading import broken, climbed, passed
from cudadoctor.inventory.devices import Device, cuda_answered, devices_of, other_order
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Fact, Facts, NotKnown, Quote, Unknown
from cudadoctor.model.findings import Basis, Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import DEVICE_NODES, ENVIRONMENT, LADDER, LOADED_DRIVER, NVML, PCI, WSL, Environment

VARIABLE = "CUDA_VISIBLE_DEVICES"
ORDER = "CUDA_DEVICE_ORDER"
UUID_SHOWN = 12  # characters of a UUID (GPU- and eight digits): as a value of CUDA_VISIBLE_DEVICES they do where no other begins so
HIDES, INVALID, SCHEDULER = "cuda-visible-devices-hides-all", "cuda-visible-devices-invalid", "scheduler-gave-no-gpu"
JOB_VARIABLES = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID", "_CONDOR_SLOT")
HIDDEN_BY_SCHEDULERS = ("NoDevFiles", "10000")  # what Slurm and HTCondor set for a job without a GPU
GPU_LISTS = ("SLURM_JOB_GPUS", "SLURM_STEP_GPUS", "GPU_DEVICE_ORDINAL", "PBS_GPUFILE", "LSB_GPU_ALLOC")
NO_DEVICE, BAD_ORDINAL = 100, 101  # what cuInit answers

Reason = Literal[
    "empty", "negative", "no-number", "no-such-index", "no-such-uuid", "ambiguous-uuid", "wrong-form", "duplicate", "mixed", "no-such-mig",
]  # fmt: skip
# An entry of one of these forms names no GPU at all; every other bad entry names one that is not there.
NAMES_NOTHING: tuple[Reason, ...] = ("empty", "negative", "no-number")
_WORDS: dict[Reason, str] = {
    "empty": "an empty entry", "negative": "a negative number", "no-number": "neither a number nor a UUID",
    "no-such-index": "no GPU has this number", "no-such-uuid": "no GPU has this UUID", "ambiguous-uuid": "fits more than one GPU",
    "wrong-form": "a UUID is written GPU- in capitals, then the digits", "duplicate": "this GPU is named twice",
    "mixed": "numbers and names cannot be mixed", "no-such-mig": "no MIG device has this name",
}  # fmt: skip

_NUMBER = lazy(r"[ \t\n\v\f\r]{0,100}([+-]?\d{1,100})")
_BARE_UUID = lazy(r"\s{0,20}[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\s{0,20}$")
# "0 1", "0;1", "0-1", and commas of other scripts: the second number is never read.
_JOINED = lazy(r"\s{0,20}\+?\d{1,20}(?:\s{1,20}|\s{0,20}[^\w\s]\s{0,20})\d")


class Resolution(msgspec.Struct, frozen=True, kw_only=True):
    """What libcuda makes of a value. `visible` are places in the list of GPUs, in the order that the program sees."""

    visible: tuple[int, ...] = ()
    mig: tuple[str, ...] = ()
    code: int = 0
    bad: str | None = None  # the first entry that cannot be used
    reason: Reason | None = None
    rest: tuple[str, ...] = ()  # entries behind it that are dropped with it
    unread: tuple[str, ...] = ()  # entries of which only the first number is read, though a second follows
    judged: bool = True  # False: entries were taken as good for want of a list of GPUs


class _StopError(Exception):
    """The entry at hand cannot be used."""

    def __init__(self, reason: Reason) -> None:
        self.reason = reason


def resolve(value: str, uuids: Sequence[str | None] | None, *, mig_uuids: Sequence[str] = (), mig_possible: bool = False) -> Resolution:
    """CUDA_VISIBLE_DEVICES as libcuda reads it.

    `uuids`: one per GPU in CUDA's order, None where a UUID is not known; None for the whole: the number of GPUs is not known.
    `mig_possible`: MIG is on somewhere, so a MIG name that is not listed is not known to be wrong.
    """
    entries = value.split(",")
    visible: list[int] = []
    mig: list[str] = []
    unread: list[str] = []
    guessed = False
    names: bool | None = None  # whether the list holds names or numbers
    for place, entry in enumerate(entries):
        named = entry.startswith(("MIG-", "GPU-"))
        try:
            found, sure = _entry(entry, uuids, mig_uuids, mig_possible)
            if names not in (None, named):
                raise _StopError("mixed")
        except _StopError as stop:
            return Resolution(
                visible=tuple(visible), mig=tuple(mig), code=0 if visible or mig else NO_DEVICE, bad=entry, reason=stop.reason,
                rest=tuple(entries[place + 1 :]), unread=tuple(unread), judged=not guessed,
            )  # fmt: skip
        names = named
        guessed = guessed or not sure
        if isinstance(found, int) and found >= 0 and found in visible:
            return Resolution(code=BAD_ORDINAL, bad=entry, reason="duplicate", rest=tuple(entries[place + 1 :]))
        if isinstance(found, str):
            mig.append(found)
        else:
            visible.append(found)
        if not named and _JOINED.match(entry):
            unread.append(entry)
    return Resolution(visible=tuple(visible), mig=tuple(mig), unread=tuple(unread), judged=not guessed)


def _entry(entry: str, uuids: Sequence[str | None] | None, mig_uuids: Sequence[str], mig_possible: bool) -> tuple[int | str, bool]:
    """What an entry names (a place in the list, or a MIG device), and whether that is known to be there."""
    if entry.startswith("MIG-"):
        name = _mig(entry, mig_uuids, mig_possible)
        return name, name in mig_uuids
    return _named(entry, uuids) if entry.startswith("GPU-") else _numbered(entry, uuids)


def _numbered(entry: str, uuids: Sequence[str | None] | None) -> tuple[int, bool]:
    """The index that an entry names, and whether that GPU is known to be there."""
    lowered = entry.strip().lower()
    if not lowered:
        raise _StopError("empty")
    if lowered.startswith(("gpu-", "mig-")):
        raise _StopError("wrong-form")
    match = _NUMBER.match(entry)
    if match is None:
        bare = _BARE_UUID.match(entry) or (
            len(lowered) >= 8 and any(uuid is not None and _digits(uuid).startswith(lowered) for uuid in uuids or ())
        )
        raise _StopError("wrong-form" if bare else "no-number")
    index = int(match.group(1))
    # The driver keeps the low 32 bits: 4294967296 is GPU 0, and an overflow is negative.
    index = -1 if abs(index) >= 1 << 63 else (index + (1 << 31)) % (1 << 32) - (1 << 31)
    if index < 0:
        raise _StopError("negative")
    if uuids is not None and index >= len(uuids):
        raise _StopError("wrong-form" if _BARE_UUID.match(entry) else "no-such-index")
    return index, uuids is not None


def _digits(uuid: str) -> str:
    return uuid[4:].lower() if uuid[:4].upper() == "GPU-" else uuid.lower()


def _named(entry: str, uuids: Sequence[str | None] | None) -> tuple[int, bool]:
    """The GPU whose UUID begins like the entry. Text behind a whole UUID is ignored; capitals in the digits do not matter."""
    wanted = entry[4:].strip().lower()
    if not wanted:
        raise _StopError("wrong-form")
    if uuids is None:
        return -1, False
    known = [(place, _digits(uuid)) for place, uuid in enumerate(uuids) if uuid is not None]
    hits = [place for place, digits in known if digits.startswith(wanted[: len(digits)])]
    if len(hits) == 1:
        return hits[0], True
    if hits:
        raise _StopError("ambiguous-uuid")
    if len(known) < len(uuids):
        return -1, False
    raise _StopError("no-such-uuid")


def _mig(entry: str, mig_uuids: Sequence[str], mig_possible: bool) -> str:
    name = entry.strip()
    hits = [uuid for uuid in mig_uuids if uuid.startswith(name)]
    if len(hits) == 1:
        return hits[0]
    # The old form MIG-GPU-<uuid>/<instance>/<instance> is accepted beside the new one, which alone is listed.
    if mig_possible and (name.startswith("MIG-GPU-") or not mig_uuids):
        return name
    raise _StopError("no-such-mig")


# ---------------------------------------------------------------- what the machine has
class Gpus(msgspec.Struct, frozen=True, kw_only=True):
    """The GPUs that a value can name, as far as somebody knows them."""

    uuids: tuple[str | None, ...] | None
    mig_uuids: tuple[str, ...] = ()
    mig_possible: bool = False
    quote: Quote | None = None
    unknown: Unknown | None = None


def gpus_of(facts: Facts) -> Gpus:
    """The machine's GPUs from NVML, else their number from the PCI bus; unknown otherwise."""
    nvml = facts.there(NVML)
    gpus = nvml.need().gpus if nvml is not None and nvml.need().code == 0 else ()
    if nvml is not None and gpus:
        names = ", ".join(gpu.uuid or f"GPU {gpu.index}" for gpu in gpus)
        unseen = _with_node(facts) - len(gpus)
        return Gpus(
            uuids=(*(gpu.uuid for gpu in gpus), *(None,) * unseen),
            mig_uuids=tuple(uuid for gpu in gpus for uuid in gpu.mig_uuids),
            mig_possible=any(gpu.mig_mode == "enabled" for gpu in gpus),
            quote=Quote(source=nvml.source(), text=f"{plural(len(gpus), 'GPU')}: {names}"),
        )
    unknown = Unknown(key=NVML.name, why=facts.why_unknown(NVML) or "NVML does not list the GPUs")
    bus = facts.there(PCI)
    listed = bus.need().nvidia_gpus if bus is not None and bus.whole else ()
    # WSL has no GPU on its bus, and a partial listing counts too few: neither tells how many there are.
    if bus is None or not listed or facts.why_unknown(WSL) is not None or facts.value(WSL):
        return Gpus(uuids=None, unknown=unknown, mig_possible=True)
    quote = bus.line_with(listed[0].address, "10de", words=f"{plural(len(listed), 'NVIDIA GPU')} on the PCI bus")
    return Gpus(uuids=(None,) * len(listed), quote=quote, unknown=unknown, mig_possible=True)


def _with_node(facts: Facts) -> int:
    """How many GPUs on the bus have a node, or may have one: NVML leaves out those whose node it cannot use, and they are there all the
    same.
    """
    bus, nodes = facts.there(PCI), facts.value(DEVICE_NODES)
    on_bus = [len(bus.need().nvidia_gpus)] if bus is not None else []
    return min([*on_bus, *([len(gpu_nodes(nodes))] if nodes is not None else [])], default=0)


# ---------------------------------------------------------------- rules
def _judge(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    environment = facts[ENVIRONMENT]
    variables = variables_of(environment)
    if variables.get(ORDER) == "" and not _devices_seen(facts, 1):
        yield Clue(cause=INVALID, quotes=(variable_quote(environment, ORDER),), values={"variable": ORDER, "value": ""})
        return
    value = variables.get(VARIABLE)
    if value is None:
        yield from _job_without_gpu(facts, environment)
        return
    gpus = gpus_of(facts)
    found = resolve(value, gpus.uuids, mig_uuids=gpus.mig_uuids, mig_possible=gpus.mig_possible)
    if _devices_seen(facts, len(value.split(","))) and not found.unread:
        return  # the driver shows as many GPUs as the value names: what it does outranks what it should do
    if found.reason is None and not found.unread:
        if not found.judged and gpus.unknown is not None:
            raise NotKnown(gpus.unknown)
        return
    yield from _accuse(facts, environment, value, found, gpus)


def _accuse(facts: Facts, environment: Fact[Environment], value: str, found: Resolution, gpus: Gpus) -> Iterator[Clue]:
    works = bool(found.visible or found.mig)
    if found.reason == "no-such-mig" and gpus.mig_possible and not gpus.mig_uuids:
        return  # MIG is on without an instance: another fault
    if works:
        # Entries before the bad one serve, so it matters only if something that was meant is dropped.
        if found.reason in ("empty", "negative") and not any(entry.strip() for entry in found.rest):
            return
        if not passed(facts[LADDER].value, "devices"):
            return
    elif _devices_seen(facts, 1):
        return
    hidden = value in HIDDEN_BY_SCHEDULERS
    in_job, given = _sets_one(environment, JOB_VARIABLES), _sets_one(environment, GPU_LISTS)
    if not works and in_job and (hidden or (found.reason in NAMES_NOTHING and not given)):
        yield _scheduler(environment, VARIABLE)
        return
    cause = HIDES if found.reason in NAMES_NOTHING else INVALID
    extra = (gpus.quote,) if gpus.quote is not None and cause == INVALID else ()
    if found.reason == "no-number":  # whatever looks like one in the variable's line: marks of quotation belong to the value
        extra = (*extra, Quote(source=VARIABLE, text=f"the entry {found.bad} is {_WORDS[found.reason]}"))
    # Many hide all GPUs on purpose: a text has to show that something failed for want of one (checks/ties).
    basis: Basis = "suspected" if environment.origin == "text" and not works else "derived"
    quotes = (variable_quote(environment, VARIABLE), *extra)
    yield Clue(cause=cause, quotes=quotes, basis=basis, values={"variable": VARIABLE, "value": value})


def _devices_seen(facts: Facts, wanted: int) -> bool:
    """Whether libcuda was seen to show at least so many GPUs under this environment."""
    return passed(climbed(facts), "devices") and len(climbed(facts).devices) >= wanted


def _sets_one(environment: Fact[Environment], names: Iterable[str]) -> bool:
    return any(variables_of(environment).get(name) for name in names)


def _scheduler(environment: Fact[Environment], shown: str, *more: Quote) -> Clue:
    job = next(name for name in JOB_VARIABLES if variables_of(environment).get(name))
    quotes = (variable_quote(environment, shown), variable_quote(environment, job), *more)
    return Clue(cause=SCHEDULER, quotes=quotes, values={"variable": shown, "value": variables_of(environment).get(shown, "")})


def _job_without_gpu(facts: Facts, environment: Fact[Environment]) -> Iterator[Clue]:
    """A job whose scheduler names no GPU and hides the devices by other means: the driver is loaded and cuInit finds none."""
    if not _sets_one(environment, JOB_VARIABLES) or _sets_one(environment, GPU_LISTS):
        return
    driver, ladder = facts[LOADED_DRIVER], facts[LADDER]
    refused = [result for result in broken(ladder.value, "init", "devices") if result.code == NO_DEVICE]
    if driver.present and refused:
        yield _scheduler(environment, "SLURM_JOB_GPUS", rung_quote(ladder, refused[0]))


# ---------------------------------------------------------------- which GPU is CUDA's device 0, and what nvidia-smi calls it
def numbers(facts: Facts) -> tuple[str, ...]:
    """One line a GPU; none where there is only one, which every number means."""
    devices = devices_of(facts)
    return tuple(_lines(facts, devices)) if len(devices) > 1 else ()


def _lines(facts: Facts, devices: Sequence[Device]) -> Iterator[str]:
    asked = cuda_answered(facts)
    if not asked:
        likewise = variables_of(facts.there(ENVIRONMENT)).get(ORDER) == "PCI_BUS_ID"
        order = ", and CUDA counts likewise (CUDA_DEVICE_ORDER)" if likewise else ""
        yield f"CUDA's own numbers are not known, for it showed no device; nvidia-smi's are{order}:"
    uuids = [device.uuid for device in devices if device.uuid is not None]
    for device in devices:
        known = (_head(device, asked), device.address, _short(device.uuid, uuids), _without_maker(device.name))
        yield ", ".join(part for part in known if part)


def _head(device: Device, asked: bool) -> str:
    """`CUDA 0 (default): nvidia-smi 1`; a GPU that CUDA does not show is hidden from programs."""
    smi = f"nvidia-smi {device.index}" if device.index is not None else "not in nvidia-smi"
    if device.number is not None:
        return f"CUDA {device.number}{' (default)' if device.number == 0 else ''}: {smi}"
    return f"hidden: {smi}" if asked else smi


def _short(uuid: str | None, uuids: Sequence[str]) -> str | None:
    """The beginning of a UUID by which CUDA_VISIBLE_DEVICES may name it, the whole where another begins likewise."""
    if uuid is None or sum(other[:UUID_SHOWN] == uuid[:UUID_SHOWN] for other in uuids) > 1:
        return uuid
    return uuid[:UUID_SHOWN]


def _without_maker(name: str | None) -> str | None:
    return name.removeprefix("NVIDIA ") if name is not None else None


def note(facts: Facts) -> str | None:
    """That CUDA counts otherwise than nvidia-smi, where nobody asked for that: `GPU 0` then means two cards."""
    devices, chosen = devices_of(facts), VARIABLE in variables_of(facts.there(ENVIRONMENT))
    if facts.why_unknown(ENVIRONMENT) is not None or chosen or not other_order(devices):
        return None
    first = next((device for device in devices if device.number == 0), None)
    if first is None or first.index is None:
        return None
    which = ", ".join(part for part in (_without_maker(first.name), first.address) if part)
    return (
        f"CUDA numbers the GPUs in another order than nvidia-smi: device 0, which programs take by default, is nvidia-smi's GPU "
        f"{first.index} ({which}). With CUDA_DEVICE_ORDER=PCI_BUS_ID both count alike."
    )


# ---------------------------------------------------------------- the row's line
def _describe(facts: Facts, knowledge: Knowledge) -> Line:
    environment = facts[ENVIRONMENT]
    value = variables_of(environment).get(VARIABLE)
    if value is None:
        return Line(f"{VARIABLE} is not set: it hides no GPU", details=numbers(facts))
    gpus = gpus_of(facts)
    count = None if gpus.uuids is None else len(gpus.uuids)
    quotes = (variable_quote(environment, VARIABLE),)
    found = resolve(value, gpus.uuids, mig_uuids=gpus.mig_uuids, mig_possible=gpus.mig_possible)
    if not found.judged and gpus.unknown is not None:
        return Line(f"{VARIABLE}={value}; which GPUs there are is not known", quotes, because=gpus.unknown.why, details=numbers(facts))
    number = len(found.visible) + len(found.mig)
    of = "" if count is None else f" of {count}"
    said = f"{VARIABLE}={value} shows {plural(number, 'GPU')}{of}" if number else f"{VARIABLE}={value} shows no GPU"
    if found.reason is not None:
        said += f" ({found.bad!r}: {_WORDS[found.reason]})"
    elif found.unread:
        said += f" (of {found.unread[0]!r} only the first number is read)"
    return Line(said, quotes, details=numbers(facts))


CHECK = Check(
    id="visible-devices",
    title="Visible devices",
    looks_at="CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER and the variables of batch schedulers",
    items=("environment", "nvml", "pci", "pnp-devices", "dev", "ladder"),
    rules=(Rule("visible-devices", (HIDES, INVALID, SCHEDULER), _judge),),
    describe=_describe,
)
