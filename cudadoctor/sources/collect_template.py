"""Records what cudadoctor reads of this machine, where cudadoctor cannot be installed. Needs Linux and Python 3.6 or later, nothing else.

    python3 collect.py                    writes cudadoctor-recording.tar.gz into the working directory
    cudadoctor check --replay FILE        names the root cause, on any machine that has cudadoctor
    cudadoctor fix --suggest --replay FILE

It asks what `cudadoctor record` asks, with the same limits, and takes names of people and machines out unless --no-redact is given.
It installs nothing, changes nothing and sends nothing; what it writes besides the recording lies in a temporary folder that is gone
when it ends. At the end of this file stand the texts that it works with: the doctor's own modules, the programs that ask one library
each, and NVIDIA's Python binding of NVML.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    if sys.path and not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
        del sys.path[0]  # the folder of this file, or the working directory: nothing there is run
    sys.path[:] = [entry for entry in sys.path if entry]
    sys.dont_write_bytecode = True

import os

if __name__ == "__main__":  # empty and relative entries mean folders of the working directory
    _relative = [os.path.realpath(entry) for entry in os.environ.get("PYTHONPATH", "/").split(os.pathsep) if not os.path.isabs(entry)]
    sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry) not in _relative]

import argparse
import contextlib
import importlib.util
import shutil
import signal
import stat
import tempfile
import typing
from pathlib import PurePath
from typing import Any, NoReturn

# Filled by `cudadoctor record --script` (sources/collecting.py) at the end of the file.
MODULES: dict[str, str] = {}  # name: text. They run in this process.
FILES: dict[str, str] = {}  # path in the temporary folder: text. Workers, which run as children, and what they import.
FRAMEWORKS: tuple[str, ...] = ()  # those that --frameworks imports
MORE: tuple[dict[str, Any], ...] = ()  # what extensions of the doctor ask besides

DEFAULT = "cudadoctor-recording.tar.gz"
ARCHIVES = (".tar.gz", ".tgz")
SITE_FOLDERS = ("site-packages", "dist-packages")
ENDINGS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class Refusal(Exception):
    """Nothing can be recorded as it was asked for; the message says why."""


# ---------------------------------------------------------------- the texts of this file as modules and files
class Embedded:
    """Finds the doctor's modules in this file, for `import`."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in MODULES:
            return None
        package = any(other.startswith(name + ".") for other in MODULES)
        return importlib.util.spec_from_loader(name, self, is_package=package)  # type: ignore[arg-type]

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, module: Any) -> None:
        # The workers are looked for beside the folder of the module, as where the doctor is installed.
        module.__file__ = os.path.join(self.folder, *module.__name__.split(".")) + ".py"
        exec(compile(MODULES[module.__name__], f"<{module.__name__}>", "exec"), module.__dict__)  # noqa: S102 - a text of this very file


class Anything:
    """Stands for typing.Literal, which Python 3.6 and 3.7 lack; nothing reads it."""

    def __getitem__(self, _: Any) -> Any:
        return Any


def unpack(folder: str) -> None:
    """The workers as files: the examined interpreter has to find them."""
    for name, text in FILES.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        if not name.endswith("/"):
            with open(path, "w", encoding="utf-8") as stream:
                stream.write(text)


def make_importable(folder: str) -> None:
    """The doctor's modules for this process, and NVML's binding for the worker: behind PYTHONPATH, before installed packages."""
    names = vars(typing)
    names.setdefault("Literal", Anything())
    names.setdefault("Protocol", type("Protocol", (), {}))
    sys.meta_path.insert(0, Embedded(folder))
    places = [place for place, path in enumerate(sys.path) if os.path.basename(path) in SITE_FOLDERS]
    sys.path.insert(places[0] if places else len(sys.path), os.path.join(folder, "packages"))


# ---------------------------------------------------------------- the temporary folder
def folders_for_work(target: str) -> list[str]:
    """Where the temporary folder may be made: where the system wants it, else in memory, else beside the recording."""
    places = (tempfile.gettempdir(), "/dev/shm", os.path.dirname(os.path.abspath(target)))  # noqa: S108 - mkdtemp makes a folder there
    return [place for place in places if nobody_else_renames_in(place)]


def nobody_else_renames_in(place: str) -> bool:
    """Whether only root and this user can put another folder in the place of ours: workers run from it."""
    path = PurePath(os.path.realpath(place))
    try:
        found = [os.stat(folder) for folder in (path, *path.parents)]
    except OSError:
        return False
    return all(info.st_uid in (0, os.geteuid()) and (not info.st_mode & 0o022 or info.st_mode & stat.S_ISVTX) for info in found)


@contextlib.contextmanager
def workplace(target: str) -> typing.Iterator[str]:
    """A folder that holds the workers, and that is gone at the end, whatever ends this run."""
    made: list[str] = []
    try:
        yield filled(target, made)
    finally:
        for number in ENDINGS:
            signal.signal(number, signal.SIG_IGN)  # a second Ctrl-C must not leave the folder behind
        for folder in made:
            shutil.rmtree(folder, ignore_errors=True)


