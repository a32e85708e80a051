"""What children inherit: of this process's variables as much as leads to no place of the working directory and, as root, to none that
other users may write (trust.py); of a home, whether programs may read their settings there.

Children stand in / (spawning.py), so a relative path counts from there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import lru_cache

from cudadoctor.sources import trust
from cudadoctor.sources.spawning import ON_WINDOWS

# Lists of folders or files in which an empty or relative entry means the working directory; LD_PRELOAD is parted by blanks too.
_LISTS = ("PYTHONPATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT")
# Variables by which what is examined here finds more to load. As root a child gets of these what is root's to the last file; of all others
# with a path in them, which rpm, perl or a shell may follow to code, only _PLAIN, for no tool that is asked here needs them.
_EXAMINED = re.compile(
    r"CUDA.*|NVIDIA_.*|NUMBA.*|CUPY_.*|NCCL_.*|XLA_.*|JAX_.*|TF_.*|TORCH.*|PYTORCH.*|TRITON_.*|SLURM_CONF|VIRTUAL_ENV|CONDA_PREFIX"
    r"|PYTHON(?:PATH|HOME|USERBASE|PYCACHEPREFIX)|LD_(?:LIBRARY_PATH|PRELOAD|AUDIT)|HOME|XDG_CONFIG_HOME",
)
# Whose folders are root's; what is in them may not be: the daemon makes its pipes, and their folder, for all who may compute.
_PIPES = ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY")
_NO_PLACES = re.compile(r"NVIDIA_REQUIRE_.*|NVIDIA_DRIVER_CAPABILITIES|(?:CUDA|NVIDIA)_VISIBLE_DEVICES")  # words of which none is a path
_PLAIN = ("PATH", "HOME", "PWD", "OLDPWD", "SHELL", "TMPDIR", "TMP", "TEMP", "XDG_CONFIG_HOME", *_PIPES)
_ADDRESS = re.compile(r"(?:https?|socks[45]?[ah]?)://[^\s,;\"'\\]{1,2000}")
_WORD = re.compile(r"[\w.+-]{0,100}")
_WARNINGS, _NO_MODULE = "PYTHONWARNINGS", re.compile(r"[\w:, ]*")  # a kind of warning with a dot is imported (CPython: Lib/warnings.py)
_PLAIN_PATH = re.compile(r"/[^\s,;:%$~\"'\\]{0,4000}")
_IN_PATH = "/.-_"  # before a slash, signs that begin no new path; letters and digits may
_TOOLKITS = ("CUDA_HOME", "CUDA_PATH")
_SEVERAL = (*_TOOLKITS, "PYTHONHOME")  # which may name two folders
_BYTE_CODE = "PYTHONPYCACHEPREFIX"
_INJECTION = "_INJECTION"  # in the names of variables by which the driver loads one more library
FOLDER = "CUDADOCTOR_FOLDER"  # tells a child's worker the user's working directory
_deleted: list[str] = []  # the way to it, where it was deleted
left: list[str] = []  # why the working directory was left: what a relative path meant then is no place now
WITHHELD = "CUDADOCTOR_WITHHELD"  # tells a child's worker from which variables something was left out
REPLACED = "CUDADOCTOR_REPLACED"  # and by which of them other programs load something that takes the place of what the child loads
BESIDE = "CUDADOCTOR_BESIDE"  # and which libraries of these names lie in an empty or relative entry of LD_LIBRARY_PATH
# What the driver, Numba and its packages have the loader look for by name.
_BY_NAME = re.compile(
    r"lib(?:cuda|nvidia-[\w-]{1,40}|nvvm|nvrtc(?:-builtins)?|nvJitLink|cudart|stdc\+\+|gcc_s|gomp|c|m|z|dl|rt|pthread)\.so(?:\.[\d.]+)?"
)
# What a shell, an interpreter or a library executes, or loads, whatever the value looks like: as root no child gets it.
_CODE = re.compile(
    r"\A(?:BASH_ENV|ENV|BASH_FUNC_.*|SHELLOPTS|BASHOPTS|PS4|IFS|PROMPT_COMMAND|PERL.*|RUBY.*|NODE_OPTIONS|JAVA_TOOL_OPTIONS|OPENSSL_.*"
    r"|GCONV_PATH|GETCONF_DIR|GLIBC_TUNABLES|(?!CUDA_).*_INJECTION.*|(?!CUDA|NVCC|XLA|TF_|NUMBA|NCCL|JAX|TORCH).*_OPT(?:ION)?S"
    r"|LD_(?!LIBRARY_PATH$|PRELOAD$|AUDIT$).*"
    r"|PYTHON(?!PATH$|HOME$|USERBASE$|PYCACHEPREFIX$|NOUSERSITE$|HASHSEED$|UNBUFFERED$|DONTWRITEBYTECODE$|UTF8$|IOENCODING$|SAFEPATH$|OPTIMIZE$).*)",
)
_LOADED = re.compile(r"PYTHON.*|LD_.*|GLIBC_TUNABLES|OPENSSL_.*|GCONV_PATH|\A.*_INJECTION.*")  # of these, what a program for CUDA meets
# What else a program gets that is run to repair something: as sudo does, no other name.
_COMMON = re.compile(
    r"PATH|HOME|PWD|SHELL|USER|LOGNAME|TERM|COLORTERM|NO_COLOR|FORCE_COLOR|COLUMNS|LINES|LANG|LANGUAGE|LC_\w+|TZ|TMPDIR|TMP|TEMP|PYTHON.*|CUDADOCTOR_.*"
)
_PARTS = ("nvvm", "lib64", "lib", "bin", "targets")  # of a prefix that holds more than one program, from which libraries are loaded
IN_HOME = "$HOME/"
_NOWHERE, _CONFIG = "/nonexistent", ".config/"  # as Debian names the home of a user that has none


def environment() -> dict[str, str]:
    """What a child gets; each call gives a dictionary of its own."""
    return dict(_environment(frozenset(os.environ.items())))


def stand_somewhere() -> tuple[str, ...]:
    """Where the working directory was deleted, go on in /: tools that ask where they are would fail for that alone. Numba's kernels are
    tried where the user stands all the same, for it fails there.
    """
    try:
        os.getcwd()
        return ()
    except OSError as error:
        why = "was deleted or unmounted" if isinstance(error, FileNotFoundError) else f"cannot be told ({error.strerror})"
    keep_deleted()
    os.chdir(os.sep)
    left.append(why)
    return (f"the working directory {why}; but for Numba's kernels this check ran in /, and other programs may fail for that alone",)


def keep_deleted() -> None:
    """Before a deleted working directory is left: children may go there by the way that stays open. It is empty, and nobody can put
    anything there; one that was only unmounted has no name either, and may hold files.
    """
    try:
        folder = os.open(os.curdir, os.O_RDONLY)
        if os.fstat(folder).st_nlink == 0 and not os.listdir(folder):  # without a name nobody can make a file there
            _deleted.append(f"/proc/{os.getpid()}/fd/{folder}")
            _environment.cache_clear()
    except OSError:
        pass  # then what is tried there is tried in /


def for_repair() -> dict[str, str]:
    """The same for a program that is run to repair something: as root no pager, editor or front end that a variable names."""
    narrow = trust.as_root()
    return {name: value for name, value in environment().items() if not narrow or _COMMON.fullmatch(name) or _EXAMINED.fullmatch(name)}


def some_of_it(names: Iterable[str]) -> dict[str, str]:
    """The same of these variables alone, for a child that needs no others: as root each place that is looked through costs time."""
    given = {name: _handed_on(name, os.environ[name]) for name in names if name in os.environ}
    return {name: value for name, value in given.items() if value}


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


@lru_cache(maxsize=None)
def look_ahead(variables: frozenset[tuple[str, str]]) -> None:
    """Begin to list the places of all variables: a toolkit's takes a second."""
    named = [trust.folders(value) for name, value in variables if name == "PATH"]
    named += [
        _entries(name, value) for name, value in variables if _EXAMINED.fullmatch(name) and name not in (*_PLAIN, *_PIPES, *_TOOLKITS)
    ]
    named += [parts(entry) for name, value in variables if name in _TOOLKITS for entry in _entries(name, value)]
    trust.begin(entry for entries in named for entry in entries if os.path.isabs(entry))


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


