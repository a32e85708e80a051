"""Copies between the GPUs of one machine: each pair one way, both ways at once, and small; what was copied is compared.

Loaded by bench.py by its path, in one process that has a context on every GPU. Whether a pair can copy directly is the driver's word;
a pair of which it says so and that then refuses, or copies wrong, is a failed step. Without direct access the driver copies through
the host.
"""

from __future__ import annotations

import ctypes
import time

from cudadoctor_lines import TYPE_CHECKING, sibling

if TYPE_CHECKING:
    from typing import Any

bench_card, place, RungError = sibling("bench_card"), sibling("copy_steps"), sibling("climbing").RungError
MIB = 1 << 20
COPIED = 256 * MIB
SMALL, SMALLS = 16, 100  # bytes of a small copy, and how many are queued at once
ALREADY_ENABLED = 704  # CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
RUNS = 2
NVLINK = "NVLink"


class Side:
    """One GPU with its buffers."""

    def __init__(self, driver: Any, gpu: Any, watch: Any) -> None:
        self.gpu, self.driver = gpu, driver
        gpu.context()
        self.card = bench_card.Card(driver, gpu, short=True)
        self.card.sample_seconds = 0.004  # many pairs; one copy of this size takes less than a millisecond over NVLink
        self.to, self.back, self.size = self.card.two_buffers(COPIED)
        self.links, self.link_rate = watch.nvlinks()


def check_all(worker: Any, driver: Any, gpus: list[Any], watches: list[Any]) -> tuple[list[Side], dict[Any, bool | None]]:
    """A checked copy between every ordered pair: what the smoke test does."""
    sides = [Side(driver, gpu, watch) for gpu, watch in zip(gpus, watches)]
    return sides, {(one.gpu.index, other.gpu.index): checked(worker, one, other) for one in sides for other in sides if one is not other}


def measure(worker: Any, driver: Any, gpus: list[Any], watches: list[Any]) -> None:
    """The figures of every pair whose copies are right."""
    sides, direct = check_all(worker, driver, gpus, watches)
    pairs = [(one, other) for one in sides for other in sides if one is not other]
    for number in range(1, RUNS + 1):
        for one, other in pairs:
            access = direct[one.gpu.index, other.gpu.index]
            if access is None:
                continue
            limit = limit_of(one, other, access)
            said = None if access else "no direct access between the two: copies go through the host"
            names = ("peer", "peer_latency") + (("peer_both",) if one.gpu.index < other.gpu.index else ())
            for name in names:
                figure(worker, name, one, other, number, limit, said)
    for side in sides:
        side.gpu.enter()
        side.card.close()


# ------------------------------------------------------------------ whether it works
def checked(worker: Any, one: Side, other: Side) -> bool | None:
    """A copy whose data are compared. True: direct, False: through the host, None: it failed."""
    step, started = "peer copy to GPU {}".format(other.gpu.index), time.monotonic()
    worker.emit("begin", step=step, gpu=one.gpu.index)
    status, why, access = "pass", None, False
    try:
        possible = one.driver.value(ctypes.c_int, "cuDeviceCanAccessPeer", one.gpu.device, other.gpu.device)
        one.gpu.enter()
        if possible:
            try:
                one.driver.call("cuCtxEnablePeerAccess", other.gpu.handle, ctypes.c_uint(0))
            except RungError as error:
                if error.code != ALREADY_ENABLED:
                    raise
            access = True
        copy_once(one, other)
    except Exception as error:
        status = "fail"
        offered = ", though the driver says that direct access is possible" if access or "EnablePeer" in str(error) else ""
        why = "GPU {} to GPU {}: {}{}".format(one.gpu.index, other.gpu.index, getattr(error, "output", error), offered)
    worker.emit("smoke", gpu=one.gpu.index, step=step, status=status, why=why, seconds=round(time.monotonic() - started, 6))
    return access if status == "pass" else None


def copy_once(one: Side, other: Side) -> None:
    """The pattern at both ends must arrive. The whole buffer goes over, so that every page is used once."""
    salt = 8 + one.gpu.index * 16 + other.gpu.index
    size = min(one.size, other.size)
    place.send(one.driver, one.to, size, salt)
    queue(one, other, size)
    one.driver.call("cuStreamSynchronize", one.card.stream)
    other.gpu.enter()
    place.check_there(one.driver, other.back, size, salt)
    one.gpu.enter()


