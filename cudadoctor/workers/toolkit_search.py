"""Part of the worker python_env: which toolkit files would this Numba load, and which toolkit folders are there.

Files and listings alone are read: nothing is loaded, no program runs. The order of the search is that of the Numba at hand:
`pathfinder` (numba-cuda from 0.26, and all that goes through cuda-bindings), `own` (numba-cuda before that), `built-in`
(Numba's own target). In the last two a CUDA_HOME or CUDA_PATH that is set ends the search, wherever it points.
What a system calls its files and folders is in toolkit_search_linux.py and toolkit_search_windows.py.
"""

from __future__ import annotations

import os

from cudadoctor_lines import TYPE_CHECKING, beginning, listing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Candidate = tuple[str, "str | None", bool]  # rule, file, whether the search ends here even without a file

COMPONENTS = ("nvvm", "libdevice", "nvrtc", "nvjitlink", "cudart")
WHEELS = {
    "nvvm": ("nvidia-nvvm", "nvidia-cuda-nvcc"), "libdevice": ("nvidia-nvvm", "nvidia-cuda-nvcc"), "nvrtc": ("nvidia-cuda-nvrtc",),
    "nvjitlink": ("nvidia-nvjitlink",), "cudart": ("nvidia-cuda-runtime",),
}  # fmt: skip
CONDA_PACKAGES = {
    "nvvm": ("cuda-nvvm-impl", "cuda-nvvm", "cuda-nvcc-impl", "cudatoolkit", "cuda-version"),
    "libdevice": ("cuda-nvvm-dev_{}", "cuda-nvvm-impl", "cuda-nvcc-impl", "cudatoolkit", "cuda-version"),
    "nvrtc": ("cuda-nvrtc", "cudatoolkit", "cuda-version"),
    "nvjitlink": ("libnvjitlink", "cuda-version"),
    "cudart": ("cuda-cudart", "cudatoolkit", "cuda-version"),
}


class Places:
    """Where to look. `wheels`: version by name of a distribution; `root` stands before system-wide paths; `own`: the system's module."""

    def __init__(self, prefix: str, site_folders: list[str], wheels: dict[str, str], flavour: str, root: str, own: Any) -> None:
        self.prefix, self.site_folders, self.wheels, self.flavour = prefix, site_folders, wheels, flavour
        self.root, self.own = root, own
        self.environ = os.environ
        self.conda_names: list[str] = listing(os.path.join(prefix, "conda-meta"))  # name-version-build.json
        self.conda = os.path.isdir(os.path.join(prefix, "conda-meta"))

    def file_in(self, folder: str, name: str, any_version: bool) -> str | None:
        """The component's file in one folder. pathfinder knows some versions by name; the other searches take the highest."""
        for known in self.own.FILES[name]:
            path = os.path.join(folder, known)
            if os.path.isfile(path):
                return path
        versions = [entry for entry in listing(folder) if self.own.is_version(entry, name)] if any_version else []
        return os.path.join(folder, versions[-1]) if versions else None

    def below(self, root: str, name: str, any_version: bool) -> str | None:
        """The component's file in a folder laid out as a toolkit."""
        folders = self.own.FOLDERS.get(name, self.own.LIBRARIES)
        found = (self.file_in(self.own.joined(root, folder), name, any_version) for folder in folders)
        return next((path for path in found if path), None)


# ---------------------------------------------------------------- the single places
def in_wheels(places: Places, name: str) -> Candidate:
    for rel in places.own.WHEEL_FOLDERS[name]:
        for site in places.site_folders:
            path = places.file_in(places.own.joined(site, rel), name, False)
            if path is not None:
                return wheel_of(places, name, rel)[0], path, False
    return "wheel", None, False


def wheel_of(places: Places, name: str, path: str) -> tuple[str, str | None]:
    """Rule and version of the wheel whose file this is."""
    suffixes = ("", "-cu13") if "nvidia/cu13/" in path.replace("\\", "/") else ("-cu12", "-cu11", "")
    for wheel in (stem + suffix for stem in WHEELS[name] for suffix in suffixes):
        if wheel in places.wheels:
            return "wheel " + wheel, places.wheels[wheel]
    return places.own.UNKNOWN_WHEEL, None


def in_conda(places: Places, prefix: str | None, name: str, any_version: bool) -> Candidate:
    if not prefix:
        return "conda", None, False
    top = os.path.join(prefix, places.own.CONDA)
    path = places.below(top, name, any_version)
    if path is None and (name in places.own.IN_OLD_CONDA or (name == "nvvm" and any_version)):
        path = places.file_in(os.path.join(top, places.own.OLD_CONDA), name, any_version)
    return "conda", path, False


def beside(places: Places, name: str, anchor: str) -> Candidate:
    """NVVM has no place where the loader looks: it is looked for in the toolkit of a library that has."""
    path = places.own.in_loader(places, anchor, False)[1]
    found = (places.below(folder, name, False) for folder in above(places.own.followed(path) if path else ""))
    return "beside " + anchor, next(filter(None, found), None), False


def above(path: str) -> Iterator[str]:
    """The folders in which a file lies, from its own to the one below the root."""
    folder = os.path.dirname(path)
    while folder != os.path.dirname(folder):
        yield folder
        folder = os.path.dirname(folder)


# ---------------------------------------------------------------- the searches
def by_pathfinder(places: Places, name: str) -> Iterator[Candidate]:
    yield in_wheels(places, name)
    yield in_conda(places, places.environ.get("CONDA_PREFIX"), name, False)
    yield places.own.in_loader(places, name, False)
    variable = next((variable for variable in ("CUDA_PATH", "CUDA_HOME") if places.environ.get(variable)), None)
    if variable:
        yield variable, places.below(places.environ[variable], name, False), False
    if name == "nvvm":
        yield from (beside(places, name, anchor) for anchor in places.own.ANCHORS[: 1 if variable else 2])


