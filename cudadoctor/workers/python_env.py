"""Worker: the examined interpreter, from listings and metadata alone, as JSON lines.

It says which packages are installed and in which build, which toolkit files its Numba would load, and what stands in the way:
files of the user's that hide a package, Numba's configuration file, a start-up hook that did not run. Nothing is imported
that could fail, and no program is run.

Option: `--root PATH` looks for system-wide toolkits below PATH.
"""

from __future__ import annotations

import sys

sys.path.insert(0, __file__.replace("\\", "/").rpartition("/")[0])
from cudadoctor_lines import TYPE_CHECKING, beginning, distributions_in, emit, listing, normal, option, sibling, start

# isort: split
import os

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

EXACT = (
    "numba", "llvmlite", "numpy", "scipy", "torch", "torchvision", "torchaudio", "triton", "pytorch-triton", "jax", "jaxlib",
    "bitsandbytes", "pycuda", "psutil", "pynvml", "pytorch", "cudatoolkit", "libnvjitlink",
    "libcublas", "libcufft", "libcurand", "libcusolver", "libcusparse", "libcudnn", "cudnn", "nccl",
)  # fmt: skip
PREFIXES = ("numba-cuda", "nvidia-", "cuda-", "cupy", "jax-", "tensorflow", "onnxruntime")
WITH_REQUIREMENTS = ("numba", "numba-cuda")
ESSENTIAL = ("numba", "numba-cuda", "llvmlite", "numpy")
MODULES = ("numba", "numba_cuda", "llvmlite", "numpy", "cuda")
SHADOWED = ("numba", "cuda", "torch", "cupy", "numpy", "pynvml", "jax", "tensorflow", "triton", "llvmlite", "scipy", "psutil", "pycuda")
FOLDER = os.environ.get("CUDADOCTOR_FOLDER") or os.getcwd()  # the user's working directory; this worker's own is /
SITE = ("site-packages", "dist-packages")  # how folders of installed packages are called
OF_CUDA = ("bindings", "core", "pathfinder")  # the parts of the namespace `cuda` that numba-cuda imports
OF_SOURCES = ("bindings", "core")  # those of them of which a checkout that was not built lacks the compiled modules
CONFIG_LIMIT = 64 << 10  # characters
LINE_LIMIT = 300
PROGRAMS = ("python.exe",) if sys.platform == "win32" else ("python3", "python")


def guarded(step: str, action: Callable[[], None]) -> None:
    """One step; its failure costs that step only."""
    try:
        action()
    except Exception as error:
        emit("error", step=step, error=("%s: %s" % (type(error).__name__, error))[:LINE_LIMIT])


def interesting(name: str) -> bool:
    return name in EXACT or name.startswith(PREFIXES)


# ---------------------------------------------------------------- packages
class Distribution:
    """An installed distribution, by the name of its metadata folder."""

    def __init__(self, name: str, version: str, folder: str, metadata: str) -> None:
        self.name, self.version, self.folder, self.metadata = name, version, folder, metadata

    def requires(self) -> list[str]:
        """Requires-Dist of the metadata's head."""
        found = []
        for file in ("METADATA", "PKG-INFO"):
            for line in beginning(os.path.join(self.folder, self.metadata, file)).splitlines():
                if not line.strip():
                    break
                if line.startswith("Requires-Dist:"):
                    found.append(line.partition(":")[2].strip()[:LINE_LIMIT])
        return found

    def lost(self) -> str | None:
        """Where the metadata leads to, a link into a cache or a store, where nothing is there any more."""
        files = [os.path.join(self.folder, self.metadata, name) for name in ("METADATA", "PKG-INFO")]
        return next((os.readlink(file) for file in files if os.path.islink(file) and not os.path.exists(file)), None)

    def build(self) -> str | None:
        """cpu, cu128, rocm6.2 ... from the version's local part or torch's own file."""
        local = self.version.partition("+")[2]
        if local or self.name != "torch":
            return local or None
        cuda, hip = sibling("framework_files").torch_version(self)
        if cuda not in (None, "None"):
            return f"cu{cuda.replace('.', '')}"
        if hip not in (None, "None"):
            return f"rocm{hip}"
        return "cpu" if cuda is not None else None


