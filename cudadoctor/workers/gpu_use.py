"""Worker: watches which GPUs a program and its children use, until it is told that the program has ended; JSON lines.

    gpu_use.py PID      the program; a line or the end of standard input says that it has ended

NVML's lists say which processes compute on each GPU and how much memory each holds; /proc says which of them are the program's. Where the
lists name nobody (another PID namespace, WSL), memory that grows while the program holds the driver's compute device stands in for them.
Nothing is written while the program runs but that a GPU was seen in use: what was seen is added up here, in bounded space.
"""

from __future__ import annotations

import sys

sys.path.insert(0, __file__.replace("\\", "/").rpartition("/")[0])
from cudadoctor_lines import command_line, emit, held_open, pids, sibling, start, stat_fields  # which takes that folder off the path again

# isort: split
import os
import threading
import time
from typing import Any, Dict, List, Optional, Set, Tuple

bench_watch = sibling("bench_watch")
FIRST, OFTEN, SELDOM = 3.0, 0.05, 0.2  # seconds: up to when to look often, and how long to wait between two looks
COLUMN = 0.25  # seconds of the first columns: no shorter than the time between two looks
COLUMNS = 60  # of the course of utilisation that is kept; when they are full, two become one
FAMILY = 1.0  # seconds between two looks at the program's children
COMPUTE_DEVICES = ("/dev/nvidia-uvm", "/dev/dxg")
GROWTH = 32 << 20  # bytes of device memory; less is no context
MOST_NAMES = 8
FRESH, STALE = 0.2, 1.0  # seconds after which the processes are listed anew though no memory changed: at first, and later
QUERIES = ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetMPSComputeRunningProcesses")
Memory = Dict[int, Optional[int]]


# ---------------------------------------------------------------- the program and its children
class Family:
    """The program and all that it started. One that was seen stays a member when its parent ends before it."""

    def __init__(self, root: int) -> None:
        self.members: Set[int] = {root}
        self.strangers: Set[int] = set()
        self.looked = 0.0

    def holds(self, pid: int) -> bool:
        if pid in self.members:
            return True
        if pid in self.strangers:
            return False
        line, at = [], pid
        try:
            while at > 1 and at not in self.members:
                line.append(at)
                at = int(stat_fields(at)[1][1])
        except (OSError, ValueError, IndexError):
            at = 0
        kind = self.members if at in self.members else self.strangers
        kind.update(line)
        return at in self.members

    def refresh(self, now: float) -> bool:
        """Now and then learn of children while their parents live; a number that is free again is nobody's. Whether it was time to."""
        if now - self.looked < FAMILY:
            return False
        self.looked = now
        self.strangers.clear()
        try:
            alive = pids()
        except OSError:
            return False  # a system without /proc: its own number is known, no other
        self.members &= set(alive)
        for pid in alive:
            self.holds(pid)
        return True

    def devices(self) -> Set[str]:
        """The driver's device files that members hold open."""
        found: Set[str] = set()
        for pid in self.members:
            try:
                found |= held_open("/proc/%d/fd" % pid, ("/dev/nvidia", "/dev/dxg"))
            except OSError:
                continue  # it ended meanwhile, or is another user's
        return found


# ---------------------------------------------------------------- one GPU
class Course:
    """Utilisation over time in at most COLUMNS columns, each the mean of its looks (in percent)."""

    def __init__(self) -> None:
        self.sums: List[Tuple[float, int]] = []
        self.width = COLUMN

    def add(self, after: float, percent: float) -> None:
        while int(after / self.width) >= COLUMNS:
            pairs = [self.sums[place : place + 2] for place in range(0, len(self.sums), 2)]
            self.sums = [(sum(one[0] for one in pair), sum(one[1] for one in pair)) for pair in pairs]
            self.width *= 2
        column = int(after / self.width)
        self.sums += [(0.0, 0)] * (column + 1 - len(self.sums))
        total, count = self.sums[column]
        self.sums[column] = (total + percent, count + 1)

    def shown(self) -> List[Optional[int]]:
        return [round(total / count) if count else None for total, count in self.sums]


