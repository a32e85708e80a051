"""What may be executed: one rule for tools, interpreters and what stands behind a shim.

A file counts where its path is absolute and it does not come from the working directory. As root, everything on the way to it, links
included, must belong to root and be writable by nobody else: whoever may change one of these could run anything with root's rights.
What `--python` names is the user's own word, and is not asked about here.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

from cudadoctor.sources import linked, owners
from cudadoctor.sources.listings import Listing
from cudadoctor.sources.spawning import ON_WINDOWS

_MOST_SCRIPTS, _LONGEST_LINE = 5, 256  # each the interpreter of the one before, and bytes of a script's first line: so too
# Whoever stands in one of these has not opened a stranger's folder.
_SYSTEM = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
PREFIXES = ("/", "/usr", "/usr/local")
_MADE_BY_LOADER = re.compile(r"\$\{?(?:LIB|PLATFORM)\b")
# The loader's own folders, which every program looks through.
_SYSTEMS_OWN = re.compile(r"(?:/usr(?:/local)?)?/lib(?:32|64|x32)?(?:/[a-z0-9_]{1,20}-linux-gnu[a-z0-9_]{0,20})?\Z")
_asked = []  # type: list[str]  # interpreters, and trees, that are being looked at
_ahead = {}  # type: dict[str, Listing]  # listings that were begun before somebody asked
_kept = []  # type: list[_Question]  # those that are being answered
_PYTHONS = ("python", "pypy")  # how the names of interpreters begin
# What follows `env` in a script's first line: a program, behind -S also words for it. Its other options and NAME=value lead elsewhere.
_PLAIN_ENV = re.compile(r"\A(?:-S )?[\w./+][\w./+-]*(?: [\w./+-]+)*\Z")
_SHIMS = "shims"  # the folder in which pyenv, asdf and mise keep programs that run what a file in the working directory names


def refusal(path: str) -> str | None:
    """Why this program may not be executed, as the end of a sentence that begins with its path; None where it may."""
    return in_working_directory(path) or changeable(path) or _run_by_others(path) or loads_of_others(path)


def _run_by_others(path: str, depth: int = _MOST_SCRIPTS) -> str | None:
    """For root: whether a script's first line names an interpreter that somebody else may change, or of whose packages he may. The kernel
    takes one script to run another."""
    line = _first_line(path) if as_root() and depth else b""
    words = [os.fsdecode(word) for word in line[2:].split()] if line.startswith(b"#!") else []
    if words and os.path.basename(words[0]) == "env" and not _PLAIN_ENV.match(" ".join(words[1:])):
        return "begins with a line for env that names more than a program"
    for word in (*words, *(word[word.index(os.sep) :] for word in words if os.sep in word[1:])):
        place = _interpreter(word)
        if os.path.exists(place):
            why = changeable(place) or _run_by_others(place, depth - 1) or loads_of_others(place) or _reads_of_others(place)
            if why is not None:
                return f"is run by {place}, which {why}"
    if any(os.path.basename(word).startswith(_PYTHONS) for word in words):
        why = _modules_beside(os.path.dirname(os.path.realpath(path)))
        return f"is a script of Python, which looks for modules beside it: that folder {why}" if why is not None else None
    return None


def _modules_beside(folder: str) -> str | None:
    """Why Python imports nothing from a folder that also holds other programs."""
    try:
        with os.scandir(folder) as entries:
            named = [entry for entry in entries if entry.name.endswith((".py", ".pyc", ".so")) or entry.is_dir()]
    except OSError as error:
        return f"cannot be looked through ({error.strerror})"
    modules = (entry.path for entry in named if not _lies_in(folder, os.path.realpath(entry.path)))  # /usr/bin/X11 leads back
    looked = ((module, changeable(module) or tree(module)) for module in modules)
    return changeable(folder) or next((f"holds {module}, which {why}" for module, why in looked if why is not None), None)


def _interpreter(word: str) -> str:
    """What a word of a script's first line names: `env` looks up a bare one. Children stand in /."""
    from cudadoctor.sources import inherited, programs  # they import this module

    found = programs.candidates(word, inherited.environment().get("PATH", "")) if os.sep not in word else []
    return next(iter(found), os.path.join(os.sep, word))


def _reads_of_others(path: str) -> str | None:
    """The same of what a Python reads before its first line, once where its base is a script that it runs."""
    from cudadoctor.sources import interpreters  # it imports this module

    if path in _asked or not os.path.basename(path).startswith(_PYTHONS):
        return None
    _asked.append(path)
    try:
        return interpreters.reads_of_others(path)
    finally:
        _asked.remove(path)


