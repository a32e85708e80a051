"""The ladder: climbs from loading libcuda to a Numba kernel in the examined interpreter and says on which rung it stopped.

Started as `[python, "-u", "-B", /abs/ladder.py, "--quick"?, "--no-benchmark"?, "--limit-seconds", N?]`. It writes one JSON object a
line, one when a rung begins and one when it ends, so the last line names the rung that crashed or hung. After the device count it
waits for the line `go` on stdin: no context is made before that. Steps of one GPU stop at its first broken rung, other GPUs go on.
An experiment adds `"--stop", RUNG` (the last rung to climb), `"--gpu", UUID` (that GPU alone), `"--step", NAME` (of the Numba kernels
this one), `"--straight"` (from the devices to Numba, which makes its own context) and `"--raise-limits"`.

Where Numba is climbed to, it is imported in a second process while the first climbs to it (beside.py). It runs on Python 3.8 and later.
What carries out a rung is in climbing.py, the driver's library in driver.py.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    sys.path.insert(0, __file__.replace("\\", "/").rpartition("/")[0])
from cudadoctor_lines import TYPE_CHECKING, beginning, option, sibling, write  # which takes that folder off the path again

# isort: split
import json
import os

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

climbing = sibling("climbing")
RungError = climbing.RungError
ON_WINDOWS = sys.platform == "win32"
READ = ("CUDA_", "NUMBA")  # how variables begin that CUDA and Numba read
MOST_DEVICES = 1024  # slices included; a number beyond it is none
NUMBA = "numba-kernel"  # the last rung
DRIVER_FOUND, DRIVER_WORKS = b"found\n", b"driver\n"  # what the first half tells the second


# ------------------------------------------------------------------ rungs without a context
def load_library(found: dict[str, Any]) -> dict[str, Any]:
    """Rung libcuda: the loader finds the driver's library. `found["driver"]` receives it."""
    if climbing.NO_CTYPES is not None:
        raise RungError("ImportError: " + climbing.NO_CTYPES, why="this Python has no ctypes")
    driver = sibling("driver")
    try:
        library = driver.open_library()
    except OSError as refused:
        raise RungError(str(refused))
    found["driver"] = driver.Driver(library)
    files = sibling("loaded_files")
    path = (files.loaded_dll if ON_WINDOWS else files.loaded_file)(library)
    return {"path": path, "library": files.version_in(path)}


