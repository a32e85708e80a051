"""What Numba is on this machine and what it finds there: its settings, what is left of it where it is gone, the libraries that it loads.

Loaded by ladder.py for numba_steps.py, and by python_env.py. `cuda` is the module numba.cuda, once it was imported.
"""

from __future__ import annotations

import importlib.util
import io
import os
import sys

from cudadoctor_lines import TYPE_CHECKING, mapped_files

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

CONFIG_WORDS = ("enable_cudasim", "disable_cuda")
CONFIG_LIMIT = 64 << 10  # characters


# ------------------------------------------------------------------ before it is imported
def configuration() -> tuple[str, str] | None:
    """The path of the user's .numba_config.yaml and what is in it. A pipe there holds nobody up; as root no other user's link is followed:
    it may lead to the kernel's messages.
    """
    path = os.path.join(os.environ.get("CUDADOCTOR_FOLDER") or os.getcwd(), ".numba_config.yaml")
    try:
        root = getattr(os, "geteuid", lambda: None)() == 0
        if not os.path.isfile(path) or (root and os.path.islink(path) and os.lstat(path).st_uid != 0):
            return None
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with open(descriptor, encoding="utf-8", errors="replace") as file:
            return path, file.read(CONFIG_LIMIT)
    except (OSError, ValueError, TypeError):  # TypeError: nothing to read for the moment
        return None


def stand_as_user() -> None:
    """Go where the user stands, if that was deleted: nothing can be loaded from there, and who asks where it is gets no answer there."""
    folder = os.environ.get("CUDADOCTOR_FOLDER", "")
    if folder.startswith("/proc/") and "/fd/" in folder:
        try:
            os.chdir(folder)
        except OSError:
            pass  # /proc is hidden from this process


def as_configured() -> None:
    """What the user's .numba_config.yaml says of CUDA as Numba itself would take it, and no more: the file may name a library to load."""
    read = configuration() if installed("yaml") else None  # Numba reads it where PyYAML is installed
    if read is None:
        return
    path, text = read
    stream = io.StringIO(text)
    stream.name = path  # which PyYAML names in an error
    importlib.import_module("yaml").safe_load(stream)  # what is no YAML ends Numba's import
    for line in text.split("\n"):
        key, _, value = line.partition(":")
        if key.strip().lower() in CONFIG_WORDS:
            on = value.split("#")[0].strip().strip("'\"").lower() in ("1", "true", "yes", "on")
            os.environ.setdefault("NUMBA_" + key.strip().upper(), "1" if on else "0")  # the environment outranks the file


def installed(name: str) -> bool:
    """Whether the import system finds a package, without importing it."""
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError, AttributeError):
        return True  # it is there in some form


def remains() -> str | None:
    """What shows that Numba should be here: what an interrupted pip left of it, numba-cuda, which demands it, or a virtual environment
    that is none any more, or none for this Python, or not the one that a link is taken for."""
    for folder in sys.path:
        path = os.path.join(folder, "~umba")
        if os.path.isdir(path):
            return "numba was removed and not installed again: {} is what pip left of it".format(path)
    if installed("numba_cuda"):
        return "numba-cuda is installed, and numba, which it needs, is not"
    folder = os.path.dirname(os.path.dirname(sys.executable))
    made = os.path.exists(os.path.join(folder, "bin", "activate")) and not os.path.exists(os.path.join(folder, "pyvenv.cfg"))
    if made and os.path.isdir(numba_of(folder)):
        return "{} has no pyvenv.cfg, so this Python does not see its packages".format(folder)
    return behind_link() or of_another_python()


def numba_of(folder: str) -> str:
    """Where an environment for this Python would have Numba."""
    return os.path.join(folder, "lib", "python{}.{}".format(*sys.version_info), "site-packages", "numba")


