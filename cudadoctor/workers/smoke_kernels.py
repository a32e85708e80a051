"""Further steps of the smoke test by the driver alone: each computes what Python computes too, and compares.

Loaded by smoke.py by its path. A step returns what it has to say, and the words of a failure that it made on purpose; a wrong result is
raised with the kernel, the first wrong index, what is right and what came, and is then looked at again. Integers, double and half precision
are compared exactly: their arithmetic is rounded as the standard says, and the numbers are chosen so that half precision is exact.
"""

from __future__ import annotations

import ctypes
import math
import time

from cudadoctor_lines import TYPE_CHECKING, sibling

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

bench_ptx, RungError = sibling("bench_ptx"), sibling("climbing").RungError
UnfitError, WrongError = sibling("bench_card").UnfitError, sibling("copy_steps").WrongError
MIB = 1 << 20
MASK = (1 << 64) - 1
THREADS = 256
POISON = 0xA5
REDUCED = 1 << 20  # numbers that are summed
COUNTERS, ADD_TURNS = 1 << 12, 64
DOUBLES, HALVES = 1 << 16, 1 << 12
MIXED, MIX_TURNS, REPEATS, MIX_CHECKED = 1 << 20, 256, 40, 256
SMALL_N, SMALL_GRID, SMALL_BLOCK = 1000, 8, 128  # 24 threads more than elements
MEET_LIMIT = 2_000_000_000  # nanoseconds
GOLDEN = 0x9E3779B97F4A7C15
KEPT_FREE = 64 * MIB
LOOK_EVERY = 1.0  # seconds between looks at a GPU under load


