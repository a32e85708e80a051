"""Facts to clues: one module per row of the pipeline. ROWS lists all of them; rows.py gets each from its module."""

ROWS = (
    "gpu", "driver", "device-nodes", "container", "nvidia-smi", "nvml", "libcuda", "visible-devices", "toolkit", "cuda-home",
    "python", "numba", "health", "processes", "smoke", "benchmark",
)  # fmt: skip
