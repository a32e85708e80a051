"""Which Python is the patient, and which one runs the doctor's own workers."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import NamedTuple

from cudadoctor.sources import inherited, programs, trust
from cudadoctor.sources.plain_files import beginning
from cudadoctor.sources.spawning import ON_WINDOWS

_PLACES = (("Scripts", "python.exe"), ("python.exe",)) if ON_WINDOWS else (("bin", "python"),)  # a virtual environment's, conda's
_VERSION = re.compile(r"[A-Za-z0-9][\w.+-]{0,80}(?:/envs/[A-Za-z0-9][\w.+-]{0,80})?")  # 3.12.1, pypy3.10-7.3.17, work, 3.12.1/envs/work
_ENOUGH = 1 << 16  # characters of a file that names a version
_LONG_LIST = 4 << 20  # characters of a .pth file


class Shims(NamedTuple):
    """A tool that puts scripts before the interpreters, and where it says which one is meant."""

    installed: str  # below its own folder
    variable: str
    file: str  # of a project
    word: str  # what a line of that file begins with; empty: the first line
    globally: str


_SHIMS = (
    Shims("versions", "PYENV_VERSION", ".python-version", "", "{root}/version"),
    Shims("installs/python", "ASDF_PYTHON_VERSION", ".tool-versions", "python", "{home}/.tool-versions"),
)
FIRST = "the first Python on PATH"
AFTER_SHIM = f"{FIRST} after the shim "
WORKERS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "workers")


def worker_path(name: str) -> str:
    return os.path.join(WORKERS, name)


def own_environment() -> dict[str, str]:
    """The variables for a child in the doctor's own interpreter: those of Python are about the user's."""
    return {name: value for name, value in inherited.environment().items() if not name.startswith("PYTHON")}


def own_packages() -> str:
    """Where the doctor's own packages are found, for a worker that is started without site: never in the working directory."""
    folder = trust.working_directory()
    here = os.path.realpath(folder) if folder is not None else ""
    return os.pathsep.join(path for path in sys.path if path and os.pathsep not in path and os.path.realpath(path) != here)


def examined_python(given: str | None) -> tuple[str | None, str]:
    """The interpreter to examine and the rule that chose it.

    --python; else VIRTUAL_ENV's; else CONDA_PREFIX's; else the first python3 or python on PATH; else the doctor's own. But for --python
    it is refused where trust.py refuses it: as root, running what another user may write would hand that user root's rights.
    """
    if given is not None:
        found = programs.found(given) if not os.path.dirname(given) else given
        return (os.path.abspath(found) if found else given), "--python"
    path, rule = _meant()
    return _trusted(path, rule) if path is not None else (sys.executable, "the doctor's own Python")


def own_on_path() -> tuple[str, str] | None:
    """The interpreter that is meant, and the rule, where it is the one that runs the doctor, by whatever name: that one is trusted as it
    runs."""
    path, rule = _meant()
    if path is None or os.path.dirname(path) != os.path.dirname(sys.executable):
        return None
    return (path, rule) if os.path.realpath(path) == os.path.realpath(sys.executable) else None


def look_ahead(given: str | None, *, imports: bool = True) -> None:
    """As root, begin to look through what will be asked about before the first child starts: the places of variables, the interpreter's.

    `imports`: its packages will be imported; of the doctor's own interpreter these alone are looked through.
    """
    if trust.as_root():
        path = _meant()[0] if given is None and (imports or own_on_path() is None) else None
        if path is not None:  # the largest of them; apart from the toolkit's, which variables name too, for they are waited for first
            prefixes, _ = _prefixes(path)
            trust.begin(place for prefix in prefixes for place in _trees(prefix))
            trust.begin(inherited.parts(_TOOLKIT))
        inherited.look_ahead(frozenset(os.environ.items()))


def _meant() -> tuple[str | None, str]:
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        prefix = os.environ.get(variable)
        if prefix:
            for rel in _PLACES:
                candidate = os.path.join(prefix, *rel)
                if os.path.exists(candidate):
                    return candidate, variable
    return (_on_path_of_windows(), FIRST) if ON_WINDOWS else _on_path()


def _on_path() -> tuple[str | None, str]:
    """The first Python on PATH, where it is no shim; else what the shim would start; and what was passed over to get there."""
    path, rule = os.environ.get("PATH", ""), FIRST
    for name in ("python3", "python"):
        for found in programs.candidates(name, path):
            shim = trust.is_shim(found)
            real = _behind_shim(found) if shim else found
            if real is None:
                rule = f"{AFTER_SHIM}{found}"
            elif trust.in_working_directory(real) is None:
                return real, f"what the shim {found} would start" if shim else rule
    return None, rule


def behind_shims(path: str) -> str | None:
    """The interpreter itself, or the one that it would start where it is a shim; None where that cannot be told."""
    return _behind_shim(path) if trust.is_shim(path) else path


