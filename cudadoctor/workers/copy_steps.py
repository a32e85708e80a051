"""Mini benchmark of one GPU: copies between host and device, device memory, and the time of a kernel launch.

Loaded by ladder.py by its path, after the GPU's own kernel computed correctly. Each figure is the median of a few samples, each
sample a batch of copies between two CUDA events after a warm-up, so gaps in Python's queueing and idle clocks do not count. What was
copied is compared. A figure that cannot be measured is an event with value null and the reason; nothing here raises.
Rates are GB/s (1e9 bytes per second).
"""

from __future__ import annotations

import ctypes
import mmap
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MIB = 1 << 20
PINNED_LIMIT = 64 * MIB  # larger buffers measure the same and cost time: the pages must be made and pinned first
PAGEABLE_LIMIT = 32 * MIB
DEVICE_LIMIT = 512 * MIB  # ten times the largest cache of a GPU, else the cache is measured
LATENCY_BOUND = 32 * MIB
WARM_SECONDS = 0.02  # a GPU needs some milliseconds to leave its idle clocks and idle link speed
SAMPLE_SECONDS = 0.015
SAMPLES = 3
LAUNCHES = 200
# GB/s that one lane carries, by its transfer rate in GT/s: (generation, rate after encoding)
LANES = {2.5: (1, 0.25), 5.0: (2, 0.5), 8.0: (3, 0.985), 16.0: (4, 1.969), 32.0: (5, 3.938), 64.0: (6, 7.56)}
FIGURES = ("h2d_pinned", "d2h_pinned", "h2d_pageable", "d2h_pageable", "d2d", "launch_latency")


class UnfitError(Exception):
    """A figure cannot be measured here; the text says why."""


def measure(emit: Callable[..., None], driver: Any, gpu: Any) -> None:
    """Measure all figures of one GPU whose context is current, one `benchmark` event each."""
    bench = Bench(driver, gpu)
    with Nearby(gpu.address):
        try:
            for name in FIGURES:
                started = time.monotonic()
                unit = "us" if name == "launch_latency" else "GB/s"
                record: dict[str, Any] = {"value": None, "unit": unit, "limit": None, "limit_from": None, "why": None}
                try:
                    record.update(getattr(bench, name)())
                except Exception as error:
                    known = isinstance(error, UnfitError) or hasattr(error, "output")
                    record["why"] = str(error) if known else "the worker itself failed: {}: {}".format(type(error).__name__, error)
                emit("benchmark", gpu=gpu.index, name=name, seconds=round(time.monotonic() - started, 6), **record)
        finally:
            bench.close()