def in_home(word: str) -> str:
    """A word of a command that begins with the home, as a recipe writes it, and as a child gets it."""
    return os.path.join(home(), word[len(IN_HOME) :]) if word.startswith(IN_HOME) else word


def settings_off(*places: str) -> dict[str, str]:
    """For root: variables that lead a program to no settings below its home, where others may write any of these places (`.kube`,
    `.config/pip`) or a file of the home's own whose name begins with a dot."""
    looked = [os.path.join(home(), place) for place in (*_dotted(home()), *places)]
    above = some_of_it(("XDG_CONFIG_HOME",)).get("XDG_CONFIG_HOME")
    looked += [os.path.join(above, place[len(_CONFIG) :]) for place in places if above and place.startswith(_CONFIG)]
    foreign = trust.as_root() and any(trust.tree(place) is not None for place in looked)
    return {"HOME": _NOWHERE, "XDG_CONFIG_HOME": _NOWHERE} if foreign else {}


def leads_to_own(value: str, *, addresses: bool = True) -> bool:
    """Whether a variable's value has a form that is understood whole, and as root leads nowhere that others may write, however deep.

    Understood are plain words between commas, none of which is a folder of /; absolute paths, in a list or by words; and `addresses`
    (https://...) among words.
    """
    words = value.split()
    if words and all(map(_WORD.fullmatch, value.split(","))):
        return not trust.as_root() or not any(word and os.path.lexists(os.sep + word) for word in value.split(","))
    return all((addresses and _ADDRESS.fullmatch(word) is not None) or all(map(_is_own, word.split(os.pathsep))) for word in words)


