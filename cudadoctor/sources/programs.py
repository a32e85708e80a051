"""Where programs are looked for: the user's PATH, and the folders that it may lack."""

from __future__ import annotations

import os
from collections.abc import Mapping

from cudadoctor.sources.spawning import ON_WINDOWS

PROGRAM_FOLDERS = ("/usr/sbin", "/sbin", "/usr/bin", "/bin")  # where admin tools live that a user's PATH may lack
WSL_FOLDER = "/usr/lib/wsl/lib"  # where WSL puts nvidia-smi; not on every PATH
_PATHEXT = ".COM;.EXE;.BAT;.CMD"


def search_path(program: str, *, windows: bool = ON_WINDOWS) -> str:
    """The user's PATH, and behind it where this program lies besides."""
    folders = [folder for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    if windows:
        folders.extend(_windows_folders(program, os.environ))
    elif program == "nvidia-smi":
        folders.append(WSL_FOLDER)
    elif program != "nvcc":
        folders.extend(PROGRAM_FOLDERS)
    return os.pathsep.join(folders)


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
    """Executable files of that name, in the order of PATH. The working directory is no part of it, though Windows would look there."""
    endings = os.environ.get("PATHEXT", _PATHEXT).lower().split(";") if windows else [""]
    names = [program] if windows and program.lower().endswith(tuple(filter(None, endings))) else [program + ending for ending in endings]
    folders = [folder.strip('"') if windows else folder for folder in path.split(os.pathsep) if folder]
    found = (os.path.join(folder, name) for folder in folders if not windows or os.path.isabs(folder) for name in names)
    return [name for name in found if os.path.isfile(name) and os.access(name, os.X_OK)]


def lies_there(program: str, path: str) -> bool:
    """Whether a file of that name is in a folder of PATH, executable or not. Folders that may not be read show nothing."""
    return any(os.path.lexists(os.path.join(folder, program)) for folder in path.split(os.pathsep) if folder)
