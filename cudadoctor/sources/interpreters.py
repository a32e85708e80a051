"""Which Python is the patient, and which one runs the doctor's own workers."""

from __future__ import annotations

import os
import shutil
import stat
import sys

WORKERS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "workers")


def worker_path(name: str) -> str:
    return os.path.join(WORKERS, name)


def examined_python(given: str | None) -> tuple[str | None, str]:
    """The interpreter to examine and the rule that chose it.

    --python; else VIRTUAL_ENV's; else CONDA_PREFIX's; else the first python3 or python on PATH; else the doctor's own. As root an
    environment that another user may write is refused unless --python names it: running it would hand that user root's rights.
    """
    if given is not None:
        found = shutil.which(given) if os.sep not in given else given
        return (os.path.abspath(found) if found else given), "--python"
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        prefix = os.environ.get(variable)
        if prefix:
            candidate = os.path.join(prefix, "bin", "python")
            if os.path.exists(candidate):
                return _trusted(candidate, variable)
    for name in ("python3", "python"):
        found = shutil.which(name)
        if found:
            return _trusted(found, "the first Python on PATH")
    return sys.executable, "the doctor's own Python"


def _trusted(path: str, rule: str) -> tuple[str | None, str]:
    if os.geteuid() != 0:
        return path, rule
    for place in (path, os.path.realpath(path), os.path.dirname(os.path.realpath(path))):
        try:
            info = os.stat(place)
        except OSError:
            return path, rule  # the worker's start will say what is wrong with it
        if info.st_uid != 0 or info.st_mode & stat.S_IWOTH:
            return None, f"{path} ({rule}) may be written by another user; as root it is examined only when --python names it"
    return path, rule
