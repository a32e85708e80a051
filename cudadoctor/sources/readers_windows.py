"""In-process reads of a live Windows host, as readers.py has them for Linux: its version, and the driver's libraries."""

from __future__ import annotations

import os
import platform
import sys

_DRIVER_FILES = ("nvcuda.dll", "nvml.dll", "nvidia-smi.exe")


def read_windows_version(_: str) -> str:
    """The form of `ver`, and below it the edition and the processor. Builds and editions tell a server from a desktop."""
    if sys.platform == "win32":
        build = ".".join(str(number) for number in sys.getwindowsversion().platform_version)
        return f"Microsoft Windows [Version {build}]\nEdition: {_edition()}\nMachine: {platform.machine()}\n"
    raise FileNotFoundError(2, "No such file or directory", "ver")


def _edition() -> str:
    """Core, Professional, ServerStandard and so on."""
    try:
        return platform.win32_edition() or "unknown"
    except (OSError, AttributeError):
        return "unknown"


def list_driver_dlls(_: str) -> str:
    """The full paths of the driver's files in System32, as `where` prints them."""
    folder = os.path.join(os.environ.get("SYSTEMROOT", "C:\\Windows"), "System32")
    names = {name.lower() for name in os.listdir(folder)}
    return "".join(f"{os.path.join(folder, name)}\n" for name in _DRIVER_FILES if name in names)