class Kernels:
    """The steps of one GPU. `steps`: name, the ladder's rung whose failure it would be, what carries it out."""

    def __init__(self, card: Any, watch: Any, *, memory: str, duration: float) -> None:
        self.card, self.driver, self.watch = card, card.driver, watch
        self.wanted, self.duration = memory, duration
        self.looks: list[dict[str, Any]] = []  # under load
        self.steps: list[tuple[str, str, Callable[[], Any]]] = [
            ("launch limits", "ptx-kernel", self.launch_limits),
            ("shared-memory reduction", "ptx-kernel", self.reduction),
            ("atomics", "ptx-kernel", self.atomics),
            ("FP64", "ptx-kernel", self.double),
            ("FP16", "ptx-kernel", self.half),
            ("cooperative groups", "ptx-kernel", self.cooperative),
            ("repeat test", "ptx-kernel", self.repeat),
            ("memory pattern", "memory", self.pattern),
        ]
        if duration > 0:
            self.steps.append(("load for {:g} s".format(duration), "ptx-kernel", self.load))

    # -------------------------------------------------------- parts
    def place(self, size: int, fill: int = POISON) -> Any:
        """Device memory that holds poison: an element that nobody wrote is seen."""
        return self.card.borrowed(size, fill)

    def run(self, module: str, kernel: str, blocks: int, threads: int, kinds: str, *values: Any) -> None:
        self.card.launch(self.card.kernel(module, kernel), blocks, threads, kinds, *values)
        self.driver.call("cuStreamSynchronize", self.card.stream)

    def compare(self, kernel: str, found: Any, expected: Callable[[int], Any]) -> None:
        for index, value in enumerate(found):
            right = expected(index)
            if value != right:
                raise WrongError("kernel {}: element {} is {!r}, {!r} is right".format(kernel, index, value, right))

    def doubles(self, kernel: str, count: int, expected: Callable[[int], float]) -> None:
        """A kernel that leaves a number in double precision for each index."""
        with self.place(8 * count) as place:
            self.run(kernel, kernel, count // THREADS, THREADS, "pq", place, count)
            self.compare(kernel, self.driver.fetch(place, (ctypes.c_double * count)()), expected)

    # -------------------------------------------------------- arithmetic
    def reduction(self) -> str | None:
        values = (ctypes.c_uint32 * REDUCED)(*range(7, 7 + REDUCED))
        with self.place(4 * REDUCED) as place, self.place(64, 0) as total:
            self.driver.send(place, values)
            self.run("reduce", "reduce", 2 * self.card.sm_count, THREADS, "pup", place, REDUCED, total)
            found = self.driver.fetch(total, (ctypes.c_uint32 * 1)())[0]
        right = (REDUCED * 7 + REDUCED * (REDUCED - 1) // 2) & 0xFFFFFFFF
        if found != right:
            raise WrongError("kernel reduce: the sum of {} numbers is {}, {} is right".format(REDUCED, found, right))
        return None

    def atomics(self) -> str | None:
        with self.place(4 * COUNTERS, 0) as place:
            self.run("add", "add", 64, THREADS, "puu", place, COUNTERS - 1, ADD_TURNS)
            found = self.driver.fetch(place, (ctypes.c_uint32 * COUNTERS)())
        right = 64 * THREADS // COUNTERS * ADD_TURNS
        self.compare("add", found, lambda _: right)
        return None

    def double(self) -> str | None:
        """Square root, product, quotient and sum, to the last bit."""
        self.doubles("double", DOUBLES, lambda index: math.sqrt(index + 1.0) * (index + 1.0) / 3.0 + math.sqrt(index + 1.0))
        return "equal to the CPU to the last bit"

    def half(self) -> str | None:
        try:
            self.card.kernel("half", "half")
        except UnfitError:
            raise UnfitError("")
        self.doubles("half", HALVES, lambda index: 3.0 * (index & 63) + 1.0)
        return None

    def cooperative(self) -> str | None:
        """Blocks that wait for each other across the whole grid."""
        if not self.driver.attribute(95, self.card.device):  # CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH
            raise UnfitError("")
        kernel, blocks = self.card.kernel("meet", "meet"), self.card.sm_count
        with self.place(64, 0) as counter, self.place(4 * blocks) as left, self.place(4 * blocks) as sums:
            values = [ctypes.c_uint64(place.value) for place in (counter, left, sums)] + [ctypes.c_uint64(MEET_LIMIT)]
            array = (ctypes.c_void_p * 4)(*[ctypes.addressof(value) for value in values])
            one, none = ctypes.c_uint(1), ctypes.c_uint(0)
            self.driver.call(
                "cuLaunchCooperativeKernel", kernel, ctypes.c_uint(blocks), one, one, ctypes.c_uint(32), one, one, none,
                self.card.stream, array,
            )  # fmt: skip
            self.driver.call("cuStreamSynchronize", self.card.stream)
            found = self.driver.fetch(sums, (ctypes.c_uint32 * blocks)())
        right = sum(block * block + 1 for block in range(blocks)) & 0xFFFFFFFF
        self.compare("meet", found, lambda _: right)
        return "{} blocks met".format(blocks)

    def repeat(self) -> str | None:
        """The same computation many times: a checksum that changes is silent corruption."""
        seen: dict[int, int] = {}
        with self.place(4 * MIXED) as place, self.place(64, 0) as total:
            for number in range(REPEATS):
                self.driver.fill(total, 0, 64)
                self.run("mix", "mix", MIXED // THREADS, THREADS, "puuu", place, MIXED, MIX_TURNS, 1)
                self.run("reduce", "reduce", self.card.sm_count, THREADS, "pup", place, MIXED, total)
                seen.setdefault(int(self.driver.fetch(total, (ctypes.c_uint32 * 1)())[0]), number)
            found = self.driver.fetch(place, (ctypes.c_uint32 * MIX_CHECKED)())
        self.compare("mix", found, mixed)
        if len(seen) > 1:
            sums = ", ".join("{:#x} (first in run {})".format(*one) for one in seen.items())
            raise WrongError("kernel mix: {} runs of the same computation gave {} checksums: {}".format(REPEATS, len(seen), sums))
        return "{} runs, one checksum".format(REPEATS)

    # -------------------------------------------------------- launches
    def launch_limits(self) -> tuple[str, str]:
        """Threads beyond the last element write nothing, the largest block runs, and one thread more is refused. The driver's words
        for that are told too: the doctor diagnoses those as it does anybody's."""
        most = int(self.driver.attribute(1, self.card.device) or 1024)  # CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK
        kernel = self.card.kernel("pattern", "write")
        places = max(SMALL_GRID * SMALL_BLOCK, most)
        poison = int.from_bytes(bytes([POISON]) * 8, "little")
        with self.place(8 * places) as place:
            for blocks, threads, count in ((SMALL_GRID, SMALL_BLOCK, SMALL_N), (1, most, most)):
                self.driver.fill(place, POISON, 8 * places)
                self.run("pattern", "write", blocks, threads, "pqqquq", place, count, 3, 5, 63, 0)
                found = self.driver.fetch(place, (ctypes.c_uint64 * (blocks * threads))())
                words = "write[{}, {}] of {} elements".format(blocks, threads, count)
                self.compare(words, found, lambda index, count=count: 3 * index + 5 if index < count else poison)  # type: ignore[misc]
            refused = self.refusal(kernel, most + 1, place)
        return "{} threads a block ran; {} are refused".format(most, most + 1), refused

    def refusal(self, kernel: Any, threads: int, place: Any) -> str:
        """The launch of a block that is too large, and what the driver says to it. That it says nothing would be wrong."""
        try:
            self.card.launch(kernel, 1, threads, "pqqquq", place, 1, 3, 5, 63, 0)
        except RungError as error:
            return "write[1, {}](...)\n{}".format(threads, error.output)
        raise WrongError("kernel write[1, {}]: a block larger than the device allows was not refused".format(threads))

    # -------------------------------------------------------- memory
    def size_of_test(self) -> int:
        """Bytes to test: a size such as 256MiB or 2GiB, or a share of the free memory such as 90%."""
        free = self.card.free_now()
        text = self.wanted.strip().lower()
        units = {"%": free / 100.0, "kib": 1024.0, "kb": 1e3, "mib": MIB, "m": MIB, "mb": 1e6, "gib": 1024.0 * MIB, "gb": 1e9}
        units["g"] = units["gib"]
        number = text.rstrip("%abcdefghijklmnopqrstuvwxyz")
        wanted = float(number) * units[text[len(number) :].strip()]
        return int(min(wanted, max(0, free - KEPT_FREE))) // MIB * MIB

    def pattern(self) -> str | None:
        """Every 8 bytes of a stretch of memory hold their own address, its inverse, and a random number; each is read back."""
        size = self.size_of_test()
        if size < MIB:
            raise UnfitError("too little free memory: {} MiB".format(self.card.free_now() // MIB))
        count = size // 8
        now = int(time.time())
        with self.place(size) as place, self.place(64) as out:
            patterns = (
                ("address", 8, place.value, 63, 0),
                ("inverse address", 8, place.value, 63, MASK),
                ("random", GOLDEN, now, 29, 0),
                ("inverse random", GOLDEN, now, 29, MASK),
            )
            for name, *how in patterns:
                self.one_pattern(name, place, count, how, out)
        return "{} MiB, {} patterns".format(size // MIB, len(patterns))

    def one_pattern(self, name: str, place: Any, count: int, how: list[int], out: Any) -> None:
        """Write it everywhere, then read it everywhere."""
        blocks = (count + THREADS - 1) // THREADS
        self.driver.send(out, (ctypes.c_uint64 * 2)(0, MASK))
        self.run("pattern", "write", blocks, THREADS, "pqqquq", place, count, *how)
        self.run("pattern", "verify", blocks, THREADS, "pqqquqp", place, count, *how, out)
        wrong, first = self.driver.fetch(out, (ctypes.c_uint64 * 2)())
        if wrong:
            found = self.driver.fetch(ctypes.c_uint64(place.value + 8 * first), (ctypes.c_uint64 * 1)())[0]
            right = expected(first, *how)
            words = "kernel verify, pattern {}: element {} is {:#x}, {:#x} is right; {} of {} elements are wrong"
            raise WrongError(words.format(name, first, found, right, wrong, count))

    # -------------------------------------------------------- load
    def load(self) -> str | None:
        """Arithmetic that proves itself, for as long as was asked; what NVML says meanwhile."""
        kernel = self.card.kernel("fp32", "fp32")
        blocks = 8 * self.card.sm_count
        ended, next_look, launches = time.monotonic() + self.duration, 0.0, 0
        self.card.clear_out()
        while time.monotonic() < ended:
            for _ in range(8):
                self.card.launch(kernel, blocks, THREADS, "puff", self.card.out, 4096, -1.0, 11.375)
            if time.monotonic() >= next_look:
                self.looks.append(self.watch.look())
                next_look = time.monotonic() + LOOK_EVERY
            self.driver.call("cuStreamSynchronize", self.card.stream)
            launches += 8
            wrong = self.card.read_out(3)[2]
            if wrong:
                chains = blocks * THREADS * bench_ptx.CHAINS
                raise WrongError("kernel fp32: {} of {} chains are wrong after {} launches".format(wrong, chains, launches))
        return "{} launches; {}".format(launches, told(self.looks))


def expected(index: int, factor: int, add: int, shift: int, flip: int) -> int:
    """The value of one element of a pattern, as the kernel computes it."""
    value = (index * factor + add) & MASK
    return (value ^ value >> shift) ^ flip


def mixed(index: int) -> int:
    """The kernel mix on the CPU."""
    value = index + 1
    for _ in range(MIX_TURNS):
        value = (value * 1664525 + 1013904223) & 0xFFFFFFFF
        value ^= value >> 13
    return value


def told(looks: list[dict[str, Any]]) -> str:
    """Lowest and highest clock, highest temperature and power, and what held the clocks down."""
    parts = []
    for name, unit in (("sm_clock_mhz", "MHz"), ("temperature_c", "C"), ("power_w", "W")):
        values = [look[name] for look in looks if look.get(name) is not None]
        if values:
            low, high = min(values), max(values)
            parts.append("{:.0f} {}".format(high, unit) if round(low) == round(high) else "{:.0f} to {:.0f} {}".format(low, high, unit))
    reasons = sorted({reason for look in looks for reason in look.get("reasons") or ()})
    return ", ".join(parts + (["clocks held by " + ", ".join(reasons)] if reasons else ["clocks not held down"]))