def behind_link() -> str | None:
    """The environment to whose Python a link leads that lies outside of it: called by the link, Python does not see it."""
    path = sys.executable
    own = {os.path.realpath(folder) for folder in (sys.prefix, os.path.dirname(os.path.dirname(path)))}
    while path and os.path.islink(path):
        path = os.path.join(os.path.dirname(path), os.readlink(path))
        folder = os.path.dirname(os.path.dirname(path))
        if os.path.realpath(folder) not in own and os.path.isdir(numba_of(folder)):
            return "{} leads to {}, and called so it does not see the packages beside that".format(sys.executable, path)
    return None


def of_another_python() -> str | None:
    """A folder of this environment with packages for another version of Python."""
    library = os.path.join(sys.prefix, "lib")
    names = sorted(name for name in (os.listdir(library) if os.path.isdir(library) else ()) if name.startswith("python3."))
    for name in names if sys.prefix != sys.base_prefix else ():
        path = os.path.join(library, name, "site-packages", "numba")
        if os.path.isdir(path):
            return "{} is for another Python than {}.{}, which runs here".format(path, *sys.version_info)
    return None


def simulator_text() -> str:
    """Says what switched the simulator on."""
    value = os.environ.get("NUMBA_ENABLE_CUDASIM")
    origin = "NUMBA_ENABLE_CUDASIM={} in the environment".format(value) if value else "ENABLE_CUDASIM in Numba's configuration"
    return "Numba's CUDA simulator is on: {}. Kernels would run on the CPU.".format(origin)


# ------------------------------------------------------------------ what it says about itself
def simulated(numba: Any, cuda: Any) -> bool:
    """Whether kernels would run on the CPU."""
    configured = any(getattr(getattr(owner, "config", None), "ENABLE_CUDASIM", 0) for owner in (numba, cuda))
    return configured or "simulator" in (getattr(cuda.jit, "__module__", None) or "")


def by_pathfinder(part: str) -> str | None:
    """numba-cuda finds its libraries through cuda.pathfinder."""
    from cuda import pathfinder  # type: ignore[import-untyped,unused-ignore]

    return str(pathfinder.load_nvidia_dynamic_lib(part).abs_path)


def by_numba(part: str) -> str | None:
    """Numba's own resolver: that of its built-in CUDA target, and numba-cuda's for libdevice."""
    from numba.cuda.cudadrv import libs

    path = libs.get_libdevice() if part == "libdevice" else libs.get_cudalib(part)
    return path if isinstance(path, str) and os.path.isabs(path) else None


def loaded(part: str) -> list[str]:
    """The libraries of this name that the process has loaded."""
    return sorted({path for _, _, path in mapped_files() if os.path.basename(path).startswith("lib{}.so".format(part))})


def another_driver() -> str | None:
    """A toolkit's stub that Numba loaded, or a libcuda beside another: it asks for libcuda.so, everybody else for libcuda.so.1."""
    paths = loaded("cuda") if sys.platform.startswith("linux") else []
    return next((path for path in paths if "/stubs" in path), paths[-1] if len(paths) > 1 else None)


def components(cuda: Any) -> dict[str, str]:
    """The file that this Numba uses for each part of the toolkit, as far as it says."""
    found = {}
    separate = "numba_cuda" in (getattr(cuda, "__file__", None) or "")
    ways: list[Callable[[str], str | None]] = [
        by_numba,
        lambda part: next(iter(loaded(part)), None),
    ]  # the last: a bare name was left to the system's loader
    ways = [by_pathfinder, *ways] if separate else ways
    for part in ("nvvm", "libdevice", "nvrtc", "nvJitLink", "cudart"):
        for way in ways:
            try:
                path = way(part)
            except Exception:
                continue
            if path:
                found[part.lower()] = path
                break
    other = another_driver()
    return {"libcuda": other, **found} if other is not None else found


def state(cuda: Any, with_components: bool = False) -> dict[str, Any]:
    """The `numba` event. It is written before the first kernel, and again with the components once they were used."""
    numba = sys.modules["numba"]
    return {
        "version": getattr(numba, "__version__", None),
        "implementation": getattr(cuda, "implementation", "Built-in"),
        "simulator": simulated(numba, cuda),
        "python": None,
        "components": components(cuda) if with_components else {},
    }
