"""The ladder's two halves in a process each: the driver's rungs and the figures in one, Numba's import in another meanwhile.

Both are forked before a library is loaded, so Numba finds the process that a user's program gives it. What this process is left to do is to
pass the first half's news on to the second and to end as a half ended that broke off: the examination sees one ladder, one rung at a time.
The first half writes lines: a word where the driver is seen to work, and at last, where Numba has its turn, a JSON object.
"""

from __future__ import annotations

import json
import os
import signal
import sys

from cudadoctor_lines import TYPE_CHECKING, follow_parent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Say = Callable[[bytes], object]


def climb(driver_half: Callable[[Say], None], numba_half: Callable[[Iterator[bytes]], None], begin: Callable[[int], None]) -> None:
    """Ends this process. `begin` tells on which GPU Numba's rung begins. OSError, and nothing has begun, where no process may be forked."""
    news, telling = os.pipe()
    orders, ordering = os.pipe()
    second = _forked(lambda: numba_half(_lines(orders)), (news, telling, ordering))
    try:
        first = _forked(lambda: driver_half(lambda line: os.write(telling, line)), (news, orders, ordering))
    except OSError:
        _end(second)
        raise
    for descriptor in (telling, orders):
        os.close(descriptor)
    for line in _lines(news):
        if line.startswith(b"{"):
            turn = json.loads(line)
            if turn["alone"]:
                os.waitpid(first, 0)
            begin(turn["gpus"][0][0])
            _pass_on(ordering, line)
            _end_as(_last_of(second))
        _pass_on(ordering, line)
    _end(second)
    _end_as(os.waitpid(first, 0)[1])


def _forked(action: Callable[[], None], not_its: tuple[int, ...]) -> int:
    """The number of a child that does this and ends with us."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            follow_parent()
            for descriptor in not_its:
                os.close(descriptor)
            action()
            status = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(status)
    return child


def _last_of(child: int) -> int:
    """Its status when it ends. The other half ends meanwhile, and is not left defunct for others to see."""
    while True:
        ended, status = os.wait()
        if ended == child:
            return status


def _lines(descriptor: int) -> Iterator[bytes]:
    with os.fdopen(descriptor, "rb") as stream:
        yield from stream


def _pass_on(descriptor: int, line: bytes) -> None:
    try:
        os.write(descriptor, line)
    except OSError:
        pass  # that half is gone, and how it ended is said in its turn


def _end(child: int) -> None:
    """A child in uninterruptible sleep ends later."""
    try:
        os.kill(child, signal.SIGKILL)
    except OSError:
        pass


def _end_as(status: int) -> None:
    """Leave as a child left, without a second core file."""
    if os.WIFSIGNALED(status):
        try:
            import resource

            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        except (ImportError, OSError, ValueError):
            pass
        if os.WTERMSIG(status) != signal.SIGKILL:
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.WEXITSTATUS(status))
