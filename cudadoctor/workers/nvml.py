"""Worker: what NVML says about the driver, each GPU and the processes on it, as JSON lines.

It asks through `import pynvml` (nvidia-ml-py). Where that import does not serve, plain ctypes asks for the essentials (bench_watch.py).
Every value is asked on its own: a query that fails costs that value only, and its answer is kept under `errors`.
No CUDA context is opened here.
"""

from __future__ import annotations

import sys

sys.path.insert(0, __file__.replace("\\", "/").rpartition("/")[0])
from cudadoctor_lines import (
    TYPE_CHECKING,
    distributions_in,
    emit,
    mapped_files,
    sibling,
    start,
)  # which takes that folder off the path again

# isort: split
import ctypes
import os

if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Tuple

MOST_GPUS = 1024  # a number beyond it is none
LIBRARY, LIBRARY_NOT_FOUND = "nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1", 12
TEXT_LIMIT = 300  # characters of one message
NOT_AVAILABLE = (1 << 64) - 1  # NVML's way to say that a size is not shown

COMPUTE_MODES = {0: "default", 1: "exclusive-thread", 2: "prohibited", 3: "exclusive-process"}
SWITCH = {0: "disabled", 1: "enabled"}


def text(value: Any) -> str:
    """A string that may have come as bytes, bounded."""
    return (value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value))[:TEXT_LIMIT]


def address(bus_id: Any) -> str:
    """PCI address as sysfs writes it: 00000000:00:06.0 becomes 0000:00:06.0."""
    domain, _, rest = text(bus_id).strip().lower().partition(":")
    return "%04x:%s" % (int(domain, 16), rest)


def version_of(path: Optional[str]) -> Optional[str]:
    """The version in a library's file name: the only one to be had where nvmlInit fails."""
    version = os.path.basename(os.path.realpath(path or "")).partition(".so.")[2]
    return version if "." in version else None


class Answers:
    """The values of one GPU. `ask` keeps what a query gave, or notes under `errors` why it gave nothing."""

    def __init__(self) -> None:
        self.values: Dict[str, Any] = {}
        self.errors: Dict[str, str] = {}

    def ask(self, name: str, query: Callable[[], Any]) -> Any:
        try:
            value = query()
        except Exception as error:
            self.errors[name] = text(error) or type(error).__name__
            return None
        self.values[name] = value
        return value


# ---------------------------------------------------------------- through pynvml
def import_pynvml() -> Tuple[Any, str, Optional[str]]:
    """The binding, what it is, and what is wrong with it. The binding is None where it cannot serve."""
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pynvml
    except BaseException as error:  # a broken module may even call sys.exit
        return None, "ctypes", text("%s: %s" % (type(error).__name__, error))
    file = getattr(pynvml, "__file__", None) or ""
    missing = [name for name in ("nvmlInit", "nvmlDeviceGetCount", "NVMLError") if not hasattr(pynvml, name)]
    if missing:
        return None, "ctypes", text("%s has no %s: not the NVML binding" % (file or "pynvml", ", ".join(missing)))
    package = os.path.basename(file).startswith("__init__")
    found = {name: version for name, version, _ in distributions_in(os.path.dirname(os.path.dirname(file) if package else file))}
    if "nvidia-ml-py" in found and not package:
        return pynvml, "nvidia-ml-py " + found["nvidia-ml-py"], None
    if "pynvml" in found:
        beside = ", which hides nvidia-ml-py " + found["nvidia-ml-py"] if "nvidia-ml-py" in found else ", without nvidia-ml-py"
        return pynvml, "pynvml " + found["pynvml"], "%s is of the deprecated distribution pynvml %s%s" % (file, found["pynvml"], beside)
    return pynvml, "pynvml of unknown origin", "%s belongs to no installed distribution nvidia-ml-py" % file


