"""Row nvml: the management library, asked in a child process. Its codes become findings in parsers/error_codes.py."""

from __future__ import annotations

from collections import Counter

from cudadoctor.checks import device_state
from cudadoctor.checks.base import Check, Line
from cudadoctor.checks.common import plural
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Facts
from cudadoctor.model.units import size
from cudadoctor.model.values import NVML, TEGRA, NvmlGpu


def _name(gpu: NvmlGpu) -> str:
    memory = f" ({size(gpu.memory_total_bytes)})" if gpu.memory_total_bytes is not None else ""
    return f"{gpu.name or f'GPU {gpu.index}'}{memory}"


def _describe(facts: Facts, knowledge: Knowledge) -> Line:
    found = facts[NVML]
    if facts.value(TEGRA) and (found.value is None or found.value.code != 0):
        return Line("no NVML, as usual on older JetPack", found.some(), skip="Jetson")
    if found.value is None:
        return Line("the driver's libnvidia-ml.so.1 is not there", found.some())
    nvml = found.value
    if nvml.code != 0:
        return Line(f"NVML does not start: {nvml.message or 'no message'} (code {nvml.code})", found.some())
    driver = f" of driver {nvml.library}" if nvml.library is not None else ""
    if not nvml.gpus:
        unread = None if found.whole else "NVML answers, and its list of GPUs could not be read"
        return Line(unread or f"NVML{driver} answers and lists no GPU", found.some(), because=unread)
    lost = [gpu for gpu in nvml.gpus if gpu.handle_error is not None]
    usable = Counter(_name(gpu) for gpu in nvml.gpus if gpu.handle_error is None)  # equal GPUs once, with their number
    said = f"NVML{driver} answers for {plural(usable.total(), 'GPU')}"
    said += ": " + ", ".join(name if count == 1 else f"{count} x {name}" for name, count in usable.items()) if usable else ""
    said += f"; {plural(len(lost), 'GPU')} cannot be opened ({lost[0].handle_error})" if lost else ""
    return Line(said, found.some())


CHECK = Check(
    id="nvml",
    title="NVML",
    looks_at="libnvidia-ml through nvidia-ml-py or ctypes: driver version, GPUs, memory, processes",
    items=("nvml",),
    rules=(*device_state.OF_NVML, *device_state.OF_PROCESSES),
    describe=_describe,
)