def count_devices(driver: Any, found: dict[str, Any]) -> dict[str, Any]:
    """Rung devices: at least one device is visible. `found["devices"]` receives their descriptions."""
    from ctypes import c_int

    version, count = driver.ask(c_int, "cuDriverGetVersion"), int(driver.value(c_int, "cuDeviceGetCount"))
    if not 0 < count <= MOST_DEVICES:
        raise RungError("cuDeviceGetCount returned %d devices" % count)
    devices = found["devices"] = [sibling("gpu_steps").describe(driver, index) for index in range(count)]
    return {"cuda": "{}.{}".format(version // 1000, version % 1000 // 10) if version else None, "devices": devices}


# ------------------------------------------------------------------ the whole climb
def climb_gpus(worker: Any, driver: Any, devices: list[dict[str, Any]], arguments: list[str], say: Callable[[bytes], object]) -> list[Any]:
    """Context, memory and kernel of each GPU, then the figures of all at once. The GPUs whose kernel computed."""
    stop = option(arguments, "--stop")
    steps_of = sibling("gpu_steps")
    watching = sibling("bench_watch")
    library = watching.library() if "--busy" not in arguments else None
    working = []
    for described in devices:
        index = described["index"]
        gpu = steps_of.Gpu(driver, described)
        others = watching.Watch(library, gpu.address).others() if not (described["uuid"] or "").startswith("MIG-") else None
        if others is not None:
            worker.emit("guest", gpu=index, **others)
        rungs = [("context", gpu.context), ("memory", gpu.memory), ("ptx-kernel", gpu.kernel)]
        rungs = rungs[: [step for step, _ in rungs].index(stop) + 1] if stop in ("context", "memory") else rungs
        if all(worker.climb(step, action, index) for step, action in rungs):
            gpu.is_guest = others is not None
            working.append(gpu)
            say(DRIVER_WORKS)
        gpu.leave()
    measured = [gpu for gpu in working if not gpu.is_guest]
    if measured and "--no-benchmark" not in arguments:
        worker.guard("benchmark", lambda: sibling("bench").measure_all(worker, driver, measured))
    return working


def given_variables() -> dict[str, str]:
    """Variables that this process was started with. Linux alone says it."""
    lines = beginning("/proc/self/environ", 1 << 24, "surrogateescape").split("\0")
    return dict(line.split("=", 1) for line in lines if "=" in line)


def variables(given: dict[str, str]) -> tuple[dict[str, str] | None, list[tuple[str, str | None]]]:
    """CUDA's among the given ones, and those of them that this process's own start (a preloaded library, a .pth file) set or removed."""
    names = [name for name in sorted({*given, *os.environ}) if name.startswith(READ)] if given else []
    changed = [(name, os.environ.get(name)) for name in names if given.get(name) != os.environ.get(name)]
    return {name: given[name] for name in names if name in given} if given else None, changed


def preloaded() -> list[str]:
    """What the loader puts into every program before its own libraries."""
    listed: str = beginning("/etc/ld.so.preload", 4096) + " " + os.environ.get("LD_PRELOAD", "")
    return listed.replace(":", " ").split()


def why_refused(worker: Any, report: str | None) -> None:
    """What kept this process from the driver's library, or from its device nodes; Windows has neither in a known place."""
    if report is not None and not ON_WINDOWS:
        worker.guard("refused", lambda: getattr(sibling("loaded_files"), report)(worker.emit))


def climb_driver(worker: Any, arguments: list[str], say: Callable[[bytes], object]) -> dict[str, Any] | None:
    """All rungs before Numba's, as far as they hold. What that one is told, where it has its turn: the GPUs and whether as a guest, and
    whether this process must be gone before."""
    stop, limit = option(arguments, "--stop"), option(arguments, "--limit-seconds")
    timer = climbing.limit_life(float(limit)) if limit else None
    not_given = {name: os.environ.pop("CUDADOCTOR_" + name.upper(), "").split() for name in ("withheld", "replaced", "beside")}
    given, changed = variables(given_variables())
    version, listed, quick = sys.version.split()[0], preloaded(), "--quick" in arguments
    worker.emit("start", python=sys.executable, version=version, quick=quick, given=given, preloaded=listed, **not_given)
    for name, value in changed:
        worker.emit("changed", name=name, value=value, preloaded=listed)
    found: dict[str, Any] = {}
    if not worker.climb("libcuda", lambda: load_library(found)) or stop == "libcuda":
        why_refused(worker, "report_unreadable" if not found else None)
        return None
    say(DRIVER_FOUND)
    driver = found["driver"]
    if not worker.climb("init", lambda: driver.call("cuInit", 0) or {}):  # the first call that talks to the kernel driver
        why_refused(worker, "report_openings")
        return None
    if stop == "init" or not worker.climb("devices", lambda: count_devices(driver, found)) or quick or stop == "devices":
        return None
    if timer is not None:
        timer.cancel()  # the wait for the parent is not ours
    if climbing.heard() != b"go":  # anything else, or the end, means: stop here
        return None
    if limit:
        climbing.limit_life(float(limit))
    gpu = option(arguments, "--gpu")
    devices = [described for described in found["devices"] if gpu in (None, described["uuid"])]
    if "--straight" in arguments:
        say(DRIVER_WORKS)
        turns, alone = [(described["index"], False) for described in devices], False
    else:
        working = climb_gpus(worker, driver, devices, arguments, say)
        turns, alone = [(gpu.index, gpu.is_guest) for gpu in working], any(gpu.has_room_for_one for gpu in working)
    return {"gpus": turns, "alone": alone} if turns and stop in (None, NUMBA) else None


def climb_numba(worker: Any, turn: dict[str, Any], arguments: list[str]) -> None:
    """The last rung. What keeps Python from importing its own modules (a file of PYTHONPATH with the name of one) breaks it."""
    worker.own = "--own" in arguments
    try:
        steps = sibling("numba_steps")
    except BaseException as error:
        said = plain_traceback(error)
        worker.climb(NUMBA, lambda: {"status": "fail", "output": said}, turn["gpus"][0][0])
        return
    steps.climb(worker, dict(turn["gpus"]), option(arguments, "--step"))
    if worker.last_output:
        said = worker.last_output
        worker.guard("installed", lambda: sibling("installed_files").report(worker.emit, said))


def plain_traceback(error: BaseException) -> str:
    """As the module traceback writes it, which may be the one that is broken."""
    lines, at = ["Traceback (most recent call last):"], error.__traceback__
    while at is not None:
        code = at.tb_frame.f_code
        lines.append('  File "{}", line {}, in {}'.format(code.co_filename, at.tb_lineno, code.co_name))
        at = at.tb_next
    return "\n".join([*lines, "{}: {}".format(type(error).__name__, error)])


# ------------------------------------------------------------------ in two processes
def driver_half(arguments: list[str], say: Callable[[bytes], object]) -> None:
    """The first process: says at the end what Numba's rung is told, or that there is nothing to tell."""
    worker, turns = climbing.started(), []
    worker.guard("ladder", lambda: turns.append(climb_driver(worker, arguments, say)))
    if turns in ([], [None]):
        worker.emit("done")
    else:
        say(json.dumps(turns[0]).encode("ascii") + b"\n")


def numba_half(arguments: list[str], orders: Iterator[bytes]) -> None:
    """The second: imports Numba where there is a driver, and lets it meet the driver when that is seen to work. Whatever fails here is said
    on its rung."""
    worker, limit = climbing.started(), option(arguments, "--limit-seconds")
    worker.capture.tell_at_exit()
    steps: Any = None
    for line in orders:
        if line == DRIVER_FOUND:
            try:
                steps = sibling("numba_steps")
                steps.ahead()
            except BaseException:
                steps = None
        elif line == DRIVER_WORKS:
            if steps is not None:
                steps.meet_driver()
        else:
            turn = json.loads(line)
            if limit:
                climbing.limit_life(float(limit))
            worker.has_begun(NUMBA, turn["gpus"][0][0])
            worker.guard("ladder", lambda turn=turn: climb_numba(worker, turn, arguments))
            worker.emit("done")
            return


def begin_numba(gpu: int) -> None:
    """Its rung begins now, however far its import is."""
    write(1, json.dumps({"event": "begin", "step": NUMBA, "gpu": gpu}))


def main(arguments: list[str]) -> None:
    """Climb, and leave without tearing anything down."""
    left_out = option(arguments, "--start-without")
    if left_out is not None:
        sibling("startup").start_without(left_out)
    if "--raise-limits" in arguments:
        sibling("startup").raise_limits()
    if "--quick" not in arguments and option(arguments, "--stop") in (None, NUMBA) and hasattr(os, "fork"):
        try:
            sibling("beside").climb(lambda say: driver_half(arguments, say), lambda orders: numba_half(arguments, orders), begin_numba)
        except OSError:
            pass  # no more processes may be started: one after the other, then
    worker, turns = climbing.started(), []
    worker.guard("ladder", lambda: turns.append(climb_driver(worker, arguments, lambda news: None)))
    if turns and turns[0] is not None:
        worker.guard("ladder", lambda: climb_numba(worker, turns[0], arguments))
    worker.emit("done")
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
