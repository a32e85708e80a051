"""The CUDA toolkits that a user's text speaks of in prose or in a path: "CUDA 12.2", "cuda-toolkit-11.5", /usr/local/cuda-10.1.

Weaker than what nvcc says: the text may speak of another machine. nvidia-smi's CUDA Version is the driver's and is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cudadoctor.model.facts import Fact, Unknown
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import CUDA_MENTIONS, CudaMention, CudaMentions
from cudadoctor.model.version import ToolkitVersion
from cudadoctor.parsers.base import Parser, Text
from cudadoctor.parsers.shell import pasted, plain_lines

_MOST = 12
_MENTION = lazy(
    r"(?i)(?<![\w.])(?:cuda(?:[ -]?(?:toolkit|tools|sdk))?|cudatoolkit|nvcc)(?: version| release)?(?:[ :=]{1,3}|[-_@/]|==?)[v(]?"
    r"(?P<version>\d{1,2}\.\d)(?![.\d]{0,6}%)"
)
_DRIVERS_OWN = lazy(r"CUDA Version ?:|CUDA (?:UMD|Driver) Version|[Dd]river [Vv]ersion")


def parse(text: Text) -> Iterator[Fact[Any] | Unknown]:
    """One fact with each version once."""
    if not pasted(text):
        return
    found: dict[str, CudaMention] = {}
    seen: set[str] = set()  # logs repeat themselves
    for number, line in enumerate(plain_lines(text), 1):
        if "uda" not in line and "UDA" not in line and "nvcc" not in line and "NVCC" not in line:
            continue
        if line in seen or len(found) >= _MOST:
            continue
        seen.add(line)
        words = line[:1000]
        if _DRIVERS_OWN.search(words):
            continue
        for match in _MENTION.finditer(words):
            if 4 <= int(match["version"].split(".")[0]) <= 20:
                found.setdefault(match["version"], CudaMention(version=ToolkitVersion(match["version"]), line=number))
    if found:
        quotes = [text.quote(mention.line) for mention in found.values()]
        yield text.fact(CUDA_MENTIONS, CudaMentions(mentions=tuple(found.values())), *quotes, whole=False)


_WAKES = (
    "cudatoolkit", "CUDA toolkit", "CUDA Toolkit", "CUDA version", "cuda version", "cuda-toolkit",
    *(f"{word}{mark}{digit}" for word in ("CUDA", "cuda", "Cuda", "nvcc") for mark in " -_=/v" for digit in "1456789"),
    "CUDA: ", "cuda: ", "Cuda: ", "NVCC: ", "nvcc: ",
)  # fmt: skip
PARSER = Parser(name="cuda_mentions", reads=(), keys=(CUDA_MENTIONS.name,), parse=parse, wakes=_WAKES)
