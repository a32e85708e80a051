"""What the worker nvml.py wrote: NVML's answer to nvmlInit, each GPU, and the processes on them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from cudadoctor.model.facts import Quote
from cudadoctor.model.values import NVML, GpuProcess, Nvml, NvmlGpu
from cudadoctor.parsers.base import Output, Text, parser
from cudadoctor.parsers.json_lines import build, mib, nothing_read, records, said

SOURCE = "NVML"


def _quote_head(nvml: Nvml, line: int) -> Iterator[Quote]:
    words = f"nvmlInit: {nvml.code} {nvml.message or ''}"
    if nvml.code == 0:
        words += f"; driver {nvml.library or 'unknown'}, CUDA {nvml.cuda or 'unknown'}"
    yield said("NVML (nvmlInit)", line, words)
    if nvml.confidential_compute not in (None, "off"):
        ready = {True: "GPUs ready", False: "GPUs not ready", None: "readiness unknown"}[nvml.confidential_compute_ready]
        yield said("NVML (nvmlSystemGetConfComputeState)", line, f"confidential computing {nvml.confidential_compute}, {ready}")
    if nvml.provider_error is not None:
        yield said("import pynvml", line, nvml.provider_error)


def _notable(gpu: NvmlGpu) -> Iterator[str]:
    """What about a GPU is worth a word beyond its memory."""
    yield from _failing(gpu)
    reasons = [reason for reason in gpu.throttle_reasons if reason != "gpu-idle"]
    if reasons:
        yield "clocks held by " + ", ".join(reasons)
    limit = gpu.temperature_slowdown_c
    if gpu.temperature_c is not None and limit is not None and gpu.temperature_c >= limit:
        yield f"{gpu.temperature_c:.0f} C, slows down from {limit:.0f} C"
    if gpu.compute_mode not in (None, "default"):
        yield f"compute mode {gpu.compute_mode}"
    if None not in (gpu.pcie_width, gpu.pcie_width_max) and gpu.pcie_width != gpu.pcie_width_max:
        yield f"PCIe width {gpu.pcie_width} of {gpu.pcie_width_max}"
    if gpu.nvlinks_inactive:
        yield f"{gpu.nvlinks_inactive} NVLinks inactive, {gpu.nvlinks_active or 0} active"
    if gpu.fabric_state in ("not-started", "in-progress") or gpu.fabric_status not in (None, "Success"):
        yield f"fabric {gpu.fabric_state}" + (f" ({gpu.fabric_status})" if gpu.fabric_status else "")
    if gpu.vgpu_license not in (None, "licensed"):
        yield f"vGPU {gpu.vgpu_license}"


def _failing(gpu: NvmlGpu) -> Iterator[str]:
    """Memory that fails, and what the driver asks for."""
    if gpu.recovery_action not in (None, "none"):
        yield f"recovery action {gpu.recovery_action}"
    if gpu.ecc_uncorrected_volatile:
        yield f"{gpu.ecc_uncorrected_volatile} uncorrected ECC errors since the driver was loaded"
    if gpu.remap_pending or gpu.remap_failed:
        yield "row remapping " + ("failed" if gpu.remap_failed else "pending")
    if gpu.retired_pages_pending:
        yield "retired pages pending"


def quote_gpu(gpu: NvmlGpu, line: int, source: str = SOURCE) -> Iterator[Quote]:
    """Name and memory; on a line of its own what is unusual about the GPU."""
    if gpu.handle_error is not None:
        yield said(source, line, f"GPU {gpu.index}: {gpu.handle_error}")
        return
    reserved = "" if gpu.memory_reserved_bytes is None else f", {mib(gpu.memory_reserved_bytes)} kept by the driver"
    memory = f"{mib(gpu.memory_used_bytes)} of {mib(gpu.memory_total_bytes)} in use{reserved}"
    yield said(source, line, f"GPU {gpu.index} {gpu.address or ''} {gpu.name or ''}: {memory}")
    notable = "; ".join(_notable(gpu))
    if notable:
        yield said(source, line, f"GPU {gpu.index}: {notable}")


def _quote_process(process: GpuProcess, line: int) -> Quote:
    kind, name = process.kind or "kind unknown", f" {process.name}" if process.name else ""
    return said(SOURCE, line, f"GPU {process.gpu}: process {process.pid} ({kind}){name}, {mib(process.memory_bytes)}")


def parse(text: Text) -> Output:
    entries = list(records(text))
    answers = ((build(Nvml, entry.fields, gpus=(), processes=()), entry.line) for entry in entries if entry.event == "nvml")
    nvml, line = next((answer for answer in answers if answer[0] is not None), (None, 0))
    if nvml is None:
        yield from nothing_read(text, "NVML", NVML)
        return
    quotes = list(_quote_head(nvml, line))
    gpus: dict[int, NvmlGpu] = {}
    processes = []
    whole = text.whole
    for entry in entries:
        if entry.event == "gpu" and (gpu := build(NvmlGpu, entry.fields)) is not None:
            if gpus.setdefault(gpu.index, gpu) is not gpu:
                continue
            quotes.extend(quote_gpu(gpu, entry.line))
        elif entry.event == "process" and (process := build(GpuProcess, entry.fields)) is not None:
            processes.append(process)
            quotes.append(_quote_process(process, entry.line))
        elif entry.event == "error":
            whole = False
            quotes.append(said(SOURCE, entry.line, f"{entry.fields.get('step')}: {entry.fields.get('error')}"))
    value = msgspec.structs.replace(nvml, gpus=tuple(gpus.values()), processes=tuple(processes))
    yield text.fact(NVML, value, *quotes, whole=whole)


PARSER = parser("worker_nvml", parse, NVML, reads=("nvml",))
