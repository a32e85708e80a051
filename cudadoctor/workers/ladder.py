"""The ladder: climbs from loading libcuda to a Numba kernel in the examined interpreter and says on which rung it stopped.

Started as `[python, "-u", "-B", /abs/ladder.py, "--quick"?, "--no-benchmark"?, "--limit-seconds", N?]`. It writes one JSON object a
line, one when a rung begins and one when it ends, so the last line names the rung that crashed or hung. After the device count it
waits for the line `go` on stdin: no context is made before that. Steps of one GPU stop at its first broken rung, other GPUs go on.
An experiment adds `"--stop", RUNG` (the last rung to climb), `"--gpu", UUID` (that GPU alone), `"--step", NAME` (of the Numba kernels
this one), `"--straight"` (from the devices to Numba, which makes its own context) and `"--raise-limits"`.

It runs on Python 3.8 and later. What carries out a rung is in climbing.py, the driver's library in driver.py.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    sys.path.insert(0, __file__.replace("\\", "/").rpartition("/")[0])
from cudadoctor_lines import beginning, sibling  # which takes that folder off the path again

# isort: split
import os

TYPE_CHECKING = False  # only type checkers import typing: the way to cuInit stays light
if TYPE_CHECKING:
    from typing import Any

climbing = sibling("climbing")
RungError = climbing.RungError
ON_WINDOWS = sys.platform == "win32"
READ = ("CUDA_", "NUMBA")  # how variables begin that CUDA and Numba read
MOST_DEVICES = 1024  # slices included; a number beyond it is none


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
    path: str | None = sibling("windows_library").path_of(library) if ON_WINDOWS else files.loaded_file(library)
    return {"path": path, "library": files.version_in(path)}


def initialise(driver: Any) -> dict[str, Any]:
    """Rung init: cuInit, the first call that talks to the kernel driver."""
    driver.call("cuInit", 0)
    return {}


def count_devices(driver: Any, found: dict[str, Any]) -> dict[str, Any]:
    """Rung devices: at least one device is visible. `found["devices"]` receives their descriptions."""
    from ctypes import c_int

    version, count = driver.ask(c_int, "cuDriverGetVersion"), int(driver.value(c_int, "cuDeviceGetCount"))
    if not 0 < count <= MOST_DEVICES:
        raise RungError("cuDeviceGetCount returned %d devices" % count)
    devices = found["devices"] = [sibling("gpu_steps").describe(driver, index) for index in range(count)]
    return {"cuda": "{}.{}".format(version // 1000, version % 1000 // 10) if version else None, "devices": devices}


# ------------------------------------------------------------------ the whole climb
def climb_gpus(worker: Any, driver: Any, devices: list[dict[str, Any]], arguments: list[str]) -> dict[int, bool]:
    """Context, memory and kernel of each GPU, then the figures of all at once. The GPUs whose kernel computed, and whether as a guest."""
    stop = climbing.option(arguments, "--stop")
    steps_of = sibling("gpu_steps")
    watching = sibling("bench_watch")
    library = watching.library() if "--busy" not in arguments else None
    working, measured = {}, []
    for described in devices:
        index = described["index"]
        gpu = steps_of.Gpu(driver, described)
        others = watching.Watch(library, gpu.address).others() if not (described["uuid"] or "").startswith("MIG-") else None
        if others is not None:
            worker.emit("guest", gpu=index, **others)
        rungs = [("context", gpu.context), ("memory", gpu.memory), ("ptx-kernel", gpu.kernel)]
        rungs = rungs[: [step for step, _ in rungs].index(stop) + 1] if stop in ("context", "memory") else rungs
        if all(worker.climb(step, action, index) for step, action in rungs):
            working[index] = others is not None
            if others is None:
                measured.append(gpu)
        gpu.leave()
    if measured and "--no-benchmark" not in arguments:
        worker.guard("benchmark", lambda: sibling("bench").measure_all(worker, driver, measured))
    return working


def given_variables() -> dict[str, str] | None:
    """Variables of CUDA's that this process was started with. Linux alone says it."""
    try:
        with open("/proc/self/environ", "rb") as file:
            lines = file.read().decode("utf-8", "surrogateescape").split("\0")
    except OSError:
        return None
    given = dict(line.split("=", 1) for line in lines if "=" in line)
    return {name: value for name, value in given.items() if name.startswith(READ)} if given else None


