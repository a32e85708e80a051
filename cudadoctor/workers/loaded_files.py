"""Which file libcuda came from, and which device nodes this process may open. Loaded by ladder.py by its path; Linux only."""

from __future__ import annotations

import ctypes
import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def loaded_file(library: Any) -> str | None:
    """The file that libcuda was loaded from, links resolved: the mapping that holds cuInit."""
    try:
        address = ctypes.cast(library.cuInit, ctypes.c_void_p).value or 0
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            for line in maps:
                fields = line.split(None, 5)
                first, _, last = fields[0].partition("-")
                if int(first, 16) <= address < int(last, 16):
                    return fields[5].rstrip("\n") if len(fields) > 5 else None
    except (AttributeError, OSError, ValueError):
        pass
    return None


def version_in(path: str | None) -> str | None:
    """The driver version in a file name such as libcuda.so.580.159.04; None for libcuda.so.1 and the like."""
    _, found, version = os.path.basename(path or "").partition("libcuda.so.")
    first = version.partition(".")[0]
    return version if found and first.isdigit() and int(first) >= 100 else None


def report_openings(emit: Callable[..., None]) -> None:
    """After a failed cuInit: which device nodes this process may open, and what refuses."""
    nodes = ["/dev/nvidiactl", "/dev/nvidia-uvm"]
    try:
        nodes += ["/dev/" + name for name in sorted(os.listdir("/dev")) if name.startswith("nvidia") and name[6:].isdigit()]
    except OSError:
        pass
    for path in nodes:
        refusal = None
        try:
            os.close(os.open(path, os.O_RDWR))
        except OSError as refused:
            refusal = errno.errorcode.get(refused.errno or 0, str(refused.errno))
        emit("opening", path=path, errno_name=refusal)