def distributions(folders: list[str]) -> dict[str, Distribution]:
    """Distributions in the order of the search path: the first of a name is the one that is imported, and of two in one folder, which an
    upgrade that broke off leaves there, the newer.
    """
    found: dict[str, Distribution] = {}
    for folder in folders:
        for name, version, metadata in distributions_in(folder):
            before = found.get(name)
            if version and (before is None or (before.folder == folder and numbers(version) > numbers(before.version))):
                found[name] = Distribution(name, version, folder, metadata)
    return found


def numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part.isdigit()]


def conda_packages(prefix: str) -> dict[str, tuple[str, str]]:
    """Name to version and build string, from the names of the files in conda-meta."""
    found = {}
    for entry in listing(os.path.join(prefix, "conda-meta")):
        parts = entry[:-5].rsplit("-", 2) if entry.endswith(".json") else []
        if len(parts) == 3:
            found[normal(parts[0])] = parts[1], parts[2]
    return found


def report_packages(installed: dict[str, Distribution], conda: dict[str, tuple[str, str]]) -> None:
    for name, entry in sorted(installed.items()):
        if not interesting(name):
            continue
        build = entry.build()
        if build is None:
            build = conda.get("pytorch" if name == "torch" and "torch" not in conda else name, (None, None))[1]
        requires = entry.requires() if name in WITH_REQUIREMENTS else []
        lost = entry.lost()
        gone = {} if lost is None else {"lost": lost}
        emit("package", name=name, version=entry.version, build=build, path=entry.folder, requires=requires, **gone)
    for name, (version, build) in sorted(conda.items()):
        if interesting(name) and name not in installed:
            emit("package", name=name, version=version, build=build, path=os.path.join(sys.prefix, "conda-meta"), requires=[])


# ---------------------------------------------------------------- what stands in the way
def report_refused(installed: dict[str, Distribution]) -> None:
    """Packages that a kernel of Numba's needs and this user may not read, or the kernel loads no library from."""
    folders = {entry.folder for name, entry in installed.items() if name in ESSENTIAL}
    tops = [os.path.join(folder, name) for folder in sorted(folders) for name in ("", *MODULES)]
    parts = (os.path.join(top, part) for top in tops if top.endswith(MODULES) for part in listing(top) if "." not in part)
    packages = [*tops, *(part for part in parts if os.path.isdir(part) and not part.endswith("__pycache__"))]
    sibling("refused_places").report(emit, packages, [path for path in tops if os.path.isdir(path)])


def shadows(folder: str) -> Iterator[tuple[str, str]]:
    """Files and packages in a folder that hide an installed package. One that is installed there hides nothing."""
    names = listing(folder)
    installed = {name for name, _, _ in distributions_in(folder)}
    for module in SHADOWED:
        if module in installed or ("nvidia-ml-py" in installed and module == "pynvml"):
            continue
        if module + ".py" in names:
            yield module, os.path.join(folder, module + ".py")
        elif module in names and os.path.isfile(os.path.join(folder, module, "__init__.py")):
            yield module, os.path.join(folder, module)
    for part in OF_SOURCES if not os.path.isfile(os.path.join(folder, "cuda", "__init__.py")) else ():
        place = os.path.join(folder, "cuda", part)
        inside = listing(place)
        if "__init__.py" in inside and "cuda-" + part not in installed and not any(name.endswith((".so", ".pyd")) for name in inside):
            yield "cuda." + part, place


def closing(folders: list[str]) -> Iterator[str]:
    """Packages `cuda` with a file of their own, which close the name that NVIDIA's share: Python takes the first such folder of its whole
    path, and none of the parts without one. Beside NVIDIA's they do so where they set their own path.

    Source: CPython, Lib/importlib/_bootstrap_external.py (PathFinder).
    """
    homes = {folder for folder in folders if any(os.path.isdir(os.path.join(folder, "cuda", part)) for part in OF_CUDA)}
    for folder in folders if homes else ():
        text = beginning(os.path.join(folder, "cuda", "__init__.py"))
        found = bool(text) or os.path.isfile(os.path.join(folder, "cuda", "__init__.py"))
        shares = any(word in text for word in ("extend_path", "declare_namespace"))
        if found and not shares and (folder not in homes or "__path__" in text):
            yield folder


