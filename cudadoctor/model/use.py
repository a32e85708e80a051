"""What was seen of a program that ran under `cudadoctor run`: how it ended, and which GPUs it and its children used."""

from __future__ import annotations

from typing import Literal

import msgspec

SCHEMA: Literal["cudadoctor.run/1"] = "cudadoctor.run/1"
Used = Literal["yes", "no", "unknown"]


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the parts."""


class GpuProcess(Part, frozen=True, kw_only=True):
    pid: int
    command: str


class GpuUse(Part, frozen=True, kw_only=True):
    """One GPU in use. `basis`: NVML listed the program's processes, or memory grew while the program held the driver's compute device.

    `course`: utilisation in percent, each column the mean of `course_s` seconds from `first_s` on; None where nothing was seen.
    """

    index: int  # nvidia-smi's
    uuid: str | None
    name: str | None
    memory_bytes: int | None
    peak_bytes: int | None
    basis: Literal["process", "growth"]
    first_s: float  # seconds after the start of the watch
    last_s: float
    mean_percent: float | None
    peak_percent: int | None
    course: tuple[int | None, ...]
    course_s: float
    processes: tuple[GpuProcess, ...]
    others: int  # processes of others that computed there meanwhile


class Watched(Part, frozen=True, kw_only=True):
    """What the watch came to. `why`: what it could not see."""

    used: Used
    gpus: tuple[GpuUse, ...] = ()
    visible: int | None = None  # GPUs that NVML shows
    why: str | None = None


class Ended(Part, frozen=True, kw_only=True):
    """How the program ended. `tail`: the end of what it wrote to stderr. `asked`: a signal asked it to end."""

    code: int | None
    signal: int | None
    seconds: float
    tail: bytes = b""
    asked: bool = False


class Reason(Part, frozen=True, kw_only=True):
    """Why a GPU was not used, or why the program failed: a cause with its lines and the steps, as plain text."""

    cause: str
    title: str
    why: str
    lines: tuple[str, ...]  # the quotes
    steps: tuple[str, ...]


class Outcome(Part, frozen=True, kw_only=True):
    """What `cudadoctor run` says in the end, as its JSON."""

    schema: Literal["cudadoctor.run/1"] = SCHEMA
    command: tuple[str, ...]
    code: int | None
    signal: int | None
    exit_code: int
    seconds: float
    used: Used
    why_unknown: str | None
    gpus: tuple[GpuUse, ...]
    not_used: tuple[Reason, ...]  # likeliest first
    failure: Reason | None
    notes: tuple[str, ...] = ()
