"""Part of the worker python_env on Windows: what toolkit_search.py is elsewhere.

The names and folders are those that cuda.pathfinder and Numba look for there: DLLs that carry their version in their name, below `bin` and
`nvvm\\bin`, from CUDA 13 on below `bin\\x64`. No loader's cache exists; the folders of PATH stand in its place. Files and listings
alone are read.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # importing typing would cost more than the search
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Candidate = tuple[str, "str | None", bool]  # rule, file, whether the search ends here even without a file

COMPONENTS = ("nvvm", "libdevice", "nvrtc", "nvjitlink", "cudart")
DLLS = {
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
WHEELS = {
    "nvvm": ("nvidia-nvvm", "nvidia-cuda-nvcc"), "libdevice": ("nvidia-nvvm", "nvidia-cuda-nvcc"), "nvrtc": ("nvidia-cuda-nvrtc",),
    "nvjitlink": ("nvidia-nvjitlink",), "cudart": ("nvidia-cuda-runtime",),
}  # fmt: skip
CONDA_PACKAGES = {
    "nvvm": ("cuda-nvvm-impl", "cuda-nvvm", "cuda-nvcc-impl", "cudatoolkit", "cuda-version"),
    "libdevice": ("cuda-nvvm-dev_win-64", "cuda-nvvm-impl", "cuda-nvcc-impl", "cudatoolkit", "cuda-version"),
    "nvrtc": ("cuda-nvrtc", "cudatoolkit", "cuda-version"),
    "nvjitlink": ("libnvjitlink", "cuda-version"),
    "cudart": ("cuda-cudart", "cudatoolkit", "cuda-version"),
}
BELOW = {"nvvm": ("nvvm/bin/x64", "nvvm/bin"), "libdevice": ("nvvm/libdevice",)}
BELOW_ELSE = ("bin/x64", "bin")
USUAL = ("NVIDIA GPU Computing Toolkit", "CUDA")  # below Program Files, where the installer puts every version


class Places:
    """Where to look. `wheels` maps a distribution's name to its version; `root` stands in the place of Program Files."""

    def __init__(self, prefix: str, site_folders: list[str], wheels: dict[str, str], flavour: str, root: str = "") -> None:
        self.prefix, self.site_folders, self.wheels, self.flavour = prefix, site_folders, wheels, flavour
        self.environ = os.environ
        self.conda = os.path.isdir(os.path.join(prefix, "conda-meta"))
        self.program_files = root or self.environ.get("PROGRAMW6432") or self.environ.get("PROGRAMFILES") or "C:\\Program Files"

    def variables(self) -> Iterator[str]:
        """CUDA_PATH and its like, those of single versions (CUDA_PATH_V12_4) after the two that programs read."""
        yield from (name for name in ("CUDA_HOME", "CUDA_PATH") if self.environ.get(name))
        yield from sorted((name for name in self.environ if name.upper().startswith("CUDA_PATH_V") and self.environ[name]), reverse=True)

    def folders_of_path(self) -> list[str]:
        return [folder.strip('"') for folder in self.environ.get("PATH", "").split(os.pathsep) if folder.strip('" ')]


def listing(folder: str) -> list[str]:
    """Sorted names in a folder; none where it cannot be listed."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def file_in(folder: str, name: str, any_version: bool) -> str | None:
    """The component's file in one folder. pathfinder knows some versions by name; the other searches take the highest."""
    for known in DLLS[name]:
        path = os.path.join(folder, known)
        if os.path.isfile(path):
            return path
    stem = STEMS.get(name)
    if not any_version or stem is None:
        return None
    names = [entry for entry in listing(folder) if entry.lower().startswith(stem) and entry.lower().endswith(".dll")]
    older = [entry for entry in names if ".alt." not in entry]
    return os.path.join(folder, older[-1]) if older else None


def below(root: str, name: str, any_version: bool) -> str | None:
    """The component's file in a folder laid out as a toolkit."""
    found = (file_in(os.path.normpath(os.path.join(root, folder)), name, any_version) for folder in BELOW.get(name, BELOW_ELSE))
    return next((path for path in found if path), None)


# ---------------------------------------------------------------- the single places
def in_wheels(places: Places, name: str) -> Candidate:
    """A wheel below one of the site folders."""
    for rel in WHEEL_FOLDERS[name]:
        for site in places.site_folders:
            path = file_in(os.path.normpath(os.path.join(site, rel)), name, False)
            if path is not None:
                return "wheel " + wheel_of(places, name, path)[0], path, False
    return "wheel", None, False


def wheel_of(places: Places, name: str, path: str) -> tuple[str, str | None]:
    """Name and version of the wheel whose file this is."""
    suffixes = ("", "-cu13") if "/nvidia/cu13/" in path.replace("\\", "/") else ("-cu12", "-cu11", "")
    known = (stem + suffix for stem in WHEELS[name] for suffix in suffixes if stem + suffix in places.wheels)
    wheel = next(known, None)
    return (wheel, places.wheels[wheel]) if wheel is not None else ("of unknown origin", None)


def in_conda(prefix: str | None, name: str, any_version: bool) -> Candidate:
    """conda keeps a toolkit below Library; its old package cudatoolkit put all into Library\\bin."""
    if not prefix:
        return "conda", None, False
    library = os.path.join(prefix, "Library")
    path = below(library, name, any_version)
    if path is None and name in ("nvvm", "libdevice"):
        path = file_in(os.path.join(library, "bin"), name, any_version)
    return "conda", path, False