def _on_path_of_windows() -> str | None:
    """The first python on PATH. `python.exe` in WindowsApps opens the Store where no Python came from there: it counts last, if at all."""
    found = [path for name in ("python", "python3") for path in programs.candidates(name, os.environ.get("PATH", ""), windows=True)]
    folders = {path: os.path.dirname(path) for path in found}
    store = [path for path, folder in folders.items() if os.path.basename(folder).lower() == "windowsapps"]
    # A Python from the Store has a folder of its own beside the aliases.
    real = [path for path in store if any(name.startswith("PythonSoftwareFoundation.Python.") for name in _names(folders[path]))]
    return next(iter((*(path for path in found if path not in store), *real)), None)


def _behind_shim(path: str) -> str | None:
    """The interpreter that a shim of pyenv or asdf would start; None where none is named, and the next Python on PATH counts.

    The shim itself is never started: it would run what a file in the working directory names. The tools' own order: a variable, the
    file of the nearest folder, the global version. A name with a separator in it is none that these tools would make.
    """
    root = os.path.dirname(os.path.dirname(path))
    for tool in _SHIMS:
        for name in _versions(tool, root):
            real = os.path.join(root, tool.installed, name, "bin", os.path.basename(path))
            if os.path.exists(real):
                return real
    return None


def _versions(tool: Shims, root: str) -> Iterator[str]:
    """The names of versions that the user chose, nearest first."""
    here = PurePath(trust.working_directory() or os.sep)
    chosen = [
        os.environ.get(tool.variable, ""),
        *(_written(os.path.join(folder, tool.file), tool.word) for folder in (here, *here.parents)),
    ]
    chosen.append(_written(tool.globally.format(root=root, home=os.path.expanduser("~")), tool.word))
    yield from (name for line in chosen for name in line.replace(":", " ").split() if _VERSION.fullmatch(name))


def _text(path: str, most: int) -> str:
    """The beginning of a text. No path holds a NUL: what stands before and behind one is looked at, whichever of them Python takes."""
    return beginning(path, most).replace("\0", "\n")


def _written(path: str, word: str) -> str:
    """The versions in a file: its first line, or what follows `word` at the beginning of one."""
    text = _text(path, _ENOUGH)
    if not word:
        return text.split("\n")[0].strip()
    lines = (line.split("#")[0].split(None, 1) for line in text.split("\n"))
    return next((words[1] for words in lines if len(words) > 1 and words[0] == word), "")


_LIBRARIES = ("lib", "lib64", "local/lib", "local/lib64")  # of a prefix; Debian's and Fedora's Python look below /usr/local as well
_TOOLKIT = "/usr/local/cuda"  # where Numba looks for its compiler though nobody names it
_SHARED = ("/usr", "/usr/local")  # prefixes that hold more than Python
_WORD = re.compile(r"[A-Za-z_][\w.]{0,200}")
_PATHS = re.compile(r"(?P<mark>[\"'])(?:file://)?(?P<path>/(?:(?!(?P=mark))[^\n])+)(?P=mark)")
_MOST_MODULES = 200  # of those that a module of a .pth file names


def _trees(prefix: str) -> Iterator[str]:
    """The folders of an interpreter with all that it may load: its libraries, its packages, and what their .pth files add."""
    shared = os.path.normpath(prefix) in _SHARED or prefix == _of_user()
    for library in _LIBRARIES:
        folder = os.path.join(prefix, library)
        if not shared:
            yield folder
        for name in _names(folder):
            if shared and name.startswith(("python3", "pypy3", "libpython3", "libpypy3")):
                yield os.path.join(folder, name)
            if name.startswith(("python3", "pypy3")):
                for packages in ("site-packages", "dist-packages"):
                    yield from _added(os.path.join(folder, name, packages))


def _of_user() -> str:
    return os.path.join(inherited.home(), ".local")


def _outermost(places: dict[str, str]) -> list[str]:
    """The places, by what they really are, without those that lie in another: a tree is looked through as a whole."""
    return [place for real, place in places.items() if not any(real.startswith(other + os.sep) for other in places)]


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _added(packages: str) -> Iterator[str]:
    """The folders that .pth files, and the modules that Python imports unasked, add to a folder of packages. `pip install -e` writes a
    .pth that holds the folder, or one that imports a module which holds it.
    """
    for name in _names(packages):
        if name.endswith(".pth"):
            for line in filter(None, map(str.strip, _text(os.path.join(packages, name), _LONG_LIST).lstrip("\ufeff").splitlines())):
                if line.startswith(("import ", "import\t")):
                    yield from _paths_of(_run_by(line, packages))
                elif not line.startswith("#"):
                    yield os.path.join(packages, line)
    yield from _paths_of(_run_by(_UNASKED, packages))


def _paths_of(texts: Iterable[str]) -> Iterator[str]:
    """What they hold as paths, and as a list of paths in one word."""
    for found in _PATHS.finditer("\n".join(texts)):
        yield from dict.fromkeys((found["path"], *(one for one in found["path"].split(":") if one.startswith("/"))))


