"""What reaches stdout and the files that options name: colour or none, Unicode or ASCII, streams that are closed, full or unread."""

from __future__ import annotations

import errno
import io
import os
import shutil
import sys
from typing import TYPE_CHECKING, Any, TextIO

import click

from cudadoctor.model import exit_codes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cudadoctor.report.page import Style


_NO_LINKS = ("dumb", "linux", "screen", "vt")  # terminals that may print an address they cannot follow
_filled = 0  # lines of progress that stand on the terminal
_unread = False
_TOLD = 10  # of them that are told each
_unwritten: list[str] = []  # files that could not be written, told when all else was
CLEAR = "\x1b[H\x1b[2J"
_VIRTUAL_TERMINAL = 0x0004  # ENABLE_VIRTUAL_TERMINAL_PROCESSING


class FullError(Exception):
    """stdout takes no more; the message says why."""


def open_streams() -> None:
    """A standard stream that the caller closed becomes the null device, so that no file that is opened later takes its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
    _take_whole(1)
    _take_whole(2)
    raw = getattr(sys.stdout, "buffer", None)
    if isinstance(raw, io.RawIOBase):  # of PYTHONUNBUFFERED, which lets the end of a text go where a disk or a pipe is full
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(raw), encoding=sys.stdout.encoding, errors=sys.stdout.errors, line_buffering=True)


def _take_whole(number: int) -> None:
    """A stream that another program left so that it takes what it can and no more is opened anew: its mark is that program's too."""
    try:
        if not os.get_blocking(number):
            anew = os.open(f"/proc/self/fd/{number}", os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK)  # a pipe may have no reader any more
            os.set_blocking(anew, True)
            os.dup2(anew, number)
            os.close(anew)
    except (OSError, AttributeError):
        pass  # a socket, or a system without such names


def no_traces() -> None:
    """What Python would say of a thread or an object of ours that failed is no help to anybody; the verdict says what is missing."""
    import threading

    threading.excepthook = lambda _: None
    sys.unraisablehook = lambda _: None


# What the shell or the machine did not give, and where to look.
_NOT_GIVEN = {
    errno.EMFILE: "too few files may be opened here: this shell allows few (ulimit -n; 64 are enough), or what started this left many open",
    errno.ENFILE: "this machine has no open files left (/proc/sys/fs/file-nr)",
    errno.EAGAIN: "this user may start no more processes (ulimit -u), or this container (pids.max)",
    errno.ENOMEM: "this machine, container or shell (ulimit -v) has no memory left",
    errno.ENOSPC: "no space is left on a disk (df -h)",
}


_NO_MEMORY = "cudadoctor could not go on, and that says nothing of a GPU: there was no memory left for it.\n"


def own_fault(error: BaseException) -> str:
    """What to say where the doctor itself failed: a limit that it ran into, or a line to report, with the place in its own code."""
    if isinstance(error, MemoryError):
        return _NO_MEMORY
    limit = _NOT_GIVEN.get(error.errno or 0) if isinstance(error, OSError) else None
    if isinstance(error, PermissionError) and error.filename == os.devnull:
        limit = f"{os.devnull} cannot be opened, so /dev is mounted with nodev or holds no devices; CUDA's own nodes are closed there too"
    if limit is not None:
        return f"cudadoctor could not go on, and that says nothing of a GPU: {limit}.\n"
    import traceback

    from cudadoctor import __version__

    home = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(home)]
    place = ", ".join(f"{os.path.relpath(frame.filename, home)}:{frame.lineno}" for frame in frames[-3:])
    words = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    which = f"cudadoctor {__version__}, Python {sys.version.split()[0]}, {words} ({place})"
    return f"cudadoctor itself failed; that says nothing of this machine. Please report this line with the command you typed:\n{which}\n"


def coloured(color: str, stream: TextIO) -> bool:
    """Whether to write colours to this stream: --color, else NO_COLOR, FORCE_COLOR, and what the stream is."""
    if color != "auto":
        return color == "always"
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (stream.isatty() and os.environ.get("TERM") != "dumb" and _understands_colours(stream))


def _understands_colours(stream: TextIO) -> bool:
    """Windows' console reads the codes for colours once it is told to; an old one never does."""
    if sys.platform == "win32":
        import ctypes
        import msvcrt

        handle, mode = msvcrt.get_osfhandle(stream.fileno()), ctypes.c_uint32()
        kernel = ctypes.windll.kernel32
        return bool(kernel.GetConsoleMode(handle, ctypes.byref(mode)) and kernel.SetConsoleMode(handle, mode.value | _VIRTUAL_TERMINAL))
    return True


