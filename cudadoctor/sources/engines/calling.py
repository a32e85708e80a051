"""Programs of a cluster (ssh, srun, sinfo, kubectl), run as every other child is: by a trusted path, from /, under the supervisor.

As root nothing is run that another user may write, and nothing that the environment would have a shell or a library load.
"""

from __future__ import annotations

import functools
import os
import select
import shlex
import signal
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import closing

from cudadoctor.sources import inherited, programs
from cudadoctor.sources.children import Child, watch
from cudadoctor.sources.engines import EngineError
from cudadoctor.sources.keeping import Keeper
from cudadoctor.sources.spawning import CHUNK, ON_WINDOWS

# What leads a client to its cluster; a kubeconfig may name programs. As root it goes to a child where nobody else may write what it names.
_PLACES = ("SSH_AUTH_SOCK", "SLURM_CONF", "KUBECONFIG", "MUNGE_SOCKET")
_LISTED = 24 << 20  # bytes that are kept of what a client prints: the pods of a cluster
_ANSWER = 6 << 20  # of many that run at once: a report or a recording is a tenth of it
_ERRORS = 64 << 10  # of what one says of its failure
_LOOK = 0.5  # seconds after which what feeds a child looks whether it is over
_FAREWELL = 2.0  # seconds for a client to cancel what it has begun


def path_of(program: str) -> str:
    """EngineError where there is none that may be run."""
    found = programs.found(program)
    if found is None:
        raise EngineError(programs.refused(program) or f"{program}: command not found")
    return found


def words_of(options: str) -> list[str]:
    """A client's options as the user wrote them for a shell."""
    try:
        return shlex.split(options)
    except ValueError as error:
        raise EngineError(f"{options}: {error}") from error


def said(words: Iterable[str], seconds: float, failed: str) -> str:
    """What a program prints. The first word is a path. EngineError, with the last it said of it, where it ends otherwise than well."""
    with closing(Keeper()) as keeper:
        child = _child("command", list(words), seconds, keeper, most=_LISTED)
        watch([child])
    if child.status != "ok":
        last = child.text("stderr").strip().splitlines()[-1:]
        raise EngineError(f"{failed}: {last[0][:300] if last else child.why or 'it failed'}")
    return child.text("stdout")


def side_by_side(commands: dict[str, list[str]], feed: bytes, seconds: float, most: int, over: Callable[[str, Child], None]) -> None:
    """A program for each node, `most` at a time, with `feed` on its standard input. An interrupt ends what runs and goes on."""
    waiting, running = list(commands), list[Child]()
    with closing(Keeper()) as keeper:
        try:
            while waiting or running:
                while waiting and len(running) < most:
                    node = waiting.pop(0)
                    child = _child(node, commands[node], seconds, keeper, most=_ANSWER, talks=True)
                    if child.over:
                        over(node, child)
                        continue
                    assert child.process is not None
                    assert child.process.stdin is not None
                    own = os.dup(child.process.stdin.fileno())  # closing a pipe that a thread writes to waits for that thread
                    child.process.stdin.close()
                    threading.Thread(target=_feed, args=(child, own, feed), daemon=True).start()
                    running.append(child)
                watch(running, functools.partial(_one_is_over, running), lambda child: over(child.item, child))
                running = [child for child in running if not child.over]
        except KeyboardInterrupt:
            _ask_to_end(running)
            raise


def _one_is_over(running: list[Child]) -> bool:
    return any(child.over for child in running)


def _child(name: str, words: list[str], seconds: float, keeper: Keeper, *, most: int, talks: bool = False) -> Child:
    variables = {**inherited.environment(), **inherited.settings_off(".kube")}
    variables.update(
        {name: os.environ[name] for name in _PLACES if name in os.environ and inherited.leads_to_own(os.environ[name], addresses=False)}
    )
    shown = (os.path.basename(words[0]), *words[1:2])
    return Child(
        name, "command", words, limit=seconds, environment=variables, shown=shown, talks=talks, keeper=keeper, most=most, errors=_ERRORS
    )


def _feed(child: Child, pipe: int, body: bytes) -> None:
    """Write all of it, as fast as it is read; what a child that is over did not read is lost with it."""
    try:
        if not ON_WINDOWS:
            os.set_blocking(pipe, False)
        left = memoryview(body)
        while left and not child.over:
            if ON_WINDOWS or select.select([], [pipe], [], _LOOK)[1]:
                left = left[os.write(pipe, left[:CHUNK]) :]
    except OSError:
        pass  # it ended before it had read all
    finally:
        os.close(pipe)


def _ask_to_end(children: list[Child]) -> None:
    """A client that is killed leaves a job behind; one that is asked to end takes it along."""
    for child in children:
        if child.process is not None:
            try:
                os.killpg(child.process.pid, signal.SIGTERM)
            except OSError:
                continue
    end = time.monotonic() + _FAREWELL
    watch(children, lambda: time.monotonic() >= end)
    for child in children:
        child.kill("interrupted")
