"""Stands in for PyTorch: FAKE_TORCH says how it behaves (works, cpu, cudnn, sleeps, crashes, noisy, wrong)."""

import os
import sys
import time
from types import SimpleNamespace

MODE = os.environ.get("FAKE_TORCH", "works")
__version__ = "2.11.0+cpu" if MODE == "cpu" else "2.11.0+cu130"

if MODE == "sleeps":
    time.sleep(600)
if MODE == "crashes":
    import ctypes

    ctypes.string_at(0)
if MODE == "exits":
    sys.exit("no licence")
if MODE == "cudnn":
    raise ImportError("libcudnn.so.9: cannot open shared object file: No such file or directory")
if MODE == "noisy":
    os.write(2, b"a warning at the import\n")

version = SimpleNamespace(cuda=None if MODE == "cpu" else "13.0")


def _init():
    if MODE == "cpu":
        raise AssertionError("Torch not compiled with CUDA enabled")
    if MODE == "noisy":
        raise RuntimeError("it cannot go on")


class _Tensor:
    def __init__(self, values):
        self.values = list(values)

    def __add__(self, other):
        return _Tensor(a + b for a, b in zip(self.values, other.values, strict=True))

    def sum(self):
        return sum(self.values) + (1 if MODE == "wrong" else 0)


def tensor(values, device):
    assert device == "cuda"
    return _Tensor(values)


cuda = SimpleNamespace(init=_init, device_count=lambda: 1, get_device_name=lambda index: "Fake GPU")