_UNASKED = "sitecustomize usercustomize"  # the modules that Python imports at every start, where they are


def _run_by(line: str, packages: str) -> Iterator[str]:
    """A line that is executed, and the modules of this folder that it names, and those that these name."""
    named = _modules(line, packages, packages)
    texts = {module: _text(module, _LONG_LIST) for module in named}
    told = (module for file, text in texts.items() for module in _modules(text, os.path.dirname(file), packages))
    imported = dict.fromkeys(module for module in told if module not in texts)
    yield from (line, *texts.values(), *(_text(module, _LONG_LIST) for module in list(imported)[:_MOST_MODULES]))


def _modules(words: str, folder: str, packages: str) -> list[str]:
    """The files of the modules and packages that are named, with those above them: of the folder of packages, or beside who names them."""
    names = (word.strip(".").split(".") for word in dict.fromkeys(_WORD.findall(words)))
    stems = (os.path.join(base, *parts[:count]) for parts in names for count in range(1, len(parts) + 1) for base in {packages, folder})
    files = (file for stem in stems for file in (f"{stem}.py", os.path.join(stem, "__init__.py")))
    return [file for file in dict.fromkeys(files) if os.path.isfile(file)]


def _set_to(settings: str, *names: str) -> list[str]:
    """The paths to which a pyvenv.cfg sets one of these names, in whatever case; children stand in /."""
    entries = (line.partition("=") for line in settings.lstrip("\ufeff").splitlines())
    values = (value.strip() for name, _, value in entries if name.strip().lower() in names)
    return [os.path.join(os.sep, value) for value in values if value]


def _set_beside(path: str) -> Iterator[str]:
    """The file beside an interpreter that says where its modules are, and the places in it (CPython 3.11: Modules/getpath.py)."""
    for one in dict.fromkeys((path, os.path.realpath(path))):
        file = f"{one}._pth"
        yield file
        yield from (os.path.join(os.path.dirname(one), line.strip()) for line in _text(file, _ENOUGH).splitlines() if line.strip())


def _settings(path: str) -> tuple[str, ...]:
    """Where an interpreter looks for the pyvenv.cfg of its virtual environment: beside it, and one folder above."""
    folder = os.path.dirname(path)
    return os.path.join(folder, "pyvenv.cfg"), os.path.join(os.path.dirname(folder), "pyvenv.cfg")


def _prefixes(path: str) -> tuple[set[str], list[str]]:
    """Where an interpreter has its library and packages, and the interpreters that its virtual environment was made of."""
    prefixes = {os.path.dirname(os.path.dirname(one)) for one in (path, os.path.realpath(path))}
    settings = "\n".join(_text(place, _ENOUGH) for place in _settings(path))
    homes = _set_to(settings, "home")
    bases = [os.path.join(home, name) for home in homes for name in _names(home) if name.startswith(("python3", "pypy3"))]
    bases += _set_to(settings, "executable", "base-executable")
    prefixes |= {os.path.dirname(os.path.dirname(one)) for base in bases for one in (base, os.path.realpath(base))}
    prefixes |= {os.path.dirname(home.rstrip(os.sep)) for home in homes}
    named = (os.environ.get("PYTHONUSERBASE", ""), *os.environ.get("PYTHONHOME", "").split(":"))
    prefixes |= {_of_user(), *(os.path.join(os.sep, one) for one in named if one)}  # children stand in /
    return prefixes, bases


def _trusted(path: str, rule: str) -> tuple[str | None, str]:
    why = refusal(path)
    return (path, rule) if why is None else (None, f"{path} ({rule}) {why}; it is examined only when --python names it")


def refusal(path: str) -> str | None:
    """Why an interpreter may not be run, as the end of a sentence that begins with its path; None where it may."""
    with trust.one_question():  # both look through its library
        return trust.refusal(path) or reads_of_others(path)


def reads_of_others(path: str) -> str | None:
    """For root: whether somebody else may change what an interpreter reads before its first line: its settings, its library and its
    packages, however deep; and the toolkit that Numba finds unasked."""
    prefixes, bases = _prefixes(path)
    settings = [os.path.join(prefix, *below, "pyvenv.cfg") for prefix in sorted(prefixes) for below in ((), ("bin",))]
    places = [*_settings(path), *_set_beside(path), *settings, *(place for prefix in sorted(prefixes) for place in _trees(prefix))]
    apart = {os.path.realpath(place): place for place in places} if trust.as_root() else {}
    libraries = (os.path.join(prefix, library) for prefix in sorted(prefixes) for library in _LIBRARIES[:2])
    looked = (
        *((base, trust.refusal(base)) for base in bases),
        *((place, trust.changeable(place)) for place in (*libraries, *places)),
        *((place, trust.tree(place)) for place in _outermost(apart)),
        (_TOOLKIT, inherited.toolkit(_TOOLKIT)),
    )
    return next((f"reads {place}, which {why}" for place, why in looked if why is not None), None)