class Gpu:
    def __init__(self, index: int, watch: Any) -> None:
        self.index, self.watch = index, watch
        self.before = self.memory()
        self.peak: Optional[int] = None
        self.basis: Optional[str] = None
        self.pids: Dict[int, str] = {}
        self.others: Set[int] = set()
        self.first: Optional[float] = None
        self.last: Optional[float] = None
        self.sum, self.count, self.busiest = 0.0, 0, None  # type: float, int, Optional[int]
        self.course = Course()
        self.processes: Memory = {}
        self.asked, self.seen = -STALE, None  # type: float, Optional[Tuple[int, int]]

    def memory(self) -> Optional[Tuple[int, int]]:
        """Bytes in use and in all."""
        found = self.watch.ask(bench_watch.Memory, "nvmlDeviceGetMemoryInfo", self.watch.handle)
        return (int(found.used), int(found.total)) if found is not None else None

    def running(self, family: Family) -> Memory:
        """PIDs that compute here, with the memory of each where it is known. Clients of MPS are asked for where none is the program's."""
        found: Memory = {}
        for query in QUERIES:
            for pid, used in self.watch.processes(query) or []:
                found[pid] = max(used or 0, found.get(pid) or 0) or None
            if any(family.holds(pid) for pid in found):
                break
        return found

    def listed(self, family: Family, after: float) -> Memory:
        """The last list of processes, or a new one: when the GPU's memory changed, and now and then.

        On an H200 each such query takes 0.66 ms from a program that launches kernels without a pause, a look at the memory 0.1 ms.
        """
        memory = self.memory()
        if memory is None or memory != self.seen or after - self.asked >= (FRESH if after < FIRST else STALE):
            self.processes, self.asked, self.seen = self.running(family), after, memory
        return self.processes

    def look(self, family: Family, held: Set[str], after: float) -> None:
        running = self.listed(family, after)
        own = {pid: used for pid, used in running.items() if family.holds(pid)}
        self.others.update(set(running) - set(own))
        basis, used = None, None  # type: Optional[str], Optional[int]
        if own:
            basis, known = "process", [one for one in own.values() if one is not None]
            used = sum(known) if known else self.growth()
        elif not running and any(device in held for device in COMPUTE_DEVICES):
            used = self.growth()
            basis = "growth" if used is not None and used >= GROWTH else None
        if basis is None:
            return
        if self.first is None:
            self.first = after
            emit("use", gpu=self.index, basis=basis)
        self.last = after
        self.basis = "process" if "process" in (basis, self.basis) else basis
        self.peak = max(self.peak or 0, used) if used is not None else self.peak
        for pid in own:
            if pid not in self.pids and len(self.pids) < MOST_NAMES:
                self.pids[pid] = command_line(pid)[:200]
        load = self.watch.percent()
        if load is not None:
            self.sum, self.count, self.busiest = self.sum + load, self.count + 1, max(load, self.busiest or 0)
            self.course.add(after - self.first, load)

    def growth(self) -> Optional[int]:
        now = self.memory()
        return None if now is None or self.before is None else max(0, now[0] - self.before[0])

    def told(self) -> Dict[str, Any]:
        memory = self.memory()
        return {
            "index": self.index,
            "uuid": self.watch.string("nvmlDeviceGetUUID"),
            "name": self.watch.string("nvmlDeviceGetName"),
            "memory_bytes": memory[1] if memory is not None else None,
            "peak_bytes": self.peak,
            "basis": self.basis,
            "first_s": self.first,
            "last_s": self.last,
            "mean_percent": round(self.sum / self.count, 1) if self.count else None,
            "peak_percent": self.busiest,
            "course": self.course.shown(),
            "course_s": self.course.width,
            "processes": [{"pid": pid, "command": words} for pid, words in self.pids.items()],
            "others": len(self.others),
        }


# ---------------------------------------------------------------- the watch
def device_files() -> Optional[List[str]]:
    """The device files of NVIDIA's GPUs, on a desktop or server, in WSL, on Jetson; None where a system has no /dev."""
    try:
        names = os.listdir("/dev")
    except OSError:
        return None
    return sorted(name for name in names if (name[:6] == "nvidia" and name[6:].isdigit()) or name.startswith(("dxg", "nvhost", "nvgpu")))


def heard_end() -> threading.Event:
    """Set once the parent has said that the program ended, or is gone."""
    event = threading.Event()

    def wait() -> None:
        try:
            os.read(0, 1)
        finally:
            event.set()

    threading.Thread(target=wait, daemon=True).start()
    return event


def main() -> None:
    start()
    began = time.monotonic()
    family = Family(int(sys.argv[1]))
    nvml = bench_watch.library()
    try:
        if nvml is None:
            raise bench_watch.NVMLError("NVML (%s) cannot be loaded or does not start" % bench_watch.LIBRARY)
        watches = [(index, bench_watch.Watch(nvml, None, index)) for index in range(nvml.nvmlDeviceGetCount())]
    except (AttributeError, bench_watch.NVMLError) as error:
        emit("error", error=str(error) if nvml is None else "NVML does not say how many GPUs there are: %s" % error, devices=device_files())
        return
    gpus = [Gpu(index, watch) for index, watch in watches if watch.nvml is not None]
    emit("watching", after_s=round(time.monotonic() - began, 3), gpus=[gpu.index for gpu in gpus])
    over, looks, opened, held = heard_end(), 0, set(), set()  # type: threading.Event, int, Set[str], Set[str]
    while True:
        after = time.monotonic() - began
        if family.refresh(after) or after < FIRST:
            held = family.devices()
            opened |= held
        for gpu in gpus:
            gpu.look(family, held, after)
        looks += 1
        if over.wait(OFTEN if after < FIRST else SELDOM):
            break
    for gpu in gpus:
        if gpu.basis is not None:
            emit("gpu", **gpu.told())
    emit("end", looks=looks, gpus=len(gpus), opened=sorted(opened))


if __name__ == "__main__":
    main()
