"""Worker: one GPU framework, imported in the examined interpreter, asked for its GPUs, and made to compute on the first of them.

Started as `[python, "-u", "-B", /abs/frameworks.py, NAME, "--devices"?]`, one process for each framework, because any of them may crash,
hang or leave the process unusable. It writes JSON lines as ladder.py does: one when a step begins and one when it ends (import, devices,
compute), a failing one with what the framework printed and raised. `--devices`: CUDA counted GPUs here; without it nothing is computed,
and only what needs no GPU is tried (libraries that load, a build that has no CUDA, nvcc).
"""

from __future__ import annotations

import sys

sys.path.insert(0, __file__.replace("\\", "/").rpartition("/")[0])
from cudadoctor_lines import TYPE_CHECKING, sibling  # which takes that folder off the path again

# isort: split
import importlib
import os
import re
import traceback

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

climbing = sibling("climbing")
ADDED = (1.0, 2.0, 3.0, 4.0)  # twice this is 20
SUM = 20.0
# Without the first two JAX and TensorFlow take most of the GPU's memory; by the third TensorFlow names the libraries that do not load.
SETTINGS = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "TF_FORCE_GPU_ALLOW_GROWTH": "true", "TF_CPP_VMODULE": "dso_loader=1"}
EARLIER = 8000  # characters of what passing steps printed that a failing one is shown with
KERNEL = "__global__ void twice(float *values) { values[threadIdx.x] *= 2; }"


class Failed(Exception):
    """A step failed without raising: what the framework says of it is all there is."""


class Idle(Exception):
    """Nothing to try here: no GPU answers."""


class Framework:
    """One framework. A subclass says how it is imported, what its GPUs are, and the smallest thing that it can compute."""

    module = ""

    def __init__(self, devices: bool) -> None:
        self.answering = devices  # CUDA counted GPUs
        self.package: Any = None

    def load(self) -> dict[str, Any]:
        self.package = importlib.import_module(self.module)
        return {"version": str(getattr(self.package, "__version__", "") or "") or None, "path": getattr(self.package, "__file__", None)}

    def devices(self) -> list[str]:
        """The GPUs that it sees, by name."""
        raise NotImplementedError

    def compute(self) -> float:
        """The sum of 1, 2, 3, 4, each taken twice by the GPU."""
        values = self.values()
        return float((values + values).sum())

    def values(self) -> Any:
        """1, 2, 3, 4 as an array of this framework's, on the GPU."""
        raise NotImplementedError


class Torch(Framework):
    module = "torch"

    def devices(self) -> list[str]:
        torch = self.package
        if torch.version.cuda is None or self.answering:
            torch.cuda.init()  # says why it cannot; is_available() says nothing
        elif not self.answering:
            raise Idle
        return self.names(torch)

    @staticmethod
    def names(torch: Any) -> list[str]:
        return [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]

    def values(self) -> Any:
        return self.package.tensor(ADDED, device="cuda")


class Tensorflow(Framework):
    module = "tensorflow"

    def devices(self) -> list[str]:
        tensorflow = self.package
        if not tensorflow.test.is_built_with_cuda():
            raise Failed("tf.test.is_built_with_cuda()\nFalse")
        if not self.answering:
            raise Idle
        found = [device.name for device in tensorflow.config.list_physical_devices("GPU")]
        if not found:
            raise Failed("tf.config.list_physical_devices('GPU')\n[]")
        return found

    def compute(self) -> float:
        with self.package.device("/GPU:0"):
            values = self.package.constant(ADDED)
            return float(self.package.reduce_sum(values + values))


class Jax(Framework):
    module = "jax"

    def devices(self) -> list[str]:
        self.package.devices()  # what a plugin has to say it says here
        if not self.answering and re.search(r"^cuda\d", self.plugin()):
            raise Idle
        return [str(device) for device in self.package.devices("gpu")]

    def plugin(self) -> str:
        """`cuda12` where a plugin for CUDA was found and could be initialised."""
        try:
            backends = importlib.import_module("jax._src.xla_bridge").backends()
            return " ".join(sorted(name for name in backends if name != "cpu"))
        except Exception:
            return ""

    def values(self) -> Any:
        return self.package.numpy.array(ADDED)


class Cupy(Framework):
    module = "cupy"

    def devices(self) -> list[str]:
        importlib.import_module("cupy_backends.cuda.libs.cublas")  # its libraries are asked for when they are used
        if not self.answering:
            raise Idle
        runtime = self.package.cuda.runtime
        return [runtime.getDeviceProperties(index)["name"].decode() for index in range(runtime.getDeviceCount())]

    def values(self) -> Any:
        return self.package.array(ADDED, dtype="float32")


