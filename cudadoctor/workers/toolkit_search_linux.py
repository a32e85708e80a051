"""What toolkit_search.py needs to know of Linux: names of files, folders, and how the loader looks."""

from __future__ import annotations

import functools
import os
import struct

from cudadoctor_lines import TYPE_CHECKING, listing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

FILES = {
    "nvvm": ("libnvvm.so.4", "libnvvm.so"),
    "nvrtc": ("libnvrtc.so.13", "libnvrtc.so.12"),
    "nvjitlink": ("libnvJitLink.so.13", "libnvJitLink.so.12"),
    "cudart": ("libcudart.so.13", "libcudart.so.12"),
    "libdevice": ("libdevice.10.bc",),
}
WHEEL_FOLDERS = {
    "nvvm": ("nvidia/cu13/lib", "nvidia/cu13/nvvm/lib64", "nvidia/cuda_nvcc/nvvm/lib64"),
    "nvrtc": ("nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"),
    "nvjitlink": ("nvidia/cu13/lib", "nvidia/nvjitlink/lib"),
    "cudart": ("nvidia/cu13/lib", "nvidia/cuda_runtime/lib"),
    "libdevice": ("nvidia/cu13/nvvm/libdevice", "nvidia/cuda_nvcc/nvvm/libdevice"),
}
FOLDERS, LIBRARIES = {"nvvm": ("nvvm/lib64",), "libdevice": ("nvvm/libdevice",)}, ("lib64", "lib")  # of a toolkit
NVCC, CONDA, CONDA_SYSTEM, UNKNOWN_WHEEL = "nvcc", "", "linux-64", "wheel"
OLD_CONDA, IN_OLD_CONDA = "lib", ("libdevice",)  # where the old package cudatoolkit put files, and those that every search finds there
ANCHORS, OF_LOADER = ("cudart", "nvrtc"), ("ldconfig", "LD_LIBRARY_PATH")
MACHINE_FLAGS = {"x86_64": 0x0300, "aarch64": 0x0A00}  # of an entry in the loader's cache

joined, followed, same = os.path.join, os.path.realpath, os.path.realpath


def is_version(entry: str, name: str) -> bool:
    return entry.startswith(FILES[name][0].partition(".so")[0] + ".so.")


def usual(places: Any, name: str, any_version: bool) -> Iterator[tuple[str, str | None, bool]]:
    yield "/usr/local/cuda", places.below(places.root + "/usr/local/cuda", name, any_version), False
    if name == "libdevice" and any_version:
        yield "Debian package", places.file_in(places.root + "/usr/lib/nvidia-cuda-toolkit/libdevice", name, False), False


def by_loader(soname: str, root: str = "") -> Iterator[tuple[str, str]]:
    """Where dlopen would find a library, and how: LD_LIBRARY_PATH, the loader's cache, the default folders."""
    for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":"):
        if folder and os.path.isfile(os.path.join(folder, soname)):
            yield "LD_LIBRARY_PATH", os.path.join(folder, soname)
    cached = [path for path in loader_cache(root) if path.endswith("/" + soname)]
    defaults = [os.path.join(root + folder, soname) for folder in ("/lib64", "/usr/lib64", "/lib", "/usr/lib")]
    yield from (("ldconfig", path) for path in cached + defaults if os.path.isfile(path))


def in_loader(places: Any, name: str, any_version: bool) -> tuple[str, str | None, bool]:
    found = (way for soname in FILES[name] for way in by_loader(soname, places.root))
    rule, path = next(found, ("ldconfig", None))
    return rule, path, False


@functools.lru_cache(maxsize=None)
def loader_cache(root: str) -> tuple[str, ...]:
    """The files in the cache of the loader, in its order; none where it cannot be read."""
    try:
        return tuple(root + path for path in read_loader_cache(root + "/etc/ld.so.cache"))
    except (OSError, ValueError, IndexError, struct.error):
        return ()


