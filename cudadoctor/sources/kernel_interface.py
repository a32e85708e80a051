"""Which parts of the kernel's interface this process is refused: system calls that the CUDA driver makes, others that Python's modules
make (model/values: OF_PYTHON), and /proc.

Measured with driver 580.159.04 on an H100: with any one of the driver's calls refused cuInit ends with 304, without /proc/cpuinfo with 2.
Nothing is written: the socket's name is the kernel's own choice, and the file that is removed does not exist. A filter may end a process
for a call: where there is one, a child of ours asks.
"""

from __future__ import annotations

import _thread
import errno
import os
import select
import signal
from collections.abc import Callable, Iterator

from cudadoctor.sources.plain_files import beginning

REFUSED = (errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EAFNOSUPPORT, errno.ENOTTY)
ALL_ANSWERED = "all answered"
_TO_DRIVER = 3 << 30 | 4 << 16 | ord("F") << 8 | 210  # _IOWR('F', NV_ESC_CHECK_VERSION_STR, int): NVIDIA's nv-ioctl-numbers.h


def read_kernel_interface(_: str) -> str:
    """One line for each part that is refused."""
    filtered = "\nSeccomp:\t2" in beginning("/proc/self/status", 1 << 14)
    return "".join(f"{line}\n" for line in (_asked_apart() if filtered else _refusals())) or f"{ALL_ANSWERED}\n"


def _asked_apart() -> list[str]:
    """The same from a child, with the call for which it was ended."""
    try:
        source, sink = os.pipe()
        child = os.fork()
    except OSError:  # one of the calls itself
        return list(_refusals())
    if child == 0:
        try:
            for line in _refusals(begin=lambda name: os.write(sink, f"{name}\n".encode())):
                os.write(sink, f"{line}\n".encode())
        finally:
            os._exit(0)
    os.close(sink)
    with os.fdopen(source) as stream:
        lines = stream.read().splitlines()
    status = os.waitpid(child, 0)[1]
    found = [line for line in lines if line not in _CALLS]
    if os.WIFSIGNALED(status):
        if os.WTERMSIG(status) != signal.SIGSYS or not lines:
            raise OSError(errno.EINTR, "the child that asked was ended")  # what it had not asked yet is not known
        found.append(f"{lines[-1]}: killed by SIGSYS")
    return found


def _refusals(begin: Callable[[str], object] = str) -> Iterator[str]:
    """`begin` hears of each call before it is made."""
    for name, call in _CALLS.items():
        try:
            begin(name)
            call()
        except OSError as error:
            if error.errno in REFUSED:
                yield f"{name}: {errno.errorcode[error.errno]}"
        except (ImportError, AttributeError):
            pass  # a Python without that function cannot ask
        except RuntimeError as error:  # the interpreter's word for a thread that could not be started
            yield f"{name}: {error}"
    if not os.path.exists("/proc/self/stat"):
        yield "/proc: not the kernel's"
    elif os.path.basename(os.path.realpath("/proc/self")) != str(os.getpid()):
        yield "/proc: of another PID namespace"
    elif not beginning("/proc/cpuinfo", 1):
        yield "/proc/cpuinfo: cannot be read, or is empty"


def _eventfd() -> None:
    make = getattr(os, "eventfd", None)  # Python 3.10
    if make is not None:
        os.close(make(0))


def _ioctl() -> None:
    import fcntl
    import termios

    source, sink = os.pipe()
    try:
        fcntl.ioctl(source, termios.FIONREAD, bytes(4))  # how much waits in a pipe, which every kernel says
        try:
            fcntl.ioctl(source, _TO_DRIVER, bytes(4))
        except OSError as error:
            if error.errno != errno.ENOTTY:  # as a pipe answers to what is meant for a GPU; a filter answers before it
                raise
    finally:
        os.close(source)
        os.close(sink)


def _socket(bind: bool) -> None:
    from _socket import AF_UNIX, SOCK_DGRAM, socket  # the module socket takes 9 ms to import

    made = socket(AF_UNIX, SOCK_DGRAM)
    try:
        if bind:
            made.bind("")
    finally:
        made.close()


def _limits() -> None:
    import resource

    resource.getrlimit(resource.RLIMIT_NOFILE)


_CALLS: dict[str, Callable[[], object]] = {
    "eventfd2": _eventfd,
    "pipe2": lambda: list(map(os.close, os.pipe())),
    "ioctl": _ioctl,
    "socket": lambda: _socket(bind=False),
    "bind": lambda: _socket(bind=True),
    "poll": lambda: select.poll().poll(0),
    "uname": os.uname,
    "unlink": lambda: os.unlink("/proc/self/none"),
    "clone3": lambda: _thread.start_new_thread(int, ()),
    "sched_getaffinity": lambda: os.sched_getaffinity(0),
    "sched_getparam": lambda: os.sched_getparam(0),
    "getrandom": lambda: os.getrandom(1),
    "getpriority": lambda: os.getpriority(os.PRIO_PROCESS, 0),
    "memfd_create": lambda: os.close(os.memfd_create("")),
    "prlimit64": _limits,
    "statfs": lambda: os.statvfs("/"),
    "getcwd": os.getcwd,
}