class Pycuda(Framework):
    module = "pycuda.driver"

    def devices(self) -> list[str]:
        if not self.answering:
            self.build(arch="sm_75")
            raise Idle
        self.package.init()
        return [self.package.Device(index).name() for index in range(self.package.Device.count())]

    def build(self, **options: Any) -> Any:
        """A kernel by nvcc, which PyCUDA calls at run time; nothing is left in the user's cache."""
        return importlib.import_module("pycuda.compiler").compile(KERNEL, cache_dir=False, **options)

    def compute(self) -> float:
        importlib.import_module("pycuda.autoinit")
        numpy = importlib.import_module("numpy")
        values = numpy.array(ADDED, dtype=numpy.float32)
        twice = self.package.module_from_buffer(self.build()).get_function("twice")
        twice(self.package.InOut(values), block=(len(ADDED), 1, 1), grid=(1, 1))
        return float(values.sum())


class Onnxruntime(Framework):
    module = "onnxruntime"
    provider = "CUDAExecutionProvider"

    def devices(self) -> list[str]:
        self.session = self.package.InferenceSession(self.model(), providers=[self.provider])
        if self.provider not in self.session.get_providers():
            raise Failed("the session runs on %s" % ", ".join(self.session.get_providers()))
        return [self.provider]

    def compute(self) -> float:
        numpy = importlib.import_module("numpy")
        return float(self.session.run(None, {"x": numpy.array(ADDED, dtype=numpy.float32)})[0].sum())

    @staticmethod
    def model() -> bytes:
        """y = x + x for four numbers, as ONNX writes it (protobuf, put together by hand)."""

        def field(number: int, body: bytes) -> bytes:
            return bytes([number << 3 | 2, len(body)]) + body

        def whole(number: int, value: int) -> bytes:
            return bytes([number << 3, value])

        shape = field(1, whole(1, len(ADDED)))
        kind = field(2, field(1, whole(1, 1) + field(2, shape)))
        node = field(1, b"x") + field(1, b"x") + field(2, b"y") + field(4, b"Add")
        graph = field(1, node) + field(2, b"g") + field(11, field(1, b"x") + kind) + field(12, field(1, b"y") + kind)
        return whole(1, 8) + field(7, graph) + field(8, whole(2, 13))


class Bitsandbytes(Framework):
    module = "bitsandbytes"

    def devices(self) -> list[str]:
        if not self.answering:
            raise Idle
        torch = importlib.import_module("torch")
        torch.cuda.init()
        return Torch.names(torch)

    def compute(self) -> float:
        torch = importlib.import_module("torch")
        functional = importlib.import_module("bitsandbytes.functional")
        packed, state = functional.quantize_blockwise(torch.tensor(ADDED * 64, device="cuda"))
        restored = functional.dequantize_blockwise(packed, state)
        return round(float(restored.sum()) / 32)  # it rounds each number to 8 bits


FRAMEWORKS = {
    "torch": Torch, "tensorflow": Tensorflow, "jax": Jax, "cupy": Cupy, "pycuda": Pycuda, "onnxruntime": Onnxruntime,
    "bitsandbytes": Bitsandbytes,
}  # fmt: skip


# ---------------------------------------------------------------- the steps
def told(error: BaseException) -> str:
    """The traceback as the user's own program would show it: without the frames of this file."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace))


class Climb:
    """Import, GPUs, computation, as far as they hold."""

    def __init__(self, worker: Any, framework: Framework) -> None:
        self.worker, self.framework = worker, framework
        self.printed = ""  # by the steps that passed: many a framework says at its import why it will not compute

    def all(self) -> None:
        for name, action in (("import", self.framework.load), ("devices", self.devices), ("compute", self.compute)):
            if not self.worker.climb(name, lambda action=action: self.step(action)):
                return

    def step(self, action: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """A step as the ladder's Worker takes it: what is raised becomes its output; where no GPU is there it is left out."""
        try:
            result = action()
        except Idle:
            return {"status": "skip", "why": "no GPU answered CUDA"}
        except Failed as failure:
            raise climbing.RungError(self.printed + str(failure), why=str(failure)[:300]) from None
        except BaseException as error:  # an import may raise anything, SystemExit too
            why = ("%s: %s" % (type(error).__name__, error))[:300]
            raise climbing.RungError(self.printed + told(error), why=why) from None
        self.printed = (self.printed + self.worker.capture.text())[-EARLIER:]
        return result

    def devices(self) -> dict[str, Any]:
        found = self.framework.devices()
        if not found:
            raise Failed("it sees no GPU")
        return {"devices": found}

    def compute(self) -> dict[str, Any]:
        result = self.framework.compute()
        if result != SUM:
            raise Failed("1, 2, 3 and 4 were doubled and added to %s, which should be %s" % (result, SUM))
        return {}


def main(arguments: list[str]) -> None:
    """Set up the descriptors, climb, and leave without tearing anything down."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    worker = climbing.started()
    name = arguments[0] if arguments else ""
    worker.emit("start", framework=name, python=sys.executable, devices="--devices" in arguments)
    if name in FRAMEWORKS:
        framework = FRAMEWORKS[name]("--devices" in arguments)
        worker.guard(name, lambda: Climb(worker, framework).all())
    worker.emit("done")
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
