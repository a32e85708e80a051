"""What may be executed: one rule for tools, interpreters and what stands behind a shim.

A file counts where its path is absolute and it does not come from the working directory. As root, everything on the way to it, links
included, must belong to root and be writable by nobody else: whoever may change one of these could run anything with root's rights.
What `--python` names is the user's own word, and is not asked about here.
"""

from __future__ import annotations

import atexit
import errno
import os
import re
import stat
import subprocess
from collections.abc import Iterable, Iterator
from functools import lru_cache

from cudadoctor.sources.spawning import ON_WINDOWS

_FIRST_PERSON = 1000  # user ids below it are the system's own
_MOST_LINKS = 40  # as in the kernel
# Whoever stands in one of these has not opened a stranger's folder.
_SYSTEM = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
# Lists of folders or files in which an empty or relative entry means the working directory; LD_PRELOAD is parted by blanks too.
_LISTS = ("PYTHONPATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT")
# Variables by which what is examined here finds more to load. As root a child gets of these what is root's to the last file; of all others
# with a path in them, which rpm, perl or a shell may follow to code, only _PLAIN, for no tool that is asked here needs them.
_EXAMINED = re.compile(
    r"CUDA.*|NVIDIA_.*|NUMBA.*|CUPY_.*|NCCL_.*|XLA_.*|JAX_.*|TF_.*|TORCH.*|PYTORCH.*|TRITON_.*|SLURM_CONF|VIRTUAL_ENV|CONDA_PREFIX"
    r"|PYTHON(?:PATH|HOME|USERBASE)|LD_(?:LIBRARY_PATH|PRELOAD|AUDIT)|HOME|XDG_CONFIG_HOME",
)
_PLAIN = (
    "PATH",
    "HOME",
    "PWD",
    "OLDPWD",
    "SHELL",
    "TMPDIR",
    "TMP",
    "TEMP",
    "XDG_CONFIG_HOME",
)  # whose folders are root's, what is in them may not
_ADDRESS = re.compile(r"(?:https?|socks[45]?[ah]?)://[^\s,;\"'\\]{1,2000}")
_WORD = re.compile(r"[\w.+-]{0,100}")
_PLAIN_PATH = re.compile(r"/[^\s,;:%$~\"'\\]{0,4000}")
_IN_PATH = "/.-_"  # before a slash, signs that begin no new path; letters and digits may: -I/home/ada
_TOOLKITS = ("CUDA_HOME", "CUDA_PATH")
_SEVERAL = (*_TOOLKITS, "PYTHONHOME")  # which may name two folders
FOLDER = "CUDADOCTOR_FOLDER"  # tells a child's worker the user's working directory
WITHHELD = "CUDADOCTOR_WITHHELD"  # tells a child's worker from which variables something was left out
# What a shell, an interpreter or a library executes, or loads, whatever the value looks like: as root no child gets it.
_CODE = re.compile(
    r"BASH_ENV|ENV|BASH_FUNC_.*|SHELLOPTS|BASHOPTS|PS4|IFS|PROMPT_COMMAND|PERL.*|RUBY.*|NODE_OPTIONS|JAVA_TOOL_OPTIONS|OPENSSL_.*"
    r"|GCONV_PATH|GETCONF_DIR|GLIBC_TUNABLES|\A.*_INJECTION.*|(?!CUDA|NVCC|XLA|TF_|NUMBA|NCCL|JAX|TORCH).*_OPT(?:ION)?S"
    r"|LD_(?!LIBRARY_PATH$|PRELOAD$|AUDIT$).*"
    r"|PYTHON(?!PATH$|HOME$|USERBASE$|NOUSERSITE$|HASHSEED$|UNBUFFERED$|DONTWRITEBYTECODE$|UTF8$|IOENCODING$|SAFEPATH$|OPTIMIZE$).*",
)
_LOADED = re.compile(r"PYTHON.*|LD_.*|GLIBC_TUNABLES|OPENSSL_.*|GCONV_PATH|\A.*_INJECTION.*")  # of these, what a program for CUDA meets
# What else a program gets that is run to repair something: as sudo does, no other name.
_COMMON = re.compile(
    r"PATH|HOME|PWD|SHELL|USER|LOGNAME|TERM|COLORTERM|NO_COLOR|FORCE_COLOR|COLUMNS|LINES|LANG|LANGUAGE|LC_\w+|TZ|TMPDIR|TMP|TEMP|PYTHON.*|CUDADOCTOR_.*"
)
_OF_PROCESSES = ("/proc/", "/run/user/")  # below it a place may become another user's a moment later, or be another for each process
_PARTS = ("nvvm", "lib64", "lib", "bin", "targets")  # of a prefix that holds more than one program, from which libraries are loaded
_PREFIXES = ("/", "/usr", "/usr/local")
_AT_A_TIME = 16  # trees that are listed side by side
_ahead = {}  # type: dict[str, subprocess.Popen[bytes]]  # listings that were begun before somebody asked
_PATIENCE = 15.0  # seconds to look through one tree
_NOWHERE, _CONFIG = "/nonexistent", ".config/"  # as Debian names the home of a user that has none
_SHIMS = "shims"  # the folder in which pyenv, asdf and mise keep programs that run what a file in the working directory names


