"""Where programs are looked for: the user's PATH, and the folders that it may lack. What may be executed is in trust.py."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping

from cudadoctor.sources import inherited, trust
from cudadoctor.sources.spawning import ON_WINDOWS

PROGRAM_FOLDERS = ("/usr/sbin", "/sbin", "/usr/bin", "/bin")  # where admin tools live that a user's PATH may lack
WSL_FOLDER = "/usr/lib/wsl/lib"  # where WSL puts nvidia-smi; not on every PATH
_PATHEXT = ".COM;.EXE;.BAT;.CMD"


def search_path(program: str, *, windows: bool = ON_WINDOWS) -> str:
    """The user's PATH as far as it may be trusted, and behind it where this program lies besides."""
    return os.pathsep.join(dict.fromkeys((*trust.folders(os.environ.get("PATH", "")), *_besides(program, windows=windows))))


def handed_on(program: str) -> str:
    """The PATH for a child that is this program. It may be a script, which starts others by their names: as root it gets the folders in
    which every program is root's, and the system's own."""
    given = inherited.environment().get("PATH", "").split(os.pathsep)
    return os.pathsep.join(dict.fromkeys((*filter(None, given), *_besides(program, windows=ON_WINDOWS))))


def _besides(program: str, *, windows: bool) -> tuple[str, ...]:
    if windows:
        return _windows_folders(program, os.environ)
    if program == "nvidia-smi":
        return (WSL_FOLDER,)
    return () if program == "nvcc" else PROGRAM_FOLDERS


def _windows_folders(program: str, variables: Mapping[str, str]) -> tuple[str, ...]:
    """Drivers put nvidia-smi into System32; those before 2020 into a folder of its own."""
    system = os.path.join(variables.get("SYSTEMROOT", "C:\\Windows"), "System32")
    if program == "nvidia-smi":
        files = variables.get("PROGRAMW6432") or variables.get("PROGRAMFILES", "C:\\Program Files")
        return system, os.path.join(files, "NVIDIA Corporation", "NVSMI")
    if program == "powershell":
        return (os.path.join(system, "WindowsPowerShell", "v1.0"),)
    return () if program == "nvcc" else (system,)


def candidates(program: str, path: str, *, windows: bool = ON_WINDOWS) -> list[str]:
    """Executable files of that name, in the order of a PATH that may be trusted."""
    endings = os.environ.get("PATHEXT", _PATHEXT).lower().split(";") if windows else [""]
    names = [program] if windows and program.lower().endswith(tuple(filter(None, endings))) else [program + ending for ending in endings]
    found = (os.path.join(folder.strip('"') if windows else folder, name) for folder in path.split(os.pathsep) for name in names)
    return [name for name in found if os.path.isabs(name) and os.path.isfile(name) and os.access(name, os.X_OK)]


def anywhere(program: str, *more: str) -> str | None:
    """Where a program lies on PATH, in the system's folders or in these; whether it may be executed is not asked."""
    return shutil.which(program, path=os.pathsep.join((*os.environ.get("PATH", "").split(os.pathsep), *PROGRAM_FOLDERS, *more)))


def found(program: str) -> str | None:
    """The first executable of that name that may be executed."""
    return next((path for path in candidates(program, search_path(program)) if trust.refusal(path) is None), None)


def refused(program: str) -> str | None:
    """Why no program of that name may be executed although one lies on PATH: the words for it; None where none lies there."""
    given = os.environ.get("PATH", "")
    for path in candidates(program, given) + candidates(program, search_path(program)):
        why = trust.refusal(path)
        if why is not None:
            return f"{path} {why}; it was not run"
    relative = (os.path.join(folder, program) for folder in given.split(os.pathsep) if not os.path.isabs(folder))
    path = next((path for path in relative if os.path.isfile(path) and os.access(path, os.X_OK)), "")
    if path:
        return f"{path} is found by a relative entry of PATH; it was not run"
    there = _there(program)
    why = trust.refusal(there) if there is not None else None
    return f"{there} {why}; it was not run" if why is not None else None


def lying(program: str) -> str | None:
    """A file of that name in a folder of PATH that cannot be executed, and may be: the system says why. Folders that may not be read show
    nothing."""
    path = _there(program)
    return path if path is not None and trust.refusal(path) is None else None


def _there(program: str) -> str | None:
    places = (os.path.join(folder, program) for folder in search_path(program).split(os.pathsep) if folder)
    return next((place for place in places if os.path.lexists(place)), None)