def style(color: str, plain: bool, verbose: bool, stream: TextIO | None = None) -> Style:
    """How to write text to a stream, stdout where none is given."""
    from cudadoctor.report.page import Style

    stream = stream or sys.stdout
    size = shutil.get_terminal_size((100, 24))
    height = size.lines if stream.isatty() else 24  # what is read later gets one screen too
    return Style(
        width=size.columns, height=height, color=coloured(color, stream), ascii=plain or not _takes_unicode(stream), verbose=verbose,
        terminal=stream.isatty(),
    )  # fmt: skip


def _takes_unicode(stream: TextIO) -> bool:
    return (getattr(stream, "encoding", None) or "ascii").lower().startswith("utf")


def write_json(body: str, plain: bool) -> None:
    """JSON to stdout; where that takes no Unicode, or --ascii asks for it, with escapes."""
    from cudadoctor.report import json

    _write(gated(json.ascii_only(body) if plain or not _takes_unicode(sys.stdout) else body, json=True, colours=True))


def write_as(form: str, body: str, options: dict[str, Any]) -> None:
    """JSON, or another format; a text only without --quiet."""
    if form == "json":
        write_json(body, options["plain"])
    elif form != "text" or not options["quiet"]:
        write(body)


def write(body: str, *, commands: bool = False) -> None:
    """Text to stdout. A reader that has gone is no error: the exit code still speaks. `commands`: of a CI system, in lines of their own."""
    _write(_linked(gated(body, commands=commands, colours=True)))


def screen(body: str) -> None:
    """A page in place of the one before, on a terminal."""
    _write(f"{CLEAR}{_linked(gated(body, colours=True))}")


def fill_in(head: str, line: str, stream: TextIO, *, color: bool) -> None:
    """A line of progress, as long as the window is wide. What is then written to the same terminal takes its place."""
    global _filled
    from rich.cells import cell_len, set_cell_size

    room = max(10, shutil.get_terminal_size((100, 24)).columns - len(head) - 3)
    shown = line if cell_len(line) <= room else f"{set_cell_size(line, room - 3).rstrip()}..."
    say(f"\x1b[2m{head}\x1b[0m  {shown}\n" if color else f"{head}  {shown}\n", stream, drawn=True)
    _filled += 1


def _in_place() -> str:
    """What takes away the lines of progress above, where they are all in sight and stdout is that terminal."""
    global _filled
    lines, _filled = _filled, 0
    same = lines and sys.stdout.isatty() and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    return f"\x1b[{lines}A\x1b[J" if same and lines < shutil.get_terminal_size((100, 24)).lines else ""


def say(words: str, stream: TextIO | None = None, *, drawn: bool = False) -> None:
    """Text to stderr, or to another stream for people; nobody has to read it. `drawn`: it may have colours."""
    try:
        (stream or sys.stderr).write(gated(words, colours=drawn))
        (stream or sys.stderr).flush()
    except (OSError, ValueError):
        pass


def gated(text: str, *, json: bool = False, commands: bool = False, colours: bool = False) -> str:
    """Text for a stream or a file: nothing in it steers a terminal, or is a command where it becomes a job's log."""
    from cudadoctor.report import clean

    return clean.gated(text, json=json, commands=commands, colours=colours)


def _linked(text: str) -> str:
    """The ids of causes as links to their pages, on a terminal that shows colours and is known to leave out what it does not know."""
    if "\x1b[" not in text or not sys.stdout.isatty() or os.environ.get("TERM", "").startswith(_NO_LINKS):
        return text
    from cudadoctor.commands import gathering
    from cudadoctor.report.clean import linked

    knowledge = gathering.knowledge()
    return linked(text, {cause: page for cause in knowledge.causes if (page := knowledge.page_of(cause)) is not None})


def _write(body: str) -> None:
    try:
        try:
            sys.stdout.write(_in_place() + body)
        except UnicodeEncodeError:
            sys.stdout.write(body.encode("ascii", "backslashreplace").decode())
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left of it would end the run with another code
        if not isinstance(error, BrokenPipeError):
            raise FullError(f"standard output: {error.strerror}") from error
        global _unread
        _unread = True


def deliver() -> None:
    """Hand over what others wrote to standard output. FullError where it takes no more."""
    _write("")


