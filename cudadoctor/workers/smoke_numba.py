"""Further steps of the smoke test that need Numba: copies that Numba makes by itself, streams, and what a timer really measures.

Loaded by smoke.py by its path, in a process of its own for each GPU. Sums of single precision are compared within 1e-4 of one; integers
exactly. What is slow here is a remark and never a fault.
"""

from __future__ import annotations

import time

from cudadoctor_lines import TYPE_CHECKING, sibling

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

RungError, UnfitError = sibling("climbing").RungError, sibling("bench_card").UnfitError
ADDED = 20_000_000  # int32
ARRAYS, LENGTH = 10, 4_000_000  # float32, one stream each: with less, the calls themselves take longer than the work
BLOCKS, THREADS = 128, 256
TOLERANCE = 1e-4
OVERLAP = 0.9  # of the time in one stream: below it the streams ran side by side
SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
PYTHON_UP_TO = 100_000  # elements that plain Python is given: it takes a tenth of a microsecond for each
REPEATS = 3

cuda: Any = None
math: Any = None
np: Any = None
rung: Any = None  # the module of the ladder's last rung: its import and its kernels are used here too


# ------------------------------------------------------------------ kernels
def _partial_sums(values: Any, sums: Any) -> None:
    shared = cuda.shared.array(THREADS, dtype=np.float32)
    place = cuda.threadIdx.x
    total = np.float32(0.0)
    for index in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        total += values[index]
    shared[place] = total
    cuda.syncthreads()
    half = THREADS // 2
    while half > 0:
        if place < half:
            shared[place] += shared[place + half]
        cuda.syncthreads()
        half //= 2
    if place == 0:
        sums[cuda.blockIdx.x] = shared[0]


def _sum_of_sums(sums: Any, total: Any) -> None:
    total[0] = 0.0
    for value in sums:
        total[0] += value


def _divide(values: Any, total: Any) -> None:
    for index in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        values[index] /= total[0]


# ------------------------------------------------------------------ steps
def prepare() -> None:
    """What can be done before there is a context."""
    steps = sibling("numba_steps")
    if steps.ahead() is None:
        steps.meet_driver()


def carry_out(worker: Any, gpu: int, *, detailed: bool, alone: bool = False) -> None:
    """All steps; `alone`: only the lesson. Without Numba there are none: its absence was told before."""
    global cuda, math, np, rung
    rung = sibling("numba_steps")
    if rung.ahead() is not None:
        return
    cuda, math, np = rung.cuda, rung.math, rung.np
    steps: list[tuple[str, Callable[[], str | None]]] = [("copies made by Numba", copies), ("ten streams", streams)]
    for name, action in steps if not alone else ():
        if not sibling("smoke").carry_out(worker, gpu, name, "numba-kernel", lambda action=action: on_gpu(gpu, action)):
            return
    if detailed or alone:
        with cuda.gpus[gpu]:
            worker.guard("lesson", lambda: lesson(worker, gpu))


def on_gpu(gpu: int, action: Callable[[], str | None]) -> str | None:
    import traceback

    try:
        with cuda.gpus[gpu]:
            return action()
    except (UnfitError, rung.WrongError):
        raise
    except Exception:
        raise RungError("\n" + traceback.format_exc())


def fastest(work: Callable[[], Any]) -> float:
    """Seconds of the fastest of some tries, after one that does not count."""
    work()
    seconds = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def copies() -> str | None:
    """The vector sum with arrays of the host, which Numba copies there and back, and with arrays that stay on the GPU."""
    count = fitting(ADDED, 12)
    kernel = cuda.jit(rung._add)
    left, right = np.arange(count, dtype=np.int32), np.arange(count, dtype=np.int32) * 3
    result = np.zeros(count, dtype=np.int32)
    there = [cuda.to_device(left), cuda.to_device(right), cuda.device_array(count, dtype=np.int32)]

    def implicit() -> None:
        kernel[rung.blocks(count), THREADS](left, right, result)
        cuda.synchronize()

    def explicit() -> None:
        kernel[rung.blocks(count), THREADS](*there)
        cuda.synchronize()

    by_numba, by_hand = fastest(implicit), fastest(explicit)
    for found, name in ((result, "implicit copies"), (there[2].copy_to_host(), "explicit copies")):
        rung.compare(found, left * 4, 0, "kernel add with {}: ".format(name))
    return "{:.1f} ms with the host's arrays: Numba copies all three there and back; {:.2f} ms with arrays that stay on the GPU".format(
        by_numba * 1e3, by_hand * 1e3
    )


