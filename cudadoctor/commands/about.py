"""`cudadoctor --version`: all that a bug report about the doctor itself needs, without asking the machine for anything else."""

from __future__ import annotations

import platform
import sys
from importlib import metadata

from cudadoctor import __version__

PACKAGES = ("click", "rich", "msgspec", "psutil", "nvidia-ml-py", "numba", "numba-cuda", "numpy")


def text() -> str:
    """The doctor's version, its Python, the system, and the versions of what it stands on."""
    lines = [
        f"cudadoctor, version {__version__}",
        f"Python {platform.python_version()} ({platform.python_implementation()}), {sys.executable}",
        f"{platform.system()} {platform.release()} {platform.machine()}",
        ", ".join(f"{name} {_version(name)}" for name in PACKAGES),
    ]
    return "".join(f"{line}\n" for line in lines)


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"
