"""The CUDA toolkits that a user's text speaks of: "CUDA 12.2", "cuda-toolkit-11.5", /usr/local/cuda-10.1, and in a wheel's tag (+cu110).

Weaker than what nvcc says: the text may speak of another machine. nvidia-smi's CUDA Version is the driver's and is left out.
"""

from __future__ import annotations

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import CUDA_MENTIONS, CudaMention
from cudadoctor.model.version import ToolkitVersion
from cudadoctor.parsers.base import Output, Parser, Text

_MOST = 12
_MENTION = lazy(
    r"(?i)(?<![\w.])(?:cuda(?:[ -]?(?:toolkit|tools|sdk))?|cudatoolkit|nvcc)(?: version| release)?"
    r"(?: \([^()\n]{1,30}\))?(?:[ :=]{1,3}|[-_@/]|==?)[v(]?"
    r"(?P<version>\d{1,2}\.\d)(?![.\d]{0,6}%)"
)
# The CUDA of a framework's wheel, which brings its own NVRTC: +cu110, mxnet-cu102, cupy-cuda101.
_TAG = lazy(r"(?:\+cu|(?<![\w.])cu|mxnet-cu|cupy-cuda)(?P<major>\d{1,2})(?P<minor>\d)\b")
_IN_BRACKETS = lazy(r"\bnvcc\b(?! ?-)[^.;\n]{1,60}?\(v?(?P<version>\d{1,2}\.\d)\)")  # nvcc is the one of the old machine (9.2)
_FOLDER = lazy(r"CUDA\\{1,2}v(?P<version>\d{1,2}\.\d)\\")  # C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA\v12.4\bin
_DRIVERS_OWN = lazy(r"CUDA Version(?: {2,}:|: {1,4}\S{1,6} {1,12}\|)|CUDA (?:UMD|Driver) Version|[Dd]river [Vv]ersion")
_WORDS = ("uda", "UDA", "nvcc", "NVCC", "+cu", " cu", "-cu")


def parse(text: Text) -> Output:
    """One fact with each version once."""
    found: dict[str, CudaMention] = {}
    for number, line in text.lines_with(_WORDS):
        words = line[:1000]
        if len(found) >= _MOST or _DRIVERS_OWN.search(words):
            continue
        versions = [match["version"] for pattern in (_MENTION, _FOLDER, _IN_BRACKETS) for match in pattern.finditer(words)]
        versions += [f"{match['major']}.{match['minor']}" for match in _TAG.finditer(words)]
        for version in versions:
            if 4 <= int(version.split(".")[0]) <= 20:
                found.setdefault(version, CudaMention(version=ToolkitVersion(version), line=number))
    if found:
        quotes = [text.quote(mention.line) for mention in found.values()]
        yield text.fact(CUDA_MENTIONS, tuple(found.values()), *quotes, whole=False)


_WAKES = (
    "cudatoolkit", "CUDA toolkit", "CUDA Toolkit", "CUDA version", "cuda version", "cuda-toolkit",
    *(f"{word}{mark}{digit}" for word in ("CUDA", "cuda", "Cuda", "nvcc") for mark in " -_=/v" for digit in "1456789"),
    "+cu1",
    "CUDA\\v", "CUDA: ", "cuda: ", "Cuda: ", "NVCC: ", "nvcc: ", "CUDA Version: ", "cupy-cuda", "mxnet-cu", "--gpu-architecture", " nvcc ",
)  # fmt: skip
PARSER = Parser(name="cuda_mentions", keys=(CUDA_MENTIONS.name,), parse=parse, wakes=_WAKES)
