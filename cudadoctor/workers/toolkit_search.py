"""Part of the worker python_env: which toolkit files would this Numba load, and which toolkit folders are there.

Files and listings alone are read: nothing is loaded, no program runs. The order of the search is that of the Numba at hand:
`pathfinder` (numba-cuda from 0.26, and all that goes through cuda-bindings), `own` (numba-cuda before that), `built-in`
(Numba's own target). In the last two a CUDA_HOME or CUDA_PATH that is set ends the search, wherever it points.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # importing typing would cost more than the search
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Candidate = tuple[str, "str | None", bool]  # rule, file, whether the search ends here even without a file

COMPONENTS = ("nvvm", "libdevice", "nvrtc", "nvjitlink", "cudart")
SONAMES = {
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
WHEELS = {
    "nvvm": ("nvidia-nvvm", "nvidia-cuda-nvcc"), "libdevice": ("nvidia-nvvm", "nvidia-cuda-nvcc"), "nvrtc": ("nvidia-cuda-nvrtc",),
    "nvjitlink": ("nvidia-nvjitlink",), "cudart": ("nvidia-cuda-runtime",),
}  # fmt: skip
CONDA_PACKAGES = {
    "nvvm": ("cuda-nvvm-impl", "cuda-nvvm", "cuda-nvcc-impl", "cudatoolkit", "cuda-version"),
    "libdevice": ("cuda-nvvm-dev_linux-64", "cuda-nvvm-impl", "cuda-nvcc-impl", "cudatoolkit", "cuda-version"),
    "nvrtc": ("cuda-nvrtc", "cudatoolkit", "cuda-version"),
    "nvjitlink": ("libnvjitlink", "cuda-version"),
    "cudart": ("cuda-cudart", "cudatoolkit", "cuda-version"),
}
MACHINE_FLAGS = {"x86_64": 0x0300, "aarch64": 0x0A00}  # of an entry in the loader's cache


class Places:
    """Where to look. `wheels` maps a distribution's name to its version; `root` stands before system-wide paths."""

    def __init__(self, prefix: str, site_folders: list[str], wheels: dict[str, str], flavour: str, root: str = "") -> None:
        self.prefix, self.site_folders, self.wheels, self.flavour, self.root = prefix, site_folders, wheels, flavour, root
        self.environ = os.environ
        self.conda = os.path.isdir(os.path.join(prefix, "conda-meta"))
        self._cache: list[str] | None = None
        self._conda_names: list[str] | None = None

    def system(self, path: str) -> str:
        return self.root + path

    def conda_names(self) -> list[str]:
        """File names in conda-meta: name-version-build.json."""
        if self._conda_names is None:
            self._conda_names = listing(os.path.join(self.prefix, "conda-meta"))
        return self._conda_names

    def loader_cache(self) -> list[str]:
        if self._cache is None:
            try:
                self._cache = read_loader_cache(self.system("/etc/ld.so.cache"))
            except (OSError, ValueError, IndexError):
                self._cache = []
        return self._cache


def listing(folder: str) -> list[str]:
    """Sorted names in a folder; none where it cannot be listed."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def read_loader_cache(path: str) -> list[str]:
    """Paths in ld.so.cache for this machine's word size, in the loader's order."""
    import struct

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


def file_in(folder: str, name: str, any_version: bool) -> str | None:
    """The component's file in one folder. pathfinder knows two versions by name; the other searches take the highest."""
    for soname in SONAMES[name]:
        path = os.path.join(folder, soname)
        if os.path.isfile(path):
            return path
    if any_version:
        stem = SONAMES[name][0].partition(".so")[0] + ".so."
        versions = [entry for entry in listing(folder) if entry.startswith(stem)]
        return os.path.join(folder, versions[-1]) if versions else None
    return None


def below(root: str, name: str, any_version: bool) -> str | None:
    """The component's file in a folder laid out as a toolkit."""
    folders = {"nvvm": ("nvvm/lib64",), "libdevice": ("nvvm/libdevice",)}.get(name, ("lib64", "lib"))
    found = (file_in(os.path.join(root, folder), name, any_version) for folder in folders)
    return next((path for path in found if path), None)


# ---------------------------------------------------------------- the single places
def in_wheels(places: Places, name: str) -> Candidate:
    """A wheel below one of the site folders."""
    for rel in WHEEL_FOLDERS[name]:
        for site in places.site_folders:
            path = file_in(os.path.join(site, rel), name, False)
            if path is not None:
                return wheel_of(places, name, rel)[0], path, False
    return "wheel", None, False