def filled(target: str, made: list[str]) -> str:
    why: Exception | None = Refusal("other users may write in all folders for temporary files")
    for place in folders_for_work(target):
        try:
            # No signal between the making of the folder and the note that it is ours.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDINGS)
            try:
                made.append(tempfile.mkdtemp(prefix="cudadoctor-", dir=place))
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
            unpack(made[-1])
        except OSError as error:  # a full or read-only file system
            why = error
        else:
            return made[-1]
    raise Refusal(f"no temporary folder can be made: {why}; TMPDIR may name one")


# ---------------------------------------------------------------- the recording
def check_target(target: str, force: bool) -> None:
    """Before anything is asked of the machine: whether the recording can be written there, over nothing that is there."""
    archive = target.endswith(ARCHIVES)
    empty = not archive and os.path.isdir(target) and not os.listdir(target)
    if os.path.lexists(target) and not empty and not force:
        raise Refusal(f"{target} is there already; name another place with -o, or replace it with --force")
    folder = os.path.dirname(os.path.abspath(target))
    while not archive and not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    if not os.path.isdir(folder):
        raise Refusal(f"{folder} is no folder")
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise Refusal(f"{folder}: {error.strerror}; name another place with -o") from error


def record(options: argparse.Namespace) -> int:
    """Collect, redact, write. The number of items."""
    from cudadoctor.sources.host import Plan, collect
    from cudadoctor.sources.probes import Probe
    from cudadoctor.sources.recording import RecordingError, write
    from cudadoctor.sources.redact import redact

    more = tuple(
        Probe(**{name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()})  # type: ignore[arg-type]
        for fields in MORE
    )
    frameworks = FRAMEWORKS if options.frameworks else ()
    evidence = collect(
        Plan(python=options.python, quick=options.quick, busy=options.busy, timeout=options.timeout, frameworks=frameworks, more=more)
    )
    try:
        write(evidence if options.no_redact else redact(evidence), options.output, force=options.force)
    except RecordingError as error:
        raise Refusal(str(error)) from error
    return len(evidence.items)


def seconds(text: str) -> float:
    number = float(text)
    if not 1 <= number < float("inf"):
        raise argparse.ArgumentTypeError("give 1 or more")
    return number


def parsed(arguments: list[str]) -> argparse.Namespace:
    words = (__doc__ or "").strip().split("\n\n")
    parser = argparse.ArgumentParser(
        prog="collect.py",
        description=words[0],
        epilog="\n\n".join(words[1:]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-o", "--output", metavar="TARGET", default=DEFAULT, help=f"a folder, or a file in .tar.gz (default {DEFAULT})")
    parser.add_argument("--quick", action="store_true", help="stop before anything that imports Numba or launches a kernel")
    parser.add_argument("--busy", action="store_true", help="measure GPUs too on which another process computes")
    parser.add_argument("--frameworks", action="store_true", help="import the GPU frameworks (PyTorch, JAX ...) too and compute with each")
    parser.add_argument("--no-redact", action="store_true", help="keep names, UUIDs and all variables")
    parser.add_argument("--force", action="store_true", help="replace what is there")
    parser.add_argument("--python", metavar="PATH", help="examine this interpreter; else the one that a shell would find")
    parser.add_argument("--timeout", metavar="SECONDS", type=seconds, default=60.0, help="for the whole run (default 60)")
    options = parser.parse_args(arguments)
    if options.frameworks and options.quick:
        parser.error("--frameworks imports them, which --quick leaves out: give one of the two")
    return options


def shown(path: str) -> str:
    """A path as a shell reads it, in letters that a terminal only prints."""
    import shlex

    quoted = shlex.quote(path)
    return quoted if quoted.isprintable() and "\x1b" not in quoted else ascii(path)


def say(text: str, stream: Any) -> None:
    """A closed stream, or one that takes no such letters, loses the words and not the recording."""
    try:
        safe = "".join(letter if letter.isprintable() or letter == "\n" else repr(letter)[1:-1] for letter in text)
        print(safe.encode("ascii", "backslashreplace").decode(), file=stream)
        stream.flush()
    except (OSError, ValueError, AttributeError):
        pass


def terminated(number: int, _: Any) -> NoReturn:
    sys.exit(128 + number)


def main(arguments: list[str]) -> int:
    """The exit code: 0 with a recording, 2 without."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by the caller: no file that is opened later may take its number
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
    options = parsed(arguments)
    if not sys.platform.startswith("linux"):
        say("Error: this program records machines with Linux only", sys.stderr)
        return 3
    for number in ENDINGS[1:]:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP, and that stays so
            signal.signal(number, terminated)
    try:
        check_target(options.output, options.force)
        with workplace(options.output) as folder:
            make_importable(folder)
            count = record(options)
    except (OSError, Refusal) as error:
        say(f"Error: the recording could not be written: {error}", sys.stderr)
        return 2
    except KeyboardInterrupt:
        say("interrupted", sys.stderr)
        return 130
    except Exception as error:
        say(f"This program itself failed; please report: {type(error).__name__}: {error}", sys.stderr)
        return 4
    kept = "not redacted" if options.no_redact else "redacted"
    target = shown(options.output)
    say(f"{count} pieces of evidence written to {target}, {kept}\nRead it elsewhere: cudadoctor check --replay {target}", sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
