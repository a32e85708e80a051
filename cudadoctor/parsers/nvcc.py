"""`nvcc --version`: the toolkit's compiler and its version, or that there is none on PATH."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from cudadoctor.model.facts import Fact, Unknown
from cudadoctor.model.values import NVCC, Nvcc
from cudadoctor.model.version import ToolkitVersion
from cudadoctor.parsers.base import Parser, Text
from cudadoctor.parsers.shell import not_found, plain_lines, whole

_RELEASE = re.compile(r"Cuda compilation tools, release (?P<release>\d{1,3}\.\d{1,3})(?:, V(?P<full>\d{1,3}(?:\.\d{1,4}){1,3}))?")
_BUILD = re.compile(r"^\s{0,16}Build (?P<build>cuda_\S{1,100})")
_NOT_FOUND = not_found("nvcc")
_REACH = 3  # lines below the release within which its build line stands


def parse(text: Text) -> Iterator[Fact[Any] | Unknown]:
    """One fact for every `nvcc --version` in the text, in its order."""
    lines = plain_lines(text)
    for number, line in enumerate(lines, 1):
        found = _RELEASE.search(line)
        if found is not None:
            last, build = number, None
            for below in range(number, min(number + _REACH, len(lines))):
                built = _BUILD.match(lines[below])
                if built is not None:
                    last, build = below + 1, built["build"]
                    break
            version = ToolkitVersion(found["full"] or found["release"])
            yield text.fact(NVCC, Nvcc(version=version, build=build), text.quote(number, last), whole=whole(text))
        elif "nvcc" in line and _NOT_FOUND.search(line):
            yield text.fact(NVCC, None, text.quote(number), whole=False)


PARSER = Parser(
    name="nvcc",
    reads=("nvcc",),
    keys=(NVCC.name,),
    parse=parse,
    wakes=("Cuda compilation tools", "nvcc: ", "'nvcc'", "not found: nvcc"),
    absent=(NVCC.name,),
)
