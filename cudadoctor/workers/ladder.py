"""The ladder: climbs from loading libcuda to a Numba kernel in the examined interpreter and says on which rung it stopped.

Started as `[python, "-u", "-B", /abs/ladder.py, "--quick"?, "--no-benchmark"?, "--limit-seconds", N?]`. It writes one JSON object a
line, one when a rung begins and one when it ends, so the last line names the rung that crashed or hung. After the device count it
waits for the line `go` on stdin: no context is made before that. Steps of one GPU stop at its first broken rung, other GPUs go on.
An experiment adds `"--stop", RUNG` (the last rung to climb), `"--gpu", UUID` (that GPU alone), `"--step", NAME` (of the Numba kernels
this one), `"--straight"` (from the devices to Numba, which makes its own context) and `"--raise-limits"`.

Everything that a rung prints (device printf, libraries, tracebacks) is caught from descriptors 1 and 2; a failing rung carries it.
It imports nothing of ours and runs on Python 3.8 and later.
"""

from __future__ import annotations

import sys

if __name__ == "__main__" and sys.path and not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
    del sys.path[0]  # this folder: its files must not hide modules of the examined interpreter

import json
import os
import threading
import time

TYPE_CHECKING = False  # only type checkers import typing: the way to cuInit stays light
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

try:
    import ctypes

    NO_CTYPES: str | None = None
except ImportError as error:  # a Python that was built without libffi
    NO_CTYPES = str(error)

