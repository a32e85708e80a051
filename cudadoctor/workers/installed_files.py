"""Whether the files that an error names are as their installer left them: RECORD has each file's size and SHA-256, and what Python runs of
a source is what stands in it.

Loaded by ladder.py after Numba failed. An event `installed` names a file, its package, what differs, and byte code of another source.
"""

from __future__ import annotations

import os
import re
import sys

from cudadoctor_lines import TYPE_CHECKING, beginning, distributions_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MOST_FILES, MOST_BYTES = 40, 64 << 20  # files that are compared, and bytes of one that are read
MOST_COMPILED = 3  # files that an error names last
# Conda writes its prefix into files, and distributions strip libraries: what they install need not be what RECORD says.
INSTALLERS = ("pip", "uv", "poetry", "pdm")
ENDS = "\"'(),:;\n"  # of a path within an error
LACKS = r"(?:type |module )?(?:object )?'([\w.]{1,200})' (?:object )?has no attribute"  # a module or a class


def named(output: str, folders: list[str]) -> dict[str, tuple[str, str]]:
    """Path to folder of packages and path in it, for each file of these folders that the words name, the last first."""
    found: dict[str, tuple[str, str]] = {}
    for line in reversed(output.splitlines()):
        for folder in folders:
            _, begins, rest = line.partition(folder + os.sep)
            end = min((at for at in map(rest.find, ENDS) if at >= 0), default=len(rest))
            if begins and rest[:end].rstrip() and len(found) < MOST_FILES:
                found.setdefault(os.path.join(folder, rest[:end].rstrip()), (folder, rest[:end].rstrip().replace(os.sep, "/")))
    return found


def lacking(output: str) -> str:
    """The file, as a traceback would name it, of the module or class that lacks an attribute: it may be another package's."""
    said = re.findall(LACKS, output)
    name = said[-1] if said else ""
    modules = [module for module in list(sys.modules.values()) if getattr(module, "__file__", None)]
    for module in modules:
        called, here = getattr(module, "__name__", None), getattr(module, "__dict__", {}).get(name)
        if called == name or (isinstance(here, type) and here.__module__ == called):
            return '  File "{}", line 1\n'.format(module.__file__)
    return ""


def recorded(folder: str, installers: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    """Name, version and the text of RECORD of each package of a folder that one of these installed; an empty text stands for all."""
    for name, version, entry in distributions_in(folder):
        home = os.path.join(folder, entry)
        if beginning(os.path.join(home, "INSTALLER")).lower().startswith(installers):
            yield name, version, "\n" + beginning(os.path.join(home, "RECORD"), MOST_BYTES)


def owner(folder: str, inside: str) -> str | None:
    """The package of a folder that brought a file, by whichever installer."""
    return next((name for name, _, text in recorded(folder, ("",)) if "\n" + inside + "," in text), None)


def difference(path: str, line: str) -> str | None:
    """How a file differs from its line in RECORD; None where it does not, or nobody can tell."""
    value, _, size = line.rpartition(",")
    algorithm, _, wanted = value.rpartition(",")[2].partition("=")
    try:
        found = os.path.getsize(path)
        if size.isdigit() and found != int(size):
            return "{} of {} bytes".format(found, size)
        if algorithm != "sha256" or found > MOST_BYTES:
            return None
        import base64
        import hashlib

        with open(path, "rb") as file:
            digest = base64.urlsafe_b64encode(hashlib.sha256(file.read()).digest()).rstrip(b"=").decode("ascii")
        return None if digest == wanted else "other contents"
    except FileNotFoundError:
        return "not there"
    except (OSError, ImportError):
        return None


def foreign_byte_code(path: str) -> str | None:
    """The byte code that Python takes for a source, where it was compiled from another: unchecked (PEP 552), or as old and as long. None
    where it was not, or nobody can tell.
    """
    from importlib.machinery import SourceFileLoader
    from importlib.util import cache_from_source

    try:
        with open(path, "rb") as file:
            meant = compile(file.read(MOST_BYTES), path, "exec", dont_inherit=True)
        kept = cache_from_source(path)
        return kept if os.path.isfile(kept) and SourceFileLoader("_", path).get_code("_") != meant else None
    except Exception:  # of a source that is no Python, and of byte code that is none, RECORD or the traceback speaks
        return None


def report(emit: Callable[..., None], output: str) -> None:
    """An event for each file that the words of an error name, or that has what they name, and a package brought."""
    folders = [folder for folder in dict.fromkeys(sys.path) if os.path.basename(folder) in ("site-packages", "dist-packages")]
    files = named(output + "\n" + lacking(output), folders)
    sources = [path for path in files if path.endswith(".py")][:MOST_COMPILED]
    texts = {folder: list(recorded(folder, INSTALLERS)) for folder in {folder for folder, _ in files.values()}}
    for path, (folder, inside) in sorted(files.items(), key=lambda file: folders.index(file[1][0])):
        for package, version, text in texts[folder]:
            _, begins, rest = text.partition("\n" + inside + ",")
            if begins:
                differs = difference(path, rest.partition("\n")[0].rstrip("\r"))
                byte_code = foreign_byte_code(path) if path in sources and differs is None else None
                emit("installed", path=path, package=package, version=version, differs=differs, byte_code=byte_code)
                break