def memory(nv: Any, handle: Any) -> Dict[str, int]:
    """Version 2 keeps the driver's reserve apart from what programs use; version 1 counts it as used."""
    try:
        info = nv.nvmlDeviceGetMemoryInfo(handle, version=nv.nvmlMemory_v2)
        more = {"memory_reserved_bytes": int(info.reserved)}
    except Exception:  # an older binding or driver
        info, more = nv.nvmlDeviceGetMemoryInfo(handle), {}
    return dict(more, memory_total_bytes=int(info.total), memory_used_bytes=int(info.used))


def mig(nv: Any, handle: Any, answers: Answers) -> None:
    mode = answers.ask("mig_mode", lambda: SWITCH.get(int(nv.nvmlDeviceGetMigMode(handle)[0])))
    if mode != "enabled":
        return
    uuids = []
    for index in range(int(answers.ask("mig_uuids", lambda: nv.nvmlDeviceGetMaxMigDeviceCount(handle)) or 0)):
        try:
            uuids.append(text(nv.nvmlDeviceGetUUID(nv.nvmlDeviceGetMigDeviceHandleByIndex(handle, index))))
        except Exception:
            continue  # a free slot
    answers.values["mig_uuids"] = uuids


def describe(nv: Any, handle: Any) -> Answers:
    answers = Answers()
    ask = answers.ask
    ask("address", lambda: address(nv.nvmlDeviceGetPciInfo(handle).busId))
    ask("name", lambda: text(nv.nvmlDeviceGetName(handle)))
    ask("uuid", lambda: text(nv.nvmlDeviceGetUUID(handle)))
    ask("compute_capability", lambda: "%d.%d" % tuple(nv.nvmlDeviceGetCudaComputeCapability(handle)))
    ask("memory", lambda: answers.values.update(memory(nv, handle)))
    mig(nv, handle, answers)
    ask("compute_mode", lambda: COMPUTE_MODES.get(int(nv.nvmlDeviceGetComputeMode(handle))))
    ask("mps_clients", lambda: len(nv.nvmlDeviceGetMPSComputeRunningProcesses(handle)))
    ask("persistence", lambda: SWITCH.get(int(nv.nvmlDeviceGetPersistenceMode(handle))))
    ask("temperature_c", lambda: float(nv.nvmlDeviceGetTemperature(handle, 0)))
    ask("power_w", lambda: nv.nvmlDeviceGetPowerUsage(handle) / 1000.0)
    ask("power_limit_w", lambda: nv.nvmlDeviceGetPowerManagementLimit(handle) / 1000.0)
    ask("vbios", lambda: text(nv.nvmlDeviceGetVbiosVersion(handle)))
    ask("ecc_mode", lambda: SWITCH.get(int(nv.nvmlDeviceGetEccMode(handle)[0])))
    ask("ecc_uncorrected_volatile", lambda: int(nv.nvmlDeviceGetTotalEccErrors(handle, 1, 0)))
    ask("pcie_generation", lambda: int(nv.nvmlDeviceGetCurrPcieLinkGeneration(handle)))
    ask("pcie_generation_max", lambda: int(nv.nvmlDeviceGetMaxPcieLinkGeneration(handle)))
    ask("pcie_width", lambda: int(nv.nvmlDeviceGetCurrPcieLinkWidth(handle)))
    ask("pcie_width_max", lambda: int(nv.nvmlDeviceGetMaxPcieLinkWidth(handle)))
    ask("sm_clock_mhz", lambda: int(nv.nvmlDeviceGetClockInfo(handle, 1)))
    ask("sm_clock_max_mhz", lambda: int(nv.nvmlDeviceGetMaxClockInfo(handle, 1)))
    ask("memory_clock_max_mhz", lambda: int(nv.nvmlDeviceGetMaxClockInfo(handle, 2)))
    ask("memory_bus_bits", lambda: int(nv.nvmlDeviceGetMemoryBusWidth(handle)))
    ask("health", lambda: sibling("nvml_health").describe(nv, handle, answers))
    for group in ("memory", "health"):
        answers.values.pop(group, None)
    return answers