def unread() -> bool:
    """Whether whoever read standard output has gone."""
    return _unread


def typed_now() -> str:
    """A line that is typed from now on; what stands typed already is gone, also where a program left the terminal without lines."""
    if sys.platform == "win32":
        return sys.stdin.readline()
    import termios

    try:
        number = sys.stdin.fileno()
        before = termios.tcgetattr(number)
    except (termios.error, OSError, ValueError, AttributeError):
        return sys.stdin.readline()  # no terminal
    now = [*before[:3], before[3] | termios.ICANON | termios.ECHO, *before[4:]]
    termios.tcsetattr(number, termios.TCSAFLUSH, now)
    try:
        return os.read(number, 4096).decode("utf-8", "replace")
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)


# ---------------------------------------------------------------- files that the user names
def usage(message: str) -> click.UsageError:
    return click.UsageError(message)


def show(error: click.ClickException) -> None:
    """What Click says of an error, with the words of the command line, a file or a recording in it, and what may have been meant."""
    if type(error) is click.BadParameter and error.param is not None and isinstance(error.param.type, click.Choice):
        typed = error.message.partition("'")[2].partition("'")[0]
        meant = error.message.rstrip(".") + nearest(typed, map(str, error.param.type.choices)) + "."
        error = click.BadParameter(meant, error.ctx, error.param, error.param_hint)
    said = io.StringIO()
    error.show(file=said)
    say(said.getvalue())


def nearest(what: str, names: Iterable[str]) -> str:
    """The names that begin with it or look most like it, in any case, as the end of a sentence."""
    import difflib

    by_lower, lower = {name.lower(): name for name in names}, what.lower()
    begun = [name for name in by_lower if len(lower) > 2 and name.startswith(lower)][:3]
    near = begun or difflib.get_close_matches(lower, by_lower, n=3, cutoff=0.6 if len(what) > 3 else 0.5)
    return f". Nearest: {', '.join(by_lower[name] for name in near)}" if near else ""


def called() -> str:
    """How this program is started here: by its name where PATH has it, else as it was typed."""
    from cudadoctor.prescribe import shells

    typed = sys.argv[0]
    own = os.path.basename(typed).removesuffix(".exe") == "cudadoctor"
    return shells.typed(typed) if own and os.path.dirname(typed) and shutil.which("cudadoctor") is None else "cudadoctor"


def check_target(target: str, *, force: bool) -> None:
    """Before anything is asked of the machine: whether the recording can be written there."""
    from cudadoctor.sources import recording

    why = recording.refused(target, force=force)
    if why is not None:
        raise usage(f"the recording could not be written: {why}")


def write_file(path: str, body: str, *, json: bool = False, commands: bool = False, option: str = "--output", mode: str = "w") -> None:
    """A file that an option names; it may be printed into a job's log later. Where it cannot be written the run goes on: what else there is
    to show was paid for by then."""
    from cudadoctor.sources import writing

    try:
        writing.text(path, gated(body, json=json, commands=commands), mode=mode)
    except OSError as error:
        unwritten(f"{option} {path}: {error.strerror}")


def unwritten(why: str) -> None:
    """Something that was asked for could not be written; `tell_unwritten` ends the run with that."""
    _unwritten.append(why)


def tell_unwritten() -> None:
    """At the end of a run: what could not be written, and exit code 2."""
    if _unwritten:
        more = f"Error: and {len(_unwritten) - _TOLD} more of the kind\n" if len(_unwritten) > _TOLD else ""
        say("".join(f"Error: {why}\n" for why in _unwritten[:_TOLD]) + more)
        _unwritten.clear()
        sys.exit(exit_codes.USAGE)


def check_file(path: str, option: str) -> None:
    """Before anything runs: a usage error where no file can be written there."""
    folder = os.path.dirname(path) or os.curdir
    if os.path.isdir(path) or not os.path.isdir(folder) or not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise usage(f"{option}: no file can be written there")


def outputs(values: tuple[str, ...], formats: tuple[str, ...]) -> list[tuple[str, str]]:
    """The format and the file of each --output; a file that cannot be written is told before anything runs."""
    parsed = []
    for value in values:
        form, equals, path = value.partition("=")
        if not equals or form not in formats or not path:
            raise usage(f"--output {value!r}: give FORMAT=FILE with a format of {', '.join(formats)}{nearest(form, formats)}")
        check_file(path, f"--output {value!r}")
        parsed.append((form, path))
    return parsed
