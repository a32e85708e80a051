"""The GPU frameworks that are examined: how a text names them, and how a build and a trial are put into words."""

from __future__ import annotations

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import FrameworkBuild, FrameworkRun

NAMES = ("torch", "tensorflow", "jax", "cupy", "pycuda", "onnxruntime", "bitsandbytes")
# For each framework the literals, one of which stands in every text that names it, and the words that do name it.
_WORDS = (
    ("torch", ("torch", "Torch"), lazy(r"(?<![\w-])(?:torch|pytorch|PyTorch|Torch)(?![\w-])")),
    ("tensorflow", ("tensorflow", "TensorFlow"), lazy(r"(?<![\w-])(?:tensorflow|TensorFlow)(?![\w-])")),
    ("jax", ("import jax", "jax.", "jax/", "jaxlib", "jax_"), lazy(r"(?<![\w-])(?:jax|jaxlib|jax_plugins)(?![\w-])")),
    ("cupy", ("cupy", "CuPy"), lazy(r"(?<![\w-])(?:cupy|CuPy|cupy_backends)(?![\w-])")),
    ("pycuda", ("pycuda", "PyCUDA"), lazy(r"(?<![\w-])(?:pycuda|PyCUDA)(?![\w-])")),
    ("onnxruntime", ("onnxruntime",), lazy(r"(?<![\w-])onnxruntime(?![\w-])")),
    ("bitsandbytes", ("bitsandbytes",), lazy(r"(?<![\w-])bitsandbytes(?![\w-])")),
)
LITERALS = tuple(literal for _, literals, _ in _WORDS for literal in literals)


def named_in(text: str) -> tuple[str, ...]:
    """The frameworks that a text names, in the order of NAMES."""
    return tuple(name for name, literals, words in _WORDS if any(one in text for one in literals) and words.search(text) is not None)


STEPS = {"import": "its import", "devices": "asking for its GPUs", "compute": "computing on a GPU"}


def build_words(build: FrameworkBuild) -> str:
    """`torch 2.11.0 for CUDA 13.0`, `jax 0.8.1, built without CUDA`."""
    version = build.version.text.partition("+")[0]
    if build.kind == "cuda":
        cuda = f" for CUDA {'.'.join(build.cuda.text.split('.')[:2])}" if build.cuda is not None else ""
        several = f" for CUDA {build.builds[0]} to {build.builds[-1]}" if build.builds else ""
        return f"{build.name} {version}{cuda or several}"
    if build.kind == "cpu":
        return f"{build.name} {version}, built without CUDA"
    return f"{build.name} {version}, built for ROCm" if build.kind == "rocm" else f"{build.name} {version}"


def library_words(build: FrameworkBuild) -> str:
    """`; not found: libcudnn.so.9`, where somebody looked."""
    if not build.libraries:
        return ""
    return f"; not found: {', '.join(build.missing)}" if build.missing else "; its CUDA libraries are there"


def run_words(run: FrameworkRun) -> str:
    """How a trial went, in a few words."""
    if run.status == "pass":
        return f"computed on {run.devices[0]}" if run.devices and run.name != "onnxruntime" else "computed on a GPU"
    if run.status == "idle":
        return "imported; no GPU to try it on"
    step = STEPS.get(run.step or "", "its start")
    if run.status == "hang":
        return f"{step} gave no answer ({run.why})"
    if run.status == "crash":
        return f"{step} ended its process ({run.why})"
    if run.status == "unknown":
        return f"not tried ({run.why})"
    lost = f", {run.library} was not loaded" if run.library is not None and run.library not in (run.why or "") else ""
    return f"{step} failed{lost}: {run.why or 'no reason given'}"