@lru_cache(maxsize=2)
def _environment(variables: frozenset[tuple[str, str]]) -> dict[str, str]:
    """This process's variables for a child, without places in the working directory and, as root, those that other users may write.

    Children stand in / (sources/spawning.py); FOLDER tells them where the user stands. WITHHELD names the variables that lost a place
    which holds something: what a worker does not find may lie there. REPLACED names those by which it finds another library than
    other programs do, and BESIDE those that lie where the user stands.
    """
    kept, withheld, replaced, beside = dict(variables), [], [], set()
    if trust.as_root():
        look_ahead(variables)
    for name, value in sorted(variables):
        given = _handed_on(name, value)
        if given == value:
            continue
        kept[name] = given
        if not given:
            del kept[name]
        lost = [entry for entry in _entries(name, value) if entry not in _entries(name, given)]
        if _EXAMINED.fullmatch(name) and any(map(_holds_something, lost)):
            withheld.append(name)
        found = {file for entry in lost if name == "LD_LIBRARY_PATH" and not os.path.isabs(entry) for file in _looked_for(entry)}
        beside.update(found)
        if found or any(_replaces(name, entry) for entry in lost):
            replaced.append(name)
    markers = ((WITHHELD, withheld), (REPLACED, replaced), (BESIDE, sorted(beside)))
    kept.update({marker: " ".join(names) for marker, names in markers if names})
    return {**kept, FOLDER: next(iter(_deleted), None) or trust.working_directory() or os.sep}


def _handed_on(name: str, value: str) -> str:
    """What a child gets of a variable."""
    if trust.as_root() and _CODE.fullmatch(name) and not (name == _WARNINGS and _NO_MODULE.fullmatch(value)):
        return ""
    if name == "PATH":  # tools that are scripts call others by their names
        return os.pathsep.join(folder for folder in trust.folders(value) if not trust.as_root() or _seen_once(folder) is None)
    entries = _entries(name, value)
    good = [entry for entry in entries if _may_be_handed_on(name, entry)]
    if good == entries:
        return value
    return os.pathsep.join(good) if name in _LISTS else ""


