"""Which Python is the patient, and which one runs the doctor's own workers."""

from __future__ import annotations

import os
import shutil
import stat
import sys

from cudadoctor.sources.programs import candidates
from cudadoctor.sources.spawning import ON_WINDOWS

_PLACES = (("Scripts", "python.exe"), ("python.exe",)) if ON_WINDOWS else (("bin", "python"),)  # a virtual environment's, conda's
WORKERS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "workers")


def worker_path(name: str) -> str:
    return os.path.join(WORKERS, name)


def examined_python(given: str | None) -> tuple[str | None, str]:
    """The interpreter to examine and the rule that chose it.

    --python; else VIRTUAL_ENV's; else CONDA_PREFIX's; else the first python3 or python on PATH; else the doctor's own. As root an
    environment that another user may write is refused unless --python names it: running it would hand that user root's rights.
    """
    if given is not None:
        found = shutil.which(given) if not os.path.dirname(given) else given
        return (os.path.abspath(found) if found else given), "--python"
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        prefix = os.environ.get(variable)
        if prefix:
            for rel in _PLACES:
                candidate = os.path.join(prefix, *rel)
                if os.path.exists(candidate):
                    return _trusted(candidate, variable)
    found = _on_path_of_windows() if ON_WINDOWS else shutil.which("python3") or shutil.which("python")
    if found:
        return _trusted(_behind_shim(found), "the first Python on PATH")
    return sys.executable, "the doctor's own Python"


def _on_path_of_windows() -> str | None:
    """The first python on PATH. `python.exe` in WindowsApps opens the Store where no Python came from there: it counts last, if at all."""
    found = [path for name in ("python", "python3") for path in candidates(name, os.environ.get("PATH", ""), windows=True)]
    real = [path for path in found if not _of_the_store(path)]
    from_store = [path for path in found if _of_the_store(path) and _store_has_python(os.path.dirname(path))]
    return next(iter((*real, *from_store)), None)


def _of_the_store(path: str) -> bool:
    return os.path.basename(os.path.dirname(path)).lower() == "windowsapps"


def _store_has_python(folder: str) -> bool:
    """A Python from the Store has a folder of its own beside the aliases."""
    try:
        return any(name.startswith("PythonSoftwareFoundation.Python.") for name in os.listdir(folder))
    except OSError:
        return False


def _behind_shim(path: str) -> str:
    """The interpreter that a pyenv shim would start: the shim is a shell script that takes longer than Python itself.

    pyenv's own order: PYENV_VERSION, the nearest .python-version, the global version. Where none of them names a folder the shim stays.
    """
    root = os.path.dirname(os.path.dirname(path))
    if os.path.basename(os.path.dirname(path)) != "shims" or not os.path.isdir(os.path.join(root, "versions")):
        return path
    names = [os.environ.get("PYENV_VERSION", "")]
    folder = os.getcwd()
    while True:
        names.append(_first_line(os.path.join(folder, ".python-version")))
        if folder == os.path.dirname(folder):
            break
        folder = os.path.dirname(folder)
    names.append(_first_line(os.path.join(root, "version")))
    chosen = next((name for name in names if name), "")
    real = os.path.join(root, "versions", chosen.split(":")[0], "bin", os.path.basename(path))
    return real if chosen and os.path.exists(real) else path


def _first_line(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.readline().strip()
    except OSError:
        return ""


def _trusted(path: str, rule: str) -> tuple[str | None, str]:
    """As root, refuse an interpreter that somebody else could have changed: the link, its folders, and where it points."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return path, rule
    prefix = os.path.dirname(os.path.dirname(path))
    real = os.path.realpath(path)
    for place in (path, os.path.dirname(path), prefix, os.path.join(prefix, "pyvenv.cfg"), real, os.path.dirname(real)):
        try:
            info = os.lstat(place)
        except OSError:
            continue  # not there: the worker's start will say what is wrong with it
        # The mode of a link means nothing; who owns it does.
        writable = info.st_mode & stat.S_IWOTH or (info.st_mode & stat.S_IWGRP and info.st_gid != 0)
        if info.st_uid != 0 or (writable and not stat.S_ISLNK(info.st_mode)):
            return None, f"{path} ({rule}) may be written by another user; as root it is examined only when --python names it"
    return path, rule
