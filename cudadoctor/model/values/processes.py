"""Fact values: processes that hold a GPU."""

from __future__ import annotations

from typing import Literal

from cudadoctor.model.bounds import Pid
from cudadoctor.model.facts import Key
from cudadoctor.model.values.base import Value


class Process(Value, frozen=True, kw_only=True):
    """A process that holds a GPU, by NVML's lists or an open /dev/nvidia* file."""

    pid: Pid
    ppid: Pid | None = None
    sid: Pid | None = None
    user: str | None = None
    own: bool | None = None
    state: Literal["running", "stopped", "orphaned", "defunct", "uninterruptible", "unknown"] = "unknown"
    start_time: float | None = None
    command: str | None = None
    devices: tuple[str, ...] = ()
    waits: str | None = None  # in uninterruptible sleep: where in the kernel, with the module where that was told
    in_driver: bool | None = None  # whether that is in NVIDIA's driver, by the kernel's whole stack of it
    service: bool | None = None  # its cgroup is a .service
    namespaced: bool | None = None  # True: not visible in this PID namespace
    line: int = 0


class Processes(Value, frozen=True, kw_only=True):
    processes: tuple[Process, ...]
    provider: str | None = None  # psutil 7.x | /proc
    provider_error: str | None = None
    complete: bool = True  # False: other users' open files could not be read

    def find(self, pid: int) -> Process | None:
        return next((entry for entry in self.processes if entry.pid == pid), None)


PROCESSES = Key[Processes]("processes")