HERE = os.path.dirname(os.path.abspath(__file__))
ON_WINDOWS = sys.platform == "win32"
LIBRARY = "nvcuda.dll" if ON_WINDOWS else "libcuda.so.1"
KEPT = 64 * 1024  # bytes of a rung's output that are kept: the head and, being where errors stand, most of the tail
KEPT_HEAD = 16 * 1024
LOADED: dict[str, Any] = {}
# What cuGetErrorName would say, for libraries whose own functions do not answer (the toolkit's stub is one).
KNOWN_ERRORS = {
    3: ("CUDA_ERROR_NOT_INITIALIZED", "initialization error"),
    34: ("CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"),
    100: ("CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"),
    101: ("CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"),
    802: ("CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"),
    803: ("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "system has unsupported display driver / cuda driver combination"),
    804: ("CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", "forward compatibility was attempted on non supported HW"),
    999: ("CUDA_ERROR_UNKNOWN", "unknown error"),
}


READ = ("CUDA_", "NUMBA")  # how variables begin that CUDA and Numba read
MOST_DEVICES = 1024  # slices included; a number beyond it is none


class RungError(Exception):
    """A rung failed, or a function of libcuda returned an error. `output` is what a user would have seen."""

    def __init__(self, output: str, code: int | None = None, name: str | None = None, why: str | None = None) -> None:
        super().__init__(output)
        self.output, self.code, self.name, self.why = output, code, name, why


class Capture:
    """Takes over descriptors 1 and 2 and keeps, within bounds, what is written to them."""

    def __init__(self) -> None:
        self.libc: Any = ctypes.CDLL("ucrtbase" if ON_WINDOWS else None) if NO_CTYPES is None else None
        source, self._sink = os.pipe()
        try:
            import fcntl

            fcntl.fcntl(self._sink, 1031, 1 << 20)  # F_SETPIPE_SZ: a library that prints while it holds the GIL must not block
        except (ImportError, OSError):
            pass
        self._source, self._seen, self._marks = source, bytearray(), 0
        self._news = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()  # refused where no more threads may be started: said where it is read
        os.dup2(self._sink, 1)
        os.dup2(self._sink, 2)

    def _read(self) -> None:
        while True:
            chunk = os.read(self._source, 65536)
            with self._news:
                self._seen += chunk
                if len(self._seen) > KEPT:
                    del self._seen[KEPT_HEAD : len(self._seen) - KEPT + KEPT_HEAD]
                self._news.notify_all()

    def _settle(self) -> None:
        """Flush all buffers and wait until the reader has everything that was written up to now."""
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        if self.libc is not None:
            self.libc.fflush(None)
        self._marks += 1
        mark = b"\0mark %d\0" % self._marks
        os.write(self._sink, mark)
        with self._news:
            self._news.wait_for(lambda: mark in self._seen, timeout=2.0)
            self._seen = self._seen.replace(mark, b"")

    def clear(self) -> None:
        """Forget what was written so far."""
        self._settle()
        with self._news:
            self._seen = bytearray()

    def text(self) -> str:
        """What was written since `clear`."""
        self._settle()
        with self._news:
            return bytes(self._seen).decode("utf-8", "replace")


class Worker:
    """Writes the events, and carries out rungs so that every begin gets its end."""

    def __init__(self, out: int, capture: Capture) -> None:
        self.out, self.capture = out, capture
        self.last_output: str | None = None  # of the rung that failed last
        self.writing = threading.Lock()  # the figures of several GPUs come from a thread each
        self.own = False  # the doctor's own Numba stands in for one that the examined Python has not

    def emit(self, event: str, **fields: Any) -> None:
        """Write one JSON line. A reader that is gone ends the worker."""
        record: dict[str, Any] = {"event": event}
        record.update(fields)
        data = (json.dumps(record) + "\n").encode("ascii")
        try:
            with self.writing:
                while data:
                    data = data[os.write(self.out, data) :]
        except OSError:
            os._exit(0)

    def climb(self, step: str, action: Callable[[], dict[str, Any]], gpu: int | None = None) -> bool:
        """Carry out one rung; what `action` returns joins its end event. True: it held."""
        self.capture.clear()
        self.emit("begin", step=step, gpu=gpu)
        started = time.monotonic()
        result: dict[str, Any] = {"status": "pass", "gpu": gpu, "code": None, "name": None, "output": "", "why": None}
        try:
            result.update(action())
        except RungError as broken:
            result.update(status="fail", code=broken.code, name=broken.name, output=broken.output, why=broken.why)
        except Exception as bug:
            result.update(status="fail", why="the worker itself failed: {}: {}".format(type(bug).__name__, bug))
        if result["status"] == "fail":
            result["output"] = join(self.capture.text(), result["output"])
            self.last_output = result["output"] or result["why"]
        result["seconds"] = round(time.monotonic() - started, 6)
        self.emit("end", step=step, **result)
        return bool(result["status"] == "pass")

    def guard(self, step: str, action: Callable[[], None]) -> None:
        """Carry out something beside the rungs; a bug in it is an event and ends nothing else."""
        try:
            action()
        except Exception as bug:
            self.emit("error", step=step, error="the worker itself failed: {}: {}".format(type(bug).__name__, bug))


def join(*texts: str) -> str:
    """Texts one below the other, empty ones left out."""
    return "\n".join(text.rstrip("\n") for text in texts if text.strip())


class Driver:
    """libcuda by ctypes: `call` raises RungError where a function returns anything but 0."""

    def __init__(self, library: Any) -> None:
        self.library = library

    def call(self, function: str, *arguments: Any) -> None:
        """Call a function of libcuda."""
        entry = getattr(self.library, function, None)
        if entry is None:
            raise RungError("libcuda has no function " + function)
        code = int(entry(*arguments))
        if code != 0:
            name, text = self.explain(code)
            shown = "{} returned {}{}".format(function, code, " ({})".format(name) if name else "")
            raise RungError(shown + (": " + text if text else ""), code, name)

    def value(self, kind: Any, function: str, *arguments: Any) -> Any:
        """Call a function whose first argument receives a value of ctypes type `kind`."""
        result = kind()
        self.call(function, ctypes.byref(result), *arguments)
        return result.value

    def explain(self, code: int) -> list[str | None]:
        """Name and message of an error code, by the library itself where it answers."""
        known = KNOWN_ERRORS.get(code, (None, None))
        answers: list[str | None] = []
        for function, fallback in zip(("cuGetErrorName", "cuGetErrorString"), known):
            text = ctypes.c_char_p()
            entry = getattr(self.library, function, None)
            answered = entry is not None and entry(code, ctypes.byref(text)) == 0 and text.value
            answers.append(text.value.decode("utf-8", "replace") if answered and text.value else fallback)
        return answers

    def tried(self, function: str, *arguments: Any) -> bool:
        """Whether a call worked, where the loss of its value must not lose the rest."""
        try:
            self.call(function, *arguments)
        except RungError:
            return False
        return True

    def ask(self, kind: Any, function: str, *arguments: Any) -> Any:
        """As `value`, but None where the call fails."""
        try:
            return self.value(kind, function, *arguments)
        except RungError:
            return None

    def attribute(self, number: int, device: int) -> Any:
        """A device attribute (CU_DEVICE_ATTRIBUTE_...), None where it is not known."""
        return self.ask(ctypes.c_int, "cuDeviceGetAttribute", ctypes.c_int(number), ctypes.c_int(device))


def sibling(name: str) -> Any:
    """A module of this folder, loaded by its path: the folder itself is not importable."""
    if name in LOADED:
        return LOADED[name]
    import importlib.util

    spec = importlib.util.spec_from_file_location("cudadoctor_" + name, os.path.join(HERE, name + ".py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    LOADED[name] = module
    return module


# ------------------------------------------------------------------ rungs without a context
def open_library() -> Any:
    """The driver's library."""
    return sibling("windows_library").load(LIBRARY) if ON_WINDOWS else ctypes.CDLL(LIBRARY)


def load_library(found: dict[str, Any]) -> dict[str, Any]:
    """Rung libcuda: the loader finds the driver's library. `found["driver"]` receives it."""
    if NO_CTYPES is not None:
        raise RungError("ImportError: " + NO_CTYPES, why="this Python has no ctypes")
    try:
        library = open_library()
    except OSError as refused:
        raise RungError(str(refused))
    found["driver"] = Driver(library)
    files = sibling("loaded_files")
    path: str | None = sibling("windows_library").path_of(library) if ON_WINDOWS else files.loaded_file(library)
    return {"path": path, "library": files.version_in(path)}


def initialise(driver: Driver) -> dict[str, Any]:
    """Rung init: cuInit, the first call that talks to the kernel driver."""
    driver.call("cuInit", ctypes.c_uint(0))
    return {}


def count_devices(driver: Driver, found: dict[str, Any]) -> dict[str, Any]:
    """Rung devices: at least one device is visible. `found["devices"]` receives their descriptions."""
    version = driver.ask(ctypes.c_int, "cuDriverGetVersion")
    count = int(driver.value(ctypes.c_int, "cuDeviceGetCount"))
    if not 0 < count <= MOST_DEVICES:
        raise RungError("cuDeviceGetCount returned %d devices" % count)
    devices = found["devices"] = [sibling("gpu_steps").describe(driver, index) for index in range(count)]
    return {"cuda": "{}.{}".format(version // 1000, version % 1000 // 10) if version else None, "devices": devices}


# ------------------------------------------------------------------ the whole climb
def told_to_go() -> bool:
    """Wait for the line `go` on stdin. Its end, or anything else, means: stop here."""
    line = b""
    try:
        while not line.endswith(b"\n"):
            byte = os.read(0, 1)
            if not byte:
                break
            line += byte
    except OSError:
        return False
    return line.strip() == b"go"


def option(arguments: list[str], name: str) -> str | None:
    """The word after an option; None where it is not given."""
    return arguments[arguments.index(name) + 1] if name in arguments else None


def climb_gpus(worker: Worker, driver: Driver, devices: list[dict[str, Any]], arguments: list[str]) -> dict[int, bool]:
    """Context, memory and kernel of each GPU, then the figures of all at once. The GPUs whose kernel computed, and whether as a guest."""
    stop = option(arguments, "--stop")
    steps_of = sibling("gpu_steps")
    watching = sibling("bench_watch")
    library = watching.library() if "--busy" not in arguments else None
    working, measured = {}, []
    for described in devices:
        index = described["index"]
        gpu = steps_of.Gpu(driver, described, RungError)
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
        worker.guard("benchmark", lambda: sibling("bench").measure_all(worker, sibling, driver, measured))
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
    try:
        with open("/etc/ld.so.preload", encoding="utf-8", errors="replace") as file:
            listed = file.read(4096).replace(":", " ").split()
    except OSError:
        listed = []
    return listed + os.environ.get("LD_PRELOAD", "").replace(":", " ").split()


def limit_life(seconds: float) -> threading.Timer:
    """End the process after so many seconds, whatever a library is waiting for."""
    timer = threading.Timer(seconds, os._exit, (124,))
    timer.daemon = True
    timer.start()
    return timer


def follow_parent(libc: Any) -> None:
    """Ask the kernel to end this process with its parent. Where it cannot, the parent's own limits must do."""
    try:
        libc.prctl(1, 9, 0, 0, 0)  # PR_SET_PDEATHSIG, SIGKILL
    except (AttributeError, OSError):
        pass


def why_refused(worker: Worker, report: str | None) -> None:
    """What kept this process from the driver's library, or from its device nodes; Windows has neither in a known place."""
    if report is not None and not ON_WINDOWS:
        worker.guard("refused", lambda: getattr(sibling("loaded_files"), report)(worker.emit, sibling("refused_places")))


def climb(worker: Worker, arguments: list[str]) -> None:
    """All rungs, as far as they hold."""
    quick, worker.own = "--quick" in arguments, "--own" in arguments
    stop, limit = option(arguments, "--stop"), float(option(arguments, "--limit-seconds") or 0)
    timer = limit_life(limit) if limit else None
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
    if not told_to_go():
        return
    if limit:
        limit_life(limit)
    gpu = option(arguments, "--gpu")
    devices = [described for described in found["devices"] if gpu in (None, described["uuid"])]
    if "--straight" in arguments:
        working = {described["index"]: False for described in devices}
    else:
        working = climb_gpus(worker, driver, devices, arguments)
    if working and stop in (None, "numba-kernel"):
        climb_numba(worker, working, option(arguments, "--step"))  # Numba is imported here and no earlier


def climb_numba(worker: Worker, working: dict[int, bool], only: str | None) -> None:
    """The last rung. What keeps Python from importing its own modules (a file of PYTHONPATH with the name of one) breaks it."""
    try:
        steps = sibling("numba_steps")
        steps.found = sibling("numba_found")
    except BaseException as error:
        said = plain_traceback(error)
        worker.climb("numba-kernel", lambda: {"status": "fail", "output": said}, next(iter(working)))
        return
    steps.climb(worker, working, only)
    if worker.last_output:
        said = worker.last_output
        worker.guard("installed", lambda: sibling("installed_files").report(worker.emit, sibling("cudadoctor_lines").listing, said))


def plain_traceback(error: BaseException) -> str:
    """As the module traceback writes it, which may be the one that is broken."""
    lines, at = ["Traceback (most recent call last):"], error.__traceback__
    while at is not None:
        code = at.tb_frame.f_code
        lines.append('  File "{}", line {}, in {}'.format(code.co_filename, at.tb_lineno, code.co_name))
        at = at.tb_next
    return "\n".join([*lines, "{}: {}".format(type(error).__name__, error)])


def started() -> Worker:
    """The descriptors set up: events go to what was descriptor 1, everything else is caught."""
    out, errors = os.dup(1), os.dup(2)
    try:
        import faulthandler

        faulthandler.enable(errors)  # a crash inside a library shows its Python stack to the parent
    except (ImportError, OSError, RuntimeError, ValueError):
        pass
    capture = Capture()
    follow_parent(capture.libc)
    return Worker(out, capture)


def main(arguments: list[str]) -> None:
    """Climb, and leave without tearing anything down."""
    worker = started()
    worker.guard("ladder", lambda: climb(worker, arguments))
    worker.emit("done")
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
