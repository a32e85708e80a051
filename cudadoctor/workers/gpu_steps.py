"""One GPU by libcuda alone: its description, a context, memory copied there and back, and a kernel that the driver itself compiles.

Loaded by ladder.py by its path. No compiler, toolkit or Python package is involved, so a failure here is the driver's or the GPU's.
"""

from __future__ import annotations

import ctypes
import time

from cudadoctor_lines import TYPE_CHECKING, sibling

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

RungError = sibling("climbing").RungError
COPIED = 4 << 20  # bytes of the memory rung
COMPUTE_MODE = 20  # a device attribute; 0 where several processes may have a context (cuda.h)
ROOM = 2 << 30  # bytes that are free where another context is made before the last is gone
COUNT = 8192  # integers that the kernel computes
THREADS = 128
REPEATED = 2  # times that a wrong result is looked at again
FACTOR, SHIFT = 2654435761, 3


def target_for(capability: str | None) -> str:
    """The PTX target that the driver can compile for a GPU of this compute capability: the oldest of its family, because newer GPUs accept
    older targets and never the reverse."""
    major = int((capability or "5.0").split(".")[0])
    if major >= 5:
        return "sm_50"
    return "sm_30" if major >= 3 else "sm_20"


def ptx(target: str) -> str:
    """The kernel, for the driver's compiler. PTX 6.0 is read by all drivers from branch 384 on."""
    emitter = sibling("bench_ptx")
    body = f"""
{emitter.jump("ge.u32", "%r4", "%r6", "DONE")}
{emitter.place("%rd4", "%rd1", "%r4", 4, "%rd3")}
    mul.lo.s32 %r7, %r4, -1640531535;
    shr.u32 %r8, %r4, 3;
    xor.b32 %r7, %r7, %r8;
    st.global.u32 [%rd4], %r7;
DONE:"""
    return str(emitter.head("6.0", target) + emitter.entry("fill", "p_out:u64:%rd1:%rd1 p_count:u32:%r6", body))


def repeated(wrong: Callable[[], bool], times: int = REPEATED) -> str:
    """What was wrong is looked at again: chance, or a GPU that computes wrong."""
    again = sum(wrong() for _ in range(times))
    return "{} when repeated ({} of {} times)".format("wrong again" if again else "right", again or times, times)


def raises(action: Callable[[], object]) -> bool:
    try:
        action()
    except Exception:
        return True
    return False


def uuid_of(driver: Any, device: int) -> str | None:
    """The UUID as nvidia-smi prints it. Only for a slice of a GPU do the two functions differ."""
    answers = []
    for function in ("cuDeviceGetUuid", "cuDeviceGetUuid_v2"):
        raw = (ctypes.c_ubyte * 16)()
        if driver.tried(function, raw, ctypes.c_int(device)):
            answers.append(bytes(raw))
    if not answers:
        return None
    digits = answers[-1].hex()
    parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
    return ("MIG-" if answers[0] != answers[-1] else "GPU-") + "-".join(parts)


def describe(driver: Any, index: int) -> dict[str, Any]:
    """What libcuda says about one visible device, without a context."""
    device = int(driver.value(ctypes.c_int, "cuDeviceGet", ctypes.c_int(index)))
    name, address = ctypes.create_string_buffer(256), ctypes.create_string_buffer(32)
    named = driver.tried("cuDeviceGetName", name, ctypes.c_int(256), ctypes.c_int(device))
    placed = driver.tried("cuDeviceGetPCIBusId", address, ctypes.c_int(32), ctypes.c_int(device))
    major, minor = driver.attribute(75, device), driver.attribute(76, device)
    return {
        "index": index,
        "name": name.value.decode("utf-8", "replace") if named else None,
        "uuid": uuid_of(driver, device),
        "address": address.value.decode("ascii", "replace").lower() if placed else None,
        "compute_capability": None if major is None or minor is None else "{}.{}".format(major, minor),
        "memory_total_bytes": driver.ask(ctypes.c_size_t, "cuDeviceTotalMem_v2", ctypes.c_int(device)),
        "memory_free_bytes": None,
    }