def report_shadows(folders: list[str]) -> None:
    """The working directory and what PYTHONPATH names come before all installed packages; what closes a name may stand anywhere."""
    places = [FOLDER] + [os.path.abspath(entry) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    for folder in dict.fromkeys(places):
        if os.path.basename(folder) not in SITE:
            for module, path in shadows(folder):
                emit("shadow", module=module, path=path)
    for folder in closing(folders):
        if folder not in places or os.path.basename(folder) in SITE:
            owner = sibling("installed_files").owner(folder, "cuda/__init__.py")
            emit("shadow", module="cuda", path=os.path.join(folder, "cuda"), owner=owner)


def report_config() -> None:
    """Lines of Numba's configuration file that turn CUDA off or simulate it. Numba reads it from the working directory."""
    numba = sibling("numba_found")
    path, text = numba.configuration() or ("", "")
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip().lower().partition(":")[0] in numba.CONFIG_WORDS:
            emit("config", path=path, line=number, text=line.rstrip()[:LINE_LIMIT])


def report_startup(folders: list[str]) -> None:
    """The files that the interpreter runs at its start, .pth files, sitecustomize and usercustomize: each by the first line that does
    something, of a module that somebody wrote here its number alone; and the lines that name a variable of CUDA's or a limit.
    """
    for folder in dict.fromkeys(folders):
        packages = os.path.basename(folder) in SITE
        for name in listing(folder):
            customize = name in ("sitecustomize.py", "usercustomize.py")
            if not customize and not name.endswith(".pth"):
                continue
            path, begun = os.path.join(folder, name), not customize and not packages
            for number, line in enumerate(beginning(path, CONFIG_LIMIT).split("\n"), 1):
                words = line.strip()[:LINE_LIMIT]
                if ("env" in line and ("CUDA" in line or "NUMBA" in line)) or "setrlimit" in line:
                    emit("hook", path=path, line=number, text=words)
                if not begun and (line.startswith(("import ", "import\t")) or (customize and words and line[0] not in "#\"' ")):
                    emit("startup", path=path, line=number, text="" if customize else words)
                    begun = True


def redirects(installed: dict[str, Distribution]) -> bool | None:
    """Whether numba-cuda's start-up hook ran in this interpreter; None where it did not and numba-cuda is not installed."""
    return True if "_numba_cuda_redirector" in sys.modules else False if "numba-cuda" in installed else None


def site_folders_of(python: str) -> Iterator[str]:
    """Where a Python found on PATH keeps its packages."""
    if sys.platform == "win32":  # python.exe lies in the prefix, in a virtual environment one folder deeper
        for prefix in (os.path.dirname(python), os.path.dirname(os.path.dirname(python))):
            yield os.path.join(prefix, "Lib", "site-packages")
        return
    prefix = os.path.dirname(os.path.dirname(python))
    for lib in (os.path.join(prefix, "lib"), os.path.join(prefix, "local", "lib")):
        for entry in listing(lib):
            if entry.startswith("python3"):
                yield os.path.join(lib, entry, "site-packages")
                yield os.path.join(lib, entry, "dist-packages")


def report_others(own: list[str]) -> None:
    """Other Pythons on PATH whose packages hold Numba. They are not run."""
    mine = {os.path.realpath(folder) for folder in own}
    seen = set()
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        for name in PROGRAMS:
            path = os.path.join(folder, name)
            if not os.path.isfile(path) or not os.access(path, os.X_OK):
                continue
            home = os.path.realpath(folder if sys.platform == "win32" else os.path.dirname(folder))
            if home not in seen and home != os.path.realpath(sys.prefix):
                seen.add(home)
                sites = [os.path.realpath(site) for site in site_folders_of(path) if os.path.isdir(os.path.join(site, "numba"))]
                if any(site not in mine for site in sites):
                    emit("other", path=path)
            break


# ---------------------------------------------------------------- the toolkit's part
def flavour(installed: dict[str, Distribution]) -> str:
    """How this Numba looks for the toolkit: `pathfinder`, `own` or `built-in`."""
    if not redirects(installed):
        return "built-in"
    try:
        home = os.path.dirname(sys.modules["_numba_cuda_redirector"].__file__ or "")
        with open(os.path.join(home, "numba_cuda", "numba", "cuda", "cuda_paths.py"), encoding="utf-8", errors="replace") as file:
            return "pathfinder" if "pathfinder" in file.read() else "own"
    except OSError:  # an editable installation keeps its sources elsewhere
        return "pathfinder" if "numba-cuda" not in installed or numbers(installed["numba-cuda"].version)[:2] >= [0, 26] else "own"


def report_frameworks(installed: dict[str, Distribution]) -> None:
    """One event for each framework that is installed. A file that cannot be understood costs that framework only."""
    files = sibling("framework_files")
    loader = files.Loader(sys.prefix, sys.path, option(sys.argv, "--root", ""))

    for source, names in files.SOURCES:
        entry = files.first(installed, names)
        if entry is not None:
            guarded("framework", lambda source=source, entry=entry: emit("framework", **source(entry, installed, loader)))  # type: ignore[misc]


def report_toolkits(installed: dict[str, Distribution]) -> None:
    """Components that this Numba would load, then the toolkit folders, and what of both may not be read."""
    search = sibling("toolkit_search")
    own = sibling("toolkit_search_windows" if sys.platform == "win32" else "toolkit_search_linux")
    import site

    folders = list(site.getsitepackages())
    if site.ENABLE_USER_SITE:
        folders.insert(1 if sys.prefix != sys.base_prefix else 0, site.getusersitepackages())
    wheels = {name: entry.version for name, entry in installed.items() if name.startswith("nvidia-")}
    places = search.Places(sys.prefix, folders, wheels, flavour(installed), option(sys.argv, "--root", ""), own)
    needed = []

    def report_component(name: str) -> None:
        found = search.find(places, name)
        needed.append(found["path"] or "")
        emit("component", **found)

    def report_folders() -> None:
        for entry in search.toolkits(places):
            needed.extend(os.path.join(entry["path"], part) for part in ("", "lib64", "nvvm/lib64", "nvvm/libdevice"))
            emit("toolkit", **entry)

    for name in search.COMPONENTS if "numba" in installed else ():
        guarded("components", lambda name=name: report_component(name))  # type: ignore[misc]
    guarded("toolkits", report_folders)
    guarded("refused", lambda: sibling("refused_places").report(emit, needed, needed))


def made_by_uv() -> bool:
    """Whether uv made this virtual environment: it notes its version in pyvenv.cfg."""
    return any(line.partition("=")[0].strip() == "uv" for line in beginning(os.path.join(sys.prefix, "pyvenv.cfg")).splitlines())


def main() -> None:
    """Say who this is, then one step after the other, each in its own guard."""
    start()
    conda = sys.prefix if os.path.isdir(os.path.join(sys.prefix, "conda-meta")) else None
    version = sys.version.split()[0]
    virtual = sys.prefix != sys.base_prefix
    refused = not virtual and os.path.exists(os.path.join(os.path.dirname(os.__file__), "EXTERNALLY-MANAGED"))
    more = {"conda": conda, "virtual": virtual, "uv": made_by_uv(), "externally_managed": refused}
    emit("python", path=sys.executable, version=version, prefix=sys.prefix, **more)
    installed = distributions(sys.path)
    guarded("packages", lambda: report_packages(installed, conda_packages(sys.prefix)))
    guarded("framework", lambda: report_frameworks(installed))
    guarded("redirect", lambda: emit("redirect", value=redirects(installed)))
    guarded("components", lambda: report_toolkits(installed))
    guarded("refused", lambda: report_refused(installed))
    guarded("shadows", lambda: report_shadows(sys.path))
    guarded("config", report_config)
    guarded("startup", lambda: report_startup(sys.path))
    guarded("others", lambda: report_others(sys.path))


if __name__ == "__main__":
    main()
