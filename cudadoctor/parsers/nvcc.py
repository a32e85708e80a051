"""`nvcc --version`, and the compiler that a pasted build runs: its version, or that there is none on PATH."""

from __future__ import annotations

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import NVCC, Nvcc
from cudadoctor.model.version import ToolkitVersion
from cudadoctor.parsers.base import Output, Text, parser
from cudadoctor.parsers.shell import not_found

_RELEASE = lazy(r"Cuda compilation tools, release (?P<release>\d{1,3}\.\d{1,3})(?:, V(?P<full>\d{1,3}(?:\.\d{1,4}){1,3}))?")
_BUILD = lazy(r"^\s{0,16}Build (?P<build>cuda_\S{1,100})")
# The compiler that a build runs, by its folder or as CMake identifies it: /usr/local/cuda-11.2/bin/nvcc, CUDA\v11.8\bin\nvcc.exe
_IN_A_BUILD = lazy(
    r"(?:cuda[-_/]|CUDA\\{1,2}v)(?P<folder>\d{1,2}\.\d)(?:\.\d)?(?:/|\\{1,2})bin(?:/|\\{1,2})nvcc"
    r"|The CUDA compiler identification is NVIDIA (?P<cmake>\d{1,2}\.\d{1,2}(?:\.\d{1,4})?)"
)
_MISSING = lazy(r"No such file|not found|cannot (?:access|find)|NOTFOUND")
_NOT_FOUND = not_found("nvcc")
_LONGEST = 4000  # characters of a build's line that are read
_REACH = 3  # lines below the release within which its build line stands


def parse(text: Text) -> Output:
    """One fact for every `nvcc --version` in the text, in its order."""
    lines = text.plain_lines
    for number, line in enumerate(lines, 1):
        found = _RELEASE.search(line)
        if found is not None:
            below = ((last, _BUILD.match(line)) for last, line in enumerate(lines[number : number + _REACH], number + 1))
            last, build = next(((last, shown["build"]) for last, shown in below if shown is not None), (number, None))
            # Up to CUDA 4 the full number was another count (release 4.0, V0.2.1221).
            full = found["full"] if (found["full"] or "").startswith(f"{found['release']}.") else None
            version = ToolkitVersion(full or found["release"])
            yield text.fact(NVCC, Nvcc(version=version, build=build), text.quote(number, last))
        elif "nvcc" in line and _NOT_FOUND.search(line):
            yield text.fact(NVCC, None, text.quote(number), whole=False)
        elif ("cuda" in line or "CUDA" in line) and text.pasted and (built := _IN_A_BUILD.search(line[:_LONGEST])) is not None:
            if _MISSING.search(line):
                continue
            yield text.fact(NVCC, Nvcc(version=ToolkitVersion(built["folder"] or built["cmake"])), text.quote(number), whole=False)


PARSER = parser(
    "nvcc", parse, NVCC, reads=("nvcc",), absent=True,
    wakes=(
        "Cuda compilation tools", "nvcc: ", "'nvcc'", "not found: nvcc", "/bin/nvcc", "bin\\nvcc", "CUDA compiler identification",
        "nvcc : ", "»nvcc«", "«nvcc»", "：未找到命令", '"nvcc"', "“nvcc”", "„nvcc”", "(nvcc:String)",
    ),
)  # fmt: skip
