"""NVML's state as `nvidia-smi -q` shows it, in a report that another tool collected: nvidia-smi is NVML's own program.

So the rules about NVML read a bundle as they read a machine. What -q does not show (MIG instances, fields of newer branches) stays None.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cudadoctor.model.facts import Fact, Quote
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import NVML, GpuDetails, GpuHealth, Nvml, NvmlGpu, Smi, SmiGpu
from cudadoctor.parsers import nvidia_smi, nvidia_smi_query
from cudadoctor.parsers.base import Output, Text, parser
from cudadoctor.parsers.worker_nvml import quote_gpu

PROVIDER = "nvidia-smi"
# nvidia-smi's words for an NVML that did not start -> nvmlReturn_t. Words that are not here leave NVML's state unknown.
_CODES = (
    ("couldn't communicate with the NVIDIA driver", 9),
    ("Driver Not Loaded", 9),
    ("couldn't find libnvidia-ml.so", 12),
    ("Driver/library version mismatch", 18),
    ("RM has detected an NVML/RM version mismatch", 18),
    ("blocked by the operating system", 17),
    ("Insufficient Permissions", 4),
    ("Failed to initialize NVML: GPU is lost", 15),
    ("Failed to initialize NVML: Unknown Error", 999),
)
# What nvidia-smi's list of GPUs says better than the sections of a GPU, or nothing that rules about NVML take from them.
_OTHERWISE = ("address", "temperature_c", "nvlinks_active", "nvlinks_inactive", "fabric_status")
_NONE_FOUND = ("No devices were found", "No devices found")
_HANDLE = "Unable to determine the device handle"
_LAST_WORDS = lazy(r": {0,3}(?P<said>[A-Z][A-Za-z ]{2,40}?)\.? {0,4}(?:Reboot the system.{0,60})?$")
_LOST = "GPU is lost"


def parse(text: Text) -> Output:
    """One fact: what NVML answered nvidia-smi."""
    facts = [fact for fact in nvidia_smi.parse(text) if isinstance(fact, Fact)]
    shown = [(fact.value, fact) for fact in facts if isinstance(fact.value, Smi)]
    logs = [smi for smi, _ in shown if smi.gpus and smi.failure is None]
    failures = [(smi, fact) for smi, fact in shown if smi.failure is not None]
    if logs:
        yield _answered(text, logs[0], [gpu for smi, _ in failures for gpu in smi.gpus])
    elif failures:
        yield from _failed(text, *failures[0])


def _failed(text: Text, smi: Smi, fact: Fact[Any]) -> Iterator[Fact[Any]]:
    words = smi.failure or ""
    if words.startswith(_NONE_FOUND):
        yield text.fact(NVML, Nvml(code=0, message="Success", provider=PROVIDER), *fact.quotes)
        return
    if words.startswith(_HANDLE):
        yield _answered(text, Smi(), list(smi.gpus))
        return
    code = next((code for said, code in _CODES if said in words), None)
    if code is not None:
        message = words.rpartition(": ")[2]
        yield text.fact(NVML, Nvml(code=code, message=message, library=smi.library, provider=PROVIDER), *fact.quotes)


def _answered(text: Text, smi: Smi, lost: list[SmiGpu]) -> Fact[Nvml]:
    """NVML started: each GPU with what the sections say of it, and those that could not be opened."""
    details = next((fact.value for fact in nvidia_smi_query.parse(text) if isinstance(fact, Fact) and fact.value is not None), ())
    gpus = [
        _gpu(number, gpu, next((one for one in details if one.address == gpu.address), GpuDetails())) for number, gpu in enumerate(smi.gpus)
    ]
    gpus += [_unopened(gpu, len(gpus) + number) for number, gpu in enumerate(lost)]
    lines = [gpu.line for gpu in (*smi.gpus, *lost)]
    quotes: list[Quote] = [quote for gpu, line in zip(gpus, lines, strict=True) for quote in quote_gpu(gpu, line, text.source)]
    value = Nvml(code=0, message="Success", cuda=smi.cuda, provider=PROVIDER, gpus=tuple(gpus), processes=smi.processes)
    return text.fact(NVML, value, *quotes)


def _unopened(gpu: SmiGpu, number: int) -> NvmlGpu:
    said = _LAST_WORDS.search(gpu.errors[0]) if gpu.errors else None
    return NvmlGpu(
        index=gpu.index if gpu.index is not None else number,
        address=gpu.address,
        handle_error=said["said"] if said else "cannot be opened",
    )


def _gpu(number: int, gpu: SmiGpu, more: GpuDetails) -> NvmlGpu:
    errors = {name: words.strip() for name, _, words in (entry.partition(":") for entry in gpu.errors)}
    mig = _word(gpu.mig)
    if mig == "enabled":
        errors["mig_uuids"] = "nvidia-smi -q shows no UUID of an instance"
    lost = any(_LOST in words for words in errors.values()) and gpu.temperature_c is None
    return NvmlGpu(
        index=gpu.index if gpu.index is not None else number,
        address=gpu.address,
        name=gpu.name,
        uuid=gpu.uuid,
        memory_total_bytes=gpu.memory_total_bytes,
        memory_used_bytes=gpu.memory_used_bytes,
        mig_mode=mig,
        compute_mode=_word(gpu.compute_mode),
        temperature_c=gpu.temperature_c,
        ecc_uncorrected_volatile=gpu.ecc_uncorrected if gpu.ecc_uncorrected is not None else more.ecc_uncorrected,
        temperature_slowdown_c=more.temperature_limit_c,
        fabric_status="Success" if more.fabric_status == "success" else more.fabric_status,
        **{name: getattr(more, name) for name in GpuHealth.__struct_fields__ if name not in _OTHERWISE},
        handle_error=_LOST if lost else next(iter(errors.values())) if gpu.hardly_read else None,
        errors=errors,
    )


def _word(value: str | None) -> str | None:
    """Enabled, Exclusive_Process -> enabled, exclusive-process."""
    return value.lower().replace("_", "-").replace(" ", "-") if value is not None else None


PARSER = parser("nvml_of_smi", parse, NVML, reads=("nvidia-smi-query",))