def refusal(path: str) -> str | None:
    """Why this program may not be executed, as the end of a sentence that begins with its path; None where it may."""
    return in_working_directory(path) or changeable(path)


def changeable(path: str) -> str | None:
    """For root: whether somebody else may change it."""
    return "may be written by another user" if as_root() and not _is_roots(path) else None


def tree(folder: str) -> str | None:
    """For root: whether somebody else may change anything in this folder, however deep, or make it."""
    why = changeable(folder)
    return why if why is not None or not as_root() or not os.path.isdir(folder) else _below(os.path.realpath(folder))


def leads_to_own(value: str, *, addresses: bool = True) -> bool:
    """Whether a variable's value has a form that is understood whole, and as root leads nowhere that others may write, however deep.

    Understood are plain words between commas, none of which is a folder of /; absolute paths, in a list or by words; and `addresses`
    (https://...) among words.
    """
    words = value.split()
    if words and all(map(_WORD.fullmatch, value.split(","))):
        return not as_root() or not any(word and os.path.lexists(os.sep + word) for word in value.split(","))
    return all((addresses and _ADDRESS.fullmatch(word) is not None) or all(map(_is_own, word.split(os.pathsep))) for word in words)


def settings_off(*places: str) -> dict[str, str]:
    """For root: variables that lead a program to no settings below its home, where others may write any of these places (`.kube`,
    `.config/pip`) or a file of the home's own whose name begins with a dot."""
    looked = [os.path.join(home(), place) for place in (*_dotted(home()), *places)]
    above = some_of_it(("XDG_CONFIG_HOME",)).get("XDG_CONFIG_HOME")
    looked += [os.path.join(above, place[len(_CONFIG) :]) for place in places if above and place.startswith(_CONFIG)]
    foreign = as_root() and any(tree(place) is not None for place in looked)
    return {"HOME": _NOWHERE, "XDG_CONFIG_HOME": _NOWHERE} if foreign else {}


def home() -> str:
    """Where a child finds the user's own files: as root not always where this process does."""
    given = some_of_it(("HOME",)).get("HOME")
    if given or ON_WINDOWS:
        return given or os.path.expanduser("~")
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        return os.sep


def _dotted(folder: str) -> list[str]:
    """The files of a home in which programs keep settings."""
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if entry.name.startswith(".") and not entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _is_own(place: str) -> bool:
    return _PLAIN_PATH.fullmatch(place) is not None and changeable(place) is None and tree(place) is None


