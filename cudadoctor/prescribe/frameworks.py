"""What fits a framework here: which one a finding speaks of, PyTorch's index, cuDNN's package, the host compiler, architecture lists."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import FRAMEWORKS, NVCC
from cudadoctor.model.version import ComputeCapability, ToolkitVersion
from cudadoctor.prescribe import pip
from cudadoctor.prescribe.case import Case

# The first whose words stand in the finding's lines. PyTorch last: its name stands in the lines of those that build on it.
_WORDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("jax", lazy(r"(?i)\bjax|xla_bridge|GpuAllocatorConfig|instances of gpu|GPU/TPU found")),
    ("onnxruntime", lazy(r"(?i)onnx|ExecutionProvider|provider_bridge_ort")),
    ("tensorflow", lazy(r"(?i)tensorflow|dso_loader|dlopen some GPU|device appears to be a GPU|Loaded runtime CuDNN|tf\.")),
    ("cupy", lazy(r"(?i)cupy")),
    ("ctranslate2", lazy(r"(?i)ctranslate2|whisper|is not found or cannot be loaded|Could not locate c")),
    ("bitsandbytes", lazy(r"(?i)bitsandbytes|CUDA[ _]SETUP")),
    ("torch", lazy(r"(?i)torch|version that was used to compile")),
)
_CUDNN = lazy(r"libcudnn\w*\.so\.(\d)|cudnn\w*64_(\d)|\((\d), \d+, \d+\)|cuDNN version (\d)")
BLACKWELL = ComputeCapability("10.0")


def framework(case: Case) -> str | None:
    """The framework that the finding speaks of, None where no line names one."""
    stated = case.value("framework")
    if stated is not None:
        return stated
    text = "\n".join(quote.text for quote in case.root.evidence)
    named = next((name for name, pattern in _WORDS if pattern.search(text)), None)
    return named or ("torch" if case.get(FRAMEWORKS) is not None else None)


def on_windows(case: Case) -> bool:
    """Windows, or a finding whose lines speak of its compiler and files."""
    text = "\n".join(quote.text for quote in case.root.evidence)
    return (
        case.windows
        or re.search(r"Visual Studio|\bcl\.exe|compiler version for cl\b|STL1002|WinError|\.dll\b|\b[A-Z]:\\", text) is not None
    )


def torch_index(case: Case) -> tuple[str, str] | None:
    """PyTorch's index whose wheels run on this driver and hold code for every GPU, and what pip is asked for. None: not known, or none."""
    capabilities = case.gpus.capabilities
    if case.cuda is None and not capabilities:
        return None
    fits = [row for row in case.knowledge.torch_indexes if all(row.serves(one) for one in capabilities)]
    if case.cuda is not None:
        fits = [row for row in fits if row.toolkit.major <= case.cuda.major]
    if not fits:
        return None
    # The newest CUDA that fits; GPUs before Blackwell are served longest by the one that keeps the old generations.
    row = fits[-1] if not capabilities or max(capabilities) >= BLACKWELL else next((row for row in fits if row.tag == "cu126"), fits[-1])
    major, minor = (int(part) for part in row.last_torch.split(".")) if row.last_torch is not None else (0, 0)
    return row.tag, f"torch<{major}.{minor + 1}" if row.last_torch is not None else "torch"


def cudnn_requirement(case: Case) -> str:
    """cuDNN's wheel of the major version that the message asks for."""
    text = "\n".join(quote.text for quote in case.root.evidence)
    found = _CUDNN.search(text)
    major = int(next(group for group in found.groups() if group)) if found is not None else 9
    series = pip.series(case) or "cu12"
    return f"nvidia-cudnn-{'cu12' if series == 'cu11' and major >= 9 else series}=={major}.*"


def toolkit_in_use(case: Case) -> ToolkitVersion | None:
    """The compiler that builds here: nvcc, as far as anything names its version."""
    nvcc = case.get(NVCC)
    if nvcc is not None:
        return nvcc.version
    stated = re.search(r"(?i)cuda[-_/\\]{1,2}v?(\d{1,2}\.\d)[/\\]", "\n".join(quote.text for quote in case.root.evidence))
    return ToolkitVersion(stated[1]) if stated is not None else None


def newest_gcc(case: Case) -> str | None:
    """The newest gcc that this nvcc accepts: as its own message says, else by the tables."""
    said = re.search(r"gcc versions later than (\d{1,2})(?:\.\d)? are not supported", "\n".join(quote.text for quote in case.root.evidence))
    if said is not None:
        return said[1]
    version = toolkit_in_use(case)
    row = case.knowledge.toolkit(version) if version is not None else None
    return str(row.gcc_max) if row is not None else None


def architectures(case: Case) -> tuple[str, ...]:
    """The GPUs' capabilities as builds write them: 8.6."""
    return tuple(capability.text for capability in case.gpus.capabilities)


Found = Iterator[tuple[str, "str | tuple[str, ...] | None"]]


def values(case: Case) -> Found:
    """The placeholders of recipes about frameworks and builds."""
    index = torch_index(case)
    yield "torch_index", index[0] if index is not None else None
    yield "torch_requirement", index[1] if index is not None else None
    series = pip.series(case)
    yield "jax_requirement", f"jax[{'cuda13' if series == 'cu13' else 'cuda12'}]" if series in ("cu12", "cu13") else None
    yield "cupy_requirement", f"cupy-cuda{series[2:]}x" if series is not None else None
    yield "cudnn_requirement", cudnn_requirement(case)
    gcc = newest_gcc(case)
    yield "gcc", gcc
    chosen = architectures(case)
    yield "arch_list", ";".join(chosen) or None
    yield "cmake_architectures", ";".join(text.replace(".", "") for text in chosen) or None
    state = case.get(FRAMEWORKS)
    built = state.cuda if state is not None else None
    stated = re.search(r"PyTorch \((\d{1,2}\.\d)\)", "\n".join(quote.text for quote in case.root.evidence))
    told = case.value("torch_cuda")
    yield "torch_cuda", told if told is not None else stated[1] if stated is not None else built.text if built is not None else None