def wheel_of(places: Places, name: str, path: str) -> tuple[str, str | None]:
    """Rule and version of the wheel whose file this is."""
    suffixes = ("", "-cu13") if "nvidia/cu13/" in path else ("-cu12", "-cu11", "")
    for stem in WHEELS[name]:
        for suffix in suffixes:
            if stem + suffix in places.wheels:
                return "wheel " + stem + suffix, places.wheels[stem + suffix]
    return "wheel", None


def in_conda(prefix: str | None, name: str, any_version: bool) -> Candidate:
    if not prefix:
        return "conda", None, False
    path = below(prefix, name, any_version)
    if path is None and name == "nvvm" and any_version:
        path = file_in(os.path.join(prefix, "lib"), name, True)  # the old package cudatoolkit
    if path is None and name == "libdevice":
        path = file_in(os.path.join(prefix, "lib"), name, False)
    return "conda", path, False


def in_loader(places: Places, name: str) -> Candidate:
    """What dlopen would find: LD_LIBRARY_PATH, the loader's cache, the default folders."""
    folders = [folder for folder in places.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    defaults = [places.system(path) for path in ("/lib64", "/usr/lib64", "/lib", "/usr/lib")]
    for soname in SONAMES[name]:
        for folder in folders:
            if os.path.isfile(os.path.join(folder, soname)):
                return "LD_LIBRARY_PATH", os.path.join(folder, soname), False
        for path in places.loader_cache():
            if path.endswith("/" + soname) and os.path.isfile(places.system(path)):
                return "ldconfig", places.system(path), False
        for folder in defaults:
            if os.path.isfile(os.path.join(folder, soname)):
                return "ldconfig", os.path.join(folder, soname), False
    return "ldconfig", None, False


def beside(places: Places, name: str, anchor: str) -> Candidate:
    """NVVM has no place in the loader's path: it is looked for in the toolkit of a library that has."""
    path = in_loader(places, anchor)[1]
    folder = os.path.realpath(path) if path else "/"
    while folder != "/":
        folder = os.path.dirname(folder)
        found = below(folder, name, False)
        if found:
            return "beside " + anchor, found, False
    return "beside " + anchor, None, False


# ---------------------------------------------------------------- the searches
def by_pathfinder(places: Places, name: str) -> Iterator[Candidate]:
    yield in_wheels(places, name)
    yield in_conda(places.environ.get("CONDA_PREFIX"), name, False)
    yield in_loader(places, name)
    variable = next((variable for variable in ("CUDA_PATH", "CUDA_HOME") if places.environ.get(variable)), None)
    if variable:
        yield variable, below(places.environ[variable], name, False), False
    if name == "nvvm":
        yield beside(places, name, "cudart")
        if not variable:
            yield beside(places, name, "nvrtc")


def by_own_search(places: Places, name: str) -> Iterator[Candidate]:
    """The search of numba-cuda before 0.26 and of Numba's own target; numba-cuda of any age finds libdevice so."""
    any_version = places.flavour != "pathfinder"
    yield in_conda(places.prefix if places.conda else None, name, any_version)
    if places.flavour != "built-in":
        yield in_wheels(places, name)
    variable = next((variable for variable in ("CUDA_HOME", "CUDA_PATH") if places.environ.get(variable) is not None), None)
    if variable:
        yield variable, below(places.environ[variable], name, any_version), True
    usual = places.system("/usr/local/cuda")
    yield "/usr/local/cuda", below(usual, name, any_version), False
    if name == "libdevice" and places.flavour != "pathfinder":
        yield "Debian package", file_in(places.system("/usr/lib/nvidia-cuda-toolkit/libdevice"), name, False), False
    if name != "libdevice":
        yield in_loader(places, name)


def find(places: Places, name: str) -> dict[str, Any]:
    """One component: the file, the rule that found it, and the files that it hides, in their order."""
    search = by_pathfinder if places.flavour == "pathfinder" and name != "libdevice" else by_own_search
    chosen: tuple[str, str | None] | None = None
    ended_by, hidden = None, []
    for rule, path, ends in search(places, name):
        if chosen is None and path is not None and (ended_by is None or rule in ("ldconfig", "LD_LIBRARY_PATH")):
            chosen = rule, path
        elif path is not None:
            hidden.append(path)
        elif ends and chosen is None:
            ended_by = rule
    found_by, file = chosen or (ended_by, None)
    seen = {os.path.realpath(file)} if file else set()
    hides = []
    for entry in hidden:
        if os.path.realpath(entry) not in seen:
            seen.add(os.path.realpath(entry))
            hides.append(entry)
    version = version_of(places, name, file, found_by) if file else None
    return {"name": name, "path": file, "version": version, "rule": found_by, "hides": hides}


# ---------------------------------------------------------------- versions
def version_of(places: Places, name: str, path: str, rule: str | None) -> str | None:
    """From the file's own name, its wheel, its conda package, or its toolkit's folder."""
    if rule is not None and rule.startswith("wheel"):
        return wheel_of(places, name, path)[1]
    real = os.path.realpath(path)
    number = os.path.basename(real).partition(".so.")[2]
    if number.count(".") >= 2 and name != "nvvm":  # libnvvm.so.4.0.0 counts otherwise
        return number
    if rule == "conda":
        return conda_version(places, name)
    folder = os.path.dirname(real)
    while folder != "/":
        version = toolkit_version(folder)
        if version:
            return version
        folder = os.path.dirname(folder)
    return None


def conda_version(places: Places, name: str) -> str | None:
    for package in CONDA_PACKAGES[name]:
        for entry in places.conda_names():
            if entry.startswith(package + "-") and entry.endswith(".json") and entry.count("-") == package.count("-") + 2:
                return entry.rsplit("-", 2)[1]
    return None


def toolkit_version(root: str) -> str | None:
    """The version of a toolkit folder: version.json, version.txt, the file name of its cudart, or its own name."""
    try:
        import json

        with open(os.path.join(root, "version.json"), encoding="utf-8") as file:
            return str(json.load(file)["cuda"]["version"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    try:
        with open(os.path.join(root, "version.txt"), encoding="utf-8") as file:
            words = file.read(200).split()
        if words[:2] == ["CUDA", "Version"]:
            return words[2]
    except (OSError, ValueError, IndexError):
        pass
    for folder in library_folders(root):
        for entry in listing(folder):
            number = entry.partition("libcudart.so.")[2]
            if number.count(".") >= 2:
                return number
    name = os.path.basename(os.path.realpath(root))
    return name[5:] if name.startswith("cuda-") and name[5:6].isdigit() else None


# ---------------------------------------------------------------- toolkit folders
def library_folders(root: str) -> list[str]:
    targets = os.path.join(root, "targets")
    folders = [os.path.join(root, "lib64"), os.path.join(root, "lib")]
    folders += [os.path.join(targets, entry, "lib") for entry in listing(targets)]
    if os.path.basename(root) == "usr":
        folders.append(os.path.join(root, "lib", os.uname().machine + "-linux-gnu"))
    return folders


def describe(path: str, rule: str) -> dict[str, Any]:
    """What a toolkit folder holds. Without compiler, NVVM and libraries it is stale."""
    nvcc = os.path.isfile(os.path.join(path, "bin", "nvcc"))
    libraries = [folder for folder in library_folders(path) if any(entry.startswith("libcudart.so") for entry in listing(folder))]
    debian = os.path.join(path, "lib", "nvidia-cuda-toolkit")
    nvvm = below(path, "nvvm", True) or next(filter(None, (file_in(folder, "nvvm", True) for folder in library_folders(path))), None)
    libdevice = below(path, "libdevice", True) or file_in(os.path.join(debian, "libdevice"), "libdevice", False)
    return {
        "path": path, "version": toolkit_version(path), "has_nvcc": nvcc, "has_nvvm": nvvm is not None,
        "has_libdevice": libdevice is not None, "rule": rule, "stale": not (nvcc or nvvm or libraries),
    }  # fmt: skip


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


def candidates(places: Places) -> Iterator[tuple[str, str]]:
    """Folder and the rule that names it."""
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if places.environ.get(variable):
            yield places.environ[variable], variable
    for folder in places.environ.get("PATH", "").split(os.pathsep):
        folder = folder.rstrip("/")
        if os.path.isfile(os.path.join(folder, "nvcc")):
            yield root_of_nvcc(folder), "PATH"
        elif folder.endswith("/bin") and folder.split("/")[-2].startswith("cuda") and not os.path.isdir(folder):
            yield os.path.dirname(folder), "PATH"
    local = places.system("/usr/local")
    for entry in listing(local):
        if entry == "cuda" or (entry.startswith("cuda-") and entry[5:6].isdigit()):
            yield os.path.join(local, entry), "/usr/local/cuda" if entry == "cuda" else "/usr/local/cuda-*"
    if os.path.isdir(places.system("/usr/lib/nvidia-cuda-toolkit")):
        yield places.system("/usr"), "/usr"
    if places.conda and any(entry.startswith(("cuda-nvcc", "cuda-nvvm", "cudatoolkit", "cuda-nvrtc")) for entry in places.conda_names()):
        yield places.prefix, "conda"


def toolkits(places: Places) -> Iterator[dict[str, Any]]:
    """Every toolkit folder, once for each rule that names it."""
    seen = set()
    for path, rule in candidates(places):
        if (path, rule) not in seen:
            seen.add((path, rule))
            yield describe(path, rule)