@lru_cache(maxsize=None)
def _seen_once(folder: str) -> str | None:
    """The same for the places of variables, which every child asks about: a check lasts seconds. /bin and /usr/bin may be one folder."""
    if os.path.normpath(folder) in _PREFIXES:
        return next(filter(None, (tree(part) for part in _parts(folder))), None)
    real = os.path.realpath(folder)
    return tree(folder) if real == folder else changeable(folder) or _seen_once(real)


def _toolkit(folder: str) -> str | None:
    """Of a toolkit, what programs load: its profilers and samples are ten times as much."""
    return changeable(folder) or next(filter(None, (_seen_once(part) for part in _parts(folder))), None)


def _parts(folder: str) -> list[str]:
    return [os.path.join(folder, part) for part in _PARTS]


@lru_cache(maxsize=None)
def look_ahead(variables: frozenset[tuple[str, str]]) -> None:
    """Begin to list the places of all variables: a toolkit's takes a second."""
    named = [folders(value) for name, value in variables if name == "PATH"]
    named += [_entries(name, value) for name, value in variables if _EXAMINED.fullmatch(name) and name not in (*_PLAIN, *_TOOLKITS)]
    named += [_parts(entry) for name, value in variables if name in _TOOLKITS for entry in _entries(name, value)]
    begin(entry for entries in named for entry in entries if os.path.isabs(entry))


def begin(places: Iterable[str]) -> None:
    """As root, begin to list these trees side by side, for who asks for them later. Threads would need memory that a limited shell may not
    give."""
    find = _find() if as_root() else None
    if find is None:
        return
    new = {os.path.realpath(place) for place in places} - set(_PREFIXES) - _ahead.keys()
    for place in sorted(filter(os.path.isdir, new))[: max(0, _AT_A_TIME - len(_ahead))]:
        _ahead[place] = _begun(find, place)


@atexit.register
def _end_all() -> None:
    """What was begun and nobody asked for."""
    for child in _ahead.values():
        child.kill()
        child.communicate()


def _find() -> str | None:
    return next((path for path in ("/usr/bin/find", "/bin/find") if os.path.exists(path) and refusal(path) is None), None)


def _below(root: str) -> str | None:
    """What is in a folder, and in those to which its links lead. `find` lists what needs a look, many times faster than we could walk a
    tree of packages; without it we walk.
    """
    find = _find()
    todo, seen = [root], []  # type: list[str], list[str]
    try:
        while todo:
            top = todo.pop()
            if any(top == other or top.startswith(other.rstrip(os.sep) + os.sep) for other in seen):
                continue
            seen.append(top)
            for path in _walked(top) if find is None else _listed(find, top):
                if not _is_roots_in(path):
                    return f"holds {path}, which may be written by another user"
                if os.path.islink(path) and os.path.isdir(path):
                    todo.append(os.path.realpath(path))
    except OSError as error:
        return f"cannot be looked through ({error.strerror})"  # what may not be looked at is not known to be root's
    return None


def _listed(find: str, root: str) -> Iterator[str]:
    """What belongs to others, is open to others, or is a link. OSError where not all of the tree could be seen."""
    code, out = _ended(_ahead.pop(root) if root in _ahead else _begun(find, root))
    if code is None:
        raise OSError(errno.ETIME, f"it takes longer than {_PATIENCE:g} s")
    yield from (os.fsdecode(path) for path in out.split(b"\0") if path)
    if code != 0:
        raise OSError(errno.EACCES, "not every folder of it can be read")


def _begun(find: str, root: str) -> subprocess.Popen[bytes]:
    looked = ["(", "!", "-user", "0", "-o", "-perm", "-0002", "-o", "-perm", "-0020", "-o", "-type", "l", ")", "-print0"]
    quiet = subprocess.DEVNULL
    return subprocess.Popen([find, root, *looked], stdin=quiet, stdout=subprocess.PIPE, stderr=quiet, cwd="/", env={"LC_ALL": "C"})