def read_loader_cache(path: str) -> list[str]:
    """Paths in ld.so.cache for this machine's word size, in the loader's order."""
    with open(path, "rb") as file:
        data = file.read()
    start = data.index(b"glibc-ld.so.cache1.1")
    count = struct.unpack_from("=I", data, start + 20)[0]
    wanted = MACHINE_FLAGS.get(os.uname().machine)
    found = []
    for index in range(min(count, (len(data) - start) // 24)):
        flags, _, value = struct.unpack_from("=iII", data, start + 48 + 24 * index)
        if wanted is None or flags & 0xFF00 == wanted:
            begin = start + value
            found.append(data[begin : data.index(b"\0", begin)].decode("utf-8", "replace"))
    return found


# ---------------------------------------------------------------- toolkit folders
def library_folders(root: str) -> list[str]:
    targets = os.path.join(root, "targets")
    folders = [os.path.join(root, "lib64"), os.path.join(root, "lib")]
    folders += [os.path.join(targets, entry, "lib") for entry in listing(targets)]
    if os.path.basename(root) == "usr":
        folders.append(os.path.join(root, "lib", os.uname().machine + "-linux-gnu"))
    return folders


def version_by_names(root: str) -> str | None:
    """By the file name of its cudart, or its own name."""
    for folder in library_folders(root):
        for entry in listing(folder):
            number: str = entry.partition("libcudart.so.")[2]
            if number.count(".") >= 2:
                return number
    name = os.path.basename(os.path.realpath(root))
    return name[5:] if name.startswith("cuda-") and name[5:6].isdigit() else None


def parts(places: Any, root: str) -> tuple[str | None, str | None, bool]:
    """NVVM, libdevice, and whether there are libraries."""
    folders = library_folders(root)
    debian = os.path.join(root, "lib", "nvidia-cuda-toolkit")
    nvvm = places.below(root, "nvvm", True) or next(filter(None, (places.file_in(folder, "nvvm", True) for folder in folders)), None)
    libdevice = places.below(root, "libdevice", True) or places.file_in(os.path.join(debian, "libdevice"), "libdevice", False)
    return nvvm, libdevice, any(entry.startswith("libcudart.so") for folder in folders for entry in listing(folder))


def root_of_nvcc(folder: str) -> str:
    """The toolkit of the nvcc in a folder on PATH, which may be a link or a two-line script that starts another one."""
    path = os.path.join(folder, "nvcc")
    target = os.path.realpath(path)
    with open(target, "rb") as file:
        head = file.read(400)
    if head.startswith(b"#!"):
        words = (word.strip("'\"") for word in head.decode("utf-8", "replace").split())
        target = next((word for word in words if word.startswith("/") and word.endswith("/bin/nvcc")), target)
    if target == os.path.join(os.path.realpath(folder), "nvcc"):
        return os.path.dirname(folder) or "/"
    root = os.path.dirname(os.path.dirname(target))
    debian = "/lib/nvidia-cuda-toolkit"
    return root[: -len(debian)] if root.endswith(debian) else root


def candidates(places: Any) -> Iterator[tuple[str, str]]:
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if places.environ.get(variable):
            yield places.environ[variable], variable
    for folder in places.environ.get("PATH", "").split(os.pathsep):
        folder = folder.rstrip("/")
        if os.path.isfile(os.path.join(folder, "nvcc")):
            yield root_of_nvcc(folder), "PATH"
        elif folder.endswith("/bin") and folder.split("/")[-2].startswith("cuda") and not os.path.isdir(folder):
            yield os.path.dirname(folder), "PATH"
    local = places.root + "/usr/local"
    for entry in listing(local):
        if entry == "cuda" or (entry.startswith("cuda-") and entry[5:6].isdigit()):
            yield os.path.join(local, entry), "/usr/local/cuda" if entry == "cuda" else "/usr/local/cuda-*"
    if os.path.isdir(places.root + "/usr/lib/nvidia-cuda-toolkit"):
        yield places.root + "/usr", "/usr"
    if places.conda and any(entry.startswith(("cuda-nvcc", "cuda-nvvm", "cudatoolkit", "cuda-nvrtc")) for entry in places.conda_names):
        yield places.prefix, "conda"
