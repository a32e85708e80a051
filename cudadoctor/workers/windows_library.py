"""A DLL of the driver on Windows: how it is loaded, and from which file it came.

Loaded by ladder.py by its path, on Windows alone.
"""

from __future__ import annotations

import ctypes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LONGEST_PATH = 1024  # characters


def load(name: str) -> Any:
    """As ctypes.CDLL does elsewhere. On 32-bit Windows the driver's functions clear the stack themselves, which CDLL does not expect."""
    loader: Any = getattr(ctypes, "WinDLL")  # noqa: B009 - type checkers on Linux do not know it
    return loader(name)


def path_of(library: Any) -> str | None:
    """The file of a loaded DLL, as Windows gives it; None where it does not."""
    try:
        path = ctypes.create_unicode_buffer(LONGEST_PATH)
        found = load("kernel32").GetModuleFileNameW(ctypes.c_void_p(library._handle), path, LONGEST_PATH)
    except (AttributeError, OSError):
        return None
    return path.value if found else None