def loads_of_others(path: str) -> str | None:
    """For root: whether a program, a library, one of a folder of them, or one that such a one names, loads what somebody else may change,
    or put into a folder of libraries."""
    todo, seen = (_libraries(path) if as_root() else []), set()  # type: list[str], set[str]
    while todo:
        named = _question().places_of(todo.pop())
        files = named.found()
        for place in (*named.folders, *files):
            if place in seen:
                continue
            seen.add(place)
            why = _may_be_loaded(place)
            if why is not None:
                return f"loads {place}, which {why}"
            todo += [place] if place in files else []
    return None


def _may_be_loaded(place: str) -> str | None:
    """Why a library, or one of a folder in which libraries are looked for, is not loaded."""
    if _MADE_BY_LOADER.search(place):
        return "the loader alone can read"
    real = os.path.realpath(place)
    return changeable(place) if real in PREFIXES or _SYSTEMS_OWN.match(real) else tree(place)


def _libraries(path: str) -> list[str]:
    try:
        return [os.path.join(path, name) for name in os.listdir(path) if ".so" in name]
    except OSError:
        return [path]


def _first_line(path: str) -> bytes:
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as stream:
            return stream.read(_LONGEST_LINE).partition(b"\n")[0]
    except OSError:
        return b""


def changeable(path: str) -> str | None:
    """For root: whether somebody else may change it."""
    return "may be written by another user" if as_root() and not owners.is_roots(path) else None


def led_elsewhere(path: str) -> str | None:
    """Why nothing is written at this path, as the end of a sentence that begins with it: another user made a link on the way or, for root,
    may change something there."""
    link = strange_link(path)
    return f"is reached through {link}, a link that another user made" if link is not None else changeable(path)


def made_by_root(folder: str) -> bool:
    """Whether a folder is root's and nobody else may put another in its place, though others may write into it."""
    try:
        places = list(owners.way(folder))
        info = os.lstat(places[-1])
        return stat.S_ISDIR(info.st_mode) and owners.belongs_to_root(info) and all(map(owners.of_root_alone, places[:-1]))
    except OSError:
        return False


def tree(folder: str) -> str | None:
    """For root: whether somebody else may change anything in this folder, however deep, or make it."""
    why = changeable(folder)
    return why if why is not None or not as_root() or not os.path.isdir(folder) else _below(os.path.realpath(folder))


def begin(places: Iterable[str]) -> None:
    """As root, begin to list these trees in one child, for who asks for them later. A thread would need memory that a limited shell may not
    give. A tree within another is listed with it."""
    find = _find() if as_root() else None
    if find is None:
        return
    new = sorted(filter(os.path.isdir, {os.path.realpath(place) for place in places} - set(PREFIXES) - _ahead.keys()))
    around = {place: listing for place in new for other, listing in _ahead.items() if _lies_in(place, other)}
    rest = [place for place in new if place not in around]
    tops = [place for place in rest if not any(place != other and _lies_in(place, other) for other in rest)]
    if tops:
        around = {**dict.fromkeys(rest, Listing(find, tops)), **around}
    _ahead.update(around)


@contextlib.contextmanager
def one_question() -> Iterator[None]:
    """Within this each tree is listed once, and each library read once, however often it is asked about."""
    _kept.append(_Question())
    try:
        yield
    finally:
        _kept.pop()


@atexit.register
def _end_all() -> None:
    """What was begun and nobody asked for."""
    for listing in _ahead.values():
        listing.end()


def _find() -> str | None:
    return next((path for path in ("/usr/bin/find", "/bin/find") if os.path.exists(path) and refusal(path) is None), None)


def _below(root: str) -> str | None:
    """What is in a folder, and in those to which its links lead. `find` lists what needs a look, many times faster than we could walk a
    tree of packages; without it we walk.
    """
    find = _find()
    todo, seen = [root], []  # type: list[str], list[str]
    looked = (
        lru_cache(maxsize=None)(owners.of_root_alone),
        lru_cache(maxsize=None)(owners.leads_to),
    )  # its links lead along the same few ways
    try:
        while todo:
            top = todo.pop()
            if any(_lies_in(top, other) for other in seen):
                continue
            seen.append(top)
            mount = next((place for place in owners.mounted_by_others() if place.startswith(top.rstrip(os.sep) + os.sep)), None)
            if mount is not None:
                return f"holds {mount}, which another user mounted"
            for path in _walked(top) if find is None else _listed(find, top):
                if not _is_roots_in(path, *looked):
                    return f"holds {path}, which may be written by another user"
                why = _named_elsewhere(path, seen) if ".so" in os.path.basename(path) else None
                if why is not None:
                    return f"holds {path}, which {why}"
                if os.path.islink(path) and os.path.isdir(path):
                    todo.append(os.path.realpath(path))
    except OSError as error:
        return f"cannot be looked through ({error.strerror})"  # what may not be looked at is not known to be root's
    return None


