"""Figures of the GPU itself: arithmetic, atomics, shared memory, memory latency, launches, and what starting costs.

Loaded by bench.py by its path. Arithmetic kernels prove their own result and count their own cycles, so the clock beside a figure is the
clock under that very load. What a multiprocessor can do in one cycle is the doctor's knowledge; here only its parts are measured.
"""

from __future__ import annotations

import ctypes
import time

from cudadoctor_lines import TYPE_CHECKING, sibling

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

bench_card, bench_ptx, copy_steps = sibling("bench_card"), sibling("bench_ptx"), sibling("copy_steps")
figure: Callable[..., dict[str, Any]] = bench_card.figure
MIB = 1 << 20
THREADS = 256
CHAIN_STRIDE = 256  # bytes between elements of the pointer chase: past what one access to memory brings
CHAIN_BYTES = 512 * MIB  # past every cache
CHASE_TURNS = 1024
# -1 and 11.375 in each type, see `arithmetic` in bench_ptx.py: the letter of the argument and both values
FACTORS = {
    "fp32": ("f", -1.0, 11.375), "fp64": ("d", -1.0, 11.375), "fp16": ("u", 0xBC00BC00, 0x49B049B0), "bf16": ("u", 0xBF80BF80, 0x41364136),
}  # fmt: skip
WIDTH = {"fp32": 1, "fp64": 1, "fp16": 2, "bf16": 2}  # numbers in one register
COUNTERS = {"atomics": 1 << 18, "atomics_same": 1}  # 1 MiB of them: in the second level of cache, where atomics are carried out
ADD_TURNS = 64
LAUNCHES = 200
QUEUED = 500
UNITS = {"context_creation": "ms", "jit_compile": "ms", "memory_latency": "ns", "launch_latency": "us", "launch_queued": "us",
         "launch_graph": "us", "atomics": "Gop/s", "atomics_same": "Gop/s", "shared_memory": "GB/s"}  # fmt: skip


