"""What copies between host and device need to know of the machine, and the comparison of what was copied.

Loaded by bench.py by its path: the CPUs next to a GPU, host memory that is free, the PCIe link as sysfs shows it, and patterns that a
wrong copy cannot keep.
"""

from __future__ import annotations

import contextlib
import ctypes
import os

from cudadoctor_lines import TYPE_CHECKING, beginning, sibling

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

WrongError = sibling("climbing").WrongError
MIB = 1 << 20
# GB/s that one lane carries, by its transfer rate in GT/s: (generation, rate after encoding)
LANES = {2.5: (1, 0.25), 5.0: (2, 0.5), 8.0: (3, 0.985), 16.0: (4, 1.969), 32.0: (5, 3.938), 64.0: (6, 7.56)}


# ------------------------------------------------------------------ what the machine says
@contextlib.contextmanager
def nearby(address: str | None) -> Iterator[None]:
    """Runs the thread on the CPUs next to the GPU, where the machine says which they are; restores its CPUs afterwards."""
    folder, before = "/sys/bus/pci/devices/{}/".format(address), None
    lost = contextlib.suppress(OSError, ValueError, AttributeError)  # Linux alone has the two functions
    with lost:
        if beginning(folder + "numa_node").strip().isdigit():  # -1: the machine does not say
            allowed = os.sched_getaffinity(0)
            near = allowed & cpu_list(beginning(folder + "local_cpulist"))
            if near and near != allowed:
                os.sched_setaffinity(0, near)
                before = allowed
    try:
        yield
    finally:
        with lost:
            if before is not None:
                os.sched_setaffinity(0, before)


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
    lines = beginning("/proc/meminfo").splitlines()
    figures = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    limit, used = (beginning("/sys/fs/cgroup/memory." + name).strip() for name in ("max", "current"))
    if limit.isdigit() and used.isdigit():
        figures.append(max(0, int(limit) - int(used)))
    return min(figures) if figures else 1024 * MIB


def link(folder: str, which: str) -> tuple[float, int] | None:
    """Transfer rate (GT/s) and width of a PCIe link; `which` is current or max. None where sysfs does not say."""
    try:
        speed = float(beginning("{}{}_link_speed".format(folder, which)).split()[0])
        width = int(beginning("{}{}_link_width".format(folder, which)))
    except (IndexError, ValueError):
        return None
    return (speed, width) if speed in LANES and 1 <= width <= 32 else None


def link_name(known: tuple[float, int] | None) -> str:
    """A link as people write it: PCIe 5.0 x16."""
    return "unknown" if known is None else "PCIe {}.0 x{}".format(LANES[known[0]][0], known[1])


# ------------------------------------------------------------------ what is copied is compared
def pattern(salt: int) -> bytes:
    """A mebibyte that no other test of this file sends; its period is no power of two."""
    unit = bytes((index * 7 + salt * 31) & 0xFF for index in range(251))
    return (unit * (MIB // 251 + 1))[:MIB]


def mark(address: int, size: int, salt: int | None) -> None:
    """Write the pattern into the first and the last mebibyte; None: remove it, so that only a copy can bring it back."""
    for offset in (0, size - MIB):
        ctypes.memmove(address + offset, bytes(MIB) if salt is None else pattern(salt), MIB)


def check(address: int, size: int, salt: int) -> None:
    """Compare the first and the last mebibyte with the pattern."""
    expected = pattern(salt)
    for offset in (0, size - MIB):
        found = ctypes.string_at(address + offset, MIB)
        if found != expected:
            wrong = next(index for index in range(MIB) if found[index] != expected[index])
            raise WrongError("the copied data differ from what was sent, first at byte {} of {}".format(offset + wrong, size))


def send(driver: Any, place: Any, size: int, salt: int) -> None:
    """Put the pattern at both ends of a device buffer that is copied next."""
    for offset in (0, size - MIB):
        driver.send(ctypes.c_uint64(place.value + offset), ctypes.create_string_buffer(pattern(salt), MIB))


def check_there(driver: Any, place: Any, size: int, salt: int) -> None:
    """Compare both ends of a device buffer with the pattern."""
    back = ctypes.create_string_buffer(2 * MIB)
    driver.call("cuCtxSynchronize")
    for offset, at in ((0, 0), (size - MIB, MIB)):
        driver.fetch(ctypes.c_uint64(place.value + offset), (ctypes.c_char * MIB).from_buffer(back, at))
    check(ctypes.addressof(back), 2 * MIB, salt)