def queue(one: Side, other: Side, size: int, count: int = 1) -> None:
    """Queue copies on the stream of the GPU that they come from."""
    for _ in range(count):
        one.driver.call(
            "cuMemcpyPeerAsync", other.back, other.gpu.handle, one.to, one.gpu.handle, ctypes.c_size_t(size), one.card.stream
        )  # fmt: skip


# ------------------------------------------------------------------ how fast
def limit_of(one: Side, other: Side, access: bool) -> tuple[float | None, str | None]:
    """GB/s one way, with the derivation: NVLink where both have links, else the lesser PCIe link."""
    if access and one.links and other.links:
        links, rate = min(one.links, other.links), one.link_rate
        return (round(links * rate, 1), "{} NVLinks x {:g} GB/s".format(links, rate)) if rate else (None, NVLINK)
    rates = []
    for side in (one, other):
        known = place.link("/sys/bus/pci/devices/{}/".format(side.gpu.address), "max")
        if known is None:
            return None, "PCIe"
        rates.append((place.LANES[known[0]][1] * known[1], place.link_name(known)))
    least = min(rates)
    return round(least[0], 1), "{}{}".format(least[1], "" if access else ", through the host")


def figure(worker: Any, name: str, one: Side, other: Side, run: int, limit: tuple[float | None, str | None], said: str | None) -> None:
    started = time.monotonic()
    unit = "us" if name == "peer_latency" else "GB/s"
    record: dict[str, Any] = {"value": None, "unit": unit, "limit": None, "limit_from": limit[1], "why": said}
    if (limit[1] or "").endswith(NVLINK) and unit == "GB/s":  # the driver does not say what a link carries; the doctor may know
        record.update(links=min(one.links, other.links), compute_capability=one.gpu.capability)
    one.gpu.enter()
    try:
        size = min(one.size, other.size)
        if name == "peer_both":
            ways = [beside(one, other, size), beside(other, one, size)]
        elif name == "peer":
            ways = [one.card.measure(lambda _: queue(one, other, size), warm=0.004)]
        else:
            ways = [one.card.measure(lambda _: queue(one, other, SMALL, SMALLS), most=1, warm=0.002)]
        if unit == "us":
            record["value"] = round(ways[0].median / SMALLS * 1e6, 3)
        else:
            record["value"] = round(sum(size / way.median / 1e9 for way in ways), 3)
            if said is None and limit[0] is not None:  # the way through the host is the driver's affair
                record["limit"] = len(ways) * limit[0]
        record["spread"] = max(way.spread for way in ways)
    except Exception as error:
        record["why"] = str(getattr(error, "output", error))
    seconds_taken = round(time.monotonic() - started, 6)
    worker.emit("benchmark", gpu=one.gpu.index, peer=other.gpu.index, name=name, run=run, seconds=seconds_taken, **record)


def beside(timed: Side, other: Side, size: int) -> Any:
    """Seconds of a copy one way while copies the other way, more of them, are under way."""
    count = max(2, int(timed.card.sample_seconds / (size / 200e9)))
    samples = []
    for _ in range(timed.card.samples + 1):
        other.gpu.enter()
        other.card.shut_gate(other.card.stream)
        queue(other, timed, size, 3 * count)
        timed.gpu.enter()
        timed.card.shut_gate(timed.card.stream)
        queue(timed, other, size)
        timed.card.record(timed.card.events[0])
        queue(timed, other, size, count)
        timed.card.record(timed.card.events[1])
        other.card.open_gate()
        timed.card.open_gate()
        timed.driver.call("cuEventSynchronize", timed.card.events[1])
        samples.append(timed.card.elapsed(*timed.card.events[:2]) / count)
        timed.driver.call("cuStreamSynchronize", timed.card.stream)
        other.gpu.enter()
        other.driver.call("cuStreamSynchronize", other.card.stream)
    timed.gpu.enter()
    return bench_card.Samples(samples[1:])
