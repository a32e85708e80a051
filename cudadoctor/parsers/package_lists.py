"""Package lists in a user's text: pip list, pip freeze, conda list, and the lists inside collect_env and `numba -s`.

Only packages whose versions somebody compares are taken, so a line needs no header around it: greps and prose cut headers away.
"""

from __future__ import annotations

import re

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import LISTED_PACKAGES, ListedPackage, ListedPackages
from cudadoctor.model.version import PackageVersion
from cudadoctor.parsers.base import Output, Text, parser
from cudadoctor.parsers.shell import command

_QUOTES = 40
_LONGEST = 300  # characters of a line of such a list
_NAMES = (
    r"(?:nvidia[-_][a-z0-9_-]{2,40}|cuda[-_](?:toolkit|version|bindings|core|python|pathfinder|cudart|nvrtc|nvcc|nvvm|runtime)(?:[-_]cu\d\d)?"
    r"|cudatoolkit|cudnn|cupy(?:[-_][a-z0-9_]{2,14})?|numba(?:[-_]cuda)?|llvmlite|numpy|pynvml|nvidia-ml-py3?"
    r"|torch(?:vision|audio)?|pytorch(?:[-_](?:cuda|mutex|triton))?|cpuonly|triton|xformers|flash[-_]attn|bitsandbytes|deepspeed"
    r"|tensorflow(?:[-_](?:gpu|cpu|intel|base|estimator))?|tf[-_]nightly(?:[-_]gpu)?|jax(?:lib)?|jax[-_]cuda\d\d[-_](?:plugin|pjrt)"
    r"|onnxruntime(?:[-_](?:gpu|directml|training))?|ctranslate2|faster[-_]whisper|paddlepaddle(?:[-_]gpu)?|mxnet(?:[-_]cu\d{2,3})?|cudf|cuml|rmm)"
    r"(?:[-_]cu\d\d)?"
)
_VERSION = r"v?(?P<version>\d{1,4}(?:\.\w{1,14}){1,5})(?:\+(?P<tag>[\w.]{1,30}))?"
# [pip3] torch==1.5.0+cu101; torch  1.5.0  py3.7_cuda10.1_0  pytorch; jaxlib: 0.4.14; torch-2.0.1+cpu
_LINE = lazy(
    rf"^[\s>*•+~-]{{0,12}}(?:\[(?:pip3?|conda|mamba|uv)\]\s{{1,8}})?[\"']?(?P<name>{_NAMES})[\"']?\s{{0,60}}"
    rf"(?:==|[ :=@]|-(?=\d))\s{{0,60}}[\"']?{_VERSION}"
    r"(?P<rest>(?:\s{1,40}\S{1,120}){0,5})\s*$",
    re.IGNORECASE,
)
_OF_UV = lazy(r"^ [+~] [\w.-]{1,60}==[\w.+-]{1,60}$")  # installed; a shell that traces writes its commands in much the same way
_SHOW = lazy(r"^(?:Name: | name {1,12}: )(?P<name>[\w.-]{2,60})$")  # pip show, poetry show
_SHOWN = lazy(r"^(?:Version: | version {1,12}: )(?P<version>\S{1,60})$")
# "torch 1.7.1 cuda 11.0": words behind the version are a build string and a channel, not further versions. pixi puts a size between them.
_BUILD = lazy(
    r"^\s{1,40}(?P<build>[\w.]*(?:cuda|cpu|py\d|_\d|h[0-9a-f]{7})[\w.*]*)(?:\s{1,40}[\d.]{1,8} [KMG]iB)?"
    r"(?:\s{1,40}\[?[\w./:-]{1,60}\]?){0,2}$"
)


def parse(text: Text) -> Output:
    """One fact with every watched package that a line of the text gives a version of."""
    found: dict[tuple[str, str], ListedPackage] = {}
    came: set[str] = set()
    lines = text.plain_lines
    for number, line in enumerate(lines, 1):
        if len(line) > _LONGEST:
            continue
        if line.startswith(("Name: ", " name")) and (shown := _SHOW.match(line)) is not None and number < len(lines):
            below = _SHOWN.match(lines[number])  # they are written on two lines
            line, number = (f"{shown['name']}=={below['version']}", number + 1) if below is not None else (line, number)
        package = _package(line, number)
        if package is not None and (_OF_UV.match(line) is not None or command(lines[number - 1]) is None):
            found.setdefault((package.name, package.version.text), package)
            came |= {package.name} if line.startswith(" + ") else set()
    # What uv took away for another version is gone; where no other came, such a line may be an item of somebody's list.
    found = {key: one for key, one in found.items() if not (one.name in came and lines[one.line - 1].startswith(" - "))}
    if found:
        quotes = [text.quote(package.line) for package in found.values()]
        yield text.fact(LISTED_PACKAGES, ListedPackages(packages=tuple(found.values())), *quotes[:_QUOTES], whole=False)


def _package(line: str, number: int) -> ListedPackage | None:
    match = _LINE.match(line)
    if match is None:
        return None
    built = _BUILD.match(match["rest"]) if match["rest"].strip() else None
    if match["rest"].strip() and built is None and not _is_place(match["rest"]):
        return None
    name = match["name"].lower().replace("_", "-")
    build = match["tag"] or (built["build"] if built is not None else None)
    return ListedPackage(name=name, version=PackageVersion(match["version"]), build=build, line=number)


def _is_place(rest: str) -> bool:
    """What pip and conda write behind a version: a channel, a path, the word pypi."""
    words = rest.split()
    return len(words) <= 2 and re.search(r"pypi|conda|defaults|anaconda|nvidia$|pytorch$|[/\\]", words[-1]) is not None


PARSER = parser(
    "package_lists", parse, LISTED_PACKAGES,
    wakes=(
        "torch ", "torch=", "torch:", "pytorch", "nvidia-", "cuda-t", "cuda-b", "cuda-v", "cudatoolkit", "cudnn ", "cupy-c", "cupy==",
        "cupy  ", "numba ", "numba=", "numba-", "llvmlite", "pynvml", "tensorflow", "jaxlib", "onnxruntime", "xformers", "flash-",
        "flash_", "bitsandbytes", "paddlepaddle", "mxnet ", "mxnet-", "mxnet=", "ctranslate2", "Name: ", " name  ",
    ),
)  # fmt: skip
