"""What the driver's management library says of one GPU while it works: clocks, what holds them down, heat, power, link, who else is there.

Loaded by its path, from ladder.py and bench.py. By plain ctypes, so that nothing must be installed in the examined interpreter; each value
is asked on its own, and one that cannot be had is None. A machine without the library gives a watch that knows nothing.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LIBRARY = "nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1"
START_LIMIT = 2.0  # seconds
NOT_AVAILABLE = (1 << 64) - 1
MOST_PROCESSES = 128
MOST_LINKS = 18
# Reasons that hold clocks down although there is work; an idle GPU and clocks that somebody chose are none.
REASONS = (
    (0x4, "sw-power-cap"), (0x8, "hw-slowdown"), (0x20, "sw-thermal-slowdown"), (0x40, "hw-thermal-slowdown"),
    (0x80, "hw-power-brake-slowdown"), (0x200, "board-limit"), (0x400, "reliability"),
)  # fmt: skip
POWER_SOURCES = ("ac", "battery", "undersized")
LINK_SPEED_FIELDS = (164, 90)  # NVML_FI_DEV_NVLINK_GET_SPEED of one link, NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON: MB/s in one direction
GRAPHICS_BUSY = 20  # percent from which a process that only draws counts as computing


class Process(ctypes.Structure):
    """nvmlProcessInfo_t, version 2 and 3."""

    _fields_ = [
        ("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong), ("gpu_instance", ctypes.c_uint), ("compute_instance", ctypes.c_uint),
    ]  # fmt: skip


class Utilisation(ctypes.Structure):
    """nvmlUtilization_t: percent of the last sixth of a second to second."""

    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class Field(ctypes.Structure):
    """nvmlFieldValue_t."""

    _fields_ = [
        ("field", ctypes.c_uint), ("scope", ctypes.c_uint), ("timestamp", ctypes.c_longlong), ("latency", ctypes.c_longlong),
        ("kind", ctypes.c_int), ("result", ctypes.c_int), ("value", ctypes.c_ulonglong),
    ]  # fmt: skip


def library() -> Any:
    """The library, started; None where there is none, or where it does not answer: what is measured does not depend on it."""
    found: list[Any] = []

    def start() -> None:
        try:
            loaded = ctypes.CDLL(LIBRARY)
            found.append(loaded if loaded.nvmlInit_v2() == 0 else None)
        except (OSError, AttributeError):
            pass

    thread = threading.Thread(target=start, daemon=True)
    thread.start()
    thread.join(START_LIMIT)
    return found[0] if found else None


class Watch:
    """One GPU, by its address or its number. `library` is None where the GPU or NVML is not there."""

    def __init__(self, found: Any, address: str | None, index: int | None = None) -> None:
        self.library, self.handle = found, ctypes.c_void_p()
        place = ctypes.byref(self.handle)
        if index is not None:
            known = self.call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), place)
        else:
            known = address is not None and self.call("nvmlDeviceGetHandleByPciBusId_v2", address.encode("ascii"), place)
        self.library = found if known else None

    def call(self, function: str, *arguments: Any) -> bool:
        """Whether a call worked."""
        entry = getattr(self.library, function, None)
        return entry is not None and int(entry(*arguments)) == 0

    def number(self, function: str, *arguments: Any, kind: Any = ctypes.c_uint) -> int | None:
        value = kind()
        return int(value.value) if self.call(function, self.handle, *arguments, ctypes.byref(value)) else None

    def percent(self) -> int | None:
        """How busy the GPU is."""
        load = Utilisation()
        return int(load.gpu) if self.call("nvmlDeviceGetUtilizationRates", self.handle, ctypes.byref(load)) else None

    # -------------------------------------------------------- under load
    def reasons(self) -> list[str] | None:
        for function in ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"):
            mask = self.number(function, kind=ctypes.c_ulonglong)
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
            "sm_clock_mhz": self.number("nvmlDeviceGetClockInfo", ctypes.c_uint(1)),
            "sm_clock_max_mhz": self.number("nvmlDeviceGetMaxClockInfo", ctypes.c_uint(1)),
            "memory_clock_mhz": self.number("nvmlDeviceGetClockInfo", ctypes.c_uint(2)),
            "temperature_c": self.number("nvmlDeviceGetTemperature", ctypes.c_uint(0)),
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
            state = self.number("nvmlDeviceGetNvLinkState", ctypes.c_uint(link))
            if state is None:
                break
            up += state == 1
        if not up:
            return 0, None
        for number in LINK_SPEED_FIELDS:
            field = Field(field=number)
            known = self.call("nvmlDeviceGetFieldValues", self.handle, ctypes.c_int(1), ctypes.byref(field)) and field.result == 0
            if known and field.value & 0xFFFFFFFF:
                return up, (field.value & 0xFFFFFFFF) / 1000.0
        return up, None

    # -------------------------------------------------------- who else computes here
    def processes(self, query: str) -> list[tuple[int, int | None]] | None:
        """PIDs with the memory that each holds."""
        if self.library is None:
            return None
        count, table = ctypes.c_uint(MOST_PROCESSES), (Process * MOST_PROCESSES)()
        for version in ("_v3", "_v2"):
            if self.call(query + version, self.handle, ctypes.byref(count), table):
                running = table[: min(count.value, MOST_PROCESSES)]
                return [(int(one.pid), None if one.used == NOT_AVAILABLE else int(one.used)) for one in running]
            count.value = MOST_PROCESSES
        return None

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
