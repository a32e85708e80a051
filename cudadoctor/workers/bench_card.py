"""One GPU for measuring: buffers, compiled kernels, and the time that queued work takes between two CUDA events.

Loaded by bench.py by its path. Work is queued behind a gate, a kernel that waits for the host's word: gaps in Python's queueing then lie
before the first event and count nothing. A sample is a batch of copies or launches, a figure the median of some samples, its spread the
distance of the extreme samples in parts of the median.
"""

from __future__ import annotations

import contextlib
import ctypes
import time

from cudadoctor_lines import TYPE_CHECKING, sibling

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

bench_ptx, copy_steps, climbing = sibling("bench_ptx"), sibling("copy_steps"), sibling("climbing")
RungError, UnfitError = climbing.RungError, climbing.UnfitError
MIB = 1 << 20
GATE_LIMIT = 200_000_000  # nanoseconds: a gate that nobody opens must not hold a display
WARM_SECONDS = 0.02  # a GPU needs some milliseconds to leave its idle clocks and idle link speed
ARGUMENTS = {"p": ctypes.c_uint64, "u": ctypes.c_uint32, "q": ctypes.c_uint64, "f": ctypes.c_float, "d": ctypes.c_double}
OUT_BYTES = 4096
INTEGRATED = 18  # CU_DEVICE_ATTRIBUTE_INTEGRATED
HOST_SHARE = 0.8  # of what the host can give that a test takes of shared memory


