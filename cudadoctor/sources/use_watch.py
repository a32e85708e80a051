"""The child that watches which GPUs a program uses (workers/gpu_use.py), and what its lines come to."""

from __future__ import annotations

import sys
import time
from typing import Any

import msgspec

from cudadoctor.model.use import GpuUse, Watched
from cudadoctor.sources import inherited, keeping
from cudadoctor.sources.children import Child, watch
from cudadoctor.sources.decoding import json_objects
from cudadoctor.sources.interpreters import worker_path

LAST_WORD = 1.0  # seconds that the watcher may take to say what it saw, or to begin with a program that ended at once
NO_CONTEXT = 0.2  # seconds in which no program starts CUDA
FOREVER = 10 * 365 * 86400.0


class UseWatch:
    """The watcher of one program. It is ended with `ended`, however the program ended."""

    def __init__(self, pid: int) -> None:
        argv = [sys.executable, "-S", "-u", "-B", worker_path("gpu_use.py"), str(pid)]
        shown = (sys.executable, "gpu_use.py")
        self.keeper = keeping.started()
        self.child = Child(
            "gpu-use", "worker", argv, limit=FOREVER, environment=inherited.environment(), shown=shown, talks=True, keeper=self.keeper
        )

    def events(self) -> list[dict[str, Any]]:
        if not self.child.over:
            self.child.read("stdout")
        return list(json_objects(self.child.text("stdout").split("\n")))

    def saw_use(self) -> bool:
        return any(entry.get("event") == "use" for entry in self.events())

    def ended(self, seconds: float) -> Watched:
        """What was seen of a program that ran so long."""
        self.child.say("end\n")
        self.child.deadline = time.monotonic() + LAST_WORD
        watch([self.child])
        self.keeper.close()
        why = None if self.child.status == "ok" else f"the watch of its GPUs ended early: {self.child.why or self.child.status}"
        return concluded(self.events(), seconds, why)


def concluded(events: list[dict[str, Any]], seconds: float, early: str | None) -> Watched:
    """Used, not used or unknown, from the watcher's lines. `early`: why it did not come to its end."""
    said = {str(entry.get("event")): entry for entry in events}
    uses = [{name: value for name, value in entry.items() if name != "event"} for entry in events if entry.get("event") == "gpu"]
    gpus = tuple(msgspec.convert(use, GpuUse) for use in uses)
    begun, end = said.get("watching"), said.get("end")
    visible = len(begun.get("gpus", ())) if begun is not None else None
    if gpus:
        return Watched(used="yes", gpus=gpus, visible=visible)
    if "error" in said:
        why = str(said["error"].get("error"))
        if said["error"].get("devices") == []:
            return Watched(used="no", visible=0, why=f"{why}, and there is no device file of an NVIDIA GPU")
        return Watched(used="unknown", why=why)
    if "use" in said:
        return Watched(used="yes", visible=visible, why=early)
    if seconds < NO_CONTEXT:
        return Watched(used="no", visible=visible, why=f"it ran {seconds:.2f} s, less than the start of CUDA takes")
    if end is None or begun is None:
        return Watched(used="unknown", visible=visible, why=early or "the watch of its GPUs did not begin in time")
    if seconds < float(begun.get("after_s", 0.0)):
        return Watched(used="unknown", visible=visible, why=f"it ended after {seconds:.2f} s, before NVML had answered")
    held = any(str(device).startswith(("/dev/nvidia-uvm", "/dev/dxg")) for device in end.get("opened", ()))
    only_opened = "it opened the driver, but no memory of a GPU was seen in use" if held else None
    return Watched(used="no", visible=visible, why=only_opened)
