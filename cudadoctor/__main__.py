"""`python -m cudadoctor`, and the program `cudadoctor`. Ctrl-C while Python still reads the modules ends without a traceback too."""

import os
import sys

sys.dont_write_bytecode = True  # a check changes no file, not even the doctor's own; pip compiles at the installation


def standard_library_first() -> None:
    """Take the working directory and relative folders off sys.path, and PYTHONPATH behind the standard library and the doctor's packages:
    a random.py or an old msgspec there is what is examined, not what examines.

    The doctor itself is kept where it is run from a checkout. What Python imports before this line (sitecustomize) is beyond reach.
    """
    own = os.path.realpath(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    first = next((at for at, entry in enumerate(sys.path) if entry == os.path.dirname(os.__file__)), 0)
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    try:
        refused = {os.path.realpath(entry) for entry in given if not os.path.isabs(entry)} | {os.path.realpath(os.getcwd())}
    except OSError:
        return  # it was deleted: nothing can be imported from it
    kept = [entry for entry in sys.path[:first] if os.path.realpath(entry) == own or os.path.realpath(entry) not in refused]
    later = [entry for entry in kept if entry in given and os.path.realpath(entry) != own]
    sys.path[:] = [*(entry for entry in kept if entry not in later), *sys.path[first:], *later]
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name in sys.stdlib_module_names and file is not None and file.startswith(tuple(entry + os.sep for entry in later)):
            del sys.modules[name]  # start-up hooks of packages imported it


def leave_out_others() -> None:
    """As root, take folders of PYTHONPATH that others may write off sys.path: no extension and no module is taken from there."""
    if getattr(os, "geteuid", lambda: 1)() == 0 and os.environ.get("PYTHONPATH"):
        from cudadoctor.sources import inherited

        own = os.path.realpath(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        kept = inherited.some_of_it(("PYTHONPATH",)).get("PYTHONPATH", "").split(os.pathsep)
        others = set(os.environ["PYTHONPATH"].split(os.pathsep)).difference(kept)
        sys.path[:] = [entry for entry in sys.path if entry not in others or os.path.realpath(entry) == own]


def undo_startup_hooks() -> None:
    """Give CUDA's variables the values that the shell gave them. The examined Python may run the same hook, and is told apart then."""
    sys.setrecursionlimit(max(1000, sys.getrecursionlimit()))
    try:
        with open("/proc/self/environ", "rb") as file:
            lines = os.fsdecode(file.read()).split("\0")
    except OSError:
        return  # not on this system
    given = dict(line.split("=", 1) for line in lines if line.startswith(("CUDA", "NUMBA")) and "=" in line)
    for name in [name for name in os.environ if name.startswith(("CUDA", "NUMBA")) and name not in given] if lines[0] else ():
        del os.environ[name]
    os.environ.update(given)


def take_signals() -> None:
    """Signals that whoever started this has blocked would reach none of the children either: they end by signals and wait for them. Where
    the end of children is ignored, nobody learns how one ended.
    """
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


# Python has read these two by now, whatever lies in the working directory; all others come behind this line.
standard_library_first()
import atexit  # noqa: E402
import gc  # noqa: E402
import signal  # noqa: E402

gc.set_threshold(100_000)  # what is imported and decoded stays; looking for garbage in it takes longer than its memory is worth
undo_startup_hooks()
take_signals()


def main() -> None:
    """The command line. Every import of ours comes behind those lines, and where Ctrl-C is told in a word."""
    try:
        leave_out_others()
        if sys.argv[1:2] == ["check"] and not {"-h", "--help", "--list"} & set(sys.argv):
            from cudadoctor.within import asking

            asking.start_ahead()  # on two cores the other one would have nothing to do yet
        from cudadoctor.commands import cli

        cli.main()
    except KeyboardInterrupt:
        from cudadoctor.model import exit_codes

        print("interrupted", file=sys.stderr)
        sys.exit(exit_codes.INTERRUPTED)
    except ImportError as error:
        print(f"cudadoctor is not installed as a whole: {error!r}. Install it anew, in an environment of its own.", file=sys.stderr)
        sys.exit(4)  # exit_codes.CRASHED, which may be missing too
    except SystemExit as end:
        if isinstance(end.code, int) and written():
            atexit._run_exitfuncs()
            os._exit(end.code)  # Python would first take apart all that was imported and decoded, for a tenth of a second
        raise


def written() -> bool:
    """Whether both streams took everything; where not, Python's own end says so."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        return False
    return True


if __name__ == "__main__":
    main()
