"""Figures of copies: between host and device over PCIe, one way and both ways, and within the device.

Loaded by bench.py by its path. Host memory is touched before, lies on the GPU's own NUMA node where the machine says which that is, and
what was copied is compared. The link is read while it works: at idle it trains down. Rates are GB/s (1e9 bytes per second).
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading

from cudadoctor_lines import TYPE_CHECKING, sibling

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

bench_card, bench_ptx, place = sibling("bench_card"), sibling("bench_ptx"), sibling("copy_steps")
MIB = 1 << 20
PINNED_SHORT, PINNED_LONG = 64 * MIB, 128 * MIB
PAGEABLE_LIMIT = 32 * MIB
DEVICE_SHORT, DEVICE_LONG = 512 * MIB, 1024 * MIB  # ten times the largest cache of a GPU, else the cache is measured
LATENCY_BOUND = 32 * MIB
COPY_THREADS = 256


class Copies:
    """One method per figure, in GB/s."""

    def __init__(self, card: Any) -> None:
        self.card, self.driver = card, card.driver
        self.folder = "/sys/bus/pci/devices/{}/".format(card.gpu.address)
        self.under_load: tuple[float, int] | None = None
        self.host: Any = None
        self.ordinary: Any = None
        self.size = 0

    # -------------------------------------------------------- PCIe
    def device(self) -> Any:
        """The device buffer of all copies to and from the host; `size` is what is copied at once."""
        card = self.card
        first, _, room = card.two_buffers(DEVICE_SHORT if card.short else DEVICE_LONG)
        wanted = PINNED_SHORT if card.short else PINNED_LONG
        self.size = min(wanted, room, place.available_memory() // 16) // MIB * MIB
        if self.size < 2 * MIB:
            raise bench_card.UnfitError("too little free memory on the host: {} MiB".format(place.available_memory() // MIB))
        return first

    def pin(self) -> tuple[Any, Any]:
        """The device buffer, and the pinned one that all copies share."""
        first = self.device()
        if self.host is None:
            self.host = self.card.pinned(self.size)
            ctypes.memset(self.host.value, 0x5A, self.size)
        return first, self.host

    def look_at_link(self) -> None:
        self.under_load = place.link(self.folder, "current") or self.under_load

    def over_pcie(self, seconds: Any, size: int, ways: int = 1) -> dict[str, Any]:
        """A figure beside what card and slot can do at most."""
        notes = []
        card, slot = place.link(self.folder, "max"), place.link(os.path.realpath(self.folder.rstrip("/")) + "/../", "max")
        limit = limit_from = None
        if card is None:
            notes.append("{}max_link_speed does not say what the link can do".format(self.folder))
        else:
            speed, width = (min(card[0], slot[0]), min(card[1], slot[1])) if slot else card
            if self.under_load is not None:
                speed, width = max(speed, self.under_load[0]), max(width, self.under_load[1])
            limit = round(ways * place.LANES[speed][1] * width, 3)
            named = "{}: {}".format(place.link_name((speed, width)), "the lesser of card and slot" if slot else "the card's maximum")
            limit_from = named if ways == 1 else named + ", both ways"
            notes.append("link while copying: {}".format(place.link_name(self.under_load)))
        if size < LATENCY_BOUND:
            notes.append("{} MiB at a time: latency counts".format(size // MIB))
        rate, why = ways * size / seconds.median / 1e9, "; ".join(notes) or None
        return dict(bench_card.figure(rate, 3, seconds, why, limit=limit, limit_from=limit_from))

    def copy(self, function: str, target: Any, source: Any, size: int, stream: Any = None) -> None:
        self.driver.call(function, target, source, ctypes.c_size_t(size), stream if stream is not None else self.card.stream)

    def to_device(self, device: Any, address: int, size: int, salt: int, measure: Callable[[], Any]) -> dict[str, Any]:
        """Copies to the device are measured; the last comes back to be compared."""
        place.mark(address, size, salt)
        seconds = measure()
        place.mark(address, size, None)
        self.fetch(device, address, size)
        place.check(address, size, salt)
        return self.over_pcie(seconds, size)

    def from_device(self, device: Any, address: int, size: int, salt: int, measure: Callable[[], Any]) -> dict[str, Any]:
        place.send(self.driver, device, size, salt)
        place.mark(address, size, None)
        seconds = measure()
        place.check(address, size, salt)
        return self.over_pcie(seconds, size)

    def queued(self, function: str, target: Any, source: Any) -> Callable[[], Any]:
        """What measures copies of pinned memory."""
        return lambda: self.card.measure(lambda _: self.copy(function, target, source, self.size), self.look_at_link)

    def h2d_pinned(self) -> dict[str, Any]:
        device, host = self.pin()
        return self.to_device(device, host.value, self.size, 1, self.queued("cuMemcpyHtoDAsync_v2", device, host))

    def d2h_pinned(self) -> dict[str, Any]:
        device, host = self.pin()
        return self.from_device(device, host.value, self.size, 2, self.queued("cuMemcpyDtoHAsync_v2", host, device))

    def both_pinned(self) -> dict[str, Any]:
        """Both ways at once: each way is timed while the other, twice as long, is under way; the figure is their sum."""
        _, host = self.pin()
        half = self.size // 2 // MIB * MIB
        first, second, _ = self.card.two_buffers(0)
        there = ("cuMemcpyHtoDAsync_v2", first, ctypes.c_void_p(host.value))
        back = ("cuMemcpyDtoHAsync_v2", ctypes.c_void_p(host.value + half), second)
        ways = [self.timed_beside(there, back, half), self.timed_beside(back, there, half)]
        joined = self.over_pcie(ways[0], half, 2)
        rates = [half / way.median / 1e9 for way in ways]
        words = "{:.1f} GB/s to the device and {:.1f} GB/s from it".format(*rates)
        why = "{}; {}".format(words, joined["why"]) if joined["why"] else words
        return dict(joined, value=round(sum(rates), 3), spread=max(way.spread for way in ways), why=why)

    def timed_beside(self, timed: tuple[str, Any, Any], beside: tuple[str, Any, Any], size: int) -> Any:
        """Samples of one copy on one stream while another runs on the second."""
        card = self.card
        before, after, ended = card.events[0], card.events[1], card.events[2]
        count = max(2, min(32, int(card.sample_seconds / (size / 30e9))))

        def sample() -> float:
            card.shut_gate(card.stream, card.second)
            try:
                for _ in range(2):
                    self.copy(beside[0], beside[1], beside[2], size, card.second)
                self.copy(timed[0], timed[1], timed[2], size)
                card.record(before)
                for number in range(2 * count):
                    self.copy(beside[0], beside[1], beside[2], size, card.second)
                    if number % 2:
                        self.copy(timed[0], timed[1], timed[2], size)
                card.record(after)
                card.record(ended, card.second)
            finally:
                card.open_gate()
            self.look_at_link()
            self.driver.call("cuEventSynchronize", after)
            self.driver.call("cuEventSynchronize", ended)
            return float(card.elapsed(before, after) / count)

        sample()
        return bench_card.Samples([sample() for _ in range(card.samples)])

    # -------------------------------------------------------- ordinary memory
    def pageable(self) -> tuple[Any, int, int]:
        """The device buffer, address and size of ordinary memory, touched, so that it is really there."""
        device = self.device()
        size = min(self.size, PAGEABLE_LIMIT)
        if self.ordinary is None:
            self.ordinary = (ctypes.c_char * size).from_buffer(mmap.mmap(-1, size))
            ctypes.memset(self.ordinary, 0x5A, size)
        return device, ctypes.addressof(self.ordinary), size

    def send(self, device: Any, address: int, size: int) -> None:
        """An ordinary copy to the device, waited for."""
        self.driver.call("cuMemcpyHtoD_v2", device, ctypes.c_void_p(address), ctypes.c_size_t(size))
        self.driver.call("cuCtxSynchronize")

    def fetch(self, device: Any, address: int, size: int) -> None:
        self.driver.call("cuMemcpyDtoH_v2", ctypes.c_void_p(address), device, ctypes.c_size_t(size))

    def h2d_pageable(self) -> dict[str, Any]:
        """Host to device from ordinary memory: what a program gets that does not pin."""
        where = self.pageable()
        return self.to_device(*where, 3, lambda: self.card.by_clock(lambda: self.send(*where)))

    def d2h_pageable(self) -> dict[str, Any]:
        where = self.pageable()
        return self.from_device(*where, 4, lambda: self.card.by_clock(lambda: self.fetch(*where)))

    def both_pageable(self) -> dict[str, Any]:
        """Both ways at once from two threads, as a program with two threads does it."""
        device, address, size = self.pageable()
        _, second, _ = self.card.two_buffers(0)
        half = size // 2
        context = self.driver.value(ctypes.c_void_p, "cuCtxGetCurrent")
        failures: list[Exception] = []

        def fetching() -> None:
            try:
                self.driver.call("cuCtxSetCurrent", ctypes.c_void_p(context))
                for _ in range(4):
                    self.fetch(second, address + half, half)
            except Exception as error:
                failures.append(error)

        def both() -> None:
            thread = threading.Thread(target=fetching)
            thread.start()
            for _ in range(4):
                self.driver.call("cuMemcpyHtoD_v2", device, ctypes.c_void_p(address), ctypes.c_size_t(half))
            thread.join()

        seconds = self.card.by_clock(both)
        if failures:
            raise failures[0]
        return self.over_pcie(seconds, 4 * half, 2)

    # -------------------------------------------------------- the device itself
    def within(self, seconds: Any, size: int, times: int) -> dict[str, Any]:
        """A figure beside what the memory can do."""
        clock, bits = (self.driver.attribute(number, self.card.device) for number in (36, 37))  # kHz, bits
        counted = "bytes read and bytes written are both counted" if times == 2 else "bytes read"
        record: dict[str, Any] = bench_card.figure(times * size / seconds.median / 1e9, 3, seconds, counted)
        if clock and bits:
            record["limit"] = round(2 * clock * 1000 * bits / 8 / 1e9, 3)
            record["limit_from"] = "2 x {:g} MHz memory clock x {} bit".format(clock / 1000, bits)
        else:
            record["why"] += "; the driver does not say the memory clock"
        if size < 2 * self.card.l2_bytes:
            record["why"] += "; {} MiB at a time: the cache counts".format(size // MIB)
            record["limit"] = None
        return record

    def d2d(self) -> dict[str, Any]:
        """Copies by the driver, both ways in turn between two buffers."""
        first, second, size = self.card.two_buffers(DEVICE_SHORT if self.card.short else DEVICE_LONG)
        place.send(self.driver, first, size, 5)

        def queue(number: int) -> None:
            pair = (second, first) if number % 2 == 0 else (first, second)
            self.copy("cuMemcpyDtoDAsync_v2", pair[0], pair[1], size)

        seconds = self.card.measure(queue)
        place.check_there(self.driver, second, size, 5)
        return self.within(seconds, size, 2)

    def d2d_kernel(self) -> dict[str, Any]:
        """The same by a kernel: what a program's own kernels can reach."""
        seconds, size = self.by_kernel("copy", 1, 6)
        place.check_there(self.driver, self.card.buffers[1], size, 6)
        return self.within(seconds, size, 2)

    def device_read(self) -> dict[str, Any]:
        seconds, size = self.by_kernel("read", bench_ptx.UNROLLED_READ, 7)
        return self.within(seconds, size, 1)

    def by_kernel(self, name: str, loads: int, salt: int) -> tuple[Any, int]:
        """A kernel over whole buffers: the first is read, the second written or, where nothing is written, read in turn."""
        card = self.card
        first, second, size = card.two_buffers(DEVICE_SHORT if card.short else DEVICE_LONG)
        kernel = card.kernel("copy", name)
        place.send(self.driver, first, size, salt)
        tiles = size // (COPY_THREADS * 16 * loads)  # sizes are whole MiB: nothing is left over
        blocks = min(tiles, 0x7FFFFFFF)
        target = second if name == "copy" else card.out

        def queue(number: int) -> None:
            source = second if name == "read" and number % 2 else first
            card.launch(kernel, blocks, COPY_THREADS, "ppu", target, source, tiles)

        return card.measure(queue), size
