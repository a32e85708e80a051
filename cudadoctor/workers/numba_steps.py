"""The last rung: kernels written with Numba run on each GPU, and their results are checked.

Loaded by ladder.py by its path; a kernel starts after the driver's own compiler was seen to work, and Numba may be imported ahead. Whether
its simulator is on is asked before any kernel starts: ten million simulated threads do not end. Four small kernels are compiled once
and run on every GPU: device printf, double precision in place, 32-bit integers, and `exp`, which needs libdevice.
"""

from __future__ import annotations

import functools
import importlib
import sys
import time
import traceback
import warnings

from cudadoctor_lines import TYPE_CHECKING, sibling

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

STEP = "numba-kernel"
# What Numba says where a part of the toolkit is nowhere.
NO_COMPILER = ("DynamicLibNotFoundError", "NvvmSupportError", "libNVVM cannot be found", "libdevice", "NVRTC")
PRINTED = 16
INCREMENTED = 10_000_000  # float64, 80 MB
ADDED = 20_000_000  # int32, three arrays of 80 MB
EXPONENTS = 1_000_000  # float32
CHUNK = 1 << 20  # elements that are checked at once: temporaries stay in the CPU's cache
GUEST_SHARE = 10
THREADS = 256
EXP_ERROR = 1e-6  # relative; two units in the last place of float32 are 2.4e-7
WHY_LENGTH = 300  # characters; the whole traceback is in the rung's output

found, climbing = sibling("numba_found"), sibling("climbing")
WrongError, UnfitError = climbing.WrongError, climbing.UnfitError
# Set after the import: Numba looks the names that a kernel uses up in its module.
cuda: Any = None
math: Any = None
np: Any = None


class UnseenError(Exception):
    """A step ran, and what it did cannot be seen from here: nothing is said of it."""


# ------------------------------------------------------------------ kernels
def _print_thread() -> None:
    print("thread", cuda.threadIdx.x + cuda.blockIdx.x * cuda.blockDim.x)


def _increment(values: Any) -> None:
    index = cuda.threadIdx.x + cuda.blockIdx.x * cuda.blockDim.x
    if index < values.size:
        values[index] += 1.0


def _add(first: Any, second: Any, result: Any) -> None:
    index = cuda.threadIdx.x + cuda.blockIdx.x * cuda.blockDim.x
    if index < result.size:
        result[index] = first[index] + second[index]


def _exponential(values: Any, result: Any) -> None:
    index = cuda.threadIdx.x + cuda.blockIdx.x * cuda.blockDim.x
    if index < result.size:
        result[index] = math.exp(values[index])