def _named_elsewhere(library: str, looked: list[str]) -> str | None:
    """The same of what a library of a tree names outside of those that are being looked through."""
    named = _question().places_of(library)
    for place in (*named.folders, *named.files):
        real = _question().real(place)
        if not any(_lies_in(real, top) for top in (*looked, *_asked)):
            _asked.append(real)
            try:
                why = _may_be_loaded(place)
            finally:
                _asked.remove(real)
            if why is not None:
                return f"loads {place}, which {why}"
    return None


def _listed(find: str, root: str) -> Iterator[str]:
    """What belongs to others, is open to others, or is a link. OSError where not all of the tree could be seen."""
    kept = _question().listings
    listing = kept.get(root) or _ahead.pop(root, None)
    if listing is None or (listing.roots != [root] and listing.failure() is not None):
        listing = Listing(find, [root])
    kept[root] = listing
    failure = listing.failure()
    yield from (path for path in listing.found if _lies_in(path, root))
    if failure is not None:
        raise failure


class _Question:
    """What was looked at for one answer."""

    def __init__(self) -> None:
        self.listings = {}  # type: dict[str, Listing]
        self.libraries = {}  # type: dict[str, linked.Places]
        self._real = {}  # type: dict[str, str]

    def real(self, place: str) -> str:
        """Where it really is: `..` behind a link leads elsewhere than its words say."""
        if place not in self._real:
            self._real[place] = os.path.realpath(place)
        return self._real[place]

    def places_of(self, library: str) -> linked.Places:
        if library not in self.libraries:
            self.libraries[library] = linked.places(library)
        return self.libraries[library]


def _question() -> _Question:
    return _kept[-1] if _kept else _Question()


def _lies_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _walked(root: str) -> Iterator[str]:
    todo = [root]
    while todo:
        with os.scandir(todo.pop()) as entries:
            for entry in entries:
                yield entry.path
                if entry.is_dir(follow_symlinks=False):
                    todo.append(entry.path)


def _is_roots_in(path: str, of_root_alone: Callable[[str], bool], leads_to: Callable[[str], str | None]) -> bool:
    """One file or folder of a tree whose way is root's. What a link leads to is asked about with its whole way."""
    info = os.lstat(path)
    if not owners.belongs_to_root(info):
        return False
    if stat.S_ISLNK(info.st_mode):  # also where it leads back: somebody else's link on the way may lead elsewhere a moment later
        return owners.is_roots(path, of_root_alone, leads_to)
    return not owners.open_to_others(path, info)


def strange_link(path: str, *, to_read: bool = False) -> str | None:
    """The first link on the way to a file that belongs to neither root nor this user: whoever made it chose what is written there.

    `to_read`: inside a user namespace the host's own root, whom it does not name, may lead to what is read there.
    """
    if ON_WINDOWS:
        return None
    try:
        places = (place for place in owners.way(os.path.abspath(path)) if stat.S_ISLNK(os.lstat(place).st_mode))
        held = ((place, os.lstat(place).st_uid) for place in places)
        return next((place for place, user in held if user not in (0, os.geteuid()) and not (to_read and owners.is_unmapped(user))), None)
    except OSError:
        return None


def in_working_directory(path: str) -> str | None:
    """The same, whoever runs it."""
    if not os.path.isabs(path):
        return "is not an absolute path"
    if is_shim(path):
        return "is a shim, which runs what a file in the working directory names"
    return "lies in the working directory" if _is_here(os.path.dirname(path)) else None


def is_shim(path: str) -> bool:
    """By its folder's name, also where links lead there."""
    return any(os.path.basename(os.path.dirname(one)) == _SHIMS for one in (os.path.normpath(path), os.path.realpath(path)))


def folders(path: str) -> list[str]:
    """The folders of a PATH that may be searched: no empty or relative entry, not the working directory, as root none of others'."""
    return list(_folders(path, working_directory(), as_root()))


@lru_cache(maxsize=4)
def _folders(path: str, here: str | None, root: bool) -> tuple[str, ...]:
    """Every program is looked for in the same ones, and what is found there is asked about by itself."""
    entries = dict.fromkeys(entry.strip('"') if ON_WINDOWS else entry for entry in path.split(os.pathsep))
    return tuple(entry for entry in entries if os.path.isabs(entry) and refusal(os.path.join(entry, os.curdir)) is None)


def working_directory() -> str | None:
    """None where it was deleted."""
    try:
        return os.getcwd()
    except OSError:
        return None


def as_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def _is_here(folder: str) -> bool:
    """Whether a folder is the working directory, and none of the system's own."""
    try:
        if not os.path.samefile(folder, os.curdir):
            return False
    except OSError:
        return False
    windows = os.environ.get("SYSTEMROOT", "C:\\Windows").lower()
    return not folder.lower().startswith(windows) if ON_WINDOWS else os.path.normpath(folder) not in _SYSTEM