def on_path(places: Places, name: str, any_version: bool) -> Candidate:
    """What the loader would find: the folders of PATH."""
    found = (file_in(folder, name, any_version) for folder in places.folders_of_path())
    return "PATH", next((path for path in found if path), None), False


def beside(places: Places, name: str, anchor: str) -> Candidate:
    """NVVM has no place in PATH: it is looked for in the toolkit of a library that has."""
    path = on_path(places, anchor, False)[1]
    folder = os.path.dirname(path) if path else ""
    while folder and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
        found = below(folder, name, False)
        if found:
            return "beside " + anchor, found, False
    return "beside " + anchor, None, False


# ---------------------------------------------------------------- the searches
def by_pathfinder(places: Places, name: str) -> Iterator[Candidate]:
    yield in_wheels(places, name)
    yield in_conda(places.environ.get("CONDA_PREFIX"), name, False)
    yield on_path(places, name, False)
    variable = next((variable for variable in ("CUDA_PATH", "CUDA_HOME") if places.environ.get(variable)), None)
    if variable:
        yield variable, below(places.environ[variable], name, False), False
    if name == "nvvm":
        yield beside(places, name, "cudart")


def by_own_search(places: Places, name: str) -> Iterator[Candidate]:
    """The search of numba-cuda before 0.26 and of Numba's own target; numba-cuda of any age finds libdevice so."""
    any_version = places.flavour != "pathfinder"
    yield in_conda(places.prefix if places.conda else None, name, any_version)
    if places.flavour != "built-in":
        yield in_wheels(places, name)
    variable = next((variable for variable in ("CUDA_HOME", "CUDA_PATH") if places.environ.get(variable) is not None), None)
    if variable:
        yield variable, below(places.environ[variable], name, any_version), True
    if name != "libdevice":
        yield on_path(places, name, any_version)


def find(places: Places, name: str) -> dict[str, Any]:
    """One component: the file, the rule that found it, and the files that it hides, in their order."""
    search = by_pathfinder if places.flavour == "pathfinder" and name != "libdevice" else by_own_search
    found: list[tuple[str, str]] = []
    ended_by = None
    for rule, path, ends in search(places, name):
        if path is not None and (ended_by is None or rule == "PATH" or found):
            found.append((rule, path))
        elif ends and not found:
            ended_by = rule
    if not found:
        return {"name": name, "path": None, "version": None, "rule": ended_by, "hides": []}
    rule, file = found[0]
    others = dict.fromkeys(os.path.normcase(path) for _, path in found[1:])
    hides = [path for path in others if path != os.path.normcase(file)]
    return {"name": name, "path": file, "version": version_of(places, name, file, rule), "rule": rule, "hides": hides}


# ---------------------------------------------------------------- versions
def version_of(places: Places, name: str, path: str, rule: str) -> str | None:
    """From the file's wheel, its conda package, or its toolkit's folder."""
    if rule.startswith("wheel"):
        return wheel_of(places, name, path)[1]
    if rule == "conda":
        return conda_version(places, name)
    folder = os.path.dirname(path)
    while folder != os.path.dirname(folder):
        version = toolkit_version(folder)
        if version:
            return version
        folder = os.path.dirname(folder)
    return None


def conda_version(places: Places, name: str) -> str | None:
    names = listing(os.path.join(places.prefix, "conda-meta"))
    for package in CONDA_PACKAGES[name]:
        for entry in names:
            if entry.startswith(package + "-") and entry.endswith(".json") and entry.count("-") == package.count("-") + 2:
                return entry.rsplit("-", 2)[1]
    return None


def toolkit_version(root: str) -> str | None:
    """The version of a toolkit folder: version.json, version.txt, or its own name, v12.4."""
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
    name = os.path.basename(root)
    named = name[1:2].isdigit() and name[:1] in "vV" and os.path.basename(os.path.dirname(root)).upper() == "CUDA"
    return name[1:] if named else None


# ---------------------------------------------------------------- toolkit folders
def describe(path: str, rule: str) -> dict[str, Any]:
    """What a toolkit folder holds. Without compiler, NVVM and libraries it is stale."""
    nvcc = os.path.isfile(os.path.join(path, "bin", "nvcc.exe"))
    nvvm, libdevice, cudart = (below(path, name, True) for name in ("nvvm", "libdevice", "cudart"))
    return {
        "path": path, "version": toolkit_version(path), "has_nvcc": nvcc, "has_nvvm": nvvm is not None,
        "has_libdevice": libdevice is not None, "rule": rule, "stale": not (nvcc or nvvm or cudart),
    }  # fmt: skip


def candidates(places: Places) -> Iterator[tuple[str, str]]:
    """Folder and the rule that names it."""
    for variable in places.variables():
        yield os.path.normpath(places.environ[variable]), variable
    for folder in places.folders_of_path():
        if os.path.isfile(os.path.join(folder, "nvcc.exe")):
            yield os.path.dirname(os.path.normpath(folder)), "PATH"
    usual = os.path.join(places.program_files, *USUAL)
    for entry in reversed(listing(usual)):
        if entry[:1] in "vV" and entry[1:2].isdigit():
            yield os.path.join(usual, entry), "Program Files"
    if places.conda and any(below(os.path.join(places.prefix, "Library"), name, True) for name in ("nvvm", "nvrtc")):
        yield os.path.join(places.prefix, "Library"), "conda"


def toolkits(places: Places) -> Iterator[dict[str, Any]]:
    """Every toolkit folder, once for each rule that names it."""
    seen = set()
    for path, rule in candidates(places):
        if (os.path.normcase(path), rule) not in seen:
            seen.add((os.path.normcase(path), rule))
            yield describe(path, rule)