def _ended(child: subprocess.Popen[bytes]) -> tuple[int | None, bytes]:
    """Its exit code, None where it took too long, and what it listed."""
    try:
        out, _ = child.communicate(timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        return None, b""
    return child.returncode, out


def _walked(root: str) -> Iterator[str]:
    todo = [root]
    while todo:
        with os.scandir(todo.pop()) as entries:
            for entry in entries:
                yield entry.path
                if entry.is_dir(follow_symlinks=False):
                    todo.append(entry.path)


def _is_roots_in(path: str) -> bool:
    """One file or folder of a tree whose way is root's. What a link leads to is asked about with its whole way."""
    info = os.lstat(path)
    if info.st_uid != 0 and not _is_unmapped(info.st_uid):
        return False
    if stat.S_ISLNK(info.st_mode):
        return _is_roots(path)  # also where it leads back: somebody else's link on the way may lead elsewhere a moment later
    return not (info.st_mode & stat.S_IWOTH or (info.st_mode & stat.S_IWGRP and _others_of_group(path)))


def strange_link(path: str) -> str | None:
    """The first link on the way to a file that belongs to neither root nor this user: whoever made it chose what is written there."""
    if ON_WINDOWS:
        return None
    try:
        places = (place for place in _way(os.path.abspath(path)) if stat.S_ISLNK(os.lstat(place).st_mode))
        return next((place for place in places if os.lstat(place).st_uid not in (0, os.geteuid())), None)
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
    return os.path.basename(os.path.dirname(os.path.normpath(path))) == _SHIMS


def folders(path: str) -> list[str]:
    """The folders of a PATH that may be searched: no empty or relative entry, not the working directory, as root none of others'."""
    entries = dict.fromkeys(entry.strip('"') if ON_WINDOWS else entry for entry in path.split(os.pathsep))
    return [entry for entry in entries if os.path.isabs(entry) and refusal(os.path.join(entry, os.curdir)) is None]


def environment() -> dict[str, str]:
    """What a child gets; each call gives a dictionary of its own."""
    return dict(_environment(frozenset(os.environ.items())))


def for_repair() -> dict[str, str]:
    """The same for a program that is run to repair something: as root no pager, editor or front end that a variable names."""
    kept = (name for name in environment() if not as_root() or _COMMON.fullmatch(name) or _EXAMINED.fullmatch(name))
    return {name: environment()[name] for name in kept}


def some_of_it(names: Iterable[str]) -> dict[str, str]:
    """The same of these variables alone, for a child that needs no others: as root each place that is looked through costs time."""
    given = {name: _handed_on(name, os.environ[name]) for name in names if name in os.environ}
    return {name: value for name, value in given.items() if value}


@lru_cache(maxsize=2)
def _environment(variables: frozenset[tuple[str, str]]) -> dict[str, str]:
    """This process's variables for a child, without places in the working directory and, as root, those that other users may write.

    Children stand in / (sources/spawning.py); FOLDER tells them where the user stands. WITHHELD names the variables that lost a place
    which holds something: what a worker does not find may lie there.
    """
    kept, withheld = dict(variables), []
    if as_root():
        look_ahead(variables)
    for name, value in sorted(variables):
        given = _handed_on(name, value)
        if given == value:
            continue
        kept[name] = given
        if not given:
            del kept[name]
        entries = _entries(name, value)
        if _EXAMINED.fullmatch(name) and any(_holds_something(entry) for entry in entries if entry not in _entries(name, given)):
            withheld.append(name)
    if withheld:
        kept[WITHHELD] = " ".join(withheld)
    return {**kept, FOLDER: _folder()}


def _handed_on(name: str, value: str) -> str:
    """What a child gets of a variable."""
    if as_root() and _CODE.fullmatch(name):
        return ""
    if name == "PATH":  # tools that are scripts call others by their names
        return os.pathsep.join(folder for folder in folders(value) if not as_root() or _seen_once(folder) is None)
    entries = _entries(name, value)
    good = [entry for entry in entries if _may_be_handed_on(name, entry)]
    if good == entries:
        return value
    return os.pathsep.join(good) if name in _LISTS else ""


def left_out() -> tuple[str, ...]:
    """One sentence for each variable of which `environment` hands on less: what a program of the user's may find there was not seen."""
    given = environment()
    less = [name for name in os.environ if os.environ[name] and given.get(name, "") != os.environ[name]]
    led = tuple(
        f"{name} has an entry that is empty, relative or open to other users; this check left it out, other programs do not"
        for name in less
        if _EXAMINED.fullmatch(name)
    )
    loaded = (name for name in less if name not in given and _LOADED.fullmatch(name) and _CODE.fullmatch(name))
    return (*led, *(f"{name} leads programs to code; as root this check left it out, other programs do not" for name in loaded))


def _folder() -> str:
    try:
        return os.getcwd()
    except OSError:
        return os.sep  # it was deleted


def _entries(name: str, value: str) -> list[str]:
    """The places that a variable names: its entries where it is a list of places, else every word that may be a path."""
    if not value:
        return []
    if name in _LISTS:
        loader = name.startswith("LD_") and not ON_WINDOWS
        return re.split(r"[:; ]" if name == "LD_PRELOAD" else "[:;]", value) if loader else value.split(os.pathsep)
    if name in _SEVERAL:
        return value.split(os.pathsep)
    words = [word for word in re.split(r"[:;,=\s\"']+", value) if _is_place(word)]
    return words if words in ([], [value]) else [value, *words]  # a folder may have a blank in its name


def _is_place(word: str) -> bool:
    """Whether a word may be a path. Children stand in /, so a bare `tmp` is one as well; as root that matters."""
    if "/" in word or "~" in word or not as_root():
        return "/" in word or "~" in word
    return any(name not in ("", os.curdir, os.pardir) and os.path.lexists(os.sep + name) for name in _bare(word))


def _bare(word: str) -> tuple[str, ...]:
    """A word, and what an option's letter may stand before: -Ctmp."""
    return (word, word[2:]) if word.startswith("-") else (word,)


def _may_be_handed_on(name: str, entry: str) -> bool:
    """A bare name of LD_PRELOAD is looked up as any library is; $ORIGIN is the folder of the program. No single place leads a child into
    the user's working directory, for it stands elsewhere; so it gets what is written there, and says what becomes of it.
    """
    if name == "LD_PRELOAD" and entry and os.sep not in entry:
        return True
    if not as_root():
        return os.path.isabs(entry) or name not in _LISTS or entry.startswith(("$ORIGIN/", "${ORIGIN}/"))
    if "$" in entry or "~" in entry or (name in _LISTS and not os.path.isabs(entry)):
        return False  # what a loader or a program makes of it is not known here
    place = os.path.join(os.sep, entry)  # children stand in /: there a relative path is an absolute one
    if name in _PLAIN:
        return changeable(place) is None
    if name in _TOOLKITS:
        return _toolkit(place) is None
    if os.sep not in entry and _EXAMINED.fullmatch(name) is None:
        return all(changeable(os.sep + name) is None for name in _bare(entry))  # USER=root, where /root happens to be a folder
    within = (entry[at:] for at in range(1, len(entry)) if entry[at] == "/" and entry[at - 1] not in _IN_PATH)  # -I /home/ada
    return _EXAMINED.fullmatch(name) is not None and all(_seen_once(one) is None for one in (place, *within))


def _holds_something(entry: str) -> bool:
    """Whether a library, or a toolkit's folder of them, is there; so it is where nobody may look."""
    try:
        return any(name.startswith("lib") or name in ("nvvm", "targets") for name in os.listdir(entry or os.curdir))
    except NotADirectoryError:
        return True
    except FileNotFoundError:
        return False
    except OSError:
        return True


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


# ---------------------------------------------------------------- what nobody but root may change
def _is_roots(path: str) -> bool:
    """Whether every folder and link on the way to a file, and the file, are root's alone. In a folder where everybody may make files
    (/tmp) only what is there and root's counts, not the folder, nor what another user may still make. Nobody finds anything in /dev/null.
    """
    last = os.sep
    try:
        for last in _way(path):
            if last != os.devnull and not _of_root_alone(last):
                return False
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError:
        return False  # what may not be looked at is not known to be root's
    return last == os.devnull or not (_is_everybodys(last) or f"{last}/".startswith(_OF_PROCESSES))


def _is_everybodys(place: str) -> bool:
    mode = os.lstat(place).st_mode
    return stat.S_ISDIR(mode) and (bool(mode & stat.S_IWOTH) or _others_of_group(place))


def _way(path: str) -> Iterator[str]:
    """All that is looked up between / and the file, in the order of the looking up. Links are followed by hand, so each is among them."""
    parts, here, links = path.split(os.sep)[::-1], "/", 0
    yield here
    while parts:
        part = parts.pop()
        if part in ("", os.curdir):
            continue
        if part == os.pardir:
            here = os.path.dirname(here)
            continue
        place = os.path.join(here, part)
        link = stat.S_ISLNK(os.lstat(place).st_mode)
        yield place
        if not link:
            here = place
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError("too many links")
        target = os.readlink(place)
        here = "/" if os.path.isabs(target) else here
        parts.extend(target.split(os.sep)[::-1])


def _of_root_alone(place: str) -> bool:
    info = os.lstat(place)
    if info.st_uid != 0 and not _is_unmapped(info.st_uid):
        return False
    if stat.S_ISLNK(info.st_mode):
        return not place.startswith(_OF_PROCESSES)  # the mode of a link means nothing
    if stat.S_ISDIR(info.st_mode) and info.st_mode & stat.S_ISVTX:
        return True  # what is in it is removed and renamed by its owner alone, and each of these is asked about too
    if info.st_mode & stat.S_IWOTH:
        return False
    return not _others_of_group(place)


def _others_of_group(place: str) -> bool:
    """Whether the group may write there and somebody is in it. With an access list its bits are those of everybody whom it names."""
    info = os.lstat(place)
    return bool(info.st_mode & stat.S_IWGRP) and not (_is_nobodys(info.st_gid) and not _has_list(place))


def _has_list(place: str) -> bool:
    try:
        return "system.posix_acl_access" in os.listxattr(place)
    except AttributeError:
        return False  # no such lists on this system
    except OSError as error:
        return error.errno != errno.ENOTSUP  # on this file system; where it may not be read there may be one


@lru_cache(maxsize=None)
def _is_nobodys(group: int) -> bool:
    """Whether a group has no member (`staff`, whose /usr/local is on an older Debian), or is root's and nobody's who logs in."""
    try:
        import grp
        import pwd

        others = [user for user in pwd.getpwall() if user.pw_gid == group and user.pw_uid != 0]
        members = set(grp.getgrgid(group).gr_mem) - {"root"}
    except (ImportError, KeyError):
        return group == 0
    return not members and (not others if group else all(user.pw_uid < _FIRST_PERSON for user in others))


@lru_cache(maxsize=None)
def _is_unmapped(user: int) -> bool:
    """Whether this is the owner of what belongs to nobody inside a user namespace: the host's own root, for whoever is root in here."""
    try:
        with open("/proc/self/uid_map", encoding="ascii") as stream:
            mapped = [tuple(map(int, line.split())) for line in stream]
        with open("/proc/sys/kernel/overflowuid", encoding="ascii") as stream:
            overflow = int(stream.read())
    except (OSError, ValueError):
        return False
    return user == overflow and not any(first <= overflow < first + count for first, _, count in mapped)
