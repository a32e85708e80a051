"""The driver's library, libcuda, by ctypes. Loaded by its path, from ladder.py and on_gpus.py."""

from __future__ import annotations

import ctypes
import sys

from cudadoctor_lines import TYPE_CHECKING, sibling

if TYPE_CHECKING:
    from typing import Any

RungError = sibling("climbing").RungError
ON_WINDOWS = sys.platform == "win32"
LIBRARY = "nvcuda.dll" if ON_WINDOWS else "libcuda.so.1"
LOG_SIZE = 8192  # bytes for the messages of the driver's compiler
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


def open_library() -> Any:
    """The driver's library."""
    # On 32-bit Windows its functions clear the stack themselves, which CDLL does not expect.
    return getattr(ctypes, "WinDLL" if ON_WINDOWS else "CDLL")(LIBRARY)


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

    def compiled(self, text: str) -> Any:
        """A module of PTX, compiled by the driver. `log` of the error: what its compiler says."""
        log, module = ctypes.create_string_buffer(LOG_SIZE), ctypes.c_void_p()
        options = (ctypes.c_int * 2)(5, 6)  # CU_JIT_ERROR_LOG_BUFFER and its size
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), LOG_SIZE)
        data = ctypes.c_char_p(text.encode("ascii"))
        try:
            self.call("cuModuleLoadDataEx", ctypes.byref(module), data, ctypes.c_uint(2), options, values)
        except RungError as error:
            error.log = log.value.decode("utf-8", "replace").strip()
            raise
        return module

    def kernel(self, module: Any, name: str) -> Any:
        """A kernel of a module."""
        entry = ctypes.c_char_p(b"cudadoctor_" + name.encode("ascii"))
        return ctypes.c_void_p(self.value(ctypes.c_void_p, "cuModuleGetFunction", module, entry))

    def launch(self, kernel: Any, blocks: int, threads: int, arguments: Any = None, stream: Any = None, shared: int = 0) -> None:
        """Queue a kernel. `shared`: bytes of dynamic shared memory."""
        one, grid, block, dynamic = (ctypes.c_uint(number) for number in (1, blocks, threads, shared))
        self.call("cuLaunchKernel", kernel, grid, one, one, block, one, one, dynamic, stream, arguments, None)

    def room(self, size: int) -> Any:
        """Device memory, freed with cuMemFree_v2."""
        return ctypes.c_uint64(self.value(ctypes.c_uint64, "cuMemAlloc_v2", ctypes.c_size_t(size)))

    def send(self, place: Any, data: Any) -> None:
        """A ctypes object to the device. Such a copy may return before it arrived, and no stream of ours waits for it."""
        self.call("cuMemcpyHtoD_v2", place, data, ctypes.c_size_t(ctypes.sizeof(data)))
        self.call("cuCtxSynchronize")

    def fetch(self, place: Any, data: Any) -> Any:
        """Device memory into a ctypes object, which is returned."""
        self.call("cuMemcpyDtoH_v2", data, place, ctypes.c_size_t(ctypes.sizeof(data)))
        return data

    def fill(self, place: Any, byte: int, size: int) -> None:
        self.call("cuMemsetD8_v2", place, ctypes.c_ubyte(byte), ctypes.c_size_t(size))
        self.call("cuCtxSynchronize")

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
