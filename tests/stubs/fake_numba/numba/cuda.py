"""A few functions of numba.cuda.

FAKE_NUMBA names what goes wrong: `wrong` result, `mute` print, `raise` at a launch, `full` memory, asks for its `place`; `alone`: no GPU is used
beside another process of the ladder; `stub`: as numba-cuda it loads libcuda.so by that name, and works where the driver's libcuda.so.1 was
loaded before.
"""

import ctypes
import os
from types import SimpleNamespace

import numpy as np

FAULT = os.environ.get("FAKE_NUMBA", "")
implementation = "Fake"
threadIdx, blockIdx, blockDim = SimpleNamespace(x=0), SimpleNamespace(x=0), SimpleNamespace(x=1)  # noqa: N816


DRIVER_FIRST = True
if FAULT == "stub":
    with open("/proc/self/maps") as maps:
        DRIVER_FIRST = "/libcuda.so.580" in maps.read()
    ctypes.CDLL("libcuda.so")


class Device:
    def __enter__(self):
        if FAULT == "alone":
            with open(f"/proc/{os.getppid()}/task/{os.getppid()}/children") as children:
                if len(children.read().split()) > 1:
                    raise RuntimeError("CUDA-capable device(s) is/are busy or unavailable")
        return self

    def __exit__(self, *_):
        return None


gpus = [Device(), Device()]


class DeviceArray:
    def __init__(self, data):
        self.data, self.size = data, data.size

    def __getitem__(self, index):
        return self.data[index]

    def __setitem__(self, index, value):
        self.data[index] = value

    def copy_to_host(self, target):
        target[:] = self.data
        if FAULT == "wrong":
            target[-1] = 77


def to_device(data):
    return DeviceArray(data.copy())


def device_array(count, dtype):
    return DeviceArray(np.zeros(count, dtype))


def synchronize():
    pass


def current_context():
    if not DRIVER_FIRST:
        raise RuntimeError("function cuInit is not found")
    return SimpleNamespace(get_memory_info=lambda: (1 << 4 if FAULT == "full" else 1 << 40, 1 << 40))


class Kernel:
    def __init__(self, function):
        self.function = function

    def __getitem__(self, grid):
        def launch(*arguments):
            if FAULT == "raise":
                raise RuntimeError("no libnvvm\nwas found")
            if FAULT == "place":
                os.path.relpath(__file__)
            if FAULT == "mute" and not arguments:
                return
            blockDim.x = grid[1]
            for blockIdx.x in range(grid[0]):
                for threadIdx.x in range(grid[1]):
                    self.function(*arguments)

        return launch


def jit(function):
    return Kernel(function)
