"""Nodes asked through a Dask cluster: one worker a node runs the program beside its tasks, in a thread, and its event loop goes on.

Which node a worker is on is asked of the worker: its address may be that of a proxy, and several workers share a node. Only built-in
functions and texts are sent, so a worker needs neither this package nor the same Python.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import Any

from cudadoctor.sources.engines import LATE, Answer, EngineError, Took, Work, answer, each_named, program

_PATIENCE = 10  # seconds to the scheduler, or to a worker's name
_NODE = "(__import__('socket').gethostname(), open('/proc/sys/kernel/random/boot_id').read().strip())"
_RUN = "__import__('subprocess').run({command!r}, input={collector!r}, capture_output=True, timeout={seconds!r}, start_new_session=True)"


def nodes(address: str, fanout: int) -> tuple[dict[str, str], list[Answer]]:
    """One worker's address for each node's name, and the workers that did not say where they are. EngineError without a scheduler."""
    return asyncio.run(_nodes(address, fanout))


def ask(address: str, workers: dict[str, str], work: Work, took: Took) -> None:
    """Each node by its worker."""
    with each_named(sorted(workers), took) as taken:
        asyncio.run(_ask(address, workers, work, taken))


async def _nodes(address: str, fanout: int) -> tuple[dict[str, str], list[Answer]]:
    places: dict[tuple[str, str], str] = {}
    silent: list[Answer] = []

    async def place(client: Any, worker: str) -> None:
        try:
            places.setdefault(await _evaluated(client, worker, _NODE, _PATIENCE), worker)
        except Exception as error:
            silent.append(Answer(worker, why=_why(error)))

    async with await _client(address) as client:
        listed = (await client.scheduler.identity(n_workers=-1))["workers"]
        await _side_by_side([functools.partial(place, client, worker) for worker in listed], fanout)
    named: dict[str, str] = {}
    for (host, _), worker in places.items():
        named[host if host not in named else f"{host} ({worker})"] = worker
    return named, silent


async def _ask(address: str, workers: dict[str, str], work: Work, took: Took) -> None:
    seconds = work.given_up_after
    expression = _RUN.format(command=["sh", "-c", program(work)], collector=work.collector, seconds=seconds)

    async def one(client: Any, name: str, worker: str) -> None:
        try:
            done = await _evaluated(client, worker, expression, seconds + _PATIENCE)
            took(answer(name, done.stdout, done.stderr, done.returncode))
        except Exception as error:
            took(Answer(name, why=_why(error)))

    async with await _client(address) as client:
        await _side_by_side([functools.partial(one, client, *pair) for pair in workers.items()], work.fanout)


async def _client(address: str) -> Any:
    from distributed import Client

    client: Any = Client
    try:
        return await client(address, asynchronous=True, timeout=_PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        raise EngineError(f"no scheduler of Dask answers at {address}: {error}") from error


async def _evaluated(client: Any, worker: str, expression: str, seconds: float) -> Any:
    """What a worker makes of an expression. A call for each worker: one that is gone, or another's answer, spoils no other."""
    called = client.run(asyncio.to_thread, eval, expression, workers=[worker], on_error="return")
    found = (await asyncio.wait_for(called, seconds)).get(worker)
    if isinstance(found, BaseException):
        raise found
    return found


async def _side_by_side(tasks: list[Callable[[], Awaitable[None]]], most: int) -> None:
    gate = asyncio.Semaphore(most)

    async def gated(task: Callable[[], Awaitable[None]]) -> None:
        async with gate:
            await task()

    await asyncio.gather(*map(gated, tasks))


def _why(error: BaseException) -> str:
    if isinstance(error, (asyncio.TimeoutError, TimeoutError)) or type(error).__name__ == "TimeoutExpired":
        return LATE
    return f"its worker gave no answer: {str(error).splitlines()[0] if str(error) else type(error).__name__}"[:300]
