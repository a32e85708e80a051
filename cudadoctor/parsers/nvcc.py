"""`nvcc --version`, and the compiler that a pasted build runs: its version, or that there is none on PATH. And the toolkits that a user's
listing shows on disk.
"""

from __future__ import annotations

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import LISTED_TOOLKITS, NVCC, Nvcc, Toolkit
from cudadoctor.model.version import ToolkitVersion
from cudadoctor.parsers.attempts import typed
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


_ASKED_BY_PATH = lazy(r"^(?P<path>/(?!usr/bin/)(?:[\w.+-]{1,60}/){1,8})bin/(?:nvcc|ptxas) (?:--version|-V)\b")
_LISTS = lazy(r"^(?:ls|which|type|whereis|find|readlink|realpath)\b")
_SHOWN = lazy(r"(?<![\w/.-])(?P<path>/(?:[\w.+-]{1,60}/){0,6}cuda-(?P<version>\d{1,2}\.\d))/bin/nvcc(?![\w.-])")


def parse_folders(text: Text) -> Output:
    """Each folder once, by its nvcc, or the ptxas that comes with it: started by its whole path, or in a listing. A folder's name alone may
    hold libraries."""
    lines = text.plain_lines
    found: dict[str, tuple[Toolkit, int]] = {}
    for entry in typed(text):
        asked, lists = (form.match(entry.command or "") for form in (_ASKED_BY_PATH, _LISTS))
        for number, line in enumerate(lines[entry.index + 1 : entry.end], entry.index + 2):
            release = _RELEASE.search(line) if asked is not None else None
            if asked is not None and release is not None:
                shown = [(asked["path"].rstrip("/"), release["release"])]
            else:
                named = _SHOWN.finditer(line[:_LONGEST]) if lists is not None and not _MISSING.search(line) else ()
                shown = [(one["path"], one["version"]) for one in named]
            for path, version in shown:
                found.setdefault(path, (Toolkit(path=path, version=ToolkitVersion(version), has_nvcc=True), number))
    if found:
        quotes = map(text.quote, dict.fromkeys(number for _, number in found.values()))
        yield text.fact(LISTED_TOOLKITS, tuple(toolkit for toolkit, _ in found.values()), *quotes, whole=False)


_WAKES = (
    "Cuda compilation tools", "nvcc: ", "'nvcc'", "not found: nvcc", "/bin/nvcc", "bin\\nvcc", "CUDA compiler identification",
    "nvcc : ", "»nvcc«", "«nvcc»", "：未找到命令", '"nvcc"', "“nvcc”", "„nvcc”", "(nvcc:String)",
)  # fmt: skip
PARSERS = (
    parser("nvcc", parse, NVCC, reads=("nvcc",), absent=True, wakes=_WAKES),
    parser("toolkit_folders", parse_folders, LISTED_TOOLKITS, wakes=("/bin/nvcc", "/bin/ptxas")),
)