class Samples:
    """Seconds of some batches, each divided by what it did."""

    def __init__(self, seconds: list[float]) -> None:
        self.all = sorted(seconds)
        self.middle = seconds.index(self.all[len(self.all) // 2])  # which of them is the median
        self.median = max(self.all[len(self.all) // 2], 1e-12)
        self.spread = round((self.all[-1] - self.all[0]) / self.median, 4)


class Once:
    """A property that is made when it is first asked for. Python has its own from 3.8 on."""

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self.make = make

    def __get__(self, owner: Any, _: Any) -> Any:
        value = owner.__dict__[self.make.__name__] = self.make(owner)
        return value


def figure(value: float, digits: int, seconds: Samples, why: str | None = None, **more: Any) -> dict[str, Any]:
    return dict({"value": round(value, digits), "spread": seconds.spread, "why": why}, **more)


class Card:
    """One visible device whose context is current in this thread. `short`: the form that `check` runs; `more`: modules beside those of
    bench_ptx.py."""

    def __init__(self, driver: Any, gpu: Any, *, short: bool, more: dict[str, Any] | None = None) -> None:
        self.driver, self.gpu, self.short = driver, gpu, short
        self.texts = {**bench_ptx.MODULES, **(more or {})}
        self.device = gpu.device.value
        self.samples, self.sample_seconds = (3, 0.012) if short else (5, 0.02)
        self.undo: list[tuple[str, Any]] = []
        self.modules: dict[str, Any] = {}
        self.compile_seconds: dict[str, float] = {}
        self.kernels: dict[tuple[str, str], Any] = {}
        self.buffers: tuple[Any, Any, int] | None = None
        self.look: Callable[[], dict[str, Any]] | None = None  # asked while the last sample of a figure is under way
        self.seen: dict[str, Any] | None = None
        self.sm_count = int(driver.attribute(16, self.device) or 0)
        self.l2_bytes = int(driver.attribute(38, self.device) or 0)

    # -------------------------------------------------------- what is given back
    def close(self) -> None:
        """Give everything back, newest first."""
        for function, handle in reversed(self.undo):
            self.driver.tried(function, handle)
        self.undo = []

    def keep(self, kind: Any, undo: str, function: str, *arguments: Any) -> Any:
        """Make something that `close` gives back."""
        handle = kind(self.driver.value(kind, function, *arguments))
        self.undo.append((undo, handle))
        return handle

    def release(self, handle: Any) -> None:
        for entry in self.undo:
            if entry[1] is handle:
                self.undo.remove(entry)
                self.driver.tried(entry[0], handle)
                return

    @Once
    def stream(self) -> Any:
        return self.keep(ctypes.c_void_p, "cuStreamDestroy_v2", "cuStreamCreate", ctypes.c_uint(1))  # CU_STREAM_NON_BLOCKING

    @Once
    def second(self) -> Any:
        """Another stream."""
        return self.keep(ctypes.c_void_p, "cuStreamDestroy_v2", "cuStreamCreate", ctypes.c_uint(1))

    @Once
    def events(self) -> list[Any]:
        return self.more_events(3)

    def more_events(self, count: int) -> list[Any]:
        return [self.keep(ctypes.c_void_p, "cuEventDestroy_v2", "cuEventCreate", ctypes.c_uint(0)) for _ in range(count)]

    @Once
    def out(self) -> Any:
        """The small buffer in which kernels leave what they counted."""
        found = self.memory(OUT_BYTES)
        self.driver.fill(found, 0, OUT_BYTES)
        return found

    @Once
    def gate(self) -> tuple[Any, Any] | None:
        """A flag in host memory that a kernel watches: for the host, and for the kernel. Without one, gaps between launches count: they are
        small beside a batch."""
        try:
            self.kernel("gate", "gate")
            flag = self.keep(ctypes.c_void_p, "cuMemFreeHost", "cuMemHostAlloc", ctypes.c_size_t(4096), ctypes.c_uint(3))
            return flag, self.driver.value(ctypes.c_uint64, "cuMemHostGetDevicePointer_v2", flag, ctypes.c_uint(0))
        except Exception:
            return None

    def memory(self, size: int) -> Any:
        return self.keep(ctypes.c_uint64, "cuMemFree_v2", "cuMemAlloc_v2", ctypes.c_size_t(size))

    @contextlib.contextmanager
    def borrowed(self, size: int, fill: int) -> Iterator[Any]:
        """Device memory for a while, of which every byte has one value."""
        found = self.memory(size)
        try:
            self.driver.fill(found, fill, size)
            yield found
        finally:
            self.release(found)

    def pinned(self, size: int) -> Any:
        """Host memory that the GPU's copy engine reads by itself, touched by its making."""
        return self.keep(ctypes.c_void_p, "cuMemFreeHost", "cuMemHostAlloc", ctypes.c_size_t(size), ctypes.c_uint(1))

    # -------------------------------------------------------- kernels
    def text(self, module: str) -> str:
        """The PTX of a module, where this GPU has its instructions."""
        (version, target, needs), kernels = self.texts[module]
        if tuple(int(part) for part in (self.gpu.capability or "5.0").split(".")) < needs:
            raise UnfitError("compute capability {} does not have it".format(self.gpu.capability))
        return str(bench_ptx.head(version, target) + kernels)

    def kernel(self, module: str, name: str, text: str | None = None, shared: int = 0) -> Any:
        """A kernel, compiled by the driver on first use. `text`: of a module that was made for this GPU; `shared`: bytes of dynamic shared
        memory that the kernel asks for."""
        if (module, name) not in self.kernels:
            if module not in self.modules:
                self.modules[module] = self.compile(text or self.text(module), module)
            self.kernels[module, name] = self.driver.kernel(self.modules[module], name)
            if shared:
                self.driver.call("cuFuncSetAttribute", self.kernels[module, name], ctypes.c_int(8), ctypes.c_int(shared))
        return self.kernels[module, name]

    def compile(self, text: str, name: str) -> Any:
        """A module by the driver's own compiler; its time is kept."""
        started = time.perf_counter()
        try:
            module = self.driver.compiled(text)
        except RungError as error:
            if error.log:
                error.args = ("{}: {}".format(error, " ".join(error.log.split()))[:300],)
            raise
        self.compile_seconds[name] = time.perf_counter() - started
        self.undo.append(("cuModuleUnload", module))
        return module

    def blocks_per_sm(self, kernel: Any, threads: int) -> int:
        """How many blocks of a kernel one multiprocessor holds at once: with as many, all of a grid run side by side."""
        found = self.driver.ask(
            ctypes.c_int, "cuOccupancyMaxActiveBlocksPerMultiprocessor", kernel, ctypes.c_int(threads), ctypes.c_size_t(0)
        )
        return int(found or 1)

    def launch(self, kernel: Any, blocks: int, threads: int, kinds: str, *values: Any, stream: Any = None, shared: int = 0) -> None:
        """Queue a kernel. `kinds`: a letter for each argument, p pointer, u 32 bit, q 64 bit, f float, d double, m a block of memory as it
        is. `shared`: bytes of dynamic shared memory."""
        held: list[Any] = [value if kind == "m" else ARGUMENTS[kind](getattr(value, "value", value)) for kind, value in zip(kinds, values)]
        array = (ctypes.c_void_p * max(1, len(held)))(*[ctypes.addressof(one) for one in held])
        self.driver.launch(kernel, blocks, threads, array, stream if stream is not None else self.stream, shared)

    # -------------------------------------------------------- time
    def shut_gate(self, *streams: Any) -> None:
        if self.gate is None:
            return
        flag, there = self.gate
        ctypes.c_uint32.from_address(flag.value).value = 0
        for stream in streams:
            self.launch(self.kernel("gate", "gate"), 1, 1, "pq", there, GATE_LIMIT, stream=stream)

    def open_gate(self) -> None:
        if self.gate is not None:
            ctypes.c_uint32.from_address(self.gate[0].value).value = 1

    def record(self, event: Any, stream: Any = None) -> None:
        self.driver.call("cuEventRecord", event, stream if stream is not None else self.stream)

    def elapsed(self, before: Any, after: Any) -> float:
        """Seconds between two events that came to pass."""
        return float(self.driver.value(ctypes.c_float, "cuEventElapsedTime", before, after)) / 1000.0

    def batch(self, queue: Callable[[int], None], count: int, during: Callable[[], None] | None = None) -> float:
        """Seconds of `count` pieces of work between two events; `during` runs while they are under way."""
        before, after = self.events[:2]
        self.shut_gate(self.stream)
        try:
            self.record(before)
            for number in range(count):
                queue(number)
            self.record(after)
        finally:
            self.open_gate()
        if during is not None:
            during()
        self.driver.call("cuEventSynchronize", after)
        return self.elapsed(before, after)

    def measure(
        self, queue: Callable[[int], None], during: Callable[[], None] | None = None, *, most: int = 64, warm: float = WARM_SECONDS
    ) -> Samples:
        """Seconds of one piece of queued work: warm up, then the samples."""
        started = time.monotonic()
        once = self.batch(queue, 1)
        while time.monotonic() - started < warm:
            once = self.batch(queue, 2) / 2
        count = max(1, min(most, int(self.sample_seconds / max(once, 1e-7))))
        seconds = [self.batch(queue, count, during) / count for _ in range(self.samples)]
        return self.looked_at(seconds, queue, count)

    def measure_steady(self, queue: Callable[[int], None], warm: float, sample: float) -> Samples:
        """The same of work that meets the power limit: all is queued at once, for after each gap the clock begins high and falls.

        `queue` is given the number of the sample, the number of samples while it warms up.
        """
        once = max(self.batch(queue, 1), 1e-5)
        count = max(1, int(sample / once))
        events = self.more_events(self.samples + 1)
        for _ in range(int(warm / once) + 1):
            queue(self.samples)
        self.record(events[0])
        for number, event in enumerate(events[1:]):
            for _ in range(count):
                queue(number)
            self.record(event)
        self.driver.call("cuEventSynchronize", events[-1])
        seconds = [self.elapsed(before, after) / count for before, after in zip(events, events[1:])]
        for event in events:
            self.release(event)
        return self.looked_at(seconds, queue, count)

    def looked_at(self, seconds: list[float], queue: Callable[[int], None], count: int) -> Samples:
        """The samples, after one more for a look: what asks the driver could hold up what is timed."""
        look = self.look
        if look is not None:
            self.batch(queue, count, lambda: setattr(self, "seen", look()))
        return Samples(seconds)

    def of_clock(self, value: float, digits: int, seconds: Samples, slot: int = 0) -> dict[str, Any]:
        """A figure with what its limit is made of."""
        known = {"sm_count": self.sm_count, "clock_mhz": self.clock_mhz(slot), "compute_capability": self.gpu.capability}
        return figure(value, digits, seconds, **known)

    def long_enough(self, launch: Callable[[int], None]) -> tuple[int, Samples]:
        """Choose the turns of a kernel so that a launch fills a sample; then its seconds."""
        turns, once = 16, 0.0
        while turns < 1 << 24:
            once = min(self.batch(lambda _, count=turns: launch(count), 1) for _ in range(2))  # type: ignore[misc]
            if once > self.sample_seconds / 16:
                break
            turns *= 4
        turns = max(1, min(1 << 26, int(turns * self.sample_seconds / 2 / max(once, 1e-6))))
        return turns, self.measure(lambda _: launch(turns), most=2)

    def by_clock(self, work: Callable[[], None], samples: int = 0) -> Samples:
        """Seconds of work that ends before it returns, by the host's clock."""
        work()
        seconds = []
        for _ in range(samples or self.samples):
            started = time.perf_counter()
            work()
            seconds.append(time.perf_counter() - started)
        return Samples(seconds)

    # -------------------------------------------------------- memory
    def two_buffers(self, wanted: int) -> tuple[Any, Any, int]:
        """Two device buffers that all figures share, as large as wanted and as free memory allows."""
        if not self.buffers:
            free = self.free_now()
            size = min(wanted, free // 8) // MIB * MIB
            if size < 2 * MIB:
                raise UnfitError("too little free memory on the GPU: {} MiB".format(free // MIB))
            self.buffers = self.memory(size), self.memory(size), size
        return self.buffers

    def free_now(self) -> int:
        """Bytes of device memory that may be taken. What a GPU shares with the host (Jetson, GB10) is not all for the taking: the kernel
        would end programs for it, and cuMemGetInfo counts the page cache as used."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.driver.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        if not self.driver.attribute(INTEGRATED, self.device):
            return int(free.value)
        return int(min(total.value, copy_steps.available_memory() * HOST_SHARE))

    def read_out(self, count: int) -> list[int]:
        """The first 64-bit words that a kernel left in the small buffer."""
        return list(self.driver.fetch(self.out, (ctypes.c_uint64 * count)()))

    def clear_out(self) -> None:
        """Zeros before a kernel counts there."""
        self.driver.fill(self.out, 0, OUT_BYTES)

    def clock_mhz(self, slot: int = 0) -> float | None:
        """The clock under load, from the cycles and nanoseconds that kernels counted there. None: a clock that stands still."""
        return self.clock_of(*self.read_out(2 * slot + 2)[-2:])

    @staticmethod
    def clock_of(cycles: int, nanoseconds: int) -> float | None:
        """In MHz; None for counts that no kernel made."""
        return round(cycles / nanoseconds * 1000, 1) if 0 < nanoseconds < 1 << 40 and 0 < cycles < 1 << 44 else None