class Compute:
    """Figures whose unit is not in UNITS are TFLOP/s."""

    def __init__(self, card: Any) -> None:
        self.card, self.driver = card, card.driver

    # -------------------------------------------------------- arithmetic
    def measuring(self, name: str) -> Callable[[], dict[str, Any]]:
        """What measures a figure: its method, or that of its kind."""
        if name in FACTORS:
            return lambda: self.multiply_add(name)
        if name in COUNTERS:
            return lambda: self.additions(COUNTERS[name])
        return getattr(self, name)  # type: ignore[no-any-return]

    def multiply_add(self, kind: str) -> dict[str, Any]:
        """Multiply-adds of one type: a grid of which all blocks run side by side, each thread with independent chains."""
        card = self.card
        kernel = card.kernel(kind, kind)
        blocks = card.sm_count * min(8, card.blocks_per_sm(kernel, THREADS))
        per_turn = 2 * WIDTH[kind] * bench_ptx.ROUNDS * bench_ptx.CHAINS * THREADS * blocks
        card.clear_out()
        letter, factor, addend = FACTORS[kind]
        kinds = "pu" + 2 * letter
        turns, seconds = self.card.long_enough(lambda turns: card.launch(kernel, blocks, THREADS, kinds, card.out, turns, factor, addend))
        wrong = card.read_out(3)[2]
        if wrong:
            raise copy_steps.WrongError(
                "{} of {} results of the {} kernel are wrong".format(wrong, blocks * THREADS * bench_ptx.CHAINS, kind)
            )
        record: dict[str, Any] = card.of_clock(per_turn * turns / seconds.median / 1e12, 4, seconds)
        ratio = self.driver.attribute(87, card.device)
        if kind == "fp64" and ratio:
            record["single_to_double"] = int(ratio)
        return record

    # -------------------------------------------------------- memory
    def shared_memory(self) -> dict[str, Any]:
        card = self.card
        kernel, threads = card.kernel("shared", "shared"), 512
        blocks = card.sm_count * min(2, card.blocks_per_sm(kernel, threads))
        card.clear_out()
        turns, seconds = card.long_enough(lambda turns: card.launch(kernel, blocks, threads, "pu", card.out, turns))
        read = 16 * bench_ptx.SHARED_LOADS * threads * blocks * turns
        return dict(card.of_clock(read / seconds.median / 1e9, 1, seconds))

    def memory_latency(self) -> dict[str, Any]:
        """How long one thread waits for a value of device memory that no cache holds."""
        card, driver = self.card, self.driver
        place, _, size = card.two_buffers(CHAIN_BYTES)
        size = min(CHAIN_BYTES, size)
        elements = 1 << max(1, (size // CHAIN_STRIDE).bit_length() - 1)
        if elements * CHAIN_STRIDE < 2 * card.l2_bytes:
            raise bench_card.UnfitError("too little free memory to get past the cache: {} MiB".format(size // MIB))
        chain, chase = card.kernel("chase", "chain"), card.kernel("chase", "chase")
        card.launch(chain, (elements + THREADS - 1) // THREADS, THREADS, "puu", place, elements - 1, CHAIN_STRIDE)
        driver.call("cuStreamSynchronize", card.stream)
        turns = CHASE_TURNS // (4 if card.short else 1)
        per_load = []
        for number in range(card.samples + 1):  # the first fills the tables of addresses
            card.clear_out()
            card.launch(chase, 1, 1, "pup", place.value + number * elements // 8 * CHAIN_STRIDE, turns, card.out)
            driver.call("cuStreamSynchronize", card.stream)
            cycles, nanoseconds, end = card.read_out(3)
            if not place.value <= end < place.value + elements * CHAIN_STRIDE:
                raise copy_steps.WrongError("the pointer chase left its memory")
            per_load.append((nanoseconds or cycles) / (turns * bench_ptx.STEPS) / 1e9)
        seconds = bench_card.Samples(per_load[1:])
        why = "one thread, {} MiB, dependent loads past the first cache".format(elements * CHAIN_STRIDE // MIB)
        return figure(seconds.median * 1e9, 1, seconds, why)

    def additions(self, places: int) -> dict[str, Any]:
        """Atomic additions per second; the sum of the counters must be the number of additions."""
        card = self.card
        kernel, blocks = card.kernel("add", "add"), card.sm_count * 8
        done = [0]
        with card.borrowed(4 * places, 0) as counters:

            def queue(_: int) -> None:
                done[0] += 1
                card.launch(kernel, blocks, THREADS, "puu", counters, places - 1, ADD_TURNS)

            seconds = card.measure(queue, most=32)
            back = self.driver.fetch(counters, (ctypes.c_uint32 * places)())
        total = done[0] * blocks * THREADS * ADD_TURNS
        if sum(back) & 0xFFFFFFFF != total & 0xFFFFFFFF:
            raise copy_steps.WrongError("{} atomic additions gave the sum {}".format(total, sum(back)))
        value = blocks * THREADS * ADD_TURNS / seconds.median / 1e9
        return figure(value, 3, seconds, "32-bit additions to {} counters".format(places))

    # -------------------------------------------------------- launches
    def launch_latency(self) -> dict[str, Any]:
        """From the launch of an empty kernel until the host knows that it ended."""
        card = self.card
        kernel = card.kernel("gate", "nothing")

        def once() -> None:
            card.launch(kernel, 1, 1, "")
            self.driver.call("cuStreamSynchronize", card.stream)

        seconds = card.by_clock(once, LAUNCHES)
        low, high = seconds.all[len(seconds.all) // 10], seconds.all[-len(seconds.all) // 10]
        why = "host clock, launch and wait of an empty kernel, median of {}; spread of the middle four fifths".format(LAUNCHES)
        return figure(seconds.median * 1e6, 3, seconds, why, spread=round((high - low) / seconds.median, 4))

    def launch_queued(self) -> dict[str, Any]:
        """One launch among many that are queued: what it costs the GPU; the host's own share is said beside it."""
        card = self.card
        kernel = card.kernel("gate", "nothing")
        started = time.perf_counter()
        for _ in range(QUEUED):
            card.launch(kernel, 1, 1, "")
        host = (time.perf_counter() - started) / QUEUED
        self.driver.call("cuStreamSynchronize", card.stream)
        count = QUEUED if card.gate else 4 * QUEUED
        seconds = bench_card.Samples([card.batch(lambda _: card.launch(kernel, 1, 1, ""), count) / count for _ in range(card.samples)])
        why = "{} launches queued at once, CUDA events; the call itself took {:.1f} us here, Python included".format(count, host * 1e6)
        return figure(seconds.median * 1e6, 3, seconds, why)

    def launch_graph(self) -> dict[str, Any]:
        card, driver = self.card, self.driver
        kernel = card.kernel("gate", "nothing")
        graph, ready = ctypes.c_void_p(), ctypes.c_void_p()
        driver.call("cuStreamBeginCapture_v2", card.stream, ctypes.c_int(2))  # CU_STREAM_CAPTURE_MODE_RELAXED
        try:
            for _ in range(LAUNCHES):
                card.launch(kernel, 1, 1, "")
        finally:
            driver.call("cuStreamEndCapture", card.stream, ctypes.byref(graph))
        card.undo.append(("cuGraphDestroy", graph))
        driver.call("cuGraphInstantiateWithFlags", ctypes.byref(ready), graph, ctypes.c_ulonglong(0))
        card.undo.append(("cuGraphExecDestroy", ready))
        seconds = card.measure(lambda _: driver.call("cuGraphLaunch", ready, card.stream), most=8)
        return figure(seconds.median / LAUNCHES * 1e6, 3, seconds, "a graph of {} empty kernels, one after the other".format(LAUNCHES))

    # -------------------------------------------------------- what starting costs
    def context_creation(self) -> dict[str, Any]:
        """The first context of a process; cuInit comes before it and is not in it."""
        seconds = self.card.gpu.context_seconds
        if seconds is None:
            raise bench_card.UnfitError("the context was there before")
        return {"value": round(seconds * 1e3, 2), "why": "once in this process, host clock"}

    def jit_compile(self) -> dict[str, Any]:
        """The driver's compiler on one unrolled kernel, cache switched off."""
        card = self.card
        text = card.text("fp32")
        seconds = card.by_clock(lambda: card.compile(text, "jit"), 3)
        return figure(seconds.median * 1e3, 2, seconds, "a kernel of {} lines of PTX".format(text.count("\n")))
