"""What the driver's management library says of one GPU while it works: clocks, what holds them down, heat, power, link, who else is there.

Loaded by its path, from ladder.py and bench.py. By plain ctypes, so that nothing must be installed in the examined interpreter; each value
is asked on its own, and one that cannot be had is None. A machine without the library gives a watch that knows nothing.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

LIBRARY = "nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1"
START_LIMIT = 2.0  # seconds
NOT_AVAILABLE = (1 << 64) - 1
MOST_PROCESSES = 256
MOST_LINKS = 18
# Reasons that hold clocks down although there is work; an idle GPU and clocks that somebody chose are none.
REASONS = (
    (0x4, "sw-power-cap"), (0x8, "hw-slowdown"), (0x20, "sw-thermal-slowdown"), (0x40, "hw-thermal-slowdown"),
    (0x80, "hw-power-brake-slowdown"), (0x200, "board-limit"), (0x400, "reliability"),
)  # fmt: skip
POWER_SOURCES = ("ac", "battery", "undersized")
LINK_SPEED_FIELDS = (164, 90)  # NVML_FI_DEV_NVLINK_GET_SPEED of one link, NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON: MB/s in one direction
GRAPHICS_BUSY = 20  # percent from which a process that only draws counts as computing


INT, LONG = ctypes.c_uint, ctypes.c_ulonglong


def structure(**fields: Any) -> Any:
    """A structure of nvml.h."""
    return type("NvmlStructure", (ctypes.Structure,), {"_fields_": list(fields.items())})


Pci = structure(legacy=ctypes.c_char * 16, domain=INT, bus=INT, device=INT, ids=INT, subsystem=INT, busId=ctypes.c_char * 32)
Memory = structure(total=LONG, free=LONG, used=LONG)
MemoryWithReserve = structure(version=INT, total=LONG, reserved=LONG, free=LONG, used=LONG)
Process = structure(pid=INT, usedGpuMemory=LONG, gpu_instance=INT, compute_instance=INT)  # versions 2 and 3
Utilisation = structure(gpu=INT, memory=INT)  # percent of the last sixth of a second to second
Field = structure(
    field=INT, scope=INT, timestamp=ctypes.c_longlong, latency=ctypes.c_longlong, kind=ctypes.c_int, result=ctypes.c_int, value=LONG
)  # fmt: skip


class NVMLError(Exception):
    def __init__(self, words: str, value: int = 0) -> None:
        super().__init__(words)
        self.value = value


class Nvml:
    """The library by ctypes; the essentials have the names that pynvml gives them. What fails raises with NVML's own words."""

    NVMLError = NVMLError
    nvmlMemory_v2 = ctypes.sizeof(MemoryWithReserve) | 2 << 24  # noqa: N815 - pynvml's name

    def __init__(self, library: Any) -> None:
        self.library = library
        library.nvmlErrorString.restype = ctypes.c_char_p

    def call(self, function: str, *arguments: Any) -> None:
        code = int(getattr(self.library, function)(*arguments))
        if code != 0:
            words = self.library.nvmlErrorString(code)
            raise NVMLError(words.decode("utf-8", "replace") if words else "error %d" % code, code)

    def get(self, kind: Any, function: str, *arguments: Any) -> Any:
        """What a function leaves in its last argument."""
        value = kind()
        self.call(function, *arguments, ctypes.byref(value))
        return value

    def string(self, function: str, *arguments: Any) -> str:
        buffer = ctypes.create_string_buffer(256)
        self.call(function, *arguments, buffer, INT(256))
        return buffer.value.decode("utf-8", "replace")

    def running(self, query: str, handle: Any) -> list[Any]:
        """The processes of one of NVML's lists."""
        table = (Process * MOST_PROCESSES)()
        version = "_v3" if hasattr(self.library, query + "_v3") else "_v2"
        count = INT(MOST_PROCESSES)
        self.call(query + version, handle, ctypes.byref(count), table)
        return list(table[: min(count.value, MOST_PROCESSES)])

    def __getattr__(self, name: str) -> Any:
        """The essentials as pynvml names them, for where that cannot be imported."""
        if name not in ESSENTIALS:
            raise AttributeError("it is asked through nvidia-ml-py alone")
        return functools.partial(ESSENTIALS[name], self)


ESSENTIALS: dict[str, Callable[..., Any]] = {
    "nvmlInit": lambda nvml: nvml.call("nvmlInit_v2"),
    "nvmlSystemGetDriverVersion": lambda nvml: nvml.string("nvmlSystemGetDriverVersion"),
    "nvmlSystemGetCudaDriverVersion_v2": lambda nvml: nvml.get(INT, "nvmlSystemGetCudaDriverVersion_v2").value,
    "nvmlSystemGetProcessName": lambda nvml, pid: nvml.string("nvmlSystemGetProcessName", INT(pid)),
    "nvmlDeviceGetCount": lambda nvml: nvml.get(INT, "nvmlDeviceGetCount_v2").value,
    "nvmlDeviceGetHandleByIndex": lambda nvml, index: nvml.get(ctypes.c_void_p, "nvmlDeviceGetHandleByIndex_v2", INT(index)),
    "nvmlDeviceGetPciInfo": lambda nvml, handle: nvml.get(Pci, "nvmlDeviceGetPciInfo_v3", handle),
    "nvmlDeviceGetName": lambda nvml, handle: nvml.string("nvmlDeviceGetName", handle),
    "nvmlDeviceGetUUID": lambda nvml, handle: nvml.string("nvmlDeviceGetUUID", handle),
    "nvmlDeviceGetMemoryInfo": lambda nvml, handle, version=None: (
        nvml.get(lambda: MemoryWithReserve(version=version), "nvmlDeviceGetMemoryInfo_v2", handle)
        if version is not None
        else nvml.get(Memory, "nvmlDeviceGetMemoryInfo", handle)
    ),
    "nvmlDeviceGetComputeRunningProcesses": lambda nvml, handle: nvml.running("nvmlDeviceGetComputeRunningProcesses", handle),
}