def fitting(count: int, size: int) -> int:
    """As many elements as half of the free memory holds."""
    free = cuda.current_context().get_memory_info()[0]
    found = min(count, int(free) // 2 // size)
    if found < 1000:
        raise UnfitError("too little free memory: {:.0f} MB".format(free / 1e6))
    return found


def streams() -> str | None:
    """a / sum(a) of ten arrays: in a stream each, in one stream, and in the default stream, with pinned memory."""
    length = fitting(LENGTH, 4 * ARRAYS)
    kernels = [cuda.jit(kernel) for kernel in (_partial_sums, _sum_of_sums, _divide)]
    ramp = np.linspace(0.0, 1.0, length, dtype=np.float32)
    plain = [ramp * np.float32(1.0 + number) + np.float32(0.5) for number in range(ARRAYS)]
    pinned = [cuda.pinned_array(length, dtype=np.float32) for _ in plain]
    ten, single = [cuda.stream() for _ in plain], cuda.stream()

    def normalise(array: Any, stream: Any) -> None:
        values = cuda.to_device(array, stream=stream)
        sums = cuda.device_array(BLOCKS, dtype=np.float32, stream=stream)
        total = cuda.device_array(1, dtype=np.float32, stream=stream)
        kernels[0][BLOCKS, THREADS, stream](values, sums)
        kernels[1][1, 1, stream](sums, total)
        kernels[2][BLOCKS, THREADS, stream](values, total)
        values.copy_to_host(array, stream=stream)

    def all_in(chosen: list[Any], fresh: bool = False) -> float:
        for array, source in zip(pinned, plain) if fresh else ():
            array[:] = source
        cuda.synchronize()
        begin, ends = cuda.event(timing=True), [cuda.event(timing=True) for _ in chosen]
        begin.record(chosen[0])
        for array, stream, end in zip(pinned, chosen, ends):
            normalise(array, stream)
            end.record(stream)
        cuda.synchronize()
        return float(max(cuda.event_elapsed_time(begin, end) for end in ends))

    times = {}
    for name, chosen in (("one stream", [single] * ARRAYS), ("the default stream", [cuda.default_stream()] * ARRAYS), ("ten streams", ten)):
        all_in(chosen, fresh=True)
        check_sums(pinned, name)
        times[name] = min(all_in(chosen) for _ in range(REPEATS))
    with cuda.pinned(plain[0]), single.auto_synchronize():
        normalise(plain[0], single)
    check_sums(plain[:1], "auto_synchronize")
    gain = times["ten streams"] / times["one stream"]
    words = ", ".join("{:.2f} ms in {}".format(value, name) for name, value in times.items())
    found = "copies and kernels overlapped" if gain < OVERLAP else "no gain from streams here: one stream keeps the way to the GPU as busy"
    return "{}: {}; {}".format(words, found, early_return(length))


def check_sums(arrays: list[Any], name: str) -> None:
    """A normalised array adds up to one."""
    for number, array in enumerate(arrays):
        total = float(array.sum(dtype=np.float64))
        if not abs(total - 1.0) < TOLERANCE:
            words = "normalise in {}: array {} adds up to {:.6f}, 1 is right within {:g}"
            raise rung.WrongError(words.format(name, number, total, TOLERANCE))


def early_return(length: int) -> str:
    """How long copy_to_host holds the caller: it returns early only with a stream and pinned memory."""
    stream, values = cuda.stream(), cuda.device_array(2 * length, dtype=np.float32)
    held = []
    for target in (cuda.pinned_array(2 * length, dtype=np.float32), np.empty(2 * length, dtype=np.float32)):
        values.copy_to_host(target, stream=stream)
        stream.synchronize()
        started = time.perf_counter()
        values.copy_to_host(target, stream=stream)
        held.append(time.perf_counter() - started)
        stream.synchronize()
    return "copy_to_host with a stream returned after {:.2f} ms into pinned memory, after {:.2f} ms into ordinary memory".format(
        held[0] * 1e3, held[1] * 1e3
    )


# ------------------------------------------------------------------ the seeds' lesson
def lesson(worker: Any, gpu: int) -> None:
    """NumPy, the GPU with both copies, the kernel alone, and the launch call alone, for growing sizes."""
    free = cuda.current_context().get_memory_info()[0]
    for name, kernel_of, on_cpu, operands in (
        ("vector add", rung._add, lambda a, b: a + b, 2),
        ("exp", rung._exponential, lambda a: np.exp(a), 1),
    ):
        kernel = cuda.jit(kernel_of)
        first = None
        for size in SIZES:
            if size * 16 > free:
                break
            arrays = [np.linspace(0.0, 1.0, size).astype(np.float32) for _ in range(operands)]
            there = [cuda.to_device(array) for array in arrays]
            result = cuda.device_array(size, dtype=np.float32)
            if first is None:
                started = time.perf_counter()
                kernel[rung.blocks(size), THREADS](*there, result)
                cuda.synchronize()
                first = time.perf_counter() - started
            took = {**timings(kernel, arrays, there, result, on_cpu), **by_loops(name, arrays)}
            worker.emit("lesson", gpu=gpu, step=name, elements=size, first_us=round(first * 1e6, 1), **took)


def _add_loop(first: Any, second: Any, result: Any) -> None:
    for index in range(result.size):
        result[index] = first[index] + second[index]


def _exp_loop(values: Any, result: Any) -> None:
    for index in range(result.size):
        result[index] = math.exp(values[index])


COMPILED: dict[str, Any] = {}  # the loops, compiled for the CPU once


def by_loops(name: str, arrays: list[Any]) -> dict[str, float | None]:
    """Microseconds of a loop in plain Python, and compiled for the CPU: what `@jit(target_backend="cuda")` gives where it is accepted."""
    loop: Any = _add_loop if name == "vector add" else _exp_loop
    result = np.empty_like(arrays[0])
    plain = compiled = None
    if result.size <= PYTHON_UP_TO:
        started = time.perf_counter()
        loop(*arrays, result)
        plain = round((time.perf_counter() - started) * 1e6, 2)
    try:
        import numba

        on_cpu = COMPILED.setdefault(name, numba.njit(loop))  # compiled at its first call
        compiled = round(fastest(lambda: on_cpu(*arrays, result)) * 1e6, 2)
    except Exception:  # a Numba that cannot compile for the CPU is no matter of the GPU
        pass
    return {"python_us": plain, "compiled_us": compiled}


def timings(kernel: Any, arrays: list[Any], there: list[Any], result: Any, on_cpu: Callable[..., Any]) -> dict[str, float]:
    """Microseconds of the four ways to take the time."""
    size = result.size
    grid = rung.blocks(size)

    def whole() -> None:
        sent = [cuda.to_device(array) for array in arrays]
        kernel[grid, THREADS](*sent, result)
        result.copy_to_host()

    def launch() -> None:
        kernel[grid, THREADS](*there, result)

    launch_seconds = fastest(launch)
    cuda.synchronize()
    begin, end = cuda.event(timing=True), cuda.event(timing=True)
    kernels = []
    for _ in range(REPEATS + 2):
        begin.record()
        launch()
        end.record()
        end.synchronize()
        kernels.append(cuda.event_elapsed_time(begin, end) * 1e3)
    return {
        "cpu_us": round(fastest(lambda: on_cpu(*arrays)) * 1e6, 2),
        "gpu_us": round(fastest(whole) * 1e6, 2),
        "kernel_us": round(min(kernels), 2),
        "launch_us": round(launch_seconds * 1e6, 2),
    }
