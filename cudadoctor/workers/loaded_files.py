"""Which file libcuda came from, and which device nodes this process may open. Loaded by ladder.py by its path."""

from __future__ import annotations

import ctypes
import errno
import os

from cudadoctor_lines import TYPE_CHECKING, listing, mapped_files, sibling

LONGEST_PATH = 1024  # characters
# Where drivers and container runtimes put it.
FOLDERS = (
    "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/nvidia/lib64", "/usr/lib/wsl/lib",
)  # fmt: skip

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def loaded_file(library: Any) -> str | None:
    """The file that libcuda was loaded from, links resolved: the mapping that holds cuInit."""
    try:
        address = ctypes.cast(library.cuInit, ctypes.c_void_p).value or 0
        return next((path for first, last, path in mapped_files() if first <= address < last), None)
    except (AttributeError, OSError, ValueError):
        return None


def loaded_dll(library: Any) -> str | None:
    """The same on Windows, as it says itself; None where it does not."""
    try:
        path = ctypes.create_unicode_buffer(LONGEST_PATH)
        kernel: Any = getattr(ctypes, "WinDLL")("kernel32")  # noqa: B009 - type checkers on Linux do not know it
        found = kernel.GetModuleFileNameW(ctypes.c_void_p(library._handle), path, LONGEST_PATH)
    except (AttributeError, OSError):
        return None
    return path.value if found else None


def version_in(path: str | None) -> str | None:
    """The driver version in a file name such as libcuda.so.580.159.04; None for libcuda.so.1 and the like."""
    _, found, version = os.path.basename(path or "").partition("libcuda.so.")
    first = version.partition(".")[0]
    return version if found and first.isdigit() and int(first) >= 100 else None


def report_openings(emit: Callable[..., None]) -> None:
    """After a failed cuInit: which device nodes this process may open, and what refuses: the kernel, or a library that stands before it."""
    nodes = ["/dev/nvidiactl", "/dev/nvidia-uvm"]
    try:
        with open("/proc/self/limits", encoding="ascii", errors="replace") as file:
            emit("limits", text=file.read())  # a script that starts the interpreter may lower them
    except OSError:
        pass  # a sandbox may hide /proc
    nodes += ["/dev/" + name for name in listing("/dev") if name.startswith("nvidia") and name[6:].isdigit()]
    for path in nodes:
        try:
            os.close(os.open(path, os.O_RDWR))
            emit("opening", path=path, errno_name=None)
        except OSError as refused:
            name = errno.errorcode.get(refused.errno or 0, str(refused.errno))
            nodev = sibling("refused_places").mounted(path, "ST_NODEV")
            emit("opening", path=path, errno_name=name, nodev=nodev, intercepted=kernel_opens(path))


def kernel_opens(path: str) -> bool:
    """Whether the system call itself opens it, which a library with a function `open` of its own does not see."""
    number = {"x86_64": 257, "aarch64": 56}.get(os.uname().machine)
    try:
        opened = ctypes.CDLL(None).syscall(number, -100, os.fsencode(path), os.O_RDWR | os.O_CLOEXEC, 0) if number else -1
    except (AttributeError, OSError):
        return False
    if opened >= 0:
        os.close(opened)
    return bool(opened >= 0)


def report_unreadable(emit: Callable[..., None]) -> None:
    """Where libcuda could not be loaded: copies of it that this process may not read, or that lie on a mount from which none is loaded."""
    folders = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) + list(FOLDERS)
    copies = [os.path.join(folder, "libcuda.so.1") for folder in folders if folder]
    sibling("refused_places").report(emit, copies, dict.fromkeys(os.path.realpath(path) for path in copies if os.path.exists(path)))