def changed_variables(given: dict[str, str] | None) -> list[tuple[str, str | None]]:
    """Those that this process's own start (a preloaded library, a .pth file) set or removed."""
    names = [name for name in sorted({*given, *os.environ}) if name.startswith(READ)] if given is not None else []
    return [(name, os.environ.get(name)) for name in names if given is not None and given.get(name) != os.environ.get(name)]


def preloaded() -> list[str]:
    """What the loader puts into every program before its own libraries."""
    listed = "{} {}".format(beginning("/etc/ld.so.preload", 4096), os.environ.get("LD_PRELOAD", ""))
    return listed.replace(":", " ").split()


def why_refused(worker: Any, report: str | None) -> None:
    """What kept this process from the driver's library, or from its device nodes; Windows has neither in a known place."""
    if report is not None and not ON_WINDOWS:
        worker.guard("refused", lambda: getattr(sibling("loaded_files"), report)(worker.emit))


def climb(worker: Any, arguments: list[str]) -> None:
    """All rungs, as far as they hold."""
    quick, worker.own = "--quick" in arguments, "--own" in arguments
    stop, limit = climbing.option(arguments, "--stop"), float(climbing.option(arguments, "--limit-seconds") or 0)
    timer = climbing.limit_life(limit) if limit else None
    if "--raise-limits" in arguments:
        sibling("limits").raise_all()
    not_given = {name: os.environ.pop("CUDADOCTOR_" + name.upper(), "").split() for name in ("withheld", "replaced")}
    given = given_variables()
    version, listed = sys.version.split()[0], preloaded()
    worker.emit("start", python=sys.executable, version=version, quick=quick, given=given, preloaded=listed, **not_given)
    for name, value in changed_variables(given):
        worker.emit("changed", name=name, value=value, preloaded=listed)
    found: dict[str, Any] = {}
    if not worker.climb("libcuda", lambda: load_library(found)) or stop == "libcuda":
        why_refused(worker, "report_unreadable" if not found else None)
        return
    driver = found["driver"]
    if not worker.climb("init", lambda: initialise(driver)):
        why_refused(worker, "report_openings")
        return
    if stop == "init" or not worker.climb("devices", lambda: count_devices(driver, found)) or quick or stop == "devices":
        return
    if timer is not None:
        timer.cancel()  # the wait for the parent is not ours
    if climbing.heard() != b"go":  # anything else, or the end, means: stop here
        return
    if limit:
        climbing.limit_life(limit)
    gpu = climbing.option(arguments, "--gpu")
    devices = [described for described in found["devices"] if gpu in (None, described["uuid"])]
    if "--straight" in arguments:
        working = {described["index"]: False for described in devices}
    else:
        working = climb_gpus(worker, driver, devices, arguments)
    if working and stop in (None, "numba-kernel"):
        climb_numba(worker, working, climbing.option(arguments, "--step"))  # Numba is imported here and no earlier


def climb_numba(worker: Any, working: dict[int, bool], only: str | None) -> None:
    """The last rung. What keeps Python from importing its own modules (a file of PYTHONPATH with the name of one) breaks it."""
    try:
        steps = sibling("numba_steps")
    except BaseException as error:
        said = plain_traceback(error)
        worker.climb("numba-kernel", lambda: {"status": "fail", "output": said}, next(iter(working)))
        return
    steps.climb(worker, working, only)
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


def main(arguments: list[str]) -> None:
    """Climb, and leave without tearing anything down."""
    worker = climbing.started()
    worker.guard("ladder", lambda: climb(worker, arguments))
    worker.emit("done")
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