def library() -> Nvml | None:
    """The library, started; None where there is none, or where it does not answer: what is measured does not depend on it."""
    found: list[Nvml] = []

    def start() -> None:
        try:
            nvml = Nvml(ctypes.CDLL(LIBRARY))
            nvml.nvmlInit()
            found.append(nvml)
        except (OSError, AttributeError, NVMLError):
            pass

    thread = threading.Thread(target=start, daemon=True)
    thread.start()
    thread.join(START_LIMIT)
    return found[0] if found else None


class Watch:
    """One GPU, by its address or its number. `nvml` is None where the GPU or the library is not there."""

    def __init__(self, nvml: Nvml | None, address: str | None, index: int | None = None) -> None:
        self.nvml = nvml
        by_address = ("nvmlDeviceGetHandleByPciBusId_v2", (address or "").encode("ascii"))
        self.handle = self.ask(ctypes.c_void_p, *(by_address if index is None else ("nvmlDeviceGetHandleByIndex_v2", INT(index))))
        self.nvml = nvml if self.handle is not None else None

    def tried(self, question: Callable[..., Any], *arguments: Any) -> Any:
        """What a method of Nvml answers; None where it cannot be had."""
        try:
            return question(self.nvml, *arguments) if self.nvml is not None else None
        except (AttributeError, NVMLError):
            return None

    def ask(self, kind: Any, function: str, *arguments: Any) -> Any:
        return self.tried(Nvml.get, kind, function, *arguments)

    def string(self, function: str) -> str | None:
        found: str | None = self.tried(Nvml.string, function, self.handle)
        return found

    def number(self, function: str, *arguments: Any, kind: Any = INT) -> int | None:
        value = self.ask(kind, function, self.handle, *arguments)
        return int(value.value) if value is not None else None

    def percent(self) -> int | None:
        """How busy the GPU is."""
        load = self.ask(Utilisation, "nvmlDeviceGetUtilizationRates", self.handle)
        return int(load.gpu) if load is not None else None

    # -------------------------------------------------------- under load
    def reasons(self) -> list[str] | None:
        for function in ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"):
            mask = self.number(function, kind=LONG)
            if mask is not None:
                return [word for bit, word in REASONS if mask & bit]
        return None

    def power_source(self) -> str | None:
        """What feeds the machine (nvml.h: NVML_POWER_SOURCE_*)."""
        source = self.number("nvmlDeviceGetPowerSource")
        return POWER_SOURCES[source] if source is not None and source < len(POWER_SOURCES) else None

    def look(self) -> dict[str, Any]:
        milliwatts = self.number("nvmlDeviceGetPowerUsage")
        return {
            "sm_clock_mhz": self.number("nvmlDeviceGetClockInfo", INT(1)),
            "sm_clock_max_mhz": self.number("nvmlDeviceGetMaxClockInfo", INT(1)),
            "memory_clock_mhz": self.number("nvmlDeviceGetClockInfo", INT(2)),
            "temperature_c": self.number("nvmlDeviceGetTemperature", INT(0)),
            "power_w": None if milliwatts is None else milliwatts / 1000.0,
            "pcie_generation": self.number("nvmlDeviceGetCurrPcieLinkGeneration"),
            "pcie_width": self.number("nvmlDeviceGetCurrPcieLinkWidth"),
            "reasons": self.reasons(),
            "power_source": self.power_source(),
        }

    # -------------------------------------------------------- NVLink
    def nvlinks(self) -> tuple[int, float | None]:
        """How many links are up, and the GB/s of one of them in one direction."""
        up = 0
        for link in range(MOST_LINKS):
            state = self.number("nvmlDeviceGetNvLinkState", INT(link))
            if state is None:
                break
            up += state == 1
        if not up:
            return 0, None
        for number in LINK_SPEED_FIELDS:
            field = self.ask(lambda number=number: Field(field=number), "nvmlDeviceGetFieldValues", self.handle, ctypes.c_int(1))
            if field is not None and field.result == 0 and field.value & 0xFFFFFFFF:
                return up, (field.value & 0xFFFFFFFF) / 1000.0
        return up, None

    # -------------------------------------------------------- who else computes here
    def processes(self, query: str) -> list[tuple[int, int | None]] | None:
        """PIDs with the memory that each holds."""
        running = self.tried(Nvml.running, query, self.handle)
        return running and [(int(one.pid), None if one.usedGpuMemory == NOT_AVAILABLE else int(one.usedGpuMemory)) for one in running]

    def others(self) -> dict[str, Any] | None:
        """Processes that compute on this GPU beside this one; None where there are none or nobody can say.

        One that only draws counts where the GPU is at work. Where processes of another PID namespace are not shown, the load is.
        """
        mine = os.getpid()
        percent = self.percent()
        compute = [one for one in self.processes("nvmlDeviceGetComputeRunningProcesses") or [] if one[0] != mine]
        drawing = [one for one in self.processes("nvmlDeviceGetGraphicsRunningProcesses") or [] if one[0] != mine]
        both = {one[0] for one in drawing}
        busy = percent is not None and percent >= GRAPHICS_BUSY
        found = [one for one in compute if one[0] not in both or busy]
        if not found and not (busy and not compute and not drawing):
            return None
        return {"pids": [one[0] for one in found], "memory_bytes": [one[1] for one in found], "percent": percent}