def by_own_search(places: Places, name: str) -> Iterator[Candidate]:
    """The search of numba-cuda before 0.26 and of Numba's own target; numba-cuda of any age finds libdevice so."""
    any_version = places.flavour != "pathfinder"
    yield in_conda(places, places.prefix if places.conda else None, name, any_version)
    if places.flavour != "built-in":
        yield in_wheels(places, name)
    variable = next((variable for variable in ("CUDA_HOME", "CUDA_PATH") if places.environ.get(variable) is not None), None)
    if variable:
        yield variable, places.below(places.environ[variable], name, any_version), True
    yield from places.own.usual(places, name, any_version)
    if name != "libdevice":
        yield places.own.in_loader(places, name, any_version)


def find(places: Places, name: str) -> dict[str, Any]:
    """One component: the file, the rule that found it, and the files that it hides, in their order."""
    search = by_pathfinder if places.flavour == "pathfinder" and name != "libdevice" else by_own_search
    chosen: tuple[str, str | None] | None = None
    ended_by, hidden = None, []
    for rule, path, ends in search(places, name):
        if chosen is None and path is not None and (ended_by is None or rule in places.own.OF_LOADER):
            chosen = rule, path
        elif path is not None:
            hidden.append(path)
        elif ends and chosen is None:
            ended_by = rule
    found_by, file = chosen or (ended_by, None)
    others: dict[str, str] = {places.own.same(file): file} if file else {}
    for entry in hidden:
        others.setdefault(places.own.same(entry), entry)
    hides = [entry for entry in others.values() if entry is not file]
    version = version_of(places, name, file, found_by) if file else None
    damage = damage_with(places.own.followed(file), name) if file else None
    return {"name": name, "path": file, "version": version, "rule": found_by, "hides": hides, "damage": damage}


def damage_with(path: str, name: str) -> str | None:
    """What shows that a component is not whole. NVRTC loads its built-in functions from a library beside it."""
    folder = os.path.dirname(path)
    found = damage_of(path)
    for other in sorted(listing(folder)) if found is None and name == "nvrtc" else ():
        damage = damage_of(os.path.join(folder, other)) if other.startswith("libnvrtc-builtins") else None
        found = found or (damage and "{}: {}".format(other, damage))
    return found


def damage_of(path: str) -> str | None:
    """What shows that a library or a file of bitcode is not whole: its first bytes, and where an ELF file says that its sections end."""
    try:
        size = os.path.getsize(path)
        with open(path, "rb") as file:
            head = file.read(64)
    except OSError:
        return None  # what cannot be read is told by whoever loads it
    if path.endswith(".bc"):
        return None if head[:4] in (b"BC\xc0\xde", b"\xde\xc0\x17\x0b") else "no LLVM bitcode"
    if ".so" not in os.path.basename(path):
        return None
    if head[:4] != b"\x7fELF":
        return "no ELF file"
    if head[4:6] != b"\x02\x01" or len(head) < 64:  # of another width or order of bytes than those of CUDA's hosts
        return None
    end = int.from_bytes(head[40:48], "little") + int.from_bytes(head[58:60], "little") * int.from_bytes(head[60:62], "little")
    return "cut short: {} of {} bytes".format(size, end) if size < end else None


# ---------------------------------------------------------------- versions
def version_of(places: Places, name: str, path: str, rule: str | None) -> str | None:
    """From the file's wheel, its own name, its conda package, or its toolkit's folder."""
    if rule is not None and rule.startswith("wheel"):
        return wheel_of(places, name, path)[1]
    real = places.own.followed(path)
    number = os.path.basename(real).partition(".so.")[2]
    if number.count(".") >= 2 and name != "nvvm":  # libnvvm.so.4.0.0 counts otherwise
        return number  # type: ignore[no-any-return]
    if rule == "conda":
        return conda_version(places, name)
    return next(filter(None, (toolkit_version(places, folder) for folder in above(real))), None)


def conda_version(places: Places, name: str) -> str | None:
    for package in (package.format(places.own.CONDA_SYSTEM) for package in CONDA_PACKAGES[name]):
        for entry in places.conda_names:
            if entry.startswith(package + "-") and entry.endswith(".json") and entry.count("-") == package.count("-") + 2:
                return entry.rsplit("-", 2)[1]
    return None


def toolkit_version(places: Places, root: str) -> str | None:
    """The version of a toolkit folder: version.json, version.txt, or what its names say."""
    try:
        import json

        return str(json.loads(beginning(os.path.join(root, "version.json")))["cuda"]["version"])
    except (ValueError, KeyError, TypeError):
        pass
    words: list[str] = beginning(os.path.join(root, "version.txt"), 200).split()
    if words[:2] == ["CUDA", "Version"] and len(words) > 2:
        return words[2]
    return places.own.version_by_names(root)  # type: ignore[no-any-return]


# ---------------------------------------------------------------- toolkit folders
def toolkits(places: Places) -> Iterator[dict[str, Any]]:
    """Every toolkit folder, once for each rule that names it. Without compiler, NVVM and libraries it is stale."""
    seen = set()
    for path, rule in places.own.candidates(places):
        if (os.path.normcase(path), rule) not in seen:
            seen.add((os.path.normcase(path), rule))
            nvcc = os.path.isfile(os.path.join(path, "bin", places.own.NVCC))
            nvvm, libdevice, libraries = places.own.parts(places, path)
            yield {
                "path": path, "version": toolkit_version(places, path), "has_nvcc": nvcc, "has_nvvm": nvvm is not None,
                "has_libdevice": libdevice is not None, "rule": rule, "stale": not (nvcc or nvvm or libraries),
            }  # fmt: skip