class Smoke:
    """The smoke steps. Kernels and host memory are made once and serve every GPU."""

    def __init__(self, printed: Callable[[], str], only: str | None = None) -> None:
        self.printed = printed  # what appeared on descriptor 1 since the step began
        kernels = (_print_thread, _increment, _add, _exponential)
        self.print_thread, self.increment_kernel, self.add_kernel, self.exp_kernel = (cuda.jit(kernel) for kernel in kernels)
        self.host: Any = None
        self.fewer = 1  # a guest on a GPU where another computes takes so many times fewer elements: 40 MB in all
        steps: tuple[tuple[str, Callable[[], None]], ...] = (
            ("device print", self.device_print),
            ("increment", self.increment),
            ("vector add", self.vector_add),
            ("float32 exp", self.float32_exp),
        )
        self.steps = steps if only is None else tuple(step for step in steps if step[0] == only) or steps[:1]

    def array(self, kind: Any, count: int) -> Any:
        """The shared host memory, seen as `count` elements of a type."""
        if self.host is None:
            self.host = np.empty(max(8 * INCREMENTED, 4 * ADDED, 4 * EXPONENTS), dtype=np.uint8)
        return self.host[: count * np.dtype(kind).itemsize].view(kind)

    def need(self, size: int) -> None:
        """Skip a step whose arrays cannot fit, with room to spare for what is freed later."""
        free = cuda.current_context().get_memory_info()[0]
        if free < size + size // 4:
            raise UnfitError("needs {} MB of device memory, {:.0f} MB are free".format(size // 1000000, free / 1e6))

    def device_print(self) -> None:
        """Sixteen threads print their index, as their owner would see it."""
        self.print_thread[4, 4]()
        cuda.synchronize()
        lines = set(self.printed().splitlines())
        missing = [index for index in range(PRINTED) if "thread {}".format(index) not in lines]
        if len(missing) == PRINTED and sys.platform == "win32":
            raise UnseenError("Windows' driver has a C library of its own, whose output need not pass through this process's descriptors")
        if missing:
            raise WrongError("{} of {} threads printed nothing".format(len(missing), PRINTED))

    def increment(self) -> None:
        """Ten million doubles, each one larger afterwards."""
        count = INCREMENTED // self.fewer
        self.need(8 * count)
        values = self.array(np.float64, count)
        for first, last in chunks(count):
            values[first:last] = halves(first, last)
        on_device = cuda.to_device(values)
        self.increment_kernel[blocks(count), THREADS](on_device)
        on_device.copy_to_host(values)
        for first, last in chunks(count):
            compare(values[first:last], halves(first + 2, last + 2), first)

    def vector_add(self) -> None:
        """Twenty million integers of each of two vectors."""
        count = ADDED // self.fewer
        self.need(3 * 4 * count)
        values = self.array(np.int32, count)
        for first, last in chunks(count):
            values[first:last] = np.arange(first, last, dtype=np.int32)
        left = cuda.to_device(values)
        np.multiply(values, 3, out=values)
        right = cuda.to_device(values)
        result = cuda.device_array(count, dtype=np.int32)
        self.add_kernel[blocks(count), THREADS](left, right, result)
        result.copy_to_host(values)
        for first, last in chunks(count):
            compare(values[first:last], np.arange(4 * first, 4 * last, 4, dtype=np.int32), first)

    def float32_exp(self) -> None:
        """The exponential function in single precision against the CPU's in double precision."""
        self.need(2 * 4 * EXPONENTS)
        values = np.linspace(-10.0, 10.0, EXPONENTS).astype(np.float32)
        result = cuda.device_array(EXPONENTS, dtype=np.float32)
        self.exp_kernel[blocks(EXPONENTS), THREADS](cuda.to_device(values), result)
        found = self.array(np.float32, EXPONENTS)
        result.copy_to_host(found)
        expected = np.exp(values.astype(np.float64))
        error = np.abs(found - expected) / expected
        if not bool(error.max() < EXP_ERROR):  # a NaN is not below it either
            raise WrongError("relative error {:.2g}, {:g} is allowed".format(float(error.max()), EXP_ERROR))


def blocks(count: int) -> int:
    """Blocks of THREADS threads that cover `count` elements."""
    return (count + THREADS - 1) // THREADS


def chunks(count: int) -> list[tuple[int, int]]:
    """Ranges of at most CHUNK elements."""
    return [(first, min(first + CHUNK, count)) for first in range(0, count, CHUNK)]


def halves(first: int, last: int) -> Any:
    """The half of each of these numbers, as float64."""
    return np.arange(0.5 * first, 0.5 * last, 0.5)


def compare(found: Any, expected: Any, offset: int, what: str = "") -> None:
    if not np.array_equal(found, expected):
        wrong = int(np.flatnonzero(found != expected)[0])
        raise WrongError("{}element {} is {}, {} is right".format(what, offset + wrong, found[wrong], expected[wrong]))


# ------------------------------------------------------------------ the rung
def climb(worker: Any, gpus: dict[int, bool], only: str | None = None) -> None:
    """Rung numba-kernel of each of these GPUs; True: as a guest. Numba's import counts to the first of them, unless it came ahead.

    `only`: the one step to carry out, the first where it is none of them.
    """
    smoke: list[Smoke] = []
    first = next(iter(gpus))
    for gpu, guest in gpus.items():
        if gpu == first:
            worker.climb(STEP, lambda gpu=gpu, guest=guest: begin(worker, smoke, only) or on_gpu(worker, smoke[0], gpu, guest), gpu)
        elif smoke:
            worker.climb(STEP, lambda gpu=gpu, guest=guest: on_gpu(worker, smoke[0], gpu, guest), gpu)
        else:
            worker.climb(STEP, lambda: {"status": "skip", "why": "Numba did not start, see GPU {}".format(first)}, gpu)
    if smoke and only is None:
        worker.emit("numba", **found.state(cuda, with_components=True))


def begin(worker: Any, smoke: list[Smoke], only: str | None) -> dict[str, Any] | None:
    """Import Numba and make the steps. Returns the rung's outcome if it ends here; where the doctor's own Numba stands in and has no
    compiler, that is nothing about the machine."""
    ended = ahead()
    try:
        if ended is None:
            worker.emit("numba", **found.state(cuda))
            if found.simulated(sys.modules["numba"], cuda):
                ended = {"status": "fail", "output": found.simulator_text()}
            else:
                smoke.append(Smoke(worker.capture.text, only))
                if worker.own:
                    cuda.compile_ptx(lambda: None, ())
    except BaseException:
        ended = failed()
    if worker.own and ended is not None and any(word in ended.get("output", "") for word in NO_COMPILER):
        del smoke[:]
        return {"status": "skip", "why": "the doctor's own Numba found no compiler: its extra cu12 or cu13 brings one"}
    return ended


def failed(after: str = "") -> dict[str, Any]:
    """The rung's outcome where something was raised: a broken package may raise anything, SystemExit too."""
    return {"status": "fail", "output": traceback.format_exc() + after}


@functools.lru_cache(maxsize=None)
def ahead() -> dict[str, Any] | None:
    """Import Numba, once. Returns the rung's outcome if it ends here."""
    global cuda, math, np
    try:
        found.stand_as_user()
        found.as_configured()
        importlib.import_module("numba")
        from numba import cuda  # first: what it lacks it says itself

        quiet()
        import math

        import numpy as np
    except ModuleNotFoundError as error:
        if error.name != "numba" or "numba" in sys.modules or found.installed("numba"):
            return failed()
        left = found.remains()
        return {"status": "skip", "why": "no Numba here"} if left is None else failed(left + "\n")
    except BaseException:
        return failed()
    return None


@functools.lru_cache(maxsize=None)
def meet_driver() -> None:
    """Let Numba initialise the driver, and compile a kernel without a context: what compiling imports and loads is there when the first
    kernel starts, and no figure that is measured meanwhile is disturbed. What it says if it cannot it says again where a kernel starts.
    """
    try:
        line = sys.modules["numba"].float32[::1]
        cuda.compile_ptx(_exponential, (line, line), cc=cuda.gpus[0].compute_capability)
    except BaseException:
        pass


def quiet() -> None:
    """Leave out the advice about small grids: sixteen threads are enough to print sixteen lines."""
    for module in ("numba.core.errors", "numba.cuda.core.errors"):
        category = getattr(sys.modules.get(module), "NumbaPerformanceWarning", None)
        if category is not None:
            warnings.simplefilter("ignore", category)


def on_gpu(worker: Any, smoke: Smoke, gpu: int, guest: bool) -> dict[str, Any]:
    """All steps on one GPU. A step that raises ends them: what follows would fail the same way."""
    outputs: list[str] = []
    raised = False
    passed = 0
    smoke.fewer = GUEST_SHARE if guest else 1
    for name, step in smoke.steps:
        if raised:
            worker.emit("smoke", gpu=gpu, step=name, status="skip", why="an earlier step failed", seconds=None)
            continue
        worker.capture.clear()
        started = time.monotonic()
        status, why = "pass", None
        try:
            with cuda.gpus[gpu]:
                step()
            passed += 1
        except UnfitError as error:
            status, why = "skip", str(error)
        except UnseenError:
            continue
        except WrongError as error:
            status, why = "fail", str(error)
            outputs.append("{}: {}".format(name, error))
        except BaseException as error:
            status, why, raised = "fail", one_line(error), True
            outputs.append(worker.capture.text() + traceback.format_exc())
        worker.emit("smoke", gpu=gpu, step=name, status=status, why=why, seconds=round(time.monotonic() - started, 6))
    worker.capture.clear()
    if outputs or not passed:
        return {"status": "fail", "output": "\n".join(outputs), "why": None if outputs else "no step could be carried out"}
    return {"status": "pass"}


def one_line(error: BaseException) -> str:
    """An exception as its traceback ends, on one line."""
    return " ".join("".join(traceback.format_exception_only(type(error), error)).split())[:WHY_LENGTH]