class Gpu:
    """One visible device. Its primary context is kept: where one process climbs alone, Numba later uses the same one."""

    def __init__(self, driver: Any, described: dict[str, Any]) -> None:
        self.driver, self.index = driver, described["index"]
        self.address: str | None = described["address"]
        self.capability: str | None = described["compute_capability"]
        self.device = ctypes.c_int(0)
        self.handle: Any = None  # the context
        self.context_seconds: float | None = None
        self.is_guest = False  # another process computes there
        self.has_room_for_one = False  # process with a context

    def context(self) -> dict[str, Any]:
        """Rung context: the device's primary context can be made and used."""
        self.device = ctypes.c_int(self.driver.value(ctypes.c_int, "cuDeviceGet", ctypes.c_int(self.index)))
        context = ctypes.c_void_p()
        started = time.perf_counter()
        self.driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self.device)
        self.context_seconds = time.perf_counter() - started
        self.handle = context
        self.driver.call("cuCtxSetCurrent", context)
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.driver.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        # A mode that nobody tells may be an exclusive one.
        self.has_room_for_one = self.driver.attribute(COMPUTE_MODE, self.device.value) != 0 or free.value < ROOM
        return {"memory_free_bytes": free.value}

    def memory(self) -> dict[str, Any]:
        """Rung memory: what is copied to the device comes back unchanged."""
        pattern = bytes(range(251)) * (COPIED // 251 + 1)  # 251: no power of two, so a page in the wrong place shows
        sent = ctypes.create_string_buffer(pattern[:COPIED], COPIED)
        size = ctypes.c_size_t(COPIED)
        place = self.driver.room(COPIED)

        def look() -> str | None:
            self.driver.call("cuMemcpyHtoD_v2", place, sent, size)
            back = self.driver.fetch(place, ctypes.create_string_buffer(COPIED))
            if back.raw == sent.raw:
                return None
            wrong = next(index for index, pair in enumerate(zip(sent.raw, back.raw)) if pair[0] != pair[1])
            return "{} bytes copied to the GPU and back differ, first at byte {}".format(COPIED, wrong)

        return self.checked(look, place)

    def checked(self, look: Callable[[], str | None], place: Any) -> dict[str, Any]:
        """Take a look, whose answer is None where all is right, and free the memory."""
        try:
            said = look()
            if said is not None:
                raise RungError("{}; {}".format(said, repeated(lambda: look() is not None)))
        finally:
            self.driver.tried("cuMemFree_v2", place)
        return {}

    def kernel(self) -> dict[str, Any]:
        """Rung ptx-kernel: a kernel compiled by the driver, whose messages join the error, computes what Python computes."""
        try:
            module = self.driver.compiled(ptx(target_for(self.capability)))
        except RungError as error:
            if error.log:
                error.output = "{}\n{}".format(error.output, error.log)
            raise
        fill = self.driver.kernel(module, "fill")
        size = ctypes.c_size_t(4 * COUNT)
        place, count = self.driver.room(4 * COUNT), ctypes.c_uint32(COUNT)
        arguments = (ctypes.c_void_p * 2)(ctypes.addressof(place), ctypes.addressof(count))

        def look() -> str | None:
            back = (ctypes.c_uint32 * COUNT)()
            self.driver.call("cuMemcpyHtoD_v2", place, back, size)  # zeros: what the memory held before must not pass for a result
            self.driver.launch(fill, COUNT // THREADS, THREADS, arguments)
            self.driver.call("cuCtxSynchronize")
            for index, value in enumerate(self.driver.fetch(place, back)):
                expected = (index * FACTOR & 0xFFFFFFFF) ^ (index >> SHIFT)
                if value != expected:
                    return "the kernel computed {:#x} for element {}, {:#x} is right".format(value, index, expected)
            return None

        return self.checked(look, place)

    def enter(self) -> None:
        self.driver.call("cuCtxSetCurrent", self.handle)

    def leave(self) -> None:
        """Make no context current, as a program finds it that has not used CUDA yet."""
        self.driver.tried("cuCtxSetCurrent", None)
