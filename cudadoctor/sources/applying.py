"""Carries out the commands of one step: each line as a program with its arguments, where it is one, else by sh.

Programs are found as everywhere (programs.py, trust.py), the working directory is /, and the terminal is the user's: sudo asks there.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shlex
import stat
import subprocess
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import dropwhile, groupby

from cudadoctor.sources import children, inherited, programs, trust

_SHELL = "/bin/sh"
_SIMULATION = 120.0  # seconds
_MANAGERS = r"apt-get|apt|dnf5?|yum|zypper|pacman|ubuntu-drivers|rpm|dpkg"
_OF_MANAGER = re.compile(rf"(?:sudo )?(?P<program>{_MANAGERS})(?P<rest>\s.*)")
_ASKED_OF_ONE = re.compile(rf"(?<![\w./+-])(?:{_MANAGERS})\s[^|&;<>()'\"]{{0,400}}")  # in a line that a shell reads
# What takes or gives no package; all else is simulated, where the manager can.
_LOOKS = re.compile(
    r"(?:apt(?:-get)?(?: -\S{1,80}){0,6} (?:update|list|check|clean|search|info)"
    r"|(?:dnf5?|yum)(?: -\S{1,80}){0,6} (?:list|check|repolist|makecache|config-manager|modulesync|module (?:list|reset|enable)|versionlock"
    r"|search|info|clean)"
    r"|zypper(?: -\S{1,80}){0,6} (?:repos|lr|refresh|ref|addrepo|ar|addlock|removelock|locks|search|info|clean)"
    r"|rpm -q\w*|pacman -Q\w*|dpkg (?:-l|--configure)|ubuntu-drivers (?:devices|list))\b"
)
_APT_REMOVES = re.compile(r"^Remv (\S+)", re.MULTILINE)
_APT_DOWNGRADES = re.compile(r"^The following packages will be DOWNGRADED:\n((?: .*\n)+)", re.MULTILINE)
_ZYPPER_BLOCK = re.compile(
    r"^The following (?:\d+ )?(?:NEW )?packages? (?:is|are) going to be (?:REMOVED|downgraded):\n((?: .*\n)+)", re.MULTILINE
)
_DNF_BLOCK = re.compile(r"^(?:Removing(?: [a-z ]{3,40})?|Downgrading):\n((?: .*\n)+)", re.MULTILINE)
_DNF_OBSOLETES = re.compile(r"^ +replacing +(\S+)", re.MULTILINE)
_INSTALLERS = re.compile(
    r"(?i)(?:https?|ftp|all|no)_proxy|(?:conda|mamba)_\w+|ssl_cert_(?:file|dir)|requests_ca_bundle|curl_ca_bundle|debian_frontend"
    r"|(?:pip|uv)_(?!(?:target|prefix|root|user|python|project_environment|system_python)$)\w+"  # none that leads to another environment
)
_SETTINGS = (".config/pip", ".pip", ".config/uv", ".config/conda", ".conda", ".mamba")  # where installers look below a home
_AT_HOME = re.compile(r"\$HOME\b")
_UNKNOWN = re.compile(r"[$`*?\[\\]")
_OF_SHELL = re.compile(r"(?:if|for|while|case|!|command|ulimit|umask|type|export|unset)\s|[A-Za-z_]\w{0,100}=")  # which no program is
_BEFORE_COMMANDS = frozenset(("sudo", "then", "do", "else", "if", "while", "!", "{"))
_SETS = re.compile(r"[A-Za-z_]\w{0,100}=").match
_GONE, _FOLDER, _UNREAD = "nothing", "a folder", "not known: "  # what stands at a path
_NODES = re.compile(r"/dev/nvidia(?:\d+|ctl|-uvm|-modeset)$")
_FILES = (  # values that name a file to change
    "set_file", "path", "new_path", "software", "numba_config", "byte_code", "startup_file", "stub_file", "pin_file", "excluding_file",
    "second_spec", "build_folder", "place", "keeping_files",
)  # fmt: skip


class RefusedError(Exception):
    """A program that a step needs may not be run, or is not there; the message says why. `begun`: the lines before it were run."""

    def __init__(self, why: str, *, begun: bool = False) -> None:
        super().__init__(why)
        self.begun = begun


def refused_file(values: Mapping[str, Iterable[str]]) -> str | None:
    """Why a file that a step changes is left alone: another user made a link on the way to it or, for root, could put one there."""
    for path in (path for name in _FILES for path in values.get(name, ())):
        why = trust.led_elsewhere(path)
        if why is not None:
            return f"{path} {why}; it is not changed"
    return None


def kept_already(undo: str, shell: str = "") -> str | None:
    """Why a step waits: what its undo moves back or removes, or what it keeps a copy in, is there already, and would be lost."""
    pairs = list(_put_back(undo))
    restored = {path for back, path in pairs if back}
    for back, path in pairs:
        if _UNKNOWN.search(back or path):
            return f"what its undo would do to {back or path} is not known beforehand"
        if os.path.lexists(back or path) and (back or path not in restored):
            return f"{back or path} is there already; move it away first, for this step's undo rests on that name"
    there = next((copy for copy in _copies(shell) if not _UNKNOWN.search(copy) and os.path.lexists(copy)), None)
    return f"{there} is there already, and this step would write another copy over it; move it away first" if there else None


def _copies(shell: str) -> Iterator[str]:
    """The files in which a step keeps what it changes: by `sed -i.before`, `cp` and `mv`."""
    for words, paths in _with_paths(shell):
        suffix = next((word[2:] for word in words[1:] if re.fullmatch(r"-i\.[\w.-]+", word)), "")
        if words[0] == "sed" and suffix and paths:
            yield paths[-1] + suffix
        elif words[0] in ("cp", "mv") and len(paths) == 2:
            yield paths[1]


def files_of(undo: str) -> dict[str, str]:
    """What stands at each place that an undo replaces, removes, edits or takes a copy from: a checksum of a file with its rights, also of
    one that a link leads to."""
    places = (*(path for pair in _put_back(undo) for path in pair), *_edited(undo))
    return {path: _stands_at(path) for path in places if path and not _UNKNOWN.search(path)}


def _stands_at(path: str) -> str:
    try:
        target = f"a link: {os.readlink(path)} " if os.path.islink(path) else ""
        info = os.stat(path)
        return target + (f"{info.st_mode:o} {_content(path, info)}" if stat.S_ISREG(info.st_mode) else _FOLDER)
    except FileNotFoundError:
        return _GONE
    except OSError as error:
        return f"{_UNREAD}{error.strerror}"


def _content(path: str, info: os.stat_result) -> str:
    """A checksum; of a file that root alone may read its size and the time of its content, which `cp -p` and `mv` keep."""
    digest = hashlib.blake2b(digest_size=16)
    try:
        with open(path, "rb") as stream:
            for chunk in iter(lambda: stream.read(1 << 20), b""):
                digest.update(chunk)
    except PermissionError:
        return f"{info.st_size}-{info.st_mtime_ns}"
    return digest.hexdigest()


def changed_since(undo: str, before: Mapping[str, str] | None, after: Mapping[str, str] | None) -> str | None:
    """Why an undo waits: what it would replace, remove, edit or put back is not what the step left."""
    now = files_of(undo)
    by_hand = "put it right by hand"
    unread = next((path for path, stands in now.items() if stands.startswith(_UNREAD)), None)
    if unread is not None:
        return f"what stands at {unread} is {now[unread]}; {by_hand}"
    if now and after is None and now != before:
        return f"it is not known what this step, which did not come to its end, and others did to {next(iter(now))}; {by_hand}"
    edited = next((path for path in _edited(undo) if now.get(path) != (after or {}).get(path)), None)
    if edited is not None:
        return f"{edited} was changed after this step, so its line may be another by now; {by_hand}"
    for back, path in _put_back(undo):
        if after is not None and now.get(path) != after.get(path):
            return f"{path} was changed after this step, and the undo would throw that away; {by_hand}"
        if back and (after is None or now.get(back) != after.get(back) or _differs(now.get(back), (before or {}).get(path, _GONE))):
            return f"{back} is not {path} as it was before this step, so it is not put back; {by_hand}"
    return None


def _differs(kept: str | None, original: str) -> bool:
    """Whether a kept copy is no whole one, or not there though there was something to copy. Of folders nobody knows."""
    if _GONE in (kept, original):
        return kept == _GONE != original
    return kept is None or (not original.endswith(_FOLDER) and kept.rpartition(" ")[2] != original.rpartition(" ")[2])


def not_put_back(undo: str) -> str | None:
    """A kept copy that an undo left where it was: some programs end well where they have done nothing."""
    return next((back for back, _ in _put_back(undo) if back and os.path.lexists(back)), None)


def _put_back(undo: str) -> Iterator[tuple[str, str]]:
    """Of each `mv`, `cp` and `rm` of an undo the kept copy, "" where there is none, and the file."""
    for words, paths in _with_paths(undo):
        if words[0] in ("mv", "cp") and len(paths) == 2:
            yield paths[0], paths[1]
        elif words[0] == "rm":
            yield from (("", path) for path in paths)


def _edited(undo: str) -> Iterator[str]:
    """The files in which an undo changes lines."""
    return (paths[-1] for words, paths in _with_paths(undo) if words[0] == "sed" and paths and any(word.startswith("-i") for word in words))


def _with_paths(script: str) -> Iterator[tuple[list[str], list[str]]]:
    """The simple commands of a script, each with its operands as paths."""
    for line in script.split("\n"):
        for words in _commands(line):
            yield words, [inherited.in_home(word) for word in words[1:] if not word.startswith("-")]


def _commands(line: str) -> Iterator[list[str]]:
    """The simple commands of a line, without sudo; those in the words of a shell that it starts, too."""
    signs = shlex.shlex(line, posix=True, punctuation_chars=True)
    signs.whitespace_split, signs.commenters = True, ""
    try:
        words = list(signs)
    except ValueError:
        words = line.split()
    for is_sign, group in groupby(words, key=lambda word: bool(word) and not word.strip("();<>|&")):
        command = list(dropwhile(_BEFORE_COMMANDS.__contains__, group)) if not is_sign else []
        if command[:1] == ["sh"] and len(command) > 2:
            yield from _commands(command[-1])
        elif command:
            yield command


def argv_of(line: str, *, missing: bool = False) -> list[str]:
    """The program and its arguments; sh where the line needs a shell. RefusedError where it may not be run, or is not there: unless
    `missing`."""
    words = _words(line)
    if words is None:
        return [_allowed(_SHELL), "-euc", line]
    places = (0, 1) if words[0] == "sudo" and len(words) > 1 else (0,)
    return [_allowed(word, missing=missing) if place in places else word for place, word in enumerate(words)]


def _words(line: str) -> list[str] | None:
    """The words of a plain command; None where a shell has to read it."""
    bare = re.sub(r"'[^']*'", "", line)
    if re.search(r"[|&;<>()`$\"\\*?\[\]{}~#]", bare) or _OF_SHELL.match(bare):
        return None
    return shlex.split(line) or None


def _allowed(program: str, *, missing: bool = False) -> str:
    path = program if os.path.isabs(program) else programs.found(program)
    if path is None:
        if missing and programs.refused(program) is None:
            return program
        raise RefusedError(programs.refused(program) or f"{program} is not installed")
    why = trust.refusal(path)
    if why is not None:
        raise RefusedError(f"{path} {why}; it was not run")
    return path


def _lines(script: str) -> list[str]:
    """What is run one after the other; all at once where a line sets a variable for those behind it."""
    lines = script.split("\n")
    return [script] if any(_SETS(line) and "&&" not in line for line in lines) else lines


def run(script: str, removed: Collection[str] | None = None, *, installs: bool = True, lock: int | None = None) -> int:
    """Every line until one fails. `removed`: what the person was told that the package manager removes; where the lines before it (new
    lists, another repository) make it more, a line is not run. None: whatever it removes was asked for. `installs`: a line may bring the
    program of one behind it. `lock`: the journal's, which the programs hold too: they may outlast a doctor that was killed. The exit code
    of the last one that ran. KeyboardInterrupt or SystemExit once its program has ended.

    RefusedError: one of the lines may not be run, or cannot be started.
    """
    lines = _lines(script)
    for number, line in enumerate(lines):
        argv_of(line, missing=installs and number > 0)
    for number, line in enumerate(lines):
        if _AT_HOME.search(line) and inherited.settings_off(*_SETTINGS):
            raise RefusedError("others may write settings in this home folder, so nothing is made there", begun=number > 0)
        try:
            argv = argv_of(line)
        except RefusedError as error:
            raise RefusedError(str(error), begun=number > 0) from None
        more = set(removed_by(line)) - set(removed) if number and removed is not None else set()
        if more:
            why = f"after the lines before it `{line}` would remove or downgrade {', '.join(sorted(more)[:8])}; it was not run"
            raise RefusedError(why, begun=True)
        try:
            code = _run(argv, lock)
        except OSError as error:
            raise RefusedError(f"{argv[0]} cannot be started: {error.strerror}", begun=number > 0) from error
        if code != 0:
            return code
    return 0


def _run(argv: list[str], lock: int | None) -> int:
    """The terminal sends Ctrl-C and its own end to the program too. It may still have to put something right, so it is waited for; the
    signal that ends the doctor alone is not handed on, for half a transaction of packages is worse than a whole one."""
    variables = {**inherited.for_repair(), **inherited.settings_off(*_SETTINGS), **_of_installers(), "PATH": programs.handed_on("sh")}
    process = subprocess.Popen(argv, cwd="/", env=variables, pass_fds=() if lock is None else (lock,))
    ended: list[BaseException] = []
    while True:
        try:
            code = process.wait()
            break
        except (KeyboardInterrupt, SystemExit) as end:  # a second one neither: its program would go on behind an undo that is advised
            ended.append(end)
    if ended:
        raise ended[0]
    return code


def _of_installers() -> dict[str, str]:
    """The index, the proxy and the certificates that the user's shell names for pip and its like. A file counts where nobody but its user
    may change it; an address needs no such question."""
    found = {name: value for name, value in os.environ.items() if _INSTALLERS.fullmatch(name)}
    return {name: value for name, value in found.items() if inherited.leads_to_own(value)}


def after(script: str) -> dict[str, str] | None:
    """The variables that a shell has once it has read these commands: what they do to it can be done for a program, never for the
    user's own shell. None where they fail.

    The shell and its programs get what every child gets, and stand in /. Of a variable that the commands name, the shell alone sees the
    user's own value; all others stay as they are.
    """
    path = programs.handed_on("sh")
    named = set(re.findall(r"(?<!\w)[A-Za-z_]\w*", script, re.ASCII)) - {"PATH"}
    own = [f"unset {name}; {name}={shlex.quote(os.environ[name])}" for name in sorted(named & os.environ.keys())]
    told = [f'[ -z "${{{name}+x}}" ] || printf "{name}=%s\\0" "${name}"' for name in (*sorted(named), "PATH")]
    argv = [_allowed(_SHELL), "-euc", "\n".join((*own, script, *told))]
    done = children.asked(argv, {**inherited.for_repair(), "PATH": path}, _SIMULATION)
    if done is None or done.returncode != 0:
        return None
    parts = (os.fsdecode(part).partition("=") for part in done.stdout.split(b"\0") if part)
    found = {name: value for name, _, value in parts}
    untouched = {name: value for name, value in os.environ.items() if name not in named}
    after = found.get("PATH", "")  # what the commands put before or behind the PATH that they were given stands around the user's own
    return {**untouched, **found, "PATH": after.replace(path, os.environ.get("PATH", ""), 1) if path else after}


def removed_by(script: str) -> tuple[str, ...]:
    """What the package managers say that they would remove or downgrade; of a line that none simulates that it decides. Nothing is done."""
    found: list[str] = []
    for line in script.split("\n"):
        asked = [one for one in _ASKED_OF_ONE.findall(line) if _LOOKS.match(one) is None]
        of_manager = _OF_MANAGER.match(line) if _words(line) is not None else None
        if asked and of_manager is not None:
            found += _of_line(line, of_manager["program"], of_manager["rest"].strip())
        elif asked:  # among other commands of a shell
            found.append(f"what `{line}` decides")
    return tuple(dict.fromkeys(found))


def _of_line(line: str, program: str, rest: str) -> list[str]:
    unknown = [f"what `{line}` decides"]
    if program == "apt-get":
        said = _simulated("apt-get", "-s", rest)
        return [*_APT_REMOVES.findall(said), *_names_in(_APT_DOWNGRADES, said)] if said is not None else unknown
    if program in ("dnf", "dnf5", "yum"):
        said = _simulated(program, "--assumeno", rest, summed_up="Transaction Summary")
        rows = (row.split() for block in _DNF_BLOCK.findall(said or "") for row in block.splitlines())
        return [*(row[0] for row in rows if row), *_DNF_OBSOLETES.findall(said)] if said is not None else unknown
    if program == "zypper":
        said = _simulated("zypper", "--non-interactive", f"{rest} --dry-run")
        return _names_in(_ZYPPER_BLOCK, said) if said is not None else unknown
    return unknown


def _names_in(block: re.Pattern[str], said: str) -> list[str]:
    return [name for found in block.findall(said) for name in found.split()]


def _simulated(program: str, option: str, rest: str, summed_up: str = "") -> str | None:
    """What a package manager prints when it only simulates; nothing where it is not here, for then its line fails too. None where it gave
    no answer, or failed. With --assumeno dnf ends with 1 as well where it does what it was asked: then what it sums up tells."""
    path, words = programs.found(program), _words(rest)
    if path is None:
        return ""
    if words is None:
        return None
    variables = {**inherited.for_repair(), "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
    done = children.asked([path, option, *words], variables, _SIMULATION)
    return _worked(done, summed_up)


def _worked(done: subprocess.CompletedProcess[bytes] | None, summed_up: str) -> str | None:
    said = done.stdout.decode("utf-8", "replace") if done is not None else ""
    return said if done is not None and (done.returncode == 0 or (summed_up and summed_up in said)) else None


def held_by() -> str | None:
    """Which other processes hold a GPU, in words, or that this is not known; None: none. Only root sees those of others."""
    try:
        seen = {pid: _holds(pid) for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if pid != os.getpid()}
    except OSError as error:
        return f"who holds a GPU is not known: /proc: {error.strerror}"
    holders = [pid for pid, holds in seen.items() if holds]
    if holders:
        return f"process {holders[0]} holds a GPU" + (f", and {len(holders) - 1} more do" if len(holders) > 1 else "")
    hidden = [pid for pid, holds in seen.items() if holds is None]
    return f"what process {hidden[0]} holds may not be seen" if hidden else None


def _holds(pid: int) -> bool | None:
    """None where that may not be seen. Files are closed while this looks, and where a process's first thread has ended others may still
    hold some."""
    try:
        files = _open_files(f"/proc/{pid}")
        tasks = f"/proc/{pid}/task"
        return any(map(_NODES.match, files or (file for thread in os.listdir(tasks) for file in _open_files(f"{tasks}/{thread}"))))
    except (FileNotFoundError, ProcessLookupError):
        return False  # it ended
    except OSError:
        return None


def _open_files(folder: str) -> list[str]:
    found = []
    for name in os.listdir(f"{folder}/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(f"{folder}/fd/{name}"))
    return found