def _may_be_handed_on(name: str, entry: str) -> bool:
    """A bare name of LD_PRELOAD is looked up as any library is; $ORIGIN is the folder of the program. No single place leads a child into
    the user's working directory, for it stands elsewhere; so it gets what is written there, and says what becomes of it.
    """
    if name == "LD_PRELOAD" and entry and os.sep not in entry:
        return True
    if not trust.as_root():
        return os.path.isabs(entry) or name not in _LISTS or entry.startswith(("$ORIGIN/", "${ORIGIN}/"))
    place, home = os.path.join(os.sep, entry), os.path.expanduser(entry)  # children stand in /: there a relative path is an absolute one
    if "$" in entry or "~" in home or ((name in _LISTS or _INJECTION in name) and not os.path.isabs(entry)):
        return False  # what a loader or a program makes of it is not known here
    if name in _PIPES:
        return trust.made_by_root(place)
    if name in _PLAIN:
        return trust.changeable(place) is None
    if name in _TOOLKITS:  # some programs take ~ for a home, others for a name
        return toolkit(place) is None and (home == entry or toolkit(home) is None)
    if home != entry:
        return False
    if os.sep not in entry and _EXAMINED.fullmatch(name) is None:
        return all(trust.changeable(os.sep + name) is None for name in _bare(entry))  # USER=root, where /root happens to be a folder
    if trust.loads_of_others(place) is not None:
        return False
    return _EXAMINED.fullmatch(name) is not None and all(_seen_once(one) is None for one in (place, *_within(entry)))


def _within(entry: str) -> list[str]:
    """The paths that may begin inside a word, behind an option's letters: -I/home/ada. Of an absolute path the folders' own names begin
    none, or /opt/x/lib would have all of /lib looked through."""
    starts = (at for at in range(1, len(entry)) if entry[at] == os.sep and entry[at - 1] not in _IN_PATH)
    return [entry[at:] for at in starts if not (os.path.isabs(entry) and entry[at - 1].isalnum())]


def _entries(name: str, value: str) -> list[str]:
    """The places that a variable names: its entries where it is a list of places, else every word that may be a path."""
    if not value or _NO_PLACES.fullmatch(name):
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
    if "/" in word or "~" in word or not trust.as_root():
        return "/" in word or "~" in word
    return any(name not in ("", os.curdir, os.pardir) and os.path.lexists(os.sep + name) for name in _bare(word))


def _bare(word: str) -> tuple[str, ...]:
    """A word, and what an option's letter may stand before: -Ctmp."""
    return (word, word[2:]) if word.startswith("-") else (word,)


def toolkit(folder: str) -> str | None:
    """Why root loads nothing of a toolkit. Looked at is what programs load: its profilers and samples are ten times as much."""
    return trust.changeable(folder) or next(filter(None, (_seen_once(part) for part in parts(folder))), None)


def parts(folder: str) -> list[str]:
    return [os.path.join(folder, part) for part in _PARTS]


@lru_cache(maxsize=None)
def _seen_once(folder: str) -> str | None:
    """The same for the places of variables, which every child asks about: a check lasts seconds. /bin and /usr/bin may be one folder."""
    if os.path.normpath(folder) in trust.PREFIXES:
        return next(filter(None, (trust.tree(part) for part in parts(folder))), None)
    real = os.path.realpath(folder)
    return trust.tree(folder) if real == folder else trust.changeable(folder) or _seen_once(real)


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


def _replaces(name: str, entry: str) -> bool:
    """Whether programs that get this find another libcuda there, a library that the driver loads whenever it starts, or byte code of their
    modules."""
    if _INJECTION in name or name == _BYTE_CODE:
        return os.path.exists(entry)
    try:
        return name == "LD_LIBRARY_PATH" and any(file.startswith("libcuda.so") for file in os.listdir(entry or os.curdir))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True  # nobody may look


def _looked_for(entry: str) -> list[str]:
    """The libraries in a folder that programs find there by their names. Nothing is loaded."""
    try:
        return [file for file in os.listdir(entry or os.curdir) if _BY_NAME.fullmatch(file)]
    except OSError:
        return []


def _dotted(folder: str) -> list[str]:
    """The files of a home in which programs keep settings."""
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if entry.name.startswith(".") and not entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _is_own(place: str) -> bool:
    return _PLAIN_PATH.fullmatch(place) is not None and trust.changeable(place) is None and trust.tree(place) is None
