"""The closed list of what a requirement can name: what each compares, who answers, and what it means."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from cudadoctor.model.requirements import Kind
from cudadoctor.policy import gpus, software
from cudadoctor.policy.base import Question


class Entry(msgspec.Struct, frozen=True):
    """One name: what it compares, how it is asked, what it means. `alone`: the name alone is a demand."""

    kind: Kind
    ask: Question
    meaning: str
    alone: bool = False


_RATES = {
    "h2d-bandwidth": ("h2d_pinned", "copies from the host, pinned memory"),
    "d2h-bandwidth": ("d2h_pinned", "copies to the host, pinned memory"),
    "memory-bandwidth": ("d2d", "the GPU's own memory, bytes read and written"),
    **{
        name.replace("_", "-"): (name, f"the benchmark's figure {name}")
        for name in (
            "h2d_pinned", "d2h_pinned", "both_pinned", "h2d_pageable", "d2h_pageable", "both_pageable", "d2d", "d2d_kernel", "device_read",
            "shared_memory", "peer", "peer_both",
        )
    },
}  # fmt: skip
_TIMES = ("launch_latency", "launch_queued", "launch_graph", "memory_latency", "context_creation", "jit_compile", "peer_latency")
_FRAMEWORKS = ("torch", "tensorflow", "jax", "cupy")

_TENSOR = {
    "tensor": ("rate of the tensor cores", ("fp16", "bf16", "tf32", "fp8", "fp4", "int8", "fp64")),
    "product": ("matrix product on the tensor cores", ("fp16", "bf16", "tf32", "fp8", "int8")),
    "cublas": ("the same product by cuBLAS", ("fp16", "bf16", "tf32", "int8")),
    "sustained": ("throughput in the second half of bench --sustained", ("bf16", "fp32")),
}
QUESTIONS: Mapping[str, Entry] = {
    "gpus": Entry("count", gpus.gpus, "GPUs that CUDA shows"),
    "gpu-name": Entry("words", gpus.name, "every GPU's name; ~ asks for a part of it"),
    "compute-capability": Entry("version", gpus.capability, "every GPU's compute capability"),
    "memory": Entry("size", gpus.memory, "every GPU's memory"),
    "free-memory": Entry("size", gpus.free_memory, "memory of every GPU that nobody uses"),
    "exclusive": Entry("switch", gpus.alone, "no other process is on any GPU", alone=True),
    "ecc": Entry("switch", gpus.switch("ecc_mode"), "error correction of the memory", alone=True),
    "ecc-errors": Entry("count", gpus.ecc_errors, "uncorrected memory errors since the driver was loaded"),
    "persistence": Entry("switch", gpus.switch("persistence"), "persistence mode", alone=True),
    "mig": Entry("switch", gpus.switch("mig_mode"), "whether the GPU is cut into instances", alone=True),
    "pcie-width": Entry("count", gpus.pcie("width"), "lanes of the PCIe link"),
    "pcie-generation": Entry("count", gpus.pcie("generation"), "generation of the PCIe link while it copies"),
    "nvlink": Entry("switch", gpus.nvlink, "every NVLink of every GPU is up", alone=True),
    "driver": Entry("version", software.driver, "the driver's version", alone=True),
    "driver-branch": Entry("count", software.branch, "the first number of the driver's version"),
    "cuda": Entry("version", software.cuda, "the newest CUDA that the driver supports"),
    "toolkit": Entry("version", software.toolkit, "the CUDA toolkit: nvcc, else what Numba would load", alone=True),
    "container-gpu": Entry("switch", software.container_gpu, "an engine for containers is set up to hand GPUs on", alone=True),
    **{
        name: Entry("version", software.package(name), f"the package {name} of the examined Python", alone=True)
        for name in ("numba", "numba-cuda", "numpy", "llvmlite", "cuda-bindings", "nvidia-ml-py", *_FRAMEWORKS)
    },
    **{
        f"{name}-cuda": Entry("version", software.built_for(name), f"the CUDA version that {name} was built for", alone=True)
        for name in _FRAMEWORKS
    },
    "smoke": Entry("switch", gpus.smoke, "Numba kernels ran on every GPU, and every result was right", alone=True),
    **{name: Entry("rate", gpus.figure(figure), meaning) for name, (figure, meaning) in _RATES.items()},
    **{name.replace("_", "-"): Entry("time", gpus.figure(name), f"the benchmark's figure {name}") for name in _TIMES},
    **{name: Entry("flops", gpus.figure(name), f"arithmetic, {name}") for name in ("fp16", "bf16", "fp32", "fp64")},
    **{
        f"{what}-{kind}": Entry("operations" if kind == "int8" else "flops", gpus.figure(f"{what}_{kind}"), f"{meaning}, {kind}")
        for what, (meaning, kinds) in _TENSOR.items()
        for kind in kinds
    },
    **{
        name.replace("_", "-"): Entry("operations", gpus.figure(name), f"the benchmark's figure {name}")
        for name in ("atomics", "atomics_same")
    },
}
KINDS: Mapping[str, Kind] = {name: entry.kind for name, entry in QUESTIONS.items()}
ALONE = frozenset(name for name, entry in QUESTIONS.items() if entry.alone)
KERNELS = frozenset(
    name
    for name, entry in QUESTIONS.items()
    if entry.kind in ("rate", "time", "flops", "operations") or name in ("smoke", "pcie-generation")
)