def process_lists(nv: Any, handle: Any, answers: Answers) -> List[Dict[str, Any]]:
    """Compute and graphics processes on one GPU; a process in both lists is C+G, as nvidia-smi writes it."""
    merged: Dict[int, Dict[str, Any]] = {}
    for kind, query in (("C", "nvmlDeviceGetComputeRunningProcesses"), ("G", "nvmlDeviceGetGraphicsRunningProcesses")):
        try:
            entries = getattr(nv, query)(handle)
        except Exception as error:
            answers.errors["processes_" + kind.lower()] = text(error)
            continue
        for entry in entries:
            used = entry.usedGpuMemory
            seen = merged.setdefault(int(entry.pid), {"pid": int(entry.pid), "kind": None, "memory_bytes": None, "name": None})
            seen["kind"] = kind if seen["kind"] in (None, kind) else "C+G"
            if used is not None and int(used) != NOT_AVAILABLE:
                seen["memory_bytes"] = max(int(used), seen["memory_bytes"] or 0)
    for pid, entry in merged.items():
        try:
            entry["name"] = text(nv.nvmlSystemGetProcessName(pid))
        except Exception:
            pass  # ended meanwhile, or of another PID namespace
    return list(merged.values())


def load() -> Any:
    """The driver's library. Drivers for Windows before 2020 put it into a folder of their own."""
    try:
        return ctypes.CDLL(LIBRARY)
    except OSError:
        files = os.environ.get("PROGRAMW6432") or os.environ.get("PROGRAMFILES")
        older = os.path.join(files or "", "NVIDIA Corporation", "NVSMI", LIBRARY)
        if not os.path.isfile(older):
            raise
        return ctypes.CDLL(older)


# ---------------------------------------------------------------- the order of questions
def interview(nv: Any, head: Dict[str, Any]) -> None:
    """nvmlInit, the versions, then one GPU after the other. `nv` is pynvml or what stands for it."""
    try:
        nv.nvmlInit()
        head.update(code=0, message="Success")
    except nv.NVMLError as error:
        emit("nvml", **{**head, "code": int(getattr(error, "value", 999)), "message": text(error)})
        return
    whole = Answers()
    head["library"] = whole.ask("library", lambda: text(nv.nvmlSystemGetDriverVersion())) or head["library"]
    cuda = whole.ask("cuda", lambda: int(nv.nvmlSystemGetCudaDriverVersion_v2()))
    head["cuda"] = None if cuda is None else "%d.%d" % (cuda // 1000, cuda % 1000 // 10)
    head.update(whole.ask("system", lambda: sibling("nvml_health").confidential(nv, whole.ask)) or {})
    emit("nvml", **head)
    count = whole.ask("count", lambda: int(nv.nvmlDeviceGetCount()))
    if count is None:  # no GPU lines then means nothing
        emit("error", step="count", error=whole.errors["count"])
    elif not 0 <= count <= MOST_GPUS:
        emit("error", step="count", error="nvmlDeviceGetCount says %d" % count)
        count = None
    for index in range(count or 0):
        try:
            handle = nv.nvmlDeviceGetHandleByIndex(index)
        except Exception as error:
            emit("gpu", index=index, handle_error=text(error))
            continue
        answers = describe(nv, handle)
        running = process_lists(nv, handle, answers)
        emit("gpu", index=index, errors=answers.errors, **answers.values)
        for entry in running:
            emit("process", gpu=answers.values.get("address") or str(index), **entry)


def main() -> None:
    start()
    head: Dict[str, Any] = {"code": LIBRARY_NOT_FOUND, "message": None, "library": None, "cuda": None, "path": None}
    try:
        library = load()
    except OSError as error:
        emit("nvml", **{**head, "message": text(error)})
        return
    binding, head["provider"], head["provider_error"] = import_pynvml()  # slow: only where there is somebody to ask
    head["path"] = Answers().ask("path", lambda: next((path for _, _, path in mapped_files() if "/libnvidia-ml.so" in path), None))
    head["library"] = version_of(head["path"])
    interview(binding or sibling("bench_watch").Nvml(library), head)


if __name__ == "__main__":
    main()
