"""The rows of the pipeline, in the order in which a person sees them: for what completes a command line too, so nothing is imported."""

ROWS = (
    "gpu", "driver", "device-nodes", "container", "nvidia-smi", "nvml", "libcuda", "visible-devices", "toolkit", "cuda-home",
    "python", "numba", "health", "processes", "smoke", "benchmark",
)  # fmt: skip