# ------------------------------------------------------------------ what the machine says
def read(path: str) -> str | None:
    """The text of a small file, None where it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return None


class Nearby:
    """Runs the thread on the CPUs next to the GPU, where the machine says which they are; restores its CPUs afterwards."""

    def __init__(self, address: str | None) -> None:
        self.before: set[int] | None = None
        self.folder = "/sys/bus/pci/devices/{}/".format(address)

    def __enter__(self) -> None:
        node = read(self.folder + "numa_node")
        if node is not None and node.isdigit():  # -1: the machine does not say
            try:
                allowed = os.sched_getaffinity(0)
                near = allowed & cpu_list(read(self.folder + "local_cpulist") or "")
                if near and near != allowed:
                    os.sched_setaffinity(0, near)
                    self.before = allowed
            except (OSError, ValueError, AttributeError):  # Linux alone has the two functions
                pass

    def __exit__(self, *_: object) -> None:
        if self.before is not None:
            try:
                os.sched_setaffinity(0, self.before)
            except (OSError, AttributeError):
                pass


def cpu_list(text: str) -> set[int]:
    """The CPUs of a list such as 0-15,32."""
    cpus: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if first.strip():
            cpus.update(range(int(first), int(last if dash else first) + 1))
    return cpus


def available_memory() -> int:
    """Bytes of host memory that may be used without pressing others, in this container too."""
    figures = []
    for line in (read("/proc/meminfo") or "").splitlines():
        if line.startswith("MemAvailable:"):
            figures.append(int(line.split()[1]) * 1024)
    limit, used = read("/sys/fs/cgroup/memory.max"), read("/sys/fs/cgroup/memory.current")
    if limit is not None and used is not None and limit.isdigit() and used.isdigit():
        figures.append(max(0, int(limit) - int(used)))
    return min(figures) if figures else 1024 * MIB


def link(folder: str, which: str) -> tuple[float, int] | None:
    """Transfer rate (GT/s) and width of a PCIe link; `which` is current or max. None where sysfs does not say."""
    try:
        speed = float((read("{}{}_link_speed".format(folder, which)) or "").split()[0])
        width = int(read("{}{}_link_width".format(folder, which)) or "")
    except (IndexError, ValueError):
        return None
    return (speed, width) if speed in LANES and 1 <= width <= 32 else None


def link_name(known: tuple[float, int] | None) -> str:
    """A link as people write it: PCIe 5.0 x16."""
    return "unknown" if known is None else "PCIe {}.0 x{}".format(LANES[known[0]][0], known[1])


# ------------------------------------------------------------------ measuring
class Bench:
    """Buffers and events of one GPU, and one method per figure that returns the fields it knows."""

    def __init__(self, driver: Any, gpu: Any) -> None:
        self.driver, self.gpu = driver, gpu
        self.undo: list[tuple[str, Any]] = []
        self.folder = "/sys/bus/pci/devices/{}/".format(gpu.address)
        self.under_load: tuple[float, int] | None = None
        self.pinned: Any = None
        self.size = min(PINNED_LIMIT, gpu.free_bytes // 8, available_memory() // 16) // MIB * MIB
        self.device_size = max(self.size, min(DEVICE_LIMIT, gpu.free_bytes // 8) // MIB * MIB)
        self.first: Any = None
        self.second: Any = None
        self.stream: Any = None
        self.events: list[Any] = []
        self.host: Any = None
        self.closed_by: Exception | None = None

    def close(self) -> None:
        """Give everything back, newest first."""
        for function, handle in reversed(self.undo):
            self.driver.tried(function, handle)
        self.host = None

    def keep(self, kind: Any, undo: str, function: str, *arguments: Any) -> Any:
        """Make something that `close` gives back."""
        handle = kind(self.driver.value(kind, function, *arguments))
        self.undo.append((undo, handle))
        return handle

    def prepare(self) -> None:
        """Events, stream and device memory, on first use. A refusal is every figure's reason."""
        if self.closed_by is not None:
            raise self.closed_by
        if self.first is not None:
            return
        try:
            if self.size < 2 * MIB:
                raise UnfitError(
                    "too little free memory: {} bytes on the GPU, {} on the host".format(self.gpu.free_bytes, available_memory())
                )
            one = ctypes.c_uint(1)
            self.stream = self.keep(ctypes.c_void_p, "cuStreamDestroy_v2", "cuStreamCreate", one)  # one: CU_STREAM_NON_BLOCKING
            self.events = [self.keep(ctypes.c_void_p, "cuEventDestroy_v2", "cuEventCreate", ctypes.c_uint(0)) for _ in range(2)]
            self.second = self.keep(ctypes.c_uint64, "cuMemFree_v2", "cuMemAlloc_v2", ctypes.c_size_t(self.device_size))
            self.first = self.keep(ctypes.c_uint64, "cuMemFree_v2", "cuMemAlloc_v2", ctypes.c_size_t(self.device_size))
        except Exception as error:
            self.closed_by = error
            raise

    def pin(self) -> Any:
        """The pinned buffer that all copies share."""
        self.prepare()
        if self.pinned is None:
            self.pinned = self.keep(ctypes.c_void_p, "cuMemFreeHost", "cuMemHostAlloc", ctypes.c_size_t(self.size), ctypes.c_uint(1))
        return self.pinned

    def batch(self, queue: Callable[[], None], copies: int, during: Callable[[], None] | None = None) -> float:
        """Seconds between two events around `copies` copies; `during` runs while they are under way."""
        before, after = self.events
        self.driver.call("cuEventRecord", before, self.stream)
        for _ in range(copies):
            queue()
        self.driver.call("cuEventRecord", after, self.stream)
        if during is not None:
            during()
        self.driver.call("cuEventSynchronize", after)
        return float(self.driver.value(ctypes.c_float, "cuEventElapsedTime", before, after)) / 1000.0

    def rate(self, queue: Callable[[], None], size: int, during: Callable[[], None] | None = None) -> float:
        """GB/s of a queued copy of `size` bytes: warm up, then the median of some samples."""
        started = time.monotonic()
        once = self.batch(queue, 1)
        while time.monotonic() - started < WARM_SECONDS:
            once = self.batch(queue, 1)
        copies = max(1, min(32, int(SAMPLE_SECONDS / max(once, 1e-6))))
        samples = sorted(self.batch(queue, copies, during) / copies for _ in range(SAMPLES))
        return size / max(samples[SAMPLES // 2], 1e-9) / 1e9

    def wall_rate(self, copy: Callable[[], None], size: int) -> float:
        """GB/s of a copy that returns when it is done, by the host's clock."""
        copy()
        samples = []
        for _ in range(SAMPLES):
            started = time.perf_counter()
            copy()
            self.driver.call("cuCtxSynchronize")
            samples.append(time.perf_counter() - started)
        return size / max(sorted(samples)[SAMPLES // 2], 1e-9) / 1e9

    # -------------------------------------------------------- PCIe
    def look_at_link(self) -> None:
        """Read the link while it works: at idle it trains down."""
        self.under_load = link(self.folder, "current") or self.under_load

    def over_pcie(self, value: float, size: int) -> dict[str, Any]:
        """A figure beside what card and slot can do at most."""
        notes = []
        card, slot = link(self.folder, "max"), link(os.path.realpath(self.folder.rstrip("/")) + "/../", "max")
        limit = limit_from = None
        if card is None:
            notes.append("{}max_link_speed does not say what the link can do".format(self.folder))
        else:
            speed, width = (min(card[0], slot[0]), min(card[1], slot[1])) if slot else card
            if self.under_load is not None:
                speed, width = max(speed, self.under_load[0]), max(width, self.under_load[1])
            limit = round(LANES[speed][1] * width, 3)
            limit_from = "{}: {}".format(link_name((speed, width)), "the lesser of card and slot" if slot else "the card's maximum")
            notes.append("link while copying: {}".format(link_name(self.under_load)))
        if size < LATENCY_BOUND:
            notes.append("{} MiB at a time: latency counts".format(size // MIB))
        return {"value": round(value, 3), "limit": limit, "limit_from": limit_from, "why": "; ".join(notes) or None}

    def h2d_pinned(self) -> dict[str, Any]:
        """Host to device from pinned memory."""
        host, size = self.pin(), self.size
        mark(host.value, size, 1)
        value = self.rate(lambda: self.copy("cuMemcpyHtoDAsync_v2", self.first, host, size), size, self.look_at_link)
        wipe(host.value, size)
        self.copy("cuMemcpyDtoHAsync_v2", host, self.first, size)
        self.driver.call("cuStreamSynchronize", self.stream)
        check(host.value, size, 1)
        return self.over_pcie(value, size)

    def d2h_pinned(self) -> dict[str, Any]:
        """Device to host into pinned memory."""
        host, size = self.pin(), self.size
        self.send_marks(2, size)
        wipe(host.value, size)
        value = self.rate(lambda: self.copy("cuMemcpyDtoHAsync_v2", host, self.first, size), size, self.look_at_link)
        check(host.value, size, 2)
        return self.over_pcie(value, size)

    def copy(self, function: str, target: Any, source: Any, size: int) -> None:
        """Queue one copy on the stream."""
        self.driver.call(function, target, source, ctypes.c_size_t(size), self.stream)

    def send_marks(self, salt: int, size: int) -> None:
        """Put the pattern into the device buffer that is copied next."""
        text = ctypes.create_string_buffer(pattern(salt), MIB)
        for offset in (0, size - MIB):
            self.driver.call("cuMemcpyHtoD_v2", ctypes.c_uint64(self.first.value + offset), text, ctypes.c_size_t(MIB))
        self.driver.call("cuCtxSynchronize")  # such a copy may return before it arrived, and our stream does not wait for it

    def pageable(self) -> tuple[int, int]:
        """Address and size of ordinary memory, touched, so that it is really there."""
        self.prepare()
        size = min(self.size, PAGEABLE_LIMIT)
        if self.host is None:
            self.host = (ctypes.c_char * size).from_buffer(mmap.mmap(-1, size))
            ctypes.memset(self.host, 0x5A, size)
        return ctypes.addressof(self.host), size

    def h2d_pageable(self) -> dict[str, Any]:
        """Host to device from ordinary memory: what a program gets that does not pin."""
        address, size = self.pageable()
        mark(address, size, 3)
        value = self.wall_rate(
            lambda: self.driver.call("cuMemcpyHtoD_v2", self.first, ctypes.c_void_p(address), ctypes.c_size_t(size)), size
        )
        wipe(address, size)
        self.driver.call("cuMemcpyDtoH_v2", ctypes.c_void_p(address), self.first, ctypes.c_size_t(size))
        check(address, size, 3)
        return self.over_pcie(value, size)

    def d2h_pageable(self) -> dict[str, Any]:
        """Device to host into ordinary memory."""
        address, size = self.pageable()
        self.send_marks(4, size)
        wipe(address, size)
        value = self.wall_rate(
            lambda: self.driver.call("cuMemcpyDtoH_v2", ctypes.c_void_p(address), self.first, ctypes.c_size_t(size)), size
        )
        check(address, size, 4)
        return self.over_pcie(value, size)

    # -------------------------------------------------------- the device itself
    def d2d(self) -> dict[str, Any]:
        """Device memory: bytes read and bytes written, both counted."""
        self.prepare()
        size = self.device_size
        self.send_marks(5, size)
        value = 2 * self.rate(lambda: self.copy("cuMemcpyDtoDAsync_v2", self.second, self.first, size), size)
        back = ctypes.create_string_buffer(2 * MIB)
        for offset, place in ((0, 0), (size - MIB, MIB)):
            source = ctypes.c_uint64(self.second.value + offset)
            self.driver.call("cuMemcpyDtoH_v2", ctypes.c_void_p(ctypes.addressof(back) + place), source, ctypes.c_size_t(MIB))
        check(ctypes.addressof(back), 2 * MIB, 5)
        clock, bits = (self.driver.attribute(number, self.gpu.device.value) for number in (36, 37))  # kHz, bits
        record: dict[str, Any] = {"value": round(value, 3), "why": "bytes read and bytes written are both counted"}
        if clock and bits:
            record["limit"] = round(2 * clock * 1000 * bits / 8 / 1e9, 3)
            record["limit_from"] = "2 x {:g} MHz memory clock x {} bit".format(clock / 1000, bits)
        else:
            record["why"] += "; the driver does not say the memory clock"
        return record

    def launch_latency(self) -> dict[str, Any]:
        """From the launch of an empty kernel until the host knows that it ended."""
        samples = []
        for _ in range(LAUNCHES):
            started = time.perf_counter()
            self.gpu.launch(self.gpu.empty, 1, 1)
            self.driver.call("cuCtxSynchronize")
            samples.append(time.perf_counter() - started)
        value = sorted(samples)[LAUNCHES // 2] * 1e6
        return {"value": round(value, 3), "why": "host clock, launch and wait of an empty kernel, median of {}".format(LAUNCHES)}


# ------------------------------------------------------------------ what is copied is compared
def pattern(salt: int) -> bytes:
    """A mebibyte that no other test of this file sends; its period is no power of two."""
    unit = bytes((index * 7 + salt * 31) & 0xFF for index in range(251))
    return (unit * (MIB // 251 + 1))[:MIB]


def mark(address: int, size: int, salt: int) -> None:
    """Write the pattern into the first and the last mebibyte."""
    for offset in (0, size - MIB):
        ctypes.memmove(address + offset, pattern(salt), MIB)


def wipe(address: int, size: int) -> None:
    """Remove the pattern, so that only a copy can bring it back."""
    for offset in (0, size - MIB):
        ctypes.memset(address + offset, 0, MIB)


def check(address: int, size: int, salt: int) -> None:
    """Compare the first and the last mebibyte with the pattern."""
    expected = pattern(salt)
    for offset in (0, size - MIB):
        found = ctypes.string_at(address + offset, MIB)
        if found != expected:
            wrong = next(index for index in range(MIB) if found[index] != expected[index])
            raise UnfitError("the copied data differ from what was sent, first at byte {} of {}".format(offset + wrong, size))
