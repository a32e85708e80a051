"""What toolkit_search.py needs to know of Windows.

The names and folders are those that cuda.pathfinder and Numba look for there: DLLs that carry their version in their name, below `bin` and
`nvvm\\bin`, from CUDA 13 on below `bin\\x64`. No loader's cache exists; the folders of PATH stand in its place.
"""

from __future__ import annotations

import os

from cudadoctor_lines import TYPE_CHECKING, listing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

FILES = {
    "nvvm": ("nvvm70.dll", "nvvm64_40_0.dll", "nvvm64.dll"),
    "nvrtc": ("nvrtc64_130_0.dll", "nvrtc64_120_0.dll"),
    "nvjitlink": ("nvJitLink_130_0.dll", "nvJitLink_120_0.dll"),
    "cudart": ("cudart64_13.dll", "cudart64_12.dll"),
    "libdevice": ("libdevice.10.bc",),
}
STEMS = {"nvvm": "nvvm64", "nvrtc": "nvrtc64_", "nvjitlink": "nvjitlink_", "cudart": "cudart64_"}  # of older versions; in small letters
WHEEL_FOLDERS = {
    "nvvm": ("nvidia/cu13/bin/x86_64", "nvidia/cuda_nvcc/nvvm/bin"),
    "nvrtc": ("nvidia/cu13/bin/x86_64", "nvidia/cuda_nvrtc/bin"),
    "nvjitlink": ("nvidia/cu13/bin/x86_64", "nvidia/nvjitlink/bin"),
    "cudart": ("nvidia/cu13/bin/x86_64", "nvidia/cuda_runtime/bin"),
    "libdevice": ("nvidia/cu13/nvvm/libdevice", "nvidia/cuda_nvcc/nvvm/libdevice"),
}
FOLDERS, LIBRARIES = {"nvvm": ("nvvm/bin/x64", "nvvm/bin"), "libdevice": ("nvvm/libdevice",)}, ("bin/x64", "bin")  # of a toolkit
NVCC, CONDA, CONDA_SYSTEM, UNKNOWN_WHEEL = "nvcc.exe", "Library", "win-64", "wheel of unknown origin"
OLD_CONDA, IN_OLD_CONDA = "bin", ("nvvm", "libdevice")
ANCHORS, OF_LOADER = ("cudart",), ("PATH",)
USUAL = ("NVIDIA GPU Computing Toolkit", "CUDA")  # below Program Files, where the installer puts every version

followed, same = os.path.normpath, os.path.normcase


def joined(root: str, folder: str) -> str:
    return os.path.normpath(os.path.join(root, folder))


def is_version(entry: str, name: str) -> bool:
    low = entry.lower()
    return name in STEMS and low.startswith(STEMS[name]) and low.endswith(".dll") and ".alt." not in entry


def usual(places: Any, name: str, any_version: bool) -> tuple[tuple[str, str | None, bool], ...]:
    return ()


def folders_of_path(places: Any) -> list[str]:
    return [folder.strip('"') for folder in places.environ.get("PATH", "").split(os.pathsep) if folder.strip('" ')]


def in_loader(places: Any, name: str, any_version: bool) -> tuple[str, str | None, bool]:
    found = (places.file_in(folder, name, any_version) for folder in folders_of_path(places))
    return "PATH", next((path for path in found if path), None), False


def version_by_names(root: str) -> str | None:
    """By its own name, v12.4."""
    name = os.path.basename(root)
    named = name[1:2].isdigit() and name[:1] in "vV" and os.path.basename(os.path.dirname(root)).upper() == "CUDA"
    return name[1:] if named else None


def parts(places: Any, root: str) -> tuple[str | None, str | None, str | None]:
    """NVVM, libdevice, and a library."""
    nvvm, libdevice, cudart = (places.below(root, name, True) for name in ("nvvm", "libdevice", "cudart"))
    return nvvm, libdevice, cudart


def candidates(places: Any) -> Iterator[tuple[str, str]]:
    """Folder and the rule that names it. Variables of single versions (CUDA_PATH_V12_4) come after the two that programs read."""
    environ = places.environ
    single = sorted((name for name in environ if name.upper().startswith("CUDA_PATH_V")), reverse=True)
    for variable in ("CUDA_HOME", "CUDA_PATH", *single):
        if environ.get(variable):
            yield os.path.normpath(environ[variable]), variable
    for folder in folders_of_path(places):
        if os.path.isfile(os.path.join(folder, NVCC)):
            yield os.path.dirname(os.path.normpath(folder)), "PATH"
    files = places.root or environ.get("PROGRAMW6432") or environ.get("PROGRAMFILES") or "C:\\Program Files"
    usual = os.path.join(files, *USUAL)
    for entry in reversed(listing(usual)):
        if entry[:1] in "vV" and entry[1:2].isdigit():
            yield os.path.join(usual, entry), "Program Files"
    library = os.path.join(places.prefix, CONDA)
    if places.conda and any(places.below(library, name, True) for name in ("nvvm", "nvrtc")):
        yield library, "conda"
